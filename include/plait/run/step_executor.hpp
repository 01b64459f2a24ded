// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/synchronizer.hpp"
#include "plait/run/transfer_runner.hpp"

namespace plait::execution {

/// Walks through the program of a rank, in its order. The operations of a program run on several
/// streams, so each must first wait for the operations on other streams whose results it needs.
/// plan_waits finds these waits when the executor is made. A step_executor is a range of operations
/// that also enqueues the waits: when a loop reaches an operation, the operation's stream already
/// waits for the results that the operation needs, so the caller can enqueue it. When the loop
/// leaves an operation for which another stream waits, the executor records an event. The caller
/// enqueues the work of each operation. If the operation is a row of the list of transfers, the
/// caller uses transfers():
///
///   for (auto const& reached : program)
///     if (reached.now.row < 0) compute(reached.now);
///     else program.transfers().run(reached.now, data);
///
/// For example, operation 12 is an all_reduce of gradients on stream::data, and operation 14
/// squares the sums on stream::compute. When the loop reaches operation 14, stream::compute waits
/// for the event of operation 12. Operation 13, which does not touch the gradients, waits for
/// nothing.
///
/// Cost:    prepared once; a walk allocates nothing.
/// Errors:  the errors of communicators; after an error the next walk begins at the first
///          operation.
/// Threads: used by the one thread that runs the rank.
template <class Rank>
class step_executor {
  using device_type = typename Rank::device_type;

 public:
  /// `list`: the transfers from which the program was made.
  [[gnu::cold]] step_executor(Rank& rank, lean_vector<transfer> const& list, step_program program)
      : rank_(rank),
        operations_(std::move(program.operations)),
        transfers_(rank, list),
        waits_(rank.device(), program.touched, operations_) {
    for (auto const& now : operations_)
      posts_ = posts_ || (now.row >= 0 && is_channel(transfers_.row(now.row).on));
  }

  /// An operation that the loop has reached. While this object exists, profilers show the
  /// operation.
  class reached_operation {
   public:
    PLAIT_IN_LOOPS reached_operation(step_executor& of, std::size_t at)
        : now(of.operations_[at]), mark_(of.rank_.device().mark(of.name_of(now))) {
      if constexpr (device_type::parts.goes_on)
        if (of.posts_) of.rank_.device().go_on();
      of.waits_.begin(at);
    }

    program_operation const& now;

   private:
    [[maybe_unused]] decltype(std::declval<device_type&>().mark("")) mark_;
  };

  class position {
   public:
    position(step_executor& of, std::size_t at) : of_(of), at_(at) {}
    PLAIT_IN_LOOPS reached_operation operator*() const { return {of_, at_}; }
    PLAIT_IN_LOOPS position& operator++() {
      of_.waits_.end(at_++);
      return *this;
    }
    bool operator!=(position const& other) const { return at_ != other.at_; }

   private:
    step_executor& of_;
    std::size_t at_;
  };

  [[nodiscard]] position begin() { return {*this, 0}; }
  [[nodiscard]] position end() { return {*this, operations_.size()}; }

  /// Returns the runner that carries out the rows (entries) of the list of transfers.
  [[nodiscard]] transfer_runner<Rank> const& transfers() const { return transfers_; }

 private:
  [[nodiscard]] char const* name_of(program_operation const& now) const {
    return now.row < 0 ? to_string(now.what) : to_string(transfers_.row(now.row).what.place);
  }

  Rank& rank_;
  lean_vector<program_operation> operations_;
  transfer_runner<Rank> transfers_;
  synchronizer<device_type> waits_;
  bool posts_ = false;  // true if the program posts messages; the host then calls go_on()
};

}  // namespace plait::execution
