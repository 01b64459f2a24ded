// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/tcp/attr.h>
#include <gloo/transport/tcp/device.h>
#include <sys/socket.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plait/backend/process/process_mark.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A network interface of this host, with its first IPv4 address or, without one, its first IPv6
/// address.
struct bindable_interface {
  int family = AF_UNSPEC;
  std::string address;
  bool is_loopback = false;

  /// Returns the interfaces that are up and have an address; the key is the name.
  [[nodiscard]] static std::map<std::string, bindable_interface> all();
  /// Returns a list for messages, "eth0 (10.0.0.2), wlan0 (10.0.1.2)", which contains the loopback
  /// only if `with_loopback` is true.
  [[nodiscard]] static std::string text(std::map<std::string, bindable_interface> const& from,
                                        bool with_loopback);
};

/// An interface of this host, as Gloo's device and as the address to which gloo_listener binds its
/// port.
struct gloo_interface {
  std::shared_ptr<::gloo::transport::tcp::Device> device;
  sockaddr_storage address{};
  std::size_t address_bytes = 0;
};

/// Returns the interface of rank `rank`: the interface named `asked`, else the interface that the
/// environment names, else the loopback if `marks` show that all ranks are on one host. It never
/// uses the address of the host's name, which other hosts may be unable to reach.
[[nodiscard]] [[gnu::cold]] gloo_interface gloo_device(std::string const& asked,
                                                       std::vector<process_mark> const& marks,
                                                       int rank);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_device.ipp"
#endif
