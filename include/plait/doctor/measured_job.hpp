// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/doctor/system_files.hpp"

namespace plait::ext {

/// The speed of each rank at one kind of work. The unit is free, but the same for all ranks: for
/// example FLOP/s or bytes per second, not seconds.
struct measured_work {
  std::string name{};              ///< as in a sentence: "products", "attention", "copies"
  std::vector<double> together{};  ///< the speed of each rank while all ranks work
  /// The speed of each rank while no other rank of its host works; empty if it was not measured.
  std::vector<double> alone{};
  friend bool operator==(measured_work const&, measured_work const&) = default;
};

/// The links between pairs of ranks; see machine::link_matrix.
struct measured_links {
  /// The numbers of pairs that sent at the same time as others; each rank was in at most one pair
  /// at a time. 0: not measured.
  machine::link_matrix latency_seconds{}, bytes_per_second{};
  /// The numbers of pairs that were measured again while no other pair sent, and 0 for all other
  /// pairs. Empty if no pair was measured again.
  machine::link_matrix latency_alone_seconds{}, bytes_alone_per_second{};
  friend bool operator==(measured_links const&, measured_links const&) = default;
};

/// The times of a rank's turns of equal work.
struct measured_turns {
  double median_seconds = 0;
  double longest_seconds = 0;  ///< the 99th percentile
  /// The part of all time by which turns took longer than the median turn, from 0 to 1. For
  /// example, 98 turns take 50 ms, and two take 550 ms: 1 s of 6 s is lost.
  double lost = 0;
  friend bool operator==(measured_turns const&, measured_turns const&) = default;
};

/// A process outside of the job that has used processors of ranks.
struct other_process {
  std::uint64_t number = 0;  ///< pid
  std::string name{};        ///< such as "stress"
  double cpus = 0;           ///< the processors that it has used on average; 0.5: half of one
  int last_cpu = 0;          ///< the processor on which it has run last
  friend bool operator==(other_process const&, other_process const&) = default;
};

/// The use of a rank's processors by others than the job during a measurement.
struct processor_use {
  /// The number of the rank's allowed processors that others have used on average: processes
  /// outside of the job, and other virtual machines of the hypervisor.
  reading<double> others{};
  std::size_t cpus = 0;  ///< the number of the rank's allowed processors
  /// The processes that have used at least 2 % of a processor, the busiest first; at most 4.
  std::vector<other_process> processes{};
  friend bool operator==(processor_use const&, processor_use const&) = default;
};

/// The measurements of a job that the rules about speeds compare. A list is empty if it was not
/// measured.
struct measured_job {
  std::vector<std::string> hosts{};              ///< the host of each rank
  std::vector<std::vector<std::size_t>> cpus{};  ///< the allowed processors of each rank
  std::vector<measured_work> work{};
  measured_links links{};
  std::vector<measured_turns> turns{};  ///< one for each rank
  std::vector<processor_use> use{};     ///< one for each rank
  friend bool operator==(measured_job const&, measured_job const&) = default;
};

}  // namespace plait::ext
