// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "plait/placement/transition.hpp"
#include "plait/policy/policy.hpp"

namespace plait::detail {

template <class P>
concept is_composed = requires { typename P::policies; };
template <class P>
concept has_axis = requires { P::along; };

// True if P declares a misspelt member (here `rank`) and lacks the correct one (here `ranks`). A
// misspelt member is an error only then, because a policy may have other members.
template <class P>
concept says_rank_for_ranks = requires { P::rank; } && !requires { P::ranks; };
template <class P>
concept says_sample_for_samples = requires { P::sample; } && !requires { P::samples; };
template <class P>
concept says_parameter_for_parameters = requires { P::parameter; } && !requires { P::parameters; };
template <class P>
concept says_form_for_forms = requires { P::form; } && !requires { P::forms; };
template <class P>
concept says_slice_for_slices = requires { P::slice; } && !requires { P::slices; };
template <class P>
concept says_schedule_for_schedule_type =
    requires { typename P::schedule; } && !requires { typename P::schedule_type; };
template <class P>
concept says_cut_for_cuts = requires { typename P::cut; } && !requires { typename P::cuts; };

/// True if P has one of these misspelt members, which plait would ignore.
template <class P>
concept has_near_miss =
    says_rank_for_ranks<P> || says_sample_for_samples<P> || says_parameter_for_parameters<P> ||
    says_form_for_forms<P> || says_slice_for_slices<P> || says_schedule_for_schedule_type<P> ||
    says_cut_for_cuts<P>;

/// Returns the parameter rule of a policy, or the default rule if the policy declares none.
template <class P>
constexpr parameter_rule rule_of() {
  if constexpr (requires { P::parameters; }) return P::parameters;
  else return {};
}
template <class P>
constexpr placement samples_along() {
  if constexpr (requires { P::samples; }) return P::samples;
  else return invariant;
}
/// Returns the number of steps between two common updates of the replicas along a policy's axis,
/// see `local_steps`; 0 without replicas.
template <class P>
constexpr int steps_of_replicas() {
  if constexpr (requires {
                  { P::local_steps } -> std::convertible_to<int>;
                })
    return P::local_steps;
  else return 0;
}

/// Returns the number of steps by which a policy delays updates, see `delayed`; 0 without a delay.
template <class P>
constexpr int delay_of() {
  if constexpr (requires {
                  { P::delayed_steps } -> std::convertible_to<int>;
                })
    return P::delayed_steps;
  else return 0;
}
/// Returns true if the shares of a policy, if it has any, are in the range of `shares`. The plan
/// checks their number.
template <class P>
constexpr bool has_sound_shares() {
  if constexpr (requires {
                  { P::shares } -> std::convertible_to<static_view<int>>;
                }) {
    constexpr static_view<int> all = P::shares;
    std::int64_t sum = 0;
    for (int i = 0; i < all.size(); ++i) {
      if (all[i] < 1) return false;
      sum += all[i];
    }
    return all.size() == 0 || (P::along == axis::data && sum <= greatest_sum_of_shares);
  } else {
    return true;
  }
}

/// Fails to compile if a policy has a misspelt member, because plait would ignore this member.
/// Compilers print the template argument Policy.
template <class Policy>
consteval void check_policy_names() {
  static_assert(!says_rank_for_ranks<Policy>,
                "this policy has `rank`, which nothing reads, and no `ranks`; write `static "
                "constexpr int ranks = N;`");
  static_assert(!says_sample_for_samples<Policy>,
                "this policy has `sample`, which nothing reads, and no `samples`; write `static "
                "constexpr plait::placement samples = plait::shard<plait::dim::batch>;`");
  static_assert(!says_parameter_for_parameters<Policy>,
                "this policy has `parameter`, which nothing reads, and no `parameters`; write "
                "`static constexpr plait::ext::parameter_rule parameters{...};`");
  static_assert(!says_form_for_forms<Policy>,
                "this policy has `form`, which nothing reads, and no `forms`; write `static "
                "constexpr plait::ext::form_cuts forms{...};`");
  static_assert(!says_slice_for_slices<Policy>,
                "this policy has `slice`, which nothing reads, and no `slices`; write `static "
                "constexpr int slices = G;`");
  static_assert(!says_schedule_for_schedule_type<Policy>,
                "this policy has `schedule`, which nothing reads, and no `schedule_type`; write "
                "`using schedule_type = ...;`");
  static_assert(!says_cut_for_cuts<Policy>,
                "this policy has `cut`, which nothing reads, and no `cuts`; write `using cuts = "
                "plait::cut_at<...>;`");
}

template <class Policy>
consteval void check_policy_without_axis() {
  static_assert(
      !requires { Policy::ranks; } && !requires { Policy::samples; } &&
          !requires { Policy::parameters; } && !requires { Policy::forms; },
      "this policy says what ranks do but not along which axis; write `static constexpr "
      "plait::axis along = plait::axis::data;`, or the role that its axis has");
}

template <class Policy>
consteval void check_policy_ranks() {
  static_assert(
      requires {
        { Policy::along } -> std::convertible_to<axis>;
        { Policy::ranks } -> std::convertible_to<int>;
      },
      "this policy names an axis but not its number of ranks; write `static constexpr int ranks = "
      "N;` and `static constexpr plait::axis along = ...;`");
  if constexpr (requires { Policy::ranks; }) {
    constexpr bool may_wait = batch_axes.contains(Policy::along);
    static_assert(Policy::ranks >= 1 || (may_wait && Policy::ranks == at_launch),
                  "this policy has fewer than 1 rank; set `ranks` to at least 1, or, on a data or "
                  "replica axis, to at_launch");
  }
}

template <class Policy>
consteval void check_policy_rules() {
  constexpr axis along = Policy::along;
  constexpr bool has_samples = batch_axes.contains(along);
  constexpr parameter_rule rule = rule_of<Policy>();
  constexpr bool is_local = steps_of_replicas<Policy>() > 0;
  constexpr bool varies = rule.kept == varying && rule.summed == varying && rule.owned == varying;
  static_assert(is_local == varies,
                "this policy declares only one of the two members that make its ranks replicas; "
                "write both, `static constexpr int local_steps = H;`, with an H of at least 1, and "
                ".kept, .summed and .owned = plait::ext::varying in `parameters`, or leave both "
                "out");
  constexpr int delay = delay_of<Policy>();
  static_assert(delay == 0 || (delay == 1 && along == axis::data),
                "this policy's `delayed_steps` is neither 0 nor 1, or the policy is not along a "
                "data axis; write `static constexpr int delayed_steps = 1;` in the policy of the "
                "data axis, or leave it out");
  static_assert(has_sound_shares<Policy>(),
                "this policy's `shares` contain a number below 1, their sum is above 65536, or the "
                "policy is not along a data axis; write numbers as in shares<3, 1>, or leave "
                "`shares` out");
  static_assert((samples_along<Policy>() == shard<dim::batch>) == has_samples,
                "this policy places samples wrongly: on a data or replica axis each rank has its "
                "own samples, so write `static constexpr plait::placement samples = "
                "plait::shard<plait::dim::batch>;`; on the other axes leave `samples` out");
  static_assert(
      !has_samples || is_local || rule.summed == partial || rule.summed == shard<dim::elements>,
      "this policy gives each rank its own samples, but nothing would sum the ranks' gradients; "
      "write `static constexpr plait::ext::parameter_rule parameters{.summed = plait::partial};`");
  static_assert(is_local || rule.kept == invariant || rule.kept == shard<dim::elements>,
                "this policy keeps parameters neither whole on each rank nor as blocks of their "
                "elements; leave `.kept` out, or write .kept = plait::shard<plait::dim::elements>");
  static_assert(is_local || rule.owned == invariant || rule.owned == shard<dim::elements>,
                "this policy's optimizers own neither all parameters nor a block of their "
                "elements; leave `.owned` out, or write .owned = "
                "plait::shard<plait::dim::elements>");
  static_assert(
      is_local || rule.owned == shard<dim::elements> ||
          (rule.kept == invariant && rule.summed != shard<dim::elements>),
      "this policy's ranks hold blocks of parameters or of gradients, but each rank's optimizer "
      "owns all of them; also write .owned = plait::shard<plait::dim::elements>");
  static_assert(transition_between(rule.summed, rule.owned).allowed() &&
                    transition_between(rule.owned, rule.kept).allowed(),
                "this policy's gradients cannot change from `summed` to `owned`, or its parameters "
                "from `owned` to `kept`, because the table of transitions has no such row; write "
                ".summed = plait::partial");
  static_assert(has_samples || rule == parameter_rule{},
                "this policy declares `parameters` on an axis along which forms or stages place "
                "the parameters; leave `parameters` out");
  static_assert((along != axis::context && along != axis::expert) || requires { Policy::forms; },
                "this policy is along a context or expert axis but declares no `forms`, so all "
                "ranks would do the same work; write `static constexpr plait::ext::form_cuts "
                "forms{...};`, or declare another role in `along`");
  static_assert(
      model_axes.contains(along) || !requires { Policy::forms; },
      "this policy declares `forms`, the dimensions that layers may cut, but its axis is not a "
      "model axis; write `along = plait::axis::tensor`, or leave `forms` out");
}

/// True for a policy without contradictions; any other policy fails to compile. This is a variable
/// and not a function so that the messages of g++ do not contain the functions that lead to it.
template <class P>
inline constexpr bool is_sound_policy = [] {
  if constexpr (has_near_miss<P>) {
    check_policy_names<P>();
  } else if constexpr (!has_axis<P>) {
    check_policy_without_axis<P>();
  } else {
    check_policy_ranks<P>();
    if constexpr (requires { P::ranks; }) check_policy_rules<P>();
  }
  return true;
}();

}  // namespace plait::detail
