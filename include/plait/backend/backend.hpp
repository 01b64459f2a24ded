// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>

#include "plait/core/namespaces.hpp"
#include "plait/mesh/groups.hpp"

namespace plait::ext {

/// A type says on purpose that it is a backend by `using concept_tag = backend_tag;`.
struct backend_tag {};

/// A backend starts the ranks of a job; `launch` takes one.
///
/// Syntax:  rank_type: what a program is given, a rank_handle of a device and a communicator;
///          data_ranks -> int; run(mesh_groups const&, program) const -> void; perhaps
///          processors() const -> int and processors_are_ranks = true.
/// Meaning: run() calls program(rank) once for each rank of the mesh that this process has, each
///          with a communicator for each of the sets, and returns when they have ended; what one
///          of them throws ends them all and is thrown. data_ranks is the size of a data axis that
///          the policy leaves to the launch: 0 for the policy's number, or 1, and `all_processors`
///          for as many as processors() has room for. Where processors() are processes that
///          have been started, processors_are_ranks, all of them are ranks: then 0 is the same.
template <class B>
concept backend = std::same_as<typename B::concept_tag, backend_tag> &&
                  requires(B const& constant, mesh_groups const& groups,
                           std::function<void(typename B::rank_type&)> const& program) {
                    { constant.data_ranks } -> std::convertible_to<int>;
                    { constant.run(groups, program) } -> std::same_as<void>;
                  };

}  // namespace plait::ext
