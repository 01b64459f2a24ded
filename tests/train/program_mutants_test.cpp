// SPDX-License-Identifier: Apache-2.0
// test: seconds=5
//
// Changed programs of a step are detected: an operation that is left out, doubled or swapped with
// its neighbour changes the result. An access that is missing from the description of an operation
// is a race wherever a wait is missing because of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/train/trainer_parts.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

/// Returns true if two operations may not be swapped.
bool conflict(stream_operation const& a, stream_operation const& b) {
  auto const meet = [](auto const& some, auto const& others) {
    return std::ranges::any_of(
        some, [&](int one) { return std::ranges::find(others, one) != others.end(); });
  };
  return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
}

// --- operations: what is trained
// ------------------------------------------------------------------

constexpr std::size_t width = 8;
using lookup = nn::embedding<small_gpt::vocabulary, width, normal(0.5)>;
using head = nn::linear<width, small_gpt::vocabulary,
                        {.bias = false, .order = nn::weight_order::output_input}>;
using tied_model = objective<
    sequential<named<"wte", lookup>, named<"wpe", nn::positions<small_gpt::length, width>>,
               named<"head", tied<head, head::weight, "wte.weight">>>,
    nn::cross_entropy<small_gpt::vocabulary>>;
struct tied_job : parallel<tied_model, data_parallel<2>, double> {};

/// The values of each rank after a step.
struct rank_outcome {
  double loss = 0, norm = 0;
  std::vector<double> parameters{};
  friend bool operator==(rank_outcome const&, rank_outcome const&) = default;
};

step_program program_of_step(mesh const& grid, plait::ext::lean_vector<transfer> const& list) {
  using plan = tied_job::plan_type;
  auto const table = training_timetable<plan::schedule_type>(1, 2);
  return program_of<plan>(grid, list, 0, job_part::training, table.stages[0],
                          {.clips = true, .updates = true});
}
workload const step_load{.microbatches = 2, .gradient_norm = true};
step_program right_program() {
  using plan = tied_job::plan_type;
  return program_of_step(plan::grid, transfers_of<plan>(0, step_load, job_part::training));
}

/// Runs one step of a trainer with this program.
std::vector<rank_outcome> step_by(step_program const& program) {
  std::vector<rank_outcome> out(2);
  auto const text = small_gpt::text();
  launch<tied_job>(threads{}, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    execution::trainer_parts<tied_job, rank_type, sgd> parts(rank, sgd{.learning_rate = 0.1},
                                                             {.clip = 0.01});
    parts.set_up();
    auto all = batches(text, global_batch<8>{}, rank, {.microbatches = 2});
    auto const mine = parts.calls();
    auto const batch = all.at(0);
    auto frame = parts.begin(batch, execution::trainer_program::whole_step);
    // Memory that is asked for again still has what the last step left there.
    auto const squares = parts.executor.memory().norm_partials();
    rank.device().on(stream::compute).fill(0.0, squares.data(), squares.size());
    auto const list =
        execution::transfers_on<tied_job::plan_type>(rank, step_load, job_part::training);
    execution::step_executor<rank_type> with(rank, list, program);
    parts.executor.run(with, frame);
    auto const report = parts.read_report();
    double const* const seen = parts.store.compute_parameters();
    out[std::size_t(rank.world_rank())] = {
        report.loss, report.gradient_norm, {seen, seen + parts.store.layout().kept_count()}};
  });
  return out;
}

/// Runs a step of a trainer on the same batch.
rank_outcome step_of_a_trainer() {
  rank_outcome out;
  auto const text = small_gpt::text();
  launch<tied_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tied_job>(rank, sgd{.learning_rate = 0.1}, {.clip = 0.01});
    auto all = batches(text, global_batch<8>{}, rank, {.microbatches = 2});
    auto const report = trainer.step(all.at(0));
    if (rank.is_root()) out = {report.loss, report.gradient_norm, {}};
  });
  return out;
}

bool is_for_the_host(program_operation const& of) {
  return of.what == operation_kind::send || of.what == operation_kind::read;
}
std::string text_of(program_operation const& of) { return site_text(site_number(of)); }

TEST(ProgramMutants, TheRightProgramIsThatOfATrainer) {
  auto const right = step_by(right_program());
  auto const expected = step_of_a_trainer();
  for (auto const& one : right) {
    EXPECT_EQ(one.loss, expected.loss);
    EXPECT_EQ(one.norm, expected.norm);
  }
  EXPECT_EQ(right[0].parameters, right[1].parameters);
}

TEST(ProgramMutants, AnOperationLeftOutIsSeen) {
  auto const program = right_program();
  auto const right = step_by(program);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    if (is_for_the_host(program.operations[i])) continue;  // begin and read_report replace it here
    auto changed = program;
    changed.operations.erase(changed.operations.begin() + std::ptrdiff_t(i));
    changed.touched.erase(changed.touched.begin() + std::ptrdiff_t(i));
    EXPECT_NE(step_by(changed), right) << i << ", " << text_of(program.operations[i]);
  }
}

TEST(ProgramMutants, AnOperationDoneTwiceIsSeen) {
  auto const program = right_program();
  auto const right = step_by(program);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    auto const& now = program.operations[i];
    // These operations overwrite their result, so a repetition gives the same result.
    bool const is_repeatable = is_for_the_host(now) || now.what == operation_kind::scale ||
                               now.what == operation_kind::square ||
                               now.what == operation_kind::clip ||
                               (now.what == operation_kind::backward && now.begins);
    auto changed = program;
    changed.operations.insert(changed.operations.begin() + std::ptrdiff_t(i), now);
    changed.touched.insert(changed.touched.begin() + std::ptrdiff_t(i), program.touched[i]);
    EXPECT_EQ(step_by(changed) == right, is_repeatable) << i << ", " << text_of(now);
  }
}

TEST(ProgramMutants, NeighboursThatAreSwappedAreSeen) {
  auto const program = right_program();
  auto const right = step_by(program);
  int dependent = 0, independent = 0;
  for (std::size_t i = 0; i + 1 < program.operations.size(); ++i) {
    auto const &one = program.operations[i], &next = program.operations[i + 1];
    if (is_for_the_host(one) || is_for_the_host(next)) continue;
    auto changed = program;
    std::swap(changed.operations[i], changed.operations[i + 1]);
    std::swap(changed.touched[i], changed.touched[i + 1]);
    // Both add to the gradients of the table, in either order.
    if (one.what == operation_kind::backward && next.what == operation_kind::add) continue;
    bool const depends = conflict(program.touched[i], program.touched[i + 1]);
    ++(depends ? dependent : independent);
    EXPECT_EQ(step_by(changed) == right, !depends)
        << i << ", " << text_of(one) << " and " << text_of(next);
  }
  EXPECT_EQ(dependent, 10);
  EXPECT_EQ(independent, 3);
}

// --- what operations touch: races
// -----------------------------------------------------------------

using body = objective<sequential<nn::linear<8, 8>, nn::linear<8, 4>>, nn::cross_entropy<4>>;
template <class Policy>
struct small_job : parallel<body, Policy, double> {};

/// Reads and writes, in its own memory, the buffers that the operations of a program touch.
template <class Rank>
class touching_work {
 public:
  touching_work(Rank& rank, step_program const& program)
      : rank_(rank),
        program_(program),
        buffers_(count_buffers(program)),
        room_(rank.device().allocate((places() + 1) * sizeof(double))) {
    rank.device().on(stream::compute).fill(0.0, at(0), buffers_);
    rank.device().synchronize();
  }
  void run(execution::step_executor<Rank> program) {
    for (auto const& reached : program)
      touch(reached.now.row < 0 ? stream::compute : program.transfers().row(reached.now.row).on);
  }

 private:
  /// Returns the greatest number of a buffer, plus 1.
  static std::size_t count_buffers(step_program const& program) {
    int most = -1;
    for (auto const& one : program.touched)
      for (auto const* const some : {&one.reads, &one.writes})
        for (int const buffer : *some) most = std::max(most, buffer);
    return std::size_t(most + 1);
  }
  [[nodiscard]] std::size_t places() const {
    std::size_t out = buffers_;
    for (auto const& one : program_.touched) out += one.reads.size();
    return out;
  }
  [[nodiscard]] double* at(std::size_t number) {
    return reinterpret_cast<double*>(room_.data()) + number;
  }
  void touch(stream on) {
    auto const& now = program_.touched[next_++];
    auto const queue = rank_.device().on(on);
    for (int const buffer : now.reads)
      queue.copy_bytes(at(std::size_t(buffer)), at(buffers_ + read_++), sizeof(double));
    for (int const buffer : now.writes) queue.fill(1.0, at(std::size_t(buffer)), 1);
    if (now.host_waits) rank_.device().synchronize();
  }

  Rank& rank_;
  step_program const& program_;
  std::size_t buffers_;
  typename Rank::device_type::arena room_;
  std::size_t next_ = 0, read_ = 0;
};

template <class Job>
struct stage_step {
  using plan = typename Job::plan_type;
  plait::ext::lean_vector<transfer> list;
  step_program program;

  explicit stage_step(int stage)
      : list(transfers_of<plan>(stage, step_load, job_part::training)),
        program(program_of<plan>(plan::grid, list, stage, job_part::training,
                                 training_timetable<typename plan::schedule_type>(plan::stages, 2)
                                     .stages[std::size_t(stage)],
                                 {.clips = true, .updates = true})) {}
};

/// Runs the program of each rank; on the ranks of `stage` with the waits that follow from
/// `touched`.
template <class Job>
void run_with(plait::ext::lean_vector<stream_operation> const& touched, int stage) {
  launch<Job>(simulated{}, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    stage_step<Job> const right(rank.stage());
    auto changed = right.program;
    if (rank.stage() == stage) changed.touched = touched;
    touching_work<rank_type> work(rank, right.program);
    work.run({rank, right.list, changed});
    rank.device().synchronize();
  });
}

/// Returns true if the waits of `said` order all operations that touch the same values in `right`.
bool orders_all(plait::ext::lean_vector<stream_operation> const& right,
                plait::ext::lean_vector<stream_operation> const& said) {
  std::size_t const n = right.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) before[i][j] = right[i].on == right[j].on;
  for (auto const& wait : plan_waits(said))
    before[std::size_t(wait.awaited)][std::size_t(wait.waiting)] = true;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (before[i][k] && before[k][j]) before[i][j] = true;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j)
      if (conflict(right[i], right[j]) && !before[i][j]) return false;
  return true;
}

/// Leaves out each read and each write of the program of `stage`; returns how many were a race.
template <class Job>
int races_of(int stage) {
  auto const right = stage_step<Job>(stage).program;
  run_with<Job>(right.touched, stage);
  int races = 0;
  for (std::size_t i = 0; i < right.touched.size(); ++i)
    for (auto const member : {&stream_operation::reads, &stream_operation::writes})
      for (std::size_t k = 0; k < (right.touched[i].*member).size(); ++k) {
        auto changed = right.touched;
        auto& some = changed[i].*member;
        some.erase(some.begin() + std::ptrdiff_t(k));
        if (orders_all(right.touched, changed)) {
          // Other waits imply the wait that this makes, or it makes none: no difference shows.
          EXPECT_NO_THROW(run_with<Job>(changed, stage)) << i;
        } else {
          ++races;
          EXPECT_THROW(run_with<Job>(changed, stage), race_error)
              << i << ", " << text_of(right.operations[i]);
        }
      }
  return races;
}

TEST(ProgramMutants, AnUndeclaredAccessIsARace) {
  EXPECT_GE(races_of<small_job<data_parallel<2>>>(0), 6);
  for (int const stage : {0, 1}) EXPECT_GE(races_of<small_job<pipeline<2>>>(stage), 4) << stage;
}

}  // namespace
