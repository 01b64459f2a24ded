// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/memory_text.hpp"
#include "plait/plan/plan_words.hpp"
#include "plait/plan/program.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// A cut of the units of a model into chunks: the first unit of each, in the order of the layers.
struct stage_cut {
  std::vector<int> begins{};
  int stages = 1;
  chunk_placement placement{};

  [[nodiscard]] [[gnu::cold]] unit_range units(int chunk, int all) const;
  [[nodiscard]] [[gnu::cold]] int stage_of(int chunk) const {
    return place_of_chunk(chunk, stages, placement).stage;
  }
};

// The functions below take a judged_model; as templates they cost programs that do not call them
// next to nothing.

/// A model whose pipeline is judged by the flops of its layers, without the loss.
struct judged_model {
  std::vector<std::string> const& names;  ///< names of the leaves
  static_view<item> items;
  static_view<step> steps;
  bool has_loss = false;

  [[nodiscard]] [[gnu::cold]] double flops_of(int item) const {
    return has_loss && item == items.size() - 1 ? 0 : items[item].flops_per_row;
  }
  [[nodiscard]] [[gnu::cold]] std::string name_of(int leaf) const;
};

/// Returns the part of the flops that each stage has.
[[nodiscard]] [[gnu::cold]] std::vector<double> shares_of_stages(auto const& of,
                                                                 stage_cut const& cut) {
  std::vector<double> out(std::size_t(cut.stages), 0.0);
  double all = 0;
  for (int chunk = 0; chunk < int(cut.begins.size()); ++chunk) {
    auto const units = cut.units(chunk, count_units(of.items));
    for (int unit = units.begin; unit < units.end; ++unit) {
      double const flops = of.flops_of(item_of(of.items, unit));
      out[std::size_t(cut.stage_of(chunk))] += flops;
      all += flops;
    }
  }
  // A model that counts no flops gives no reason to find a stage idle.
  for (auto& share : out) share = all > 0 ? share / all : 1;
  return out;
}

/// Returns true if a stage has less than a tenth of an equal share.
[[nodiscard]] [[gnu::cold]] inline bool mostly_waits(double share, int stages) {
  return share * stages < 0.1;
}

/// Says which unit has the most flops, why it is not cut, and what to write instead.
[[nodiscard]] [[gnu::cold]] std::string text_of_greatest_unit(auto const& of) {
  double all = 0;
  int most = 0;
  for (int i = 0; i < of.items.size(); ++i) {
    all += of.flops_of(i) * of.items[i].count;
    if (of.flops_of(i) > of.flops_of(most)) most = i;
  }
  auto const& piece = of.items[most];
  std::string const share = as_percent(of.flops_of(most), all);
  if (piece.end_leaf - piece.first_leaf == 1)
    return concat({"layer ", of.name_of(piece.first_leaf), " has ", share,
                   ", and no layer is cut between stages; let tensor_parallel share it, or write "
                   "fewer stages"});
  bool has_fan_out = false;
  for (int s = piece.first_step; s < piece.end_step; ++s)
    has_fan_out = has_fan_out || of.steps[s].kind == step_kind::fan_out;
  return concat({"layers ", of.name_of(piece.first_leaf), " to ", of.name_of(piece.end_leaf - 1),
                 " have ", share, " and are one unit, as ",
                 piece.repeated ? "a copy of a repeat is; write more copies of a smaller layer"
                 : has_fan_out
                     ? "a fan_out is with the layer that takes its outputs;\n  put layers "
                       "before or behind it, write several fan_outs one behind the other"
                     : "a residual is; write several one behind the other",
                 ", or fewer stages"});
}

/// Says which stages mostly wait, and what to write instead; "" if none does. `best`: the cut whose
/// busiest stage has the least work.
[[nodiscard]] [[gnu::cold]] std::string text_of_idle_stages(auto const& of, stage_cut const& cut,
                                                            stage_cut const& best) {
  auto const shares = shares_of_stages(of, cut);
  std::string out;
  int count = 0, at_best = 0;
  for (int stage = 0; stage < cut.stages; ++stage) {
    double const share = shares[std::size_t(stage)];
    if (!mostly_waits(share, cut.stages)) continue;
    std::string layers;
    for (int chunk = 0; chunk < int(cut.begins.size()); ++chunk)
      if (cut.stage_of(chunk) == stage)
        layers +=
            concat({layers.empty() ? "" : " | ",
                    text_of_layers(of.names, of.items, cut.units(chunk, count_units(of.items)))});
    out += concat({count++ == 0 ? "  stage " : ", stage ", stage, " (", layers, ") has ",
                   as_percent(share, 1)});
  }
  if (count == 0) return "";
  out += concat({" of the layers' flops, so that ", count == 1 ? "it waits" : "they wait",
                 " for the others most of the time:\n  "});
  for (double const share : shares_of_stages(of, best)) at_best += mostly_waits(share, cut.stages);
  if (at_best >= count) return concat({out, text_of_greatest_unit(of), "\n"});
  std::string units;
  for (std::size_t i = 1; i < best.begins.size(); ++i)
    units += concat({i == 1 ? "" : ", ", best.begins[i]});
  return concat({out, "write cut_at<", units, ">, or leave cut_at out\n"});
}

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/idle_stages.ipp"
#endif
