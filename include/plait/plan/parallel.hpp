// SPDX-License-Identifier: Apache-2.0
#pragma once

// This file is included first, because compilers' messages name all files through which a check is
// included.
#include "plait/core/precision.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/plan/checks.hpp"
#include "plait/policy/policies.hpp"

#include "plait/plan/plan.hpp"

namespace plait {

/// A model that runs under a policy: the type that trainers and checks take as their job.
///
/// Deriving an empty struct from it (`struct job : plait::parallel<...> {};`) keeps the names in
/// error messages and object files short. `Element` is the type of parameters, activations and
/// gradients: float, double, or a precision<> that sets a type for each of the three.
///
/// Example (tests/reference/names_in_use_test.cpp parallel):
///     struct job : plait::parallel<objective, plait::data_parallel<2>> {};
template <class Model, class Policy, class Element = float>
struct parallel {
  static_assert(!ext::policy<Model>,
                "parallel<Model, Policy>: the policy is written first; write the model first, then "
                "the policy");
  static_assert(layer<Model> || ext::policy<Model>,
                "parallel<Model, Policy>: Model is not a layer; it needs `using concept_tag = "
                "plait::layer_tag;`");
  static_assert(ext::policy<Policy>,
                "parallel<Model, Policy>: Policy is not a policy; write serial, data_parallel<N>, "
                "tensor_parallel<N>, pipeline<N> or hybrid<...>, or declare `using concept_tag = "
                "plait::ext::policy_tag;` in a policy type of your own");
  static_assert(detail::precision_of<Element>::is_one,
                "parallel<Model, Policy, Element>: Element is neither float nor double; for "
                "bfloat16 write precision<bfloat16, float>");
  // This check precedes the plan, so that its error is reported before errors of the plan.
  static_assert(planning::has_few_layers<planning::leaf_count<Model>, planning::most_layers>);
  static_assert(ext::mesh_of<Policy>.dimension_count >= 0);
  using model = Model;
  /// The types of activations, of the parameters that an optimizer updates, and of their gradients.
  using element = typename ext::precision_of<Element>::compute;
  using parameter_element = typename ext::precision_of<Element>::parameters;
  using gradient_element = typename ext::precision_of<Element>::reduce;
  using plan_type = plait::ext::plan<Model, Policy, Element>;

  /// Returns the plan, which has everything that is known before the job runs; see plan.hpp.
  static constexpr plan_type plan() { return {}; }
};

}  // namespace plait
