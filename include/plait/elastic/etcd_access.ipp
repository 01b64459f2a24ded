// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/etcd_access.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/password_file.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL etcd_security with_environment(etcd_security said) {
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

PLAIT_DECL etcd_access::etcd_access(std::string_view at, etcd_security said)
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
    refuse(concat({"a password would go to ", in_quotes(at), " unencrypted"}), "etcds://host:port");
  if (!said_.ca.empty()) open_file const found(said_.ca, "etcd's CA file");
  if (!said_.certificate.empty()) open_file const found(said_.certificate, "certificate for etcd");
  if (!said_.key.empty()) require_private(open_file(said_.key, "key for etcd"));
  if (has_user()) static_cast<void>(read_password(said_.password_file));
}

PLAIT_DECL std::string etcd_access::token() const {
  std::scoped_lock const lock{mutex_};
  return token_;
}

PLAIT_DECL bool etcd_access::take_token(std::string const& answer) {
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

PLAIT_DECL void etcd_access::forget(std::string const& token) {
  std::scoped_lock const lock{mutex_};
  if (token_ == token) token_.clear();
}

PLAIT_DECL bool etcd_access::is_of_old_token(std::string_view answer) {
  return answer.find("invalid auth token") != answer.npos ||
         answer.find("revision of auth store is old") != answer.npos;
}

PLAIT_DECL std::string etcd_access::question() const {
  return nlohmann::json{{"name", said_.user}, {"password", read_password(said_.password_file)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

PLAIT_DECL std::string etcd_access::why_no_certificate(std::string_view answer) const {
  if (answer.find("CommonName") == answer.npos) return "";
  return concat({"certificate ", path_in_quotes(said_.certificate),
                 " has a CommonName, which etcd's gateway does not accept from a client: make a "
                 "certificate whose subject has no CommonName (openssl req -subj /O=plait)"});
}

PLAIT_DECL std::string etcd_access::why_no_token(int status, std::string_view answer) const {
  if (answer.find("authentication failed") != answer.npos)
    return concat({"user ", in_quotes(said_.user), " is not known to etcd, or the password in ",
                   path_in_quotes(said_.password_file), " is wrong"});
  if (answer.find("authentication is not enabled") != answer.npos)
    return concat({"user ", in_quotes(said_.user),
                   " is given, but etcd does not authenticate clients: enable authentication there "
                   "(etcdctl auth "
                   "enable), or leave the user out"});
  if (auto const why = why_no_certificate(answer); !why.empty()) return why;
  return concat({"status ", status, ", and no token in the answer to auth/authenticate"});
}

PLAIT_DECL void etcd_access::refuse(std::string const& what, std::string const& instead) {
  throw input_error({"etcd: ", what, "; write ", instead});
}

}  // namespace plait::detail
