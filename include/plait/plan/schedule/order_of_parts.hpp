// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/transfer.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/schedule/operation.hpp"

// This file defines the order of each part of a job, once for two sinks. transfer_lister makes the
// list of transfers: a row for each transfer, with the number of times that ranks carry it out.
// program_writer makes the program of a rank: an operation for each microbatch, bucket and unit.
//
// Each function below calls members of its sink in the order of the part. `rows`, and members that
// are named after transfers, add transfers to the list; to the program they add the operations that
// carry these transfers out. `compute` adds nothing to the list. A member whose name begins with
// `each_` calls one of these functions: in the program for each pass, piece, unit, bucket or
// tensor, in the list once for all of them. The member knows which function to call; it does not
// take a lambda, because a lambda has a type of its own for each sink, which costs the compiler
// memory. Example: a step of two microbatches calls `forward` twice in the program, and once, for a
// transfer with `times` 2, in the list.
//
// The list differs from the order of the program only in these points:
//
// - a list has the transfers of passes by kind (activations in, forward of the layers, activations
//   out, gradients in, backward of the layers, gradients out), and within a kind by item; a program
//   follows the timetable;
// - a list has the gathers of parameters first among the transfers of passes, and the sums of
//   microbatches and the outputs last; a program has them next to the layers;
// - a list has the gradients of all tied uses, then all buckets from the first to the last; a
//   program reduces bucket by bucket, from the last to the first, some of them within passes, each
//   after the tied uses of its parameters;
// - a list of an export has all buckets, then all tensors, stage by stage; a program goes unit by
//   unit;
// - a list of an evaluation ends with the sum of its measures; this sum has a program of its own,
//   because it is sent once for all batches.
namespace plait::planning {

/// The regions of a parameter_layout in three orders: the order in which a step gathers parameters,
/// the order in which a step reduces gradients, and the order in which an export gathers blocks. A
/// step gathers region over_tensor first, because the first layers may need its parameters.
inline constexpr int gathered_regions[]{parameter_layout::over_tensor,
                                        parameter_layout::over_batch};
inline constexpr int reduced_regions[]{parameter_layout::over_batch, parameter_layout::over_tensor};
inline constexpr int exported_regions[]{parameter_layout::over_batch, parameter_layout::over_tensor,
                                        parameter_layout::frozen};

/// The gradients that a program reduces, in a plan with delayed updates. Pending gradients are the
/// gradients of the step before, which are in an arena of their own.
enum class delayed_reduction : int {
  of_step_before,  ///< the pending gradients, while the passes of the step run
  of_this_step,    ///< the gradients of the program's own passes, after the passes
  nothing          ///< nothing is pending, or the pending gradients have been reduced before
};

/// Options that add operations to a part of a job or leave operations out.
struct program_shape {
  bool counts = true;        ///< counts labels, and adds up the loss
  bool clips = false;        ///< computes the norm of the gradients, to clip them or to skip steps
  bool updates = false;      ///< runs the optimizer
  bool checks_loss = false;  ///< `clip` reads the loss, to skip a step whose loss is not finite
  bool masks_loss = false;   ///< if several ranks have the same loss, sets it to 0 on all of them
                             ///< except one
  /// The gradients that are reduced, if the plan delays updates.
  delayed_reduction reduces = delayed_reduction::of_step_before;
};

/// The end of a chunk at which a message arrives or leaves: in front of its first unit or after its
/// last.
enum class chunk_side : int { begin, end };

/// Adds to the sink the reduction of the gradients of some buckets, for a microbatch or for the
/// step. Gradients of tied uses of the buckets' parameters are added to the buckets first.
template <class Sink, class Buckets>
[[gnu::cold]] constexpr void order_of_buckets(Sink& to, Buckets const& some) {
  to.ties(some);
  to.gradients(some);
}

/// Adds to the sink the backward of one unit, after the recompute of the unit if it has one.
template <class Sink, class Piece>
[[gnu::cold]] constexpr void order_of_unit(Sink& to, Piece& piece, int unit) {
  to.recompute(piece, unit);
  to.backward(piece, unit);
}

/// Adds to the sink a piece of a pass: units that run together. Between two units of a pass a piece
/// ends if a bucket of parameters is gathered or a bucket of gradients is reduced there.
template <class Sink, class Piece>
[[gnu::cold]] constexpr void order_of_piece(Sink& to, work kind, Piece& piece) {
  to.gather_for(piece);
  if (kind == work::forward) return to.forward(piece);
  to.each_unit(piece);                     // calls order_of_unit, from the last unit to the first
  to.compute(operation_kind::accumulate);  // adds the bucket that was reduced while these units ran
  to.each_reduced(piece);                  // calls order_of_buckets
}

/// Adds to the sink a pass of a chunk on a microbatch, or a message between chunks.
template <class Sink, class Pass>
[[gnu::cold]] constexpr void order_of_pass(Sink& to, Pass& pass) {
  switch (pass.kind) {
    case work::receive_activation:
      return to.message(transfer_place::activation_edge, chunk_side::begin, pass);
    case work::forward: to.each_piece(pass); return to.output(pass);
    case work::send_activation:
      return to.message(transfer_place::activation_edge, chunk_side::end, pass);
    case work::receive_gradient:
      return to.message(transfer_place::gradient_edge, chunk_side::end, pass);
    case work::backward:
    case work::backward_input:
    case work::backward_parameters: return to.each_piece(pass);
    case work::send_gradient:
      return to.message(transfer_place::gradient_edge, chunk_side::begin, pass);
  }
}

/// Adds to the sink the reduction of gradients after the passes. In a plan with delayed updates it
/// only adds gradients of tied uses and clears padding. In a plan with slices the sums
/// over all slices come first, because the later transfers of tied uses and of buckets move these
/// sums.
template <class Sink>
[[gnu::cold]] constexpr void order_of_reduction(Sink& to) {
  to.compute(operation_kind::accumulate);
  to.rows(transfer_place::slices);
  to.each_reduced();  // calls order_of_buckets for the buckets that no pass has reduced
}

/// Adds to the sink the norm of the gradients, if the step needs it, and the update.
template <class Sink>
[[gnu::cold]] constexpr void order_of_update(Sink& to, program_shape const& shape) {
  if (shape.clips) to.compute(operation_kind::square);
  if (shape.clips) to.rows(transfer_place::norm_partials);
  if (shape.updates) to.compute(operation_kind::clip);
  if (shape.updates) to.compute(operation_kind::update);
}

/// Adds to the sink a program without passes that reduces the pending gradients, if they have not
/// been reduced before, and applies them, if shape.updates is true.
template <class Sink>
[[gnu::cold]] constexpr void order_of_pending(Sink& to, program_shape const& shape) {
  to.compute(operation_kind::send);
  if (shape.reduces == delayed_reduction::of_step_before) to.pending_gradients();
  order_of_update(to, shape);
  to.compute(operation_kind::read);
}

/// Adds to the sink a training step. Labels are counted first, because the gradient of the loss is
/// divided by their number over all ranks. Parameters are gathered at the beginning of a step and
/// not at its end, so that the first layers run while later buckets are gathered. Gradients are
/// summed before they are squared, because the norm is the norm of the sums. The loss is summed
/// before `clip`, which may skip a step whose loss is not finite.
///
/// In a plan with delayed updates, the rows that reduce the pending gradients follow the gathers of
/// parameters, which the first layers need sooner. No operation of the passes depends on them.
/// After the update has applied the pending gradients, `hand_over` replaces them with the gradients
/// of this step.
template <class Sink>
[[gnu::cold]] constexpr void order_of_training(Sink& to, program_shape const& shape) {
  to.compute(operation_kind::send);
  to.rows(transfer_place::labels);
  to.compute(operation_kind::scale);
  for (int const region : gathered_regions) to.gather_parameters(region);
  if (to.delays() && shape.reduces == delayed_reduction::of_step_before) to.pending_gradients();
  to.compute(operation_kind::clear);
  to.each_pass();
  if (shape.masks_loss) to.compute(operation_kind::mask);
  order_of_reduction(to);
  to.rows(transfer_place::loss);
  to.compute(operation_kind::total);
  order_of_update(to, shape);
  if (to.delays()) to.compute(operation_kind::hand_over);
  if (to.delays() && shape.reduces == delayed_reduction::of_this_step) to.pending_gradients();
  to.compute(operation_kind::read);
}

/// Adds to the sink an evaluation of one batch.
template <class Sink>
[[gnu::cold]] constexpr void order_of_evaluation(Sink& to, program_shape const& shape) {
  if (shape.counts) {
    to.compute(operation_kind::send);
    to.rows(transfer_place::labels);
    to.compute(operation_kind::scale);
  }
  to.each_pass();
  if (shape.counts) {
    to.rows(transfer_place::loss);
    to.compute(operation_kind::total);
  }
  to.rows(transfer_place::measures);
  to.compute(operation_kind::read);
}

/// Adds to the sink a prediction for one batch.
template <class Sink>
[[gnu::cold]] constexpr void order_of_prediction(Sink& to) {
  to.each_pass();
  to.rows(transfer_place::rank_outputs);
  to.rows(transfer_place::outputs);
  to.compute(operation_kind::read);
}

/// Adds to the sink a common update of replicas. Each replica first learns the numbers of all
/// replicas, because its weight depends on their labels. Between the two exchanges it computes its
/// differences. An executor runs each exchange as a program of its own, see program_of_rows.
template <class Sink>
[[gnu::cold]] constexpr void order_of_common_update(Sink& to) {
  to.compute(operation_kind::send);
  to.rows(transfer_place::replica_numbers);
  to.rows(transfer_place::differences);
  to.compute(operation_kind::read);
}

/// Adds to the sink the export of one tensor: a gather, and a message to the root rank.
template <class Sink, class Tensor>
[[gnu::cold]] constexpr void order_of_tensor(Sink& to, Tensor const& tensor) {
  to.make_whole(tensor);
  to.send_to_root(tensor);
}
/// Adds to the sink the export of all tensors of one unit.
template <class Sink, class Unit>
[[gnu::cold]] constexpr void order_of_exported(Sink& to, Unit const& unit) {
  for (int const region : exported_regions) to.blocks(unit, region);
  to.each_tensor(unit);
}

/// Adds to the sink the operations or transfers of the given part of a job.
template <class Sink>
[[gnu::cold]] constexpr void order_of_part(Sink& to, job_part part, program_shape const& shape) {
  switch (part) {
    case job_part::training: return order_of_training(to, shape);
    case job_part::evaluation: return order_of_evaluation(to, shape);
    case job_part::prediction: return order_of_prediction(to);
    case job_part::export_parameters:
    case job_part::export_gradients: to.compute(operation_kind::send); return to.each_exported();
    case job_part::set_up:
      to.compute(operation_kind::send);
      to.rows(transfer_place::consistency);
      return to.compute(operation_kind::read);
    case job_part::state_transfer:
      to.compute(operation_kind::send);
      to.rows(transfer_place::state);
      return to.compute(operation_kind::read);
    case job_part::common_update: return order_of_common_update(to);
  }
}

}  // namespace plait::planning
