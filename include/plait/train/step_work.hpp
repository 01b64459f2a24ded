// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/number_range.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/context.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/gradients.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// Runs a program of a trainer, such as a step. A program is a list of operations. Some operations
/// compute, such as `clip` or `update`. The others carry out one transfer (row) of the plan's list
/// of transfers, such as the all_reduce of a bucket. A program contains no addresses. This class
/// therefore decides which work an operation enqueues (compute()) and which buffer a transfer moves
/// (transfer()). It leaves passes to the stage_executor. For example, `square` computes the sums of
/// squares of this rank, the transfer `norm_partials` adds these sums over all ranks, and `clip`
/// computes the norm from the result.
///
/// `Parts`: the trainer_parts on which the operations work; they outlive this object.
///
/// Threads: used by the one thread that runs the rank.
template <class Parts>
class step_work {
  using job = typename Parts::job_type;
  using rank_type = typename Parts::rank_type;
  using plan = typename job::plan_type;
  using terms = typename Parts::terms;
  using memory = typename rank_type::device_type::memory;
  using passes_type = typename Parts::passes_type;
  using frame_type = typename passes_type::frame_type;

 public:
  /// `updates`: true for a step that updates the parameters.
  step_work(Parts const& of, passes_type& passes, device_batch<memory> const& batch,
            layer_context const& context, bool updates)
      : frame(passes.frame_of(batch, context, of.loss_of_step(), of.sums.loss_stride)),
        of_(of),
        passes_(passes),
        updates_(updates) {}

  /// The frame in which the passes of the program run.
  frame_type frame;

  /// Runs all operations of a program.
  void run(step_executor<rank_type>& program) {
    for (auto const& reached : program) {
      auto const& now = reached.now;
      if (now.row >= 0) {
        transfer(program.transfers(), now);
      } else if (!is_pass(now.what)) {
        compute(now);
      } else if (!is_backward(now.what)) {
        passes_.run(now, frame);
      } else {
        frame.gradients = of_.slices.place_of(now.microbatch);
        passes_.run(now, frame);
        if (now.what != operation_kind::backward_input && passes_.ends_pass(now))
          of_.slices.add(of_.rank, now.chunk, now.microbatch);
      }
    }
  }

  /// Carries out an operation of the program that computes. Passes are excluded, because run()
  /// carries them out.
  void compute(program_operation const& now) const {
    switch (now.what) {
      case operation_kind::scale: return scale();
      case operation_kind::copy_block: return passes_.staging().copy_block(now);
      case operation_kind::accumulate: return passes_.staging().accumulate(now);
      case operation_kind::mask: return mask_loss();
      case operation_kind::add: return add(now);
      case operation_kind::square:
        return square_gradients(of_.rank, reduced(), of_.memory.squared(),
                                of_.memory.norm_partials());
      case operation_kind::clip: return clip();
      case operation_kind::update: return update(of_);
      case operation_kind::clear: return of_.slices.clear(of_.rank);
      case operation_kind::total: return of_.sums.total_loss(queue());
      case operation_kind::send:
      case operation_kind::read: return;  // the host does this work; nothing is computed
      case operation_kind::row:
      case operation_kind::forward:  // passes run in run(), not here
      case operation_kind::recompute:
      case operation_kind::backward:
      case operation_kind::backward_input:
      case operation_kind::backward_parameters:
      case operation_kind::measure:
      case operation_kind::take: planning::refuse_operation(now.what, "a step");
    }
  }

  void transfer(transfer_runner<rank_type> const& transfers, program_operation const& now) const {
    if constexpr (plan::grid.world_size() != 1) {
      auto const& row = transfers.row(now.row);
      switch (row.what.place) {
        case transfer_place::labels: return transfers.sum(now.row, of_.sums.label_count());
        case transfer_place::loss:
          if (updates_ && !needs_norm(of_.options)) of_.hooks.before_last_transfer();
          return transfers.sum(now.row, of_.sums.loss());
        case transfer_place::norm_partials:
          of_.hooks.before_last_transfer();
          return transfers.sum(now.row, of_.memory.norm_partials().data());
        case transfer_place::parameters:
          return transfers.run(now, passes_.staging().parameters(now));
        case transfer_place::microbatch_gradients:
          return transfers.run(now, passes_.staging().gradients(now));
        case transfer_place::gather_parameters:
          return transfers.run(now, of_.store.compute_parameters());
        case transfer_place::activation_edge:
        case transfer_place::gradient_edge:
          return transfers.run(now, passes_.edge(row.what, now), now.microbatch);
        case transfer_place::slices:
          if (row.moves == collective::all_to_all)
            return of_.slices.exchange(of_.rank, transfers, now.row);
          return transfers.run(now, of_.store.gradients());
        case transfer_place::ties:
        case transfer_place::gradients: return transfers.run(now, of_.store.gradients());
        case transfer_place::consistency:
        case transfer_place::forward:  // these transfers run within the layers of a pass
        case transfer_place::recompute:
        case transfer_place::backward:
        case transfer_place::measures:
        case transfer_place::output:
        case transfer_place::rank_outputs:
        case transfer_place::outputs:
        case transfer_place::blocks:
        case transfer_place::parameter:
        case transfer_place::state: planning::refuse_row(row.what.place, "a step");
      }
    }
  }

  /// Updates all blocks that this rank owns. The update reads the numbers of the step from the
  /// device's memory.
  static void update(Parts const& of) {
    auto* const now = of.memory.numbers();
    for (std::size_t i = 0; i < of.updated.size(); ++i) {
      auto const& [block, younger_by, age] = of.updated[i];
      auto const ranges = of.memory.updated(i);
      update_parameters(of.rank, of.rule,
                        gradients<job, reduced_placement<job>>{of.store.gradients()}, block,
                        {of.store.parameters_of(block), nullptr, of.store.state_of(block),
                         of.store.copies_of(block), block.elements.count, of.store.owned_count(),
                         ranges.data(), static_cast<int>(ranges.size()), &now->gradient_scale},
                        of.memory.numbers_of_age(age));
      of.hooks.after_update(block, &now->gradient_scale);
    }
  }

 private:
  [[nodiscard]] auto queue() const { return of_.rank.device().on(stream::compute); }
  [[nodiscard]] gradients<job, partial> summands() const { return {of_.store.gradients()}; }
  [[nodiscard]] gradients<job, reduced_placement<job>> reduced() const {
    return {of_.store.gradients()};
  }

  /// Computes, for each term of the loss, loss_scale = weight of the term / count of the term in
  /// the global batch.
  void scale() const {
    auto* const now = of_.memory.numbers();
    of_.sums.total_counted(queue());
    for (std::size_t i = 0; i < terms::weights.size(); ++i)
      queue().divide(terms::weights[i], &now->label_count[i], &now->loss_scale[i]);
  }

  /// Sets the loss of this rank to 0 if an earlier rank has computed the same loss. If ranks vote,
  /// the loss is summed over all ranks together with the votes, and without this mask two tensor
  /// ranks, for example, would count the loss twice.
  void mask_loss() const {
    if (!holds_the_one_copy(plan::samples.on_stage(0), of_.rank.coordinates()))
      queue().fill(0.0, of_.sums.loss(), of_.sums.losses);
  }

  /// Adds the gradients of tied uses to a bucket, and sets the gradients of the bucket's padding to
  /// 0. If the ranks reduce the bucket after each microbatch, as under `zero<2>`, the bucket is in
  /// a staging buffer that several buckets share. The gaps between the parameters of the bucket
  /// then contain numbers of other buckets. The gradients of tied uses are added only after the
  /// last microbatch.
  void add(program_operation const& now) const {
    auto const& layout = of_.store.layout();
    auto const& whole = layout.buckets[std::size_t(now.bucket)];
    bool const is_in_room =
        plan::rules.sums_blocks() && whole.region == parameter_layout::over_batch;
    auto* const begin =
        is_in_room ? passes_.staging().gradients(now)
                   : of_.store.gradients() + layout.gradients_at.base[std::size_t(now.bucket)];
    if (!now.begins) add_tied_gradients<job>(of_.rank, summands(), layout, now.bucket, begin);
    clear_padding(of_.rank, of_.store.local(), plan::entries.view(), whole, begin, is_in_room);
  }

  void clip() const {
    auto* const now = of_.memory.numbers();
    auto const squares = of_.memory.norm_partials();
    if (needs_norm(of_.options))
      queue().clip(squares.data(), squares.size(),
                   of_.options.clip > 0 ? of_.options.clip : number_ranges::infinite,
                   &now->gradient_norm, &now->gradient_scale);
    if (of_.options.on_not_finite != trainer_options::not_finite::train_on)
      for (auto const& term : now->loss)
        queue().check_finite(&term, &now->gradient_norm, &now->gradient_scale);
    of_.hooks.before_update(&now->stop);
  }

  Parts const& of_;
  passes_type& passes_;
  bool updates_;
};

}  // namespace plait::execution
