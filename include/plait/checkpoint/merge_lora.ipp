// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/merge_lora.hpp"

#include "plait/core/name_pattern.hpp"

namespace plait::detail {

PLAIT_DECL lora_weights::lora_weights(std::vector<lora_names> const& patterns,
                                      std::vector<std::string> const& names) {
  if (patterns.empty())
    throw input_error("merge_lora: the model has no plait::nn::lora; leave merge_lora out");
  for (auto const& pattern : patterns) {
    if (!pattern.problem.empty())
      throw input_error({"merge_lora: the lora of ", in_quotes(pattern.second), " ",
                         pattern.problem, "; leave merge_lora out and save the adapters"});
    for (auto const& name : names) {
      std::vector<std::string_view> copy;
      if (!matches(pattern.second, name, &copy)) continue;
      auto one = pattern;
      one.weight = filled_in(pattern.weight, copy);
      one.first = filled_in(pattern.first, copy);
      one.second = name;
      places_[one.weight] = {role::weight, loras_.size()};
      places_[one.first] = {role::first, loras_.size()};
      places_[one.second] = {role::second, loras_.size()};
      loras_.push_back(std::move(one));
    }
  }
}

}  // namespace plait::detail
