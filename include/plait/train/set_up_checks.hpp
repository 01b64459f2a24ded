// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "plait/core/fields.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/agreement.hpp"
#include "plait/train/local_parameters.hpp"
#include "plait/train/optimizer.hpp"
#include "plait/train/rates.hpp"
#include "plait/train/trainer_options.hpp"

namespace plait::execution {

/// The full name of parameter tensor `number` of the model.
template <class Plan>
[[gnu::cold]] std::string parameter_name(int number, mesh const& grid) {
  for (int stage = 0; stage < Plan::stages; ++stage)
    for (auto const& parameter : parameters_of_stage<Plan>(stage, grid))
      if (parameter.number == number) return parameter.name;
  return {};
}

/// Compares with the other ranks; `room` is on the device.
template <class Plan, class Rank>
[[gnu::cold]] void compare(Rank& rank, agreement const& mine, std::uint64_t* room) {
  mine.require_equal(numbers_of_all<Plan>(rank, mine.mine(), room), "decays", "does not decay",
                     [&](int number) { return parameter_name<Plan>(number, rank.grid()); });
}

/// Sees to it that all ranks make the same trainer: the plan, the options, the learning rate's
/// factor at steps 0, 1, 2, 4, ... 2^20, the optimizer by its settings, by its numbers at steps 0
/// and 1 and by what decays.
///
/// Errors: input_error that names the first difference, on all ranks.
template <class Plan, class Rank, class Optimizer>
[[gnu::cold]] void compare_trainers(Rank& rank, std::uint64_t number, Optimizer const& optimizer,
                                    trainer_options const& options, std::uint64_t* room) {
  if (rank.world_size() == 1) return;
  agreement mine("trainer " + std::to_string(number),
                 agreed_numbers(Plan::parameter_tensor_count()));
  mine.add("the number of trainers made so far", number);
  mine.add("the parameters of the model", Plan::parameter_count());
  mine.add("seed", options.seed);
  mine.add("clip", options.clip);
  for (std::int64_t step = 0; step <= std::int64_t{1} << 20; step = std::max(2 * step, step + 1))
    mine.add("rate at step " + std::to_string(step), rate_at(options.rate, step));
  mine.add("replay", options.replay);
  mine.add("stop_at_nan", options.stop_at_nan);
  mine.add("stop (1 if it is given)", options.stop != nullptr);
  if constexpr (requires { optimizer.settings(); })
    for (auto const& setting : optimizer.settings())
      mine.add(std::string("the optimizer's ") + setting.name, setting.value);
  for (std::int64_t step : {0, 1}) {
    int field = 0;
    for_each_field(optimizer.numbers_of(step, rate_at(options.rate, step)), [&](double value) {
      mine.add(
          "number " + std::to_string(field++) + " of the optimizer at step " + std::to_string(step),
          value);
    });
  }
  for (int stage = 0; stage < Plan::stages; ++stage)
    for (auto const& parameter : parameters_of_stage<Plan>(stage, rank.grid()))
      if (optimizer.decays({parameter.name, Plan::entries[parameter.entry].info.rank}))
        mine.mark(parameter.number);
  compare<Plan>(rank, mine, room);
}

/// Sees to it that all ranks train on the same batches.
///
/// Errors: input_error that names the first difference, on all ranks.
template <class Plan, class Rank, class Memory>
[[gnu::cold]] void compare_batches(Rank& rank, device_batch<Memory> const& batch,
                                   std::uint64_t* room) {
  if (rank.world_size() == 1) return;
  auto const& of = *batch.description;
  agreement mine("batches " + std::to_string(of.number),
                 agreed_numbers(Plan::parameter_tensor_count()));
  mine.add("the number of batches made so far", of.number);
  mine.add("the samples of a global batch", of.samples);
  mine.add("the samples of the data set", of.data_set);
  mine.add("microbatches", batch.microbatches);
  mine.add("the length of a sequence", batch.sequence);
  mine.add("seed", of.seed);
  mine.add("how (1 if samples are shuffled)", of.is_shuffled);
  mine.add("last (1 if the last batch is kept)", of.keeps_last);
  compare<Plan>(rank, mine, room);
}

}  // namespace plait::execution
