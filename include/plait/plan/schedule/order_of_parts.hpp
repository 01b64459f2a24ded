// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/transfer.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/schedule/operation.hpp"

// The order of each part of a job, written once for two sinks. transfer_lister makes the list of
// transfers: a row for each transfer, with the number of times that ranks carry it out.
// program_writer makes the program of a rank: an operation for each microbatch, bucket and unit.
//
// A function below calls verbs of its sink in the order of the part. `rows`, and verbs that are
// named after rows, add rows to the list, and to the program the operations that carry them out;
// `compute` adds nothing to the list. A verb that begins with `each_` calls one of these functions
// for each pass, piece, unit, bucket or tensor of the program, and once for all of them in the
// list. A lambda in its place would be a type for each sink, which costs the compiler memory.
// Example: a step of two microbatches calls `forward` twice in the program, and once, for a row
// with `times` 2, in the list.
//
// The list differs from the order of the program in these places, and nowhere else:
//
// - a list has the rows of passes by kind (messages in, layers forward, messages out, gradients in,
//   layers backward, gradients out), and within a kind by item; a program follows the timetable;
// - a list has the gathers of parameters first among the rows of passes, and the sums of
//   microbatches and the outputs last; a program has them next to the layers;
// - a list has all ties, then all buckets from the first to the last; a program reduces bucket by
//   bucket, from the last to the first, some of them within passes, each after its ties;
// - a list of an export has all buckets, then all tensors, stage by stage; a program goes unit by
//   unit;
// - a list of an evaluation ends with the sum of its measures; this sum has a program of its own,
//   because it is sent once for all batches.
namespace plait::planning {

/// Regions of arenas, in the orders in which a step gathers parameters, a step reduces gradients,
/// and an export gathers blocks. Layers of the first units may need parameters over_tensor, so a
/// step gathers these first.
inline constexpr int gathered_regions[]{parameter_layout::over_tensor,
                                        parameter_layout::over_batch};
inline constexpr int reduced_regions[]{parameter_layout::over_batch, parameter_layout::over_tensor};
inline constexpr int exported_regions[]{parameter_layout::over_batch, parameter_layout::over_tensor,
                                        parameter_layout::frozen};

/// Options of a step that change its order.
struct program_shape {
  bool counts = true;        ///< counts labels, and adds up the loss
  bool clips = false;        ///< computes the norm, to clip gradients or skip steps
  bool updates = false;      ///< runs the optimizer
  bool checks_loss = false;  ///< reads the loss before it updates
  bool masks_loss = false;   ///< counts the loss on one of the ranks that have an equal loss
};

/// The first or the last unit of a chunk, next to which a message crosses stages.
enum class chunk_side : int { begin, end };

/// Reduces gradients of some buckets, of a microbatch or of the step. Gradients of uses that are
/// tied to their parameters are added first.
template <class Sink, class Buckets>
[[gnu::cold]] constexpr void order_of_buckets(Sink& to, Buckets const& some) {
  to.ties(some);
  to.gradients(some);
}

/// Writes a unit of a backward.
template <class Sink, class Piece>
[[gnu::cold]] constexpr void order_of_unit(Sink& to, Piece& piece, int unit) {
  to.run_again(piece, unit);
  to.backward(piece, unit);
}

/// Writes units of a pass that run together. Passes are cut between buckets that are gathered or
/// reduced within them.
template <class Sink, class Piece>
[[gnu::cold]] constexpr void order_of_piece(Sink& to, work kind, Piece& piece) {
  to.gather_for(piece);
  if (kind == work::forward) return to.forward(piece);
  to.each_unit(piece);                     // order_of_unit, from the last unit on
  to.compute(operation_kind::accumulate);  // the bucket that was reduced while these units ran
  to.each_reduced(piece);                  // order_of_buckets
}

/// Writes a pass, or its message between chunks.
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

/// Writes the reduction of gradients after the passes. Sums slice by slice are first, since ties
/// and buckets are moved as sums.
template <class Sink>
[[gnu::cold]] constexpr void order_of_reduction(Sink& to) {
  to.compute(operation_kind::accumulate);
  to.rows(transfer_place::slices);
  to.each_reduced();  // order_of_buckets, for the buckets that no pass has reduced
}

/// Writes a training step. Labels are counted first, since the gradient of the loss is divided by
/// their number over all ranks. Parameters are gathered at the beginning of a step and not at its
/// end, so that the first layers run while later buckets are on their way. Gradients are summed
/// before they are squared, because the norm is taken of their sums. The loss is summed before
/// `clip`, which may skip a step whose loss is not finite.
template <class Sink>
[[gnu::cold]] constexpr void order_of_training(Sink& to, program_shape const& shape) {
  to.compute(operation_kind::send);
  to.rows(transfer_place::labels);
  to.compute(operation_kind::scale);
  for (int const region : gathered_regions) to.gather_parameters(region);
  to.compute(operation_kind::clear);
  to.each_pass();
  if (shape.masks_loss) to.compute(operation_kind::mask);
  order_of_reduction(to);
  to.rows(transfer_place::loss);
  to.compute(operation_kind::total);
  if (shape.clips) to.compute(operation_kind::square);
  if (shape.clips) to.rows(transfer_place::norm_partials);
  if (shape.updates) to.compute(operation_kind::clip);
  if (shape.updates) to.compute(operation_kind::update);
  to.compute(operation_kind::read);
}

/// Writes an evaluation of one batch.
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

/// Writes a prediction for one batch.
template <class Sink>
[[gnu::cold]] constexpr void order_of_prediction(Sink& to) {
  to.each_pass();
  to.rows(transfer_place::rank_outputs);
  to.rows(transfer_place::outputs);
  to.compute(operation_kind::read);
}

/// Writes a tensor of an export.
template <class Sink, class Tensor>
[[gnu::cold]] constexpr void order_of_tensor(Sink& to, Tensor const& tensor) {
  to.make_whole(tensor);
  to.send_to_root(tensor);
}
/// Writes a unit of an export.
template <class Sink, class Unit>
[[gnu::cold]] constexpr void order_of_exported(Sink& to, Unit const& unit) {
  for (int const region : exported_regions) to.blocks(unit, region);
  to.each_tensor(unit);
}

/// Writes any part of a job.
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
      to.rows(transfer_place::agreement);
      return to.compute(operation_kind::read);
    case job_part::state_transfer:
      to.compute(operation_kind::send);
      to.rows(transfer_place::state);
      return to.compute(operation_kind::read);
  }
}

}  // namespace plait::planning
