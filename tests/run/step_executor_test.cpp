// SPDX-License-Identifier: Apache-2.0
// A program runs operation by operation, in its order, each after its waits; after an exception it
// starts again from the beginning.
#include "plait/run/step_executor.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using execution::step_executor;

struct job
    : parallel<objective<sequential<nn::linear<8, 8>, nn::linear<8, 4>>, nn::cross_entropy<4>>,
               data_parallel<2>, double> {};
using plan_type = job::plan_type;

/// The words for what is run, and the place of each row.
struct log_of_calls {
  plait::ext::lean_vector<transfer> const& list;
  std::vector<std::string>& said;
  int throws_at = -1;

  void add(std::string const& word) {
    if (throws_at == int(said.size())) throw std::runtime_error("a layer");
    said.push_back(word);
  }
  template <class Rank>
  void run(step_executor<Rank>& program) {
    for (auto const& reached : program) {
      auto const& now = reached.now;
      if (now.row < 0) {
        add(to_string(now.what));
        continue;
      }
      EXPECT_EQ(program.transfers().row(now.row).what, list[std::size_t(now.row)]);
      add(std::string("row of ") + to_string(list[std::size_t(now.row)].place));
    }
  }
};

step_program step_of(mesh const& grid, plait::ext::lean_vector<transfer> const& list) {
  auto const table = training_timetable<plan_type::schedule_type>(1, 2);
  return program_of<plan_type>(grid, list, 0, job_part::training, table.stages[0],
                               {.clips = true, .updates = true});
}

TEST(StepExecutor, RunsTheOperationsOfAStepInTheirOrder) {
  launch<job>(threads{}, [](auto& rank) {
    auto const list =
        execution::transfers_on<plan_type>(rank, {.gradient_norm = true}, job_part::training);
    step_executor program(rank, list, step_of(rank.grid(), list));
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<std::string> said;
      log_of_calls work{list, said};
      work.run(program);
      EXPECT_EQ(said, (std::vector<std::string>{"send", "row of labels", "scale", "forward",
                                                "backward", "forward", "backward",
                                                "row of gradients", "row of loss", "square",
                                                "row of norm_partials", "clip", "update", "read"}));
    }
  });
}

TEST(StepExecutor, StartsAgainAfterAnException) {
  launch<job>(threads{}, [](auto& rank) {
    auto const list =
        execution::transfers_on<plan_type>(rank, {.gradient_norm = true}, job_part::training);
    step_executor program(rank, list, step_of(rank.grid(), list));
    std::vector<std::string> said, again;
    log_of_calls ended{list, said, 4};
    EXPECT_THROW(ended.run(program), std::runtime_error);
    EXPECT_EQ(said.size(), 4u);
    log_of_calls anew{list, again};
    anew.run(program);
    EXPECT_EQ(again.size(), 14u);
    EXPECT_EQ(again.front(), "send");
  });
}

/// The values of a sum that two simulated ranks read in a program that omits a touched value.
std::vector<double> sums_of(std::size_t changed, bool reads, std::uint64_t seed) {
  std::vector<double> out(2);
  launch<job>(simulated{.seed = seed}, [&](auto& rank) {
    auto const list = execution::transfers_on<plan_type>(rank, {}, job_part::training);
    auto program = program_of_rows(rank.grid(), list, transfer_place::loss, program_buffer::loss);
    if (changed < program.touched.size()) {
      auto& touched = program.touched[changed];
      (reads ? touched.reads : touched.writes).clear();
      if (!reads) touched.reads.clear();
    }
    auto const room = rank.device().allocate(sizeof(double));
    auto* const number = reinterpret_cast<double*>(room.data());
    double const mine = rank.world_rank() + 1;
    double& read = out[std::size_t(rank.world_rank())];
    step_executor walked(rank, list, program);
    for (auto const& reached : walked)
      if (reached.now.row >= 0) walked.transfers().sum(reached.now.row, number);
      else if (reached.now.what == operation_kind::send)
        rank.device().upload(&mine, number, sizeof mine);
      else rank.device().download(number, &read, sizeof read);
    rank.device().synchronize();
  });
  return out;
}

TEST(StepExecutor, WaitsForWhatIsTouchedAndForNothingElse) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(sums_of(9, false, seed), (std::vector<double>{3, 3}));
  // The program is: send, the row, read. If one of them does not declare a value, that is found.
  for (std::size_t operation = 0; operation < 3; ++operation)
    EXPECT_THROW(sums_of(operation, false, 0), race_error) << operation;
}

TEST(StepExecutor, NamesWaitsByKindsAndRows) {
  simulated_statistics statistics;
  launch<job>(simulated{.statistics = &statistics}, [](auto& rank) {
    auto const list = execution::transfers_on<plan_type>(rank, {}, job_part::training);
    std::vector<std::string> said;
    log_of_calls work{list, said};
    step_executor program(
        rank, list, program_of_rows(rank.grid(), list, transfer_place::loss, program_buffer::loss));
    work.run(program);
    rank.device().synchronize();
  });
  std::vector<std::string> sites;
  for (auto const& site : statistics.sites) sites.push_back(to_string(site));
  EXPECT_EQ(sites,
            (std::vector<std::string>{"step: read waits for row 2", "step: row 2 waits for send"}));
}

}  // namespace
