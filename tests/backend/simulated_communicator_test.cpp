// SPDX-License-Identifier: Apache-2.0
// test: seconds=10
// Runs the suite that all backends share, in several orders of execution, and tests errors that
// appear late.
#include "plait/backend/simulated/simulated_communicator.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/testing/communicator_suite.hpp"

namespace {

using plait::axis;
using plait::testing::check_communicators;

template <class Program>
auto run_on(auto const& backend, int ranks, Program program) {
  plait::ext::mesh grid;
  grid.add(axis::data, ranks);
  backend.run(grid, [&](auto& rank) {
    program(rank);
    rank.device().synchronize();
  });
}

TEST(SimulatedCommunicator, SuiteInSeveralOrders) {
  for (int const ranks : {1, 2, 3, 4})
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      auto const report = check_communicators(plait::simulated{.seed = seed},
                                              {.ranks = ranks, .sizes = {0, 1, 37}, .rounds = 50});
      EXPECT_TRUE(report.passed()) << "seed " << seed << "\n" << report.text();
    }
}

TEST(SimulatedCommunicator, SuiteInOrder) {
  auto const report =
      check_communicators(plait::simulated{.order = plait::ext::simulated_order::in_order},
                          {.ranks = 3, .rounds = 100});
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(SimulatedCommunicator, SuiteOnFiveRanks) {
  auto const report =
      check_communicators(plait::simulated{.seed = 7}, {.ranks = 5, .sizes = {3, 4099}});
  EXPECT_TRUE(report.passed()) << report.text();
}

// Returns the text of the error that synchronize() throws, for each rank.
template <class Error, class Program>
std::vector<std::string> errors_of(int ranks, Program program, std::uint64_t seed = 1) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  plait::ext::mesh grid;
  grid.add(axis::data, ranks);
  plait::simulated{.seed = seed}.run(grid, [&](auto& rank) {
    auto const room = rank.device().allocate(1024);
    auto* const data = reinterpret_cast<float*>(room.data());
    rank.device().on(plait::ext::stream::data).fill(1.0f, data, 256);
    program(rank, std::span<float>(data, 256));
    try {
      rank.device().synchronize();
    } catch (Error const& e) {
      texts[std::size_t(rank.world_rank())] = e.what();
      EXPECT_THROW(rank.device().synchronize(), Error);  // the error stays
    }
  });
  return texts;
}

void expect_everywhere(std::vector<std::string> const& texts, std::string const& expected) {
  for (auto const& text : texts) EXPECT_EQ(text, expected);
}

TEST(SimulatedErrors, DifferentCalls) {
  expect_everywhere(
      errors_of<plait::collective_mismatch>(2,
                                            [](auto& rank, std::span<float> x) {
                                              auto& comm = rank.group(axis::data);
                                              if (comm.rank() == 0) comm.all_reduce(x.first(4));
                                              else comm.all_gather(x.first(4), x.subspan(8, 8));
                                            }),
      "rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum), but rank 1 called "
      "all_gather of 16 bytes per rank on group {0,1} (float32)");
}

// On both backends, a call that differs between ranks ends where they communicate.
TEST(CallsForATrainer, EndWithTheirScope) {
  auto const program = [](auto& rank) {
    auto const room = rank.device().allocate(sizeof(float));
    std::span<float> const x(reinterpret_cast<float*>(room.data()), 1);
    auto& comm = rank.group(axis::data);
    rank.device().on(plait::ext::stream::data).fill(1.0f, x.data(), 1);
    {
      auto const calls = rank.calls_for(1);
      try {
        auto const inner = rank.calls_for(std::uint64_t(rank.world_rank()) + 2);
        throw rank.world_rank();
      } catch (int) {
      }
      comm.all_reduce(x);
    }
    if (rank.is_root()) {
      auto const calls = rank.calls_for(5);
    }
    comm.all_reduce(x);
  };
  EXPECT_NO_THROW(run_on(plait::threads{}, 2, program));
  EXPECT_NO_THROW(run_on(plait::simulated{}, 2, program));
}

}  // namespace
