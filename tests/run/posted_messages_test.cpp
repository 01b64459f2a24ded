// SPDX-License-Identifier: Apache-2.0
// test: seconds=10
//
// Messages between stages overlap with computations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "plait/plait.hpp"
#include "run/slept_steps.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using slept_steps::job_of;
using slept_steps::slowness;

/// Takes the best of some launches, as a busy machine may take long to wake a thread.
template <class Job>
void expect_overlap(int microbatches) {
  double best = 1e300;
  for (int i = 0; i < 30 && best > 1.06; ++i)
    launch<Job>(threads{}, [&](auto& rank) {
      double const found = slowness<Job>(rank, microbatches, 4);
      if (rank.is_root()) best = std::min(best, found);
    });
  std::printf("%s on %d stages, %d microbatches: %.3f of the timetable\n",
              Job::plan_type::schedule_type::name.data(), Job::plan_type::stages, microbatches,
              best);
  EXPECT_LE(best, 1.06);
}

TEST(PostedMessages, TravelDuringComputations) {
  expect_overlap<job_of<one_forward_one_backward, 2>>(8);
  expect_overlap<job_of<interleaved<2>, 2>>(8);
  expect_overlap<job_of<looped_breadth_first<2>, 2>>(8);
  expect_overlap<job_of<interleaved<2>, 4>>(16);
}

/// Returns the error of a launch in which rank 1 is prepared by `prepare`.
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

// A rank fails, leaves a message out or has another list, at each place of its list: all ranks end,
// and the error names the message or the failure.
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
    if (!other.empty()) {  // otherwise the operation is not a message
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

/// Returns the error of a launch of two stages.
template <class Program>
std::string failure_of(Program program) {
  try {
    launch<job_of<gpipe, 2>>(threads{.options = {.timeout = std::chrono::seconds{20}}}, program);
    return "";
  } catch (error const& problem) {
    return problem.what();
  }
}

TEST(PostedMessages, WithoutAReceiverAreErrors) {
  std::array<double, 4> values{};
  EXPECT_NE(failure_of([&](auto& rank) {
              if (rank.is_root())
                rank.group(axis::stage).template post_send<double>(values, 1, 7, stream::to_next);
            }).find("send of 32 bytes"),
            std::string::npos);
}

// A program continues after an exception which has ended the memory of a message: the other end is
// notified immediately.
TEST(PostedMessages, ThatWereGivenUpAreNotWaitedFor) {
  auto const begin = std::chrono::steady_clock::now();
  auto const text = failure_of([](auto& rank) {
    auto& group = rank.group(axis::stage);
    if (!rank.is_root()) {
      std::array<double, 4> values{};
      std::this_thread::sleep_for(std::chrono::milliseconds{200});
      group.template post_receive<double>(values, 0, 7, stream::from_next);
      return rank.device().synchronize();
    }
    try {
      auto const memory = rank.device().allocate(32);
      group.template post_send<double>(std::span(reinterpret_cast<double*>(memory.data()), 4), 1, 7,
                                       stream::to_next);
      throw std::out_of_range("of the program");
    } catch (std::out_of_range const&) {
      auto const memory = rank.device().allocate(32);
    }
  });
  EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{10}) << text;
}

TEST(PostedMessages, OfAnotherNeighboursChannelAreRefused) {
  std::array<double, 4> values{};
  auto const text = failure_of([&](auto& rank) {
    rank.group(axis::stage)
        .template post_send<double>(values, 1 - rank.world_rank(), 7, stream::from_next);
  });
  EXPECT_NE(text.find("on channel from_next"), std::string::npos) << text;
}

}  // namespace
