// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/header_only.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/train/checks/set_up_checks.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/options/rates.hpp"

namespace plait::execution {

/// Names and values of the settings that a resumed run must have in common with the saved run, so
/// that it continues as if the run had not been interrupted. Checkpoints contain these settings.
using training_settings = std::vector<std::pair<std::string, std::string>>;

/// Returns the shortest decimal text from which the same number can be read.
[[nodiscard]] [[gnu::cold]] std::string number_text(double value);

/// Returns a line for each parameter, such as "matrix wte.weight" if the optimizer updates the
/// parameter as a whole matrix, and "elements ln_f.bias" if it updates single elements.
[[nodiscard]] [[gnu::cold]] std::string text_of_roles(lean_vector<named_factors> const& all);

/// Returns a text of 16 digits that changes if any byte of `text` changes.
[[nodiscard]] [[gnu::cold]] inline std::string fingerprint_of(std::string_view text) {
  return hash().add(text).text();
}

/// Returns a text with the name and the shape of each parameter of the model. The text marks frozen
/// parameters, and buffers with their momentum.
template <class Plan>
[[nodiscard]] [[gnu::cold]] std::string text_of_model(mesh const& grid) {
  std::string text;
  for (auto const& parameter : Plan::blocks_of_model(grid)) {
    auto const info = Plan::entries[parameter.entry].info.unpadded();
    text += concat({parameter.name, " ", info.rank, " ", info.rows, " ", info.columns,
                    (info.is_buffer() ? concat({" buffer ", info.momentum_nano}) : ""),
                    (Plan::entries[parameter.entry].is_frozen ? " frozen\n" : "\n")});
  }
  return text;
}

/// Returns the settings of a trainer. The number of ranks and the policies are not among these
/// settings, because a run may continue under another plan. The number of slices of a reproducible
/// plan is among them, because results depend on this number; so are the delay of updates, and
/// the number of replicas with their local steps and their outer step.
template <class Plan, class Optimizer>
[[nodiscard]] [[gnu::cold]] training_settings settings_of(Optimizer const& optimizer,
                                                          trainer_options const& options,
                                                          mesh const& grid) {
  training_settings out;
  auto const add = [&](std::string name, std::string value) {
    out.emplace_back(std::move(name), std::move(value));
  };
  add("model", fingerprint_of(text_of_model<Plan>(grid)));
  add("precision",
      concat({"activations of ", Plan::element_bytes, ", parameters of ", Plan::parameter_bytes,
              ", gradients of ", Plan::gradient_bytes, " bytes"}));
  if (Plan::slices > 0) add("reproducible", concat({Plan::slices, " slices"}));
  if (Plan::delays) add("delayed", "1 step");
  if constexpr (Plan::local_steps > 0) {
    add("replicas", std::to_string(grid.size(Plan::rules.local_axes)));
    add("local_steps", std::to_string(Plan::local_steps));
    add("outer.rate", number_text(options.outer.rate));
    add("outer.momentum", number_text(options.outer.momentum));
  }
  add("seed", std::to_string(options.seed));
  add("clip", number_text(options.clip));
  add("average", number_text(options.average));
  std::string kind;
  if constexpr (optimizer_name_of<Optimizer>() != nullptr) kind = optimizer_name_of<Optimizer>();
  else
    for (auto const& name : state_names_of<Optimizer>()) kind += (kind.empty() ? "" : " ") + name;
  if constexpr (state_bytes_of<Optimizer>() > 0)
    kind += concat({", states of ", state_bytes_of<Optimizer>(), " bytes"});
  add("optimizer", kind);
  auto const all = factors_of_model(optimizer, options, parameters_of_model<Plan>(grid));
  if constexpr (ext::matrix_optimizer<Optimizer>) add("matrices", text_of_roles(all));
  if constexpr (requires { optimizer.settings(); })
    for (auto const& setting : optimizer.settings()) add(setting.name, number_text(setting.value));
  std::string rates;
  for_some_steps([&](std::int64_t step) {
    rates += rates.empty() ? "" : " ";
    rates += number_text(rate_at(options, step));
  });
  // The rates in the text are for people who read a checkpoint. The fingerprint covers many more
  // steps: all steps up to 2^12, and some later steps.
  std::string more;
  for (std::int64_t step = 0, each = 1; step <= std::int64_t{1} << 20; step += each) {
    if (step >= std::int64_t{1} << 12 && (step & (step - 1)) == 0) each = step >> 8;
    more += concat({number_text(rate_at(options, step)), " "});
  }
  add("schedule", concat({rates, ", fingerprint ", fingerprint_of(more)}));
  std::string factors;
  for (auto const& [name, of, is_matrix] : all)
    factors += concat({name, " ", number_text(of.rate), " ", number_text(of.decay), "\n"});
  add("parameter_groups", fingerprint_of(factors));
  return out;
}

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/training_settings.ipp"
#endif
