// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "plait/plait.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/schedule/times.hpp"

// Steps of a pipeline whose computations sleep: they show whether messages overlap with
// computations, and the behaviour when one rank fails.
namespace slept_steps {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

template <class Schedule, int Stages>
using job_of = parallel<objective<repeat<8, nn::linear<4, 4>>, nn::cross_entropy<4>>,
                        pipeline<Stages, Schedule>, double>;

/// The time of a forward of a stage; a backward takes one and a half times as long.
constexpr std::chrono::microseconds forward{8'000}, backward{12'000};

/// Sleeps instead of computing, and sends the messages.
template <class Rank>
struct sleeper {
  static constexpr std::size_t numbers = 4, most_microbatches = 64;
  typename Rank::device_type::arena memory;  ///< a place for each message
  int chunks = 1;
  /// Called before the operation of this number.
  std::function<void()> strikes = [] {};
  int strikes_at = -1;
  /// The number of a message that is left out, and of a message with another tag.
  int leaves_out = -1, mistakes = -1;
  int operations = 0;

  void begin() {
    if (operations++ == strikes_at) strikes();
  }
  void compute(program_operation const& now) {
    begin();
    std::this_thread::sleep_for((now.what == operation_kind::forward ? forward : backward) /
                                chunks);
  }
  void transfer(execution::transfer_runner<Rank> const& transfers, program_operation const& now) {
    begin();
    if (operations - 1 == leaves_out) return;
    auto const place = std::size_t(now.row) * most_microbatches + std::size_t(now.microbatch);
    transfers.run(now, reinterpret_cast<double*>(memory.data()) + place * numbers,
                  now.microbatch + (operations - 1 == mistakes ? 100 : 0));
  }
};

/// Returns the passes of a step with their messages, whose list is `list`.
template <class Plan, class Rank>
step_program passes_of_a_step(Rank const& rank, timetable const& table,
                              plait::ext::lean_vector<transfer> const& list) {
  auto const& passes = table.stages[std::size_t(rank.stage())];
  workload const load{.rows = 1, .microbatches = table.microbatches};
  auto const places =
      Plan::arena_for(rank.stage(), load).template place<true>(passes, table.microbatches);
  auto const program =
      program_of<Plan>(rank.grid(), list, rank.stage(), job_part::training, passes, {}, places);
  step_program out;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    auto const& now = program.operations[i];
    bool const passes_on = now.row >= 0 && list[std::size_t(now.row)].unit >= 0;
    if (now.what != operation_kind::forward && now.what != operation_kind::backward && !passes_on)
      continue;
    out.operations.push_back(now);
    out.touched.push_back(program.touched[i]);
  }
  return out;
}

/// Returns the time of a step, relative to a timetable whose messages take no time: the least of
/// some tries. prepare(work) may plant a fault.
template <class Job, class Rank, class Prepare>
double slowness(Rank& rank, int microbatches, int tries, Prepare prepare) {
  using plan = typename Job::plan_type;
  auto const table = training_timetable<typename plan::schedule_type>(plan::stages, microbatches);
  workload const load{.rows = 1, .microbatches = microbatches};
  auto const list = transfers_of<plan>(rank.stage(), load, job_part::training);
  execution::step_executor<Rank> program(rank, list, passes_of_a_step<plan>(rank, table, list));
  sleeper<Rank> work{.memory =
                         rank.device().allocate(list.size() * sleeper<Rank>::most_microbatches *
                                                sleeper<Rank>::numbers * sizeof(double))};
  work.chunks = plan::chunks;
  prepare(work);
  auto const planned = times_of(table, {.forward = forward.count() / plan::chunks,
                                        .backward = backward.count() / plan::chunks});
  double best = 1e300;
  for (int i = 0; i < tries; ++i) {
    rank.world().barrier();
    auto const begin = std::chrono::steady_clock::now();
    for (auto const& reached : program)
      if (reached.now.row < 0) work.compute(reached.now);
      else work.transfer(program.transfers(), reached.now);
    rank.device().synchronize();
    rank.world().barrier();
    std::chrono::duration<double, std::micro> const took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / double(planned.makespan()));
  }
  return best;
}

template <class Job, class Rank>
double slowness(Rank& rank, int microbatches, int tries) {
  return slowness<Job>(rank, microbatches, tries, [](auto&) {});
}

}  // namespace slept_steps
