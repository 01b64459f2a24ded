// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The way in which the ranks along one mesh axis hold a value.
///
/// `replicate` and `invariant` are equal in memory. They differ in the gradient. If p ranks use a
/// replicated value for different work, each has a summand of the gradient, and the summands must
/// be reduced. If p ranks repeat the same work on an invariant value, each has the complete
/// gradient. For example, a bias that 4 data ranks add to different rows is replicate, because each
/// rank has the gradient of its own rows only; a bias that 4 tensor ranks add to the same rows is
/// invariant.
enum class placement_kind : int {
  replicate,  ///< equal on all ranks, and each rank uses it for different work
  invariant,  ///< equal on all ranks, and all ranks do the same work with it
  shard,      ///< rank r holds block r of one dimension
  partial,    ///< the value is the sum of the ranks' values
  /// Like `partial`, but the ranks' values are added along a slice_tree. Each rank holds several
  /// sums: one for each of its roots, the largest subtrees whose slices all belong to the rank.
  sliced,
  /// Like `partial`, but ranks send their values rounded (see rounded_block) and each rank adds the
  /// rounded values of its block in rank order.
  rounded,
  partial_max,  ///< the value is the maximum of the ranks' values; it has no gradient
  varying,      ///< each rank holds a value of its own, and no operation sums or compares them
  only,         ///< one rank holds the value, the others hold nothing
};

}  // namespace plait::ext

namespace plait {

/// The numbers of dimensions, for shards. An activation is stored as (sequence, batch, features),
/// and its dimensions are counted from the last. The dimensions of a parameter are counted from the
/// first: 0, 1, ... `elements` is the single dimension of an arena, which is the contiguous memory
/// of all parameters. A shard of it is a block of the arena's elements, independent of where
/// parameters begin and end.
namespace dim {
inline constexpr int elements = -4;
inline constexpr int sequence = -3;
inline constexpr int batch = -2;
inline constexpr int features = -1;
}  // namespace dim

/// A placement on one mesh axis; it can be a template argument.
struct placement {
  ext::placement_kind kind = ext::placement_kind::invariant;
  /// The dimension that a shard cuts, or the rank of an `only`.
  int index = 0;
  /// A shard may cut each of `parts` equal pieces of its dimension (query, key and value side by
  /// side); rank r then holds block r of every piece. Shards with different `parts` are different
  /// placements.
  int parts = 1;

  friend constexpr bool operator==(placement const&, placement const&) = default;
};

/// Every rank holds the whole value and uses it for different work.
inline constexpr placement replicate{ext::placement_kind::replicate};
/// Every rank holds the whole value, and all do the same work with it.
inline constexpr placement invariant{ext::placement_kind::invariant};
/// Every rank holds a summand; the value is their sum.
inline constexpr placement partial{ext::placement_kind::partial};

}  // namespace plait

namespace plait::ext {

/// Every rank holds one sum for each of its roots (subtrees of a slice_tree); the value is the sum
/// of the ranks' roots, added along the tree.
inline constexpr placement sliced{placement_kind::sliced};
/// Every rank holds a summand, which it rounds when it sends it; the value is the sum of the
/// rounded summands, in rank order.
inline constexpr placement rounded{placement_kind::rounded};
/// Every rank holds a value of its own, such as the parameters of a replica under `local_steps`.
inline constexpr placement varying{placement_kind::varying};

}  // namespace plait::ext

namespace plait {

/// The value is the maximum of the ranks' values; it has no gradient.
inline constexpr placement partial_max{ext::placement_kind::partial_max};

/// Rank r holds block r of dimension `Dim`. If `Parts` is above 1, the dimension consists of that
/// many equal pieces, and rank r holds block r of each piece.
///
/// Example (tests/reference/names_in_use_test.cpp shard):
///     constexpr plait::placement blocks = plait::shard<plait::dim::features>;
///     static_assert(blocks != plait::replicate);
template <int Dim, int Parts = 1>
inline constexpr placement shard{ext::placement_kind::shard, Dim, Parts};

}  // namespace plait

namespace plait::ext {

/// Rank `Rank` holds the value, the other ranks hold nothing.
template <int Rank>
inline constexpr placement only{placement_kind::only, Rank};

/// True if each rank holds a block.
constexpr bool is_shard(placement at) { return at.kind == placement_kind::shard; }
/// True if the value is a sum or a maximum over the ranks' values.
constexpr bool is_partial(placement at) {
  return at.kind == placement_kind::partial || at.kind == placement_kind::partial_max ||
         at.kind == placement_kind::sliced || at.kind == placement_kind::rounded;
}

/// True if every rank holds the same bits.
constexpr bool is_whole(placement at) {
  return at.kind == placement_kind::replicate || at.kind == placement_kind::invariant;
}

/// Returns the placement of the gradient of a value placed `at`: replicate becomes partial, partial
/// becomes replicate, and all others stay the same. dual(dual(at)) is `at`.
///
/// Errors: `partial_max`, `sliced`, `rounded` and `varying` have no gradient; they are returned
///         unchanged, and `transition_between` refuses the transitions of such gradients.
constexpr placement dual(placement at) {
  if (at.kind == placement_kind::replicate) return partial;
  if (at.kind == placement_kind::partial) return replicate;
  return at;
}

}  // namespace plait::ext

namespace plait {

/// Returns the placement as text, for example "shard<features>" or "partial".
[[gnu::cold]] constexpr std::string to_string(placement at) {
  switch (at.kind) {
    case ext::placement_kind::replicate: return "replicate";
    case ext::placement_kind::invariant: return "invariant";
    case ext::placement_kind::partial: return "partial";
    case ext::placement_kind::sliced: return "sliced";
    case ext::placement_kind::rounded: return "rounded";
    case ext::placement_kind::partial_max: return "partial_max";
    case ext::placement_kind::varying: return "varying";
    case ext::placement_kind::only: return ext::concat({"only<", at.index, ">"});
    case ext::placement_kind::shard: break;
  }
  std::string text = "shard<";
  text += at.index == dim::sequence   ? "sequence"
          : at.index == dim::batch    ? "batch"
          : at.index == dim::features ? "features"
          : at.index == dim::elements ? "elements"
                                      : ext::concat({at.index});
  if (at.parts != 1) text += ext::concat({", ", at.parts, " parts"});
  return text += ">";
}

}  // namespace plait
