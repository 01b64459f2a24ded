// SPDX-License-Identifier: Apache-2.0
#include "plait/run/launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

using grid = hybrid<data_parallel<2>, tensor_parallel<2>>;
template <name Form>
using model =
    objective<sequential<use_form<Form, nn::linear<8, 8>>, use_form<"whole", nn::linear<8, 4>>>,
              use_form<"whole", nn::cross_entropy<4>>>;
struct whole_job : parallel<model<"whole">, grid, double> {};
struct split_job : parallel<model<"column">, grid, double> {};

in_memory<double> samples() { return in_memory<double>::random_classes(8, 8, 4); }

template <class Job, class Rank>
double loss_on(Rank& rank, in_memory<double> const& data) {
  auto trainer = plait::trainer<Job>(rank, sgd{});
  auto batches = plait::batches(data, global_batch<8>{}, rank);
  return trainer.step(batches.at(0)).loss;
}

std::atomic<int> ranks_run{0};
void count_ranks(threads::rank_type&) { ++ranks_run; }

TEST(Launch, RunsFunctionsAndWhatReturnsSomething) {
  ranks_run = 0;
  launch<whole_job>(threads{}, count_ranks);
  launch<whole_job>(threads{}, &count_ranks);
  launch<whole_job>(threads{}, [](auto&) { return ++ranks_run; });
  EXPECT_EQ(ranks_run, 12);
}

TEST(Launch, RunsSeveralJobsOfOneMesh) {
  auto const data = samples();
  double alone = 0, together = 0;
  launch<split_job>(threads{}, [&](auto& rank) {
    double const loss = loss_on<split_job>(rank, data);
    if (rank.is_root()) alone = loss;
  });
  launch<whole_job, split_job>(threads{}, [&](auto& rank) {
    double const first = loss_on<whole_job>(rank, data), loss = loss_on<split_job>(rank, data);
    EXPECT_NEAR(first, loss, 1e-12);
    if (rank.is_root()) together = loss;
  });
  EXPECT_EQ(alone, together);
}

TEST(Launch, AGroupThatNoJobAskedForIsAnErrorThatNamesIt) {
  auto const data = samples();
  launch<whole_job>(threads{}, [](auto& rank) {
    EXPECT_EQ(rank.groups().index_of(axis::tensor), -1) << "nothing is sent over it";
    EXPECT_EQ(rank.group(axis::stage).size(), 1) << "this rank alone";
  });
  try {
    launch<whole_job>(threads{}, [&](auto& rank) { loss_on<split_job>(rank, data); });
    FAIL() << "no exception";
  } catch (input_error const& problem) {
    std::string const text = problem.what();
    EXPECT_NE(text.find("there is no group over 'tensor'"), std::string::npos) << text;
    EXPECT_NE(text.find("launch<first, second>"), std::string::npos) << text;
  }
}

/// Threads that represent processes which a launcher has started.
struct started : threads {
  int processes = 0;
  static constexpr bool processors_are_ranks = true;
  [[nodiscard]] int processors() const { return processes; }
};

struct at_launch_job
    : parallel<model<"whole">, hybrid<data_parallel<>, tensor_parallel<2>>, double> {};

TEST(Launch, TakesAllProcessesThatWereStarted) {
  started backend;
  auto const ranks = [&] {
    int out = 0;
    launch<at_launch_job>(backend, [&](auto& rank) {
      if (rank.is_root()) out = rank.world_size();
    });
    return out;
  };
  backend.processes = 6;
  EXPECT_EQ(ranks(), 6);
  backend.data_ranks = 2;
  EXPECT_EQ(ranks(), 4) << "it is run() that compares them with the processes";
  backend.data_ranks = 0;
  backend.processes = 5;
  try {
    (void)ranks();
    FAIL() << "no exception";
  } catch (input_error const& problem) {
    EXPECT_STREQ(problem.what(),
                 "launch: 5 processes are not a multiple of the 2 ranks of tensor 2; start 4 or 6");
  }
}

TEST(Launch, JobsAreInTheMeshThatIsLaunched) {
  int ranks = 0;
  launch<at_launch_job, whole_job>(threads{.data_ranks = 2}, [&](auto& rank) {
    if (rank.is_root()) ranks = rank.world_size();
  });
  EXPECT_EQ(ranks, 4);
  try {
    launch<at_launch_job, whole_job>(threads{.data_ranks = 3}, [](auto&) {});
    FAIL() << "no exception";
  } catch (input_error const& problem) {
    std::string const text = problem.what();
    EXPECT_NE(text.find("data 2 x tensor 2"), std::string::npos) << text;
    EXPECT_NE(text.find("data 3 x tensor 2"), std::string::npos) << text;
  }
}

template <class Job>
int ranks_on(threads const& backend) {
  int ranks = 0;
  launch<Job>(backend, [&](auto& rank) {
    if (rank.is_root()) ranks = rank.world_size();
  });
  return ranks;
}

TEST(Launch, DataRanksAreThePolicysOrThoseThatAreGiven) {
  EXPECT_EQ(ranks_on<whole_job>(threads{}), 4);
  EXPECT_EQ(ranks_on<whole_job>(threads{.data_ranks = 2}), 4);
  EXPECT_EQ(ranks_on<whole_job>(threads{.data_ranks = all_processors}), 4);
  EXPECT_EQ(ranks_on<at_launch_job>(threads{}), 2);
  EXPECT_EQ(ranks_on<at_launch_job>(threads{.data_ranks = all_processors}),
            2 * std::max(1, threads::processors() / 2));
  try {
    ranks_on<whole_job>(threads{.data_ranks = 3});
    FAIL() << "no exception";
  } catch (input_error const& problem) {
    EXPECT_NE(
        std::string(problem.what())
            .find("the backend is given 3 data ranks, but the policy has 2 in its mesh 'data 2 x "
                  "tensor 2'; leave data_ranks out"),
        std::string::npos)
        << problem.what();
  }
  EXPECT_THROW(ranks_on<at_launch_job>(threads{.data_ranks = -2}), input_error);
}

}  // namespace
