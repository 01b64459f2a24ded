// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/draw/layer_list.hpp"

#include <algorithm>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/granularity.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"

namespace plait::planning {

PLAIT_DECL std::string drawn_move::second_line() const {
  return layers.empty() ? bytes : concat({bytes, " of ", layers});
}

PLAIT_DECL bool are_alike(lean_vector<drawn_move> const& one,
                          lean_vector<drawn_move> const& other) {
  bool is_same = one.size() == other.size();
  for (std::size_t i = 0; is_same && i < one.size(); ++i)
    is_same = one[i].what == other[i].what && one[i].bytes == other[i].bytes;
  return is_same;
}

PLAIT_DECL bool drawn_layer::is_like(drawn_layer const& other) const {
  return kind == other.kind && passage == other.passage && are_alike(left, other.left) &&
         are_alike(right, other.right);
}

PLAIT_DECL bool drawn_piece::is_like(drawn_piece const& other) const {
  bool is_same = title.empty() == other.title.empty() && note == other.note &&
                 units.count() == other.units.count() && layers.size() == other.layers.size();
  for (std::size_t i = 0; is_same && i < layers.size(); ++i)
    is_same = layers[i].is_like(other.layers[i]);
  return is_same;
}

PLAIT_DECL bool drawn_chunk::is_like(drawn_chunk const& other) const {
  bool is_same = pieces.size() == other.pieces.size() && are_alike(before, other.before) &&
                 are_alike(after, other.after) && are_alike(to_next, other.to_next) &&
                 are_alike(from_next, other.from_next);
  for (std::size_t i = 0; is_same && i < pieces.size(); ++i)
    is_same = pieces[i].is_like(other.pieces[i]);
  return is_same;
}

// Returns text with the number of times that a transfer runs in a step and the bytes of each time.
PLAIT_DECL std::string times_text(transfer const& made, element_sizes const& sizes) {
  return concat({made.times, " \xc3\x97 ", with_unit(made.count * sizes.of(made.element))});
}

PLAIT_DECL lean_vector<drawn_chunk> layer_lister::chunks() const {
  lean_vector<drawn_chunk> out;
  int const stages = plan_.stages(), count = stages * plan_.chunks;
  for (int number = 0; number < count; ++number) {
    auto const [stage, part] = place_of_chunk(number, stages, plan_.placement);
    auto const& units = plan_.chunks_of(stage)[part];
    drawn_chunk chunk;
    chunk.title = concat({"stage ", stage});
    if (plan_.chunks > 1) chunk.title += concat({", chunk ", part});
    for (int i = 0; i < plan_.items.size(); ++i)
      if (auto const here = overlap(plan_.items[i].units(), units); here.count() > 0)
        chunk.pieces.push_back(piece_of(stage, part, i, here));
    add_rows(chunk, stage, part);
    if (number + 1 < count) {
      add_edges(chunk.to_next, transfer_place::activation_edge, stage, units.end);
      add_edges(chunk.from_next, transfer_place::gradient_edge,
                place_of_chunk(number + 1, stages, plan_.placement).stage, units.end);
    }
    if (of_.names.size() > single_) fold(chunk.pieces);
    out.push_back(std::move(chunk));
  }
  if (count > most_chunks) fold(out);
  return out;
}

PLAIT_DECL std::string layer_lister::short_layers_text(unit_range const& units) const {
  auto const whole = layers_text(units);
  if (whole.size() <= 40) return whole;
  return concat({layers_text({units.begin, units.begin + 1}), " to ",
                 layers_text({units.end - 1, units.end})});
}

PLAIT_DECL unit_range layer_lister::units_of(transfer const& made, int stage) const {
  auto const& layout = of_.layouts[std::size_t(stage)];
  auto out = layout.bucket_at(std::size_t(made.bucket)).units;
  for (int b = made.bucket; b < made.bucket + made.buckets; ++b) {
    auto const& more = layout.bucket_at(std::size_t(b)).units;
    out = {std::min(out.begin, more.begin), std::max(out.end, more.end)};
  }
  return out;
}

PLAIT_DECL drawn_move layer_lister::move_of(transfer const& made, int stage) const {
  auto const row = made.row();
  drawn_move out{
      concat({to_string(row.moves), " over ", to_string(plan_.grid.of_several_ranks(row.over))}),
      times_text(made, of_.sizes), "", made.place};
  if (made.place != transfer_place::forward && made.place != transfer_place::backward)
    out.what = concat(
        {to_string(made.place),
         (plan_.delays && made.place == transfer_place::gradients ? ", during the next step: "
                                                                  : ": "),
         out.what});
  if (made.bucket >= 0) out.layers = short_layers_text(units_of(made, stage));
  return out;
}

PLAIT_DECL std::string layer_lister::granularity_number(int item, unit_range const& here) const {
  std::string out;
  auto const& table = plan_.recomputes;
  for (int unit = here.begin, next = unit; table.any() && unit < here.end; unit = next) {
    int const what = table.of(unit);
    while (next < here.end && table.of(next) == what) ++next;
    if ((table.runs[item] >> what & 1) == 0) continue;
    out += std::string(out.empty() ? "made again before the backward: " : "; ") +
           (what == 0 ? "as layers say" : to_string(granularity(what)));
    if (next - unit < here.count()) out += concat({" (", layers_text({unit, next}), ")"});
  }
  return out;
}

PLAIT_DECL drawn_layer layer_lister::layer_of(int leaf) const {
  auto const& form = *plan_.forms[leaf];
  auto from = to_string(form.input());
  for (std::size_t k = 1; k < form.inputs.count; ++k)
    from += concat({", ", to_string(form.inputs[k])});
  drawn_layer out;
  out.name = title_of_leaf(of_.names[std::size_t(leaf)], of_.types[std::size_t(leaf)],
                           of_.is_frozen[std::size_t(leaf)] != 0);
  if (!is_unnamed(of_.names[std::size_t(leaf)].substr(
          0, std::max<std::size_t>(of_.names[std::size_t(leaf)].size(), 1) - 1)))
    out.kind = of_.types[std::size_t(leaf)];
  out.passage = concat({form.label.text(), ": ", from, " \xe2\x86\x92 ", to_string(form.output)});
  return out;
}

PLAIT_DECL drawn_piece layer_lister::piece_of(int stage, int part, int item,
                                              unit_range const& here) const {
  auto const& now = plan_.items[item];
  drawn_piece out;
  out.units = here;
  out.note = granularity_number(item, here);
  for (int leaf = now.first_leaf; leaf < now.end_leaf; ++leaf) out.layers.push_back(layer_of(leaf));
  if (out.layers.empty()) out.layers.push_back({"between two layers", "", "", {}, {}});
  if (now.repeated)
    out.title = layers_text(here) + (here.count() == 1
                                         ? std::string(": one copy of these layers")
                                         : concat({": ", here.count(), " copies of these layers"}));
  bool is_first_part = true;
  for (int before = 0; before < part; ++before)
    is_first_part =
        is_first_part && overlap(now.units(), plan_.chunks_of(stage)[before]).count() == 0;
  if (is_first_part) add_moves(out, stage, item);
  else if (out.note.empty()) out.note = "what it sends counts in the chunk before of its stage";
  return out;
}

PLAIT_DECL void layer_lister::add_moves(drawn_piece& out, int stage, int item) const {
  auto const& now = plan_.items[item];
  lean_vector<transfer const*> forward, backward, recomputed;
  for (auto const& made : of_.transfers[std::size_t(stage)]) {
    if (made.item != item) continue;
    if (made.place == transfer_place::forward) forward.push_back(&made);
    else if (made.place == transfer_place::recompute) recomputed.push_back(&made);
    else if (made.place == transfer_place::backward) backward.push_back(&made);
    else put(out.layers.front().right, made, stage, true);
  }
  std::size_t taken = 0, leaf = 0;
  bool const has_sums = !plan_.samples.axes_with(shard<dim::batch>).empty();
  auto const layer = [&]() -> drawn_layer& { return out.layers[leaf == 0 ? 0 : leaf - 1]; };
  auto const take = [&](lean_vector<transfer const*> const& from, bool ahead) {
    if (taken < from.size())
      put(ahead ? layer().left : layer().right, *from[taken++], stage, !ahead);
  };
  for (int s = now.first_node; s < now.end_node; ++s) {
    auto const& node = plan_.nodes[s];
    if (node.kind == program_node_kind::move &&
        communicates(row_of_move(plan_.values, node, direction::forward).moves))
      take(forward, true);
    if (node.kind != program_node_kind::leaf) continue;
    ++leaf;
    auto const& form = *plan_.forms[node.leaf];
    for (int k = 0; k < form.inner_count; ++k) {
      auto const& inside = form.inner[std::size_t(k)];
      bool const is_made = inside.over_samples
                               ? has_sums
                               : communicates(transition_between(inside.from, inside.to).moves);
      if (is_made && inside.body == layer_body::forward) take(forward, true);
    }
  }
  while (taken < forward.size()) take(forward, true);
  for (auto const* made : recomputed) put(out.layers.back().right, *made, stage, false);
  taken = 0;
  for (int s = now.end_node - 1; s >= now.first_node; --s) {
    auto const& node = plan_.nodes[s];
    if (node.kind == program_node_kind::move && plan_.needs_gradient[node.in] &&
        communicates(row_of_move(plan_.values, node, direction::backward).moves))
      take(backward, false);
    if (node.kind != program_node_kind::leaf) continue;
    auto const& form = *plan_.forms[node.leaf];
    for (int k = 0; k < form.inner_count; ++k)
      if (auto const& inside = form.inner[std::size_t(k)];
          inside.over_samples ? has_sums && plan_.makes_sum(inside, node, transfer_place::backward)
                              : plan_.makes_move(inside, node, false))
        take(backward, false);
    --leaf;
  }
  while (taken < backward.size()) take(backward, false);
}

PLAIT_DECL void layer_lister::add_rows(drawn_chunk& chunk, int stage, int part) const {
  for (auto const& made : of_.transfers[std::size_t(stage)]) {
    if (made.item >= 0 || made.unit >= 0 || !is_sent(made)) continue;
    bool const gathers = made.place == transfer_place::parameters;
    if (gathers || made.place == transfer_place::gradients ||
        made.place == transfer_place::microbatch_gradients) {
      int const unit = units_of(made, stage).begin;
      for (auto& piece : chunk.pieces)
        if (piece.units.contains(unit))
          put(gathers ? piece.layers.front().left : piece.layers.front().right, made, stage, true);
    } else if (made.place == transfer_place::labels ||
               made.place == transfer_place::gather_parameters) {
      if (part == 0) put(chunk.before, made, stage, false);
    } else if (part + 1 == plan_.chunks) {
      put(chunk.after, made, stage, false);
    }
  }
}

PLAIT_DECL void layer_lister::add_edges(lean_vector<drawn_move>& to, transfer_place place,
                                        int stage, int unit) const {
  for (auto const& made : of_.transfers[std::size_t(stage)])
    if (made.place == place && made.unit == unit) put(to, made, stage, false);
}

PLAIT_DECL void layer_lister::fold(lean_vector<drawn_piece>& pieces) {
  lean_vector<drawn_piece> out;
  std::size_t constexpr longest = 8;
  for (std::size_t at = 0; at < pieces.size();) {
    std::size_t best = 1, repeats = 1;
    for (std::size_t period = 1; period <= longest && at + period <= pieces.size(); ++period) {
      std::size_t same = 0;
      while (at + period + same < pieces.size() &&
             pieces[at + same].is_like(pieces[at + period + same]))
        ++same;
      std::size_t const here = 1 + same / period;
      if (here > 1 && here * period > best * repeats) best = period, repeats = here;
    }
    if (repeats > 1)
      pieces[at].above = concat({"alike ", repeats, " times, up to ",
                                 pieces[at + best * repeats - 1].layers.back().name,
                                 (best == 1 ? ": this" : concat({": these ", best}))});
    for (std::size_t i = 0; i < best; ++i) out.push_back(std::move(pieces[at + i]));
    at += best * repeats;
  }
  pieces = std::move(out);
}

PLAIT_DECL void layer_lister::fold(lean_vector<drawn_chunk>& chunks) {
  lean_vector<drawn_chunk> out;
  for (std::size_t at = 0, next = 0; at < chunks.size(); at = next) {
    for (next = at + 1; next < chunks.size() && chunks[at].is_like(chunks[next]);) ++next;
    auto& first = chunks[at];
    if (next - at > 1)
      first.title += concat({" to ", chunks[next - 1].title, ": ", next - at, " alike"});
    out.push_back(std::move(first));
  }
  chunks = std::move(out);
}

}  // namespace plait::planning
