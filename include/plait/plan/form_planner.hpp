// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "plait/core/static_vector.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/outline.hpp"
#include "plait/plan/workload.hpp"
#include "plait/policy/policy.hpp"

namespace plait::planning {

/// What a way to run a layer costs one rank of a tensor axis, compared field by field in this
/// order.
///
/// Wire bytes first would let every rank do all the work, which sends nothing; and without the
/// parameters held, whole weights on sequence shards would beat split weights.
struct form_cost {
  double flops = 0;  ///< per row, forward; work that every rank repeats counts in full
  /// Elements of matrices per rank. Vectors do not count: a split bias would be reason enough to
  /// gather activations.
  double held = 0;
  double wire = 0;  ///< elements per row, forward and backward
  int calls = 0;    ///< collectives, forward and backward
  bool possible = true;

  friend constexpr form_cost operator+(form_cost a, form_cost b) {
    return {a.flops + b.flops, a.held + b.held, a.wire + b.wire, a.calls + b.calls,
            a.possible && b.possible};
  }
  [[nodiscard]] constexpr form_cost times(int count) const {
    return {flops * count, held * count, wire * count, calls * count, possible};
  }
  friend constexpr bool operator<(form_cost const& a, form_cost const& b) {
    if (a.possible != b.possible) return a.possible;
    if (a.flops != b.flops) return a.flops < b.flops;
    if (a.held != b.held) return a.held < b.held;
    if (a.wire != b.wire) return a.wire < b.wire;
    return a.calls < b.calls;
  }
};

inline constexpr form_cost impossible{0, 0, 0, 0, false};

enum class planning_error : int {
  none,
  nothing_divides,    ///< a layer that could be split has no form that divides
  unknown_pin,        ///< the pinned form is not among the layer's forms
  pin_not_divisible,  ///< the pinned form does not divide
  no_chain,           ///< no chain of forms leads from the first layer to the last
};

/// The forms that the planner chose, one index for each leaf.
template <int Nodes, int Leaves>
struct chosen_forms {
  std::array<int, static_cast<std::size_t>(Leaves)> form{};
  /// For each residual, fan_out or sum_of, the placement of its input.
  std::array<placement, static_cast<std::size_t>(Nodes)> edges{};
  form_cost cost{};
  placement output = invariant;  ///< of the whole model
  planning_error error = planning_error::none;
  int error_leaf = 0;
  std::size_t error_length = 0;  ///< the length that the ranks do not divide
};

/// The length that `ranks` must divide but does not, 0 if the form is possible.
constexpr std::size_t indivisible_length(leaf_info const& leaf, form_info const& form, int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  auto const fails = [&](std::size_t length, int parts) {
    return length % (static_cast<std::size_t>(parts) * p) != 0;
  };
  for (int i = 0; i < leaf.parameter_count; ++i) {
    auto const at = form.uses[static_cast<std::size_t>(i)];
    auto const length = leaf.parameters[static_cast<std::size_t>(i)].length(at.index);
    if (is_shard(at) && fails(length, at.parts)) return length;
  }
  auto const edge = [&](placement at, std::size_t width) -> std::size_t {
    if (at.kind != placement_kind::shard || at.index != dim::features) return 0;
    if (leaf.units != 0 && leaf.units % p != 0) return leaf.units;
    return fails(width, at.parts) ? width : 0;
  };
  for (int i = 0; i < leaf.input_count; ++i) {
    auto const& input = leaf.inputs[static_cast<std::size_t>(i)];
    if (input.kind != value_kind::features) continue;
    if (auto const length = edge(form.input, input.width)) return length;
  }
  return edge(form.output, leaf.output.width);
}

/// Elements sent per row by a transition of a value of `width` elements per row, and its adjoint.
constexpr form_cost transition_cost(placement from, placement to, std::size_t width, int ranks,
                                    bool differentiable) {
  auto const row = transition_between(from, to), back = adjoint(row);
  if (row.status != derivation::automatic || !row.is_made()) return impossible;
  if (differentiable && !back.is_made()) return impossible;
  form_cost cost;
  auto const count = [&](movement moves) {
    // A million rows, so that rounding up to whole bytes does not show.
    cost.wire +=
        static_cast<double>(row_bytes(moves, static_cast<std::int64_t>(width) * 1000000, ranks)) *
        1e-6;
    cost.calls += communicates(moves);
  };
  count(row.moves);
  if (differentiable) count(back.moves);
  return cost;
}

/// Finds the best chain of forms by dynamic programming over the tree: every node answers with a
/// table of the best cost from each input placement to each output placement.
template <class Tree>
struct form_planner {
  static constexpr int most_placements = 8;
  using table = std::array<std::array<form_cost, most_placements>, most_placements>;

  Tree const& tree;
  int ranks;
  form_cuts cuts;
  static_vector<placement, most_placements> placements{};
  static_vector<table, decltype(Tree::nodes)::capacity> tables{};
  chosen_forms<decltype(Tree::nodes)::capacity, decltype(Tree::leaves)::capacity> chosen{};

  static constexpr table nothing() {
    table all;
    for (auto& row : all) row.fill(impossible);
    return all;
  }

  constexpr int index_of(placement at) {
    for (int i = 0; i < placements.size(); ++i)
      if (placements[i] == at) return i;
    placements.push_back(at);
    return placements.size() - 1;
  }

  constexpr form_cost& cell(table& of, int from, int to) const {
    return of[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  constexpr form_cost const& cell(int node_index, int from, int to) const {
    return tables[node_index][static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }

  constexpr form_cost cross(int from, int to, value_info value) const {
    bool const differentiable = value.kind == value_kind::features;
    return transition_cost(placements[from], placements[to], differentiable ? value.width : 0,
                           ranks, differentiable);
  }

  constexpr bool uses(form_info const& form, int dimension) const {
    auto const cut = [&](placement at) { return is_shard(at) && at.index == dimension; };
    return cut(form.input) || cut(form.output);
  }

  constexpr form_cost cost_of(leaf_info const& leaf, form_info const& form) const {
    form_cost cost;
    cost.flops = leaf.flops_per_row / (form.shares_work() ? ranks : 1);
    for (int i = 0; i < leaf.parameter_count; ++i)
      if (auto const& parameter = leaf.parameters[static_cast<std::size_t>(i)]; parameter.rank == 2)
        cost.held += static_cast<double>(parameter.count()) /
                     (is_shard(form.uses[static_cast<std::size_t>(i)]) ? ranks : 1);
    for (int i = 0; i < form.inner_count; ++i) {
      auto const& move = form.inner[static_cast<std::size_t>(i)];
      auto const row = transition_between(move.from, move.to);
      cost.wire += static_cast<double>(row_bytes(
                       row.moves, static_cast<std::int64_t>(move.width) * 1000000, ranks)) *
                   1e-6;
      cost.calls += communicates(row.moves);
    }
    return cost;
  }

  constexpr bool allowed(leaf_info const& leaf, form_info const& form, name pin) const {
    // On one rank all forms compute the same, and whole ones need no moves between them.
    if (!pin.empty() && ranks > 1 && form.label != pin) return false;
    if (uses(form, dim::sequence) && !cuts.sequence) return false;
    if (uses(form, dim::features) && !cuts.features) return false;
    return indivisible_length(leaf, form, ranks) == 0;
  }

  /// Reports a layer that the user expects to be split and that no form can split.
  constexpr void check_leaf(int index) {
    auto const& leaf = tree.leaves[index];
    auto const pin = tree.pins[index];
    bool known_pin = pin.empty(), wants_split = false, can_split = false;
    std::size_t length = 0;
    for (int i = 0; i < leaf.form_count; ++i) {
      auto const& form = leaf.forms[static_cast<std::size_t>(i)];
      if (!pin.empty() && form.label != pin) continue;
      known_pin = true;
      auto const bad = indivisible_length(leaf, form, ranks);
      if (cuts.features && !uses(form, dim::sequence) && form.shares_work() &&
          (leaf.parameter_count > 0 || leaf.units > 0)) {
        wants_split = true;
        can_split = can_split || bad == 0;
      }
      if (bad != 0 && length == 0) length = bad;
    }
    if (chosen.error != planning_error::none) return;
    if (!known_pin) chosen.error = planning_error::unknown_pin;
    else if (wants_split && !can_split)
      chosen.error =
          pin.empty() ? planning_error::nothing_divides : planning_error::pin_not_divisible;
    chosen.error_leaf = index;
    chosen.error_length = length;
  }

  constexpr table solve_leaf(int index) {
    table best = nothing();
    auto const& leaf = tree.leaves[index];
    for (int i = 0; i < leaf.form_count; ++i) {
      auto const& form = leaf.forms[static_cast<std::size_t>(i)];
      if (!allowed(leaf, form, tree.pins[index])) continue;
      auto& here = cell(best, index_of(form.input), index_of(form.output));
      if (auto const cost = cost_of(leaf, form); cost < here) here = cost;
    }
    return best;
  }

  /// Best way through the children of a sequential from `from`, one row of its table.
  /// Where `pick` is set, chooses the forms of the way that ends in `to`.
  constexpr std::array<form_cost, most_placements> chain(int at, int from, int to, bool pick) {
    struct way {
      form_cost cost = impossible;
      int entered = 0, left = 0;
    };
    static_vector<std::array<way, most_placements>, decltype(Tree::nodes)::capacity> ways;
    static_vector<int, decltype(Tree::nodes)::capacity> children;
    std::array<form_cost, most_placements> reached{};
    reached.fill(impossible);
    reached[static_cast<std::size_t>(from)] = {};
    value_info value{};
    for (int child = at + 1; child < tree.nodes[at].end; child = tree.nodes[child].end) {
      bool const first = child == at + 1;
      std::array<way, most_placements> next{};
      bool goes_on = false;
      for (int left = 0; left < placements.size(); ++left) {
        auto const before = reached[static_cast<std::size_t>(left)];
        if (!before.possible) continue;
        for (int entered = 0; entered < placements.size(); ++entered) {
          if (first && entered != left) continue;
          auto const entry = first ? form_cost{} : cross(left, entered, value);
          if (!entry.possible) continue;
          auto const inside = before + entry;
          auto const& row = tables[child][static_cast<std::size_t>(entered)];
          for (int out = 0; out < placements.size(); ++out) {
            auto const& through = row[static_cast<std::size_t>(out)];
            if (!through.possible) continue;
            goes_on = true;
            auto const cost = inside + through;
            auto& best = next[static_cast<std::size_t>(out)];
            if (cost < best.cost) best = {cost, entered, left};
          }
        }
      }
      for (int i = 0; i < most_placements; ++i)
        reached[static_cast<std::size_t>(i)] = next[static_cast<std::size_t>(i)].cost;
      if (!goes_on) return reached;
      if (pick) ways.push_back(next), children.push_back(child);
      value = output_of(child);
    }
    if (pick)
      for (int i = children.size() - 1; i >= 0; --i) {
        auto const& taken = ways[i][static_cast<std::size_t>(to)];
        choose(children[i], taken.entered, to);
        to = taken.left;
      }
    return reached;
  }

  struct branch {
    form_cost cost = impossible;
    int entered = 0, left = 0;
  };

  /// The best way to run a branch from placement `from` to placement `to`.
  constexpr branch close(int child, int from, int to) const {
    branch best;
    auto const taken = input_of(child), made = output_of(child);
    for (int entered = 0; entered < placements.size(); ++entered)
      for (int left = 0; left < placements.size(); ++left) {
        if (!cell(child, entered, left).possible) continue;
        auto const cost =
            cross(from, entered, taken) + cell(child, entered, left) + cross(left, to, made);
        if (cost < best.cost) best = {cost, entered, left};
      }
    return best;
  }

  constexpr value_info input_of(int at) const {
    while (tree.nodes[at].kind != node_kind::leaf) ++at;
    return tree.leaves[tree.nodes[at].leaf].input();
  }

  constexpr value_info output_of(int at) const {
    auto const& here = tree.nodes[at];
    if (here.kind == node_kind::leaf) return tree.leaves[here.leaf].output;
    if (here.kind == node_kind::fan_out) {
      // Both outputs cross the edge behind it.
      auto out = output_of(at + 1);
      out.width += output_of(tree.nodes[at + 1].end).width;
      return out;
    }
    int last = at + 1;
    for (int child = at + 1; child < here.end; child = tree.nodes[child].end) last = child;
    return output_of(last);
  }

  constexpr void solve(int at) {
    auto const& here = tree.nodes[at];
    for (int child = at + 1; child < here.end; child = tree.nodes[child].end) solve(child);
    table best = nothing();
    switch (here.kind) {
      case node_kind::leaf: best = solve_leaf(here.leaf); break;
      case node_kind::named: best = tables[at + 1]; break;
      case node_kind::repeat:
        for (int i = 0; i < placements.size(); ++i)
          cell(best, i, i) = cell(at + 1, i, i).times(here.count);
        break;
      case node_kind::residual:
        for (int i = 0; i < placements.size(); ++i)
          if (may_carry(placements[i])) cell(best, i, i) = close(at + 1, i, i).cost;
        break;
      case node_kind::fan_out:
      case node_kind::sum_of:
        for (int i = 0; i < placements.size(); ++i)
          for (int j = 0; j < placements.size(); ++j) {
            form_cost cost;
            for (int child = at + 1; child < here.end; child = tree.nodes[child].end)
              cost = cost + close(child, i, j).cost;
            cell(best, i, j) = cost;
          }
        break;
      case node_kind::sequential:
      case node_kind::objective:
        for (int i = 0; i < placements.size(); ++i)
          best[static_cast<std::size_t>(i)] = chain(at, i, 0, false);
        break;
    }
    tables[at] = best;
  }

  /// What a residual stream may be placed as.
  static constexpr bool may_carry(placement at) {
    return at == invariant || at == shard<dim::sequence>;
  }

  constexpr void choose(int at, int from, int to) {
    auto const& here = tree.nodes[at];
    switch (here.kind) {
      case node_kind::leaf: {
        auto const& leaf = tree.leaves[here.leaf];
        form_cost best = impossible;
        for (int i = 0; i < leaf.form_count; ++i) {
          auto const& form = leaf.forms[static_cast<std::size_t>(i)];
          if (form.input != placements[from] || form.output != placements[to]) continue;
          if (!allowed(leaf, form, tree.pins[here.leaf])) continue;
          if (auto const cost = cost_of(leaf, form); cost < best) {
            best = cost;
            chosen.form[static_cast<std::size_t>(here.leaf)] = i;
          }
        }
        break;
      }
      case node_kind::named:
      case node_kind::repeat: choose(at + 1, from, to); break;
      case node_kind::residual: {
        auto const way = close(at + 1, from, from);
        chosen.edges[static_cast<std::size_t>(at)] = placements[from];
        choose(at + 1, way.entered, way.left);
        break;
      }
      case node_kind::fan_out:
      case node_kind::sum_of:
        chosen.edges[static_cast<std::size_t>(at)] = placements[from];
        for (int child = at + 1; child < here.end; child = tree.nodes[child].end) {
          auto const way = close(child, from, to);
          choose(child, way.entered, way.left);
        }
        break;
      case node_kind::sequential:
      case node_kind::objective: chain(at, from, to, true); break;
    }
  }

  /// Plans the whole model; its input is invariant, its output is invariant (or a sequence shard).
  constexpr void run() {
    index_of(invariant);
    for (int i = 0; i < tree.leaves.size(); ++i) check_leaf(i);
    for (int i = 0; i < tree.leaves.size(); ++i) solve_leaf(i);  // collects the placements
    tables.count = tree.nodes.size();
    solve(0);
    // The first layer may want its input differently: what comes from outside is free to be cut.
    branch best;
    bool const from_tokens = first_input().kind == value_kind::tokens;
    for (int in = 0; in < placements.size(); ++in)
      for (int out = 0; out < placements.size(); ++out) {
        if (!cell(0, in, out).possible) continue;
        auto const entry = transition_cost(invariant, placements[in],
                                           from_tokens ? 0 : first_input().width, ranks, false);
        for (int end = 0; end < placements.size(); ++end) {
          if (!may_carry(placements[end])) continue;
          auto const cost = entry + cell(0, in, out) + cross(out, end, output_of(0));
          if (cost < best.cost) best = {cost, in, out}, chosen.output = placements[end];
        }
      }
    if (!best.cost.possible) {
      if (chosen.error == planning_error::none) chosen.error = planning_error::no_chain;
      return;
    }
    chosen.cost = best.cost;
    choose(0, best.entered, best.left);
  }

  constexpr value_info first_input() const { return tree.leaves[0].input(); }
};

/// Chooses a form for every leaf on a tensor axis of `ranks` ranks.
///
/// `cuts`: what the forms may cut.
/// Cost: about (placements)^3 steps for each layer, at compile time; a repeat counts once.
/// Errors: reported in the result, which `plan` turns into a static_assert.
template <class Tree>
constexpr auto choose_forms(Tree const& tree, int ranks, form_cuts cuts) {
  form_planner<Tree> planner{tree, ranks, cuts};
  planner.run();
  return planner.chosen;
}

}  // namespace plait::planning
