// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>

#include "plait/backend/matrix.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

// The arguments of attention other than pointers; plain data for all devices.
namespace plait::ext {

/// The mask of an attention: which keys of the query's own sample a query attends to.
struct attention_options {
  bool causal = true;  ///< true: keys of the query's own and earlier positions; false: all keys
  /// The number of keys that a query sees: the key at its own position and the keys directly before
  /// it. 0: no limit.
  std::size_t window = 0;
  friend constexpr bool operator==(attention_options const&, attention_options const&) = default;
  friend constexpr auto operator<=>(attention_options const&, attention_options const&) = default;
};

/// The range of keys from `first` to `last`, both included.
struct key_range {
  std::size_t first, last;
};

/// Returns the first and the last key that a query attends to; every device uses this rule. From
/// one query to the next, both keys stay the same or move forward.
PLAIT_HOST_DEVICE constexpr key_range visible_keys(attention_options const& how, std::size_t query,
                                                   std::size_t sequence) {
  std::size_t const last = how.causal ? query : sequence - 1;
  return {how.window != 0 && last >= how.window ? last - how.window + 1 : 0, last};
}

/// Returns the first query that attends to a key.
PLAIT_HOST_DEVICE constexpr std::size_t first_query_of(attention_options const& how,
                                                       std::size_t key) {
  return how.causal ? key : 0;
}

/// The sizes of an attention on one rank, and its mask.
struct attention_shape {
  std::size_t sequence = 0;
  std::size_t batch = 0;
  std::size_t heads = 0;  ///< query heads
  std::size_t head_width = 0;
  /// Query head h reads key-value head h / queries_per_key.
  std::size_t queries_per_key = 1;
  attention_options options{};

  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t key_value_heads() const {
    return heads / queries_per_key;
  }
  friend constexpr bool operator==(attention_shape const&, attention_shape const&) = default;
  friend constexpr auto operator<=>(attention_shape const&, attention_shape const&) = default;
};

/// The sizes on one rank of an attention whose query, key and value are the three thirds of each
/// row of one matrix. The attention is causal, and each query head has its own key-value head.
struct equal_heads {
  std::size_t sequence = 0;
  std::size_t batch = 0;
  std::size_t heads = 0;
  std::size_t head_width = 0;

  // NOLINTNEXTLINE: implicit, since equal_heads is a special case of attention_shape
  constexpr operator attention_shape() const { return {sequence, batch, heads, head_width}; }
};

/// Pointers to query, key and value of an attention, or to their gradients. A row holds all heads
/// of one position of one sample, one head after another.
template <class T>
struct attention_operands {
  T *q, *k, *v;
  std::size_t query_stride;  ///< elements from one row of q to the next
  std::size_t key_stride;    ///< elements from one row of k or v to the next
};

/// Returns pointers to the matrices q, k and v, and their strides; k and v must have the same
/// stride.
template <class T>
constexpr attention_operands<T> operands_of(matrix<T> q, matrix<T> k, matrix<T> v) {
  return {q.data, k.data, v.data, q.stride, k.stride};
}

/// Query, key and value of an attention as separate matrices.
template <class T>
struct query_key_value {
  matrix<T> q, k, v;
};
/// Returns query, key and value as views of a matrix whose rows consist of a query, a key and a
/// value of equal width.
template <class T>
constexpr query_key_value<T> side_by_side(matrix<T> qkv) {
  std::size_t const width = qkv.columns / 3;
  return {{qkv.data, qkv.rows, width, qkv.stride},
          {qkv.data + width, qkv.rows, width, qkv.stride},
          {qkv.data + 2 * width, qkv.rows, width, qkv.stride}};
}

/// The number of queries whose scores are in attention's scratch memory at one time.
inline constexpr std::size_t attention_query_block = 64;

/// Returns the number of elements of scratch memory that attention needs; the gradient of attention
/// needs twice as many.
constexpr std::size_t attention_scratch(std::size_t sequence) {
  return std::min(sequence, attention_query_block) * sequence;
}

/// The numbers of heads of an attention layer, before a policy distributes them over ranks, and the
/// mask. Heads / KeyValueHeads consecutive query heads read one key-value head.
template <std::size_t Heads, std::size_t KeyValueHeads, std::size_t HeadWidth,
          attention_options Options = attention_options{}>
struct head_groups {
  static_assert(KeyValueHeads > 0 && Heads % KeyValueHeads == 0,
                "attention<Heads, KeyValueHeads, ...>: Heads is not a multiple of KeyValueHeads; "
                "each key-value head is read by Heads / KeyValueHeads query heads");
  static_assert(HeadWidth > 0,
                "attention<Heads, KeyValueHeads, HeadWidth, ...>: HeadWidth is 0; it is the number "
                "of features of one head");
  static_assert(
      Options.window == 0 || Options.causal,
      "attention<..., {.causal, .window}>: a window consists of the last keys that the causal mask "
      "allows, but causal is false; write .causal = true or leave out .window");
  static constexpr std::size_t heads = Heads;
  static constexpr std::size_t key_value_heads = KeyValueHeads;
  static constexpr std::size_t queries_per_key = Heads / KeyValueHeads;
  static constexpr std::size_t head_width = HeadWidth;
  static constexpr attention_options options = Options;
};

}  // namespace plait::ext
