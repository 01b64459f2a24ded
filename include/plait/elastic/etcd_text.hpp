// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

struct etcd_server {
  std::string host;
  int port;
  std::string name;      ///< the address as the user wrote it; host and port as in a URL
  std::string socket{};  ///< the path of a Unix socket; `host` is then empty

  /// True if data that is sent to this server does not leave this machine.
  [[nodiscard]] bool is_here() const;
};
constexpr std::string_view etcd_scheme = "etcd://", etcds_scheme = "etcds://",
                           etcd_unix_scheme = "etcd+unix://";

/// Returns the server of "etcd+unix:///path", a Unix socket on this machine; an empty list for
/// other addresses.
std::vector<etcd_server> etcd_socket(std::string_view at);

/// Returns the servers of "etcd://host:port,[v6]:port", of "etcds://..." with TLS, or of
/// "etcd+unix:///path".
std::vector<etcd_server> etcd_servers(std::string_view at);

constexpr std::string_view base64_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::string_view bytes);
/// Decodes base64; returns nullopt for other texts.
std::optional<std::string> from_base64(std::string_view text);

/// Returns the error text in etcd's answer to a call that it refused, or "".
std::string etcd_words(std::string const& answer);

/// Returns the range of keys that begin with `prefix`: from `prefix` to the first key after the
/// range.
nlohmann::json etcd_range(std::string const& prefix);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/etcd_text.ipp"
#endif
