// SPDX-License-Identifier: Apache-2.0
// test: seconds=10
// Runs the suite that all backends share, and tests the properties of threads: time, groups in any
// order, and the numbers with which a plan's traffic is compared.
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/host/run_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/testing/communicator_suite.hpp"

namespace {

using plait::ext::collective;
using plait::ext::reduction;
using plait::ext::thread_communicator;
using plait::testing::check_communicators;

// Runs `program(communicator)` on the ranks of one group that is the whole world.
template <class Program>
void on_threads(int ranks, Program program) {
  plait::ext::thread_world world{ranks};
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  int const group = world.add_group(members);
  plait::ext::run_ranks(world, [&](int rank) {
    thread_communicator comm{world, group, members, rank};
    program(comm);
  });
}

struct ThreadSuite : testing::TestWithParam<int> {};

TEST_P(ThreadSuite, Passes) {
  auto const report = check_communicators(plait::threads{}, {.ranks = GetParam()});
  EXPECT_TRUE(report.passed()) << report.text();
}
INSTANTIATE_TEST_SUITE_P(ThreadCommunicator, ThreadSuite, testing::Values(1, 2, 3, 4));

// A mesh of three axes with more ranks than most test machines have processors.
TEST(ThreadCommunicator, SuiteOnAMeshOfThreeAxes) {
  auto const report =
      check_communicators(plait::threads{}, {.ranks = 8, .sizes = {0, 1, 65}, .rounds = 100});
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(ThreadCommunicator, NoRankLeavesABarrierBeforeTheLastHasCome) {
  std::atomic<int> came{0};
  on_threads(4, [&](thread_communicator& comm) {
    for (int round = 1; round <= 200; ++round) {
      came.fetch_add(1);
      comm.barrier();
      ASSERT_GE(came.load(), 4 * round);
      comm.barrier();
    }
  });
}

TEST(ThreadCommunicator, GroupsOfOneWorldDoNotDisturbEachOther) {
  // Six ranks as 3 x 2: rows {0,1} {2,3} {4,5}, columns {4,2,0} {1,3,5}. The order of a group is
  // not sorted.
  plait::ext::thread_world world{6};
  std::vector<std::vector<int>> const rows{{0, 1}, {2, 3}, {4, 5}}, columns{{4, 2, 0}, {1, 3, 5}};
  std::vector<int> row_ids, column_ids;
  for (auto const& row : rows) row_ids.push_back(world.add_group(row));
  for (auto const& column : columns) column_ids.push_back(world.add_group(column));
  plait::ext::run_ranks(world, [&](int rank) {
    auto const r = static_cast<std::size_t>(rank / 2), c = static_cast<std::size_t>(rank % 2);
    thread_communicator row{world, row_ids[r], rows[r], rank};
    thread_communicator column{world, column_ids[c], columns[c], rank};
    ASSERT_EQ(column.rank(), c == 0 ? 2 - rank / 2 : rank / 2);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<double> x{static_cast<double>(rank)}, all(3);
      column.all_gather(x, std::span{all});
      for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(all[i], columns[c][i]);
      row.all_reduce(std::span{x});
      ASSERT_EQ(x[0], rows[r][0] + rows[r][1]);
      column.all_reduce(std::span{x});
      ASSERT_EQ(x[0], 15);
    }
  });
}

TEST(ThreadCommunicator, CountsTheBusiestRanksBytes) {
  on_threads(3, [](thread_communicator& comm) {
    std::vector<float> small(5), big(15);  // 20 and 60 bytes
    std::vector<float> other(15);
    auto const s = std::span{small};
    auto const b = std::span{big};
    comm.all_reduce(s);  // 2 * 20 * 2/3 = 26.67
    comm.all_reduce(s, reduction::max);
    comm.all_gather(small, b);  // 60 * 2/3
    comm.reduce_scatter(big, s);
    comm.all_to_all(big, std::span{other});  // 3 * 60 * 2/9
    comm.broadcast(s, 1);
    comm.barrier();
    if (comm.rank() == 0) comm.send(s, 1, 0);
    if (comm.rank() == 1) comm.receive(s, 0, 0);

    auto const& counted = comm.counted();
    EXPECT_EQ(counted.calls(collective::all_reduce), 2u);
    EXPECT_EQ(counted.bytes(collective::all_reduce), 2 * 27u);
    EXPECT_EQ(counted.bytes(collective::all_gather), 40u);
    EXPECT_EQ(counted.bytes(collective::reduce_scatter), 40u);
    EXPECT_EQ(counted.bytes(collective::all_to_all), 40u);
    EXPECT_EQ(counted.bytes(collective::broadcast), 20u);
    EXPECT_EQ(counted.calls(collective::barrier), 1u);
    EXPECT_EQ(counted.calls(collective::send), comm.rank() == 0 ? 1u : 0u);
    EXPECT_EQ(counted.bytes(collective::send), comm.rank() == 0 ? 20u : 0u);
    EXPECT_EQ(counted.calls(collective::receive), comm.rank() == 1 ? 1u : 0u);
    EXPECT_EQ(counted.bytes(collective::receive), 0u);
    EXPECT_EQ(counted.total_bytes(), 54u + 3 * 40 + 20 + (comm.rank() == 0 ? 20 : 0));
    comm.reset_counted();
    EXPECT_EQ(comm.counted(), plait::ext::traffic{});
  });
}

TEST(ThreadCommunicator, OneRankMovesNoBytesButChecksSizes) {
  on_threads(1, [](thread_communicator& comm) {
    std::vector<float> x{1, 2}, y(2), wrong(3);
    comm.barrier();
    comm.all_reduce(std::span{x});
    comm.all_to_all(x, std::span{y});
    EXPECT_EQ(x, y);
    EXPECT_EQ(comm.counted().total_bytes(), 0u);
    EXPECT_EQ(comm.counted().calls(collective::all_reduce), 1u);
    EXPECT_THROW(comm.all_gather(x, std::span{wrong}), plait::size_mismatch);
    EXPECT_THROW(comm.broadcast(std::span{x}, 1), plait::input_error);
    EXPECT_THROW(comm.send(std::span{x}, 0, 0), plait::input_error);
  });
}

TEST(ThreadCommunicator, EightRanksFinishManySmallCalls) {
  auto const begin = std::chrono::steady_clock::now();
  on_threads(8, [](thread_communicator& comm) {
    std::vector<float> x(16);
    for (int i = 0; i < 1000; ++i) {
      std::ranges::fill(x, 1.0f);
      comm.all_reduce(std::span{x});
      ASSERT_EQ(x[7], 8.0f);
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{20});
}

}  // namespace
