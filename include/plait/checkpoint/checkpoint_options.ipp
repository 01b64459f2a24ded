// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/checkpoint_options.hpp"

#include <algorithm>
#include <cstdio>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/train/state/saved_state.hpp"

namespace plait {

PLAIT_DECL best_measure::best_measure(std::string name, better which)
    : name_(std::move(name)), which_(which) {
  if (name_.empty() || name_.size() > 100)
    throw input_error({"checkpoint_options::best has a name of ", name_.size(),
                       " characters; use a name of 1 to 100 characters"});
}

}  // namespace plait

namespace plait::detail {

PLAIT_DECL std::vector<std::uint64_t> numbers_of(checkpoint_options const& of) {
  return {static_cast<std::uint64_t>(of.every), static_cast<std::uint64_t>(of.keep),
          of.required ? 1u : 0u, of.verify ? 1u : 0u};
}

PLAIT_DECL void say_missing(std::int64_t step, std::string const& why) {
  std::fprintf(stderr,
               "plait: the checkpoint of step %lld is missing, and training continues: %s; correct "
               "this before the next checkpoint, or set checkpoint_options::required so that a "
               "missing checkpoint ends the job\n",
               static_cast<long long>(step), why.c_str());
}

PLAIT_DECL std::vector<std::string_view> with_settings_of_optimizer(
    std::vector<std::string_view> const& allowed, checkpoint_settings const& saved,
    checkpoint_settings const& now) {
  constexpr std::string_view name = "optimizer";
  auto out = allowed;
  auto const name_in = [&](checkpoint_settings const& settings) {
    auto const found = std::ranges::find(settings, name, &checkpoint_settings::value_type::first);
    return found == settings.end() ? std::string_view{} : std::string_view(found->second);
  };
  if (std::ranges::find(allowed, name) != allowed.end() || name_in(saved) == name_in(now))
    return out;
  for (auto const* const settings : {&saved, &now}) {
    bool is_of_optimizer = false;
    for (auto const& [setting, value] : *settings) {
      if (setting == "schedule") break;
      if (is_of_optimizer) out.push_back(setting);
      is_of_optimizer = is_of_optimizer || setting == name;
    }
  }
  return out;
}

PLAIT_DECL std::vector<std::string_view> allowed_settings(std::vector<std::string> const& allow,
                                                          checkpoint_settings const& saved,
                                                          checkpoint_settings const& now) {
  std::vector<std::string_view> out;
  for (auto const& name : allow) {
    std::string known;
    for (auto const* const settings : {&saved, &now}) {
      bool is_of_optimizer = false;
      for (auto const& [setting, value] : *settings) {
        is_of_optimizer = (is_of_optimizer || setting == "optimizer") && setting != "schedule";
        if (setting == name || (name == "optimizer" && is_of_optimizer)) out.push_back(setting);
        if (known.find(concat({" ", setting, ","})) == std::string::npos)
          known += concat({" ", setting, ","});
      }
    }
    if (std::ranges::find(out, std::string_view(name)) != out.end()) continue;
    known.back() = '.';
    throw input_error({"checkpoint_options::allow contains ", in_quotes(name),
                       ", which is not a setting; the settings are", known});
  }
  auto const has = [](checkpoint_settings const& settings, std::string_view name) {
    return std::ranges::any_of(settings, [&](auto const& one) { return one.first == name; });
  };
  constexpr char const* slices = "reproducible";
  if (!has(saved, slices) || !has(now, slices) || !has(saved, kind_setting))
    out.push_back(kind_setting);
  return out;
}

}  // namespace plait::detail
