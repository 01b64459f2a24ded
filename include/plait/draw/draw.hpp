// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/draw/drawn_plan.hpp"
#include "plait/draw/drawn_plan_of.hpp"
#include "plait/draw/pictures.hpp"
#include "plait/plan/model/workload.hpp"

namespace plait::planning {

/// Returns a picture of a plan for a workload: an SVG document without scripts, fonts and external
/// references. It contains a description in words for screen readers.
///
/// Cost:    as for `explain`. Calls with equal arguments return equal bytes.
///
/// Example (tests/plan/draw_test.cpp draw):
///     using job = plait::parallel<small_gpt, plait::data_parallel<2>>;
///     std::string const svg = plait::ext::draw(job::plan(), {.rows = 64, .microbatches = 2},
///                                              {.what = plait::ext::picture::memory});
template <class Plan>
[[nodiscard]] [[gnu::cold]] std::string draw(Plan plan, workload const& load,
                                             draw_options const& options = {}) {
  return draw(drawn_plan_of(plan, load), options);
}

}  // namespace plait::planning

namespace plait::ext {

using planning::draw;

}  // namespace plait::ext
