// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/element_place.hpp"

// Operations on single elements, and on rows that one thread computes. Functions of elements get
// values of type accumulate_t<T>.

namespace plait::cuda_kernels {

template <int V, class T>
__global__ void fill_kernel(T value, T* y, element_range range) {
  pack<T, V> values;
  for (T& each : values.value) each = value;
  for_each_pack<V>(range, [&](std::size_t i) { store(values, y + i); });
}

/// Sets every element of y to `value`.
template <launcher Launch, class T>
void fill(Launch launch, std::type_identity_t<T> value, T* y, std::size_t n) {
  constexpr int wide = vector_elements<T>;
  launch_packs<wide>(launch, fits_vectors(y), n, fill_kernel<wide, T>, fill_kernel<1, T>, value, y);
}

template <int V, class T>
__global__ void swap_kernel(T* a, T* b, element_range range) {
  for_each_pack<V>(range, [&](std::size_t i) {
    auto const first = load<V>(a + i);
    auto const second = load<V>(b + i);
    store(second, a + i);
    store(first, b + i);
  });
}

/// Swaps the elements of a and b. The arrays do not overlap.
template <launcher Launch, class T>
void swap(Launch launch, T* a, T* b, std::size_t n) {
  constexpr int wide = vector_elements<T>;
  launch_packs<wide>(launch, fits_vectors(a, b), n, swap_kernel<wide, T>, swap_kernel<1, T>, a, b);
}

template <int V, class T>
__global__ void add_and_clear_kernel(T* sum, T* x, element_range range) {
  for_each_pack<V>(range, [&](std::size_t i) {
    auto total = load<V>(sum + i);
    auto const more = load<V>(x + i);
    pack<T, V> zeros;
    PLAIT_UNROLL
    for (int k = 0; k < V; ++k) {
      total.value[k] = static_cast<T>(static_cast<accumulate_t<T>>(total.value[k]) +
                                      static_cast<accumulate_t<T>>(more.value[k]));
      zeros.value[k] = T{};
    }
    store(total, sum + i);
    store(zeros, x + i);
  });
}

/// sum += x, then x = 0. The arrays do not overlap.
template <launcher Launch, class T>
void add_and_clear(Launch launch, T* sum, T* x, std::size_t n) {
  constexpr int wide = vector_elements<T>;
  launch_packs<wide>(launch, fits_vectors(sum, x), n, add_and_clear_kernel<wide, T>,
                     add_and_clear_kernel<1, T>, sum, x);
}

template <int V, class T>
__global__ void copy_blocks_kernel(T const* from, std::size_t from_stride, T* to,
                                   std::size_t to_stride, std::size_t count, std::size_t block) {
  for_each_pack_of_rows<V>(
      count, block,
      [&](std::size_t row, std::size_t column) {
        return load<V>(from + row * from_stride + column);
      },
      [&](std::size_t row, std::size_t column, pack<T, V> const& values) {
        store(values, to + row * to_stride + column);
      });
}

/// Copies `count` blocks of `block` elements. A stride is the distance, in elements, between the
/// beginnings of consecutive blocks. `from` and `to` do not overlap.
template <launcher Launch, class T>
void copy_blocks(Launch launch, T const* from, std::size_t from_stride, T* to,
                 std::size_t to_stride, std::size_t count, std::size_t block) {
  if (count == 0 || block == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(from, to, block * sizeof(T)) &&
                       (count == 1 || fits_vectors(from_stride * sizeof(T), to_stride * sizeof(T)));
  launch(vectors ? copy_blocks_kernel<wide, T> : copy_blocks_kernel<1, T>,
         shape_for_rows(count, block, vectors ? wide : 1), from, from_stride, to, to_stride, count,
         block);
}

template <int V, class Function, class T>
__global__ void map1_kernel(Function f, T const* x, T* out, element_range range) {
  using A = accumulate_t<T>;
  for_each_pack<V>(range, [&](std::size_t i) {
    auto values = load<V>(x + i);
    PLAIT_UNROLL
    for (T& value : values.value) value = static_cast<T>(f(static_cast<A>(value)));
    store(values, out + i);
  });
}

/// out[i] = f(x[i]) for i in [0, n); out may be x. `f` is a named type with a PLAIT_HOST_DEVICE
/// call operator.
template <launcher Launch, class Function, class T>
void map(Launch launch, Function f, std::size_t n, T const* x, T* out) {
  constexpr int wide = vector_elements<T>;
  launch_packs<wide>(launch, fits_vectors(x, out), n, map1_kernel<wide, Function, T>,
                     map1_kernel<1, Function, T>, f, x, out);
}

template <int V, class Function, class T>
__global__ void map2_kernel(Function f, T const* x, T const* y, T* out, element_range range) {
  using A = accumulate_t<T>;
  for_each_pack<V>(range, [&](std::size_t i) {
    auto const first = load<V>(x + i);
    auto const second = load<V>(y + i);
    pack<T, V> values;
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v)
      values.value[v] =
          static_cast<T>(f(static_cast<A>(first.value[v]), static_cast<A>(second.value[v])));
    store(values, out + i);
  });
}

/// out[i] = f(x[i], y[i]) for i in [0, n); out may be x or y.
template <launcher Launch, class Function, class T>
void map(Launch launch, Function f, std::size_t n, T const* x, T const* y, T* out) {
  constexpr int wide = vector_elements<T>;
  launch_packs<wide>(launch, fits_vectors(x, y, out), n, map2_kernel<wide, Function, T>,
                     map2_kernel<1, Function, T>, f, x, y, out);
}

template <int V, class Function, class T>
__global__ void map3_kernel(Function f, T const* x, T const* y, T const* z, T* out,
                            element_range range) {
  using A = accumulate_t<T>;
  for_each_pack<V>(range, [&](std::size_t i) {
    auto const first = load<V>(x + i);
    auto const second = load<V>(y + i);
    auto const third = load<V>(z + i);
    pack<T, V> values;
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v)
      values.value[v] =
          static_cast<T>(f(static_cast<A>(first.value[v]), static_cast<A>(second.value[v]),
                           static_cast<A>(third.value[v])));
    store(values, out + i);
  });
}

/// out[i] = f(x[i], y[i], z[i]) for i in [0, n); out may be x, y or z.
template <launcher Launch, class Function, class T>
void map(Launch launch, Function f, std::size_t n, T const* x, T const* y, T const* z, T* out) {
  constexpr int wide = vector_elements<T>;
  launch_packs<wide>(launch, fits_vectors(x, y, z, out), n, map3_kernel<wide, Function, T>,
                     map3_kernel<1, Function, T>, f, x, y, z, out);
}

template <class Function, class T, class... Views>
__global__ void map_at_kernel(Function f, element_block of, T* y, element_operand<Views>... views) {
  for_each_pack_of_rows<1>(of.rows, of.columns, [&](std::size_t row, std::size_t column) {
    y[row * of.columns + column] = static_cast<T>(f(of.at(row, column), views.row(row)...));
  });
}

/// y[r][c] = f(place of the element, row r of each view...) for each element of a block; a thread
/// computes one element. `f` is a named type with a PLAIT_HOST_DEVICE call operator.
template <launcher Launch, class Function, class T, class... Views>
void map_at(Launch launch, Function f, element_block const& of, T* y,
            element_operand<Views>... views) {
  if (of.rows == 0 || of.columns == 0) return;
  launch(map_at_kernel<Function, T, Views...>, shape_for_rows(of.rows, of.columns, 1), f, of, y,
         views...);
}

/// Returns a + b.
struct plus {
  template <class A>
  PLAIT_HOST_DEVICE constexpr A operator()(A a, A b) const {
    return a + b;
  }
};

/// out = x + y; out may be x or y.
template <launcher Launch, class T>
void add(Launch launch, T const* x, T const* y, T* out, std::size_t n) {
  map(launch, plus{}, n, x, y, out);
}

/// The rows of a matrix, `stride` elements apart; with a stride of 0, all rows are the same row.
template <class T>
struct row_operand {
  T* data;
  std::size_t stride;
};

template <class Function, class... T>
__global__ void rows_kernel(Function f, std::size_t count, std::size_t columns,
                            row_operand<T>... operands) {
  for_each_pack<1>({0, count},
                   [&](std::size_t r) { f(columns, operands.data + r * operands.stride...); });
}

/// Calls f(columns, row of each operand...) for each of `count` rows. A row is a pointer to T, so
/// `f` must convert elements to accumulate_t<T> itself.
template <launcher Launch, class Function, class... T>
void rows(Launch launch, Function f, std::size_t count, std::size_t columns,
          row_operand<T>... operands) {
  if (count == 0) return;
  constexpr int threads = 64;  // few, since each thread computes a whole row
  launch(rows_kernel<Function, T...>, launch_shape{blocks_for(count, threads), threads}, f, count,
         columns, operands...);
}

/// The largest number of sources of one call of `combine`.
inline constexpr int most_sources = 16;

template <class T>
struct source_table {
  T const* of[most_sources];
};

/// Returns the greater of two values; NaN if either is NaN.
struct maximum {
  template <class A>
  PLAIT_HOST_DEVICE constexpr A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};

template <int V, class Join, class T>
__global__ void combine_kernel(Join join, source_table<T> sources, int count, T* out,
                               element_range range) {
  using A = accumulate_t<T>;
  for_each_pack<V>(range, [&](std::size_t i) {
    A values[V];
    auto const first = load<V>(sources.of[0] + i);
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v) values[v] = static_cast<A>(first.value[v]);
    PLAIT_UNROLL  // makes all indices constants, so that the table is not copied to memory
        for (int source = 1; source < most_sources; ++source) {
      if (source >= count) break;
      auto const next = load<V>(sources.of[source] + i);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) values[v] = join(values[v], static_cast<A>(next.value[v]));
    }
    pack<T, V> rounded;
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v) rounded.value[v] = static_cast<T>(values[v]);
    store(rounded, out + i);
  });
}

/// out[i] = join(join(sources[0][i], sources[1][i]), sources[2][i]) and so on, in order; `join` is
/// `plus` or `maximum`. out may be one of the sources. For more than most_sources sources, call it
/// several times, each time with the result of the previous call as the first source.
template <launcher Launch, class Join, class T>
void combine(Launch launch, Join join, source_table<T> const& sources, int count, T* out,
             std::size_t n) {
  if (count == 0) return;
  constexpr int wide = vector_elements<T>;
  bool vectors = fits_vectors(out);
  for (int source = 0; source < count; ++source)
    vectors = vectors && fits_vectors(sources.of[source]);
  launch_packs<wide>(launch, vectors, n, combine_kernel<wide, Join, T>, combine_kernel<1, Join, T>,
                     join, sources, count, out);
}

}  // namespace plait::cuda_kernels
