// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "plait/plan/exchanges.hpp"
#include "plait/plan/step_program.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/step_runner.hpp"

namespace plait::execution {

/// Adds up numbers in host memory over ranks: by the rows that `list` has for `place`, in `room` on
/// the device.
///
/// Moves:  these rows.
/// Errors: those of the communicators.
template <class Rank, class T>
[[gnu::cold]] void sum_numbers(Rank& rank, std::vector<exchange> const& list, exchange_place place,
                               std::span<T> numbers, T* room) {
  struct {
    Rank& rank;
    std::span<T> numbers;
    T* room;

    void compute(program_operation const& now) const {
      if (now.what == operation_kind::send)
        rank.device().upload(numbers.data(), room, numbers.size_bytes());
      else rank.device().download(room, numbers.data(), numbers.size_bytes());
    }
    void run(exchange_runner<Rank> const& exchanges, program_operation const& now) const {
      exchanges.sum(now.row, room);
    }
  } const work{rank, numbers, room};
  step_runner<Rank> program(rank, list,
                            program_of_rows(rank.grid(), list, place, program_buffer::numbers));
  program.run(work);
  rank.device().synchronize();  // the host reads the numbers
}

}  // namespace plait::execution
