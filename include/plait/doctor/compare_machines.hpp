// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/doctor/machine.hpp"

namespace plait::ext {

/// A number of a machine that is more than 10 % worse than before.
struct fallen_number {
  /// The place of the number: "element_types[float].products[512x512x512].flop_per_second".
  /// Elements of a list are identified by their names, sizes or rank numbers.
  std::string name{};
  double before = 0, now = 0;
  /// The speed now divided by the speed before; for a time this is before / now. It is less than
  /// 0.9.
  double ratio = 0;

  friend bool operator==(fallen_number const&, fallen_number const&) = default;
};

/// The result of compare_machines.
struct machine_comparison {
  std::vector<fallen_number> fallen{};  ///< in the order of the machine file
  std::size_t compared = 0;             ///< the number of pairs of numbers
  /// Sentences about numbers that were not compared, and about machines that were not quiet.
  std::vector<std::string> notes{};
};

/// Compares two measurements of a machine: speeds, times, sizes of memory, numbers of devices. A
/// number is compared if both machines have it. Numbers of ranks and of pairs of ranks are compared
/// only if both machines have the same ranks on the same hosts.
///
/// Cost:    proportional to the size of the machines.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] machine_comparison compare_machines(machine const& before,
                                                                machine const& now);

/// Returns a comparison as text: a table of the numbers that fell, and the notes.
[[nodiscard]] [[gnu::cold]] std::string to_text(machine_comparison const& of);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/compare_machines.ipp"
#endif
