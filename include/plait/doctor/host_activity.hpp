// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/measured_job.hpp"
#include "plait/doctor/system_files.hpp"

namespace plait::ext {

/// The time of one processor since the start of the host.
///
/// Units: ticks, of which the system counts sysconf(_SC_CLK_TCK) in a second, usually 100.
struct processor_ticks {
  int cpu = 0;
  std::uint64_t used = 0;    ///< time of processes, and of the kernel for them; without interrupts
  std::uint64_t stolen = 0;  ///< time that the hypervisor gave to other virtual machines
  std::uint64_t all = 0;     ///< time of all kinds, with the idle time
  friend bool operator==(processor_ticks const&, processor_ticks const&) = default;
};

/// The processor time of a process and of all its threads.
///
/// Units: ticks, as in processor_ticks.
struct process_ticks {
  std::string name{};  ///< such as "stress"
  std::uint64_t used = 0;
  std::uint64_t start = 0;  ///< the time of its start, which tells whether the number was reused
  int last_cpu = 0;         ///< the processor on which its first thread has run last
  friend bool operator==(process_ticks const&, process_ticks const&) = default;
};

/// A process at the time of a snapshot.
struct process_activity {
  std::uint64_t number = 0;  ///< pid
  reading<process_ticks> ticks{};
  friend bool operator==(process_activity const&, process_activity const&) = default;
};

/// A snapshot of the counters of a host. use_between compares two of them.
struct host_activity {
  reading<std::vector<processor_ticks>> processors{};  ///< sorted by `cpu`
  reading<std::vector<process_activity>> processes{};  ///< sorted by `number`
  friend bool operator==(host_activity const&, host_activity const&) = default;
};

/// Reads /proc/stat, and /proc/PID/stat of all processes that /proc shows: in a container,
/// usually only the processes of the container. A process that ends during the call is left out.
///
/// Example (tests/doctor/host_activity_test.cpp use):
///     plait::ext::system_files const system;
///     plait::ext::rank_place const rank{.process = process, .cpus = cpus};  // this rank's
///     auto const before = plait::ext::read_host_activity(system);
///     work();
///     auto const after = plait::ext::read_host_activity(system);
///     for (auto const& use : plait::ext::use_between(before, after, {rank}))
///       for (auto const& other : use.processes)
///         std::printf("%s uses %.2f processors\n", other.name.c_str(), other.cpus);
///
/// Cost:    some 15 microseconds for each process.
/// Errors:  none except std::bad_alloc; a value that cannot be read is unknown, with the reason.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] host_activity read_host_activity(system_files const& files);

/// The process of a rank, and the processors on which the rank may run.
struct rank_place {
  std::uint64_t process = 0;  ///< pid, as in the /proc from which the snapshots are read
  std::vector<int> cpus{};
};

/// Returns the use of each rank's processors by others than the job between two snapshots: the time
/// that all processes used on these processors, minus the time of the rank's process, plus stolen
/// time.
///
/// Ranks whose lists of processors overlap have one use together, because the system does not count
/// how long a process ran on each processor. So have ranks that are threads of one process. For
/// example, ranks with the processors {0, 1} and {1, 2} both get the use of the three processors 0
/// to 2: the time of all processes there, minus the time of both ranks' processes.
///
/// `ranks`: all ranks of the host. The snapshots must have been read in the pid name space in which
/// `rank_place::process` is a number, since another name space numbers the processes differently.
///
/// Units:   numbers of processors; others = 0.5: half of one. The counters are exact to about a
///          tick for each process, so an interval of 5 s gives errors of about 0.01.
/// Errors:  none except std::bad_alloc. `others` is unknown, with the reason, if the snapshots lack
///          a processor or a process of the ranks, if a counter became smaller, or if fewer than 20
///          ticks passed, too few to measure 5 %.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::vector<processor_use> use_between(
    host_activity const& before, host_activity const& after, std::vector<rank_place> const& ranks);

}  // namespace plait::ext

namespace plait::detail::doctor {

/// The numbers in a line of /proc/stat, as in processor_ticks.
struct ticks_in_line {
  std::uint64_t used = 0, stolen = 0, all = 0;
};

/// Reads the numbers that follow the first word of a line of /proc/stat; nullopt if there are fewer
/// than 8, or if their sum exceeds 2^64 - 1.
[[nodiscard]] std::optional<ticks_in_line> ticks_in(std::string_view numbers);

/// Reads the lines of single processors in /proc/stat.
[[nodiscard]] [[gnu::cold]] reading<std::vector<processor_ticks>> read_processor_ticks(
    system_files const& files);

/// Reads the text of /proc/NUMBER/stat. `path`: the name of the file in the reason why the result
/// is unknown.
[[nodiscard]] reading<process_ticks> ticks_of_process(std::string_view text, std::uint64_t number,
                                                      std::string const& path);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/host_activity.ipp"
#endif
