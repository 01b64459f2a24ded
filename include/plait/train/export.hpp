// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/parameter_blocks.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"

namespace plait::execution {

/// A stored parameter in the words of activations, as `move_value` takes it: a matrix that is cut
/// by rows is one long row that is cut by features, so that `parts` mean the same for both.
constexpr placement as_value_placement(parameter_entry const& entry) {
  return is_shard(entry.stored)
             ? placement{placement_kind::shard, dim::features, entry.stored.parts}
             : entry.stored;
}
/// The shape of the whole parameter in the same words.
constexpr whole_shape as_value_shape(parameter_entry const& entry) {
  bool const cut_rows = is_shard(entry.stored) && entry.info.rank == 2 && entry.stored.index == 0;
  return cut_rows ? whole_shape{1, entry.info.count()}
                  : whole_shape{entry.info.rows, entry.info.columns};
}

/// The placements in which a plan stores parameters, each once.
template <class Plan>
inline constexpr auto stored_placements = [] {
  static_vector<placement, Plan::entries.capacity> out;
  for (auto const& entry : Plan::entries)
    if (std::find(out.begin(), out.end(), as_value_placement(entry)) == out.end())
      out.push_back(as_value_placement(entry));
  return out;
}();

/// Calls body.operator()<placement>() for the one in which `entry` is stored.
template <class Plan, class Body>
void with_stored_placement(parameter_entry const& entry, Body body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr auto& all = stored_placements<Plan>;
    ((all[int(I)] == as_value_placement(entry) ? body.template operator()<all[int(I)]>() : void()),
     ...);
  }(std::make_index_sequence<std::size_t(stored_placements<Plan>.size())>{});
}

/// Gathers one tensor to the root rank, into `data`. `list` is that of the part.
template <class Plan, class Rank, class T>
[[gnu::cold]] void gather_tensor(Rank& rank, std::vector<exchange> const& list, int stage,
                                 parameter_block const& parameter, T const* arena, T* data,
                                 T* staging) {
  auto& device = rank.device();
  auto const& entry = Plan::entries[parameter.entry];
  device.synchronize();
  if (rank.stage() == stage)
    // No `if constexpr` around what is captured here: cicc of CUDA 13.0 crashes on it.
    with_stored_placement<Plan>(entry, [&]<placement From>() {
      move_value<From, invariant>(device.on(within_layers), rank.tensor_group(),
                                  as_value_shape(entry), arena + parameter.offset, data, staging);
    });
  device.synchronize();
  if constexpr (Plan::stages > 1) {
    std::vector<exchange> of_this;
    for (auto const& what : list)
      if (what.entry == parameter.entry && what.from.stage() == stage) of_this.push_back(what);
    exchange_runner<Rank> const messages(rank, of_this);
    messages.run_sends(exchange_place::parameter, data, parameter.number);
    messages.run_receives(exchange_place::parameter, data, parameter.number);
    device.synchronize();
  }
}

/// The same, from there to `sink`, in the type of `values`.
template <class Plan, class Rank, class From, class T, class Sink>
[[gnu::cold]] void export_tensor(Rank& rank, std::vector<exchange> const& list, int stage,
                                 parameter_block const& parameter, From const* arena,
                                 std::byte* room, std::byte* staging, std::vector<T>& values,
                                 Sink& sink) {
  auto& device = rank.device();
  auto const& info = Plan::entries[parameter.entry].info;
  auto* const data = reinterpret_cast<From*>(room);
  gather_tensor<Plan>(rank, list, stage, parameter, arena, data, reinterpret_cast<From*>(staging));
  if (!rank.is_root()) return;
  values.resize(info.count());
  if constexpr (std::is_same_v<From, T>) {
    device.download(data, values.data(), info.count() * sizeof(T));
    device.synchronize();
  } else {
    std::vector<From> rounded(info.count());
    device.download(data, rounded.data(), info.count() * sizeof(From));
    device.synchronize();
    for (std::size_t i = 0; i < rounded.size(); ++i) values[i] = static_cast<T>(rounded[i]);
  }
  auto const unpadded = info.unpadded();
  sink(parameter.name, unpadded, std::span<T const>(values).first(unpadded.count()));
}

/// Gathers a tensor of each parameter (its value or its gradient) to the root rank and calls
/// sink(name, parameter_info, whole values) there, without padding, in the order of the layers.
/// Collective. `part` is the one that exports parameters, or gradients, which what is frozen does
/// not have. `seen` are the parameters as layers see them: frozen ones are held there alone.
///
/// Moves: what the plan's list has for the part: the blocks of an arena of which each rank has one
///        (it is changed to have them all), each cut parameter shard -> invariant over the tensor
///        axis, each parameter of another stage only<stage> -> only<0> over the stage axis.
template <class Job, class Rank, class T, class Sink>
[[gnu::cold]] void export_tensors(Rank& rank, job_part part, T* arena,
                                  typename Job::element const* seen, Sink sink) {
  using plan = typename Job::plan_type;
  using element = typename Job::element;
  auto& device = rank.device();
  std::size_t const longest =
      greatest_at(values_on<plan>(rank, {}, part), exchange_place::parameter);
  static_assert(sizeof(T) >= sizeof(element));
  auto const room = device.allocate(longest * sizeof(T));
  auto const staging = device.allocate(longest * sizeof(T));
  std::vector<T> values;
  auto const list = exchanges_on<plan>(rank, {}, part);
  device.synchronize();  // nothing here is worth a wait of its own
  if constexpr (plan::cuts_arenas) {
    exchange_runner<Rank> const blocks(rank, list);
    for (auto const& row : blocks.at(exchange_place::blocks)) blocks.run_blocks(row, arena);
  }
  for (int stage = 0; stage < plan::stages; ++stage)
    for (auto const& parameter : plan::blocks(stage, 0, rank.grid())) {
      if (!plan::entries[parameter.entry].is_frozen) {
        export_tensor<plan>(rank, list, stage, parameter, static_cast<T const*>(arena), room.data(),
                            staging.data(), values, sink);
      } else if constexpr (plan::has_frozen) {
        if (part == job_part::export_parameters)
          export_tensor<plan>(rank, list, stage, parameter, seen, room.data(), staging.data(),
                              values, sink);
      }
    }
}

}  // namespace plait::execution
