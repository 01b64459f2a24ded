// SPDX-License-Identifier: Apache-2.0
// first: hybrid<Policies...>: two policies have the same role, but a mesh has at most one axis of
// first: hybrid<Policies...>: two policies are along model axes
#include <type_traits>

#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr bool right = false;
#else
constexpr bool right = true;
#endif

/// Cuts the positions of a sequence.
struct by_positions {
  using concept_tag = plait::ext::policy_tag;
  static constexpr plait::axis along = plait::axis::context;
  static constexpr int ranks = 2;
  static constexpr plait::ext::form_cuts forms{.features = false, .sequence = true};
};

template <class Other>
using with_tensor_ranks = plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>, Other>;
using two_data =
    std::conditional_t<right, plait::hybrid<plait::data_parallel<4>, plait::tensor_parallel<2>>,
                       with_tensor_ranks<plait::data_parallel<2>>>;
using two_models = std::conditional_t<right, plait::hybrid<plait::data_parallel<2>, by_positions>,
                                      with_tensor_ranks<by_positions>>;

int const of_data = plait::ext::mesh_of<two_data>.world_size();
int const of_models = plait::ext::mesh_of<two_models>.world_size();

int main() {}
