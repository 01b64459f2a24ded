// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/plan/exchanges.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"
#include "plait/train/local_parameters.hpp"

namespace plait::execution {

/// Gathers a tensor of each parameter (its value or its gradient) to the root rank and calls
/// sink(name, parameter_info, whole values) there, without padding, in the order of the layers.
/// Collective. `part` is the one that exports parameters, or gradients.
///
/// Moves: what the plan's list has for the part: the blocks of an arena of which each rank has one
///        (it is changed to have them all), each cut parameter shard -> invariant over the tensor
///        axis, each parameter of another stage only<stage> -> only<0> over the stage axis.
template <class Job, class Rank, class T, class Sink>
[[gnu::cold]] void export_tensors(Rank& rank, job_part part, T* arena, Sink sink) {
  using plan = typename Job::plan_type;
  auto& device = rank.device();
  std::size_t longest = 0;
  for (auto const& entry : plan::entries) longest = std::max(longest, entry.info.count());
  auto const room = device.allocate(longest * sizeof(T));
  auto const staging = device.allocate(longest * sizeof(T));
  auto* const data = reinterpret_cast<T*>(room.data());
  std::vector<T> values;
  auto const list = exchanges_on<plan>(rank, {}, part);
  device.synchronize();  // nothing here is worth a wait of its own
  if constexpr (plan::cuts_arenas) {
    exchange_runner<Rank> const blocks(rank, list);
    for (auto const& row : blocks.at(exchange_place::blocks)) blocks.run_blocks(row, arena);
  }
  for (int stage = 0; stage < plan::stages; ++stage) {
    for (auto const& parameter : parameters_of_stage<plan>(stage, rank.grid())) {
      auto const& info = plan::entries[parameter.entry].info;
      device.synchronize();
      if (rank.stage() == stage)
        with_entry<plan>(parameter.entry, [&]<int Entry>() {
          constexpr placement from = as_value_placement(plan::entries[Entry]);
          move_value<from, invariant>(device.on(within_layers), rank.tensor_group(),
                                      as_value_shape(plan::entries[Entry]),
                                      static_cast<T const*>(arena) + parameter.offset, data,
                                      reinterpret_cast<T*>(staging.data()));
        });
      device.synchronize();
      if constexpr (plan::stages > 1) {
        std::vector<exchange> of_this;
        for (auto const& what : list)
          if (what.entry == parameter.entry && what.from.stage() == stage) of_this.push_back(what);
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

}  // namespace plait::execution
