// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/password_file.hpp"
#include "plait/core/quote.hpp"
#include "plait/elastic/etcd_security.hpp"
#include "plait/elastic/etcd_text.hpp"

namespace plait::detail {

/// What nobody says stands in the environment.
[[nodiscard]] inline etcd_security with_environment(etcd_security said) {
  auto const fill = [](auto& what, char const* name) {
    char const* const value = std::getenv(name);
    if (what.empty() && value != nullptr) what = value;
  };
  fill(said.ca, "PLAIT_ELASTIC_CA");
  fill(said.certificate, "PLAIT_ELASTIC_CERT");
  fill(said.key, "PLAIT_ELASTIC_KEY");
  fill(said.user, "PLAIT_ELASTIC_USER");
  fill(said.password_file, "PLAIT_ELASTIC_PASSWORD_FILE");
  return said;
}

/// How the servers of an address are reached, with the token by which they know this process.
///
/// Errors:  input_error as etcd_security says, and for addresses that cannot be.
/// Threads: any; all connections of a process share the token.
class etcd_access {
 public:
  explicit etcd_access(std::string_view at, etcd_security said = {})
      : servers_(etcd_servers(at)),
        said_(std::move(said)),
        is_encrypted_(at.starts_with(etcds_scheme)) {
    if (said_.certificate.empty() != said_.key.empty())
      refuse("a certificate and its key belong together",
             "both of .certificate (PLAIT_ELASTIC_CERT) and .key (PLAIT_ELASTIC_KEY), or none");
    if (said_.user.empty() != said_.password_file.empty())
      refuse("a user and a password belong together",
             "both of .user (PLAIT_ELASTIC_USER) and .password_file (PLAIT_ELASTIC_PASSWORD_FILE), "
             "or none");
    if (!is_encrypted_ && !(said_.ca.empty() && said_.certificate.empty()))
      refuse(concat({"certificates are given, but connections to ", in_quotes(at),
                     " are not encrypted"}),
             "etcds://host:port");
    if (!is_encrypted_ && has_user() && !std::ranges::all_of(servers_, &etcd_server::is_here))
      refuse(concat({"a password would go to ", in_quotes(at), " for everybody to read"}),
             "etcds://host:port");
    if (!said_.ca.empty()) open_file const found(said_.ca, "etcd's CA file");
    if (!said_.certificate.empty())
      open_file const found(said_.certificate, "certificate for etcd");
    if (!said_.key.empty()) require_private(open_file(said_.key, "key for etcd"));
    if (has_user()) static_cast<void>(read_password(said_.password_file));
  }

  [[nodiscard]] std::vector<etcd_server> const& servers() const { return servers_; }
  [[nodiscard]] bool is_encrypted() const { return is_encrypted_; }
  [[nodiscard]] etcd_security const& files() const { return said_; }
  [[nodiscard]] bool has_user() const { return !said_.user.empty(); }

  /// The token that etcd has given last; empty: there is none.
  [[nodiscard]] std::string token() const {
    std::scoped_lock const lock{mutex_};
    return token_;
  }
  /// Takes etcd's answer to a call with `question()`; whether it has a token that can be sent.
  bool take_token(std::string const& answer) {
    auto const found = nlohmann::json::parse(answer, nullptr, false);
    auto const token = found.is_object() ? found.find("token") : found.end();
    if (token == found.end() || !token->is_string()) return false;
    auto const& text = token->get_ref<std::string const&>();
    bool const is_word = !text.empty() && text.size() <= 16'384 &&
                         std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
    std::scoped_lock const lock{mutex_};
    if (is_word) token_ = text;
    return is_word;
  }
  /// etcd does not take this one any more.
  void forget(std::string const& token) {
    std::scoped_lock const lock{mutex_};
    if (token_ == token) token_.clear();
  }
  /// Whether an answer says that a token is too old: it has expired, etcd was started again, or its
  /// users have changed. Then nothing has been done.
  [[nodiscard]] static bool is_of_old_token(std::string_view answer) {
    return answer.find("invalid auth token") != answer.npos ||
           answer.find("revision of auth store is old") != answer.npos;
  }
  /// The body of auth/authenticate.
  ///
  /// Errors: input_error if the password cannot be read.
  [[nodiscard]] std::string question() const {
    return nlohmann::json{{"name", said_.user}, {"password", read_password(said_.password_file)}}
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  /// "" if it is not that. Where etcd has users, its gateway for JSON takes no name out of a
  /// certificate, and refuses one that has one.
  [[nodiscard]] std::string why_no_certificate(std::string_view answer) const {
    if (answer.find("CommonName") == answer.npos) return "";
    return concat(
        {"certificate ", path_in_quotes(said_.certificate),
         " has a CommonName, which etcd's gateway does not take of a client: make one whose "
         "subject has none (openssl req -subj /O=plait)"});
  }
  /// Why etcd has given no token, in words of ours: its own could repeat what it was sent.
  [[nodiscard]] std::string why_no_token(int status, std::string_view answer) const {
    if (answer.find("authentication failed") != answer.npos)
      return concat({"user ", in_quotes(said_.user), " is not known to etcd, or the password in ",
                     path_in_quotes(said_.password_file), " is not this user's"});
    if (answer.find("authentication is not enabled") != answer.npos)
      return concat(
          {"user ", in_quotes(said_.user),
           " is given, but etcd asks nobody who he is: enable authentication there (etcdctl auth "
           "enable), or leave the user out"});
    if (auto const why = why_no_certificate(answer); !why.empty()) return why;
    return concat({"status ", status, " and no token to auth/authenticate"});
  }

 private:
  [[noreturn]] static void refuse(std::string const& what, std::string const& instead) {
    throw input_error({"etcd: ", what, "; write ", instead});
  }

  std::vector<etcd_server> servers_;
  etcd_security said_;
  bool is_encrypted_;
  mutable std::mutex mutex_;
  std::string token_{};
};

}  // namespace plait::detail
