// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/mesh/mesh.hpp"
#include "plait/policy/data_parallel.hpp"
#include "plait/policy/policy.hpp"

namespace plait {

/// Several policies in one mesh. The first varies slowest in the numbering of ranks.
template <class... Policies>
struct hybrid {
  static_assert((policy<Policies> && ...),
                "hybrid<Policies...>: an argument is not a policy; write data_parallel<N>, "
                "tensor_parallel<N> or pipeline<N>");
  using concept_tag = policy_tag;
};

namespace detail {

/// What a policy says, on each of its axes.
struct policy_rules {
  layout samples{};
  parameter_rules parameters{};

  template <class P>
  constexpr void add() {
    if constexpr (requires { P::samples; }) samples = samples.with(P::along, P::samples);
    if constexpr (requires { P::parameters; }) parameters.set(P::along, P::parameters);
  }
};

template <class P>
struct policy_traits {
  static constexpr mesh grid() {
    mesh out;
    out.add(P::along, P::ranks);
    return out;
  }
  static constexpr void add_rules(policy_rules& to) { to.add<P>(); }
  template <axis Which>
  using along = std::conditional_t<P::along == Which, P, serial>;
};

template <>
struct policy_traits<serial> {
  static constexpr mesh grid() { return {}; }
  static constexpr void add_rules(policy_rules&) {}
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
  static_assert(has_each_axis_once(),
                "hybrid<Policies...>: two policies of one kind; a mesh has one data, one tensor "
                "and one stage axis, so multiply their sizes into one policy");
  template <axis Which>
  using along = typename first_along<Which, Policies...>::type;
};

}  // namespace detail

/// The mesh of a policy; a data axis whose size is chosen at launch has size 0.
template <class P>
inline constexpr mesh mesh_of = detail::policy_traits<P>::grid();

namespace detail {

/// A policy without a data axis has one data rank.
template <class P>
constexpr policy_rules rules_of() {
  policy_rules out;
  policy_traits<data_parallel<1>>::add_rules(out);
  policy_traits<P>::add_rules(out);
  return out;
}

}  // namespace detail

/// How a step's samples lie on the axes.
template <class P>
inline constexpr layout samples_of = detail::rules_of<P>().samples;

/// How parameters stand on the axes.
template <class P>
inline constexpr parameter_rules parameter_rules_of = detail::rules_of<P>().parameters;

/// The part of a policy along an axis, `serial` if there is none.
template <class P, axis Which>
using policy_along = typename detail::policy_traits<P>::template along<Which>;

}  // namespace plait
