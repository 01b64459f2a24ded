// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "plait/plait.hpp"

namespace plait_test {

/// Checks that the memory of a rank, except for batches, is the memory that the plan declares.
template <class Job>
void expect_planned_memory(int stage, plait::ext::memory_need const& there,
                           plait::workload const& load) {
  auto const planned = Job::plan_type::memory(stage, load);
  EXPECT_EQ(there.parameters, planned.parameters);
  EXPECT_EQ(there.gradients, planned.gradients);
  EXPECT_EQ(there.pending, planned.pending);
  EXPECT_EQ(there.optimizer, planned.optimizer);
  EXPECT_EQ(there.averages, planned.averages);
  EXPECT_EQ(there.activations, planned.activations);
  EXPECT_EQ(there.numbers, planned.numbers);
}

/// Checks that the bytes that a rank has moved since its groups' counters were reset are the bytes
/// of one step in the plan.
template <class Job, class Rank>
void expect_planned_bytes(Rank& rank, plait::workload const& load) {
  for (auto const over : rank.groups().sets())
    EXPECT_EQ(std::int64_t(rank.group(over).counted().total_bytes()),
              Job::plan_type::bytes_sent(over, rank.stage(), load).total())
        << to_string(over) << " on stage " << rank.stage();
}

}  // namespace plait_test
