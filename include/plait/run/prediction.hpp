// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plait/plan/exchanges.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"
#include "plait/run/timetable_runner.hpp"

namespace plait::execution {

/// Runs the model without its loss and brings the output to the host, whole, on every rank of a
/// data rank.
template <class Job, class Rank>
class prediction {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using arena = typename Rank::device_type::arena;
  static constexpr value output =
      plan::code.values[plan::code.items[plan::code.items.size() - 1].in];

 public:
  /// Shapes: microbatch after microbatch, (rows, width) each; valid until the next call.
  /// Moves:  what the plan's list has for a prediction.
  template <class Batch>
  [[gnu::cold]] std::span<T const> run(Rank& rank, timetable_runner<Job, Rank>& passes,
                                       Batch const& batch) {
    auto& device = rank.device();
    workload const load{.rows = batch.rows(), .microbatches = batch.microbatches};
    std::size_t const each = load.rows * output.info.width;
    std::size_t const count = each * static_cast<std::size_t>(load.microbatches);
    if (values_.size() != count) {
      values_.resize(count);
      whole_ = device.allocate(count * sizeof(T));
      staging_ = device.allocate(each * sizeof(T));
    }
    auto* const all = reinterpret_cast<T*>(whole_.data());
    passes.run_to_output(rank, batch, [&](int microbatch, std::byte const* made) {
      device.synchronize();  // nothing here is worth a wait of its own
      move_value<output.at, invariant>(
          device.on(within_layers), rank.tensor_group(), whole_shape{load.rows, output.info.width},
          reinterpret_cast<T const*>(made), all + each * static_cast<std::size_t>(microbatch),
          reinterpret_cast<T*>(staging_.data()));
      device.synchronize();
    });
    device.synchronize();
    if constexpr (plan::stages > 1) {
      exchange_runner<Rank> const messages(rank,
                                           exchanges_on<plan>(rank, load, job_part::prediction));
      messages.run_broadcasts(exchange_place::output, all);
      device.synchronize();
    }
    device.download(all, values_.data(), count * sizeof(T));
    device.synchronize();
    return values_;
  }

 private:
  std::vector<T> values_;
  arena whole_{}, staging_{};
};

}  // namespace plait::execution
