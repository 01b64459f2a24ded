// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/exchanges.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/block_rooms.hpp"
#include "plait/run/context.hpp"
#include "plait/run/stage_runner.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::execution {

/// Runs the passes of a program on batches of one shape, in an arena that has room for it: each
/// microbatch has the slots that the plan gives it.
///
/// Cost:    none of its calls allocates.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class pass_runner {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using runner_type = stage_runner<Job, Rank>;

 public:
  using batch_type = device_batch<typename Rank::device_type::memory>;
  static constexpr int all_items = plan::code.items.size();

  /// `where`: activations has the bytes of `plan::arena_for`, which others may use in between;
  /// `passes`: of the stage, on the microbatches of `load`.
  [[gnu::cold]] pass_runner(Rank& rank, workload const& load, stage_program const& passes,
                            typename runner_type::arenas const& where)
      : rank_(rank),
        load_(load),
        arena_(where.activations),
        runner_(rank, load, where),
        rooms_(rank, ir_of<plan>, plan::parameter_layout_for(rank.stage(), rank.grid()),
               runner_.memory().places_of_uses(), where.parameters, where.gradients),
        places_(runner_.arena().template place<(plan::chunks > 1)>(passes, load.microbatches)),
        outputs_(std::size_t(plan::chunks) * std::size_t(load.microbatches), nullptr) {
    if (places_.bytes > runner_.arena().passes_bytes)
      throw error({"passes on ", load.microbatches, " microbatches need ", places_.bytes,
                   " bytes, and their plan has ", runner_.arena().passes_bytes,
                   "; this is a fault of plait"});
  }

  /// Where the passes have what they leave to each other.
  [[nodiscard]] placed_passes const& places() const { return places_; }

  /// Clears what layers read as zeros: before the first run, and when others have used the arena.
  [[gnu::cold]] void take_over() {
    auto const& at = runner_.arena();
    queue().fill(T{0}, reinterpret_cast<T*>(arena_ + at.zeros_offset),
                 (at.total_bytes - at.zeros_offset) / sizeof(T));
  }

  [[nodiscard]] workload const& load() const { return load_; }
  /// Returns true if the passes run on `microbatches` microbatches of `rows` rows.
  [[nodiscard]] bool fits(std::size_t rows, int microbatches) const {
    return rows == load_.rows && microbatches == load_.microbatches;
  }
  [[nodiscard]] runner_type& runner() { return runner_; }

  /// The batch, which outlives them, and the context of the next passes. `loss`: `data` and `scale`
  /// of the first term; each microbatch that is a slice has its own, `loss_stride` behind that of
  /// the one before. Items from `end_item` on are left out.
  void begin(batch_type const& batch, layer_context const& context, loss_sum const& loss,
             int loss_stride, int end_item = all_items) {
    batch_ = &batch;
    runner_.context() = context;
    runner_.context().all_samples = batch.all_samples(samples_.blocks);
    if constexpr (plan::sums_over_samples)
      runner_.context().sample_axes = plan::samples.axes_with(shard<dim::batch>);
    loss_ = loss;
    loss_stride_ = loss_stride;
    end_item_ = end_item;
  }

  /// Where buckets are whole, if ranks hold blocks.
  [[nodiscard]] auto& rooms() { return rooms_; }

  /// Runs a forward or a backward, or half of one, or what a bucket needs before or behind it.
  void compute(program_operation const& now) {
    if (now.what == operation_kind::bring) return rooms_.bring(now);
    if (now.what == operation_kind::accumulate) return rooms_.accumulate(now);
    run(now);
    rooms_.let_go(now);
  }

  /// Whether a backward comes to the begin of its chunk; else the rest is still to come.
  [[nodiscard]] bool ends_pass(program_operation const& now) const {
    return now.units.begin <= chunk_of(now).units.begin;
  }

  /// What the model has given to its loss in the last forward.
  [[nodiscard]] T const* model_output() const {
    return reinterpret_cast<T const*>(runner_.model_output());
  }

  /// Where this rank has what a message between chunks moves.
  [[nodiscard]] T* edge(exchange const& what, program_operation const& now) {
    bool const sends = what.is_sent_by(rank_.stage());
    std::byte* const at = what.place == exchange_place::activation_edge
                              ? (sends ? output_of(now.chunk, now.microbatch) : input_of(now))
                              : (sends ? gradient_ : gradient_of(now));
    return reinterpret_cast<T*>(at);
  }

 private:
  void run(program_operation const& now) {
    auto const& chunk = chunk_of(now);
    int const m = now.microbatch;
    prepare(m);
    pass_place const at{now.chunk, range(passed_value::stash, now).offset,
                        plan::splits_backward ? range(passed_value::gradient_stash, now).offset : 0,
                        now.units};
    std::byte* const input = input_of(now);
    if (now.what == operation_kind::forward) {
      output_of(now.chunk, m) = runner_.forward(input, at, end_item_);
      return;
    }
    if (now.what == operation_kind::forward_again) return runner_.forward_again(input, at);
    runner_.begin_gradients(now.begins);
    rooms_.begin(now);
    auto const part = now.what == operation_kind::backward_input        ? backward_part::input
                      : now.what == operation_kind::backward_parameters ? backward_part::parameters
                                                                        : backward_part::all;
    auto* const made = runner_.backward(input, at, gradient_of(now), part, handed_gradient(now));
    if (!ends_pass(now)) return;
    if (part != backward_part::parameters) {
      gradient_ = made;
      if (chunk.receives_gradient) queue().discard(gradient_of(now), chunk.output_bytes);
    }
    if (part == backward_part::input) return;
    if (part == backward_part::parameters)
      queue().discard(arena_ + at.gradient_stash, chunk.gradient_stash_bytes);
    if (chunk.receives_input()) queue().discard(input, chunk.input_bytes);
    end_stash(now.chunk, m);
    if (chunk.handed_from >= 0) end_stash(chunk.handed_from, m);
  }
  /// A chunk that reads the stash of a chunk is done with a microbatch: itself, or the one that its
  /// output is handed to. The last of them discards it.
  void end_stash(int number, int microbatch) {
    auto const& chunk = runner_.arena().chunks[std::size_t(number)];
    if constexpr (plan::chunks > 1)
      if (chunk.handed_to >= 0) {
        auto& is_read = is_read_[number_of(number, microbatch)];
        is_read = is_read == 0 ? 1 : 0;
        if (is_read != 0) return;
      }
    queue().discard(arena_ + places_.of(passed_value::stash, number, microbatch).offset,
                    chunk.activation_stash_bytes);
  }

  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }
  [[nodiscard]] chunk_arena const& chunk_of(program_operation const& now) const {
    return runner_.arena().chunks[std::size_t(now.chunk)];
  }
  [[nodiscard]] placed_range range(passed_value what, program_operation const& now) const {
    return places_.of(what, now.chunk, now.microbatch);
  }
  /// Where the forward of a chunk has left its output.
  std::byte*& output_of(int chunk, int microbatch) {
    return outputs_[number_of(chunk, microbatch)];
  }
  [[nodiscard]] std::size_t number_of(int chunk, int microbatch) const {
    return std::size_t(chunk) * std::size_t(load_.microbatches) + std::size_t(microbatch);
  }

  /// What a chunk is given, and the gradient of what it makes.
  [[nodiscard]] std::byte* input_of(program_operation const& now) {
    auto const& chunk = chunk_of(now);
    if (chunk.begins_model) return batch_->input_of(now.microbatch);
    if constexpr (plan::chunks > 1)
      if (chunk.handed_from >= 0) return output_of(chunk.handed_from, now.microbatch);
    return arena_ + range(passed_value::input, now).offset;
  }
  [[nodiscard]] std::byte* gradient_of(program_operation const& now) const {
    auto const& chunk = chunk_of(now);
    if (!chunk.receives_gradient) return nullptr;
    return arena_ + range(passed_value::gradient, now).offset;
  }
  /// Where the gradient of a chunk's input is handed over to another chunk of the stage; null: it
  /// is sent.
  [[nodiscard]] std::byte* handed_gradient(program_operation const& now) const {
    if constexpr (plan::chunks > 1)
      if (int const to = chunk_of(now).handed_from;
          to >= 0 && runner_.arena().chunks[std::size_t(to)].receives_gradient)
        return arena_ + places_.of(passed_value::gradient, to, now.microbatch).offset;
    return nullptr;
  }

  /// What layers are told of a microbatch.
  void prepare(int m) {
    auto const& batch = *batch_;
    runner_.context().microbatch = m;
    runner_.context().first_sample = batch.first_sample_of(m);
    loss_sum loss = loss_;
    loss.weights = batch.weights_of(m);
    if (loss.data != nullptr) loss.data += loss_stride_ * (batch.first_slice + m);
    if (batch.missing_samples > 0) {
      loss.samples = batch.samples;
      loss.present = batch.samples_in(m, samples_.number, samples_.blocks);
      runner_.context().missing = loss.samples - loss.present;
    }
    if constexpr (plan::sums_over_samples)
      runner_.context().samples_on_all_ranks = samples_on_all_ranks(m);
    runner_.set_loss(batch.targets == nullptr ? nullptr : batch.targets_of(m), loss);
  }

  [[nodiscard]] std::size_t samples_on_all_ranks(int m) const {
    if (batch_->missing_samples == 0) return batch_->samples * std::size_t(samples_.blocks);
    std::size_t all = 0;
    for (int rank = 0; rank < samples_.blocks; ++rank)
      all += batch_->samples_in(m, rank, samples_.blocks);
    return all;
  }

  Rank& rank_;
  block_place samples_ = block_of(plan::samples, rank_.grid(), rank_.place());
  workload load_;
  std::byte* arena_;
  runner_type runner_;
  [[no_unique_address]] block_rooms<T, typename Job::gradient_element, Rank,
                                    plan::rules.keeps_blocks() || plan::rules.sums_blocks()> rooms_;
  placed_passes places_;
  lean_vector<std::byte*> outputs_;  // of the forwards of each chunk
  std::vector<char> is_read_ = std::vector<char>(outputs_.size(), 0);  // by one of two chunks
  batch_type const* batch_ = nullptr;
  loss_sum loss_{};
  int loss_stride_ = 0;
  int end_item_ = all_items;
  std::byte* gradient_ = nullptr;  // of the last backward
};

}  // namespace plait::execution
