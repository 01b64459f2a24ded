// SPDX-License-Identifier: Apache-2.0
// first: this policy has `rank`, which nothing reads, and no `ranks`; write `static constexpr int
// first: this policy has `sample`, which nothing reads, and no `samples`; write `static constexpr
// first: this policy has `parameter`, which nothing reads, and no `parameters`; write
// first: this policy has `form`, which nothing reads, and no `forms`; write `static constexpr
// first: this policy has `slice`, which nothing reads, and no `slices`; write `static constexpr int
// first: this policy has `schedule`, which nothing reads, and no `schedule_type`; write `using
// first: this policy has `cut`, which nothing reads, and no `cuts`; write `using cuts =
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/policy/policies.hpp"
#include "plait/schedule/gpipe.hpp"

using plait::axis;

struct base {
  using concept_tag = plait::ext::policy_tag;
};
struct of_data : base {
  static constexpr axis along = axis::data;
};
struct of_samples {
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
};
struct summed {
  static constexpr plait::ext::parameter_rule parameters{.summed = plait::partial};
};
template <axis Along>
struct two_ranks : base {
  static constexpr axis along = Along;
  static constexpr int ranks = 2;
};

#ifdef PLAIT_EXPECT_FAIL
struct one : of_data, of_samples, summed {
  static constexpr int rank = 2;
};
struct two : two_ranks<axis::data>, summed {
  static constexpr plait::placement sample = plait::shard<plait::dim::batch>;
};
struct three : two_ranks<axis::data>, of_samples {
  static constexpr plait::ext::parameter_rule parameter{.summed = plait::partial};
};
struct four : two_ranks<axis::tensor> {
  static constexpr plait::ext::form_cuts form{.sequence = true};
};
struct five : base {
  static constexpr int slice = 4;
};
struct six : two_ranks<axis::stage> {
  using schedule = plait::gpipe;
};
struct seven : two_ranks<axis::stage> {
  using cut = plait::cut_at<1>;
};
#else
struct one : of_data, of_samples, summed {
  static constexpr int rank = 2;  // a name of the policy's own
  static constexpr int ranks = rank;
};
struct two : two_ranks<axis::data>, of_samples, summed {};
struct three : two_ranks<axis::data>, of_samples, summed {};
struct four : two_ranks<axis::tensor> {
  static constexpr plait::ext::form_cuts forms{.sequence = true};
};
struct five : base {
  static constexpr int slices = 4;
};
struct six : two_ranks<axis::stage> {
  using schedule_type = plait::gpipe;
};
struct seven : two_ranks<axis::stage> {
  using cuts = plait::cut_at<1>;
};
#endif

// For a job the compiler prints nothing else first.
struct job : plait::parallel<plait::nn::linear<8, 8>, one> {};
static_assert(job::plan().grid.world_size() >= 1);
static_assert(plait::ext::mesh_of<two>.dimension_count == 1);
static_assert(plait::ext::mesh_of<three>.dimension_count == 1);
static_assert(plait::ext::mesh_of<four>.dimension_count == 1);
static_assert(plait::ext::mesh_of<five>.dimension_count == 0);
static_assert(plait::ext::mesh_of<six>.dimension_count == 1);
static_assert(plait::ext::mesh_of<seven>.dimension_count == 1);

int main() {}
