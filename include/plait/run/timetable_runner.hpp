// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plait/plan/exchanges.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/slice_sums.hpp"
#include "plait/run/stage_runner.hpp"
#include "plait/run/synchronizer.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/proof.hpp"

namespace plait::execution {

/// Runs the timetable of a rank's stage on batches of one shape, in an arena that has room for it.
///
/// Cost:   none of its calls allocates.
/// Errors: schedule_error if the timetable for this number of microbatches is not proven.
template <class Job, class Rank>
class timetable_runner {
  using plan = typename Job::plan_type;
  using runner_type = stage_runner<Job, Rank>;

 public:
  /// Which timetable it runs: forward and backward, or forward alone.
  enum class purpose : bool { training, evaluation };

  /// `where`: activations has the bytes of `plan::arena_for`, which others may use in between.
  [[gnu::cold]] timetable_runner(Rank& rank, workload const& load, purpose what,
                                 typename runner_type::arenas const& where)
      : load_(load),
        has_backward_(what == purpose::training),
        program_(program_for(rank.stage(), load, what)),
        arena_(where.activations),
        runner_(rank, load, where),
        waits_(rank.device(), wait_site::part::timetable,
               timetable_operations(program_, plan::is_first(rank.stage()),
                                    plan::is_last(rank.stage())),
               numbers_of(program_)),
        messages_(rank, messages_of(rank, load)) {
    while (first_backward_ < program_.operations.size() &&
           program_.operations[first_backward_].kind != work::backward)
      ++first_backward_;
  }

  /// Clears what layers read as zeros: before the first run, and when others have used the arena.
  [[gnu::cold]] void take_over(Rank& rank) {
    using T = typename Job::element;
    auto const& at = runner_.arena();
    rank.device()
        .on(stream::compute)
        .fill(T{0}, reinterpret_cast<T*>(arena_ + at.zeros_offset),
              (at.total_bytes - at.zeros_offset) / sizeof(T));
  }

  [[nodiscard]] workload const& load() const { return load_; }
  [[nodiscard]] bool fits(workload const& load) const {
    return load.rows == load_.rows && load.microbatches == load_.microbatches;
  }
  [[nodiscard]] runner_type& runner() { return runner_; }
  /// Adds up the gradients of slices while the passes run.
  void add_slices_by(slice_sums<Job, Rank> const* sums) { slices_ = sums; }

  /// Runs the stage's timetable on the microbatches of a batch. The stream of the stage axis must
  /// be at rest, and the host must wait for it afterwards. `loss`: `data` and `scale` of the first
  /// term.
  ///
  /// Moves: activations and gradients between stages, see `plan::wire`.
  template <class Batch>
  void run(Rank& rank, Batch const& batch, loss_sum const& loss) {
    for (std::size_t i = 0; i < program_.operations.size(); ++i)
      run_operation(rank, i, batch, loss, all_items);
  }

  /// The same; on the last stage then(microbatch, the model's output) is called behind each
  /// forward. A loss without `data` is left out.
  template <class Batch, class Then>
  [[gnu::cold]] void run_forward(Rank& rank, Batch const& batch, loss_sum const& loss, Then then) {
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      run_operation(rank, i, batch, loss, loss.data == nullptr ? all_items - 1 : all_items);
      auto const& now = program_.operations[i];
      if (now.kind == work::forward && plan::is_last(rank.stage()))
        then(now.microbatch, runner_.model_output());
    }
  }

 private:
  static constexpr int all_items = plan::code.items.size();
  /// Each slice has a loss of its own.
  static constexpr int terms_of_slices = plan::slices > 0 ? plan::loss_terms() : 0;

  template <class Batch>
  void run_operation(Rank& rank, std::size_t index, Batch const& batch, loss_sum loss,
                     int end_item) {
    auto const& arena = runner_.arena();
    auto const& slots = program_.slots;
    int const stage = rank.stage();
    auto const input_of = [&](int microbatch) {
      if (plan::is_first(stage)) return batch.input_of(microbatch);
      return arena_ + arena.inputs_offset +
             arena.input_bytes * static_cast<std::size_t>(microbatch % slots.inputs);
    };
    auto const gradient_of = [&](int microbatch) -> std::byte* {
      if (!plan::receives_gradient(stage)) return nullptr;
      return arena_ + arena.gradients_offset +
             arena.output_bytes * static_cast<std::size_t>(microbatch % slots.gradients);
    };
    auto const& now = program_.operations[index];
    int const m = now.microbatch;
    runner_.context().microbatch = m;
    runner_.context().first_sample = batch.first_sample_of(m);
    loss.weights = batch.weights_of(m);
    if (loss.data != nullptr) loss.data += terms_of_slices * (batch.first_slice + m);
    if (batch.missing_samples > 0) {
      auto const& grid = rank.grid();
      loss.samples = batch.samples;
      loss.present =
          batch.samples_in(m, grid.place_in_group(rank.place(), batch_axes), grid.size(batch_axes));
    }
    runner_.set_loss(batch.targets == nullptr ? nullptr : batch.targets_of(m), loss);
    auto const forget_slots = [&] {
      auto const queue = rank.device().on(stream::compute);
      int const slot = m % slots.activations;
      queue.discard(arena_ + arena.record_bytes * std::size_t(slot), arena.record_bytes);
      if (!plan::is_first(stage)) queue.discard(input_of(m), arena.input_bytes);
      if (has_backward_ && plan::receives_gradient(stage))
        queue.discard(gradient_of(m), arena.output_bytes);
    };
    [[maybe_unused]] auto const mark = rank.device().mark(to_string(now.kind).data());
    waits_.run(index, [&] {
      if (now.kind == work::forward) {
        output_ = runner_.forward(input_of(m), m % slots.activations, end_item);
      } else if (now.kind == work::backward) {
        if constexpr (plan::slices > 0) runner_.set_gradients(slices_->place_of(m));
        else runner_.begin_gradients(index == first_backward_);
        gradient_ = runner_.backward(input_of(m), m % slots.activations, gradient_of(m));
        if constexpr (plan::slices > 0) slices_->add(rank, m);
        forget_slots();
      } else if constexpr (plan::stages > 1) {
        constexpr auto forth = exchange_place::activation_edge;
        constexpr auto back = exchange_place::gradient_edge;
        auto const as_elements = [](std::byte* data) {
          return reinterpret_cast<typename Job::element*>(data);
        };
        if (now.kind == work::send_activation) messages_.run_sends(forth, as_elements(output_), m);
        else if (now.kind == work::receive_activation)
          messages_.run_receives(forth, as_elements(input_of(m)), m);
        else if (now.kind == work::send_gradient)
          messages_.run_sends(back, as_elements(gradient_), m);
        else messages_.run_receives(back, as_elements(gradient_of(m)), m);
      }
    });
  }

  [[gnu::cold]] static stage_program program_for(int stage, workload const& load, purpose what) {
    auto table = what == purpose::training ? training_timetable<typename plan::schedule_type>(
                                                 plan::stages, load.microbatches)
                                           : evaluation_timetable(plan::stages, load.microbatches);
    require_proven(table);
    return std::move(table.stages[static_cast<std::size_t>(stage)]);
  }

  [[gnu::cold]] static std::vector<exchange> messages_of(Rank const& rank, workload const& load) {
    if constexpr (plan::stages == 1) return {};
    else return exchanges_on<plan>(rank, load, job_part::training);
  }

  /// The operations' names in wait sites: kinds of work.
  [[gnu::cold]] static std::vector<int> numbers_of(stage_program const& program) {
    std::vector<int> out;
    for (auto const& now : program.operations) out.push_back(static_cast<int>(now.kind));
    return out;
  }

  workload load_;
  bool has_backward_;
  stage_program program_;
  std::size_t first_backward_ = 0;
  std::byte* arena_;
  runner_type runner_;
  synchronizer<typename Rank::device_type> waits_;
  exchange_runner<Rank> messages_;
  slice_sums<Job, Rank> const* slices_ = nullptr;
  std::byte* output_ = nullptr;    // of the last forward,
  std::byte* gradient_ = nullptr;  // and of the last backward
};

}  // namespace plait::execution
