// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=3
//
// An exception in a program's own work between the steps ends the job on all ranks, after a whole
// step.
#include "plait/train/work_between_steps.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t width = 8, classes = 4;
using worked_body = sequential<named<"in", nn::linear<width, width>>, nn::relu<width>,
                               named<"out", nn::linear<width, classes>>>;
using worked_model = objective<worked_body, nn::cross_entropy<classes>>;
struct four_ranks : parallel<worked_model, hybrid<data_parallel<2>, tensor_parallel<2>>, double> {};
struct two_stages : parallel<worked_model, pipeline<2>, double> {};
struct one_rank : parallel<worked_model, serial, double> {};
struct in_slices : parallel<worked_model, hybrid<data_parallel<2>, reproducible<4>>, double> {};

in_memory<double> const& samples() {
  static auto const data = in_memory<double>::random_classes(20, width, classes);
  return data;
}

/// The ends of the ranks of a job.
struct ends {
  std::mutex mutex{};
  // The steps after which the hook saved, and the steps in the errors.
  std::multiset<std::int64_t> saved{}, ended{};
  std::multiset<std::string> texts{};
  std::multiset<int> codes{};
};

/// Trains `steps`; each rank calls work(rank, step) after each of its steps.
template <class Job, class Backend, class Work>
ends const& train(Backend const& backend, stop_on_signals const* stop, int steps, ends& out,
                  Work work) {
  try {
    launch<Job>(backend, [&](auto& rank) {
      auto trainer = plait::trainer<Job>(rank, sgd{}, {.stop = stop});
      trainer.on_stop([&](step_report const& last) {
        trainer.between_steps([&] { throw error("the hook's own, which comes too late"); });
        std::scoped_lock const lock{out.mutex};
        out.saved.insert(last.step);
      });
      auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0});
      try {
        for (int step = 0; step < steps; ++step) {
          trainer.step(from.at(std::uint64_t(step)));
          trainer.between_steps([&] { work(rank.world_rank(), step); });
        }
        trainer.after_steps();
        ADD_FAILURE() << "rank " << rank.world_rank() << " was told nothing";
      } catch (work_failed const& problem) {
        std::scoped_lock const lock{out.mutex};
        out.ended.insert(problem.step);
        out.texts.insert(problem.what());
        out.codes.insert(problem.exit_code());
        throw;
      }
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (work_failed const&) {
  }
  return out;
}

using steps_of = std::multiset<std::int64_t>;

TEST(WorkBetweenSteps, AnExceptionOfOneRankEndsAllAfterTheSameStepAndTheHook) {
  stop_on_signals const stop;
  auto const on_four = [&](auto const& backend, int who) {
    ends out;
    train<four_ranks>(backend, &stop, 9, out, [&](int rank, int step) {
      EXPECT_LE(step, 2);
      if (rank == who && step == 2) throw input_error("log 'l' cannot be written: it is full");
    });
    EXPECT_EQ(out.saved, (steps_of{3, 3, 3, 3})) << "once on each rank, a step later";
    EXPECT_EQ(out.ended, out.saved);
    auto const text = "rank " + std::to_string(who) + ": log 'l' cannot be written: it is full";
    EXPECT_EQ(out.texts, (std::multiset<std::string>{text, text, text, text}));
    EXPECT_EQ(out.codes, (std::multiset<int>{2, 2, 2, 2}));
  };
  for (int who = 0; who < 4; ++who) on_four(threads{}, who);
  on_four(simulated{}, 2);
}

TEST(WorkBetweenSteps, OfSeveralTheFirstRankIsHeard) {
  // The other ranks get the beginning of a text that is too long.
  constexpr std::size_t room = 504;
  for (std::size_t const length : {room - 1, room, room + 1, std::size_t{1000}}) {
    stop_on_signals const stop;
    ends out;
    train<in_slices>(threads{}, &stop, 5, out, [&](int rank, int step) {
      if (step == 1) throw std::runtime_error(std::string(length, 'a' + char(rank)));
    });
    EXPECT_EQ(out.ended, (steps_of{2, 2}));
    EXPECT_EQ(out.codes, (std::multiset<int>{1, 1}));
    std::string const whole = "rank 0: " + std::string(length, 'a');
    std::string const told =
        length <= room ? whole : "rank 0: " + std::string(room - 3, 'a') + "...";
    EXPECT_EQ(out.texts, (std::multiset<std::string>{whole, told}));
  }
}

TEST(WorkBetweenSteps, AfterTheLastStepAllLearnIt) {
  stop_on_signals const stop;
  ends out;
  train<two_stages>(threads{}, &stop, 3, out, [&](int rank, int step) {
    if (rank == 1 && step == 2) throw 5;
  });
  EXPECT_EQ(out.saved, (steps_of{2, 2}));
  std::string const text =
      "rank 1: work between two steps has thrown an object that is not a std::exception";
  EXPECT_EQ(out.texts, (std::multiset<std::string>{text, text}));
}

TEST(WorkBetweenSteps, ASingleRankNeedsNoOther) {
  for (int const step_of_error : {1, 2}) {
    ends out;
    train<one_rank>(threads{}, nullptr, 3, out, [&](int, int step) {
      if (step == step_of_error) throw input_error("no room");
    });
    EXPECT_EQ(out.saved, steps_of{2});
    EXPECT_EQ(out.texts, std::multiset<std::string>{"no room"});
  }
}

TEST(WorkBetweenSteps, OutweighsASignal) {
  stop_on_signals const stop;
  ends out;
  train<four_ranks>(threads{}, &stop, 9, out, [&](int rank, int step) {
    if (step == 1 && rank == 0) std::raise(SIGTERM);
    if (step == 1) throw input_error("no room");
  });
  EXPECT_EQ(out.ended.size(), 4u);
  EXPECT_EQ(out.codes, (std::multiset<int>{2, 2, 2, 2}));
}

// No rank asks the others in a step.
TEST(WorkBetweenSteps, WithoutStopOnSignalsSeveralRanksEndAtOnce) {
  bool has_saved = false;
  try {
    launch<four_ranks>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<four_ranks>(rank, sgd{});
      trainer.on_stop([&](step_report const&) { has_saved = true; });
      auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0});
      for (std::uint64_t step = 0; step < 5; ++step) {
        trainer.step(from.at(step));
        trainer.between_steps([&] {
          if (rank.world_rank() == 1) throw input_error("no room");
        });
      }
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (input_error const& problem) {
    EXPECT_EQ(std::string(problem.what()), "rank 1: no room");
  }
  EXPECT_FALSE(has_saved);
}

/// A user's own measure, which fails for one of the samples.
struct fails_once {
  using concept_tag = measure_tag;
  static constexpr std::size_t numbers = 1;
  static void add(std::span<double const>, auto, double, std::span<double>) {
    static std::mutex mutex;
    std::scoped_lock const lock{mutex};
    if (++calls == 7) throw input_error("the measure has no room");
  }
  static double value(std::span<double const>, ext::evaluation_totals const&) { return 0; }
  static inline int calls = 0;
};

// All ranks reach the end of the evaluation.
TEST(WorkBetweenSteps, AMeasureThatThrows) {
  stop_on_signals const stop;
  int saved = 0;
  std::mutex mutex;
  fails_once::calls = 0;
  try {
    launch<four_ranks>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<four_ranks>(rank, sgd{}, {.stop = &stop});
      trainer.on_stop([&](step_report const& last) {
        std::scoped_lock const lock{mutex};
        saved += last.step == 1 ? 1 : 100;
      });
      auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0});
      for (std::uint64_t step = 0; step < 5; ++step) {
        trainer.step(from.at(step));
        trainer.between_steps(
            [&] { trainer.evaluate(samples(), global_batch<8>{}, fails_once{}); });
      }
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (work_failed const& problem) {
    EXPECT_NE(std::string(problem.what()).find(": the measure has no room"), std::string::npos)
        << problem.what();
  }
  EXPECT_EQ(saved, 4);
}

}  // namespace
