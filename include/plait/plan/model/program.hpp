// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/static_vector.hpp"
#include "plait/layer/layer.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/model/moves.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/plan/model/units.hpp"

namespace plait::planning {

/// A tensor that flows through the model. `at` is its placement on the tensor axis; `item` is the
/// item whose nodes read and write it. The output of one item and the input of the next are two
/// values.
struct value {
  value_info info{};
  placement at = invariant;
  int item = 0;
};

/// The kind of a node of the program. Each enumerator states what the node's forward computes.
enum class program_node_kind : int {
  leaf,     ///< out = layer(in)
  move,     ///< out = in, in another placement
  branch,   ///< out = in, and `in` is also added to the later sum `skip` (a residual begins)
  add,      ///< out = in + skip (a residual ends)
  fan_out,  ///< out = in and skip = in (two branches of a fan_out begin)
};

/// One node of the model's program: a layer, a change of placement, or the beginning or end of a
/// residual or fan_out. The list is in forward order. The backward pass runs the list from its end
/// to its beginning, each node by its adjoint: an add passes the gradient of the sum to both
/// summands, and a branch adds the two gradients. For a residual around one layer the list is
/// `branch`, `leaf`, `add`, with a `move` in front of and after the leaf if its form needs other
/// placements.
struct program_node {
  program_node_kind kind = program_node_kind::leaf;
  int leaf = -1;
  int in = -1;
  int out = -1;
  int skip = -1;
  /// The inputs of a leaf after its first, if it has several.
  static_vector<int, int(input_placements::most_more)> more{};
  int granularity_number = -1;  ///< kind of recompute, see node::granularity_number
};

/// Returns the row of the table of transitions that the move `now` of an item carries out in
/// direction `way`.
constexpr transition row_of_move(auto const& values, program_node const& now, direction way) {
  return row_of_move(values[now.in].at, values[now.out].at, way);
}

/// A part of the model that one pipeline stage runs as a whole: a layer, a residual, or the body of
/// a repeat, with its number of copies.
struct item {
  int first_node = 0, end_node = 0;
  int first_leaf = 0, end_leaf = 0;
  int in = 0, out = 0;  ///< numbers of the item's input and output values
  int count = 1;        ///< number of copies; each is a unit of the pipeline
  int first_unit = 0;   ///< number of units of all earlier items
  bool repeated = false;
  double flops_per_row = 0;  ///< forward work of one copy on one rank of the tensor axis

  [[nodiscard]] constexpr unit_range units() const { return {first_unit, first_unit + count}; }
};

/// Returns the number of pipeline units: the copies of all items.
constexpr int count_units(static_view<item> items) {
  return items.size() == 0 ? 0 : items[items.size() - 1].units().end;
}

/// Returns the number of the item that has `unit` as one of its copies.
constexpr int item_of(static_view<item> items, int unit) {
  int at = 0;
  while (!items[at].units().contains(unit)) ++at;
  return at;
}

/// The model as a straight list of nodes: the leaves in the chosen forms, the transitions between
/// them, and the beginnings and ends of residuals. The transition that an edge needs depends on the
/// layers at its two ends, which may be in different combinators; in a list these layers are next
/// to each other. `items` cuts the list into pieces that a pipeline stage runs as a whole. Example:
/// `sequential<embedding, repeat<12, block>, linear>` has three items with 14 units, and the nodes
/// of a block are listed once.
template <int Leaves>
struct program {
  // Each leaf has a node of its own, a move in front of it and a move after it. Each residual or
  // fan_out has two more. A leaf may be in any number of residuals, so `is_full` is checked.
  static constexpr int most_nodes = 6 * Leaves + 4;
  static constexpr int most_values = 8 * Leaves + 6;
  static_vector<program_node, most_nodes> nodes{};
  static_vector<value, most_values> values{};
  static_vector<item, 2 * Leaves + 1> items{};
  /// For each leaf, the chosen form, which is one of the forms of the leaf's type.
  static_vector<form_info const*, Leaves> forms{};
  bool has_loss = false;
  bool is_full = false;  ///< true if the lists have no room for all nodes

  [[nodiscard]] constexpr int unit_count() const { return count_units(items.view()); }
  [[nodiscard]] constexpr form_info const& form(int leaf) const { return *forms[leaf]; }
};

template <class Tree, class Chosen>
struct program_builder {
  static constexpr int leaves = decltype(Tree::leaves)::capacity;

  Tree const& tree;
  Chosen const& chosen;
  int ranks;
  /// This is a reference because g++ 12 cannot copy a value out of the builder after an error
  /// elsewhere.
  program<leaves>& out;

  /// Returns true for the kinds of nodes for which `chosen.edges` has the placement of their input.
  static constexpr bool has_edge(node_kind kind) {
    return kind == node_kind::residual || kind == node_kind::fan_out || kind == node_kind::sum_of;
  }

  constexpr form_info const& form_of(int leaf) const { return out.form(leaf); }

  constexpr placement input_placement(int at) const {
    auto const& here = tree.nodes[at];
    if (here.kind == node_kind::leaf) return form_of(here.leaf).input();
    if (has_edge(here.kind)) return chosen.edges[static_cast<std::size_t>(at)];
    return input_placement(at + 1);
  }

  constexpr int add_value(value_info info, placement at) {
    if (out.values.size() == out.values.capacity) out.is_full = true;
    else out.values.push_back({info, at, out.items.size() - 1});
    return out.values.size() - 1;
  }
  constexpr int add_node(program_node const& next) {
    if (out.nodes.size() == out.nodes.capacity) out.is_full = true;
    else out.nodes.push_back(next);
    return out.nodes.size() - 1;
  }

  /// Returns the number of a value with the contents of value `from` in placement `at`: `from`
  /// itself, or the output of a move that this function adds. `granularity_number`: the member of
  /// this name of the tree's node for which the move is added.
  constexpr int move_to(int from, placement at, int granularity_number = -1) {
    if (out.values[from].at == at) return from;
    int const moved = add_value(out.values[from].info, at);
    add_node({program_node_kind::move, -1, from, moved, -1, {}, granularity_number});
    return moved;
  }

  /// The output of a part of the model: one value, or the several values of a fan_out.
  struct made_values {
    int first = -1;
    static_vector<int, int(input_placements::most_more)> more{};
  };

  constexpr made_values build(int at, made_values from) {
    auto const& here = tree.nodes[at];
    int in = from.first;
    auto const edge = chosen.edges[static_cast<std::size_t>(at)];
    if (has_edge(here.kind)) in = move_to(in, edge, here.granularity_number);
    switch (here.kind) {
      case node_kind::leaf: {
        auto const& form = form_of(here.leaf);
        in = move_to(in, form.inputs[0], here.granularity_number);
        for (int i = 0; i < from.more.size(); ++i)
          from.more[i] = move_to(from.more[i], form.inputs[static_cast<std::size_t>(i) + 1],
                                 here.granularity_number);
        int const made = add_value(tree.leaves[here.leaf].output, form.output);
        add_node(
            {program_node_kind::leaf, here.leaf, in, made, -1, from.more, here.granularity_number});
        return {made};
      }
      case node_kind::fan_out:
      case node_kind::sum_of: {
        made_values made;
        bool const is_fan_out = here.kind == node_kind::fan_out;
        for (int child = at + 1; child < here.end; child = tree.nodes[child].end) {
          bool const is_last = tree.nodes[child].end == here.end;
          int const rest = in;
          int const one = is_last ? in : add_value(out.values[rest].info, edge);
          if (!is_last) {
            in = add_value(out.values[rest].info, edge);
            add_node({program_node_kind::fan_out, -1, rest, one, in, {}, here.granularity_number});
          }
          int const last = build(child, {one}).first;
          if (made.first < 0 || !is_fan_out) made.first = last;
          else made.more.push_back(last);
        }
        return made;
      }
      case node_kind::residual: {
        auto const info = out.values[in].info;
        int const inside = add_value(info, edge);
        int const begin =
            add_node({program_node_kind::branch, -1, in, inside, -1, {}, here.granularity_number});
        int const added = move_to(build(at + 1, {inside}).first, edge, here.granularity_number);
        int const sum = add_value(info, edge);
        add_node({program_node_kind::add, -1, added, sum, in, {}, here.granularity_number});
        out.nodes[begin].skip = sum;
        return {sum};
      }
      case node_kind::repeat:
      case node_kind::sequential:
      case node_kind::named:
      case node_kind::objective: break;
    }
    for (int child = at + 1; child < here.end; child = tree.nodes[child].end)
      from = build(child, from);
    return from;
  }

  /// Finds the nodes of the tree that become items, and adds them to `found` in order.
  constexpr void collect(int at, static_vector<int, leaves>& found) const {
    auto const& here = tree.nodes[at];
    bool const opens = here.kind == node_kind::sequential || here.kind == node_kind::objective ||
                       here.kind == node_kind::named;
    if (!opens) {
      found.push_back(at);
      return;
    }
    for (int child = at + 1; child < here.end; child = tree.nodes[child].end) collect(child, found);
  }

  constexpr void open_item(int count, bool repeated, int first_leaf) {
    item piece;
    piece.first_node = out.nodes.size();
    piece.first_leaf = piece.end_leaf = first_leaf;
    piece.count = count;
    piece.first_unit = out.unit_count();
    piece.repeated = repeated;
    out.items.push_back(piece);
  }

  constexpr void close_item(int in, int made) {
    auto& piece = out.items.back();
    piece.in = in;
    piece.out = made;
    piece.end_node = out.nodes.size();
    for (int i = piece.first_node; i < piece.end_node; ++i) {
      int const leaf = out.nodes[i].leaf;
      if (leaf < 0) continue;
      piece.end_leaf = leaf + 1;
      piece.flops_per_row += form_of(leaf).flops_of_rank(tree.leaves[leaf].flops_per_row, ranks);
    }
  }

  /// Appends an item that only changes the placement of its input. The last node of a repeat cannot
  /// move its output for the next item, because a repeat must end in the placement in which it
  /// begins.
  constexpr void append_move(value_info info, placement from, placement to, int next_leaf) {
    open_item(1, false, next_leaf);
    int const in = add_value(info, from);
    close_item(in, move_to(in, to));
  }

  constexpr void run() {
    for (int i = 0; i < tree.leaves.size(); ++i) {
      auto const& leaf = tree.leaves[i];
      auto const& forms = leaf.is_frozen ? leaf.frozen_forms : leaf.forms;
      out.forms.push_back(&forms[chosen.form[static_cast<std::size_t>(i)]]);
    }
    static_vector<int, leaves> nodes;
    collect(0, nodes);
    out.has_loss = tree.leaves[tree.leaves.size() - 1].is_loss;
    value_info info = tree.leaves[0].input();
    placement at = invariant;  // the model's input is whole on every rank
    int leaf = 0;
    for (int i = 0; i < nodes.size(); ++i) {
      auto const& here = tree.nodes[nodes[i]];
      bool const repeated = here.kind == node_kind::repeat;
      if (repeated && at != input_placement(nodes[i]))
        append_move(info, at, input_placement(nodes[i]), leaf), at = input_placement(nodes[i]);
      open_item(here.count, repeated, leaf);
      int const in = add_value(info, at);
      auto results = build(repeated ? nodes[i] + 1 : nodes[i], {in});
      // The outputs of a fan_out stay inside the item.
      while (results.more.size() > 0 && i + 1 < nodes.size()) results = build(nodes[++i], results);
      int made = results.first;
      // An item moves its output to the placement that the next item reads. A repeat cannot do so,
      // because it must end in the placement in which it began.
      if (!repeated)
        made = move_to(made, i + 1 < nodes.size() ? input_placement(nodes[i + 1])
                             : out.has_loss       ? invariant
                                                  : chosen.output);
      close_item(in, made);
      info = out.values[made].info;
      at = out.values[made].at;
      leaf = out.items.back().end_leaf;
    }
    if (!out.has_loss && at != chosen.output) append_move(info, at, chosen.output, leaf);
  }
};

/// Writes the model as a program, in the chosen forms, for a tensor axis of `ranks` ranks.
template <class Tree, class Chosen>
constexpr auto write_program(Tree const& tree, Chosen const& chosen, int ranks) {
  program<decltype(Tree::leaves)::capacity> out;
  program_builder<Tree, Chosen>{tree, chosen, ranks, out}.run();
  return out;
}

/// Returns true if node `index` runs as an epilogue of the node in front of it in direction `way`:
/// one call of the backend then does the work of both. Such a node is an element-wise function
/// after a product, the sum that ends a residual after the product that writes a summand, or, in
/// the backward, the sum of gradients at the beginning of a residual. Example: `gelu` after a
/// `linear` layer that allows epilogues.
///
/// `needs_gradient`: for each value of the program, true if it has a gradient.
template <int Leaves>
constexpr bool is_epilogue(program<Leaves> const& code, auto const& leaves,
                           auto const& needs_gradient, int index, direction way) {
  bool const forward = way == direction::forward;
  if (index < 0 || index >= code.nodes.size()) return false;
  auto const& now = code.nodes[index];
  bool const adds_gradients = !forward && now.kind == program_node_kind::branch;
  bool const adds_values = forward && now.kind == program_node_kind::add;
  if (!adds_gradients && !adds_values &&
      (now.kind != program_node_kind::leaf || !leaves[now.leaf].is_elementwise))
    return false;
  auto const& piece = code.items[code.values[now.in].item];
  int const before = forward ? index - 1 : index + 1;
  if (before < piece.first_node || before >= piece.end_node) return false;
  auto const& product = code.nodes[before];
  if (product.kind != program_node_kind::leaf) return false;
  auto const& layer = leaves[product.leaf];
  if (adds_gradients ? !layer.takes_sum || !layer.is_trained() : !layer.takes_epilogue)
    return false;
  return forward ? product.out == now.in
                 : product.in == now.out && product.more.size() == 0 &&
                       needs_gradient[static_cast<std::size_t>(now.in)];
}

}  // namespace plait::planning
