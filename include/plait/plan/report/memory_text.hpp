// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <exception>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/model/workload.hpp"

namespace plait::detail {

// Returns a number of bytes as text: "1.5 GiB".
template <class Number>
[[gnu::cold]] std::string with_unit(Number count) {
  auto bytes = static_cast<double>(count);
  char const* units[]{"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 10240 && unit < 4) bytes /= 1024, ++unit;
  // This does not use printf, which would write the locale's decimal point.
  auto const tenths = static_cast<long long>(std::nearbyint(bytes * 10));
  auto text = std::to_string(tenths / 10);
  if (std::floor(bytes) != bytes) text += concat({".", tenths % 10});
  return concat({text, " ", units[unit]});
}

// Returns a share as text: "33 %".
[[nodiscard]] [[gnu::cold]] std::string as_percent(double part, double whole);

// Returns a text such as "parameters 1.5 GiB, gradients 1.5 GiB, ..., 7.2 GiB in all".
[[gnu::cold]] std::string memory_text(memory_need const& need);

/// Throws the current exception again, as an exception of rank `rank`. If the exception is about
/// memory, adds two numbers to its message: the bytes that the rank needs by its plan, and the
/// bytes that the device uses in addition.
[[noreturn]] [[gnu::cold]] void rethrow_for_plan(int rank, memory_need need, std::size_t workspace);

/// Returns the bytes that a device has allocated for its own libraries and kernels; 0 if it does
/// not count them.
template <class Device>
[[gnu::cold]] std::size_t workspace_of(Device const& device) {
  if constexpr (Device::parts.counts_workspace) return device.workspace_bytes();
  else return 0;
}

/// Calls make() and returns its result. If there is not enough memory, the error contains the bytes
/// that the rank needs by its plan.
///
/// \see rethrow_for_plan
template <class Rank, class Make>
[[gnu::cold]] decltype(auto) allocate_for_plan(Rank& rank, memory_need const& need, Make make) {
  try {
    return make();
  } catch (std::exception const&) {
    rethrow_for_plan(rank.world_rank(), need, workspace_of(rank.device()));
  }
}

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/plan/report/memory_text.ipp"
#endif
