// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/placements.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/policy/policy.hpp"

namespace plait::planning {

/// One use of a parameter by one leaf, with the placements on the tensor axis that follow from the
/// chosen form. On the other axes the policies' `parameter_rules` place all parameters in the same
/// way. On the stage axis, only the stage of the leaf has the parameter; see `placements_of`.
struct parameter_entry {
  int leaf = 0;
  int index = 0;  ///< number among the parameters of the leaf
  int item = 0;
  parameter_info info{};
  placement used = invariant;    ///< placement that the layer's body sees
  placement stored = invariant;  ///< placement between steps
  std::size_t local_rows = 1, local_columns = 1;
  int owner = -1;  ///< for a tied use, the entry that owns the value
  bool is_frozen = false;

  [[nodiscard]] constexpr std::size_t local_count() const { return local_rows * local_columns; }
  /// Returns true if the entry is a parameter of its own, and not a tied use of another entry's
  /// parameter.
  [[nodiscard]] constexpr bool is_owner() const { return owner < 0; }
  /// Returns true if the optimizer updates this parameter.
  [[nodiscard]] constexpr bool is_trained() const { return is_owner() && has_gradient(); }
  /// Returns true if the backward computes a gradient of the parameter, so that an optimizer has
  /// states for it.
  [[nodiscard]] constexpr bool has_gradient() const { return !is_frozen && !info.is_buffer(); }
  /// Returns true if the gradient is summed over the tensor axis as well. This is the case for a
  /// parameter that layers use as replicate and that is stored as invariant.
  [[nodiscard]] constexpr bool reduced_over_tensor() const {
    return adjoint(transition_between(stored, used)).moves == collective::all_reduce;
  }
  /// Returns true if only the first rank of the tensor axis sees the value, and the others see
  /// zeros.
  [[nodiscard]] constexpr bool masked() const {
    return transition_between(stored, used).moves == local_move::mask;
  }
};

/// The placements of a parameter on all axes: `kept` between steps, `summed` for this use's
/// gradient accumulator during a step, `owned` by the optimizer. On the stage axis they only state
/// that one stage has the parameter; the number of this stage differs between the copies of a
/// repeat.
struct parameter_placements {
  placements kept{}, summed{}, owned{};
};
constexpr parameter_placements placements_of(parameter_entry const& use,
                                             parameter_rules const& rules, int stage = 0) {
  axis const on = rules.model_axis;
  return {rules.kept.with(on, use.stored).on_stage(stage),
          rules.summed.with(on, dual(use.used)).on_stage(stage),
          rules.owned.with(on, use.stored).on_stage(stage)};
}

/// Returns the transition that brings the gradient of a tied use to the placement of the owner's
/// gradient. The two gradients are added after this transition.
constexpr transition tie_transition(parameter_entry const& use, parameter_entry const& owner) {
  return transition_between(dual(use.used), dual(owner.used));
}

/// A member function of parameter_entry that selects entries.
using entry_test = bool (parameter_entry::*)() const;
/// A function that returns the number of tensors to count for an entry.
using entry_count = int (*)(parameter_entry const&);
constexpr int one_if_owner(parameter_entry const& entry) { return entry.is_owner() ? 1 : 0; }
constexpr int one_if_trained(parameter_entry const& entry) { return entry.is_trained() ? 1 : 0; }
constexpr int one_if_buffer(parameter_entry const& entry) {
  return entry.is_owner() && entry.info.is_buffer() ? 1 : 0;
}
constexpr int one_if_frozen(parameter_entry const& entry) {
  return entry.is_owner() && entry.is_frozen ? 1 : 0;
}

/// Returns the number of consecutive samples that stay on one rank and in one microbatch, because
/// layers mix them.
constexpr std::size_t count_samples_together(auto const& tree) {
  std::size_t out = 1;
  for (auto const& leaf : tree.leaves)
    if (leaf.mixes_samples != 0) out *= leaf.mixes_samples / std::gcd(out, leaf.mixes_samples);
  return out;
}

/// Returns true if no layer mixes positions of different documents of a sample. A layer mixes
/// positions if it has a sequence and no form cuts the sequence.
constexpr bool keeps_documents_apart(auto const& tree) {
  for (auto const& leaf : tree.leaves) {
    bool mixes = leaf.sequence > 1 && !leaf.is_loss && !leaf.takes_documents;
    for (auto const& form : leaf.forms)
      if (form.inputs.at[0] == shard<dim::sequence>) mixes = false;
    if (mixes) return false;
  }
  return true;
}

/// Returns true if a layer sums over the samples of a microbatch, on all ranks.
constexpr bool sums_over_samples(auto const& tree) {
  for (auto const& leaf : tree.leaves)
    for (int i = 0; i < leaf.forms.size(); ++i)
      if (leaf.forms[i].sum_count > 0) return true;
  return false;
}

/// Returns the number of tensors of the whole model. `counts` returns the number of tensors to
/// count for an entry; each copy of a repeat has its own tensors.
constexpr int count_tensors(auto const& code, auto const& entries, entry_count counts) {
  int count = 0;
  for (auto const& entry : entries) count += counts(entry) * code.items[entry.item].count;
  return count;
}

/// Returns the number of elements of the entries that `counts` selects in the whole model, without
/// padding.
constexpr std::size_t count_elements(auto const& code, auto const& entries, entry_test counts) {
  std::size_t count = 0;
  for (auto const& entry : entries)
    if ((entry.*counts)())
      count += entry.info.unpadded().count() * std::size_t(code.items[entry.item].count);
  return count;
}

/// Returns the number of tensors of the model that come before the tensors of entry `entry` in copy
/// `copy`.
constexpr int number_of_tensor(static_view<item> items, static_view<parameter_entry> entries,
                               entry_count counts, int entry, int copy) {
  int number = 0, in_copy = 0, before = 0;
  int const item = entries[entry].item;
  for (int e = 0; e < entries.size(); ++e) {
    int const own = counts(entries[e]);
    if (entries[e].item < item) number += own * items[entries[e].item].count;
    if (entries[e].item != item) continue;
    before += e < entry ? own : 0;
    in_copy += own;
  }
  return number + copy * in_copy + before;
}

/// Returns the names of the parameters, in the order of the entries, with a star in place of the
/// number of a copy.
[[gnu::cold]] std::vector<std::string> parameter_names(auto const& tree, auto const& entries) {
  auto const leaves = leaf_names(tree);
  std::vector<std::string> names;
  for (auto const& entry : entries)
    names.push_back(
        concat({leaves[static_cast<std::size_t>(entry.leaf)], entry.info.label.text()}));
  return names;
}

/// The mistakes in a tie: no earlier layer has the parameter; the parameter has another shape or
/// another placement; one of the two layers is in a repeat; or only one of the two is frozen.
enum class tie_error : int {
  none,
  unknown_owner,
  other_shape,
  other_placement,
  other_item,
  other_frozen
};

/// The parameters of all leaves, or the first tie that is wrong. `Uses`: the number of parameters
/// that all leaves list together.
template <int Leaves, int Uses>
struct parameter_list_result {
  static_vector<parameter_entry, Uses> entries{};
  tie_error problem = tie_error::none;
  int problem_tie = 0;  ///< number of the wrong tie in the tree
  /// For each leaf, the index of its first entry.
  std::array<int, static_cast<std::size_t>(Leaves)> first_entry{};
};

/// Returns parameter `index` of a layer in one of its forms, without the layer's position in the
/// model.
constexpr parameter_entry used_parameter(leaf_info const& layer, form_info const& form, int index,
                                         int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  parameter_entry entry{.index = index, .info = layer.parameters[index]};
  entry.used = form.uses[std::size_t(index)];
  entry.stored = stored(entry.used);
  bool const cut = is_shard(entry.stored);
  bool const cut_rows = cut && entry.info.rank == 2 && entry.stored.index == 0;
  entry.local_rows = entry.info.rows / (cut_rows ? p : 1);
  entry.local_columns = entry.info.columns / (cut && !cut_rows ? p : 1);
  return entry;
}

/// Lists the parameters of all leaves in the chosen forms.
template <int Uses, class Tree, int Leaves>
constexpr auto list_parameters(Tree const& tree, program<Leaves> const& code, int ranks) {
  parameter_list_result<Leaves, Uses> out;
  auto& [entries, problem, problem_tie, first_entry] = out;
  for (int item = 0; item < code.items.size(); ++item)
    for (int leaf = code.items[item].first_leaf; leaf < code.items[item].end_leaf; ++leaf) {
      first_entry[std::size_t(leaf)] = entries.size();
      for (int i = 0; i < tree.leaves[leaf].parameters.size(); ++i) {
        parameter_entry entry = used_parameter(tree.leaves[leaf], code.form(leaf), i, ranks);
        entry.leaf = leaf;
        entry.item = item;
        entry.is_frozen = tree.leaves[leaf].is_frozen;
        entries.push_back(entry);
      }
    }
  if (tree.ties.size() == 0) return out;
  auto const leaves = leaf_characters(tree);
  auto const is_called = [&](parameter_entry const& entry, name what) {
    auto const& leaf = leaves[static_cast<std::size_t>(entry.leaf)];
    return joined(leaf, entry.info.label) == joined({}, what);
  };
  for (int number = 0; number < tree.ties.size() && problem == tie_error::none; ++number)
    for (int at = 0; at < entries.size(); ++at) {
      auto const& link = tree.ties[number];
      problem_tie = number;
      auto& entry = entries[at];
      if (entry.leaf != link.leaf || entry.index != link.parameter) continue;
      for (int owner = 0; owner < at; ++owner)
        if (is_called(entries[owner], link.owner)) entry.owner = owner;
      if (entry.owner < 0) {
        problem = tie_error::unknown_owner;
        continue;
      }
      auto const& owner = entries[entry.owner];
      if (owner.info.rows != entry.info.rows || owner.info.columns != entry.info.columns ||
          owner.info.padding != entry.info.padding)
        problem = tie_error::other_shape;
      else if (owner.stored != entry.stored || !tie_transition(entry, owner).is_made())
        problem = tie_error::other_placement;
      else if (code.items[entry.item].repeated || code.items[owner.item].repeated)
        problem = tie_error::other_item;
      else if (owner.is_frozen != entry.is_frozen) problem = tie_error::other_frozen;
    }
  return out;
}

}  // namespace plait::planning
