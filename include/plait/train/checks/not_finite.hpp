// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/train/checks/agreement.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// Returns a sentence that says why a step was not taken, the same on all ranks.
///
/// `layers`: the names of all layers; `last`: the report of the step before, if there was one;
/// `mine`: the findings of this rank's forward.
///
/// Moves: one call of agreement_room::of_all.
[[gnu::cold]] std::string not_finite_text(agreement_room const& room,
                                          std::vector<std::string> const& layers,
                                          step_report const& of,
                                          std::optional<step_report> const& last,
                                          forward_watch const& mine);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/not_finite.ipp"
#endif
