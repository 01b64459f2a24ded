// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>

#include "plait/core/namespaces.hpp"
#include "plait/mesh/groups.hpp"

namespace plait::ext {

/// The tag by which a type declares itself a backend: `using concept_tag = backend_tag;`.
struct backend_tag {};

/// A backend starts the ranks of a job, on threads, processes or GPUs; `launch` takes one.
///
/// Syntax:  rank_type: the argument of a program, a rank_handle of a device and a communicator;
///          data_ranks -> int; run(mesh_groups const&, program) const -> void; optional:
///          processors() const -> int and processors_are_ranks = true.
/// Meaning: run() calls program(rank) once for each rank of the mesh that this process has. Each
///          rank has a communicator for each of the sets. run() returns when all these calls have
///          ended; an exception of one of them ends all and is rethrown. data_ranks is the size of
///          a data axis that the policy leaves to the launch: 0 for the policy's number, or 1, and
///          `all_processors` for as many as processors() allows. If processors() counts processes
///          that have been started (processors_are_ranks), all of them are ranks, and 0 means the
///          same.
template <class B>
concept backend = std::same_as<typename B::concept_tag, backend_tag> &&
                  requires(B const& constant, mesh_groups const& groups,
                           std::function<void(typename B::rank_type&)> const& program) {
                    { constant.data_ranks } -> std::convertible_to<int>;
                    { constant.run(groups, program) } -> std::same_as<void>;
                  };

}  // namespace plait::ext
