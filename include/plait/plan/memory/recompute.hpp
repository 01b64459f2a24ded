// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "plait/core/granularity.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/memory/storage.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/units.hpp"
#include "plait/policy/policy.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// The number of enumerators of `granularity`. If the level (see made_from) of a value or slot is
/// `made_never`, it is never recomputed.
inline constexpr int granularities = 4, made_never = granularities;

/// The level of a value or slot: the least kind of `granularity` under which a unit recomputes it
/// instead of keeping it. 0: it is recomputed under all kinds; `made_never`: under none.
using made_from = signed char;

/// The values and slots of a program that are recomputed, and the nodes that run again for this,
/// for each kind of `granularity` that a unit may have. `recompute_finder` finds the nodes: it
/// starts at the values and slots that the backward reads, and follows the nodes back to values
/// that are kept. Kinds are nested (nothing < cheap < moves < all): a value that is recomputed
/// under `cheap` is recomputed, or not needed, under `all`. So one level for each value is enough.
/// Example: under `cheap` in linear, gelu, linear the output of gelu is recomputed from the output
/// of the first linear layer, which is kept.
template <int Leaves>
struct recompute_plan {
  static constexpr auto values = std::size_t(program<Leaves>::most_values);
  static constexpr auto nodes = std::size_t(program<Leaves>::most_nodes);

  std::array<made_from, values> value{};  ///< levels of the values that a backward needs
  /// For each leaf, the level of its slots. Slots that are always kept have no level.
  std::array<made_from, std::size_t(Leaves)> slots{};
  std::array<bool, values> stays{};  ///< true if the value is kept because a recompute reads it
  std::array<bool, values> apart{};  ///< true if nothing may overwrite the value
  /// For each node, a bit for each `granularity` under which it runs again.
  std::array<unsigned char, nodes> node{};
};

/// Returns the bit of the kind of `granularity` with number `what`.
constexpr unsigned char bit_of(int what) { return static_cast<unsigned char>(1U << what); }

/// Finds the nodes that run again for the backward. `kinds`: a bit for each kind of recompute that
/// a unit of the model has.
template <int Leaves>
class recompute_finder {
 public:
  constexpr recompute_finder(program<Leaves> const& code, auto const& leaves,
                             auto const& needs_gradient, unsigned kinds)
      : code_(code) {
    out.value.fill(1);  // a value that no backward reads is dropped under `cheap` and above
    out.slots.fill(made_never);
    for (auto const& piece : code.items) {
      if (has_loss(piece, leaves)) {
        keep_all(piece);
        continue;
      }
      for (int what = 0; what < granularities; ++what)
        if ((kinds >> what & 1) != 0) find(piece, leaves, needs_gradient, what);
    }
  }

  recompute_plan<Leaves> out{};

 private:
  static constexpr std::size_t at(int i) { return std::size_t(i); }

  constexpr bool has_loss(item const& piece, auto const& leaves) const {
    for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf)
      if (leaves[leaf].is_loss) return true;
    return false;
  }
  /// Keeps all values of an item with a loss: a loss adds to its sum each time that it runs, so it
  /// must not run again.
  constexpr void keep_all(item const& piece) {
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      out.value[at(code_.nodes[s].in)] = made_never;
      out.value[at(code_.nodes[s].out)] = made_never;
      for (int const more : code_.nodes[s].more) out.value[at(more)] = made_never;
    }
  }

  /// Returns true if a node only renames its operand, or selects this rank's block of the operand.
  constexpr bool passes_on(program_node const& now) const {
    if (now.kind == program_node_kind::branch || now.kind == program_node_kind::fan_out)
      return true;
    return is_renamed(now) || (now.kind == program_node_kind::move &&
                               slices_rows(row_of_move(code_.values, now, direction::forward)));
  }
  constexpr bool is_renamed(program_node const& now) const {
    return now.kind == program_node_kind::move &&
           row_of_move(code_.values, now, direction::forward).moves == local_move::none;
  }
  static constexpr bool is_cheap(auto const& leaf) {
    for (int i = 0; i < leaf.parameters.size(); ++i)
      if (leaf.parameters[i].rank > 1) return false;
    return leaf.units == 0;
  }
  constexpr bool gathers(program_node const& now) const {
    return now.kind == program_node_kind::move &&
           row_of_move(code_.values, now, direction::forward).moves == collective::all_gather;
  }
  template <class Action>
  static constexpr void for_each_input(program_node const& now, Action action) {
    action(now.in);
    for (int const more : now.more) action(more);
    if (now.kind == program_node_kind::add) action(now.skip);
  }

  /// Finds the nodes of an item that run again under kind `what`. First, the function notes the
  /// values that the backward reads. Then it walks forward and marks the nodes that can run again:
  /// under `cheap` an element-wise layer whose operands are kept or can be recomputed, under
  /// `moves` also an all_gather, under `all` every node. Last, it walks backward: a node runs again
  /// if it can and if a later node or the backward of a layer needs its result. The operands of
  /// such a node are then needed, too. A needed value that cannot be recomputed is kept.
  constexpr void find(item const& piece, auto const& leaves, auto const& needs_gradient, int what) {
    std::array<bool, program<Leaves>::most_values> read{}, there{}, needed{};
    std::array<bool, program<Leaves>::most_nodes> can{};
    auto const has_backward = [&](program_node const& now) {
      return now.kind == program_node_kind::leaf &&
             (needs_gradient[at(now.in)] || leaves[now.leaf].is_trained());
    };
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      auto const& now = code_.nodes[s];
      if (!has_backward(now)) continue;
      if (leaves[now.leaf].saved.keeps_input) {
        read[at(now.in)] = true;
        for (int const more : now.more) read[at(more)] = true;
      }
      if (leaves[now.leaf].saved.keeps_output) read[at(now.out)] = true;
    }
    // Find the nodes that can run again although no additional values are kept for them.
    there[at(piece.in)] = true;
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      auto const& now = code_.nodes[s];
      bool all_there = true;
      for_each_input(now, [&](int value) { all_there = all_there && there[at(value)]; });
      int const own = now.granularity_number >= 0 ? now.granularity_number : what;
      bool const is_cheap_leaf = now.kind == program_node_kind::leaf && is_cheap(leaves[now.leaf]);
      can[at(s)] =
          own == int(granularity::all) || (gathers(now) && own == int(granularity::moves)) ||
          (all_there && (passes_on(now) || (is_cheap_leaf && own >= int(granularity::cheap))));
      auto const make = [&](int value) { there[at(value)] = can[at(s)] || read[at(value)]; };
      make(now.out);
      if (now.kind == program_node_kind::fan_out) make(now.skip);
    }
    for (int v = piece.in;
         v < code_.values.size() && code_.values[v].item == code_.values[piece.in].item; ++v)
      needed[at(v)] = read[at(v)];
    // The item's output is kept, and so is a value that a node only renames to be the output.
    needed[at(piece.out)] = false;
    int output = piece.out;
    for (int s = piece.end_node - 1; s >= piece.first_node; --s) {
      auto const& now = code_.nodes[s];
      int const own = now.granularity_number >= 0 ? now.granularity_number : what;
      if (now.out == output && is_renamed(now)) {
        output = now.in;
        if (needed[at(output)]) out.value[at(output)] = made_never;
        needed[at(output)] = false;
        continue;
      }
      bool is_needed = needed[at(now.out)];
      if (now.kind == program_node_kind::fan_out) is_needed = is_needed || needed[at(now.skip)];
      bool const has_slots = has_backward(now) && has_passing_slots(leaves[now.leaf]);
      bool const for_slots =
          has_wide_slots(now, leaves) && has_slots && own == int(granularity::all);
      bool const runs = (is_needed && can[at(s)]) || for_slots;
      if (has_slots) settle(out.slots[at(now.leaf)], runs, what);
      auto const settle_value = [&](int made) {
        if (!needed[at(made)]) return;
        settle(out.value[at(made)], runs, what);
        if (!runs) out.stays[at(made)] = true;
      };
      settle_value(now.out);
      if (now.kind == program_node_kind::fan_out) settle_value(now.skip);
      if (!runs) continue;
      out.node[at(s)] = static_cast<unsigned char>(out.node[at(s)] | bit_of(what));
      if (!is_needed) out.apart[at(now.out)] = true;
      for_each_input(now, [&](int value) {
        if (value != piece.in) needed[at(value)] = true;
      });
    }
  }
  /// Returns true if the slots that a leaf saves are together at least as wide as its output. Only
  /// then may the leaf run again for its slots alone. Smaller slots, such as a few sums per row,
  /// are kept.
  constexpr bool has_wide_slots(program_node const& now, auto const& leaves) const {
    std::size_t columns = 0;
    for (int k = 0; now.leaf >= 0 && k < leaves[now.leaf].saved.own.size(); ++k)
      if (auto const& own = leaves[now.leaf].saved.own[k]; !own.is_always_kept)
        columns += own.per_row;
    return columns >= code_.values[now.out].info.width;
  }
  static constexpr bool has_passing_slots(auto const& leaf) {
    for (int k = 0; k < leaf.saved.own.size(); ++k)
      if (!leaf.saved.own[k].is_always_kept) return true;
    return false;
  }
  /// Sets the level `from` of a value or slot: if `runs` is true, it is recomputed under kind
  /// `what` and the kinds above it, and otherwise it is kept.
  constexpr void settle(made_from& from, bool runs, int what) const {
    if (!runs) from = made_never;
    else if (from == made_never || from > what) from = static_cast<made_from>(what);
  }

  program<Leaves> const& code_;
};

/// The order of the buffers in a unit's record, which is the memory for the values and slots that
/// the unit's backward reads. Buffers that are kept under all kinds of recompute are first; buffers
/// that are recomputed under most kinds are last. So a unit of any kind keeps the first part of the
/// record as its stash, and the remaining buffers have the same offsets in the working record. One
/// comparison then finds the address of a buffer, and copies of a repeat may have different kinds
/// of recompute.
template <int Leaves>
struct record_levels {
  /// The level of each kept buffer, indexed by the number of its root value (see storage_plan).
  std::array<made_from, std::size_t(program<Leaves>::most_values)> root{};
  std::array<made_from, std::size_t(Leaves)> slots{};
  /// For each item, a bit for each kind of `granularity`. Under this kind, the bit in `works` is
  /// set if the item's units use the working record, the bit in `runs` if some of their nodes run
  /// again, and the bit in `overwrites` if such nodes overwrite the unit's output.
  std::array<unsigned char, std::size_t(2 * Leaves + 1)> works{}, runs{}, overwrites{};
};

/// Returns true if a node does nothing, because its result is stored in the place of its operand.
template <int Leaves>
constexpr bool is_another_name(program<Leaves> const& code,
                               storage_plan<program<Leaves>::most_values> const& storage,
                               program_node const& now) {
  if (now.kind == program_node_kind::leaf || now.kind == program_node_kind::add) return false;
  if (now.kind == program_node_kind::move &&
      communicates(row_of_move(code.values, now, direction::forward).moves))
    return false;
  return storage.values[std::size_t(now.in)].root == storage.values[std::size_t(now.out)].root;
}

template <int Leaves>
constexpr record_levels<Leaves> level_records(
    program<Leaves> const& code, auto const& leaves,
    storage_plan<program<Leaves>::most_values> const& storage,
    recompute_plan<Leaves> const& recomputed) {
  record_levels<Leaves> out;
  out.slots = recomputed.slots;
  for (int v = 0; v < code.values.size(); ++v) {
    auto& level = out.root[std::size_t(storage.values[std::size_t(v)].root)];
    level = std::max(level, recomputed.value[std::size_t(v)]);
  }
  for (int i = 0; i < code.items.size(); ++i) {
    auto const& piece = code.items[i];
    auto const add = [&](auto& bits, unsigned char more) {
      bits[std::size_t(i)] = static_cast<unsigned char>(bits[std::size_t(i)] | more);
    };
    auto const from = [&](made_from level) {
      for (int what = level; what < granularities; ++what) add(out.works, bit_of(what));
    };
    for (int v = piece.in; v < code.values.size() && code.values[v].item == i; ++v)
      if (auto const& at = storage.values[std::size_t(v)];
          at.where == storage_kind::kept && at.root == v)
        from(out.root[std::size_t(v)]);
    for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf)
      if (leaves[leaf].saved.own.size() > 0) from(out.slots[std::size_t(leaf)]);
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      auto const& now = code.nodes[s];
      if (is_another_name(code, storage, now)) continue;
      auto const bits = recomputed.node[std::size_t(s)];
      add(out.runs, bits);
      if (storage.values[std::size_t(now.out)].where == storage_kind::output)
        add(out.overwrites, bits);
    }
  }
  return out;
}

/// An empty type that replaces the tables of recompute in plans that recompute nothing.
struct no_recompute {};

template <bool HasReruns, int Leaves>
constexpr auto level_records(program<Leaves> const& code, auto const& leaves,
                             storage_plan<program<Leaves>::most_values> const& storage,
                             auto const& recomputed) {
  if constexpr (HasReruns) return level_records(code, leaves, storage, recomputed);
  else return no_recompute{};
}
/// Returns the recompute_plan of a program, or no_recompute if nothing is recomputed.
template <bool HasReruns, int Leaves>
constexpr auto find_recomputed(program<Leaves> const& code, auto const& leaves,
                               auto const& needs_gradient, recompute_rule const& rule) {
  if constexpr (HasReruns) {
    unsigned const kinds = bit_of(int(rule.what)) | bit_of(int(rule.others));
    return recompute_finder<Leaves>(code, leaves, needs_gradient, kinds).out;
  } else {
    return no_recompute{};
  }
}
constexpr bool recomputes_layers(auto const& tree) {
  for (auto const& here : tree.nodes)
    if (here.granularity_number > 0) return true;
  return false;
}
constexpr bool recomputes_a_loss(auto const& tree) {
  for (auto const& here : tree.nodes)
    if (here.granularity_number > 0 && here.leaf >= 0 && tree.leaves[here.leaf].is_loss)
      return true;
  return false;
}
template <int Greatest, int Stages>
consteval void check_recomputed_stages() {
  static_assert(Greatest < Stages,
                "recompute<What, units::on_stages<Stages...>>: the pipeline has no stage with this "
                "number; stages are numbered from 0");
}
template <int Greatest, int Stages>
inline constexpr bool recomputes_on_stages = (check_recomputed_stages<Greatest, Stages>(), true);

}  // namespace plait::planning
