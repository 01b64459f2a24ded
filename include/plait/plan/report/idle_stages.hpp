// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/report/plan_words.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// A cut of the units of a model into chunks: the number of the first unit of each chunk, in the
/// order of the layers.
struct stage_cut {
  std::vector<int> begins{};
  int stages = 1;
  chunk_placement placement{};

  [[nodiscard]] [[gnu::cold]] unit_range units(int chunk, int all) const;
  [[nodiscard]] [[gnu::cold]] int stage_of(int chunk) const {
    return place_of_chunk(chunk, stages, placement).stage;
  }
};

/// The parts of a model from which `explain` computes the balance of its stages: flops of layers,
/// without the loss.
struct judged_model {
  std::vector<std::string> const& names;  ///< names of the leaves
  static_view<item> items;
  static_view<program_node> nodes;
  bool has_loss = false;

  [[nodiscard]] [[gnu::cold]] double flops_of(int item) const {
    return has_loss && item == items.size() - 1 ? 0 : items[item].flops_per_row;
  }
  [[nodiscard]] [[gnu::cold]] std::string name_of(int leaf) const;
};

/// Returns each stage's share of the model's flops.
[[nodiscard]] [[gnu::cold]] std::vector<double> shares_of_stages(judged_model const& of,
                                                                 stage_cut const& cut);

/// Returns true if a stage's share of the model's work is less than a tenth of an equal share.
[[nodiscard]] [[gnu::cold]] inline bool mostly_waits(double share, int stages) {
  return share * stages < 0.1;
}

/// Returns text that names the unit with the most flops and explains why the unit is not cut and
/// how the model could be written instead.
[[nodiscard]] [[gnu::cold]] std::string text_of_greatest_unit(judged_model const& of);

/// Returns text that names the stages that wait most of the time and explains how the policy could
/// be written instead; "" if there are no such stages.
///
/// `best`: the cut whose busiest stage has the least work.
[[nodiscard]] [[gnu::cold]] std::string text_of_idle_stages(judged_model const& of,
                                                            stage_cut const& cut,
                                                            stage_cut const& best);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/report/idle_stages.ipp"
#endif
