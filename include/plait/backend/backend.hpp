// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>

#include "plait/core/namespaces.hpp"
#include "plait/mesh/groups.hpp"

namespace plait::ext {

/// The tag by which a type declares itself a backend: `using concept_tag = backend_tag;`.
struct backend_tag {};

/// A backend starts the ranks of a job, as threads or processes, with or without GPUs. It is the
/// first argument of `launch`.
///
/// Syntax:  rank_type: the argument of a program, a rank_handle of a device and a communicator;
///          data_ranks -> int; run(mesh_groups const&, program) const -> void; optional:
///          processors() const -> int and processors_are_ranks = true.
/// Meaning: run() calls program(rank) once for each rank of the mesh that runs in this process.
///          Each rank has a communicator for each set of axes in groups.sets(). run() returns when
///          all these calls have ended; an exception of one call ends all ranks and is rethrown.
///          data_ranks is the size of the data axis if the policy leaves it to the launch: 0
///          selects the policy's number, or 1 if it has none; `all_processors` selects the largest
///          number that processors() allows. If processors_are_ranks is true, processors() counts
///          processes that a launcher has started; all of them are ranks, so that 0 means
///          `all_processors`.
template <class B>
concept backend = std::same_as<typename B::concept_tag, backend_tag> &&
                  requires(B const& constant, mesh_groups const& groups,
                           std::function<void(typename B::rank_type&)> const& program) {
                    { constant.data_ranks } -> std::convertible_to<int>;
                    { constant.run(groups, program) } -> std::same_as<void>;
                  };

}  // namespace plait::ext
