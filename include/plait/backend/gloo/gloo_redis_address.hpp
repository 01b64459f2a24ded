// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Where a Redis server is and how it is reached: "host:port", "redis://user@host:port", or
/// "rediss://user@host:port" by TLS, with the files that PLAIT_REDIS_CA, PLAIT_REDIS_CERT,
/// PLAIT_REDIS_KEY and PLAIT_REDIS_PASSWORD_FILE name.
///
/// Errors:  input_error for an address that cannot be; for a password in it, which it does not
///          repeat; for a file that is not there, or a key or a password that others may read; for
///          one of two that belong together; for certificates without TLS, and for a password
///          without it, but on the loopback.
class gloo_redis_address {
 public:
  explicit gloo_redis_address(std::string_view text);

  [[nodiscard]] bool has_password() const { return !password_file.empty(); }

  std::string host, user;
  int port = 0;
  bool is_encrypted = false;
  std::filesystem::path ca, certificate, key, password_file;

 private:
  static std::string variable(char const* name);
  void check(std::string_view text) const;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_redis_address.ipp"
#endif
