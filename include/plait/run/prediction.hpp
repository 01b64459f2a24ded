// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/memory_text.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"
#include "plait/run/timetable_runner.hpp"

namespace plait::execution {

/// Brings the outputs of the model to the host: of all samples to every rank, or of one microbatch
/// after the other to one rank of each data rank.
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
    workload load = passes.load();
    load.prediction = which;
    bool const all = which == predicted::of_all;
    int const ranks = grid.size(batch_axes), mine = grid.place_in_group(rank.place(), batch_axes);
    int const first = all ? 0 : mine, end = all ? ranks : mine + 1;
    if (all && batch.slices % ranks != 0)
      throw input_error("predict: " + std::to_string(batch.slices) +
                        " slices are not the same number on each of " + std::to_string(ranks) +
                        " data ranks, so that their outputs cannot be gathered; ask for "
                        "predicted::of_data_rank");
    auto const where = take_room(rank, load, job_part::prediction);
    std::size_t const count = where.elements,
                      of_rank = count / static_cast<std::size_t>(end - first);
    std::size_t const each = of_rank / static_cast<std::size_t>(load.microbatches);
    received_.resize(count);
    values_.resize(count);
    auto* const whole = reinterpret_cast<T*>(room_.data());
    std::size_t const begin = of_rank * static_cast<std::size_t>(mine - first);
    auto* const own = whole + begin;
    passes.run_forward(rank, batch, {}, [&](int microbatch, std::byte const* made) {
      bring_together(rank, load.rows, made, own + each * static_cast<std::size_t>(microbatch),
                     where);
    });
    device.synchronize();
    exchange_runner<Rank> const exchanges(rank,
                                          exchanges_on<plan>(rank, load, job_part::prediction));
    if constexpr (plan::stages > 1) {
      exchanges.run_broadcasts(exchange_place::rank_outputs, own);
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
    for (int of = first; of < end; ++of)
      for (int m = 0; m < batch.microbatches; ++m, from += each) {
        int const microbatch = batch.slices > 0 ? (of - mine) * batch.microbatches + m : m;
        std::size_t const samples = batch.samples_in(microbatch, of, ranks);
        for (std::size_t sample = 0; sample < samples; ++sample)
          for (std::size_t position = 0; position < batch.sequence; ++position)
            out = std::copy_n(from + (position * batch.samples + sample) * width, width, out);
      }
    return {values_.data(), static_cast<std::size_t>(out - values_.data())};
  }

  /// Runs the passes of an evaluation and calls each(row of the batch, outputs of the row, in
  /// double) for all rows that have a sample, on the first tensor rank of the last stage.
  ///
  /// Moves: the outputs of each microbatch, to whole ones within the last stage.
  template <class Batch, class Each>
  [[gnu::cold]] void measure(Rank& rank, timetable_runner<Job, Rank>& passes, Batch const& batch,
                             workload const& load, loss_sum const& loss, Each each) {
    auto const where = take_room(rank, load, job_part::evaluation);
    std::size_t const count = where.elements;
    received_.resize(std::max(received_.size(), count));
    row_.resize(width);
    auto* const whole = reinterpret_cast<T*>(room_.data());
    passes.run_forward(rank, batch, loss, [&](int microbatch, std::byte const* made) {
      bring_together(rank, load.rows, made, whole, where);
      if (rank.tensor_rank() != 0) return;
      rank.device().download(whole, received_.data(), count * sizeof(T));
      rank.device().synchronize();
      std::size_t const samples =
          batch.samples_in(microbatch, rank.grid().place_in_group(rank.place(), batch_axes),
                           rank.grid().size(batch_axes));
      for (std::size_t r = 0; r < load.rows; ++r) {
        if (r % batch.samples >= samples) continue;
        for (std::size_t c = 0; c < width; ++c)
          row_[c] = static_cast<double>(received_[r * width + c]);
        each(static_cast<std::size_t>(microbatch) * load.rows + r, std::span<double const>(row_));
      }
    });
  }

  /// Adds up numbers over all ranks: the row of the list for measures.
  [[gnu::cold]] void sum(Rank& rank, workload const& load, std::span<double> numbers) {
    auto& device = rank.device();
    exchange_runner<Rank> const exchanges(rank,
                                          exchanges_on<plan>(rank, load, job_part::evaluation));
    auto const where = lay_out_outputs<plan>(rank.stage(), load, job_part::evaluation);
    auto* const room = reinterpret_cast<double*>(room_.data() + where.numbers_at);
    device.upload(numbers.data(), room, numbers.size_bytes());
    device.synchronize();
    for (auto const& row : exchanges.at(exchange_place::measures)) exchanges.run_sum(row, room);
    device.synchronize();
    device.download(room, numbers.data(), numbers.size_bytes());
    device.synchronize();
  }

 private:
  /// The output of a microbatch, whole, in `to`.
  void bring_together(Rank& rank, std::size_t rows, std::byte const* made, T* to,
                      output_room const& where) {
    auto& device = rank.device();
    device.synchronize();  // nothing here is worth a wait of its own
    move_value<output.at, invariant>(device.on(within_layers), rank.tensor_group(),
                                     whole_shape{rows, width}, reinterpret_cast<T const*>(made), to,
                                     reinterpret_cast<T*>(room_.data() + where.staging_at));
    device.synchronize();
  }

  /// What the plan says for the outputs.
  output_room take_room(Rank& rank, workload const& load, job_part part) {
    auto const where = lay_out_outputs<plan>(rank.stage(), load, part);
    if (room_.size() < where.total)
      plait::detail::allocate_for_plan(rank, plan::memory(rank.stage(), load), [&]() -> auto& {
        room_ = {};
        return room_ = rank.device().allocate(where.total);
      });
    return where;
  }

  std::vector<T> received_, values_;
  std::vector<double> row_;
  arena room_{};
};

}  // namespace plait::execution
