// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/plan/exchanges.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"
#include "plait/train/parameters.hpp"
#include "plait/train/workspace.hpp"

namespace plait {

/// Gathers a tensor of each parameter (its value or its gradient) to the root rank and calls
/// sink(name, parameter_info, whole values) there, without padding, in the order of the layers.
/// Collective. `part` is the one that exports parameters, or gradients.
///
/// Moves: what the plan's list has for the part: each cut parameter shard -> invariant over the
///        tensor axis, each parameter of another stage only<stage> -> only<0> over the stage axis.
template <class Job, class Rank, class T, class Sink>
[[gnu::cold]] void export_tensors(Rank& rank, job_part part, T const* arena, Sink sink) {
  using plan = typename Job::plan_type;
  auto const& place = rank.place();
  auto& device = rank.device();
  std::size_t longest = 0;
  for (auto const& entry : plan::entries) longest = std::max(longest, entry.info.count());
  auto const room = device.allocate(longest * sizeof(T));
  auto const staging = device.allocate(longest * sizeof(T));
  auto* const data = reinterpret_cast<T*>(room.data());
  std::vector<T> values;
  auto const list = exchanges_of<plan>(place.stage, {}, part);
  for (int stage = 0; stage < plan::stages; ++stage) {
    for (auto const& parameter : parameters_of_stage<plan>(stage)) {
      auto const& info = plan::entries[parameter.entry].info;
      device.synchronize();  // nothing here is worth a wait of its own
      if (place.stage == stage)
        detail::with_entry<plan>(parameter.entry, [&]<int Entry>() {
          constexpr placement from = detail::as_value_placement(plan::entries[Entry]);
          move_value<from, invariant>(device.on(stream::tensor), rank.group(axis::tensor),
                                      detail::as_value_shape(plan::entries[Entry]),
                                      arena + parameter.offset, data,
                                      reinterpret_cast<T*>(staging.data()));
        });
      device.synchronize();
      if constexpr (plan::stages > 1) {
        std::vector<exchange> of_this;
        for (auto const& what : list)
          if (what.entry == parameter.entry && what.from.at(axis::stage).index == stage)
            of_this.push_back(what);
        exchange_runner<Rank> const messages(rank, of_this);
        messages.run_sends(exchange_place::parameter, data, parameter.number);
        messages.run_receives(exchange_place::parameter, data, parameter.number);
        device.synchronize();
      }
      if (!rank.is_root()) continue;
      values.resize(info.count());
      device.download(data, values.data(), info.count() * sizeof(T));
      device.synchronize();
      auto const unpadded = info.unpadded();
      sink(parameter.name, unpadded, std::span<T const>(values).first(unpadded.count()));
    }
  }
}

/// Runs the model without its loss and brings the output to the host, whole, on every rank of a
/// data rank.
template <class Job, class Rank>
class prediction {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using arena = typename Rank::device_type::arena;
  static constexpr int loss_item = plan::code.items.size() - 1;
  static constexpr value output = plan::code.values[plan::code.items[loss_item].in];

 public:
  template <class Batch>
  [[gnu::cold]] std::span<T const> run(Rank& rank, workspace<Job, Rank>& space, Batch const& batch,
                                       layer_context const& context) {
    auto& runner = space.runner();
    auto& device = rank.device();
    runner.context() = context;
    int const stage = rank.place().stage;
    std::size_t const rows = batch.rows(), count = rows * output.info.width;
    exchange_runner<Rank> const messages(
        rank, exchanges_of<plan>(stage, {.rows = rows}, job_part::prediction));
    if (values_.size() != count) {
      values_.resize(count);
      whole_ = device.allocate(count * sizeof(T));
      staging_ = device.allocate(count * sizeof(T));
    }
    auto* const all = reinterpret_cast<T*>(whole_.data());
    std::byte* input = batch.input_of(0);
    if constexpr (plan::stages > 1)
      if (!plan::is_first(stage)) {
        input = space.received_input();
        messages.run_receives(exchange_place::activation_edge, reinterpret_cast<T*>(input), 0);
        device.synchronize();
      }
    std::byte* const made = runner.forward(input, 0, loss_item);
    device.synchronize();
    if (plan::is_last(stage)) {
      move_value<output.at, invariant>(
          device.on(stream::tensor), rank.group(axis::tensor), whole_shape{rows, output.info.width},
          reinterpret_cast<T const*>(made), all, reinterpret_cast<T*>(staging_.data()));
    } else if constexpr (plan::stages > 1) {
      messages.run_sends(exchange_place::activation_edge, reinterpret_cast<T*>(made), 0);
    }
    device.synchronize();
    if constexpr (plan::stages > 1) {
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

}  // namespace plait
