// SPDX-License-Identifier: Apache-2.0
// Policies without a meaning.
// first: this policy says what ranks do but not along which axis
// first: this policy gives each rank its own samples, but nothing would sum the ranks' gradients;
// first: this policy declares `forms`, the dimensions that layers may cut, but its axis is not a
// first: this policy is along a context or expert axis but declares no `forms`
// first: this policy places samples wrongly
// first: this policy names an axis but not its number of ranks
// first: this policy's `delayed_steps` is neither 0 nor 1
// first: this policy's `shares` contain a number below 1
#include <type_traits>

#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr bool right = false;
#else
constexpr bool right = true;
#endif

using plait::axis;
using plait::placement;
using plait::ext::parameter_rule;
constexpr placement by_samples = plait::shard<plait::dim::batch>;

struct empty {};
struct along_data {
  static constexpr axis along = axis::data;
};
struct two_ranks {
  static constexpr int ranks = 2;
};
struct cut_samples {
  static constexpr placement samples = by_samples;
};
struct summed {
  static constexpr parameter_rule parameters{.summed = plait::partial};
};
template <class... Parts>
struct policy_of : Parts... {
  using concept_tag = plait::ext::policy_tag;
};
template <class Part>
using if_right = std::conditional_t<right, Part, empty>;

struct cuts_forms {
  using concept_tag = plait::ext::policy_tag;
  static constexpr axis along = right ? axis::tensor : axis::stage;
  static constexpr int ranks = 2;
  static constexpr plait::ext::form_cuts forms{.features = false, .sequence = true};
};

int const without_axis =
    plait::ext::mesh_of<policy_of<if_right<along_data>, two_ranks, cut_samples, summed>>.world_size();
int const never_sums =
    plait::ext::mesh_of<policy_of<along_data, two_ranks, cut_samples, if_right<summed>>>.world_size();
int const forms_elsewhere = plait::ext::mesh_of<cuts_forms>.world_size();
struct along_context {
  static constexpr axis along = right ? axis::tensor : axis::context;
};
int const without_forms = plait::ext::mesh_of<policy_of<along_context, two_ranks>>.world_size();
int const same_samples =
    plait::ext::mesh_of<policy_of<along_data, two_ranks, if_right<cut_samples>, summed>>.world_size();
int const without_ranks =
    plait::ext::mesh_of<policy_of<along_data, if_right<two_ranks>, cut_samples, summed>>.world_size();

struct delays {
  static constexpr int delayed_steps = right ? 1 : 2;
};
int const two_steps_late =
    plait::ext::mesh_of<policy_of<along_data, two_ranks, cut_samples, summed, delays>>.world_size();
struct of_unequal_ranks {
  static constexpr int numbers[2]{2, right ? 1 : 0};
  static constexpr plait::ext::static_view<int> shares{numbers, 2};
};
int const no_share =
    plait::ext::mesh_of<policy_of<along_data, two_ranks, cut_samples, summed, of_unequal_ranks>>.world_size();

int main() {}
