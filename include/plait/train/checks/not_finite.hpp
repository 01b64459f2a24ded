// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// Returns the message of the error for a step whose loss or gradient norm is not finite. All ranks
/// get the same message.
///
/// `layers`: the names of all layers; `of`: the report of the step; `last`: the report of the
/// previous step, if there was one; `mine`: the first layer whose output is not finite, if this
/// rank has found one.
///
/// Moves: one call of number_gather::of_all.
[[gnu::cold]] std::string not_finite_text(number_gather const& gather,
                                          std::vector<std::string> const& layers,
                                          step_report const& of,
                                          std::optional<step_report> const& last,
                                          forward_watch const& mine);

/// Returns the message of the error for replicas (see local_steps) of which at least one has had a
/// step that was not finite. `name`: the name of the trainer; `all`: the numbers of the replicas.
[[gnu::cold]] std::string not_finite_text(std::string const& name,
                                          std::span<planning::numbers_of_replica const> all);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/not_finite.ipp"
#endif
