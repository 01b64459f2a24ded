// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_redis_address.hpp"

#include <charconv>
#include <cstdlib>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/password_file.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL gloo_redis_address::gloo_redis_address(std::string_view text)
    : ca(variable("CA")),
      certificate(variable("CERT")),
      key(variable("KEY")),
      password_file(variable("PASSWORD_FILE")) {
  auto rest = text;
  for (std::string_view const scheme : {"rediss://", "redis://"})
    if (rest.starts_with(scheme)) {
      is_encrypted = scheme == "rediss://";
      rest.remove_prefix(scheme.size());
      break;
    }
  if (auto const at = rest.rfind('@'); at != rest.npos) {
    user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (user.find(':') != user.npos)
      throw input_error(
          "gloo: .redis has a password in its address, where others see it; write "
          "rediss://user@host:port, and the path of the password's file into "
          "PLAIT_REDIS_PASSWORD_FILE");
  }
  auto const colon = rest.rfind(':');
  auto name = rest.substr(0, colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  host = name;
  if (colon != rest.npos) {
    auto const* const end = rest.data() + rest.size();
    if (std::from_chars(rest.data() + colon + 1, end, port).ptr != end) port = 0;
  }
  if (host.empty() || host.find_first_of("/@ ") != host.npos || port < 1 || port > 65535)
    throw input_error({"gloo: .redis ", in_quotes(text),
                       " is not of the form host:port or rediss://user@host:port"});
  check(text);
}

PLAIT_DECL std::string gloo_redis_address::variable(char const* name) {
  char const* const value = std::getenv(concat({"PLAIT_REDIS_", name}).c_str());
  return value == nullptr ? "" : value;
}

PLAIT_DECL void gloo_redis_address::check(std::string_view text) const {
  auto const refuse = [&](std::string const& what) {
    throw input_error({"gloo: .redis ", in_quotes(text), ": ", what});
  };
  if (certificate.empty() != key.empty())
    refuse("a certificate and its key belong together; set PLAIT_REDIS_CERT and PLAIT_REDIS_KEY");
  if (!user.empty() && !has_password())
    refuse("it has a user without a password; name its file by PLAIT_REDIS_PASSWORD_FILE");
  bool const is_here =
      host == "localhost" || host == "::1" ||
      (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
  if (!is_encrypted && !(ca.empty() && certificate.empty()))
    refuse("certificates are given, but the connection is not encrypted; write rediss://");
  if (!is_encrypted && has_password() && !is_here)
    refuse("a password would go there for everybody to read; write rediss://");
  if (!ca.empty()) open_file const found(ca, "CA file of Redis");
  if (!certificate.empty()) open_file const found(certificate, "certificate for Redis");
  if (!key.empty()) require_private(open_file(key, "key for Redis"));
  if (has_password()) static_cast<void>(read_password(password_file));
}

}  // namespace plait::detail
