// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/model/moves.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/policy/policy.hpp"

namespace plait::planning {

/// The cost of one way to run a layer, for one rank of a tensor axis. Costs are compared field by
/// field, in this order.
///
/// The order has reasons. If `bytes_sent` were first, the planner would let every rank do all the
/// work, which sends nothing. Without `held`, whole weights on sequence shards would win over split
/// weights, since the work is equal and fewer bytes are sent.
struct form_cost {
  double flops = 0;  ///< forward work per row; work that all ranks repeat is not divided
  /// The number of elements of matrices that a rank holds. Vectors do not count, or the planner
  /// would gather activations only to be able to split a bias.
  double held = 0;
  double bytes_sent = 0;  ///< elements per row that are sent, forward and backward
  int calls = 0;          ///< number of collectives in the forward and the backward
  bool possible = true;

  friend constexpr form_cost operator+(form_cost const& a, form_cost const& b) {
    return {a.flops + b.flops, a.held + b.held, a.bytes_sent + b.bytes_sent, a.calls + b.calls,
            a.possible && b.possible};
  }
  [[nodiscard]] constexpr form_cost times(int count) const {
    return {flops * count, held * count, bytes_sent * count, calls * count, possible};
  }
  friend constexpr bool operator<(form_cost const& a, form_cost const& b) {
    if (a.possible != b.possible) return a.possible;
    if (a.flops != b.flops) return a.flops < b.flops;
    if (a.held != b.held) return a.held < b.held;
    if (a.bytes_sent != b.bytes_sent) return a.bytes_sent < b.bytes_sent;
    return a.calls < b.calls;
  }
};

inline constexpr form_cost impossible{0, 0, 0, 0, false};

enum class planning_error : int {
  none,
  nothing_divides,     ///< a layer that can be split has no form whose lengths the ranks divide
  unknown_form,        ///< use_form names a form that the layer does not have
  form_not_divisible,  ///< the ranks do not divide the lengths of the form that use_form names
  /// As `nothing_divides`; the number of ranks is also not the multiple that another form needs.
  nothing_multiple,
  no_chain,  ///< no sequence of forms leads from the first layer to the last
};

/// The forms that the planner chose: for each leaf, an index into the leaf's forms.
template <int Nodes, int Leaves>
struct chosen_forms {
  std::array<int, static_cast<std::size_t>(Leaves)> form{};
  /// For each residual, fan_out or sum_of: the placement of its input.
  std::array<placement, static_cast<std::size_t>(Nodes)> edges{};
  form_cost cost{};
  placement output = invariant;  ///< placement of the whole model's output
  planning_error error = planning_error::none;
  int error_leaf = 0;
  std::size_t error_length = 0;  ///< length that the number of ranks does not divide
};

/// Returns the length that prevents the form: `ranks` does not divide it, or is not a multiple of
/// it. Returns 0 if the form is possible.
constexpr std::size_t indivisible_length(leaf_info const& leaf, form_info const& form, int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  if (p % form.multiple != 0) return form.multiple;
  if (form.units % p != 0) return form.units;
  auto const fails = [&](std::size_t length, int parts) {
    return length % (static_cast<std::size_t>(parts) * p) != 0;
  };
  for (int i = 0; i < leaf.parameters.size(); ++i) {
    auto const at = form.uses[static_cast<std::size_t>(i)];
    auto const length = leaf.parameters[i].length(at.index);
    if (is_shard(at) && fails(length, at.parts)) return length;
  }
  auto const edge = [&](placement at, std::size_t width) -> std::size_t {
    if (at.kind != placement_kind::shard || at.index != dim::features) return 0;
    if (form.units == 0 && leaf.units % p != 0) return leaf.units;
    return fails(width, at.parts) ? width : 0;
  };
  for (int i = 0; i < leaf.input_count; ++i) {
    auto const& input = leaf.inputs[static_cast<std::size_t>(i)];
    if (input.kind != value_kind::features) continue;
    if (auto const length = edge(form.inputs[static_cast<std::size_t>(i)], input.width))
      return length;
  }
  return edge(form.output, leaf.output.width);
}

/// The operations that move a value of any width between two placements, and its gradient back.
struct crossing {
  row_operation there = local_move::none, back = local_move::none;
  bool possible = false;           ///< true if the planner may insert this transition
  bool possible_to_train = false;  ///< true if, in addition, the gradient can be moved back
};

/// The placements of the values that flow along an edge of the model. An edge has one value, except
/// after a fan_out, where each branch has a value with a placement of its own.
struct edge_placements {
  std::array<placement, input_placements::most> at{};
  int count = 1;

  constexpr edge_placements(placement alone) : at{alone} {}  // NOLINT: implicit
  /// Takes the placements of the first `inputs` inputs of a form.
  constexpr edge_placements(input_placements const& each, int inputs) : count(inputs) {
    for (int i = 0; i < inputs; ++i) at[std::size_t(i)] = each[std::size_t(i)];
  }
  constexpr edge_placements() = default;

  friend constexpr bool operator==(edge_placements const&, edge_placements const&) = default;
};

constexpr crossing crossing_between(placement from, placement to) {
  auto const row = row_of_move(from, to, direction::forward);
  auto const back = row_of_move(from, to, direction::backward);
  bool const possible = row.status == derivation::automatic && row.is_made();
  return {row.moves, back.moves, possible, possible && back.is_made()};
}

/// Returns the transition of an edge. An edge with several values needs none: branches move them.
constexpr crossing crossing_between(edge_placements const& from, edge_placements const& to) {
  if (from.count == 1 && to.count == 1) return crossing_between(from.at[0], to.at[0]);
  bool const same = from == to;
  return {local_move::none, local_move::none, same, same};
}

/// Returns the elements per row that an operation sends for a value of `width` elements per row. It
/// is computed for a million rows, so that rounding up to whole bytes has no effect.
constexpr double elements_per_row(row_operation moves, std::size_t width, int ranks) {
  return static_cast<double>(row_bytes(moves, static_cast<std::int64_t>(width) * 1000000, ranks)) *
         1e-6;
}

/// Returns the cost of moving a value of `width` elements per row and, if it has one, its gradient.
constexpr form_cost crossing_cost(crossing const& row, std::size_t width, int ranks,
                                  bool differentiable) {
  if (!(differentiable ? row.possible_to_train : row.possible)) return impossible;
  form_cost cost;
  if (communicates(row.there))
    cost.bytes_sent += elements_per_row(row.there, width, ranks), ++cost.calls;
  if (differentiable && communicates(row.back))
    cost.bytes_sent += elements_per_row(row.back, width, ranks), ++cost.calls;
  return cost;
}

/// Finds the best sequence of forms by dynamic programming over the tree. For each node it lists
/// passages: a passage is the cheapest way to run the node from one placement of its input to one
/// placement of its output. For example, a linear layer of forms `whole`, `column` and `row_split`
/// has three passages. `sequential` joins the passages of its children by the transitions between
/// them, `residual` keeps passages that end in the placement in which they begin, and `repeat`
/// multiplies the cost of such a passage by its count. Then `choose` follows the cheapest passage
/// back to the leaves and notes their forms.
///
/// The memory that a compiler needs for a constant grows with the capacity of its arrays, so one
/// list for all nodes has only the passages that exist. Compilers also limit calls and statements
/// in constant expressions, so the inner loops contain as few as possible.
template <class Tree>
struct form_planner {
  /// The cheapest way through a node; `from` and `to` are indices in `placements`.
  struct passage {
    int from = 0, to = 0;
    int form = -1;  ///< index of the form, if the node is a leaf
    form_cost cost = impossible;
  };
  /// The range of a node in `passages`; for a sequential also the number of its entry in `chains`.
  struct solved {
    int first = 0, end = 0;
    int chain = -1;
  };
  /// The cheapest ways through a sequential. For each child, `picks` has a table with a row for
  /// each input placement of the first child and a column for each output placement of the child.
  /// An entry encodes the child's input placement and the output placement of the child before it.
  struct chain_picks {
    std::vector<int> from{};
    std::vector<int> children{};
    std::vector<int> picks{};
  };

  Tree const& tree;
  int ranks;
  form_cuts cuts;
  lean_vector<edge_placements> placements{};
  lean_vector<crossing> crossings{};  ///< transitions between any two placements
  lean_vector<passage> passages{};    ///< passages of all nodes; sorted within a node
  lean_vector<solved> leaves{}, nodes{};
  lean_vector<chain_picks> chains{};
  /// Costs of transitions, computed when needed; entry i is valid while crossed_on[i] is `edge`.
  lean_vector<form_cost> crossed{};
  std::vector<int> crossed_on{};
  int edge = 0;
  value_info edge_value{};
  chosen_forms<decltype(Tree::nodes)::capacity, decltype(Tree::leaves)::capacity> chosen{};

  [[nodiscard]] constexpr int count_places() const { return int(placements.size()); }
  [[nodiscard]] constexpr edge_placements const& placed(int number) const {
    return placements[std::size_t(number)];
  }
  constexpr int index_of(placement const& at) {
    edge_placements const* const known = placements.data();
    int const places = count_places();
    for (int i = 0; i < places; ++i)
      if (known[i].count == 1 && known[i].at[0] == at) return i;
    placements.push_back(at);
    return places;
  }
  /// Returns the index of a list of placements. Adds the list and each placement in it if needed.
  constexpr int index_of(edge_placements const& several) {
    for (int i = 0; i < several.count; ++i) index_of(several.at[std::size_t(i)]);
    edge_placements const* const known = placements.data();
    int const places = count_places();
    for (int i = 0; i < places; ++i)
      if (known[i] == several) return i;
    placements.push_back(several);
    return places;
  }
  /// Returns the index of the placement in which branch `which` of a node ends, if `to` is the
  /// index of the placements in which the node ends.
  constexpr int end_of_branch(int to, int which) {
    auto const& ends = placed(to);
    return ends.count == 1 ? to : index_of(ends.at[std::size_t(which)]);
  }

  constexpr form_cost cross(int from, int to, value_info const& value) const {
    bool const differentiable = value.kind == value_kind::features;
    return crossing_cost(crossings[std::size_t(from * count_places() + to)],
                         differentiable ? value.width : 0, ranks, differentiable);
  }

  [[nodiscard]] constexpr static_view<passage> passages_of(int at) const {
    auto const& mine = nodes[std::size_t(at)];
    return {passages.data() + mine.first, mine.end - mine.first};
  }

  static constexpr bool uses(form_info const& form, int dimension) {
    auto const is_cut = [&](placement at) { return is_shard(at) && at.index == dimension; };
    return form.inputs.any(is_cut) || is_cut(form.output);
  }

  constexpr form_cost cost_of(leaf_info const& leaf, form_info const& form) const {
    form_cost cost;
    cost.flops = form.flops_of_rank(leaf.flops_per_row, ranks);
    for (int i = 0; i < leaf.parameters.size(); ++i)
      if (auto const& parameter = leaf.parameters[i]; parameter.rank == 2)
        cost.held += static_cast<double>(parameter.count()) /
                     (is_shard(form.uses[static_cast<std::size_t>(i)]) ? ranks : 1);
    for (int i = 0; i < form.inner_count; ++i) {
      auto const& move = form.inner[static_cast<std::size_t>(i)];
      auto const row = row_of_move(move.from, move.to, direction::forward);
      cost.bytes_sent += elements_per_row(row.moves, move.width, ranks);
      cost.calls += communicates(row.moves);
    }
    return cost;
  }

  constexpr void add_passage(int from, int to, form_cost const& cost) {
    if (cost.possible) passages.push_back({from, to, -1, cost});
  }

  /// Adds a passage to the leaf's list, which begins at `first`, unless the list has one between
  /// the same placements that costs no more.
  constexpr void add_form(std::size_t first, passage const& made) {
    auto at = passages.size();
    for (; at > first; --at) {
      auto const& before = passages[at - 1];
      if (before.from < made.from || (before.from == made.from && before.to < made.to)) break;
      if (before.from == made.from && before.to == made.to) {
        if (made.cost < before.cost) passages[at - 1] = made;
        return;
      }
    }
    passages.push_back(made);
    if (at + 1 == passages.size()) return;
    for (auto i = passages.size() - 1; i > at; --i) passages[i] = passages[i - 1];
    passages[at] = made;
  }

  /// Finds the passages of a leaf. Reports an error if the user expects the leaf to be split and
  /// the ranks divide the lengths of none of its forms.
  constexpr void read_leaf(int index) {
    auto const& leaf = tree.leaves[index];
    auto const& pin = tree.pins[index];
    bool const is_pinned = !pin.empty(), must_divide = is_pinned && ranks > 1;
    bool const may_split =
        cuts.features && (leaf.parameters.size() > 0 || leaf.units > 0 || must_divide);
    bool known_pin = !is_pinned, wants_split = false, can_split = false, in_multiples = false;
    auto const first = passages.size();
    for (int i = 0; i < leaf.forms.size(); ++i) {
      auto const& form = leaf.forms[i];
      bool const is_meant = !is_pinned || form.label == pin;
      known_pin = known_pin || is_meant;
      // On one rank all forms compute the same values, and whole forms need no moves between them.
      if ((!is_meant && ranks > 1) || (!cuts.features && uses(form, dim::features))) continue;
      bool const uses_sequence = uses(form, dim::sequence);
      if (uses_sequence && !cuts.sequence) continue;
      bool const divides = form.divides(ranks);
      // Without a form that cuts work and parameters, a layer may run whole: a table, a norm.
      if (is_meant && may_split && !uses_sequence && form.shares_anything()) {
        bool const saves = form.shares_work() && (leaf.units > 0 || form.cuts_parameters());
        wants_split = wants_split || must_divide || saves;
        can_split = can_split || divides;
        in_multiples = in_multiples || form.multiple > 1;
      }
      if (!divides) continue;
      int const inputs = leaf.flowing_inputs();
      int const from =
          inputs == 1 ? index_of(form.input()) : index_of(edge_placements(form.inputs, inputs));
      int const to = index_of(form.output);
      add_form(first, {from, to, i, cost_of(leaf, form)});
    }
    leaves.push_back({int(first), int(passages.size())});
    if (chosen.error != planning_error::none) return;
    if (!known_pin) chosen.error = planning_error::unknown_form;
    else if (wants_split && !can_split)
      chosen.error = in_multiples ? planning_error::nothing_multiple
                     : is_pinned  ? planning_error::form_not_divisible
                                  : planning_error::nothing_divides;
    if (chosen.error == planning_error::none) return;
    chosen.error_leaf = index;
    for (int i = 0; i < leaf.forms.size() && chosen.error_length == 0; ++i)
      if (auto const& form = leaf.forms[i]; !is_pinned || form.label == pin)
        chosen.error_length = indivisible_length(leaf, form, ranks);
  }

  /// Finds the cheapest ways through a sequential, child by child, for each input placement.
  constexpr void solve_chain(int at) {
    chain_picks ways;
    auto& from = ways.from;
    for (auto const& each : passages_of(at + 1))
      if (from.empty() || from.back() != each.from) from.push_back(each.from);
    for (int child = at + 1; child < tree.nodes[at].end; child = tree.nodes[child].end)
      ways.children.push_back(child);
    int const places = count_places(), rows = int(from.size()), cells = rows * places;
    ways.picks = std::vector<int>(ways.children.size() * std::size_t(cells), 0);
    int* pick = ways.picks.data();
    lean_vector<form_cost> both(std::size_t(2 * cells));
    form_cost *reached = both.data(), *next = both.data() + cells;
    for (int const child : ways.children) {
      passage const* const begin = passages.data() + nodes[std::size_t(child)].first;
      passage const* const end = passages.data() + nodes[std::size_t(child)].end;
      for (int i = 0; i < cells; ++i) next[i].possible = false;
      if (child == at + 1) {
        for (int f = 0; f < rows; ++f)
          for (auto const* each = begin; each != end; ++each)
            if (each->from == from[std::size_t(f)]) {
              next[f * places + each->to] = each->cost;
              pick[f * places + each->to] = each->from * places + each->from;
            }
      } else {
        for (int left = 0; left < places; ++left) {
          bool is_reached = false;
          for (int i = left; i < cells; i += places) is_reached = is_reached || reached[i].possible;
          if (!is_reached) continue;
          form_cost const* const entries = crossed.data() + left * places;
          int* const known = crossed_on.data() + left * places;
          for (auto const* each = begin; each != end; ++each) {
            int const entered = each->from;
            if (known[entered] != edge) {
              known[entered] = edge;
              crossed[std::size_t(left * places + entered)] = cross(left, entered, edge_value);
            }
            auto const& entry = entries[entered];
            if (!entry.possible) continue;
            for (int row = 0; row < cells; row += places) {
              auto const& before = reached[row + left];
              if (!before.possible) continue;
              auto& best = next[row + each->to];
              // Skip ways with more flops than the best so far; a transition has no flops.
              if (best.possible && best.flops < before.flops + each->cost.flops) continue;
              auto const cost = before + entry + each->cost;
              if (best.possible && !(cost < best)) continue;
              best = cost;
              pick[row + each->to] = entered * places + left;
            }
          }
        }
      }
      std::swap(reached, next);
      pick += cells;
      auto const value = output_of(child);
      if (!(value == edge_value)) edge_value = value, ++edge;
    }
    for (int f = 0; f < rows; ++f)
      for (int to = 0; to < places; ++to)
        add_passage(from[std::size_t(f)], to, reached[f * places + to]);
    chains.push_back(std::move(ways));
  }

  constexpr void choose_chain(chain_picks const& ways, int from, int to) {
    int const places = count_places(), cells = int(ways.from.size()) * places;
    int row = 0;
    while (ways.from[std::size_t(row)] != from) ++row;
    for (std::size_t i = ways.children.size(); i-- > 0;) {
      int const pick = ways.picks[i * std::size_t(cells) + std::size_t(row * places + to)];
      choose(ways.children[i], pick / places, to);
      to = pick % places;
    }
  }

  struct branch {
    form_cost cost = impossible;
    int entered = 0, left = 0;
  };

  /// Returns the best way to run a branch from placement `from` to placement `to`.
  constexpr branch close(int child, int from, int to) const {
    branch best;
    auto const taken = input_of(child), made = output_of(child);
    for (auto const& each : passages_of(child)) {
      auto const cost = cross(from, each.from, taken) + each.cost + cross(each.to, to, made);
      if (cost < best.cost) best = {cost, each.from, each.to};
    }
    return best;
  }

  /// Adds up the costs of a node's branches, for each pair of an input and an output placement.
  constexpr void solve_branches(int at) {
    int const places = count_places();
    lean_vector<form_cost> sums(std::size_t(places * places));
    int branches = 0, which = 0;
    for (int child = at + 1; child < tree.nodes[at].end; child = tree.nodes[child].end) ++branches;
    int const values = tree.nodes[at].kind == node_kind::fan_out ? branches : 1;
    for (int from = 0; from < places; ++from)
      for (int to = 0; to < places; ++to)
        if (placed(from).count != 1 || placed(to).count != values)
          sums[std::size_t(from * places + to)].possible = false;
    for (int child = at + 1; child < tree.nodes[at].end; child = tree.nodes[child].end, ++which) {
      auto const taken = input_of(child), made = output_of(child);
      auto const through = passages_of(child);
      lean_vector<form_cost> entries, exits;
      for (auto const& each : through)
        for (int i = 0; i < places; ++i) {
          entries.push_back(cross(i, each.from, taken));
          exits.push_back(cross(each.to, i, made));
        }
      for (int from = 0; from < places; ++from)
        for (int to = 0; to < places; ++to) {
          auto& sum = sums[std::size_t(from * places + to)];
          if (!sum.possible) continue;
          int const ends = end_of_branch(to, which);
          form_cost best = impossible;
          for (int k = 0; k < through.size(); ++k) {
            auto const& entry = entries[std::size_t(k * places + from)];
            auto const& exit = exits[std::size_t(k * places + ends)];
            if (!entry.possible || !exit.possible) continue;
            if (auto const cost = entry + through[k].cost + exit; cost < best) best = cost;
          }
          sum = sum + best;
        }
    }
    for (int from = 0; from < places; ++from)
      for (int to = 0; to < places; ++to)
        add_passage(from, to, sums[std::size_t(from * places + to)]);
  }

  constexpr value_info input_of(int at) const {
    while (tree.nodes[at].kind != node_kind::leaf) ++at;
    return tree.leaves[tree.nodes[at].leaf].input();
  }

  constexpr value_info output_of(int at) const {
    auto const& here = tree.nodes[at];
    if (here.kind == node_kind::leaf) return tree.leaves[here.leaf].output;
    int last = at + 1;
    for (int child = at + 1; child < here.end; child = tree.nodes[child].end) last = child;
    return output_of(last);
  }

  constexpr void solve(int at) {
    auto const& here = tree.nodes[at];
    for (int child = at + 1; child < here.end; child = tree.nodes[child].end) solve(child);
    solved made{int(passages.size())};
    switch (here.kind) {
      case node_kind::leaf: nodes[std::size_t(at)] = leaves[std::size_t(here.leaf)]; return;
      case node_kind::named: nodes[std::size_t(at)] = nodes[std::size_t(at + 1)]; return;
      case node_kind::repeat: {
        auto const below = nodes[std::size_t(at + 1)];
        for (int i = below.first; i < below.end; ++i) {
          auto const each = passages[std::size_t(i)];
          if (each.from == each.to) add_passage(each.from, each.to, each.cost.times(here.count));
        }
        break;
      }
      case node_kind::residual:
        for (int i = 0; i < count_places(); ++i)
          if (may_carry(placed(i))) add_passage(i, i, close(at + 1, i, i).cost);
        break;
      case node_kind::fan_out:
      case node_kind::sum_of: solve_branches(at); break;
      case node_kind::sequential:
      case node_kind::objective:
        solve_chain(at);
        made.chain = int(chains.size()) - 1;
        break;
    }
    made.end = int(passages.size());
    nodes[std::size_t(at)] = made;
  }

  /// Returns true if a residual stream may have this placement.
  static constexpr bool may_carry(edge_placements const& of) {
    return of.count == 1 && (of.at[0] == invariant || of.at[0] == shard<dim::sequence>);
  }

  constexpr void choose(int at, int from, int to) {
    auto const& here = tree.nodes[at];
    switch (here.kind) {
      case node_kind::leaf:
        for (auto const& each : passages_of(at))
          if (each.from == from && each.to == to)
            chosen.form[static_cast<std::size_t>(here.leaf)] = each.form;
        break;
      case node_kind::named:
      case node_kind::repeat: choose(at + 1, from, to); break;
      case node_kind::residual: {
        auto const ends = close(at + 1, from, from);
        chosen.edges[static_cast<std::size_t>(at)] = placed(from).at[0];
        choose(at + 1, ends.entered, ends.left);
        break;
      }
      case node_kind::fan_out:
      case node_kind::sum_of: {
        chosen.edges[static_cast<std::size_t>(at)] = placed(from).at[0];
        int which = 0;
        for (int child = at + 1; child < here.end; child = tree.nodes[child].end) {
          auto const ends = close(child, from, end_of_branch(to, which++));
          choose(child, ends.entered, ends.left);
        }
        break;
      }
      case node_kind::sequential:
      case node_kind::objective:
        choose_chain(chains[std::size_t(nodes[std::size_t(at)].chain)], from, to);
        break;
    }
  }

  /// Plans the model, from an invariant input to an invariant output or a shard of the sequence.
  constexpr void run() {
    index_of(placement(invariant));
    // Reserves room for three possible forms per leaf, so that the list is seldom reallocated.
    passages.reserve(std::size_t(3 * tree.leaves.size() + tree.nodes.size()));
    leaves.reserve(std::size_t(tree.leaves.size()));
    for (int i = 0; i < tree.leaves.size(); ++i) read_leaf(i);  // also collects the placements
    for (auto const& from : placements)
      for (auto const& to : placements) crossings.push_back(crossing_between(from, to));
    crossed.resize(crossings.size());
    crossed_on = std::vector(crossings.size(), -1);
    nodes.resize(std::size_t(tree.nodes.size()));
    solve(0);
    // The first layer may read another placement: each rank cuts the model's input without sending.
    branch best;
    auto const input = tree.leaves[0].input(), output = output_of(0);
    std::size_t const width = input.kind == value_kind::tokens ? 0 : input.width;
    for (auto const& each : passages_of(0)) {
      auto const entry = crossing_cost(crossings[std::size_t(each.from)], width, ranks, false);
      if (!entry.possible) continue;
      for (int end = 0; end < count_places(); ++end) {
        if (!may_carry(placed(end))) continue;
        auto const cost = entry + each.cost + cross(each.to, end, output);
        if (cost < best.cost) best = {cost, each.from, each.to}, chosen.output = placed(end).at[0];
      }
    }
    if (!best.cost.possible) {
      if (chosen.error == planning_error::none) chosen.error = planning_error::no_chain;
      return;
    }
    chosen.cost = best.cost;
    choose(0, best.entered, best.left);
  }
};

/// Chooses a form for every leaf on a tensor axis of `ranks` ranks.
///
/// `cuts`: the dimensions that forms may cut.
/// Cost: at compile time, for each layer a number of steps that is its number of forms times the
///       number of placements that its input may have; the body of a repeat counts once.
/// Errors: reported in the result, which `plan` checks by a static_assert.
template <class Tree>
constexpr auto choose_forms(Tree const& tree, int ranks, form_cuts cuts) {
  form_planner<Tree> planner{tree, ranks, cuts};
  planner.run();
  return planner.chosen;
}

}  // namespace plait::planning
