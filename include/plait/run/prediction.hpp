// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/plan/exchanges.hpp"
#include "plait/plan/memory_text.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"
#include "plait/run/timetable_runner.hpp"

namespace plait::execution {

/// Runs the model without its loss and brings the outputs to the host, whole, on every rank.
template <class Job, class Rank>
class prediction {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using arena = typename Rank::device_type::arena;
  static constexpr value output =
      plan::code.values[plan::code.items[plan::code.items.size() - 1].in];
  static constexpr std::size_t width = output.info.width;

 public:
  /// Bytes on the device.
  [[nodiscard]] std::size_t bytes() const { return room_.size(); }

  /// Shapes: (samples, sequence, width), the samples in their order, without places that have none;
  ///         valid until the next call.
  /// Moves:  what the plan's list has for a prediction.
  template <class Batch>
  [[gnu::cold]] std::span<T const> run(Rank& rank, timetable_runner<Job, Rank>& passes,
                                       Batch const& batch, predicted which) {
    auto& device = rank.device();
    auto const& grid = rank.grid();
    workload const load{.rows = batch.rows(),
                        .microbatches = batch.microbatches,
                        .data_ranks = plan::grid.ranks_at_launch(grid),
                        .prediction = which};
    std::size_t const each = load.rows * width;
    std::size_t const of_rank = each * static_cast<std::size_t>(load.microbatches);
    bool const all = which == predicted::of_all;
    int const ranks = grid.size(batch_axes), mine = grid.place_in_group(rank.place(), batch_axes);
    int const first = all ? 0 : mine, end = all ? ranks : mine + 1;
    std::size_t const count = of_rank * static_cast<std::size_t>(end - first);
    take_room(rank, load, count);
    auto* const whole = reinterpret_cast<T*>(room_.data());
    std::size_t const begin = of_rank * static_cast<std::size_t>(mine - first);
    auto* const own = whole + begin;
    passes.run_to_output(rank, batch, [&](int microbatch, std::byte const* made) {
      device.synchronize();  // nothing here is worth a wait of its own
      move_value<output.at, invariant>(
          device.on(within_layers), rank.tensor_group(), whole_shape{load.rows, width},
          reinterpret_cast<T const*>(made), own + each * static_cast<std::size_t>(microbatch),
          whole + count);
      device.synchronize();
    });
    device.synchronize();
    exchange_runner<Rank> const exchanges(rank,
                                          exchanges_on<plan>(rank, load, job_part::prediction));
    if constexpr (plan::stages > 1) {
      exchanges.run_broadcasts(exchange_place::output, own);
      device.synchronize();
    }
    for (auto const& row : exchanges.at(exchange_place::outputs)) {
      exchanges.run_blocks(row, whole + begin / row.what.count * row.what.count);
      device.synchronize();
    }
    device.download(whole, received_.data(), count * sizeof(T));
    device.synchronize();

    T* out = values_.data();
    T const* from = received_.data();
    for (int of = first; of < end; ++of, from += of_rank)
      for (std::size_t sample = 0; sample < batch.samples_of(of, ranks); ++sample)
        for (std::size_t position = 0; position < batch.sequence; ++position) {
          std::size_t const row = sample / batch.samples * load.rows + position * batch.samples +
                                  sample % batch.samples;
          out = std::copy_n(from + row * width, width, out);
        }
    return {values_.data(), static_cast<std::size_t>(out - values_.data())};
  }

 private:
  /// On the device `count` elements and those of one microbatch.
  [[gnu::cold]] void take_room(Rank& rank, workload const& load, std::size_t count) {
    std::size_t const bytes = output_bytes<plan>(load);
    if (room_.size() == bytes) return;
    plait::detail::allocate_for_plan(rank.world_rank(), plan::memory(rank.stage(), load),
                                     [&]() -> auto& {
                                       room_ = {};
                                       room_ = rank.device().allocate(bytes);
                                       received_.resize(count);
                                       values_.resize(count);
                                       return room_;
                                     });
  }

  std::vector<T> received_, values_;
  arena room_{};
};

}  // namespace plait::execution
