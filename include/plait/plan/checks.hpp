// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "plait/plan/form_planner.hpp"
#include "plait/plan/outline.hpp"
#include "plait/plan/parameter_plan.hpp"
#include "plait/plan/program.hpp"
#include "plait/plan/stage_split.hpp"
#include "plait/schedule/proof.hpp"

// What a plan asserts of its model and policies. The numbers are template arguments, so that
// compilers print them next to the text.
namespace plait {

namespace detail {

template <planning_error Error, class Layer, std::size_t Length, int Ranks>
consteval void check_forms() {
  static_assert(Error != planning_error::nothing_divides,
                "tensor_parallel<Ranks>: Layer has no form whose Length (features, vocabulary or "
                "heads) is a multiple of Ranks; choose a Ranks that divides it, pad the layer, or "
                "write pinned<\"whole\", Layer> to let every rank do all its work");
  static_assert(Error != planning_error::pin_not_divisible,
                "pinned<Label, Layer>: the Length that this form cuts is not a multiple of Ranks; "
                "pin another form, or choose a Ranks that divides it");
  static_assert(Error != planning_error::unknown_pin,
                "pinned<Label, Layer>: Layer has no form of that name; write one of the labels in "
                "its forms<...>");
  static_assert(Error != planning_error::no_chain,
                "tensor_parallel<Ranks>: no chain of forms leads through the model (a repeat needs "
                "a form that ends as it began); unpin a form, or add a `whole` form to your layer");
}

template <int Stages, int Units>
consteval void check_stage_count() {
  static_assert(Stages <= Units,
                "pipeline<Stages>: the model has only Units layers (copies within a repeat "
                "included), fewer than Stages; use fewer stages");
}

template <std::size_t One, std::size_t Other>
consteval void check_sequences() {
  static_assert(One == 0 || Other == 0 || One == Other,
                "this model has layers for sequences of length One and of length Other; give all "
                "its layers the same sequence length");
}

template <std::size_t Sequence, int Ranks>
consteval void check_sequence_shards() {
  static_assert(Sequence != 1,
                "tensor_parallel<Ranks, sequence::sharded>: no layer of this model has a sequence, "
                "so there are no positions to divide; write tensor_parallel<Ranks>");
  static_assert(Sequence == 1 || Sequence % static_cast<std::size_t>(Ranks) == 0,
                "tensor_parallel<Ranks, sequence::sharded>: the Sequence length is not a multiple "
                "of Ranks; use sequence::unsharded or another Ranks");
}

template <class Schedule, int Stages>
consteval void check_schedule() {
  if constexpr (Stages > 1 && !is_proved_by_tests<Schedule>)
    require_proven_up_to<Schedule, Stages, 2 * Stages>();
}

template <tie_error Problem>
consteval void check_ties() {
  static_assert(Problem != tie_error::unknown_owner,
                "tied<L, Parameter, Owner>: no parameter of an earlier layer is called Owner; "
                "write its full name, as in \"wte.weight\"");
  static_assert(Problem != tie_error::other_shape,
                "tied<L, Parameter, Owner>: the owner has another shape than Parameter; give one "
                "of the layers other extents, or a linear layer the other weight_order");
  static_assert(Problem != tie_error::other_placement,
                "tied<L, Parameter, Owner>: the two layers keep the parameter in different "
                "placements; pin forms that cut it alike");
  static_assert(Problem != tie_error::other_item,
                "tied<L, Parameter, Owner>: a parameter inside a repeat cannot be tied; write the "
                "copies out in a sequential");
}

constexpr std::size_t other_sequence(auto const& tree, std::size_t length) {
  for (auto const& leaf : tree.leaves)
    if (leaf.sequence != 0 && leaf.sequence != length) return leaf.sequence;
  return 0;
}

constexpr bool ties_stay_on_stages(auto const& code, auto const& entries, auto const& stage_units) {
  for (auto const& entry : entries)
    for (auto const& units : stage_units)
      if (entry.owner >= 0 && (copies_in(code, entry.item, units).copies > 0) !=
                                  (copies_in(code, entries[entry.owner].item, units).copies > 0))
        return false;
  return true;
}

constexpr bool has_nested_repeat(auto const& tree) {
  for (int i = 0; i < tree.nodes.size(); ++i) {
    auto const kind = tree.nodes[i].kind;
    if (kind != node_kind::repeat && kind != node_kind::residual) continue;
    for (int below = i + 1; below < tree.nodes[i].end; ++below)
      if (tree.nodes[below].kind == node_kind::repeat) return true;
  }
  return false;
}

/// True if two parameters would have one name, in files and in messages.
constexpr bool has_equal_names(auto const& tree) {
  auto const names = leaf_characters(tree);
  auto const label = [&](int leaf, int index) {
    return tree.leaves[leaf].parameters[std::size_t(index)].label;
  };
  for (int a = 0; a < tree.leaves.size(); ++a)
    for (int b = a + 1; b < tree.leaves.size(); ++b) {
      if (names[std::size_t(a)] != names[std::size_t(b)]) continue;
      for (int i = 0; i < tree.leaves[a].parameter_count; ++i)
        for (int k = 0; k < tree.leaves[b].parameter_count; ++k)
          if (label(a, i) == label(b, k)) return true;
    }
  return false;
}

constexpr bool cuts_sequence(auto const& code) {
  for (auto const& what : code.values)
    if (is_shard(what.at) && what.at.index == dim::sequence) return true;
  return false;
}

}  // namespace detail

}  // namespace plait
