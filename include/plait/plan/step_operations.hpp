// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/synchronization.hpp"

namespace plait::planning {

/// What one rank computes in a step, in this order; between them are the rows of the list. Between
/// two steps the host waits for all streams.
enum class step_phase : int {
  send,    ///< numbers from the host
  scale,   ///< one label's share of the loss
  passes,  ///< the timetable
  add,     ///< gradients of tied uses to their owner's
  total,   ///< the loss of all slices, where sums are made slice by slice
  square,  ///< the blocks of the gradients that count here
  update,  ///< clipping and the optimizer
  read     ///< numbers to the host
};
inline constexpr int step_phases = 8;

/// What a part of a job does besides its passes.
struct step_shape {
  bool has_gradients = false;
  bool clips = false;
  bool updates = false;
  bool checks_loss = false;  ///< before it updates
  bool has_slices = false;   ///< whose sums are made one by one
};

/// The operations of a step, in their order: phases, and rows of the list.
struct step_operations {
  /// The number of each in wait sites: of the row, or -1 - that of the phase.
  std::vector<int> numbers{};
  std::vector<char const*> names{};
  std::vector<stream_operation> touched{};
};

constexpr int number_of(step_phase which) { return -1 - static_cast<int>(which); }

/// The operations of a step around its passes, in their order, and what they touch.
///
/// `list`: as `exchanges_of` gives it. Rows within the passes are the business of the passes; of
/// the others those count that are in a group of more than one rank of `grid`.
[[nodiscard]] [[gnu::cold]] inline step_operations step_operations_of(
    std::vector<exchange> const& list, mesh const& grid, step_shape const& of) {
  enum buffer : int { labels, scale, loss, gradients, squares, parameters };
  step_operations out;
  auto const add = [&out](int number, char const* name, stream_operation touched) {
    out.numbers.push_back(number);
    out.names.push_back(name);
    out.touched.push_back(std::move(touched));
  };
  auto const compute = [&](step_phase which, char const* name, std::vector<int> reads,
                           std::vector<int> writes) {
    add(number_of(which), name, {stream::compute, std::move(reads), std::move(writes)});
  };
  auto const rows = [&](exchange_place place, char const* name, buffer touched) {
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].place == place && grid.size(list[i].row().over) > 1)
        add(static_cast<int>(i), name, {stream_of(list[i].row().over), {touched}, {touched}});
  };
  compute(step_phase::send, "send", {}, {labels, loss});
  rows(exchange_place::labels, "a row of labels", labels);
  compute(step_phase::scale, "scale", {labels}, {scale});
  compute(step_phase::passes, "passes", {scale, parameters}, {loss, gradients});
  if (of.has_gradients) {
    rows(exchange_place::slices, "a row of slices", gradients);
    rows(exchange_place::ties, "a row of ties", gradients);
    compute(step_phase::add, "add", {gradients}, {gradients});
    rows(exchange_place::gradients, "a row of gradients", gradients);
  }
  rows(exchange_place::loss, "a row of the loss", loss);
  if (of.has_slices) compute(step_phase::total, "total", {loss}, {loss});
  if (of.clips) {
    compute(step_phase::square, "square", {gradients}, {squares});
    rows(exchange_place::squares, "a row of squares", squares);
  }
  if (of.updates) {
    std::vector<int> reads{gradients, squares};
    if (of.checks_loss) reads.push_back(loss);
    compute(step_phase::update, "update", std::move(reads), {parameters});
    rows(exchange_place::refresh, "a row of the refresh", parameters);
  }
  compute(step_phase::read, "read", {labels, loss}, {});
  return out;
}

}  // namespace plait::planning
