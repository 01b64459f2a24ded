// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/report/idle_stages.hpp"

namespace plait::planning {

PLAIT_DECL unit_range stage_cut::units(int chunk, int all) const {
  auto const at = std::size_t(chunk);
  return {begins[at], at + 1 == begins.size() ? all : begins[at + 1]};
}

PLAIT_DECL std::string judged_model::name_of(int leaf) const {
  auto text = names[std::size_t(leaf)];
  if (text.empty()) return "0";  // the only layer of a model has an empty name
  text.pop_back();
  return text;
}

PLAIT_DECL std::vector<double> shares_of_stages(judged_model const& of, stage_cut const& cut) {
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
  // In a model without flops, no stage counts as idle.
  for (auto& share : out) share = all > 0 ? share / all : 1;
  return out;
}

PLAIT_DECL std::string text_of_greatest_unit(judged_model const& of) {
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
  for (int s = piece.first_node; s < piece.end_node; ++s)
    has_fan_out = has_fan_out || of.nodes[s].kind == program_node_kind::fan_out;
  return concat({"layers ", of.name_of(piece.first_leaf), " to ", of.name_of(piece.end_leaf - 1),
                 " have ", share, " and are one unit, as ",
                 piece.repeated ? "a copy of a repeat is; write more copies of a smaller layer"
                 : has_fan_out
                     ? "a fan_out is with the layer that takes its outputs;\n  put layers "
                       "before or after it, write several fan_outs one after the other"
                     : "a residual is; write several one after the other",
                 ", or fewer stages"});
}

PLAIT_DECL std::string text_of_idle_stages(judged_model const& of, stage_cut const& cut,
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
