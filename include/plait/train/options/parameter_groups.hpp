// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/train/options/optimizer.hpp"

namespace plait {

/// Parameters that the optimizer treats in a way of their own: those whose full name, such as
/// "h.3.attn.c_attn.weight", the pattern matches.
struct parameter_group {
  std::string pattern;  ///< a star stands for any characters, or none: "h.*.attn.*", "*.bias"
  double rate = 1;      ///< factor of the learning rate
  double decay = 1;     ///< factor of the weight decay, besides the optimizer's `decays`
};

}  // namespace plait

namespace plait::execution {

/// What a parameter's learning rate and weight decay are multiplied by.
struct update_factors {
  double rate = 1, decay = 1;
};

/// The first group that matches a parameter, or null.
[[gnu::cold]] parameter_group const* first_match(std::vector<parameter_group> const& groups,
                                                 std::string_view name);

/// Those of a parameter: of the first group that matches, and no decay where the optimizer has
/// none.
template <class Decays>
[[gnu::cold]] update_factors factors_of(parameter_description const& what, Decays const& decays,
                                        std::vector<parameter_group> const& groups) {
  update_factors out;
  if (auto const* const group = first_match(groups, what.name)) out = {group->rate, group->decay};
  if (!decays(what)) out.decay = 0;
  return out;
}

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/options/parameter_groups.ipp"
#endif
