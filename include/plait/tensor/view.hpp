// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/core/namespaces.hpp"
#include "plait/placement/placement.hpp"

namespace plait::ext {

/// A type says on purpose that it names a kind of memory by `using concept_tag = memory_tag;`.
struct memory_tag {};

/// Ordinary memory of the process. Devices of other backends have a type of their own, so that a
/// host pointer is never given to a device by mistake.
struct host_memory {
  using concept_tag = memory_tag;
};

}  // namespace plait::ext

namespace plait {

/// A view is what a layer's body sees of a tensor: the local block of a matrix, and in its type
/// where the ranks of the tensor axis have the rest.
///
/// In a view `shard<0>` means that the ranks hold blocks of the rows (positions, or rows of a
/// parameter) and `shard<1>` blocks of the columns (features).
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

  /// To a view that may only read; as a template, since nvcc warns of a conversion to its own type.
  template <class Other>
    requires(!std::is_const_v<T> && std::is_same_v<Other, T const>)
  constexpr operator view<Other, At, Memory>() const {  // NOLINT: implicit, as for pointers
    return {data, rows, columns};
  }
};

}  // namespace plait

namespace plait::ext {

/// A view to be read transposed in a matrix product.
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

/// Returns the view as one that a matrix product reads transposed, without a copy.
template <class T, placement At, class Memory>
constexpr ext::transposed_view<view<T, At, Memory>> transposed(view<T, At, Memory> what) {
  return {what};
}

/// A result that an element-wise function is applied to at once: `of` gets the values and `mapped`
/// f of them, or f(kept, value) if f takes two.
///
/// A layer with `takes_epilogue` gets one in place of y or dx where the next step is such a
/// function, and hands it to the product that writes it.
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

/// A result to which another matrix is added at once: `sum` gets of + added. It may lie where `of`
/// lies, and for an operation other than a product where `added` lies.
///
/// A layer with `takes_sum` gets one in place of dx where a residual begins before it, and one with
/// `takes_epilogue` in place of y where a residual ends after it; the layer hands it to the
/// operation that writes dx or y. The contents of `of` are undefined afterwards.
template <class View>
struct summed_view {
  static constexpr placement at = View::at;

  View of, added, sum;
};

/// Returns the placement of an activation as a view has it: blocks of positions are rows, of
/// features columns.
constexpr placement view_placement_of_value(placement at) {
  if (!is_shard(at)) return at;
  return at.index == dim::features ? placement{at.kind, 1, at.parts} : placement{at.kind, 0, 1};
}

/// Returns the placement of a parameter as a view has it: a vector is one row.
constexpr placement view_placement_of_parameter(placement at, int rank) {
  if (!is_shard(at)) return at;
  return rank == 1 ? placement{at.kind, 1, at.parts} : at;
}

}  // namespace plait::ext
