// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "plait/plan/plan.hpp"

namespace plait {

/// A model that runs under a policy: the type that everything else takes as its job.
///
/// Deriving an empty struct from it (`struct job : plait::parallel<...> {};`) keeps the names in
/// error messages and object files short.
/// `Element` is the type of parameters, activations and gradients: float or double.
template <class Model, class Policy, class Element = float>
struct parallel {
  static_assert(layer<Model>,
                "parallel<Model, Policy>: Model is not a layer; it needs `using concept_tag = "
                "plait::layer_tag;`");
  static_assert(policy<Policy>,
                "parallel<Model, Policy>: Policy is not a policy; write serial, data_parallel<N>, "
                "tensor_parallel<N>, pipeline<N> or hybrid<...>");
  static_assert(std::is_same_v<Element, float> || std::is_same_v<Element, double>,
                "parallel<Model, Policy, Element>: Element is neither float nor double");
  using model = Model;
  using policy_type = Policy;
  using element = Element;
  using plan_type = plait::plan<Model, Policy, Element>;

  /// Everything that is known before the job runs; see plan.hpp.
  static constexpr plan_type plan() { return {}; }
};

}  // namespace plait
