// SPDX-License-Identifier: Apache-2.0
// test: without_gpu optimise
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/stream_launcher.hpp"
#include "plait/backend/cuda/kernels/attention.hpp"
#include "plait/backend/cuda/kernels/attention_backward.hpp"
#include "plait/backend/cuda/kernels/cross_entropy.hpp"
#include "plait/backend/cuda/kernels/dropout.hpp"
#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/cuda/kernels/embedding.hpp"
#include "plait/backend/cuda/kernels/layer_norm.hpp"
#include "plait/backend/cuda/kernels/optimizer.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"
#include "plait/tensor/functions.hpp"

// The optimised kernels of a step of GPT-2 in bfloat16, and attention of other heads and masks.
// check_kernel_counts.py reads the code that nvcc made of them. None of them runs.
int main(int count, char**) {
  if (count < 1000) return 0;
  namespace kernels = plait::cuda_kernels;
  stream_launcher const stream{};
  plait::bfloat16* const x = nullptr;
  plait::bfloat16 const* const in = nullptr;
  float* const a = nullptr;
  double* const d = nullptr;
  std::int32_t const* const ids = nullptr;
  std::size_t const n = 0;
  kernels::copy_blocks(stream, in, n, x, n, n, n);
  kernels::map(stream, plait::functions::gelu_tanh{}, n, in, x);
  kernels::add_row(stream, in, x, n, n);
  kernels::accumulate_column_sums(stream, in, a, a, n, n);
  kernels::layer_norm(stream, in, in, in, x, a, n, n, 1e-5);
  kernels::layer_norm_backward_input(stream, in, in, a, in, x, n, n);
  kernels::layer_norm_backward_parameters(stream, in, in, a, a, a, a, n, n);
  kernels::layer_norm_backward(stream, in, in, a, in, in, x, a, a, a, n, n);
  kernels::attention(stream, in, x, a, n, n, n, n);
  kernels::attention_backward(stream, in, in, a, in, x, a, n, n, n, n);
  plait::ext::attention_operands<plait::bfloat16 const> const apart{in, in, in, n, n};
  kernels::attention(stream, plait::ext::attention_shape{}, apart, x, a);
  kernels::attention_backward(stream, plait::ext::attention_shape{}, apart, in, a, in,
                              plait::ext::attention_operands<plait::bfloat16>{x, x, x, n, n}, a);
  kernels::row_max(stream, in, a, n, n, n);
  kernels::cross_entropy_terms(stream, in, ids, a, a, n, n, n, n);
  kernels::cross_entropy_statistics(stream, in, ids, a, a, n, n, n);
  kernels::cross_entropy_backward(stream, in, ids, a, a, d, x, n, -1, n, n, n);
  kernels::cross_entropy_with_gradient(stream, in, ids, a, d, x, -1, n, n, n);
  kernels::gather_rows(stream, ids, in, n, n, x, n, n);
  kernels::add_positions(stream, in, in, x, n, n, n, n);
  kernels::accumulate_positions(stream, in, a, n, n, n, n);
  kernels::dropout(stream, in, x, n, n, plait::ext::dropout_key{}, 1u, 1.0,
                   plait::ext::dropout_block{});
  kernels::adamw(stream, a, a, a, a, n, nullptr, 0, {}, nullptr, d, x);
  kernels::sum_of_squares(stream, a, nullptr, n, d, d);
}
