// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/etcd_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL bool etcd_server::is_here() const {
  return !socket.empty() || host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

PLAIT_DECL std::vector<etcd_server> etcd_socket(std::string_view at) {
  if (!at.starts_with(etcd_unix_scheme)) return {};
  std::string const path(at.substr(etcd_unix_scheme.size()));
  // A path of more than 107 bytes does not fit into sockaddr_un.
  if (!path.starts_with('/') || path.size() > 107 || path.find('\0') != path.npos)
    throw input_error({"etcd: ", in_quotes(at),
                       " is not of the form etcd+unix:///path, with up to 107 bytes of path"});
  return {{.host = "", .port = 0, .name = path_in_quotes(path), .socket = path}};
}

PLAIT_DECL std::vector<etcd_server> etcd_servers(std::string_view at) {
  if (auto socket = etcd_socket(at); !socket.empty()) return socket;
  auto const refuse = [&](std::string const& why) {
    throw input_error({"etcd: ", in_quotes(at), " is not of the form etcd://host:port,host:port",
                       " or etcds://host:port,host:port", why});
  };
  constexpr std::string_view digits = "0123456789abcdefABCDEF";
  auto const scheme = at.starts_with(etcds_scheme) ? etcds_scheme : etcd_scheme;
  if (!at.starts_with(scheme)) refuse("");
  std::vector<etcd_server> servers;
  for (auto rest = at.substr(scheme.size());;) {
    auto const name = rest.substr(0, rest.find(','));
    auto const colon = std::min(name.rfind(':'), name.size());
    auto host = name.substr(0, colon);
    bool const v6 = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
    if (v6) host = host.substr(1, host.size() - 2);
    auto const known =
        std::string(digits) + (v6 ? ":." : "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ.-_");
    if (host.empty() || host.find_first_not_of(known) != host.npos)
      refuse(concat({": ", in_quotes(name), " has no host"}));
    int port = 0;
    auto const* const end = name.data() + name.size();
    auto const* const begin = end - (name.size() - std::min(colon + 1, name.size()));
    if (std::from_chars(begin, end, port).ptr != end || port < 1 || port > 65535)
      refuse(concat({": ", in_quotes(name), " has no port from 1 to 65535"}));
    servers.push_back({.host = std::string(host), .port = port, .name = std::string(name)});
    if (name.size() == rest.size()) return servers;
    rest.remove_prefix(name.size() + 1);
  }
}

PLAIT_DECL std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      three = three << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : base64_digits[three >> (18 - 6 * j) & 63u];
  }
  return out;
}

PLAIT_DECL std::optional<std::string> from_base64(std::string_view text) {
  static constexpr unsigned char none = 64;
  static constexpr auto values = [] {
    std::array<unsigned char, 256> out{};
    out.fill(none);
    for (unsigned char i = 0; char const digit : base64_digits)
      out[static_cast<unsigned char>(digit)] = i++;
    return out;
  }();
  if (text.size() % 4 != 0) return std::nullopt;
  if (text.ends_with('=')) text.remove_suffix(text.ends_with("==") ? 2 : 1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t held = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const value = values[static_cast<unsigned char>(text[i])];
    if (value == none) return std::nullopt;
    held = held << 6 | value;
    if (i % 4 != 0) out += static_cast<char>(held >> (6 - 2 * (i % 4)) & 255u);
  }
  return out;
}

PLAIT_DECL std::string etcd_words(std::string const& answer) {
  auto const said = nlohmann::json::parse(answer, nullptr, false);
  if (!said.is_object()) return "";
  for (char const* const name : {"message", "error"})
    if (auto const found = said.find(name); found != said.end() && found->is_string())
      return found->get<std::string>();
  return "";
}

PLAIT_DECL nlohmann::json etcd_range(std::string const& prefix) {
  auto end = prefix;
  while (end.ends_with('\xff')) end.pop_back();
  if (!end.empty()) ++end.back();
  // An empty key is sent as "\0", which etcd reads as the first key or, at the end of a range, as
  // no limit.
  auto const text = [](std::string const& key) {
    return to_base64(key.empty() ? std::string(1, '\0') : key);
  };
  return {{"key", text(prefix)}, {"range_end", text(end)}};
}

}  // namespace plait::detail
