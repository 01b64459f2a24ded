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
/// calls its verbs.
class program_writer : row_writer {
 public:
  /// `list`: the rows of the stage in the part of the job, by whose numbers operations name them.
  /// `parameters`: those of the stage; none if only rows of one place are written. `places`: the
  /// memory of values that `passes` leave; with one chunk on a stage it follows from their slots.
  [[gnu::cold]] program_writer(plan_ir const& plan, lean_vector<transfer> const& list, int stage,
                               parameter_layout const& parameters,
                               stage_program const* passes = nullptr,
                               placed_passes const& places = {});

  [[nodiscard]] step_program take() { return std::move(out_); }

  /// Writes a part of a job.
  [[gnu::cold]] void write(job_part part, program_shape const& shape);
  /// Writes the rows of one place; they move what `touched` names.
  [[gnu::cold]] void write_rows(transfer_place place, name touched);
  /// Writes the reduction of gradients that are there.
  [[gnu::cold]] void write_reduction();

  // --- verbs of order_of_parts.hpp

  /// Adds an operation that needs no other word than its kind.
  [[gnu::cold]] void compute(operation_kind what);
  /// Adds the rows of a place that has its rows together.
  [[gnu::cold]] void rows(transfer_place place);
  [[gnu::cold]] void gather_parameters(int region);

  /// The work of a chunk on a microbatch, and the buffers that it touches.
  struct pass {
    work kind;
    unit_range chunk;
    program_operation run{};
    buffers reads{}, writes{};
    buffers message{};         ///< touched by a message in place of the other two
    bool sums = false;         ///< makes gradients of parameters
    bool is_last_sum = false;  ///< is the last pass of its chunk that does
  };
  /// Writes the timetable of the stage.
  [[gnu::cold]] void each_pass();
  /// Adds this rank's end of a message between two chunks.
  [[gnu::cold]] void message(transfer_place place, chunk_side side, pass const& now);
  /// Brings the output of a microbatch together, by its row unless this rank has all of it; and,
  /// for measures, to the host.
  [[gnu::cold]] void output(pass const& now);

  /// Units of a pass that run together, unless something runs again between them.
  struct piece {
    unit_range units;
    program_operation run;  ///< runs the units that no operation has run yet
    buffers reads, writes;
    staging_place room{};  ///< of the bucket of gradients that the units make
    bool sums = false, is_last_sum = false;
  };
  /// Writes the pieces of a pass in the order in which they run. A backward that makes gradients of
  /// parameters is cut between buckets that are reduced in it: the last one of its chunk, or each
  /// one if ranks reduce the gradients of each microbatch.
  [[gnu::cold]] void each_piece(pass& now);
  /// Empties the room for gradients if a piece needs all of it, and gathers the buckets of
  /// parameters for the piece and for the next one.
  [[gnu::cold]] void gather_for(piece& now);
  [[gnu::cold]] void forward(piece const& now);
  [[gnu::cold]] void each_unit(piece& now);
  /// Makes a unit's record again, after the backward of the units after it.
  [[gnu::cold]] void run_again(piece& now, int unit);
  [[gnu::cold]] void backward(piece& now, int unit);

  /// Reduces the bucket of a microbatch that a piece has made, and the buckets that are whole after
  /// it.
  [[gnu::cold]] void each_reduced(piece const& now);
  /// Reduces all buckets that have not been reduced.
  [[gnu::cold]] void each_reduced();
  /// Adds the rows of uses that are tied to parameters of a bucket, and the operation that adds
  /// them up: of a piece's bucket in the room for gradients, or of a bucket of the step.
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
  /// Gathers the buckets of a region whose first tensors a unit has, if ranks have blocks.
  [[gnu::cold]] void blocks(exported const& of, int region);
  [[gnu::cold]] void each_tensor(exported const& of);
  [[gnu::cold]] void make_whole(program_operation const& tensor);
  /// Sends a tensor to the root, which reads it.
  [[gnu::cold]] void send_to_root(program_operation const& tensor);

 private:
  using row_writer::compute;

  [[nodiscard]] [[gnu::cold]] pass pass_of(scheduled_work const& now, bool is_last_sum);
  [[nodiscard]] [[gnu::cold]] piece piece_of(pass& now, unit_range units);
  /// The pieces of the arena that a value of a pass takes up.
  [[nodiscard]] [[gnu::cold]] buffers pieces_of(live_buffer value, int chunk, int microbatch) const;
  /// The chunk of the stage that hands over the input of a unit, -1 if there is none.
  [[nodiscard]] [[gnu::cold]] int chunk_that_ends_at(int unit) const;
  /// Makes a bucket of parameters whole in its room.
  [[gnu::cold]] void gather_bucket(planned_gather const& one);
  /// The parameters that units read, including those of owners.
  [[nodiscard]] [[gnu::cold]] buffers parameters_of(unit_range units) const;
  /// The ends of the room for gradients that a bucket takes.
  [[nodiscard]] [[gnu::cold]] buffers ends_of(staging_place const& room) const;
  /// Returns true if a place has a row that moves a bucket, or any.
  [[nodiscard]] [[gnu::cold]] bool moves_at(transfer_place place, int number = -1) const;
  /// Returns true if ranks reduce a bucket while the backward goes on.
  [[nodiscard]] [[gnu::cold]] bool goes_early(int number) const;
  [[gnu::cold]] void reduce(int bucket);
  /// Adds the block of the last reduced bucket to the sums of the step; then, if the bucket is
  /// whole, what other axes have.
  [[gnu::cold]] void accumulate();
  /// Adds the rows of tied uses of a bucket's parameters, and returns true if there are such uses.
  [[gnu::cold]] bool add_tie_rows(int number);
  /// Returns true if a bucket has padding, on one rank or another.
  [[nodiscard]] [[gnu::cold]] bool has_padding(bucket const& of) const;
  /// Adds the rows of a tensor that are messages, or those that are not.
  [[gnu::cold]] bool add_rows_of(program_operation const& tensor, bool messages,
                                 buffers const& reads);

  stage_program const* passes_;  // null if the part has no passes
  placed_passes places_;
  job_part part_ = job_part::training;
  program_shape shape_{};
  buffers host_{};                  // comes from the host, and goes back to it
  bool measures_ = false;           // outputs
  lean_vector<char> is_done_{};     // units whose gradients are whole except for tied uses
  lean_vector<char> is_reduced_{};  // buckets
  lean_vector<char> has_begun_{};   // chunks whose gradients have been begun
  lean_vector<char> has_run_{};     // chunks that have run forward
  bucket_uses uses_;
  working_record record_;
  buffers kept_{};  // the input and the output of the chunk of the current pass
  gather_plan gathers_{};
  std::size_t next_gather_ = 0, next_frozen_ = 0;
  int piece_ = 0;  // the number of the next piece of all passes
  bucket_staging scatter_room_;
  struct {
    program_operation made{};
    bool is_last = false;  // for its bucket
  } accumulated_{};        // the next accumulation; without a bucket there is none
  std::array<int, 3> exported_{-1, -1, -1};  // the bucket of each region that is whole
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/program_writer.ipp"
#endif
