// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/core/namespaces.hpp"
#include "plait/placement/placement.hpp"

namespace plait::ext {

/// The tag by which a type declares itself a kind of memory: `using concept_tag = memory_tag;`.
struct memory_tag {};

/// Ordinary memory of the process. Devices of other backends have their own types, so that a host
/// pointer is never passed to a device by mistake.
struct host_memory {
  using concept_tag = memory_tag;
};

}  // namespace plait::ext

namespace plait {

/// A tensor as a layer's body sees it: the local block of a matrix, with its placement on the
/// tensor axis in its type.
///
/// In a view, `shard<0>` means that the ranks hold blocks of the rows (positions, or rows of a
/// parameter), and `shard<1>` blocks of the columns (features). For example, with 4 tensor ranks
/// and 1024 features, a view placed `shard<1>` has 256 columns.
/// Shapes:  (rows, columns), contiguous, row-major; a vector has one row.
template <class T, placement At = invariant, class Memory = ext::host_memory>
struct view {
  using element = T;
  using memory = Memory;
  static constexpr placement at = At;

  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;

  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }

  /// Converts to a read-only view; it is a template, since nvcc warns of a conversion to the own
  /// type.
  template <class Other>
    requires(!std::is_const_v<T> && std::is_same_v<Other, T const>)
  constexpr operator view<Other, At, Memory>() const {  // NOLINT: implicit, as for pointers
    return {data, rows, columns};
  }
};

}  // namespace plait

namespace plait::ext {

/// A view that a matrix product reads transposed.
///
/// Example (tests/reference/names_in_use_test.cpp transposed):
///     static void backward_input(auto& ops, auto l) {  // dx = dy w^T
///       ops.matmul(l.dy, plait::transposed(l.p[weight{}]), l.dx);
///     }
template <class View>
struct transposed_view {
  View of;
};

}  // namespace plait::ext

namespace plait {

/// Returns the view marked to be read transposed by a matrix product; nothing is copied.
template <class T, placement At, class Memory>
constexpr ext::transposed_view<view<T, At, Memory>> transposed(view<T, At, Memory> what) {
  return {what};
}

/// A result to which an element-wise function is applied at once: `of` receives the values and
/// `mapped` receives f of them, or f(kept, value) if f takes two operands.
///
/// A layer with `takes_epilogue` gets one in place of y or dx if the next step is such a function,
/// and passes it to the product that writes the result. The function is then part of the product's
/// kernel.
template <class View, class Function, class Kept = void>
struct mapped_view {
  static constexpr placement at = View::at;

  View of;
  View mapped;
  Function f{};
  Kept kept;
};
template <class View, class Function>
struct mapped_view<View, Function, void> {
  static constexpr placement at = View::at;

  View of;
  View mapped;
  Function f{};
};

/// Integers, one for each row: tokens or labels.
template <class Memory = ext::host_memory>
struct token_view {
  std::int32_t const* data = nullptr;
  std::size_t rows = 0;
};

}  // namespace plait

namespace plait::ext {

/// A result to which another matrix is added at once: `sum` receives of + added. `sum` may share
/// the memory of `of` and, for an operation other than a product, the memory of `added`.
///
/// A layer with `takes_sum` gets one in place of dx if a residual begins in front of it, and a
/// layer with `takes_epilogue` gets one in place of y if a residual ends after it. The layer passes
/// it to the operation that writes dx or y. The contents of `of` are undefined afterwards.
template <class View>
struct summed_view {
  static constexpr placement at = View::at;

  View of, added, sum;
};

/// Returns the placement of an activation in a view: blocks of positions are rows, blocks of
/// features are columns.
constexpr placement view_placement_of_value(placement at) {
  if (!is_shard(at)) return at;
  return at.index == dim::features ? placement{at.kind, 1, at.parts} : placement{at.kind, 0, 1};
}

/// Returns the placement of a parameter in a view: a vector is one row.
constexpr placement view_placement_of_parameter(placement at, int rank) {
  if (!is_shard(at)) return at;
  return rank == 1 ? placement{at.kind, 1, at.parts} : at;
}

}  // namespace plait::ext
