// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

/// The element types of a job: `parallel<Model, Policy, precision<bfloat16, float>>`.
///
/// `Compute` is the type of activations and of the parameters that layers see. `Parameters` is the
/// type of the parameters that the optimizer updates, and of the optimizer state. `Reduce` is the
/// type of parameter gradients, which are summed over microbatches and ranks. State that layers
/// declare, such as running statistics, has the type accumulate_t<Compute>. For example,
/// precision<bfloat16, float> is the usual mixed precision: bfloat16 compute, float master weights.
template <class Compute, class Parameters = Compute, class Reduce = Parameters>
struct precision {
  static_assert(
      std::is_same_v<Compute, float> || std::is_same_v<Compute, double> ||
          std::is_same_v<Compute, bfloat16>,
      "precision<Compute, Parameters, Reduce>: Compute must be float, double or bfloat16");
  static_assert(std::is_same_v<Parameters, Compute> ||
                    (std::is_same_v<Compute, bfloat16> && std::is_same_v<Parameters, float>),
                "precision<Compute, Parameters, Reduce>: Parameters must be Compute or, if Compute "
                "is bfloat16, float");
  static_assert(std::is_same_v<Reduce, accumulate_t<Compute>>,
                "precision<Compute, Parameters, Reduce>: Reduce, the type in which gradients are "
                "added up, must be float if Compute is bfloat16, else Compute");
  using compute = Compute;
  using parameters = Parameters;
  using reduce = Reduce;
};

}  // namespace plait

namespace plait::detail {

template <class Element>
struct precision_of {
  static constexpr bool is_one = std::is_same_v<Element, float> || std::is_same_v<Element, double>;
  using type = precision<Element>;
};
template <class Compute, class Parameters, class Reduce>
struct precision_of<precision<Compute, Parameters, Reduce>> {
  static constexpr bool is_one = true;
  using type = precision<Compute, Parameters, Reduce>;
};

}  // namespace plait::detail

namespace plait::ext {

/// The precision for `Element`: `Element` itself if it is a precision, else precision<Element>.
template <class Element>
using precision_of = typename detail::precision_of<Element>::type;

}  // namespace plait::ext
