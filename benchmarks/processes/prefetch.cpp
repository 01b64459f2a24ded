// SPDX-License-Identifier: Apache-2.0
// Measures how much of the gathering of parameters overlaps with the layers: a small GPT on two
// processes with buckets of 1 MiB, steps of two programs in turn.
//   prefetch [level=3|1] [pairs=N] [in_turn=1]
// level=3: ranks gather parameters one bucket ahead of the layers that use them, compared with a
// gather when each bucket is needed. level=1: ranks gather the optimizers' blocks in the next
// step's first forward, compared with a gather after the update. The link between the processes is
// made so slow that all parameters take a quarter of a step's computing. Rank 0 prints medians in
// milliseconds, and the median of the pairs' ratios.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "processes/command_line.hpp"
#include "processes/raw.hpp"
#include "processes/small_gpt.hpp"

#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"
#include "plait/testing/slow_link.hpp"

namespace {

using namespace plait;
using namespace plait::planning;
using namespace small_gpt;

template <int Level>
struct divided : parallel<model, data_parallel<2, zero<Level>, buckets<1_MiB>>> {};

struct listed {
  program_operation what;
  plait::ext::stream_operation touched;
};

step_program late(plait::ext::lean_vector<transfer> const& list, step_program const& of,
                  bool at_end) {
  std::vector<listed> all, moved;
  for (std::size_t i = 0; i < of.operations.size(); ++i)
    all.push_back({of.operations[i], of.touched[i]});
  auto const gathers = [&](listed const& one) {
    auto const place =
        one.what.row < 0 ? transfer_place::labels : list[std::size_t(one.what.row)].place;
    return at_end
               ? place == transfer_place::gather_parameters
               : one.what.what == operation_kind::copy_block || place == transfer_place::parameters;
  };
  std::vector<listed> out;
  for (auto const& one : all) {
    if (gathers(one)) {
      moved.push_back(one);
      continue;
    }
    auto const uses = [&](listed const& gather) {
      return !at_end && std::ranges::any_of(one.touched.reads, [&](int buffer) {
        return std::ranges::find(gather.touched.writes, buffer) != gather.touched.writes.end();
      });
    };
    for (auto const& gather : moved)
      if (uses(gather)) out.push_back(gather);
    std::erase_if(moved, uses);
    out.push_back(one);
  }
  out.insert(out.end(), moved.begin(), moved.end());
  step_program made;
  for (auto const& one : out) {
    made.operations.push_back(one.what);
    made.touched.push_back(one.touched);
  }
  return made;
}

template <int Level>
void print_medians(int pairs, bool in_turn) {
  using job = divided<Level>;
  using plan = typename job::plan_type;
  auto engine = plait_benchmark::make_engine();
  double const step = time_of_computing();
  auto const pass = double(alone::plan_type::memory(0, {}).parameters) / 2;  // bytes of a rank
  engine = testing::slow_link(engine, {.bytes_per_second = pass / (step / 4)});
  auto const data = text();
  processes const backend{
      .engine = engine,
      .streams = in_turn ? process_streams::in_turn : process_streams::concurrent};
  launch<job>(backend, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    execution::trainer_parts<job, rank_type, sgd> parts(rank, sgd{.learning_rate = 0.01}, {});
    parts.set_up();
    auto all = batches(data, global_batch<batch>{}, rank, {.epochs = 0});
    workload const load{.rows = batch / 2 * small_gpt::sequence};
    auto const list = transfers_of<plan>(0, load, job_part::training);
    auto const program = program_of<plan>(
        plan::grid, list, 0, job_part::training,
        training_timetable<typename plan::schedule_type>(1, 1).stages[0], {.updates = true});
    execution::step_executor<rank_type> ahead(rank, list, program);
    execution::step_executor<rank_type> behind(rank, list, late(list, program, Level < 3));
    std::uint64_t number = 0;
    auto const time_of = [&](auto& walked) {
      auto const& one = all.at(number++);
      return seconds([&] {
        auto const mine = parts.calls();
        auto frame = parts.begin(one, execution::trainer_program::whole_step);
        parts.executor.run(walked, frame);
        parts.read_report();
        ++parts.held.step;
      });
    };
    std::vector<double> late_steps, early_steps, ratios;
    for (int pair = -2; pair < pairs; ++pair) {
      double const late_step = time_of(behind), early_step = time_of(ahead);
      if (pair < 0) continue;
      late_steps.push_back(late_step);
      early_steps.push_back(early_step);
      ratios.push_back(early_step / late_step);
    }
    if (!rank.is_root()) return;
    std::printf("a rank computes %.1f ms; gathers %s %.1f ms, ahead %.1f ms, ratio %.3f\n",
                1e3 * step, Level < 3 ? "behind the update" : "where needed",
                1e3 * median(late_steps), 1e3 * median(early_steps), median(ratios));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return plait_benchmark::run_with_numbers(
      argc, argv, {{"pairs", 40}, {"in_turn", 0}, {"level", 3}},
      "prefetch [level=3|1] [pairs=N] [in_turn=1]",
      [](std::string const& name, int value) {
        if (name == "level") return value == 1 || value == 3;
        return name != "pairs" || value > 0;
      },
      [](plait_benchmark::numbers const& given) {
        bool const in_turn = given.at("in_turn") != 0;
        if (given.at("level") == 3) print_medians<3>(given.at("pairs"), in_turn);
        else print_medians<1>(given.at("pairs"), in_turn);
      });
}
