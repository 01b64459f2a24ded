// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

#include "plait/mesh/mesh.hpp"
#include "plait/schedule/one_forward_one_backward.hpp"
#include "plait/schedule/schedule.hpp"

namespace plait {

/// A type says on purpose that it is a policy by `using concept_tag = plait::policy_tag;`.
struct policy_tag {};

template <class P>
concept policy = std::same_as<typename P::concept_tag, policy_tag>;

/// One rank does everything.
struct serial {
  using concept_tag = policy_tag;
};

/// The number of ranks is given when the job is launched.
inline constexpr int at_launch = 0;

/// Gives each of `Ranks` ranks an equal slice of the batch and adds up their gradients.
///
/// Moves: one all_reduce of the gradients per step, 2N(p-1)/p bytes for N bytes of parameters.
template <int Ranks = at_launch>
struct data_parallel {
  static_assert(Ranks >= 0,
                "data_parallel<Ranks>: Ranks is negative; write the number of ranks, or nothing to "
                "choose it at launch");
  using concept_tag = policy_tag;
  static constexpr axis along = axis::data;
  static constexpr int ranks = Ranks;
};

/// Whether a tensor axis may also cut the sequence, between the layers that it splits.
enum class sequence : bool { unsharded, sharded };

/// Splits layers over `Ranks` ranks, in the chain of forms that costs least (see form_planner.hpp).
///
/// Moves: for each pair of a column and a row layer, one all_reduce of the activations forward and
///        one backward; with `sequence::sharded` the same bytes as all_gather and reduce_scatter.
template <int Ranks, sequence Sequence = sequence::unsharded>
struct tensor_parallel {
  static_assert(Ranks >= 1, "tensor_parallel<Ranks>: Ranks must be at least 1");
  using concept_tag = policy_tag;
  static constexpr axis along = axis::tensor;
  static constexpr int ranks = Ranks;
  static constexpr bool shard_sequence = Sequence == sequence::sharded;
};

/// Stages are cut so that the most expensive one costs as little as possible.
struct balanced {};

/// A new stage begins at each of these units (a unit is a layer, or one copy within a repeat).
template <int... Units>
struct cut_at {};

namespace detail {
template <class>
inline constexpr bool is_cuts = false;
template <>
inline constexpr bool is_cuts<balanced> = true;
template <int... Units>
inline constexpr bool is_cuts<cut_at<Units...>> = true;
}  // namespace detail

/// Gives each of `Ranks` stages a range of the layers, and sends microbatches through them in the
/// order of `Schedule`.
///
/// Moves: each activation at a cut forward, its gradient backward, for every microbatch.
template <int Ranks, class Schedule = one_forward_one_backward, class Cuts = balanced>
struct pipeline {
  static_assert(Ranks >= 1, "pipeline<Ranks>: Ranks must be at least 1");
  static_assert(schedule<Schedule>,
                "pipeline<Ranks, Schedule>: Schedule is not a schedule; write plait::gpipe or "
                "plait::one_forward_one_backward");
  static_assert(detail::is_cuts<Cuts>,
                "pipeline<Ranks, Schedule, Cuts>: Cuts is neither balanced nor cut_at<Units...>");
  using concept_tag = policy_tag;
  static constexpr axis along = axis::stage;
  static constexpr int ranks = Ranks;
  using order = Schedule;
  using cuts = Cuts;
};

/// Several policies in one mesh. The first varies slowest in the numbering of ranks.
template <class... Policies>
struct hybrid {
  static_assert((policy<Policies> && ...),
                "hybrid<Policies...>: an argument is not a policy; write data_parallel<N>, "
                "tensor_parallel<N> or pipeline<N>");
  using concept_tag = policy_tag;
};

namespace detail {

template <class P>
struct policy_traits {
  static constexpr mesh grid() {
    mesh out;
    out.add(P::along, P::ranks);
    return out;
  }
  template <axis Which>
  using along = std::conditional_t<P::along == Which, P, serial>;
};

template <>
struct policy_traits<serial> {
  static constexpr mesh grid() { return {}; }
  template <axis>
  using along = serial;
};

template <axis Which, class... Policies>
struct first_along {
  using type = serial;
};
template <axis Which, class First, class... Rest>
struct first_along<Which, First, Rest...> {
  using found = typename policy_traits<First>::template along<Which>;
  using type =
      typename std::conditional_t<std::is_same_v<found, serial>, first_along<Which, Rest...>,
                                  std::type_identity<found>>::type;
};

template <class... Policies>
struct policy_traits<hybrid<Policies...>> {
  static_assert(sizeof(hybrid<Policies...>) > 0);  // its own checks come first
  static constexpr mesh grid() {
    mesh out;
    auto const append = [&out](mesh part) {
      for (int i = 0; i < part.dimension_count; ++i) {
        auto const dimension = part.dimensions[static_cast<std::size_t>(i)];
        out.add(dimension.which, dimension.size);
      }
    };
    (append(policy_traits<Policies>::grid()), ...);
    return out;
  }
  static constexpr int count([[maybe_unused]] axis which) {
    return ((policy_traits<Policies>::grid().has(which) ? 1 : 0) + ... + 0);
  }
  static_assert(count(axis::data) <= 1 && count(axis::tensor) <= 1 && count(axis::stage) <= 1,
                "hybrid<Policies...>: two policies of one kind; a mesh has one data, one tensor "
                "and one stage axis, so multiply their sizes into one policy");
  template <axis Which>
  using along = typename first_along<Which, Policies...>::type;
};

}  // namespace detail

/// The mesh of a policy; a data axis whose size is chosen at launch has size 0.
template <class P>
inline constexpr mesh mesh_of = detail::policy_traits<P>::grid();

/// The part of a policy along an axis, `serial` if there is none.
template <class P, axis Which>
using policy_along = typename detail::policy_traits<P>::template along<Which>;

}  // namespace plait
