// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "plait/backend/host/maths/blas.hpp"
#include "plait/core/error.hpp"

namespace plait::host_maths {

/// States whether a matrix is read as it is stored or transposed.
enum class transpose : bool { no, yes };

namespace detail {

// Tile and block sizes of the portable kernel. A tile of C, rows x columns, stays in 12 of the 16
// vector registers. A packed block of A has 24 KiB in float and stays in the L1 cache; a packed
// block of B has 128 KiB and stays in the L2 cache. Both blocks are on the stack.
template <class T>
struct matmul_tile {
#if defined(__AVX512F__)
  static constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
  static constexpr std::size_t vector_bytes = 32;
#else
  static constexpr std::size_t vector_bytes = 16;
#endif
  static constexpr std::size_t rows = 6;
  static constexpr std::size_t columns = 2 * vector_bytes / sizeof(T);
  static constexpr std::size_t depth_block = 128;
  static constexpr std::size_t row_block = 8 * rows;
  static constexpr std::size_t column_block = 128 * 1024 / (depth_block * sizeof(T));
};

// Copies the elements source[i * stride + p * depth_stride], i < count, p < depth, into panels of
// shape (depth, width): panel j has `width` consecutive indices i, from j * width on. The last
// panel is padded with zeros.
template <std::size_t width, class Source, class T>
void pack(Source const* source, std::size_t stride, std::size_t depth_stride, std::size_t count,
          std::size_t depth, T* __restrict__ panel) {
  for (std::size_t begin = 0; begin < count; begin += width, panel += width * depth) {
    std::size_t const used = std::min(width, count - begin);
    Source const* from = source + begin * stride;
    if (used < width) std::fill_n(panel, width * depth, T{0});
    if (stride == 1 && used == width) {
      for (std::size_t p = 0; p < depth; ++p)
        std::copy_n(from + p * depth_stride, width, panel + p * width);
    } else {
      for (std::size_t i = 0; i < used; ++i)
        for (std::size_t p = 0; p < depth; ++p)
          panel[p * width + i] = from[i * stride + p * depth_stride];
    }
  }
}

// Computes one tile: sums (rows, columns) = sum over p < depth of a[p] b[p]^T, from panels a
// (depth, rows) and b (depth, columns). The code uses vector types, because g++ 12 compiles plain
// loops to code of 7 to 113 GFLOP/s, depending on the instruction set.
template <class T>
inline void multiply_panels(std::size_t depth, T const* a, T const* b, T* sums) {
  using tile = matmul_tile<T>;
  typedef T vector __attribute__((vector_size(tile::vector_bytes)));
  vector accumulator[tile::rows][2] = {};
  for (std::size_t p = 0; p < depth; ++p, a += tile::rows, b += tile::columns) {
    vector b0, b1;
    std::memcpy(&b0, b, sizeof b0);
    std::memcpy(&b1, b + tile::columns / 2, sizeof b1);
#if !defined(__CUDACC__)  // nvcc's front end does not know this pragma
#pragma GCC unroll 6
#endif
    for (std::size_t i = 0; i < tile::rows; ++i) {
      accumulator[i][0] += a[i] * b0;
      accumulator[i][1] += a[i] * b1;
    }
  }
  std::memcpy(sums, accumulator, sizeof accumulator);
}

// Computes C = alpha op(A) op(B) + beta C without a BLAS library. Every element of C is summed over
// the inner extent in order, in blocks of depth_block, so the last bits of an element depend
// neither on m and n nor on the position of the element in C.
template <class T, class A, class B, class C>
void portable_matmul(transpose a_is, transpose b_is, std::size_t m, std::size_t n, std::size_t k,
                     T alpha, A const* a, std::size_t lda, B const* b, std::size_t ldb, T beta,
                     C* c, std::size_t ldc) {
  using tile = matmul_tile<T>;
  alignas(64) T a_block[tile::row_block * tile::depth_block];
  alignas(64) T b_block[tile::column_block * tile::depth_block];
  alignas(64) T sums[tile::rows * tile::columns];
  std::size_t const a_row = a_is == transpose::no ? lda : 1;
  std::size_t const a_depth = a_is == transpose::no ? 1 : lda;
  std::size_t const b_column = b_is == transpose::no ? 1 : ldb;
  std::size_t const b_depth = b_is == transpose::no ? ldb : 1;

  for (std::size_t column = 0; column < n; column += tile::column_block) {
    std::size_t const columns = std::min(tile::column_block, n - column);
    for (std::size_t first = 0; first < k; first += tile::depth_block) {
      std::size_t const depth = std::min(tile::depth_block, k - first);
      T const keep = first == 0 ? beta : T{1};
      pack<tile::columns>(b + column * b_column + first * b_depth, b_column, b_depth, columns,
                          depth, b_block);
      for (std::size_t row = 0; row < m; row += tile::row_block) {
        std::size_t const rows = std::min(tile::row_block, m - row);
        pack<tile::rows>(a + row * a_row + first * a_depth, a_row, a_depth, rows, depth, a_block);
        for (std::size_t j = 0; j < columns; j += tile::columns) {
          std::size_t const width = std::min(tile::columns, columns - j);
          for (std::size_t i = 0; i < rows; i += tile::rows) {
            multiply_panels(depth, a_block + i * depth, b_block + j * depth, sums);
            std::size_t const height = std::min(tile::rows, rows - i);
            for (std::size_t y = 0; y < height; ++y) {
              C* const out = c + (row + i + y) * ldc + column + j;
              T const* const sum = sums + y * tile::columns;
              if (keep == T{0})
                for (std::size_t x = 0; x < width; ++x) out[x] = static_cast<C>(alpha * sum[x]);
              else
                for (std::size_t x = 0; x < width; ++x)
                  out[x] = static_cast<C>(keep * out[x] + alpha * sum[x]);
            }
          }
        }
      }
    }
  }
}

#if defined(PLAIT_USE_CBLAS)
inline int blas_int(std::size_t extent) {
  if (extent > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw error({"matmul: extent ", extent, " is above CBLAS's limit 2147483647"});
  return static_cast<int>(extent);
}

template <class T>
void blas_matmul(transpose a_is, transpose b_is, std::size_t m, std::size_t n, std::size_t k,
                 T alpha, T const* a, std::size_t lda, T const* b, std::size_t ldb, T beta, T* c,
                 std::size_t ldc) {
  auto const a_op = a_is == transpose::yes ? CblasTrans : CblasNoTrans;
  auto const b_op = b_is == transpose::yes ? CblasTrans : CblasNoTrans;
  int const rows = blas_int(m), columns = blas_int(n), depth = blas_int(k);
  int const a_stride = blas_int(lda), b_stride = blas_int(ldb), c_stride = blas_int(ldc);
  if (m == 1) {  // for one row, OpenBLAS's gemm is several times slower than its gemv
    auto const b_turned = b_is == transpose::yes ? CblasNoTrans : CblasTrans;
    int const b_rows = b_is == transpose::yes ? columns : depth;
    int const b_columns = b_is == transpose::yes ? depth : columns;
    int const a_step = a_is == transpose::yes ? a_stride : 1;
    if constexpr (std::is_same_v<T, float>)
      cblas_sgemv(CblasRowMajor, b_turned, b_rows, b_columns, alpha, b, b_stride, a, a_step, beta,
                  c, 1);
    else
      cblas_dgemv(CblasRowMajor, b_turned, b_rows, b_columns, alpha, b, b_stride, a, a_step, beta,
                  c, 1);
  } else if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, a_op, b_op, rows, columns, depth, alpha, a, a_stride, b, b_stride,
                beta, c, c_stride);
  } else {
    cblas_dgemm(CblasRowMajor, a_op, b_op, rows, columns, depth, alpha, a, a_stride, b, b_stride,
                beta, c, c_stride);
  }
}
#endif

}  // namespace detail

/// C = alpha op(A) op(B) + beta C, summed in T; with beta == 0, C is written without being read.
/// The function calls CBLAS if PLAIT_USE_CBLAS is defined and all matrices have type T; otherwise a
/// portable kernel, which uses 150 KiB of the stack.
///
/// Shapes: op(A) (m, k); op(B) (k, n); C (m, n); row-major, with lda, ldb, ldc elements from row to
///         row as stored. Any extent may be 0. C does not overlap A or B.
/// Cost:   2 m n k FLOPs.
/// Errors: plait::error if an extent does not fit into CBLAS's int.
/// Threads: CBLAS may use several threads; see single_threaded_maths.
template <class T, class A, class B, class C>
[[gnu::noinline]] void matmul(transpose a_is, transpose b_is, std::size_t m, std::size_t n,
                              std::size_t k, std::type_identity_t<T> alpha, A const* a,
                              std::size_t lda, B const* b, std::size_t ldb,
                              std::type_identity_t<T> beta, C* c, std::size_t ldc) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "matmul<T>: T, the type in which products are summed, must be float or double");
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::size_t row = 0; row < m; ++row)
      for (std::size_t column = 0; column < n; ++column) {
        C& out = c[row * ldc + column];
        out = static_cast<C>(beta == T{0} ? T{0} : beta * out);
      }
    return;
  }
#if defined(PLAIT_USE_CBLAS)
  if constexpr (std::is_same_v<A, T> && std::is_same_v<B, T> && std::is_same_v<C, T>)
    return detail::blas_matmul(a_is, b_is, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
#endif
  detail::portable_matmul<T>(a_is, b_is, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace plait::host_maths
