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

/// What nobody says stands in the environment.
[[nodiscard]] etcd_security with_environment(etcd_security said);

/// How the servers of an address are reached, with the token by which they know this process.
///
/// Errors:  input_error as etcd_security says, and for addresses that cannot be.
/// Threads: any; all connections of a process share the token.
class etcd_access {
 public:
  explicit etcd_access(std::string_view at, etcd_security said = {});

  [[nodiscard]] std::vector<etcd_server> const& servers() const { return servers_; }
  [[nodiscard]] bool is_encrypted() const { return is_encrypted_; }
  [[nodiscard]] etcd_security const& files() const { return said_; }
  [[nodiscard]] bool has_user() const { return !said_.user.empty(); }

  /// The token that etcd has given last; empty: there is none.
  [[nodiscard]] std::string token() const;
  /// Takes etcd's answer to a call with `question()`; whether it has a token that can be sent.
  bool take_token(std::string const& answer);
  /// etcd does not take this one any more.
  void forget(std::string const& token);
  /// Whether an answer says that a token is too old: it has expired, etcd was started again, or its
  /// users have changed. Then nothing has been done.
  [[nodiscard]] static bool is_of_old_token(std::string_view answer);
  /// The body of auth/authenticate.
  ///
  /// Errors: input_error if the password cannot be read.
  [[nodiscard]] std::string question() const;
  /// "" if it is not that. Where etcd has users, its gateway for JSON takes no name out of a
  /// certificate, and refuses one that has one.
  [[nodiscard]] std::string why_no_certificate(std::string_view answer) const;
  /// Why etcd has given no token, in words of ours: its own could repeat what it was sent.
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
