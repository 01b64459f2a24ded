// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "plait/core/lean_vector.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"

namespace plait::execution {

/// Carries out the transfers in `list` that have the label `place`. It calls carry_out(transfers,
/// operation) for each row (entry) of the list or, if a row has several buckets, for each bucket.
/// `touched` names the buffer that the rows move.
///
/// Moves:  these rows.
/// Errors: the errors of the communicators.
template <class Rank, class CarryOut>
[[gnu::cold]] void run_rows(Rank& rank, lean_vector<transfer> const& list, transfer_place place,
                            program_buffer touched, CarryOut carry_out) {
  step_executor<Rank> program(rank, list, program_of_rows(rank.grid(), list, place, touched));
  for (auto const& reached : program)
    if (reached.now.row >= 0) carry_out(program.transfers(), reached.now);
}

/// Sums numbers in host memory over ranks, with the rows of `list` that have the label `place`. The
/// sum is computed in `room`, a buffer in device memory.
template <class Rank, class T>
[[gnu::cold]] void sum_numbers(Rank& rank, lean_vector<transfer> const& list, transfer_place place,
                               std::span<T> numbers, T* room) {
  rank.device().upload(numbers.data(), room, numbers.size_bytes());
  run_rows(rank, list, place, program_buffer::numbers,
           [&](auto const& transfers, auto const& now) { transfers.sum(now.row, room); });
  rank.device().download(room, numbers.data(), numbers.size_bytes());
  rank.device().synchronize();  // the host reads the numbers
}

}  // namespace plait::execution
