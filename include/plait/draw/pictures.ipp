// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/draw/pictures.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "plait/core/concat.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/draw/layer_picture.hpp"
#include "plait/draw/mesh_picture.hpp"
#include "plait/draw/picture_parts.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/report/plan_words.hpp"
#include "plait/schedule/times.hpp"

namespace plait::planning {

PLAIT_DECL drawing draw_memory(drawn_plan const& of, bool dark) {
  drawing out("memory", dark);
  int const x = drawing::margin;
  int y = draw_heading(out, "Memory of a rank", subject_of(of));
  int constexpr parts = 6, bar = 560, swatch = 12;
  bool has_pending = false;
  for (auto const& need : of.memory) has_pending = has_pending || need.pending > 0;
  std::array<std::string, parts> const names{
      "parameters",
      has_pending ? "gradients of two steps" : "gradients",
      of.load.averages ? "optimizer and averages" : "optimizer",
      "activations",
      "batches",
      std::string(of.load.prediction != predicted::nothing ? "outputs and numbers" : "numbers") +
          (of.load.ranked_sums ? ", room of sums" : "")};
  lean_vector<std::array<std::size_t, parts>> sizes;
  lean_vector<std::array<std::string, parts + 1>> cells;
  std::size_t most = 1;
  for (auto const& need : of.memory) {
    sizes.push_back({need.parameters, need.gradients + need.pending, need.optimizer + need.averages,
                     need.activations, need.batches, need.outputs + need.numbers + need.sums});
    std::array<std::string, parts + 1> line;
    for (std::size_t i = 0; i < parts; ++i) line[i] = with_unit(sizes.back()[i]);
    if (of.load.ranked_sums)
      line[parts - 1] =
          concat({with_unit(need.outputs + need.numbers), ", ", with_unit(need.sums)});
    line[parts] = with_unit(need.total());
    cells.push_back(line);
    most = std::max(most, need.total());
  }
  int label = 0;
  auto const name_of = [](std::size_t stage) { return concat({"stage ", stage}); };
  for (std::size_t s = 0; s < sizes.size(); ++s)
    label = std::max(label, text_width(name_of(s), 12, true) + 16);
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    out.text(x, y + 4, name_of(s), {.bold = true});
    std::size_t sum = 0;
    auto const pixels = [&] {
      return static_cast<int>(static_cast<double>(sum) / static_cast<double>(most) * bar);
    };
    for (int part = 0; part < parts; ++part) {
      int const from = pixels();
      sum += sizes[s][std::size_t(part)];
      if (pixels() > from) out.patterned_box(x + label + from, y, pixels() - from, 24, part);
    }
    out.text(x + label + pixels() + 10, y + 4, cells[s][parts], {.bold = true});
    y += 34;
  }
  y += 14;
  // Writes the numbers of bytes below the bars, column by column.
  int left = x + label;
  for (std::size_t part = 0; part <= parts; ++part) {
    std::string const title = part < parts ? names[part] : "bytes per rank";
    int wide = text_width(title, 11) + (part < parts ? swatch + 8 : 0);
    for (auto const& line : cells) wide = std::max(wide, text_width(line[part], 12, part == parts));
    int const right = left + wide;
    if (part < parts)
      out.patterned_box(right - text_width(title, 11) - swatch - 8, y + 1, swatch, swatch,
                        int(part));
    out.text(right, y, title, {.size = 11, .ink = colour::muted, .at = anchor::end});
    for (std::size_t s = 0; s < cells.size(); ++s)
      out.text(right, y + 26 + int(s) * 22, cells[s][part],
               {.bold = part == parts, .at = anchor::end});
    left = right + 24;
  }
  out.line(x, y + 20, left - 24, y + 20);
  for (std::size_t s = 0; s < cells.size(); ++s) {
    out.text(x, y + 26 + int(s) * 22, name_of(s), {.bold = true});
    std::string text;
    for (std::size_t part = 0; part < parts; ++part)
      text += concat({(part == 0 ? "" : ", "), names[part], " ", cells[s][part]});
    out.say(concat({"A rank of ", name_of(s), " holds ", cells[s][parts], ": ", text, "."}));
  }
  return out;
}

PLAIT_DECL drawing draw_timetable(drawn_plan const& of, bool dark) {
  drawing out("timetable", dark);
  auto const& table = of.table;
  bool const has_stages = table.stages.size() > 1;
  auto const times = times_of(table);
  std::string about = to_string(of.numbers.grid);
  if (has_stages) about += concat({", ", of.schedule});
  if (has_stages) about += concat({", idle ", idle_text(times), " of the step"});
  int const x = drawing::margin;
  int y = draw_heading(out, "Timetable of a step", about);

  auto const label = [&](scheduled_work const& op) {
    char const* const kind = op.kind == work::forward          ? "F"
                             : op.kind == work::backward_input ? "I"
                             : op.kind == work::backward       ? "B"
                                                               : "P";
    return kind + std::to_string(op.microbatch) + (table.chunks > 1 ? concat({".", op.chunk}) : "");
  };
  int widest = 0, names = 0;
  for (auto const& stage : times.stages)
    for (auto const& now : stage) widest = std::max(widest, text_width(label(now.op), 11) + 10);
  for (std::size_t s = 0; s < times.stages.size(); ++s)
    names = std::max(names, text_width(concat({"stage ", s}), 12, true) + 16);
  // If a step would be too wide, it is drawn with fewer pixels and without labels of its
  // operations.
  std::int64_t constexpr most_width = 8000;
  std::int64_t const span = std::max<std::int64_t>(times.makespan(), 1);
  bool const is_labelled = span * widest <= most_width;
  std::int64_t const unit = is_labelled ? widest : std::max<std::int64_t>(2, most_width / span);
  std::int64_t const shown = std::min(span, most_width / unit);
  for (std::size_t s = 0; s < times.stages.size(); ++s) {
    out.text(x, y + 6, concat({"stage ", s}), {.bold = true});
    out.box(x + names, y, int(shown * unit), 26, colour::panel, colour::line, "1 3", 0);
    std::string words;
    for (auto const& now : times.stages[s]) {
      words += (words.empty() ? "" : ", ") + to_string(now.op);
      if (now.end > shown) continue;
      bool const is_forward = now.op.kind == work::forward;
      bool const is_again = now.op.kind == work::backward_parameters;
      auto const ink = is_forward ? colour::forward
                       : is_again ? colour::recompute
                                  : colour::backward;
      int const left = x + names + int(now.begin * unit), wide = int((now.end - now.begin) * unit);
      out.box(left, y, wide, 26,
              is_forward ? colour::forward_fill
              : is_again ? colour::recompute_fill
                         : colour::backward_fill,
              ink, is_forward ? "" : "4 3", 0);
      if (is_labelled)
        out.text(left + wide / 2, y + 6, label(now.op),
                 {.size = 11, .ink = ink, .at = anchor::middle});
    }
    out.say(concat({"Stage ", s, ": ", words, "."}));
    y += 32;
  }
  y += 8;
  std::string legend = "F forward, ";
  legend += table.splits_backward ? "I backward to the input, P backward to the parameters"
                                  : "B backward";
  legend += ", each with its microbatch";
  if (table.chunks > 1) legend += " and, after a dot, its chunk";
  legend += "; dotted: idle";
  out.text(x, y, legend, {.size = 11, .ink = colour::muted});
  out.text(x, y + 18, "from left to right: time, if a backward takes as long as two forwards",
           {.size = 11, .ink = colour::muted});
  if (shown < span)
    out.text(x, y + 36, "the begin of the step", {.size = 11, .ink = colour::muted});
  return out;
}

PLAIT_DECL drawing drawing_of(drawn_plan const& of, draw_options const& options) {
  switch (options.what) {
    case picture::mesh: return draw_mesh(of, options.dark);
    case picture::memory: return draw_memory(of, options.dark);
    case picture::timetable: return draw_timetable(of, options.dark);
    case picture::plan: break;
  }
  return draw_layers(of, options.dark);
}

PLAIT_DECL std::string draw(drawn_plan const& of, draw_options const& options) {
  auto const name = [&]() -> std::string {
    switch (options.what) {
      case picture::mesh: return "The mesh";
      case picture::memory: return "Memory of a rank";
      case picture::timetable: return "The timetable of a step";
      case picture::plan: break;
    }
    return "The plan";
  }();
  return drawing_of(of, options).svg(concat({name, ": ", to_string(of.numbers.grid)}));
}

}  // namespace plait::planning
