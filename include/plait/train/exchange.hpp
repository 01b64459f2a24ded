// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plait/run/move.hpp"
#include "plait/train/parameters.hpp"
#include "plait/train/workspace.hpp"

namespace plait {

/// Gathers a tensor of each parameter (its value or its gradient) to the root rank and calls
/// sink(name, parameter_info, whole values) there, in the order of the layers. Collective.
///
/// Moves: for each cut parameter shard -> invariant over the tensor axis, for each parameter of
///        another stage only<stage> -> only<0> over the stage axis.
template <class Job, class Rank, class Sink>
[[gnu::cold]] void export_tensors(Rank& rank, typename Job::element const* arena, Sink sink) {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  auto const& place = rank.place();
  std::vector<T> values, staging;
  for (int stage = 0; stage < plan::stages; ++stage) {
    for (auto const& parameter : parameters_of_stage<plan>(stage)) {
      auto const& info = plan::entries[parameter.entry].info;
      values.resize(info.count());
      staging.resize(info.count());
      if (place.stage == stage)
        detail::with_entry<plan>(parameter.entry, [&]<int Entry>() {
          move_value<detail::as_value_placement(plan::entries[Entry]), invariant>(
              rank.device(), rank.group(axis::tensor), detail::as_value_shape(plan::entries[Entry]),
              arena + parameter.offset, values.data(), staging.data());
        });
      rank.device().synchronize();
      if constexpr (plan::stages > 1) {
        auto& stages = rank.group(axis::stage);
        if (stage != 0 && place.stage == stage)
          stages.send(std::span<T>(values), 0, parameter.number);
        if (stage != 0 && place.stage == 0)
          stages.receive(std::span<T>(values), stage, parameter.number);
      }
      if (rank.is_root()) sink(parameter.name, info, std::span<T const>(values));
    }
  }
}

/// Runs the model without its loss and makes the output whole on every rank of a data rank.
template <class Job, class Rank>
class prediction {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  static constexpr int loss_item = plan::code.items.size() - 1;
  static constexpr value output = plan::code.values[plan::code.items[loss_item].in];

 public:
  template <class Batch>
  [[gnu::cold]] std::span<T const> run(Rank& rank, workspace<Job, Rank>& space, Batch const& batch,
                                       layer_context const& context) {
    auto& runner = space.runner();
    auto& stages = rank.group(axis::stage);
    runner.context() = context;
    int const stage = rank.place().stage;
    std::size_t const rows = batch.rows();
    whole_.resize(rows * output.info.width);
    staging_.resize(whole_.size());
    std::byte* input = batch.input_of(0);
    if constexpr (plan::stages > 1)
      if (!plan::is_first(stage)) {
        input = space.received_input();
        stages.receive(space.elements(input, stage, true), stage - 1, 0);
      }
    std::byte* const made = runner.forward(input, 0, loss_item);
    if (plan::is_last(stage)) {
      move_value<output.at, invariant>(
          rank.device(), rank.group(axis::tensor), whole_shape{rows, output.info.width},
          reinterpret_cast<T const*>(made), whole_.data(), staging_.data());
    } else if constexpr (plan::stages > 1) {
      stages.send(space.elements(made, stage, false), stage + 1, 0);
    }
    stages.broadcast(std::span<T>(whole_), plan::stages - 1);
    rank.device().synchronize();
    return whole_;
  }

 private:
  std::vector<T> whole_, staging_;
};

}  // namespace plait
