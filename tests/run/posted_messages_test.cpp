// SPDX-License-Identifier: Apache-2.0
// test: seconds=10
//
// Messages between stages go beside the computations.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "plait/plait.hpp"
#include "run/slept_steps.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using slept_steps::job_of;
using slept_steps::slowness;

/// What a busy machine takes to wake a thread counts, too: the best of some launches.
template <class Job>
void expect_overlap(int microbatches) {
  double best = 1e300;
  for (int i = 0; i < 6 && best > 1.06; ++i)
    launch<Job>(threads{}, [&](auto& rank) {
      double const found = slowness<Job>(rank, microbatches, 4);
      if (rank.is_root()) best = std::min(best, found);
    });
  std::printf("%s on %d stages, %d microbatches: %.3f of the timetable\n",
              Job::plan_type::schedule_type::name.data(), Job::plan_type::stages, microbatches,
              best);
  EXPECT_LE(best, 1.06);
}

TEST(PostedMessages, GoBesideComputations) {
  expect_overlap<job_of<one_forward_one_backward, 2>>(8);
  expect_overlap<job_of<interleaved<2>, 2>>(8);
  expect_overlap<job_of<looped_breadth_first<2>, 2>>(8);
  expect_overlap<job_of<interleaved<2>, 4>>(16);
}

/// What a launch throws in which rank 1 is prepared so.
template <class Job>
std::string failure_with(auto prepare) {
  try {
    launch<Job>(threads{.options = {.timeout = std::chrono::seconds{20}}}, [&](auto& rank) {
      slowness<Job>(rank, 4, 1, [&](auto& work) {
        if (rank.world_rank() == 1) prepare(work);
      });
    });
    return "";
  } catch (error const& problem) {
    return problem.what();
  }
}

// A rank that fails, leaves a message out or has another list, at each place of its list: all ranks
// end, and what is said names the message or the failure.
TEST(PostedMessages, EndOnAllRanksWhereOneFails) {
  using job = job_of<interleaved<2>, 2>;
  constexpr int places = 32;
  int left_out = 0, mistaken = 0;
  for (int place = 0; place < places; ++place) {
    auto const thrown = failure_with<job>([&](auto& work) {
      work.strikes_at = place;
      work.strikes = [] { throw input_error("had enough"); };
    });
    EXPECT_NE(thrown.find("rank 1: had enough"), std::string::npos) << place << thrown;
    auto const names_a_message = [](std::string const& text) {
      return text.find("send of 32 bytes") != std::string::npos ||
             text.find("receive of 32 bytes") != std::string::npos;
    };
    auto const other = failure_with<job>([&](auto& work) { work.mistakes = place; });
    if (!other.empty()) {  // else it is no message
      ++mistaken;
      EXPECT_TRUE(names_a_message(other)) << place << other;
      EXPECT_NE(other.find("with tag 10"), std::string::npos) << place << other;
    }
    auto const absent = failure_with<job>([&](auto& work) { work.leaves_out = place; });
    if (!absent.empty()) {
      ++left_out;
      EXPECT_TRUE(names_a_message(absent)) << place << absent;
    }
  }
  EXPECT_EQ(mistaken, left_out);
  EXPECT_GT(mistaken, places / 3);
}

}  // namespace
