// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/run/move.hpp"
#include "plait/train/parameters.hpp"
#include "plait/train/workspace.hpp"

namespace plait {

/// Adds up numbers in host memory over all ranks of the job; for reports, not inside a step.
template <class Rank, class T>
[[gnu::cold]] void sum_over_world(Rank& rank, std::span<T> values) {
  auto& device = rank.device();
  auto const room = device.allocate(values.size_bytes());
  auto* const data = reinterpret_cast<T*>(room.data());
  device.upload(values.data(), data, values.size_bytes());
  device.synchronize();
  rank.world().all_reduce(std::span<T>(data, values.size()));
  device.synchronize();
  device.download(data, values.data(), values.size_bytes());
  device.synchronize();
}

/// Gathers a tensor of each parameter (its value or its gradient) to the root rank and calls
/// sink(name, parameter_info, whole values) there, without padding, in the order of the layers.
/// Collective.
///
/// Moves: for each cut parameter shard -> invariant over the tensor axis, for each parameter of
///        another stage only<stage> -> only<0> over the stage axis.
template <class Job, class Rank, class T, class Sink>
[[gnu::cold]] void export_tensors(Rank& rank, T const* arena, Sink sink) {
  using plan = typename Job::plan_type;
  auto const& place = rank.place();
  auto& device = rank.device();
  std::size_t longest = 0;
  for (auto const& entry : plan::entries) longest = std::max(longest, entry.info.count());
  auto const room = device.allocate(longest * sizeof(T));
  auto const staging = device.allocate(longest * sizeof(T));
  auto* const data = reinterpret_cast<T*>(room.data());
  std::vector<T> values;
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
        auto& stages = rank.group(axis::stage);
        std::span<T> const message(data, info.count());
        if (stage != 0 && place.stage == stage) stages.send(message, 0, parameter.number);
        if (stage != 0 && place.stage == 0) stages.receive(message, stage, parameter.number);
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
    auto& stages = rank.group(axis::stage);
    auto& device = rank.device();
    runner.context() = context;
    int const stage = rank.place().stage;
    std::size_t const rows = batch.rows(), count = rows * output.info.width;
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
        stages.receive(space.elements(input, stage, true), stage - 1, 0);
        device.synchronize();
      }
    std::byte* const made = runner.forward(input, 0, loss_item);
    device.synchronize();
    if (plan::is_last(stage)) {
      move_value<output.at, invariant>(
          device.on(stream::tensor), rank.group(axis::tensor), whole_shape{rows, output.info.width},
          reinterpret_cast<T const*>(made), all, reinterpret_cast<T*>(staging_.data()));
    } else if constexpr (plan::stages > 1) {
      stages.send(space.elements(made, stage, false), stage + 1, 0);
    }
    device.synchronize();
    if constexpr (plan::stages > 1) {
      stages.broadcast(std::span<T>(all, count), plan::stages - 1);
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
