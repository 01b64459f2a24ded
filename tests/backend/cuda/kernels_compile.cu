// SPDX-License-Identifier: Apache-2.0
// test: without_gpu
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "all_headers.hpp"
#include "backend/cuda/stream_launcher.hpp"
#include "plait/backend/cuda/kernels/attention.hpp"
#include "plait/backend/cuda/kernels/attention_backward.hpp"
#include "plait/backend/cuda/kernels/cross_entropy.hpp"
#include "plait/backend/cuda/kernels/dropout.hpp"
#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/cuda/kernels/embedding.hpp"
#include "plait/backend/cuda/kernels/layer_norm.hpp"
#include "plait/backend/cuda/kernels/optimizer.hpp"
#include "plait/backend/cuda/kernels/product.hpp"
#include "plait/backend/cuda/kernels/rms_norm.hpp"
#include "plait/backend/cuda/kernels/rounded.hpp"
#include "plait/backend/cuda/kernels/rounded_adamw.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"
#include "plait/backend/cuda/kernels/image_norm.hpp"
#include "plait/backend/cuda/kernels/windows.hpp"
#include "plait/nn/rotary.hpp"
#include "plait/tensor/functions.hpp"
#include "run/own_rotary.hpp"

// Compiles every kernel in each element type, and every header, with nvcc. It runs none, as a
// device may be missing.

namespace kernels = plait::cuda_kernels;

namespace {

struct first_is_sum {
  template <class T>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, T* out, T const* x) const {
    plait::accumulate_t<T> sum = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += x[c];
    out[0] = sum;
  }
};

template <class Of, class T>
void launch_rounding(stream_launcher stream, T* x, std::size_t n) {
  plait::ext::rounded_block<Of>* blocks = nullptr;
  kernels::round_blocks(stream, static_cast<T const*>(x), blocks, n);
  kernels::widen_blocks(stream, static_cast<plait::ext::rounded_block<Of> const*>(blocks), x, n);
  kernels::add_blocks(stream, static_cast<plait::ext::rounded_block<Of> const*>(blocks), x, n);
}

template <class T>
void launch_all(stream_launcher stream, T* x, plait::accumulate_t<T>* a, std::int32_t* ids,
                double* d, std::size_t n) {
  T const* const in = x;
  kernels::fill(stream, T{0}, x, n);
  kernels::swap(stream, x, x, n);
  if constexpr (sizeof(T) > 2) {  // gradients
    launch_rounding<plait::bfloat16>(stream, x, n);
    launch_rounding<plait::float8>(stream, x, n);
  }
  kernels::copy_blocks(stream, in, n, x, n, n, n);
  kernels::add(stream, in, in, x, n);
  kernels::map(stream, plait::functions::gelu_tanh{}, n, in, x);
  kernels::map(stream, plait::functions::gelu_tanh_derivative{}, n, in, in, x);
  kernels::map(stream, plait::functions::sum{}, n, in, in, in, x);
  kernels::map_at(stream, own_rotary::turned<64>{1}, plait::ext::element_block{}, x,
                  plait::ext::element_operand<T>{in});
  using sums = plait::ext::element_operand<plait::accumulate_t<T>>;
  kernels::map_at(stream, plait::nn::detail::rotary_table<64>(plait::nn::rotary_options{}),
                  plait::ext::element_block{}, a);
  kernels::map_at(stream, plait::nn::detail::rotary_turn<64>{1}, plait::ext::element_block{}, x,
                  sums{a}, plait::ext::element_operand<T>{in});
  kernels::map(stream, plait::functions::silu{}, n, in, x);
  kernels::map(stream, plait::functions::silu_derivative{}, n, in, in, x);
  kernels::map(stream, plait::functions::derivative_of<plait::functions::silu>{}, n, in, in, x);
  kernels::product(stream,
                   kernels::product_operands<T, T>{false, true, true, n, n, n, in, n, in, n, x, n});
  kernels::rows(stream, first_is_sum{}, n, n, kernels::row_operand<T>{x, n},
                kernels::row_operand<T const>{in, 0});
  kernels::combine(stream, kernels::plus{}, kernels::source_table<T>{{in, in}}, 2, x, n);
  kernels::combine(stream, kernels::maximum{}, kernels::source_table<T>{{in, in}}, 2, x, n);
  kernels::add_row(stream, in, x, n, n);
  kernels::accumulate_column_sums(stream, in, a, a, n, n);
  kernels::accumulate_columns(stream, plait::functions::multiply{}, n, n, a, a, in, in);
  kernels::layer_norm(stream, in, in, in, x, a, n, n, 1e-5);
  kernels::layer_norm_backward_input(stream, in, in, a, in, x, n, n);
  kernels::layer_norm_backward_parameters(stream, in, in, a, a, a, a, n, n);
  kernels::layer_norm_backward(stream, in, in, a, in, in, x, a, a, a, n, n);
  kernels::rms_norm(stream, in, in, x, a, n, n, 1e-5);
  kernels::rms_norm_backward_input(stream, in, in, a, in, x, n, n);
  kernels::rms_norm_backward_parameters(stream, in, in, a, a, a, n, n);
  plait::ext::window_shape const windows;
  kernels::gather_patches(stream, windows, n, n, n, in, x);
  kernels::add_patches(stream, windows, n, n, n, in, x);
  kernels::exchange_blocks(stream, in, x, n, n, n);
  kernels::add_to_maps(stream, in, x, n, n, n);
  kernels::accumulate_map_sums(stream, in, a, n, n, n);
  kernels::max_pool(stream, windows, n, in, x);
  kernels::max_pool_backward(stream, windows, n, in, in, x);
  kernels::average_pool(stream, windows, n, in, x);
  kernels::average_pool_backward(stream, windows, n, in, x);
  plait::ext::norm_shape const sets;
  kernels::set_statistics(stream, sets, in, a, 1e-5);
  kernels::given_statistics(stream, in, in, a, n, 1e-5);
  kernels::accumulate_statistics(stream, sets, a, a, a, 0.5, 1e-5);
  kernels::sums_of_sets(stream, sets, a, a);
  kernels::squares_of_sets(stream, sets, a, a, a);
  kernels::whole_statistics(stream, sets, a, a, a, 1e-5);
  kernels::normalize_whole_backward(stream, sets, in, in, a, a, a, in, x);
  kernels::normalize_sets(stream, sets, in, a, in, in, x);
  kernels::normalize_sets_backward(stream, sets, in, in, a, in, x);
  kernels::scale_sets(stream, sets, in, a, in, x);
  kernels::normalize_sets_parameters(stream, sets, in, in, a, a, a);
  kernels::attention(stream, in, x, a, n, n, n, n);
  kernels::attention_backward(stream, in, in, a, in, x, a, n, n, n, n);
  plait::ext::attention_operands<T const> const apart{in, in, in, n, n};
  kernels::attention(stream, plait::ext::attention_shape{}, apart, x, a);
  kernels::attention_backward(stream, plait::ext::attention_shape{}, apart, in, a, in,
                              plait::ext::attention_operands<T>{x, x, x, n, n}, a);
  kernels::row_max(stream, in, a, n, n, n);
  kernels::cross_entropy_terms(stream, in, ids, a, a, n, n, n, n);
  kernels::cross_entropy_sum(stream, a, ids, -1, n, d, d);
  kernels::cross_entropy_backward(stream, in, ids, a, a, d, x, n, -1, n, n, n);
  plait::ext::smoothed_target const smoothed{.on_label = 0.9, .on_each = 0.1};
  kernels::cross_entropy_terms<plait::ext::smoothed_target>(stream, in, ids, a, a, n, n, n, n);
  kernels::cross_entropy_statistics(stream, in, ids, a, a, n, n, n);
  kernels::cross_entropy_statistics<plait::ext::smoothed_target>(stream, in, ids, a, a, n, n, n);
  kernels::cross_entropy_sum(stream, a, ids, -1, n, d, d, d, smoothed);
  kernels::cross_entropy_with_gradient(stream, in, ids, a, d, x, -1, n, n, n);
  kernels::cross_entropy_with_gradient(stream, in, ids, a, d, x, -1, n, n, n, d, smoothed);
  kernels::cross_entropy_backward(stream, in, ids, a, a, d, x, n, -1, n, n, n, d, smoothed);
  kernels::gather_rows(stream, ids, in, n, n, x, n, n);
  kernels::scatter_add_rows(stream, ids, in, n, n, a, nullptr, n, n);
  kernels::add_positions(stream, in, in, x, n, n, n, n);
  kernels::accumulate_positions(stream, in, a, n, n, n, n);
  kernels::dropout(stream, in, x, n, n, plait::ext::dropout_key{}, 1u, 1.0,
                   plait::ext::dropout_block{});
}

template <class P>
void launch_updates(stream_launcher stream, P* p, plait::bfloat16* copy, double* d, std::size_t n) {
  kernels::adamw(stream, p, p, p, p, n, nullptr, 0, {}, nullptr, d, copy);
  plait::ext::rounded_arena<P, P, plait::bfloat16> const arena{{p, p, copy, copy}};
  kernels::rounded_adamw(stream, arena, {}, nullptr);
  kernels::sgd(stream, p, p, p, n, nullptr, 0, {}, nullptr, d, copy);
  kernels::average(stream, p, p, n, 0.5, d);
  kernels::sum_of_squares(stream, p, nullptr, n, d, d);
}

}  // namespace

int main(int count, char**) {
  if (count < 1000) return 0;
  stream_launcher const stream{};
  launch_all<float>(stream, nullptr, nullptr, nullptr, nullptr, 0);
  launch_all<double>(stream, nullptr, nullptr, nullptr, nullptr, 0);
  launch_all<plait::bfloat16>(stream, nullptr, nullptr, nullptr, nullptr, 0);
  launch_updates<float>(stream, nullptr, nullptr, nullptr, 0);
  launch_updates<double>(stream, nullptr, nullptr, nullptr, 0);
  kernels::clip_factor(stream, nullptr, 0, 1.0, nullptr, nullptr);
  kernels::divide(stream, 1.0, static_cast<double const*>(nullptr), nullptr);
}
