// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/synchronizer.hpp"

namespace plait::execution {

/// Runs the program of a rank: one operation behind the other, in their order, each behind what it
/// has to wait for. What operations do is given by who runs it:
///
///   work.compute(operation)         computes, on stream compute
///   work.run(exchanges, operation)  carries out row `operation.row` by
///                                 exchanges.run(operation, data)
///   Work::posts_nothing            may be there, and true: it has no messages between stages
///
/// Cost:    prepared once; a run allocates nothing.
/// Errors:  those of the work and of communicators; a program that an exception has ended is begun
///          anew by the next run.
/// Threads: used by the one thread that runs the rank.
template <class Rank>
class step_runner {
 public:
  using exchanges_type = exchange_runner<Rank>;

  /// `list`: that from which the program is made.
  [[gnu::cold]] step_runner(Rank& rank, lean_vector<exchange> const& list, step_program program)
      : rank_(rank),
        operations_(std::move(program.operations)),
        exchanges_(rank, list),
        waits_(rank.device(), program.touched, operations_) {}

  template <class Work>
  void run(Work& work) {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      auto const& now = operations_[i];
      [[maybe_unused]] auto const mark = rank_.device().mark(name_of(now));
      if constexpr (Rank::device_type::parts.goes_on && !requires { requires Work::posts_nothing; })
        rank_.device().go_on();
      waits_.begin(i);
      if (now.row < 0) work.compute(now);
      else work.run(exchanges_, now);
      waits_.end(i);
    }
  }

 private:
  /// For profilers.
  [[nodiscard]] char const* name_of(program_operation const& now) const {
    return now.row < 0 ? to_string(now.what) : to_string(exchanges_.row(now.row).what.place);
  }

  Rank& rank_;
  lean_vector<program_operation> operations_;
  exchanges_type exchanges_;
  synchronizer<typename Rank::device_type> waits_;
};

}  // namespace plait::execution
