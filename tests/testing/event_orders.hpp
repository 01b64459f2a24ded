// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace plait_test {

/// The number of orders of events that a test of the simulated device tries: `usual`, or 200 with
/// the option PLAIT_LONG_TESTS.
constexpr std::uint64_t event_orders(std::uint64_t usual) {
#ifdef PLAIT_LONG_TESTS
  return std::max<std::uint64_t>(usual, 200);
#else
  return usual;
#endif
}

}  // namespace plait_test
