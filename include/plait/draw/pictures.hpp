// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/draw/drawn_plan.hpp"
#include "plait/draw/svg.hpp"

namespace plait::planning {

/// Returns a picture as a drawing, from which the positions of its texts and boxes can be read.
[[nodiscard]] [[gnu::cold]] drawing drawing_of(drawn_plan const& of, draw_options const& options);

/// Draws a plan that `drawn_plan_of` has collected.
[[nodiscard]] [[gnu::cold]] std::string draw(drawn_plan const& of,
                                             draw_options const& options = {});

}  // namespace plait::planning

namespace plait::ext {

using planning::draw;

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/draw/pictures.ipp"
#endif
