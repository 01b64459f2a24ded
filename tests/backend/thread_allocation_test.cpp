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

namespace {

std::atomic<long> allocations{0};

}  // namespace

// Not inline, as the compiler would else take malloc and operator delete for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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
    if (rank == 0) before = allocations.load();
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
    if (rank == 0) after = allocations.load();
    comm.barrier();
  });
  EXPECT_GT(before, 0);
  EXPECT_EQ(after, before);
}

}  // namespace
