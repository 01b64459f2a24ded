// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/checks/set_up_checks.hpp"

#include <bit>

namespace plait::execution {

PLAIT_DECL lean_vector<model_parameter> parameters_of_model(
    lean_vector<parameter_block> const& parameters, static_view<parameter_entry> entries,
    parameter_rules const& rules) {
  lean_vector<model_parameter> out;
  for (auto const& parameter : parameters) {
    auto const& entry = entries[parameter.entry];
    auto const kept = placements_of(entry, rules).kept;
    out.push_back({parameter.name, entry.info.rank,
                   is_shard(entry.stored) ? kept.axes_with(entry.stored) : axis_set{}});
  }
  return out;
}

PLAIT_DECL void check_groups(std::vector<parameter_group> const& groups,
                             lean_vector<model_parameter> const& parameters) {
  for (auto const& group : groups) {
    std::string const which = concat({"the pattern ", detail::in_quotes(group.pattern)});
    require_range(concat({"trainer_options::groups: .rate of ", which}), group.rate,
                  number_ranges::finite_from_0);
    require_range(concat({"trainer_options::groups: .decay of ", which}), group.decay,
                  number_ranges::finite_from_0);
    bool matched = false, counts = false;
    std::string others;  // that have what it matches
    for (auto const& parameter : parameters) {
      if (!matches(group.pattern, parameter.name)) continue;
      matched = true;
      auto const& first = *first_match(groups, parameter.name);
      counts = counts || &first == &group;
      auto const other = detail::in_quotes(first.pattern);
      if (others.find(other) != std::string::npos) continue;
      if (!others.empty()) others += ", ";
      others += other;
    }
    if (!matched)
      throw input_error({"trainer_options::groups: ", which,
                         " matches no parameter of the model; names are like '",
                         (parameters.empty() ? std::string{} : parameters.front().name),
                         "', and a * stands for any characters"});
    if (!counts)
      throw input_error({"trainer_options::groups: ", which,
                         " has no effect, as all parameters that it matches belong to ", others,
                         " before it; the first group that matches counts, so write narrower "
                         "patterns first"});
  }
}

PLAIT_DECL std::uint64_t digest_of(lean_vector<named_factors> const& all) {
  digest out;
  for (auto const& [name, factors] : all)
    for (double const factor : {factors.rate, factors.decay})
      out.add(std::bit_cast<std::uint64_t>(factor + 0.0));
  return out.value();
}

PLAIT_DECL std::uint64_t digest_of(recompute_table const& reruns) {
  digest out;
  if (!reruns.any()) return 0;
  for (auto const bits : reruns.steps) out.add(std::uint64_t{bits});
  for (auto const what : reruns.units) out.add(static_cast<std::uint64_t>(what));
  return out.value();
}

}  // namespace plait::execution
