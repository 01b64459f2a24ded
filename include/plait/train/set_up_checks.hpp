// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/digest.hpp"
#include "plait/core/error.hpp"
#include "plait/core/fields.hpp"
#include "plait/core/quote.hpp"
#include "plait/plan/parameter_blocks.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/agreement.hpp"
#include "plait/train/optimizer.hpp"
#include "plait/train/parameter_groups.hpp"
#include "plait/train/rates.hpp"
#include "plait/train/trainer_options.hpp"

namespace plait::execution {

/// Errors: input_error unless a rank that was launched in `launched` can train in `planned`.
[[gnu::cold]] inline void require_mesh(int rank, mesh const& launched, mesh const& planned) {
  if (!planned.fits(launched))
    throw input_error("trainer: rank " + std::to_string(rank) + " runs in the mesh '" +
                      to_string(launched) + "', the job to be trained has the mesh '" +
                      to_string(planned) + "'; launch the job that is trained");
}

/// A parameter of the model by its full name.
struct model_parameter {
  std::string name;
  int rank = 1;
};

/// All of them, in the order of the layers.
template <class Plan>
[[gnu::cold]] std::vector<model_parameter> parameters_of_model(mesh const& grid) {
  std::vector<model_parameter> out;
  for (int stage = 0; stage < Plan::stages; ++stage)
    for (auto const& parameter : Plan::blocks(stage, 0, grid))
      out.push_back({parameter.name, Plan::entries[parameter.entry].info.rank});
  return out;
}

[[gnu::cold]] inline void check_average(double average) {
  if (!(average >= 0 && average < 1))
    throw input_error("trainer_options::average is " + std::to_string(average) +
                      "; it must be from 0, which keeps no averages, to below 1");
}
[[gnu::cold]] inline void check_groups(std::vector<parameter_group> const& groups,
                                       std::vector<model_parameter> const& parameters) {
  for (auto const& group : groups) {
    std::string const which =
        "trainer_options::groups: the pattern " + detail::in_quotes(group.pattern) + " ";
    for (double const factor : {group.rate, group.decay})
      if (!(factor >= 0 && factor <= std::numeric_limits<double>::max()))
        throw input_error(which + "has the factor " + std::to_string(factor) +
                          "; it must be a finite number from 0 on");
    int matched = 0;
    for (auto const& parameter : parameters) matched += matches(group.pattern, parameter.name);
    if (matched == 0)
      throw input_error(which + "matches no parameter of the model; names are like '" +
                        (parameters.empty() ? std::string{} : parameters.front().name) +
                        "', and a * stands for any characters");
  }
}

/// The options, which are right by themselves and for the model.
///
/// Errors: input_error, the same on all ranks that have the same options.
template <class Plan>
[[gnu::cold]] trainer_options const& checked(trainer_options const& options, mesh const& grid) {
  check_average(options.average);
  if (!options.groups.empty()) check_groups(options.groups, parameters_of_model<Plan>(grid));
  return options;
}

/// What the optimizer multiplies the rate and the decay of one parameter by.
struct named_factors {
  std::string name;
  update_factors factors{};
};

/// Those of all parameters.
template <class Optimizer>
[[gnu::cold]] std::vector<named_factors> factors_of_model(
    Optimizer const& optimizer, trainer_options const& options,
    std::vector<model_parameter> const& parameters) {
  std::vector<named_factors> out;
  for (auto const& [name, rank] : parameters)
    out.push_back({name, factors_of({name, rank}, optimizer.decays, options.groups)});
  return out;
}

/// A number that is another one if any of the factors is.
[[gnu::cold]] inline std::uint64_t digest_of(std::vector<named_factors> const& all) {
  digest out;
  for (auto const& [name, factors] : all)
    for (double const factor : {factors.rate, factors.decay})
      out.add(std::bit_cast<std::uint64_t>(factor + 0.0));
  return out.value();
}

/// Sees to it that all ranks have the same text, of which as much counts as there is room for.
///
/// Errors: input_error that says both texts, on all ranks.
template <class Rank>
[[gnu::cold]] void compare_text(Rank& rank, agreement_room const& room, std::string const& subject,
                                std::string const& what, std::string const& mine) {
  std::vector<std::uint64_t> packed(agreed_fields);
  constexpr std::size_t most = agreed_fields * sizeof(std::uint64_t);
  std::memcpy(packed.data(), mine.data(), std::min(mine.size(), most));
  auto const all = numbers_of_all(rank, room, packed);
  auto const text_of = [&](std::size_t of) {
    std::string text(most, '\0');
    std::memcpy(text.data(), all.data() + of * agreed_fields, most);
    return detail::in_quotes(text.substr(0, text.find('\0')));
  };
  for (std::size_t other = 1; other < all.size() / agreed_fields; ++other)
    if (text_of(other) != text_of(0))
      throw input_error(subject + ": the ranks differ in " + what + ": " + text_of(0) +
                        " on rank 0, " + text_of(other) + " on rank " + std::to_string(other));
}

/// Compares with the other ranks.
template <class Rank>
[[gnu::cold]] void compare(Rank& rank, agreement_room const& room, agreement const& mine) {
  mine.require_equal(numbers_of_all(rank, room, mine.mine()));
}

/// Compares the factors themselves, as many at a time as there is room for.
template <class Rank>
[[gnu::cold]] void compare_factors(Rank& rank, agreement_room const& room,
                                   std::string const& subject,
                                   std::vector<named_factors> const& all) {
  constexpr std::size_t at_a_time = agreed_fields / 2;
  for (std::size_t begin = 0; begin < all.size(); begin += at_a_time) {
    agreement mine(subject);
    for (std::size_t i = begin; i < std::min(all.size(), begin + at_a_time); ++i) {
      mine.add("the rate of parameter '" + all[i].name + "'", all[i].factors.rate);
      mine.add("the decay of parameter '" + all[i].name + "'", all[i].factors.decay);
    }
    compare(rank, room, mine);
  }
}

/// What ranks compare of a trainer's plan.
struct plan_numbers {
  std::size_t parameter_count = 0;
  std::size_t precision = 0;  ///< bytes of an activation, a parameter, a gradient, as digits
  std::vector<model_parameter> parameters{};
  int slices = 0;
};
template <class Plan>
[[gnu::cold]] plan_numbers numbers_to_compare(mesh const& grid) {
  return {Plan::parameter_count(),
          100 * Plan::element_bytes + 10 * Plan::parameter_bytes + Plan::gradient_bytes,
          parameters_of_model<Plan>(grid), Plan::slices};
}

/// Sees to it that all ranks make the same trainer: the plan, the options, the learning rate's
/// factor at steps 0, 1, 2, 4, ... 2^20, the optimizer by its settings, by its numbers at steps 0
/// and 1 and by the factors of each parameter; and, where the bits are to be the same whoever
/// computes, the kind of device.
///
/// Errors: input_error that names the first difference, on all ranks.
template <class Rank, class Optimizer>
[[gnu::cold]] void compare_trainers(Rank& rank, agreement_room const& room,
                                    plan_numbers const& plan, std::uint64_t number,
                                    Optimizer const& optimizer, trainer_options const& options) {
  std::string const subject = "trainer " + std::to_string(number);
  agreement mine(subject);
  mine.add("the number of trainers made so far", number);
  mine.add("the parameters of the model", plan.parameter_count);
  mine.add("precision (bytes of an activation, a parameter, a gradient, as digits)",
           plan.precision);
  mine.add("the slices of reproducible<Slices>", plan.slices);
  mine.add("seed", options.seed);
  mine.add("clip", options.clip);
  mine.add("average", options.average);
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
  auto const factors = factors_of_model(optimizer, options, plan.parameters);
  std::string const last = "the factors of the parameters";
  mine.add(last, digest_of(factors));
  auto const all = numbers_of_all(rank, room, mine.mine());
  if (mine.first_difference(all) == last) compare_factors(rank, room, subject, factors);
  mine.require_equal(all);
  if (plan.slices > 0)
    compare_text(rank, room, subject,
                 "what decides on the last bits of results, which reproducible<Slices> needs to be "
                 "the same",
                 rank.device().kind());
}

/// Sees to it that all ranks train on the same batches.
///
/// Errors: input_error that names the first difference, on all ranks.
template <class Rank, class Memory>
[[gnu::cold]] void compare_batches(Rank& rank, agreement_room const& room,
                                   device_batch<Memory> const& batch) {
  auto const& of = *batch.description;
  agreement mine("batches " + std::to_string(of.number));
  mine.add("the number of batches made so far", of.number);
  mine.add("the samples of a global batch", of.samples);
  mine.add("the samples of the data set", of.data_set);
  // Slices are shared out among ranks, microbatches are not.
  mine.add(batch.slices > 0 ? "slices" : "microbatches",
           batch.slices > 0 ? batch.slices : batch.microbatches);
  mine.add("the length of a sequence", batch.sequence);
  mine.add("seed", of.seed);
  mine.add("how (1 if samples are shuffled)", of.is_shuffled);
  mine.add("last (1 if the last batch is kept)", of.keeps_last);
  compare(rank, room, mine);
}

/// The sources of batches that have been compared.
class compared_batches {
 public:
  /// Once for each source.
  template <class Memory>
  [[nodiscard]] bool is_new(device_batch<Memory> const& batch) {
    if (batch.description == nullptr || batch.description->number == last_) return false;
    last_ = batch.description->number;
    if (std::ranges::find(all_, last_) != all_.end()) return false;
    all_.push_back(last_);
    return true;
  }

 private:
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> all_{};
};

}  // namespace plait::execution
