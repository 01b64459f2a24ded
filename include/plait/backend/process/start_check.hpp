// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/hosts.hpp"

namespace plait::detail {

/// The settings of this process that must be equal in all processes; they are compared at the start
/// of a job.
struct start_terms {
  mesh_groups const& groups;
  int reduction = 0;
  int streams = 0;
  bool is_one_thread = false;  ///< true if the engine cannot be used by a second thread
  bool compares_calls = true;
  std::string_view token{};
  axis_set require_local{};
  int first_here = -1;  ///< the lowest rank that shares memory with this process, see process_ranks
};

/// The settings and the host of a process, in the form in which processes send them to each other.
/// The token is sent as a hash.
struct shown_terms {
  std::int32_t version = 0, reduction = 0, streams = 0, is_one_thread = 0, compares_calls = 0,
               world_size = 0, first_here = -1;
  std::uint64_t sets = 0, token = 0, require_local = 0;
  std::array<char, 96> mesh{};
  std::array<char, 72> host{}, boot{};

  static shown_terms of(start_terms const& terms);

  static std::string version_text(std::int32_t version);

  /// Returns text such as "data, data x tensor".
  static std::string text_of_sets(std::uint64_t sets);

  /// Returns text such as "the mesh: 'data 2' on rank 0, 'data 4' on rank 1", or "" if all settings
  /// are equal. `other`: settings of process `rank`; this object has the settings of process 0.
  [[nodiscard]] std::string difference(shown_terms const& other, int rank) const;
};

/// The result of the processes' first exchange.
struct start_rendezvous {
  std::string difference;  ///< text about the first setting that differs, or ""
  host_map hosts;          ///< indexed by process
  int of_one_thread = -1;  ///< first process whose engine supports one thread only, or -1
};

/// Determines the hosts of all processes. Two processes are on the same host if their host names
/// and the boot identifiers of their kernels are equal, or if MPI says that they share memory.
/// Containers with different names are thus different hosts, and so are two machines with the same
/// name.
[[nodiscard]] [[gnu::cold]] host_map hosts_of(std::vector<shown_terms> const& all);

/// Compares the settings of all processes of the world; the result is equal on all of them.
[[nodiscard]] [[gnu::cold]] start_rendezvous meet_at_start(process_group& world, int processes,
                                                           start_terms const& terms);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/start_check.ipp"
#endif
