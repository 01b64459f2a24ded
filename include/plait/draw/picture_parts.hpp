// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/draw/drawn_plan.hpp"
#include "plait/draw/svg.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"

namespace plait::planning {

/// Returns a line about the mesh, the batch and the parameters of a plan, in the words of
/// `explain`.
[[nodiscard]] [[gnu::cold]] std::string subject_of(drawn_plan const& of);

/// Draws the title of a picture and the line `below` it. Returns the y at which the content begins.
[[gnu::cold]] int draw_heading(drawing& into, std::string const& title, std::string const& below);

/// Returns the bytes that ranks send in each group, as `explain` reports them.
[[nodiscard]] [[gnu::cold]] inline static_vector<group_traffic, axis_set_count> traffic_of(
    drawn_plan const& of) {
  return traffic_of(of.transfers, of.sizes, of.numbers.grid);
}

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/draw/picture_parts.ipp"
#endif
