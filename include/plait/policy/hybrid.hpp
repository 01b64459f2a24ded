// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/placement/batch_slicing.hpp"
#include "plait/policy/checks.hpp"
#include "plait/policy/data_parallel.hpp"
#include "plait/policy/policy.hpp"

namespace plait {

namespace detail {

// True if P, or a policy within the hybrid P, sets the size of buckets.
template <class P>
inline constexpr bool writes_buckets = false;
template <class P>
  requires requires { P::says_buckets; }
inline constexpr bool writes_buckets<P> = P::says_buckets;
template <class P>
inline constexpr bool has_slices = requires { P::slices; };
// The number of policies in P (P itself, or the policies within the hybrid P) that have a recompute
// rule.
template <class P>
inline constexpr int recompute_count = requires { P::recomputes; } ? 1 : 0;
template <class P>
  requires requires { P::recompute_count; }
inline constexpr int recompute_count<P> = P::recompute_count;

}  // namespace detail

/// Combines several policies in one mesh. Consecutive rank numbers are neighbours along the axis of
/// the last policy; the axis of the first policy changes slowest.
///
/// Example (tests/reference/names_in_use_test.cpp hybrid):
///     using eight =
///         plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>, plait::tensor_parallel<2>>;
///     struct in_all_ways : plait::parallel<objective, eight> {};
template <class... Policies>
struct hybrid {
  static_assert((ext::policy<Policies> && ...),
                "hybrid<Policies...>: an argument is not a policy; write data_parallel<N>, "
                "tensor_parallel<N> or pipeline<N>, or declare `using concept_tag = "
                "plait::ext::policy_tag;` in a policy type of your own");
  static_assert(
      !(detail::writes_buckets<Policies> || ...) || !(detail::has_slices<Policies> || ...),
      "hybrid<Policies...>: data_parallel<..., buckets<...>> is combined with "
      "reproducible<Slices>, whose sums are complete only after the last slice; leave buckets out");
  static constexpr int recompute_count = (detail::recompute_count<Policies> + ... + 0);
  static_assert(recompute_count <= 1,
                "hybrid<Policies...>: recompute appears more than once; write it once, as "
                "recompute<What, Where, Others> if units recompute different values");
  using concept_tag = ext::policy_tag;
  using policies = ext::policy_list<Policies...>;
  static constexpr bool says_buckets = (detail::writes_buckets<Policies> || ...);
};

}  // namespace plait

namespace plait::detail {

/// The rules of a policy: the placements on all axes, the slices of a batch and the recompute rule.
struct policy_rules {
  placements samples{};
  parameter_rules parameters{};
  /// The rule that cuts a batch into slices. Its `slices` is the number of slices of the global
  /// batch if sums over samples are added slice by slice; else 0.
  batch_slicing slicing{};
  recompute_rule recomputes{};

  template <class P>
  constexpr void add() {
    samples = samples.with(P::along, samples_along<P>());
    parameters.set(P::along, rule_of<P>());
    if constexpr (requires {
                    { P::shares } -> std::convertible_to<static_view<int>>;
                  })
      if (P::shares.size() > 0) slicing.shares = P::shares;
  }
};

/// The mesh and the rules that a policy contributes to a job. This primary template is for a policy
/// without an axis, such as `recompute`.
template <class P>
struct policy_traits {
  static_assert(is_sound_policy<P>);
  static constexpr mesh grid() { return {}; }
  static constexpr void add_rules(policy_rules& to) {
    if constexpr (requires { P::slices; }) to.slicing.slices = P::slices;
    if constexpr (requires { P::recomputes; }) to.recomputes = P::recomputes;
  }
  template <axis>
  using along = serial;
};

template <class P>
  requires has_axis<P>
struct policy_traits<P> {
  static_assert(is_sound_policy<P>);
  static constexpr mesh grid() {
    mesh out;
    if constexpr (requires { P::ranks; }) out.add(P::along, P::ranks == at_launch ? 0 : P::ranks);
    return out;
  }
  static constexpr void add_rules(policy_rules& to) { to.add<P>(); }
  template <axis Which>
  using along = std::conditional_t<P::along == Which, P, serial>;
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

template <class List>
struct composed_traits;
template <class... Policies>
struct composed_traits<policy_list<Policies...>> {
  static constexpr mesh grid() {
    mesh out;
    [[maybe_unused]] auto const append = [&out](mesh part) {
      for (int i = 0; i < part.dimension_count; ++i) {
        auto const dimension = part.dimensions[static_cast<std::size_t>(i)];
        out.add(dimension.which, dimension.size);
      }
    };
    (append(policy_traits<Policies>::grid()), ...);
    return out;
  }
  static constexpr void add_rules(policy_rules& to) {
    (policy_traits<Policies>::add_rules(to), ...);
  }
  static constexpr int count([[maybe_unused]] axis which) {
    return ((policy_traits<Policies>::grid().has(which) ? 1 : 0) + ... + 0);
  }
  static constexpr bool has_each_axis_once() {
    for (axis const which : all_axes)
      if (count(which) > 1) return false;
    return true;
  }
  static_assert(
      has_each_axis_once(),
      "hybrid<Policies...>: two policies have the same role, but a mesh has at most one axis of "
      "each role; write one policy whose number of ranks is the product of the two numbers");
  static constexpr int model_axis_count() {
    int found = 0;
    for (axis const which : all_axes) found += model_axes.contains(which) && count(which) > 0;
    return found;
  }
  static_assert(model_axis_count() <= 1,
                "hybrid<Policies...>: two policies are along model axes (tensor, context, expert), "
                "but the forms of layers divide work along only one of them; write one policy "
                "whose number of ranks is the product of the two numbers");
  static constexpr int count_at_launch() {
    int count = 0;
    for (axis const which : all_axes) count += grid().size(which) == 0;
    return count;
  }
  static_assert(count_at_launch() <= 1,
                "hybrid<Policies...>: the sizes of two axes are left to the launch, which sets "
                "only one number; write the number of ranks of one of the two policies");
  template <axis Which>
  using along = typename first_along<Which, Policies...>::type;
};

template <class P>
  requires is_composed<P>
struct policy_traits<P> : composed_traits<typename P::policies> {
  static_assert(
      !has_axis<P> && !requires { P::ranks; },
      "this policy consists of others (`policies`) but also declares an axis or ranks of its own; "
      "leave `along` and `ranks` out, or put them into a policy of the list");
};

}  // namespace plait::detail

namespace plait::ext {

/// The mesh of a policy. A data axis whose size is chosen at launch has size 0.
template <class P>
inline constexpr mesh mesh_of = detail::policy_traits<P>::grid();

}  // namespace plait::ext

namespace plait::detail {

/// Returns the rules of a policy. A policy without a data axis is treated as one with a single data
/// rank. If the batch is cut into slices, sums over samples are added slice by slice.
template <class P>
constexpr policy_rules rules_of() {
  policy_rules out;
  policy_traits<data_parallel<1>>::add_rules(out);
  policy_traits<P>::add_rules(out);
  for (axis const which : all_axes)
    if (out.slicing.slices > 0 && out.parameters.summed.at(which) == partial)
      out.parameters.summed = out.parameters.summed.with(which, sliced);
  return out;
}

/// Returns the least number of bytes in a bucket of gradients. The number is 0 if gradients are not
/// reduced or are reduced only after all passes. A policy with slices reduces after all passes,
/// because sums over slices are complete only after the last slice.
template <class P>
constexpr std::size_t least_bucket_bytes() {
  using data = typename policy_traits<P>::template along<axis::data>;
  constexpr mesh grid = policy_traits<P>::grid();
  constexpr bool has_samples = grid.has(axis::data) || grid.has(axis::replica);
  if constexpr (!has_samples || rules_of<P>().slicing.slices > 0) return 0;
  else if constexpr (requires { data::bucket_bytes; }) return data::bucket_bytes;
  else return plait::ext::usual_bucket_bytes;
}

/// Returns true if a step applies the gradients of the step before, see `delayed`.
template <class P>
constexpr bool delays_updates() {
  using data = typename policy_traits<P>::template along<axis::data>;
  if constexpr (requires { data::delayed_steps; }) return data::delayed_steps > 0;
  else return false;
}

/// Returns the number of steps between two common updates of a policy's replicas, see
/// `local_steps`; 0 if it has no replicas.
template <class P>
constexpr int steps_between_common_updates() {
  using traits = policy_traits<P>;
  return std::max(steps_of_replicas<typename traits::template along<axis::data>>(),
                  steps_of_replicas<typename traits::template along<axis::replica>>());
}

template <class>
inline constexpr int ranks_of_data_parallel = 0;
template <int Ranks, class... Options>
inline constexpr int ranks_of_data_parallel<data_parallel<Ranks, Options...>> = Ranks;

/// Returns the policy, as text for messages, that the user can write in place of P so that each
/// rank owns a block of the parameters.
template <class P>
[[gnu::cold]] std::string with_owned_blocks() {
  using traits = policy_traits<P>;
  using data = typename traits::template along<axis::data>;
  constexpr int ranks = ranks_of_data_parallel<data>;
  if (ranks == 0 || traits::grid().has(axis::replica))
    return "`.owned = plait::shard<plait::dim::elements>` in the `parameters` of each policy whose "
           "ranks have samples of their own (zero<1> in data_parallel)";
  std::string options;
  if constexpr (requires { data::says_buckets; })
    if (data::says_buckets)
      options = concat(
          {", buckets<",
           (data::bucket_bytes > 0 ? std::to_string(data::bucket_bytes) : "plait::at_end"), ">"});
  std::string sent;
  if constexpr (ranks != 0) {
    if (data::parameters.sent == wire_format::bfloat16) sent = ", compressed<plait::bfloat16>";
    if (data::parameters.sent == wire_format::float8) sent = ", compressed<plait::float8>";
  }
  std::string shares;
  if constexpr (ranks != 0) shares = text_of_shares(data::shares);
  return concat({"data_parallel<",
                 (ranks == at_launch ? "plait::at_launch" : std::to_string(ranks)), ", zero<1>",
                 options, sent, (shares.empty() ? "" : ", "), shares,
                 (delays_updates<P>() ? ", delayed<1>>" : ">")});
}

}  // namespace plait::detail

namespace plait::ext {

/// The placements of a step's samples under a policy.
template <class P>
inline constexpr placements samples_of = detail::rules_of<P>().samples;

/// The placements of parameters under a policy.
template <class P>
inline constexpr parameter_rules parameter_rules_of = detail::rules_of<P>().parameters;

/// The rule by which a policy cuts a global batch into slices.
template <class P>
inline constexpr batch_slicing slicing_of = detail::rules_of<P>().slicing;

/// The rule of a policy by which units (layers or residuals, see cut_at) recompute values before
/// their backward.
template <class P>
inline constexpr recompute_rule recompute_rule_of = detail::rules_of<P>().recomputes;

/// The least number of bytes in a bucket of gradients; 0 if gradients are reduced after all passes.
template <class P>
inline constexpr std::size_t bucket_bytes_of = detail::least_bucket_bytes<P>();

/// True if a step applies the gradients of the step before, see `delayed`.
template <class P>
inline constexpr bool delays_updates_of = detail::delays_updates<P>();

/// The number of steps between two common updates of a policy's replicas, see `local_steps`; 0 if
/// it has no replicas.
template <class P>
inline constexpr int local_steps_of = detail::steps_between_common_updates<P>();

/// The policy for the axis `Which`: P itself, or a policy that P contains; `serial` if there is
/// none.
template <class P, axis Which>
using policy_along = typename detail::policy_traits<P>::template along<Which>;

}  // namespace plait::ext
