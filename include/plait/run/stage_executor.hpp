// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/type_list.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/run/context.hpp"
#include "plait/run/node_code.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/staging_buffers.hpp"
#include "plait/run/unit_executor.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::execution {

template <class Job, class Rank>
using units_of =
    unit_executor<typename stage_setting_of<Job, typename Rank::device_type::memory>::type, Rank>;

/// Runs the forward or the backward of the units of a pass, item by item. A unit is a layer or a
/// block, and an item consists of consecutive units with the same layers, which run the same code.
/// stage_executor calls this class for the passes of a program.
///
/// Cost:    no allocation; the only branches test which items the stage has.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank,
          class Items = std::make_index_sequence<std::size_t(Job::plan_type::code.items.size())>>
class stage_items;
template <class Job, class Rank, std::size_t... I>
class stage_items<Job, Rank, std::index_sequence<I...>> : public units_of<Job, Rank> {
  using base = units_of<Job, Rank>;
  using plan = typename Job::plan_type;
  static constexpr std::size_t items = sizeof...(I);
  template <std::size_t Item>
  using forward_code = typename item_code_of<plan, int(Item)>::forward;
  template <std::size_t Item>
  using backward_code = typename item_code_of<plan, int(Item)>::backward;

 public:
  using typename base::arenas, typename base::pass_type;

  [[gnu::cold]] stage_items(Rank& rank, workload const& load, arenas const& where)
      : base(rank, stage_memory_for<Job>(rank, load, where), leaf_names(plan::tree)) {
    if constexpr (prepares()) prepare_layers();
  }

  /// Returns the frame of a pass through all units of a chunk of the stage, with the stash at the
  /// beginning of the arena. `context` must outlive the pass.
  [[nodiscard]] pass_type pass_of(layer_context& context, int chunk = 0) {
    auto const& here = this->arena().chunks[std::size_t(chunk)];
    return {.context = context,
            .buffers = this->memory().buffers(),
            .chunk = &here,
            .units = here.units,
            .stash = this->memory().at(0),
            .gradient_stash = this->memory().at(0),
            .end_item = int(items)};
  }

  /// Runs units of a chunk forward and returns the address of their output, which is in the stash.
  /// Items from `pass.end_item` on do not run; if only the model's output is needed, the loss is
  /// such an item. If `pass.recomputes` is true, the function recomputes the activations that the
  /// backward of a unit reads and that its forward has not kept. A recomputation runs the same
  /// nodes with the same numbers, but adds no terms of the loss.
  std::byte* forward(pass_type& pass) {
    std::byte* made = this->input_of(pass.units.begin, pass);
    in_order{(I + 1 == items && !pass.recomputes ? void(model_output_ = made) : void(),
              int(I) < pass.end_item
                  ? void(made = this->forward_item(forward_code<I>{}, pass, made))
                  : void(),
              0)...};
    return made;
  }
  /// Runs units of a chunk backward and returns the gradient of their input. If they are the last
  /// units of the chunk, the backward starts from `gradient`, the gradient of the chunk's output.
  /// Otherwise it starts from the gradient that the previous call returned. Gradients of parameters
  /// are added to the sums of the step.
  std::byte* backward(pass_type& pass, std::byte* gradient) {
    if constexpr (plan::splits_backward)
      if (pass.part == backward_part::parameters) {
        in_order{(this->parameters_of_item(backward_code<items - 1 - I>{}, pass), 0)...};
        return nullptr;
      }
    gradient = this->begin_backward(pass, gradient);
    in_order{
        (gradient = this->backward_item(backward_code<items - 1 - I>{}, pass, gradient), 0)...};
    return gradient;
  }

  /// Returns the input of the loss in the last forward.
  [[nodiscard]] std::byte const* model_output() const { return model_output_; }

 private:
  /// Returns true if a layer of the model has a function `prepare`, which is called before the
  /// first pass.
  static constexpr bool prepares() {
    return std::any_of(plan::tree.leaves.begin(), plan::tree.leaves.end(),
                       [](leaf_info const& leaf) { return leaf.has_prepare; });
  }
  [[gnu::cold]] void prepare_layers() {
    layer_context context{.batch = this->memory().rows() / plan::sequence_length,
                          .sequence = plan::sequence_length};
    for (int chunk = 0; chunk < plan::chunks; ++chunk) {
      auto pass = pass_of(context, chunk);
      in_order{(this->prepare_item(forward_code<I>{}, pass), 0)...};
    }
  }

  std::byte const* model_output_ = nullptr;
};

/// Runs the passes of a program on batches of one shape, in one arena of activations. The passes of
/// several microbatches overlap in time: a pipeline stage may run the forwards of the microbatches
/// 0 to 3 before the backward of microbatch 0. So each microbatch has a slot of the arena from its
/// first pass to its last. The slot contains the microbatch's stash (the activations kept for the
/// backward), its received input and its gradients. The plan has computed the slots from the order
/// of the passes. For an operation of the program, run() looks up the slot and the batch's data of
/// the microbatch, puts their addresses into a pass_frame, and calls the items of the stage. For
/// example, with one_forward_one_backward on the first of 4 stages, at most 4 microbatches are
/// between their forward and their backward, so the arena has 4 slots, even for 32 microbatches.
///
/// Cost:    none of its calls allocates.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class stage_executor : public stage_items<Job, Rank> {
  using base = stage_items<Job, Rank>;
  using plan = typename Job::plan_type;
  using T = typename Job::element;

 public:
  using typename base::arenas, typename base::pass_type;
  using frame_type = step_frame<typename base::setting>;
  using batch_type = device_batch<typename Rank::device_type::memory>;
  static constexpr int all_items = plan::code.items.size();
  /// True if the inputs of the model are tokens; only these have documents.
  static constexpr bool takes_tokens = plan::tree.leaves[0].input().kind == value_kind::tokens;

  /// `where`: the arenas. The arena of activations has the size that `plan::arena_for` returns;
  /// other programs may use it between runs. `passes`: the passes of the stage on the microbatches
  /// of `load`.
  [[gnu::cold]] stage_executor(Rank& rank, workload const& load, stage_program const& passes,
                               arenas const& where)
      : base(rank, load, where),
        rank_(rank),
        load_(load),
        arena_(where.activations),
        staging_(rank, ir_of<plan>, plan::parameter_layout_for(rank.stage(), rank.grid()),
                 this->memory().places_of_uses(), where.parameters, where.gradients),
        places_(this->arena().template place<(plan::chunks > 1)>(passes, load.microbatches)),
        outputs_(std::size_t(plan::chunks) * std::size_t(load.microbatches), nullptr) {
    if (places_.bytes > this->arena().passes_bytes)
      throw error({"passes on ", load.microbatches, " microbatches need ", places_.bytes,
                   " bytes, and their plan has ", this->arena().passes_bytes,
                   "; this is a fault of plait"});
  }

  /// Returns the offsets in the arena of the values that passes keep for later passes.
  [[nodiscard]] placed_passes const& places() const { return places_; }

  /// Clears the memory that layers read as zeros. The caller calls this function before the first
  /// run, and each time after other programs have used the arena.
  [[gnu::cold]] void take_over() {
    auto const& at = this->arena();
    queue().fill(T{0}, reinterpret_cast<T*>(arena_ + at.zeros_offset),
                 (at.total_bytes - at.zeros_offset) / sizeof(T));
  }

  [[nodiscard]] workload const& load() const { return load_; }
  /// Returns true if the passes run on `microbatches` microbatches of `rows` rows.
  [[nodiscard]] bool fits(std::size_t rows, int microbatches) const {
    return rows == load_.rows && microbatches == load_.microbatches;
  }

  /// Returns the frame of a step on a batch. `context`: the context of all layers; `loss`: the
  /// address of the first term of the loss. If microbatches are slices, each has its own loss,
  /// `loss_stride` numbers after the loss of the previous slice. Items from `end_item` on are not
  /// run.
  [[nodiscard]] frame_type frame_of(batch_type const& batch, layer_context const& context,
                                    loss_sum const& loss, int loss_stride,
                                    int end_item = all_items) const {
    frame_type out{.batch = batch,
                   .context = context,
                   .loss = loss,
                   .loss_stride = loss_stride,
                   .end_item = end_item,
                   .gradients = this->memory().buffers().gradients};
    out.context.all_samples = batch.all_samples(samples_.blocks);
    if constexpr (plan::sums_over_samples)
      out.context.sample_axes = plan::samples.axes_with(shard<dim::batch>);
    return out;
  }

  /// Returns the staging buffers in which sharded buckets are whole while passes use them. If ranks
  /// hold whole buckets, the staging buffers are empty.
  [[nodiscard]] auto& staging() { return staging_; }

  /// Runs the pass of an operation: a forward, a backward, or half of a backward.
  void run(program_operation const& now, frame_type& with) {
    pass_type pass = pass_on(now, with);
    if (is_backward(now.what)) {
      run_backward(now, pass);
    } else {
      std::byte* const made = this->forward(pass);
      if (!pass.recomputes) output_of(now.chunk, now.microbatch) = made;
    }
    staging_.release(now);
  }

  /// Returns true if the backward `now` includes the first unit of its chunk. Otherwise a later
  /// operation runs the other units of the chunk.
  [[nodiscard]] bool ends_pass(program_operation const& now) const {
    return now.units.begin <= chunk_of(now).units.begin;
  }

  /// Returns the model's output of the last forward as elements.
  [[nodiscard]] T const* model_output() const {
    return reinterpret_cast<T const*>(base::model_output());
  }

  /// Returns the address, on this rank, of the contents of a message between chunks: an activation
  /// or a gradient that this rank sends or receives.
  [[nodiscard]] T* edge(transfer const& what, program_operation const& now) {
    bool const sends = what.is_sent_by(rank_.stage());
    std::byte* const at = what.place == transfer_place::activation_edge
                              ? (sends ? output_of(now.chunk, now.microbatch) : received_input(now))
                              : (sends ? gradient_ : gradient_of(now));
    return reinterpret_cast<T*>(at);
  }

 private:
  /// Makes the frame of a pass: the addresses that the pass uses, and the facts of the microbatch
  /// for the context of the layers.
  [[nodiscard]] pass_type pass_on(program_operation const& now, frame_type& with) {
    auto const& batch = with.batch;
    int const m = now.microbatch;
    auto const& chunk = chunk_of(now);
    pass_type pass{.context = with.context,
                   .buffers = this->memory().buffers(),
                   .loss = with.loss,
                   .chunk = &chunk,
                   .units = now.units,
                   .input = input_of_chunk(now, batch),
                   .stash = arena_ + range(live_buffer::stash, now).offset,
                   .end_item = with.end_item,
                   .recomputes = now.what == operation_kind::recompute,
                   .begins_gradients = now.begins,
                   .watch = with.watch};
    if constexpr (plan::splits_backward)
      pass.gradient_stash = arena_ + range(live_buffer::gradient_stash, now).offset;
    if (now.what == operation_kind::backward_input) pass.part = backward_part::input;
    if (now.what == operation_kind::backward_parameters) pass.part = backward_part::parameters;
    pass.buffers.gradients = with.gradients;
    if (batch.targets != nullptr) pass.buffers.targets = batch.targets_of(m);
    pass.loss.weights = batch.weights_of(m);
    if (pass.loss.data != nullptr) pass.loss.data += with.loss_stride * (batch.first_slice + m);
    pass.context.microbatch = m;
    if constexpr (takes_tokens)
      pass.context.document_positions = batch.document_positions + batch.document_stride * m;
    pass.context.first_sample = batch.first_sample_of(m);
    if (batch.missing_samples > 0) {
      pass.loss.samples = batch.samples;
      pass.loss.present = batch.samples_in(m, samples_.number, samples_.blocks);
      pass.context.missing = pass.loss.samples - pass.loss.present;
    }
    if constexpr (plan::sums_over_samples)
      pass.context.samples_on_all_ranks = samples_on_all_ranks(batch, m);
    return pass;
  }

  void run_backward(program_operation const& now, pass_type& pass) {
    auto const& chunk = *pass.chunk;
    staging_.begin(now);
    pass.of_input = handed_gradient(now);
    auto* const made = this->backward(pass, gradient_of(now));
    if (!ends_pass(now)) return;
    if (pass.part != backward_part::parameters) {
      gradient_ = made;
      if (chunk.receives_gradient) queue().discard(gradient_of(now), chunk.output_bytes);
    }
    if (pass.part == backward_part::input) return;
    if (pass.part == backward_part::parameters)
      queue().discard(pass.gradient_stash, chunk.gradient_stash_bytes);
    if (chunk.receives_input()) queue().discard(pass.input, chunk.input_bytes);
    end_stash(now.chunk, now.microbatch);
    if (chunk.handed_from >= 0) end_stash(chunk.handed_from, now.microbatch);
  }
  /// Notes that one reader of the stash of chunk `number` for a microbatch has ended. The readers
  /// are chunk `number` itself and, if there is one, the chunk of this stage whose input is the
  /// output of chunk `number`. The last reader discards the stash.
  void end_stash(int number, int microbatch) {
    auto const& chunk = this->arena().chunks[std::size_t(number)];
    if constexpr (plan::chunks > 1)
      if (chunk.handed_to >= 0) {
        auto& is_read = is_read_[number_of(number, microbatch)];
        is_read = is_read == 0 ? 1 : 0;
        if (is_read != 0) return;
      }
    queue().discard(arena_ + places_.of(live_buffer::stash, number, microbatch).offset,
                    chunk.activation_stash_bytes);
  }

  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }
  [[nodiscard]] chunk_arena const& chunk_of(program_operation const& now) const {
    return this->arena().chunks[std::size_t(now.chunk)];
  }
  [[nodiscard]] placed_range range(live_buffer what, program_operation const& now) const {
    return places_.of(what, now.chunk, now.microbatch);
  }
  /// Returns the address of a chunk's output; the chunk's forward sets this address.
  std::byte*& output_of(int chunk, int microbatch) {
    return outputs_[number_of(chunk, microbatch)];
  }
  [[nodiscard]] std::size_t number_of(int chunk, int microbatch) const {
    return std::size_t(chunk) * std::size_t(load_.microbatches) + std::size_t(microbatch);
  }

  /// Returns the input of a chunk: a part of the batch, the output of another chunk of the stage,
  /// or a received message. The next function, gradient_of(), returns the gradient of a chunk's
  /// output, or null if the chunk receives none.
  [[nodiscard]] std::byte* input_of_chunk(program_operation const& now, batch_type const& batch) {
    auto const& chunk = chunk_of(now);
    if (chunk.begins_model) return batch.input_of(now.microbatch);
    if constexpr (plan::chunks > 1)
      if (chunk.handed_from >= 0) return output_of(chunk.handed_from, now.microbatch);
    return received_input(now);
  }
  [[nodiscard]] std::byte* received_input(program_operation const& now) const {
    return arena_ + range(live_buffer::input, now).offset;
  }
  [[nodiscard]] std::byte* gradient_of(program_operation const& now) const {
    auto const& chunk = chunk_of(now);
    if (!chunk.receives_gradient) return nullptr;
    return arena_ + range(live_buffer::gradient, now).offset;
  }
  /// Returns the address at which a chunk stores the gradient of its input for another chunk of
  /// this stage; null: the gradient is sent to another stage.
  [[nodiscard]] std::byte* handed_gradient(program_operation const& now) const {
    if constexpr (plan::chunks > 1)
      if (int const to = chunk_of(now).handed_from;
          to >= 0 && this->arena().chunks[std::size_t(to)].receives_gradient)
        return arena_ + places_.of(live_buffer::gradient, to, now.microbatch).offset;
    return nullptr;
  }

  [[nodiscard]] std::size_t samples_on_all_ranks(batch_type const& batch, int m) const {
    if (batch.missing_samples == 0) return batch.samples * std::size_t(samples_.blocks);
    std::size_t all = 0;
    for (int rank = 0; rank < samples_.blocks; ++rank)
      all += batch.samples_in(m, rank, samples_.blocks);
    return all;
  }

  Rank& rank_;
  block_place samples_ = block_of(plan::samples, rank_.grid(), rank_.coordinates());
  workload load_;
  std::byte* arena_;
  [[no_unique_address]] staging_buffers<T, typename Job::gradient_element, Rank,
                                        plan::rules.keeps_blocks() || plan::rules.sums_blocks()>
      staging_;
  placed_passes places_;
  lean_vector<std::byte*> outputs_;  // addresses of the outputs of each chunk and microbatch

  // For each of these outputs, 1 if one of the two readers of the chunk's stash has ended, see
  // end_stash.
  std::vector<char> is_read_ = std::vector<char>(outputs_.size(), 0);
  std::byte* gradient_ = nullptr;  // gradient that the last backward has returned
};

}  // namespace plait::execution
