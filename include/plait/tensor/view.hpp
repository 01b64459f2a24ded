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

/// Memory of the process on the host. The memory of each kind of device has its own type, so that a
/// host pointer is never passed to a device by mistake.
struct host_memory {
  using concept_tag = memory_tag;
};

}  // namespace plait::ext

namespace plait {

/// A tensor that a layer's function receives: this rank's block of a matrix, with its placement on
/// the tensor axis as a part of the type.
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

  /// Converts to a read-only view. It is a template, because nvcc warns of a conversion to the
  /// view's own type.
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

/// Returns the view with a mark that makes a matrix product read the matrix transposed. No elements
/// are copied.
template <class T, placement At, class Memory>
constexpr ext::transposed_view<view<T, At, Memory>> transposed(view<T, At, Memory> what) {
  return {what};
}

}  // namespace plait

namespace plait::ext {

/// A result of an operation whose kernel also applies an element-wise function f to the result.
/// `of` receives the values, and `mapped` receives f(value), or f(kept, value) if f takes two
/// operands.
///
/// A layer with `takes_epilogue` gets a mapped_view in place of y or dx if the next operation is
/// such a function, and passes it to the product that writes y or dx. The function then runs in the
/// product's kernel.
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

}  // namespace plait::ext

namespace plait {

/// Integers, one for each row: tokens or labels.
template <class Memory = ext::host_memory>
struct token_view {
  std::int32_t const* data = nullptr;
  std::size_t rows = 0;
};

}  // namespace plait

namespace plait::ext {

/// A result of an operation whose kernel also adds another matrix to the result: `sum` receives
/// `of` + `added`. `sum` may share the memory of `of` and, for an operation other than a product,
/// the memory of `added`.
///
/// A layer with `takes_sum` gets a summed_view in place of dx if it is the first layer of a
/// residual, and a layer with `takes_epilogue` gets one in place of y if it is the last layer of a
/// residual. The layer passes it to the operation that writes dx or y. The contents of `of` are
/// undefined afterwards.
template <class View>
struct summed_view {
  static constexpr placement at = View::at;

  View of, added, sum;
};

/// Returns the placement that the view of an activation has: a block of positions is a block of
/// rows, a block of features is a block of columns.
constexpr placement view_placement_of_value(placement at) {
  if (!is_shard(at)) return at;
  return at.index == dim::features ? placement{at.kind, 1, at.parts} : placement{at.kind, 0, 1};
}

/// Returns the placement that the view of a parameter has. The view of a vector has one row.
constexpr placement view_placement_of_parameter(placement at, int rank) {
  if (!is_shard(at)) return at;
  return rank == 1 ? placement{at.kind, 1, at.parts} : at;
}

}  // namespace plait::ext
