// SPDX-License-Identifier: Apache-2.0
// test: alone
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <span>
#include <vector>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "testing/count_allocations.hpp"

namespace {

TEST(ThreadCommunicator, CallsAllocateNothing) {
  std::vector<int> const members{0, 1, 2};
  plait::ext::thread_world world{3};
  int const group = world.add_group(members);
  long before = 0, after = 0;
  plait::ext::run_ranks(world, [&](int rank) {
    plait::ext::thread_communicator comm{world, group, members, rank};
    std::vector<float> small(100), big(300), other(300);
    auto const s = std::span{small};
    auto const b = std::span{big};
    comm.barrier();
    if (rank == 0) before = plait_test::allocations.load();
    comm.barrier();
    for (int repeat = 0; repeat < 200; ++repeat) {
      comm.all_reduce(s);
      comm.all_gather(small, b);
      comm.reduce_scatter(big, s);
      comm.all_to_all(big, std::span{other});
      comm.broadcast(s, 1);
      if (rank == 0) comm.send(s, 1, 5);
      if (rank == 1) comm.receive(s, 0, 5);
    }
    comm.barrier();
    if (rank == 0) after = plait_test::allocations.load();
    comm.barrier();
  });
  EXPECT_GT(before, 0);
  EXPECT_EQ(after, before);
}

}  // namespace
