// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/load_weights.hpp"

#include <algorithm>

#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL names_in_file::names_in_file(
    std::string const& call, std::vector<std::pair<std::string, std::string>> const& names)
    : names_(names) {
  for (auto const& [ours, theirs] : names) {
    auto const stars = std::ranges::count(ours, '*'), others = std::ranges::count(theirs, '*');
    if (stars != others)
      throw input_error({call, ": ", in_quotes(ours), " has ", stars,
                         (stars == 1 ? " star" : " stars"), " and ", in_quotes(theirs),
                         ", its name in the file, has ", others,
                         "; both must have the same number of stars, which stand for the same "
                         "texts in the same order"});
  }
}

PLAIT_DECL std::string names_in_file::of(std::string const& name) const {
  std::vector<std::string_view> parts;
  for (auto const& [ours, theirs] : names_)
    if (matches(ours, name, &parts)) return filled_in(theirs, parts);
  return name;
}

PLAIT_DECL std::string list_of_names(std::vector<std::string> const& names,
                                     std::string const& what) {
  std::string out = concat({names.size(), " ", what, (names.size() == 1 ? "" : "s")});
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i)
    out += concat({", ", in_quotes(names[i])});
  return names.size() > 3 ? concat({out, ", ..."}) : out;
}

}  // namespace plait::detail
