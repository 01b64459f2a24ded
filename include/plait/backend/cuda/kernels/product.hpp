// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/kernels/launch.hpp"

namespace plait::cuda_kernels {

/// The operands of a matrix product c = op(a) op(b), or c += op(a) op(b), where op transposes or
/// does nothing. Matrices are row-major.
///
/// Shapes: op(a) (m, k), op(b) (k, n), c (m, n); lda, ldb, ldc: the number of elements between the
///         beginnings of stored rows.
template <class T, class C>
struct product_operands {
  bool a_transposed, b_transposed, accumulate;
  std::size_t m, n, k;
  T const* a;
  std::size_t lda;
  T const* b;
  std::size_t ldb;
  C* c;
  std::size_t ldc;
};

template <class T, class C>
__global__ void product_kernel(product_operands<T, C> of) {
  std::size_t const a_row = of.a_transposed ? 1 : of.lda, a_depth = of.a_transposed ? of.lda : 1;
  std::size_t const b_depth = of.b_transposed ? 1 : of.ldb, b_row = of.b_transposed ? of.ldb : 1;
  for_each_pack<1>({0, of.m * of.n}, [&](std::size_t i) {
    std::size_t const row = i / of.n, column = i % of.n;
    T const* const a = of.a + row * a_row;
    T const* const b = of.b + column * b_row;
    C& c = of.c[row * of.ldc + column];
    accumulate_t<T> sum = of.accumulate ? static_cast<accumulate_t<T>>(c) : accumulate_t<T>{0};
    for (std::size_t p = 0; p < of.k; ++p)
      sum += static_cast<accumulate_t<T>>(a[p * a_depth]) *
             static_cast<accumulate_t<T>>(b[p * b_depth]);
    c = static_cast<C>(sum);
  });
}

/// Computes a product with one thread for each element. It is for shapes that cuBLASLt refuses,
/// such as bfloat16 with odd row strides.
template <launcher Launch, class T, class C>
void product(Launch launch, product_operands<T, C> const& of) {
  if (of.m == 0 || of.n == 0) return;
  launch(product_kernel<T, C>, launch_shape{blocks_for(of.m * of.n, block_threads), block_threads},
         of);
}

}  // namespace plait::cuda_kernels
