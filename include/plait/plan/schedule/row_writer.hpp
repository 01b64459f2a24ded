// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/program_parts.hpp"
#include "plait/plan/schedule/transfers.hpp"

namespace plait::planning {

/// The base class of the writers of a rank's program. It numbers buffers, and adds operations:
/// operations that compute, and operations that carry out transfers of the list.
class row_writer {
 protected:
  using name = program_buffer;
  using buffers = lean_vector<int>;

  [[gnu::cold]] row_writer(plan_ir const& plan, lean_vector<transfer> const& list, int stage,
                           parameter_layout const& parameters)
      : plan_(plan), list_(list), stage_(stage), parameters_(parameters) {}
  ~row_writer() = default;

  /// Returns the number of a buffer. `number`: the bucket, piece, unit or microbatch of the buffer.
  [[nodiscard]] int at(name what, int number = 0) const {
    return static_cast<int>(what) * span_ + number;
  }
  [[nodiscard]] int buckets() const { return static_cast<int>(parameters_.buckets.size()); }
  [[nodiscard]] bucket const& bucket_of(int number) const {
    return parameters_.bucket_at(std::size_t(number));
  }
  [[nodiscard]] bool gathers() const { return plan_.rules.keeps_blocks(); }
  [[nodiscard]] bool scatters() const { return plan_.rules.sums_blocks(); }
  /// `of_buckets` returns the buffers with this name of all buckets; `of_units` returns only the
  /// buffers of the buckets that contain parameters of these units.
  [[nodiscard]] [[gnu::cold]] buffers of_buckets(name what) const;
  [[nodiscard]] [[gnu::cold]] buffers of_units(name what, unit_range units) const;
  /// A tied use of a parameter on the stage. Only uses with a gradient are counted.
  struct tied_use {
    int entry = -1;
    int unit = -1;
    int owner = -1;  ///< number of the bucket that contains the owner's parameter
  };
  /// Advances to the next tied use, and returns false if there is none. A default-constructed `now`
  /// advances to the first.
  [[gnu::cold]] bool find_next(tied_use& now) const;
  [[nodiscard]] [[gnu::cold]] buffers all_gradients() const;
  [[gnu::cold]] static buffers joined(buffers some, buffers const& others);

  [[gnu::cold]] void add(program_operation const& made, stream on, buffers const& reads,
                         buffers const& writes);
  [[gnu::cold]] void compute(operation_kind what, buffers const& reads, buffers const& writes) {
    add({.what = what}, stream::compute, reads, writes);
  }

  /// Adds an operation for transfer `number` of the list, with the members of `made`, and returns
  /// true. If the transfer's group has only one rank, adds nothing and returns false.
  [[gnu::cold]] bool add_row(std::size_t number, program_operation made, buffers const& reads,
                             buffers const& writes);
  [[gnu::cold]] void add_rows(transfer_place place, buffers const& touched);
  /// Adds the transfers that move bucket `number`.
  [[gnu::cold]] void add_rows_of_bucket(transfer_place place, int number, name touched);
  [[gnu::cold]] void add_rows_of_bucket(transfer_place place, program_operation const& made,
                                        buffers const& touches);

  plan_ir const& plan_;
  lean_vector<transfer> const& list_;
  int stage_;
  parameter_layout const& parameters_;
  int span_ = 1;  // greater than all numbers of units, pieces and microbatches
  step_program out_{};
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/row_writer.ipp"
#endif
