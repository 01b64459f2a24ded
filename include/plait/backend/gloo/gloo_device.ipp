// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_device.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstdlib>
#include <exception>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL std::map<std::string, bindable_interface> bindable_interface::all() {
  struct free_list {
    void operator()(::ifaddrs* list) const { ::freeifaddrs(list); }
  };
  ::ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    throw engine_error("gloo: the system does not list its network interfaces");
  std::unique_ptr<::ifaddrs, free_list> const list(first);
  std::map<std::string, bindable_interface> out;
  for (auto const* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    int const family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    auto& found = out[at->ifa_name];
    if (found.family == AF_INET || found.family == family) continue;
    found.family = family;
    found.is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    char text[NI_MAXHOST] = {};
    auto const size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(at->ifa_addr, static_cast<socklen_t>(size), text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0)
      found.address = text;
  }
  return out;
}

PLAIT_DECL std::string bindable_interface::text(
    std::map<std::string, bindable_interface> const& from, bool with_loopback) {
  std::string out;
  for (auto const& [name, what] : from)
    if (with_loopback || !what.is_loopback)
      out += concat({(out.empty() ? "" : ", "), name, " (", what.address, ")"});
  return out.empty() ? "none" : out;
}

PLAIT_DECL gloo_interface gloo_device(std::string const& asked,
                                      std::vector<process_mark> const& marks, int rank) {
  auto const there = bindable_interface::all();
  std::string name = asked, said_by = ".interface";
  for (char const* const variable : {"PLAIT_INTERFACE", "GLOO_SOCKET_IFNAME"})
    if (char const* const value = std::getenv(variable);
        name.empty() && value != nullptr && *value != '\0') {
      name = value;
      said_by = variable;
    }
  std::size_t other = 0;
  while (other < marks.size() && marks[other].shares_loopback_with(marks[0])) ++other;
  bool const is_one_host = other == marks.size();
  auto const hosts = [&] {
    return concat({"the ranks are on several hosts (rank 0 on ", in_quotes(marks[0].host),
                   ", rank ", other, " on ", in_quotes(marks[other].host),
                   "), and the loopback interface does not connect hosts"});
  };
  auto const choose = concat({"; set PLAIT_INTERFACE on each host to one of its interfaces, here ",
                              bindable_interface::text(there, is_one_host)});
  auto const refuse = [&](std::string const& what) {
    throw input_error({"gloo: rank ", rank, ": ", what, choose});
  };
  if (name.empty()) {
    if (!is_one_host) refuse(hosts());
    for (auto const& [one, what] : there)
      if (what.is_loopback) name = one;
    if (name.empty()) refuse("there is no loopback interface");
  }
  auto const found = there.find(name);
  if (found == there.end())
    refuse(concat({said_by, " is ", in_quotes(name),
                   ", and there is no interface of this name that is up and has an address"}));
  if (found->second.is_loopback && !is_one_host)
    refuse(concat({said_by, " is ", in_quotes(name), "; ", hosts()}));
  ::gloo::transport::tcp::attr what;
  what.iface = name;
  what.ai_family = found->second.family;
  try {
    auto const at = ::gloo::transport::tcp::CreateDeviceAttr(what);
    return {std::make_shared<::gloo::transport::tcp::Device>(at), at.ai_addr,
            static_cast<std::size_t>(at.ai_addrlen)};
  } catch (std::exception const& problem) {
    throw engine_error(concat({"gloo: rank ", rank, ": interface ", in_quotes(name),
                               " cannot be used: ", escaped(problem.what())}));
  }
}

}  // namespace plait::detail
