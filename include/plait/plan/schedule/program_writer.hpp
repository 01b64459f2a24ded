// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/memory/pass_places.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/schedule/order_of_parts.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/program_parts.hpp"
#include "plait/plan/schedule/row_writer.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/bucket_staging_buffers.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Writes the program of a rank of a stage, operation by operation. It is a sink of
/// order_of_parts.hpp, whose functions call its members in order. For each operation it notes the
/// stream and the buffers that the operation reads and writes; all waits follow from these. The
/// writer does not depend on the level of `zero`: if parameters are kept in blocks, it gathers
/// buckets before the pieces that use them, and if gradients are summed in blocks, it reduces a
/// bucket after each piece. Example: with two buckets in blocks, a forward becomes copy_block,
/// gather, copy_block, gather, forward of the first units, forward of the others.
class program_writer : row_writer {
 public:
  /// Prepares a writer for the program of a stage.
  ///
  /// `list`: the transfers of the stage in the part of the job; operations refer to them by index.
  /// `parameters`: layout of the stage's parameters; empty if the program has only transfers of one
  /// place.
  /// `places`: the places of the buffers that `passes` leave for each other.
  [[gnu::cold]] program_writer(plan_ir const& plan, lean_vector<transfer> const& list, int stage,
                               parameter_layout const& parameters,
                               stage_program const* passes = nullptr,
                               placed_passes const& places = {});

  [[nodiscard]] step_program take() { return std::move(out_); }

  /// Writes the whole program of a part of a job.
  [[gnu::cold]] void write(job_part part, program_shape const& shape);
  /// Adds an operation for each transfer of the list that has the label `place`. These operations
  /// read and write the buffer `touched`.
  [[gnu::cold]] void write_rows(transfer_place place, name touched);
  /// Writes only the reduction of gradients that an earlier program has computed.
  [[gnu::cold]] void write_reduction();
  /// Writes a program without passes that reduces or applies pending gradients.
  [[gnu::cold]] void write_pending(program_shape const& shape);

  // --- members that order_of_parts.hpp calls

  /// Adds an operation that needs no other description than its kind.
  [[gnu::cold]] void compute(operation_kind what);
  /// Returns true if a step applies the gradients of the step before.
  [[nodiscard]] bool delays() const { return plan_.delays; }
  /// Adds all transfers with the label `place`, one after the other.
  [[gnu::cold]] void rows(transfer_place place);
  [[gnu::cold]] void gather_parameters(int region);

  /// A pass (the work of a chunk on a microbatch) or a message, and the buffers that it reads and
  /// writes.
  struct pass {
    work kind;
    unit_range chunk;
    program_operation run{};
    buffers reads{}, writes{};
    buffers message{};         ///< if this is a message: the buffers that it reads or writes
    bool sums = false;         ///< true if the pass computes gradients of parameters
    bool is_last_sum = false;  ///< true for the chunk's last pass that computes them
  };
  /// Writes the passes and messages of the stage's timetable, in order.
  [[gnu::cold]] void each_pass();
  /// Adds this rank's end of a message between two chunks.
  [[gnu::cold]] void message(transfer_place place, chunk_side side, pass const& now);
  /// Gathers the output of a microbatch by its transfer, or copies the output if this rank has the
  /// whole output. If measures need the output, adds the operation that passes it to them.
  [[gnu::cold]] void output(pass const& now);

  /// A piece of a pass: units that run as one operation, unless one of them is recomputed in
  /// between.
  struct piece {
    unit_range units;
    program_operation run;  ///< the piece's next operation, with the units that have not run yet
    buffers reads, writes;
    staging_place room{};  ///< place of the bucket for the gradients of the units
    bool sums = false, is_last_sum = false;
  };
  /// Writes the pieces of a pass in the order in which they run. A backward that computes gradients
  /// of parameters is cut between the buckets that are reduced during it: the last backward of a
  /// chunk, or each backward if ranks reduce the gradients of each microbatch.
  [[gnu::cold]] void each_piece(pass& now);
  /// If a piece needs the whole staging buffer for gradients, adds the block in the buffer to the
  /// sums of the step, so that the buffer is free. Then gathers the buckets of parameters for this
  /// piece and for the next.
  [[gnu::cold]] void gather_for(piece& now);
  [[gnu::cold]] void forward(piece const& now);
  [[gnu::cold]] void each_unit(piece& now);
  /// Recomputes the values that the backward of a unit reads. This is after the backward of the
  /// later units.
  [[gnu::cold]] void recompute(piece& now, int unit);
  [[gnu::cold]] void backward(piece& now, int unit);

  /// Adds two reductions: of the bucket of a microbatch's gradients that a piece has computed, and
  /// of all buckets of the step that are complete now.
  [[gnu::cold]] void each_reduced(piece const& now);
  /// Adds the reductions of all buckets that have not been reduced yet.
  [[gnu::cold]] void each_reduced();
  /// Adds the transfers of the gradients of tied uses of a bucket's parameters, and the operation
  /// that adds these gradients to the gradients of the owners. The bucket is a piece's bucket in
  /// the staging buffer for gradients, or a bucket of the step.
  [[gnu::cold]] void ties(piece const& of);
  [[gnu::cold]] void ties(int bucket);
  [[gnu::cold]] void gradients(piece const& of);
  /// Adds the reduction of a bucket of the step. If updates are delayed, it adds nothing, because
  /// pending_gradients() adds the same transfers.
  [[gnu::cold]] void gradients(int bucket);
  /// Adds the reductions of all buckets of pending gradients.
  [[gnu::cold]] void pending_gradients();

  /// A unit whose parameters are exported, and the number of its item.
  struct exported {
    int unit, item;
  };
  /// Writes the export of all units, in the order of the layers.
  [[gnu::cold]] void each_exported();
  /// Gathers those buckets of a region that no earlier unit uses, if ranks hold blocks.
  [[gnu::cold]] void blocks(exported const& of, int region);
  [[gnu::cold]] void each_tensor(exported const& of);
  [[gnu::cold]] void make_whole(program_operation const& tensor);
  /// Sends a tensor to the root rank, which copies the tensor to its host.
  [[gnu::cold]] void send_to_root(program_operation const& tensor);

 private:
  using row_writer::compute;

  [[nodiscard]] [[gnu::cold]] pass pass_of(scheduled_work const& now, bool is_last_sum);
  [[nodiscard]] [[gnu::cold]] piece piece_of(pass& now, unit_range units);
  /// Returns the pieces of the arena that a buffer of a pass occupies, see placed_passes.
  [[nodiscard]] [[gnu::cold]] buffers pieces_of(live_buffer value, int chunk, int microbatch) const;
  /// Returns the index of the stage's chunk that produces the input of `unit`; -1 if a chunk of
  /// another stage does.
  [[nodiscard]] [[gnu::cold]] int chunk_that_ends_at(int unit) const;
  /// Gathers a bucket of parameters in the staging buffer.
  [[gnu::cold]] void gather_bucket(planned_gather const& one);
  /// Returns the buffers of the parameters that units read, including parameters of other units to
  /// which parameters of these units are tied.
  [[nodiscard]] [[gnu::cold]] buffers parameters_of(unit_range units) const;
  /// Returns the ends (beginning, end or both) of the gradients' staging buffer that a bucket
  /// occupies.
  [[nodiscard]] [[gnu::cold]] buffers ends_of(staging_place const& room) const;
  /// Returns true if the list has a transfer with the label `place` that moves bucket `number`; for
  /// -1, if it has any transfer with this label.
  [[nodiscard]] [[gnu::cold]] bool moves_at(transfer_place place, int number = -1) const;
  /// Returns true if ranks reduce a bucket of this step while the backward is still running.
  [[nodiscard]] [[gnu::cold]] bool goes_early(int number) const;
  [[gnu::cold]] void reduce(int bucket);
  /// Returns the name of the gradients that the optimizer reads.
  [[nodiscard]] name applied() const { return plan_.delays ? name::pending : name::gradients; }
  /// Adds the block of the last reduced bucket to the sums of the step. If the bucket is complete,
  /// it is then reduced along the other axes.
  [[gnu::cold]] void accumulate();
  /// Adds the transfers of the gradients of tied uses of a bucket's parameters. Returns true if
  /// there are such uses.
  [[gnu::cold]] bool add_tie_rows(int number);
  /// Returns true if a bucket has padding on any rank.
  [[nodiscard]] [[gnu::cold]] bool has_padding(bucket const& of) const;
  /// Adds the transfers of a tensor: its messages between stages if `messages` is true, otherwise
  /// its other transfers.
  [[gnu::cold]] bool add_rows_of(program_operation const& tensor, bool messages,
                                 buffers const& reads);

  stage_program const* passes_;  // null if the part has no passes
  placed_passes places_;
  job_part part_ = job_part::training;
  program_shape shape_{};
  buffers host_{};               // buffers that `send` fills from the host and `read` returns to it
  bool measures_ = false;        // true if measures need the outputs
  lean_vector<char> is_done_{};  // units whose gradients are complete, except for tied uses
  lean_vector<char> is_reduced_{};  // true for buckets whose reduction has been written
  lean_vector<char> has_begun_{};   // true for chunks that have computed gradients in this step
  lean_vector<char> has_run_{};     // true for chunks that have run a forward
  bucket_uses uses_;
  working_record record_;
  buffers kept_{};  // the input and the output of the current pass's chunk
  gather_plan gathers_{};
  std::size_t next_gather_ = 0, next_frozen_ = 0;
  int piece_ = 0;  // number of the next piece, counted over all passes
  bucket_staging scatter_room_;
  struct {
    program_operation made{};
    bool is_last = false;                    // true for the last accumulation of its bucket
  } accumulated_{};                          // the next accumulation; bucket -1: none
  std::array<int, 3> exported_{-1, -1, -1};  // for each region, the last bucket that was gathered
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/program_writer.ipp"
#endif
