// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/elastic/etcd_security.hpp"
#include "plait/elastic/etcd_text.hpp"

namespace plait::detail {

/// Returns `said`, in which empty members are replaced by the values of environment variables.
[[nodiscard]] etcd_security with_environment(etcd_security said);

/// The servers of an address, the credentials for them, and the token that they have issued to this
/// process.
///
/// Errors:  the errors of etcd_security; input_error for invalid addresses.
/// Threads: any; all connections of a process share the token.
class etcd_access {
 public:
  explicit etcd_access(std::string_view at, etcd_security said = {});

  [[nodiscard]] std::vector<etcd_server> const& servers() const { return servers_; }
  [[nodiscard]] bool is_encrypted() const { return is_encrypted_; }
  [[nodiscard]] etcd_security const& files() const { return said_; }
  [[nodiscard]] bool has_user() const { return !said_.user.empty(); }

  /// The last token that etcd has issued, or "".
  [[nodiscard]] std::string token() const;
  /// Reads etcd's answer to a call with the body `question()`. If the answer contains a token that
  /// can be sent in a request, stores the token and returns true.
  bool take_token(std::string const& answer);
  /// Removes a token that etcd has refused.
  void forget(std::string const& token);
  /// Returns true if an answer says that the token is no longer valid: it has expired, etcd was
  /// started again, or its users have changed. etcd has then not carried out the call.
  [[nodiscard]] static bool is_of_old_token(std::string_view answer);
  /// Returns the body of the call auth/authenticate, with user and password.
  ///
  /// Errors: input_error if the password cannot be read.
  [[nodiscard]] std::string question() const;
  /// Returns a reason if etcd refuses this process because its certificate has a common name, else
  /// "". An etcd with users refuses such a certificate at its JSON gateway, because the gateway
  /// cannot read a user's name from the certificate.
  [[nodiscard]] std::string why_no_certificate(std::string_view answer) const;
  /// Returns the reason why etcd has issued no token. It does not quote etcd's text, which could
  /// contain the password.
  [[nodiscard]] std::string why_no_token(int status, std::string_view answer) const;

 private:
  [[noreturn]] static void refuse(std::string const& what, std::string const& instead);

  std::vector<etcd_server> servers_;
  etcd_security said_;
  bool is_encrypted_;
  mutable std::mutex mutex_;
  std::string token_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/etcd_access.ipp"
#endif
