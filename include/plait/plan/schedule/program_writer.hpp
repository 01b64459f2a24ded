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
#include "plait/plan/schedule/exchanges.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/program_parts.hpp"
#include "plait/plan/schedule/row_writer.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/plan/sharding/bucket_rooms.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Writes the program of a rank of a stage, operation by operation.
class program_writer : row_writer {
 public:
  /// `list`: of the stage and the part of the job; rows have their numbers in it. `parameters`: of
  /// the stage; none where only rows of one place are written. `places`: of what `passes` leave;
  /// with one chunk on a stage they follow from its slots.
  [[gnu::cold]] program_writer(plan_ir const& plan, lean_vector<exchange> const& list, int stage,
                               parameter_layout const& parameters,
                               stage_program const* passes = nullptr,
                               placed_passes const& places = {});

  [[nodiscard]] step_program take() { return std::move(out_); }

  /// The rows of one place; they move what `touched` names.
  [[gnu::cold]] void write_rows(exchange_place place, name touched);

  /// Adds up gradients that are there.
  [[gnu::cold]] void write_reduction();

  [[gnu::cold]] void write_training(program_shape const& shape);

  [[gnu::cold]] void write_evaluation(program_shape const& shape);

  [[gnu::cold]] void write_prediction();

  /// One tensor behind the other, in the order of the layers; before the first of a bucket of which
  /// ranks have blocks, the bucket.
  [[gnu::cold]] void write_export(bool gradients);

 private:
  /// What becomes of the model's output of a microbatch.
  enum class outputs_are : int { ignored, measured, kept };

  /// This rank's end of the message between two chunks; `unit` is the first of the later one.
  [[gnu::cold]] void add_message(exchange_place place, int unit, bool sends,
                                 scheduled_work const& now, buffers const& touched);

  [[gnu::cold]] void begin_step();

  /// The timetable of the stage.
  [[gnu::cold]] void add_passes(outputs_are what);
  template <class Iterator>
  static bool is_last_of_chunk(Iterator now, Iterator end) {
    for (auto later = now + 1; later != end; ++later)
      if (sums_gradients(later->kind) && later->chunk == now->chunk) return false;
    return true;
  }
  [[gnu::cold]] void add_work(scheduled_work const& now, outputs_are what,
                              lean_vector<char>& has_begun, bool is_last);
  /// The chunk of the stage that hands over what enters a unit, -1 if there is none.
  [[nodiscard]] [[gnu::cold]] int chunk_that_ends_at(int unit) const;
  /// A part of a pass, behind the buckets that are gathered for it.
  [[gnu::cold]] void add_piece(program_operation run, unit_range units, buffers reads,
                               buffers writes);
  /// What is made again for a backward, each behind the backward of the units behind it; leaves the
  /// rest of its units in `run`.
  [[gnu::cold]] void add_reruns(program_operation& run, buffers const& reads,
                                buffers const& writes);
  /// Makes a bucket of parameters whole in its room.
  [[gnu::cold]] void gather(planned_gather const& one);
  /// The parameters that units read, those of owners included.
  [[nodiscard]] [[gnu::cold]] buffers parameters_of(unit_range units) const;

  /// A backward or half of one. Where it makes gradients of parameters that go on as soon as a
  /// bucket has all of its, it comes bucket by bucket: the last of its chunk, or all where those of
  /// each microbatch are summed.
  [[gnu::cold]] void add_backward(program_operation run, bool sums, bool is_last,
                                  buffers const& reads, buffers const& writes);
  /// The ends of the room for gradients that a bucket takes.
  [[nodiscard]] [[gnu::cold]] buffers ends_of(room_place const& room) const;
  /// The gradients of a microbatch for a bucket, which lie in their room, to the sums of the step;
  /// behind the last one, with those of tied uses.
  [[gnu::cold]] void reduce_microbatch(program_operation const& run, bool is_last,
                                       buffers const& scattered);
  /// The block of what has been reduced last to the sums of the step; of a bucket that is whole
  /// then, what other axes add to it.
  [[gnu::cold]] void accumulate_scattered();
  /// Whether a place has a row that moves a bucket, or any.
  [[nodiscard]] [[gnu::cold]] bool moves_at(exchange_place place, int number = -1) const;
  /// Whether ranks add up a bucket while the backward goes on.
  [[nodiscard]] [[gnu::cold]] bool goes_early(int number) const;
  [[gnu::cold]] void reduce_what_is_whole();
  [[gnu::cold]] void reduce_bucket(int number);
  /// The rows of tied uses of a bucket's parameters; whether there are such uses.
  [[gnu::cold]] bool add_tie_rows(int number);
  /// Whether a parameter in it is padded, on one rank or another.
  [[nodiscard]] [[gnu::cold]] bool has_padding(bucket const& of) const;
  /// All buckets that have not been reduced.
  [[gnu::cold]] void reduce_gradients();

  [[gnu::cold]] void update(program_shape const& shape);
  [[gnu::cold]] void sum_loss();

  /// The output of a microbatch, whole: by its row, or where all of it is here; and, for measures,
  /// to the host.
  [[gnu::cold]] void gather_output(buffers const& made, int microbatch, bool measured);

  /// The buckets of which ranks have blocks and whose first tensors are those of a unit.
  [[gnu::cold]] void bring_for_export(int unit, bool gradients);
  /// A tensor of stage `owner` to the root.
  [[gnu::cold]] void add_tensor(program_operation of, int owner, bool gradients);

  stage_program const* passes_;     // of the stage, where the part has some
  placed_passes places_;            // of what they leave
  lean_vector<char> is_done_{};     // units whose gradients are whole but for tied uses
  lean_vector<char> is_reduced_{};  // buckets
  lean_vector<int> has_run_{};      // chunks, forward
  bucket_uses uses_;
  working_record record_;
  buffers kept_{};  // of the pass at hand: what its chunk was given, and has made
  gather_plan gathers_{};
  std::size_t next_gather_ = 0, next_frozen_ = 0;
  int piece_ = 0;  // of the passes, that comes next
  room_for_buckets scatter_room_;
  struct {
    program_operation made{};
    bool is_last = false;                    // of its bucket
  } scattered_{};                            // the accumulation that comes next
  std::array<int, 3> exported_{-1, -1, -1};  // the bucket of each region that is whole
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/program_writer.ipp"
#endif
