// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/train/options/optimizer.hpp"

namespace plait {

/// A group of parameters whose learning rate and weight decay are multiplied by the group's
/// factors. The group consists of all parameters whose full name, such as "h.3.attn.c_attn.weight",
/// matches the pattern.
struct parameter_group {
  std::string pattern;  ///< a star matches any number of characters, as in "h.*.attn.*" or "*.bias"
  double rate = 1;      ///< the factor by which the learning rate is multiplied
  double decay = 1;     ///< the factor by which the weight decay is multiplied, if the optimizer's
                        ///< `decays` returns true
};

}  // namespace plait

namespace plait::execution {

/// The factors by which a parameter's learning rate and weight decay are multiplied.
struct update_factors {
  double rate = 1, decay = 1;
};

/// Returns the first group that matches a parameter; null if no group matches.
[[gnu::cold]] parameter_group const* first_match(std::vector<parameter_group> const& groups,
                                                 std::string_view name);

/// Returns the factors of a parameter. These are the factors of the first group that matches the
/// parameter, or 1 if no group matches. The factor of the decay is 0 if the optimizer's function
/// `decays` excludes the parameter.
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
