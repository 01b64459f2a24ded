// SPDX-License-Identifier: Apache-2.0
// second error: g++ names what a constant expression threw behind the constant
// expect: list of transfers: no operation of the table
#include <vector>

#include "plait/plan/schedule/transfers.hpp"

using plait::ext::placements, plait::axis;

#ifdef PLAIT_EXPECT_FAIL
constexpr auto over_tensor = plait::shard<plait::dim::features>;  // a sum and a gather at once
#else
constexpr auto over_tensor = plait::partial;
#endif

/// The number of rows in a list of one.
constexpr std::size_t count_rows(placements const& from, placements const& to) {
  plait::planning::plan_ir const plan{};
  plait::planning::parameter_layout const parameters{};
  plait::workload const load{};
  std::vector<plait::ext::scheduled_work> const passes;
  plait::planning::transfer_lister list{
      plan, parameters, 0, load, plait::planning::job_part::training, passes};
  list.add({plait::planning::transfer_place::gradients, from, to});
  return list.out.size();
}
static_assert(
    count_rows(placements{}.with(axis::data, plait::partial).with(axis::tensor, over_tensor), {}) ==
    1);

int main() {}
