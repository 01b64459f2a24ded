// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Consecutive slices of a global batch.
struct slice_range {
  int first = 0, count = 0;
  [[nodiscard]] constexpr int end() const { return first + count; }
  friend constexpr bool operator==(slice_range, slice_range) = default;
};

/// The binary tree along which the terms of a global batch's slices are summed, so that a sum has
/// the same bits for every number of ranks: floating-point sums depend on their order, and the tree
/// depends on the number of slices only.
///
/// A node of several slices is the sum of its left and its right child. The number of slices in the
/// left child is the largest power of two that is less than the number of slices in the node. Rank
/// r of n has the slices [slices * r / n, slices * (r + 1) / n). It computes the nodes whose slices
/// are all its own. The largest of these nodes are the rank's roots, which ranks exchange. For
/// example, 6 slices are ((0+1) + (2+3)) + (4+5); on two ranks rank 0 has slices 0 to 2 and the
/// roots 0+1 and 2, and rank 1 has slices 3 to 5 and the roots 3 and 4+5.
class slice_tree {
 public:
  /// Requires that `slices` is at least 1.
  constexpr explicit slice_tree(int slices) : slices_(slices) {}

  [[nodiscard]] constexpr int slices() const { return slices_; }

  /// The slices of a rank. A rank may have none only if there are more ranks than slices.
  [[nodiscard]] constexpr slice_range of_rank(int rank, int ranks) const {
    int const first = slices_ * rank / ranks;
    return {first, slices_ * (rank + 1) / ranks - first};
  }

  /// The work of a rank for one of its slices: it computes the slice, and then adds up complete
  /// nodes.
  struct step {
    int accumulator = 0;  ///< the accumulator in which the slice is computed, starting from zero
    /// The number of times that the last accumulator is then added to its predecessor and removed.
    int sums = 0;
  };
  /// The work of a rank for each of its slices, in their order. At the end the first accumulators
  /// hold the rank's roots.
  [[nodiscard]] constexpr lean_vector<step> steps(slice_range of) const {
    lean_vector<slice_range> held;
    lean_vector<step> out;
    for (int slice = of.first; slice < of.end(); ++slice) {
      step now{static_cast<int>(held.size()), 0};
      held.push_back({slice, 1});
      for (; held.size() > 1 && is_node(joined(held[held.size() - 2], held.back())); ++now.sums) {
        held[held.size() - 2] = joined(held[held.size() - 2], held.back());
        held.pop_back();
      }
      out.push_back(now);
    }
    return out;
  }
  /// The roots of a rank, in their order.
  [[nodiscard]] constexpr lean_vector<slice_range> roots(slice_range of) const {
    lean_vector<slice_range> out;
    add_roots({0, slices_}, of, out);
    return out;
  }

  /// The largest number of accumulators that any of `ranks` ranks needs: at most 2 log2(slices /
  /// ranks) + 2.
  [[nodiscard]] constexpr int most_accumulators(int ranks) const {
    int most = 0;
    for (int rank = 0; rank < ranks; ++rank)
      for (auto const& now : steps(of_rank(rank, ranks)))
        most = std::max(most, now.accumulator + 1);
    return most;
  }
  /// The largest number of roots that any of `ranks` ranks has.
  [[nodiscard]] constexpr int most_roots(int ranks) const {
    std::size_t most = 0;
    for (int rank = 0; rank < ranks; ++rank)
      most = std::max(most, roots(of_rank(rank, ranks)).size());
    return static_cast<int>(most);
  }
  /// The largest number of slices that any of `ranks` ranks has.
  [[nodiscard]] constexpr int most_slices(int ranks) const { return (slices_ + ranks - 1) / ranks; }

  /// The addition of accumulator `from` to accumulator `to`.
  struct sum {
    int to = 0, from = 0;
    friend constexpr bool operator==(sum, sum) = default;
  };
  /// The additions that sum the roots of all ranks into the first root of rank 0. Root i of a rank
  /// has number rank * most_roots(ranks) + i.
  [[nodiscard]] constexpr lean_vector<sum> sums_of_roots(int ranks) const {
    lean_vector<numbered> all;
    int const each = most_roots(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      int next = rank * each;
      for (auto const& root : roots(of_rank(rank, ranks))) all.push_back({root, next++});
    }
    lean_vector<sum> out;
    add_sums({0, slices_}, all, out);
    return out;
  }
  /// The additions that sum all slices. They equal sums_of_roots() for as many ranks as slices,
  /// where each slice is a root with the number of the slice.
  [[nodiscard]] constexpr lean_vector<sum> sums_of_slices() const { return sums_of_roots(slices_); }

 private:
  struct numbered {
    slice_range of;
    int number;
  };

  static constexpr slice_range joined(slice_range a, slice_range b) {
    return {a.first, a.count + b.count};
  }
  /// The number of slices in the left child of a node of `count` slices.
  static constexpr int left_of(int count) {
    int left = 1;
    while (2 * left < count) left *= 2;
    return left;
  }
  [[nodiscard]] constexpr bool is_node(slice_range wanted) const {
    slice_range at{0, slices_};
    while (at.count > wanted.count) {
      int const left = left_of(at.count);
      at = wanted.first < at.first + left ? slice_range{at.first, left}
                                          : slice_range{at.first + left, at.count - left};
    }
    return at == wanted;
  }
  [[gnu::cold]] static constexpr void add_roots(slice_range node, slice_range of,
                                                lean_vector<slice_range>& out) {
    if (node.end() <= of.first || of.end() <= node.first) return;
    if (of.first <= node.first && node.end() <= of.end()) return out.push_back(node);
    int const left = left_of(node.count);
    add_roots({node.first, left}, of, out);
    add_roots({node.first + left, node.count - left}, of, out);
  }
  /// Appends the additions that compute a node. Returns the number of the accumulator that then
  /// holds the node.
  [[gnu::cold]] static constexpr int add_sums(slice_range node, lean_vector<numbered> const& all,
                                              lean_vector<sum>& out) {
    for (auto const& one : all)
      if (one.of == node) return one.number;
    int const left = left_of(node.count);
    int const to = add_sums({node.first, left}, all, out);
    out.push_back({to, add_sums({node.first + left, node.count - left}, all, out)});
    return to;
  }

  int slices_;
};

}  // namespace plait::ext
