// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "plait/core/namespaces.hpp"
#include "plait/placement/placement.hpp"
#include "plait/tensor/array_shape.hpp"
#include "plait/tensor/view.hpp"

// Conversions between views and the array types of other libraries. The header includes none of
// these libraries; it recognises their types by their members.

namespace plait::ext {

/// A type with the interface of std::mdspan: std::mdspan itself, Kokkos::mdspan, cuda::std::mdspan,
/// or a type of your own.
///
/// Meaning: as in the C++ standard. as() constructs the extents from one number for each dimension,
///          then the mapping from the extents (and from strides if the mapping has strides()), then
///          the array from the address and the mapping. All but the last must be possible in a
///          constant expression.
template <class Array>
concept mdspan_like = requires(Array const& array, std::size_t i) {
  typename Array::element_type;
  typename Array::index_type;
  typename Array::extents_type;
  typename Array::mapping_type;
  typename Array::accessor_type;
  typename Array::data_handle_type;
  { Array::rank() } -> std::convertible_to<std::size_t>;
  { Array::static_extent(i) } -> std::convertible_to<std::size_t>;
  { array.data_handle() } -> std::convertible_to<typename Array::data_handle_type>;
  { array.extent(i) } -> std::convertible_to<typename Array::index_type>;
  { array.stride(i) } -> std::convertible_to<typename Array::index_type>;
};

}  // namespace plait::ext

namespace plait::detail {

// The members of Array that as() and as_view() use, by the same names for all libraries. `rank` is
// the number of dimensions, `extent` and `stride` describe one of them, and `make` creates an array
// of given extents.
template <class Array>
struct array_type {
  static constexpr bool is_known = false;
};

template <mdspan_like Array>
struct array_type<Array> {
  static constexpr bool is_known = true;
  using element = typename Array::element_type;
  using index = typename Array::index_type;
  using mapping = typename Array::mapping_type;
  static constexpr std::size_t rank = Array::rank();
  using dimensions = std::make_index_sequence<rank>;
  // True if `Handle` is a pointer to elements: a plain pointer can be assigned to it and from it.
  // Pointers with __restrict are included.
  template <class Handle>
  static constexpr bool points_to_elements =
      requires(Handle handle, element* pointer) { pointer = handle, handle = pointer; };
  static constexpr bool has_plain_elements =
      points_to_elements<typename Array::data_handle_type> &&
      std::is_lvalue_reference_v<typename Array::accessor_type::reference>;
  static constexpr bool has_own_strides = false;

  static constexpr std::size_t alignment() {
    if constexpr (requires { Array::accessor_type::byte_alignment; })
      return Array::accessor_type::byte_alignment;
    else return alignof(element);
  }
  static constexpr std::size_t static_extent(std::size_t i) { return Array::static_extent(i); }

  template <std::size_t... I>
  static constexpr mapping mapping_of(array_extents const& extents, std::index_sequence<I...>) {
    typename Array::extents_type const shape(static_cast<index>(extents[I])...);
    if constexpr (requires(mapping const& of) { mapping(shape, of.strides()); }) {
      std::remove_cvref_t<decltype(std::declval<mapping const&>().strides())> strides{};
      array_extents const numbers = row_major_strides(rank, extents);
      ((strides[I] = static_cast<index>(numbers[I])), ...);
      return mapping(shape, strides);
    } else {
      return mapping(shape);
    }
  }
  static constexpr Array make(element* data, array_extents const& extents) {
    return Array(data, mapping_of(extents, dimensions{}));
  }

  // Returns true if the mapping is row-major for an array whose dynamic extents are the given
  // numbers.
  static constexpr bool is_row_major_at(array_extents extents) {
    for (std::size_t i = 0; i < rank; ++i)
      if (static_extent(i) != dynamic_extent) extents[i] = static_extent(i);
    array_extents const expected = row_major_strides(rank, extents);
    mapping const tried = mapping_of(extents, dimensions{});
    for (std::size_t i = 0; i < rank; ++i)
      if (extents[i] > 1 && static_cast<std::size_t>(tried.stride(i)) != expected[i]) return false;
    return true;
  }
  // True if the elements of a row are neighbours and rows have no gaps. The extents of the two
  // trials have no common divisor, so that a layout that pads rows fails one of them.
  static constexpr bool is_row_major() {
    if constexpr (rank < 1 || rank > most_array_rank) return true;  // the callers refuse such ranks
    else if constexpr (!mapping::is_always_strided()) return false;
    else if constexpr (requires { typename std::bool_constant<is_row_major_at({7, 5, 3})>; })
      return is_row_major_at({7, 5, 3}) && is_row_major_at({5, 3, 7});
    else return false;
  }

  static constexpr element* data(Array const& array) { return array.data_handle(); }
  static constexpr std::size_t extent(Array const& array, std::size_t i) {
    return static_cast<std::size_t>(array.extent(i));
  }
  static constexpr std::size_t stride(Array const& array, std::size_t i) {
    return static_cast<std::size_t>(array.stride(i));
  }
};

// Eigen::Map, without a declaration of Eigen. PointerType is `float const*` if Plain is const.
template <template <class, int, class> class Map, class Plain, int Options, class Stride>
  requires requires(Map<Plain, Options, Stride> const& map) {
    typename Map<Plain, Options, Stride>::Scalar;
    typename Map<Plain, Options, Stride>::PointerType;
    typename Map<Plain, Options, Stride>::Index;
    map.data() + map.innerStride() + map.outerStride();
    Map<Plain, Options, Stride>(typename Map<Plain, Options, Stride>::PointerType(), map.rows(),
                                map.cols(), Stride());
  }
struct array_type<Map<Plain, Options, Stride>> {
  static constexpr bool is_known = true;
  using map = Map<Plain, Options, Stride>;
  using element = std::remove_pointer_t<typename map::PointerType>;
  using index = typename map::Index;
  static constexpr int rows = map::RowsAtCompileTime, columns = map::ColsAtCompileTime;
  static constexpr bool is_vector = rows == 1 || columns == 1;
  static constexpr std::size_t rank = is_vector ? 1 : 2;
  static constexpr bool has_plain_elements = true;
  static constexpr bool has_own_strides =
      int(Stride::OuterStrideAtCompileTime) != 0 || int(Stride::InnerStrideAtCompileTime) != 0;

  // If Options contains an alignment, its value is the number of bytes: Eigen::Aligned16 is 16.
  static constexpr std::size_t alignment() {
    return Options == 0 ? alignof(element) : static_cast<std::size_t>(Options);
  }
  static constexpr std::size_t static_extent(std::size_t i) {
    int const extent = is_vector ? int(map::SizeAtCompileTime) : i == 0 ? rows : columns;
    return extent < 0 ? dynamic_extent : static_cast<std::size_t>(extent);
  }
  static constexpr bool is_row_major() { return is_vector || bool(map::IsRowMajor); }
  static map make(element* data, array_extents const& extents) {
    if constexpr (is_vector) return map(data, static_cast<index>(extents[0]));
    else return map(data, static_cast<index>(extents[0]), static_cast<index>(extents[1]));
  }

  static element* data(map const& array) { return const_cast<element*>(array.data()); }
  static std::size_t extent(map const& array, std::size_t i) {
    return static_cast<std::size_t>(is_vector ? array.size()
                                    : i == 0  ? array.rows()
                                              : array.cols());
  }
  static std::size_t stride(map const& array, std::size_t i) {
    return static_cast<std::size_t>(is_vector || i == 1 ? array.innerStride()
                                                        : array.outerStride());
  }
};

template <class View>
struct converted_view {
  static constexpr bool is_known = false;
};
template <class T, placement At, class Memory>
struct converted_view<view<T, At, Memory>> {
  static constexpr bool is_known = true;
  static constexpr placement at = At;
  using element = T;
  static constexpr std::size_t columns(view<T, At, Memory> of) { return of.columns; }
};
template <class Memory>
struct converted_view<token_view<Memory>> {
  static constexpr bool is_known = true;
  static constexpr placement at = invariant;
  using element = std::int32_t const;
  static constexpr std::size_t columns(token_view<Memory>) { return 1; }
};

// Asserts that Array can show the elements of View.
template <class Array, class View, bool HasHeads>
consteval bool check_array_of_view() {
  using array = array_type<Array>;
  using shown = converted_view<View>;
  static_assert(shown::is_known,
                "as<Array>(view): the argument is neither a view nor a token_view; for "
                "transposed(v) pass v, for a mapped_view or a summed_view pass one of its members");
  static_assert(array::is_known,
                "as<Array>(view): Array neither has the members of std::mdspan nor is it an "
                "Eigen::Map; write std::mdspan<float, std::dextents<std::size_t, 2>>, an mdspan "
                "of Kokkos or cuda::std, or Eigen::Map of a row-major matrix");
  if constexpr (shown::is_known && array::is_known) {
    using element = typename array::element;
    constexpr bool is_alike =
        std::is_same_v<std::remove_const_t<element>, std::remove_const_t<typename shown::element>>;
    static_assert(is_alike,
                  "as<Array>(view): the elements of Array are of another type than the view's; "
                  "write typename decltype(view)::element");
    static_assert(!is_alike || std::is_convertible_v<typename shown::element*, element*>,
                  "as<Array>(view): the view is read-only, and Array could write to it; write "
                  "mdspan<float const, ...>, or Eigen::Map<Matrix const>");
    constexpr bool has_rank = array::rank >= 1 && array::rank <= most_array_rank;
    static_assert(has_rank,
                  "as<Array>(view): Array has another rank than 1, 2 or 3; a view is a matrix: "
                  "write (rows, columns), one dimension for a vector, or (rows, heads, columns of "
                  "a head)");
    static_assert(!HasHeads || array::rank == 3 || !has_rank,
                  "as<Array>(view, heads): Array has no dimension for heads; leave out the number, "
                  "or write an Array of rank 3");
    if constexpr (!HasHeads && array::rank == 3)
      static_assert(
          array::static_extent(1) != dynamic_extent || array::static_extent(2) != dynamic_extent,
          "as<Array>(view): an Array of rank 3 has the heads of each row, and their "
          "number is not known; write as<Array>(view, heads) with the heads of this "
          "rank");
    static_assert(array::is_row_major(),
                  "as<Array>(view): a view is row-major without gaps, and the layout of Array is "
                  "not, or it cannot be used in a constant; write layout_right or layout_stride, "
                  "for Eigen RowMajor");
    static_assert(array::has_plain_elements,
                  "as<Array>(view): the accessor of Array does not access an array of "
                  "element_type by a pointer; write default_accessor");
    static_assert(!array::has_own_strides,
                  "as<Array>(view): a view has no gaps; leave out the StrideType of Eigen::Map");
    return is_alike && has_rank && array::is_row_major() && array::has_plain_elements &&
           std::is_convertible_v<typename shown::element*, element*> && !array::has_own_strides;
  } else {
    return false;
  }
}

template <class Array, bool HasHeads, class View>
Array array_of_view(View of, std::size_t heads) {
  if constexpr (check_array_of_view<Array, View, HasHeads>()) {
    using array = array_type<Array>;
    using shown = converted_view<View>;
    array_request request{
        .rank = array::rank,
        .most = static_cast<std::size_t>(std::numeric_limits<typename array::index>::max()),
        .alignment = array::alignment(),
        .data = of.data,
        .rows = of.rows,
        .columns = shown::columns(of),
        .has_heads = HasHeads,
        .heads = heads,
        .at = shown::at};
    for (std::size_t i = 0; i < array::rank; ++i) request.extents[i] = array::static_extent(i);
    return array::make(of.data, extents_of_array(request));
  } else {
    __builtin_unreachable();
  }
}

}  // namespace plait::detail

namespace plait::ext {

/// Returns a view as an array type of another library, for kernels that are written with it:
/// std::mdspan (C++23), Kokkos::mdspan, cuda::std::mdspan, any type that is mdspan_like, or
/// Eigen::Map. Nothing is copied; the result refers to the elements of the view. Include the
/// library yourself, plait does not.
///
/// Example (tests/tensor/mdspan_test.cpp as):
///     auto const add_sums_of_heads = [](auto const& /*queue*/, auto x, auto y) {
///       auto const from = plait::ext::as<three_columns>(x);  // (rows, heads, 3)
///       auto const to = plait::ext::as<matrix>(y);           // (rows, heads)
///       for (int r = 0; r < from.extent(0); ++r)
///         for (int h = 0; h < from.extent(1); ++h)
///           for (int c = 0; c < 3; ++c) to(r, h) += from(r, h, c);
///     };
///
/// Shapes:  of rank 2 (rows, columns); of rank 1 a view with one row or one column; of rank 3
///          (rows, heads, columns of a head). All are sizes of this rank's block. A token_view has
///          one column. An extent in the type must be the view's; a layout_stride has the view's
///          strides.
/// Errors:  size_mismatch if a size in the type is not the size of the view, if the sizes of the
///          view are too large for index_type, or if heads do not divide the columns; input_error
///          if the type promises an alignment that the view's address does not have.
/// Cost:    a few comparisons.
/// Threads: any. The elements of a view in a GPU's memory can only be accessed on the GPU, so
///          create the array on the host and pass it to the code of the GPU.
template <class Array, class View>
Array as(View of) {
  return detail::array_of_view<Array, false>(of, 0);
}
/// Returns a view as an array (rows, heads, columns / heads); `heads` is the number of heads that
/// this rank has.
template <class Array, class View>
Array as(View of, std::size_t heads) {
  return detail::array_of_view<Array, true>(of, heads);
}

/// Returns an array of another library as a view placed `At` in a memory, for example to call a
/// kernel in a test. Nothing is copied.
///
/// Example (tests/tensor/mdspan_test.cpp as_view):
///     std::vector<float> x{3, 4, 0, 5, 6, 8}, y(6);
///     using matrix = small::mdspan<float, small::extents<int, small::dynamic_extent, 2>>;
///     auto const doubled = [](auto from, auto to) {  // a kernel that takes views
///       for (std::size_t i = 0; i < from.count(); ++i) to.data[i] = 2 * from.data[i];
///     };
///     matrix const input(x.data(), matrix::mapping_type(matrix::extents_type(3, 2)));
///     matrix const output(y.data(), matrix::mapping_type(matrix::extents_type(3, 2)));
///     doubled(plait::ext::as_view(input), plait::ext::as_view(output));
///
/// Shapes:  (n) becomes a view of one row, (rows, heads, columns of a head) a view with all heads
///          in a row.
/// Errors:  size_mismatch if elements of a row are not neighbours or rows have gaps, as in a part
///          of a matrix: a view has neither.
/// Cost:    a few comparisons.
template <placement At = invariant, class Memory = host_memory, class Array>
auto as_view(Array const& of) {
  using array = detail::array_type<Array>;
  static_assert(array::is_known,
                "as_view(array): the array neither has the members of std::mdspan nor is it an "
                "Eigen::Map; for a matrix of Eigen write Eigen::Map<Matrix>(m.data(), m.rows(), "
                "m.cols())");
  if constexpr (array::is_known) {
    constexpr bool has_rank = array::rank >= 1 && array::rank <= detail::most_array_rank;
    static_assert(has_rank,
                  "as_view(array): the array has another rank than 1, 2 or 3; a view is a matrix: "
                  "write an array (rows, columns), (columns) or (rows, heads, columns of a head)");
    static_assert(array::is_row_major(),
                  "as_view(array): a view is row-major without gaps, and the layout of the array "
                  "is not, or it cannot be used in a constant; copy it to an array with "
                  "layout_right, for Eigen RowMajor");
    static_assert(array::has_plain_elements,
                  "as_view(array): the accessor of the array does not access an array of "
                  "element_type by a pointer; write default_accessor");
    if constexpr (has_rank) {
      detail::array_extents extents{}, strides{};
      for (std::size_t i = 0; i < array::rank; ++i) {
        extents[i] = array::extent(of, i);
        strides[i] = array::stride(of, i);
      }
      auto const shape = detail::view_shape_of_array(array::rank, extents, strides);
      return view<typename array::element, At, Memory>{array::data(of), shape.rows, shape.columns};
    }
  }
}

}  // namespace plait::ext
