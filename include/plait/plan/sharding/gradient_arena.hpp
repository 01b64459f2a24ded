// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/core/rounded_block.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/placements.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/policy/policy.hpp"

namespace plait::planning {

/// The rules by which a plan lays out the arena of a rank's gradients.
struct gradient_rules {
  placements samples{};
  parameter_rules parameters{};
  int slices = 0;  ///< slices of a global batch; 0: no slices
  std::size_t element_bytes = 0;
};

/// The arena in which a rank adds up gradients, in elements. It consists of accumulators, each as
/// long as all gradients, and of a send buffer and a receive buffer, through which ranks exchange
/// the summands of a block, piece by piece. For most plans there are one accumulator and no
/// buffers, because communicators add up the summands themselves. The exceptions are:
///
/// - Plans with slices. Their sums follow a fixed binary tree over the slices, so that they have
///   equal bits on any number of ranks. A partial sum that waits for its sibling in the tree needs
///   an accumulator of its own. The slices of a rank form subtrees of the tree, and the sum of each
///   subtree, its root, is sent to other ranks.
/// - Plans that round the gradients that ranks send. Each rank then has one root.
struct gradient_arena {
  int accumulators = 1;
  int roots = 1;           ///< the greatest number of subtrees, and so of roots, that a rank has
  std::size_t stride = 0;  ///< distance between two accumulators, in elements
  std::size_t sent_at = 0, received_at = 0, total = 0;

  /// The greatest number of bytes that a rank sends at one time. Each of the pieces for one root
  /// and one rank may be longer, because its length is rounded up to the alignment.
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  /// Returns the layout of an arena with one accumulator and without buffers.
  static constexpr gradient_arena of_sums(parameter_layout const& layout) {
    gradient_arena out;
    out.stride = layout.gradients_at.count;
    out.add_rooms(0);
    return out;
  }
  /// Puts the send buffer and the receive buffer, of `count` elements each, after the accumulators.
  constexpr void add_rooms(std::size_t count) {
    total = stride * std::size_t(accumulators);
    sent_at = total;
    received_at = sent_at + count;
    total = received_at + count;
  }
};

/// Returns the number of elements in which `count` gradients are sent: the gradients themselves, or
/// words of rounded blocks.
[[nodiscard]] constexpr std::size_t sent_count(wire_format format, std::size_t count) {
  return format == wire_format::unrounded ? count
                                          : count / rounded_elements * words_of_block(format);
}

/// Returns the number of gradients of each rank's block that a plan with slices sends in one call.
/// `ranks`, `roots`: the number of ranks, and the greatest number of roots of a rank.
[[gnu::cold]] constexpr std::size_t piece_of_roots(parameter_layout const& layout,
                                                   std::size_t ranks, std::size_t roots,
                                                   std::size_t element_bytes) {
  std::size_t longest = layout.tied_count;
  for (auto const& region : layout.regions) longest = std::max(longest, region.count);
  return std::min(longest / ranks,
                  rounded_up(gradient_arena::most_bytes / element_bytes / (ranks * roots),
                             parameter_alignment));
}

/// The number of gradients of each rank's block that ranks send rounded in one call, and the number
/// of words that a rank then sends to all ranks.
struct rounded_piece {
  std::size_t gradients = 0, words = 0;
};
/// Returns the pieces of a plan that rounds the gradients that ranks send.
[[gnu::cold]] constexpr rounded_piece piece_of_rounding(parameter_layout const& layout,
                                                        parameter_rules const& rules,
                                                        mesh const& complete) {
  std::size_t most = 1, least = 0;  // ranks along an axis
  for (axis const which : all_axes)
    if (auto const ranks = std::size_t(complete.size(which));
        rules.rounded_axes.contains(which) && ranks > 1) {
      most = std::max(most, ranks);
      least = least == 0 ? ranks : std::min(least, ranks);
    }
  if (least == 0) return {};
  std::size_t longest = 0;
  for (auto const& one : layout.buckets) longest = std::max(longest, one.elements.count);
  std::size_t const words = words_of_block(rules.sent) * most, bytes = words * sizeof(wire_word);
  std::size_t const blocks = std::min(longest / least / rounded_elements,
                                      (gradient_arena::most_bytes + bytes - 1) / bytes);
  return {blocks * rounded_elements, blocks * words};
}

/// Returns the layout of the arena of gradients. `layout`: the layout of the rank's parameters;
/// `complete`: the mesh with all its sizes.
[[gnu::cold]] constexpr gradient_arena lay_out_gradients(parameter_layout const& layout,
                                                         gradient_rules const& how,
                                                         mesh const& complete) {
  auto out = gradient_arena::of_sums(layout);
  if (how.parameters.rounds()) {
    auto const piece = piece_of_rounding(layout, how.parameters, complete);
    std::size_t const bytes = piece.words * sizeof(wire_word);
    out.add_rooms(
        rounded_up((bytes + how.element_bytes - 1) / how.element_bytes, parameter_alignment));
  }
  if (how.slices == 0) return out;
  slice_tree const tree(how.slices);
  int const ranks = block_of(how.samples, complete, {}).blocks;
  out.accumulators = tree.most_accumulators(ranks);
  out.roots = tree.most_roots(ranks);
  out.add_rooms(0);
  if (ranks == 1) return out;
  auto const all = std::size_t(ranks), roots = std::size_t(out.roots);
  out.add_rooms(all * roots * piece_of_roots(layout, all, roots, how.element_bytes));
  return out;
}

}  // namespace plait::planning
