// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/placement/slice_tree.hpp"

namespace plait::ext {

/// The rule by which a global batch is cut into equal consecutive slices. Each slice is one
/// microbatch of a data rank, and each data rank has consecutive slices.
///
/// `reproducible` or `shares` sets the rule. Without them, each rank has as many slices as the
/// program asks for microbatches. Example: under shares<3, 1> with 2 microbatches
/// there are 8 slices, of which rank 0 has the slices 0 to 5 and rank 1 the slices 6 and 7.
struct batch_slicing {
  int slices = 0;             ///< number of slices under `reproducible`; 0 without it
  static_view<int> shares{};  ///< shares of the data ranks under `shares`; empty without it

  [[nodiscard]] constexpr bool has_shares() const { return shares.size() > 0; }
  /// True if data ranks may have different numbers of slices.
  [[nodiscard]] constexpr bool is_given() const { return slices > 0 || has_shares(); }

  /// Returns the sum of the shares of ranks 0 to rank - 1. If `rank` is the number of ranks, it is
  /// the sum of all shares.
  [[nodiscard]] constexpr int shares_before(int rank) const {
    int sum = 0;
    for (int r = 0; r < rank; ++r) sum += shares[r];
    return sum;
  }
  /// The number of slices of a global batch for `ranks` data ranks. `microbatches`: the number that
  /// the program asks for, which the number of slices of `reproducible` does not depend on.
  [[nodiscard]] constexpr int count(int ranks, int microbatches) const {
    if (slices > 0) return slices;
    return (has_shares() ? shares_before(shares.size()) : ranks) * microbatches;
  }
  /// The slices of a rank.
  [[nodiscard]] constexpr slice_range of_rank(int rank, int ranks, int microbatches) const {
    if (slices > 0) return slice_tree(slices).of_rank(rank, ranks);
    if (!has_shares()) return {rank * microbatches, microbatches};
    return {shares_before(rank) * microbatches, shares[rank] * microbatches};
  }
  /// The first rank that has the greatest share; 0 without shares.
  [[nodiscard]] constexpr int greatest() const {
    int out = 0;
    for (int rank = 1; rank < shares.size(); ++rank)
      if (shares[rank] > shares[out]) out = rank;
    return out;
  }
  /// Returns true if all of `ranks` data ranks have equal numbers of slices.
  [[nodiscard]] constexpr bool is_equal(int ranks) const {
    for (int const share : shares)
      if (share != shares[0]) return false;
    return slices % ranks == 0;
  }

  friend constexpr bool operator==(batch_slicing const& a, batch_slicing const& b) {
    if (a.slices != b.slices || a.shares.size() != b.shares.size()) return false;
    for (int rank = 0; rank < a.shares.size(); ++rank)
      if (a.shares[rank] != b.shares[rank]) return false;
    return true;
  }
};

/// Returns the shares as the option `shares`, for example "shares<3, 1>"; "" if there are none.
[[nodiscard]] [[gnu::cold]] std::string text_of_shares(static_view<int> const& shares);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/placement/batch_slicing.ipp"
#endif
