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

/// The sink that makes the program of a rank of a stage, operation by operation: order_of_part
/// calls its verbs. For each operation it notes the stream and the buffers that the operation reads
/// and writes; all waits follow from these. It knows no level of `zero` by name: it asks whether
/// parameters are kept in blocks (then it gathers buckets in front of pieces) and whether gradients
/// are summed in blocks (then it reduces a bucket after each piece). Example: with two buckets in
/// blocks a forward becomes bring, gather, bring, gather, forward of the first units, forward of
/// the others.
class program_writer : row_writer {
 public:
  /// Prepares a writer for a stage.
  ///
  /// `list`: the rows of the stage in the part of the job; operations name them by their numbers.
  /// `parameters`: layout of the stage; empty if only rows of one place are written.
  /// `places`: the memory of values that `passes` leave; with one chunk on a stage it follows from
  /// the slots of `passes`.
  [[gnu::cold]] program_writer(plan_ir const& plan, lean_vector<transfer> const& list, int stage,
                               parameter_layout const& parameters,
                               stage_program const* passes = nullptr,
                               placed_passes const& places = {});

  [[nodiscard]] step_program take() { return std::move(out_); }

  /// Writes a part of a job.
  [[gnu::cold]] void write(job_part part, program_shape const& shape);
  /// Writes the rows of one place; they move the buffer `touched`.
  [[gnu::cold]] void write_rows(transfer_place place, name touched);
  /// Writes the reduction of gradients that were computed before.
  [[gnu::cold]] void write_reduction();

  // --- verbs of order_of_parts.hpp

  /// Adds an operation that is described by its kind alone.
  [[gnu::cold]] void compute(operation_kind what);
  /// Adds the rows of a place whose rows follow one another.
  [[gnu::cold]] void rows(transfer_place place);
  [[gnu::cold]] void gather_parameters(int region);

  /// The work of a chunk on a microbatch, and the buffers that it touches.
  struct pass {
    work kind;
    unit_range chunk;
    program_operation run{};
    buffers reads{}, writes{};
    buffers message{};         ///< buffers that its message touches, if it is one
    bool sums = false;         ///< true if it makes gradients of parameters
    bool is_last_sum = false;  ///< true for the last such pass of its chunk
  };
  /// Writes the timetable of the stage.
  [[gnu::cold]] void each_pass();
  /// Adds this rank's end of a message between two chunks.
  [[gnu::cold]] void message(transfer_place place, chunk_side side, pass const& now);
  /// Makes the output of a microbatch whole, by its row, or by a copy if this rank has all of it.
  /// For measures it also gives the output to the host.
  [[gnu::cold]] void output(pass const& now);

  /// Units of a pass that run together, unless a recompute runs between them.
  struct piece {
    unit_range units;
    program_operation run;  ///< the piece's next operation, with the units that have not run yet
    buffers reads, writes;
    staging_place room{};  ///< place of the bucket of gradients that the units make
    bool sums = false, is_last_sum = false;
  };
  /// Writes the pieces of a pass in the order in which they run. A backward that makes gradients of
  /// parameters is cut between the buckets that are reduced during it: the last backward of a
  /// chunk, or each backward if ranks reduce the gradients of each microbatch.
  [[gnu::cold]] void each_piece(pass& now);
  /// Empties the room for gradients if a piece needs all of it. Then gathers the buckets of
  /// parameters for this piece and for the next.
  [[gnu::cold]] void gather_for(piece& now);
  [[gnu::cold]] void forward(piece const& now);
  [[gnu::cold]] void each_unit(piece& now);
  /// Recomputes a unit's record, after the backward of the later units.
  [[gnu::cold]] void run_again(piece& now, int unit);
  [[gnu::cold]] void backward(piece& now, int unit);

  /// Reduces the bucket of a microbatch that a piece has made, and all buckets that are complete
  /// now.
  [[gnu::cold]] void each_reduced(piece const& now);
  /// Reduces all buckets that have not been reduced.
  [[gnu::cold]] void each_reduced();
  /// Adds the rows of uses that are tied to parameters of a bucket, and the operation that adds
  /// these gradients up. The bucket is a piece's bucket in the room for gradients, or a bucket of
  /// the step.
  [[gnu::cold]] void ties(piece const& of);
  [[gnu::cold]] void ties(int bucket);
  [[gnu::cold]] void gradients(piece const& of);
  [[gnu::cold]] void gradients(int bucket);

  /// A unit of an item.
  struct exported {
    int unit, item;
  };
  /// Writes all units, in the order of the layers.
  [[gnu::cold]] void each_exported();
  /// Gathers the buckets of a region that a unit is the first to use, if ranks have blocks.
  [[gnu::cold]] void blocks(exported const& of, int region);
  [[gnu::cold]] void each_tensor(exported const& of);
  [[gnu::cold]] void make_whole(program_operation const& tensor);
  /// Sends a tensor to the root, which reads it.
  [[gnu::cold]] void send_to_root(program_operation const& tensor);

 private:
  using row_writer::compute;

  [[nodiscard]] [[gnu::cold]] pass pass_of(scheduled_work const& now, bool is_last_sum);
  [[nodiscard]] [[gnu::cold]] piece piece_of(pass& now, unit_range units);
  /// Returns the pieces of the arena that a value of a pass occupies.
  [[nodiscard]] [[gnu::cold]] buffers pieces_of(live_buffer value, int chunk, int microbatch) const;
  /// Returns the chunk of the stage that produces the input of a unit, -1 if there is none.
  [[nodiscard]] [[gnu::cold]] int chunk_that_ends_at(int unit) const;
  /// Makes a bucket of parameters whole in its room.
  [[gnu::cold]] void gather_bucket(planned_gather const& one);
  /// Returns the parameters that units read, including those that other units own.
  [[nodiscard]] [[gnu::cold]] buffers parameters_of(unit_range units) const;
  /// Returns the ends of the room for gradients that a bucket occupies.
  [[nodiscard]] [[gnu::cold]] buffers ends_of(staging_place const& room) const;
  /// Returns true if a place has a row that moves a bucket, or, without a number, any row.
  [[nodiscard]] [[gnu::cold]] bool moves_at(transfer_place place, int number = -1) const;
  /// Returns true if ranks reduce a bucket while the backward is still running.
  [[nodiscard]] [[gnu::cold]] bool goes_early(int number) const;
  [[gnu::cold]] void reduce(int bucket);
  /// Adds the block of the last reduced bucket to the sums of the step. If the bucket is complete,
  /// it is then reduced along the other axes.
  [[gnu::cold]] void accumulate();
  /// Adds the rows of tied uses of a bucket's parameters, and returns true if there are such uses.
  [[gnu::cold]] bool add_tie_rows(int number);
  /// Returns true if a bucket has padding on any rank.
  [[nodiscard]] [[gnu::cold]] bool has_padding(bucket const& of) const;
  /// Adds the rows of a tensor that are messages, or the other rows.
  [[gnu::cold]] bool add_rows_of(program_operation const& tensor, bool messages,
                                 buffers const& reads);

  stage_program const* passes_;  // null if the part has no passes
  placed_passes places_;
  job_part part_ = job_part::training;
  program_shape shape_{};
  buffers host_{};               // buffers that `send` fills from the host and `read` returns to it
  bool measures_ = false;        // true if outputs are given to measures
  lean_vector<char> is_done_{};  // units whose gradients are complete, except for tied uses
  lean_vector<char> is_reduced_{};  // true for buckets that are reduced
  lean_vector<char> has_begun_{};   // chunks that have made gradients in this step
  lean_vector<char> has_run_{};     // chunks that have run forward
  bucket_uses uses_;
  working_record record_;
  buffers kept_{};  // the input and the output of the current pass's chunk
  gather_plan gathers_{};
  std::size_t next_gather_ = 0, next_frozen_ = 0;
  int piece_ = 0;  // number of the next piece, counted over all passes
  bucket_staging scatter_room_;
  struct {
    program_operation made{};
    bool is_last = false;                    // last accumulation of its bucket
  } accumulated_{};                          // the next accumulation; bucket -1: none
  std::array<int, 3> exported_{-1, -1, -1};  // for each region, the bucket that is whole
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/program_writer.ipp"
#endif
