// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "plait/core/macros.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/stage_executor.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/proof.hpp"
#include "plait/schedule/schedule.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/checks/batch_checks.hpp"
#include "plait/train/measures/loss_terms.hpp"
#include "plait/train/state/parameter_store.hpp"

namespace plait::execution {

/// The programs that a trainer runs on a batch.
enum class trainer_program : int {
  whole_step,
  /// A step without an update. With delayed updates, no gradients are pending; with local steps, an
  /// earlier step of the replica was not finite.
  without_update,
  step_of_sums,  ///< with delayed updates: a step whose pending gradients have been reduced before
  only_gradients,
  only_loss,
  measured_loss,  ///< computes the loss, and the outputs that measures need
  only_forward,   ///< runs the forwards of an evaluation, without counting labels
  outputs_of_rank,
  outputs_of_all
};

/// Returns true if a program updates parameters.
[[nodiscard]] constexpr bool updates(trainer_program which) {
  return which == trainer_program::whole_step || which == trainer_program::step_of_sums;
}

/// The number of enumerators of `trainer_program`.
inline constexpr int trainer_programs = int(trainer_program::outputs_of_all) + 1;

/// Makes and keeps the passes of a trainer and the programs that run them. Training passes keep
/// activations for the backward, evaluation passes do not. Both kinds use the same arena, one after
/// the other, so a trainer needs only as much memory as the greater of the two needs. The arena
/// fits the greatest batch so far: after batches of 32 rows it grows for a batch of 64 rows, and
/// keeps this size for later batches of 32 rows. A program, such as the forward alone, is made when
/// it is first run.
///
/// `StateElement`: the type of the optimizer's states.
///
/// Errors:  out_of_memory with the memory that the plan needs; schedule_error if the pipeline
///          schedule for the number of microbatches is not proven correct.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank, class StateElement>
class trainer_passes {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using target_shape = loss_terms<plan, T>;
  using store_type = parameter_store<element_types<T, typename Job::parameter_element,
                                                   typename Job::gradient_element, StateElement>,
                                     Rank>;

 public:
  using passes_type = stage_executor<Job, Rank>;

  /// `step`: the options of the program for a step that updates parameters.
  [[gnu::cold]] trainer_passes(Rank& rank, store_type& store, program_shape const& step)
      : rank_(rank), store_(store), step_(step) {}
  [[gnu::cold]] ~trainer_passes() = default;
  trainer_passes(trainer_passes const&) = delete;
  trainer_passes& operator=(trainer_passes const&) = delete;

  /// Returns the number of bytes of the arena of activations.
  [[nodiscard]] std::size_t bytes() const { return activations_.size(); }
  /// Returns the step that the device has recorded for replay on batches of `source`. The recording
  /// is empty if the last recorded step used batches of another source.
  typename Rank::device_type::graph& recorded(std::uint64_t source) {
    if (source != recorded_source_) recorded_ = {};
    recorded_source_ = source;
    return recorded_;
  }
  /// Discards the recorded step. The caller calls this function when the work of a step has
  /// changed.
  [[gnu::cold]] void forget_recorded() { recorded_ = {}; }

  /// Returns the passes for a batch. load() returns the workload of the batch, and name() the name
  /// of the trainer for messages. Both are called only if the passes do not exist yet.
  template <class Batch, class Load, class Name>
  PLAIT_IN_LOOPS passes_type& get(bool trains, Batch const& batch, Load const& load,
                                  Name const& name) {
    auto& here = trains ? training_ : evaluation_;
    if (!here.passes || !here.passes->fits(batch.rows(), batch.microbatches))
      make(here, batch, load(), trains, name());
    if (last_run_ != trains) {
      here.passes->take_over();
      last_run_ = trains;
    }
    return *here.passes;
  }

  /// Returns the program `which` for the passes that the last call of get() has returned.
  step_executor<Rank>& program(trainer_program which) {
    auto& here = *last_run_ ? training_ : evaluation_;
    auto& made = here.programs[std::size_t(which)];
    if (!made) made.emplace(make_program(which, here.passes->load()));
    return *made;
  }
  /// Returns a program without passes for pending gradients. `sums`: true if they have been reduced
  /// before; `updates`: true if the program applies them.
  [[nodiscard]] [[gnu::cold]] step_executor<Rank> pending_program(bool sums, bool updates) const {
    program_shape shape;
    shape.updates = updates;
    shape.clips = updates && step_.clips;
    shape.checks_loss = step_.checks_loss;
    if (sums) shape.reduces = delayed_reduction::nothing;
    auto const list = transfers_on<plan>(rank_, {.gradient_norm = shape.clips}, job_part::training);
    return {rank_, list, program_of_pending<plan>(rank_.grid(), list, rank_.stage(), shape)};
  }
  /// Returns the program of an evaluation with measures. `load` contains the number of sums of the
  /// measures.
  [[nodiscard]] [[gnu::cold]] step_executor<Rank> measured_program(workload const& load) const {
    return make_program(trainer_program::measured_loss, load);
  }

 private:
  struct passes_of_shape {
    std::optional<passes_type> passes{};
    stage_program operations{};
    std::array<std::optional<step_executor<Rank>>, std::size_t(trainer_programs)> programs{};

    [[gnu::cold]] void reset() {
      passes.reset();
      for (auto& one : programs) one.reset();
    }
  };

  template <class Batch>
  [[gnu::cold]] void make(passes_of_shape& here, Batch const& batch, workload const& load,
                          bool trains, std::string const& name) {
    plait::execution::check_shape(batch, plan::sequence_length, plan::tree.leaves[0].input(),
                                  target_shape::targets, sizeof(T),
                                  planning::keeps_documents_apart(plan::tree), name);
    last_run_.reset();
    recorded_ = {};
    here.reset();
    auto table =
        trains
            ? training_timetable<typename plan::schedule_type, plan::stages>(load.microbatches)
            : evaluation_timetable<typename plan::schedule_type, plan::stages>(load.microbatches);
    if constexpr (plan::stages > 1 || !is_proved_by_tests<typename plan::schedule_type>)
      require_proven(table);
    int const stage = rank_.stage();
    here.operations = std::move(table.stages[std::size_t(stage)]);
    detail::allocate_for_plan(rank_, plan::memory(stage, load), [&]() -> auto& {
      std::size_t const bytes = plan::arena_for(stage, load).total_bytes;
      if (activations_.size() <
          bytes) {  // destroys the passes first, because they use the old arena
        training_.passes.reset();
        evaluation_.passes.reset();
        activations_ = {};
        activations_ = rank_.device().allocate(bytes);
      }
      return here.passes.emplace(
          rank_, load, here.operations,
          typename passes_type::arenas{activations_.data(), store_.compute_parameters(),
                                       store_.gradients()});
    });
  }

  [[nodiscard]] [[gnu::cold]] step_executor<Rank> make_program(trainer_program which,
                                                               workload load) const {
    bool const trains = which <= trainer_program::only_gradients;
    auto& here = trains ? training_ : evaluation_;
    program_shape shape;
    if (which < trainer_program::only_gradients) shape = step_, shape.updates = updates(which);
    if (!shape.updates) shape.clips = false;
    if (which == trainer_program::only_gradients) shape.reduces = delayed_reduction::of_this_step;
    else if (which != trainer_program::whole_step) shape.reduces = delayed_reduction::nothing;
    shape.counts = which != trainer_program::only_forward;
    load.gradient_norm = shape.clips;
    load.stops = shape.masks_loss;
    if (which == trainer_program::outputs_of_rank) load.prediction = predicted::of_data_rank;
    if (which == trainer_program::outputs_of_all) load.prediction = predicted::of_all;
    auto const part = load.prediction != predicted::nothing ? job_part::prediction
                      : trains                              ? job_part::training
                                                            : job_part::evaluation;
    auto const list = transfers_on<plan>(rank_, load, part);
    return {rank_, list,
            program_of<plan>(rank_.grid(), list, rank_.stage(), part, here.operations, shape,
                             here.passes->places())};
  }

  Rank& rank_;
  store_type& store_;
  program_shape step_;
  typename Rank::device_type::arena activations_{};
  passes_of_shape training_{}, evaluation_{};
  std::optional<bool> last_run_{};  // true if training passes have run last
  typename Rank::device_type::graph recorded_{};
  std::uint64_t recorded_source_ = 0;
};

}  // namespace plait::execution
