// SPDX-License-Identifier: Apache-2.0
// Uses of recompute without a meaning.
// first: hybrid<Policies...>: recompute appears more than once; write it once, as recompute<What
// first: units::first<Count>: Count is less than 1, so that nothing would be recomputed
// first: units::on_stages<Stages...>: the list is empty or has a negative number; write the numbers
// first: recompute<What, Where>: Where does not choose units; write plait::units::everywhere,
// first: recompute<What, Where, Others>: the units of Where recompute no more than the others
#include "plait/policy/policies.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
using twice = hybrid<recompute<>, recompute<granularity::all>>;
constexpr int count = 0, stage = -1;
using where = int;
constexpr granularity what = granularity::cheap;
#else
using twice = hybrid<serial, recompute<granularity::all>>;
constexpr int count = 1, stage = 0;
using where = units::everywhere;
constexpr granularity what = granularity::all;
#endif

int main() {
  return int(ext::recompute_rule_of<twice>.what) + units::first<count>::greatest_stage +
             units::on_stages<stage>::greatest_stage +
             int(ext::recompute_rule_of<recompute<granularity::all, where>>.others) +
             int(ext::recompute_rule_of<recompute<what, units::first<1>, granularity::cheap>>.what) ==
         0;
}
