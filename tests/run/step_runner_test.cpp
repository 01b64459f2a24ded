// SPDX-License-Identifier: Apache-2.0
// A step calls its operations in the order in which the plan has them: any other call is an error
// that says which one was made and which one is due, before anything is done.
#include "plait/run/step_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

namespace {

using namespace plait;
using execution::step_runner;
using planning::exchange_place;
using planning::job_part;
using planning::step_phase;

struct job
    : parallel<objective<sequential<nn::linear<8, 8>, nn::linear<8, 4>>, nn::cross_entropy<4>>,
               data_parallel<2, zero<1>>, double> {};

/// One call of a step, and what errors call its first operation.
struct call {
  std::string name;
  std::function<void(step_runner<threads::rank_type>&)> make;
};

/// The calls of a step that clips, in their order; `data` is as long as any row.
std::vector<call> calls_of_a_step(double* data) {
  auto const phase = [](char const* name, step_phase which) {
    return call{name, [=](auto& step) { step.pass(which); }};
  };
  auto const sum = [=](char const* name, exchange_place place) {
    return call{name, [=](auto& step) { step.sum(place, data); }};
  };
  auto const blocks = [=](char const* name, exchange_place place) {
    return call{name, [=](auto& step) { step.move_blocks(place, data); }};
  };
  return {phase("send", step_phase::send),
          sum("a row of labels", exchange_place::labels),
          phase("scale", step_phase::scale),
          phase("passes", step_phase::passes),
          phase("add", step_phase::add),
          blocks("a row of gradients", exchange_place::gradients),
          sum("a row of the loss", exchange_place::loss),
          phase("square", step_phase::square),
          sum("a row of squares", exchange_place::squares),
          phase("update", step_phase::update),
          blocks("a row of the refresh", exchange_place::refresh),
          phase("read", step_phase::read)};
}

/// Gives `program` a runner of a step and its calls, on both ranks.
void with_step(std::function<void(step_runner<threads::rank_type>&, std::vector<call>)> program) {
  launch<job>(threads{}, [&](auto& rank) {
    auto const list =
        execution::exchanges_on<job::plan_type>(rank, {.gradient_norm = true}, job_part::training);
    std::size_t longest = 0;
    for (auto const& row : list) longest = std::max(longest, row.offset + row.count);
    auto const room = rank.device().allocate(longest * sizeof(double));
    step_runner<threads::rank_type> step(rank, list,
                                         {.has_gradients = true, .clips = true, .updates = true});
    program(step, calls_of_a_step(reinterpret_cast<double*>(room.data())));
  });
}

std::string text_of(std::function<void()> const& part) {
  try {
    part();
  } catch (error const& problem) {
    return problem.what();
  }
  return "no error";
}

void expect_refused(std::string const& text, call const& made, call const& due) {
  EXPECT_NE(text.find("'" + made.name + "' (operation "), std::string::npos) << text;
  EXPECT_NE(text.find(" is called where '" + due.name + "' (operation "), std::string::npos)
      << text;
}

TEST(StepRunner, TakesStepAfterStepInTheOrderOfThePlan) {
  with_step([](auto& step, auto const& calls) {
    for (int i = 0; i < 3; ++i)
      for (auto const& each : calls) each.make(step);
  });
}

TEST(StepRunner, EverySwapOfTwoCallsIsAnErrorWithBothNames) {
  with_step([](auto& step, auto const& calls) {
    for (std::size_t i = 0; i < calls.size(); ++i)
      for (std::size_t k = i + 1; k < calls.size(); ++k) {
        auto swapped = calls;
        std::swap(swapped[i], swapped[k]);
        expect_refused(text_of([&] {
                         for (auto const& each : swapped) each.make(step);
                       }),
                       calls[k], calls[i]);
      }
  });
}

TEST(StepRunner, ACallThatIsLeftOutOrMadeTwiceIsFoundAtTheNext) {
  with_step([](auto& step, auto const& calls) {
    auto const twice = [](auto all) {
      auto const one = all;
      all.insert(all.end(), one.begin(), one.end());
      return all;
    };
    for (std::size_t i = 0; i < calls.size(); ++i) {
      auto const& next = calls[(i + 1) % calls.size()];
      auto without = calls, again = calls;
      without.erase(without.begin() + std::ptrdiff_t(i));
      again.insert(again.begin() + std::ptrdiff_t(i), calls[i]);
      auto const run = [&](auto const& all) {
        return text_of([&] {
          for (auto const& each : twice(all)) each.make(step);
        });
      };
      expect_refused(run(without), next, calls[i]);
      expect_refused(run(again), calls[i], next);
    }
  });
}

TEST(StepRunner, APhaseThatTheStepDoesNotHaveIsAnError) {
  with_step([](auto& step, auto const& calls) {
    calls[0].make(step);
    auto const text = text_of([&] { step.pass(step_phase::total); });
    EXPECT_EQ(text,
              "step_runner: a phase that the step does not have is called where 'a row of labels' "
              "(operation 2 of 12) is due; make the calls in the order of step_operations_of");
  });
}

TEST(StepRunner, AStepThatAnExceptionHasEndedBeginsAnew) {
  with_step([](auto& step, auto const& calls) {
    for (auto const& each : calls) {
      if (each.name == "passes") break;
      each.make(step);
    }
    EXPECT_THROW(step.compute(step_phase::passes, [] { throw std::runtime_error("a layer"); }),
                 std::runtime_error);
    for (auto const& each : calls) each.make(step);
  });
}

}  // namespace
