// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/arguments.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"

// Steps of an optimizer on all parameters of an arena, and the kernels that compute their scalars.
// Scalars that change from step to step are read from device memory, so that a recorded graph can
// be replayed.

namespace plait::cuda_kernels {

namespace detail {

/// The number of packs that a thread processes in one update.
inline constexpr int update_packs = 4;

// Calls each(i, factors) for the packs [i, i + V) of this thread; factors[v] is factors_of(range),
// for the range that contains element i + v. The ranges are sorted and cover all elements.
template <int V, class Factors, class Each>
__device__ __forceinline__ void for_each_update(update_range const* ranges, int range_count,
                                                element_range of, Factors factors_of, Each each) {
  using factors_type = decltype(factors_of(*ranges));
  constexpr std::size_t stride = std::size_t{block_threads} * V;
  std::size_t const begin =
      of.begin + std::size_t{blockIdx.x} * stride * update_packs + std::size_t{threadIdx.x} * V;
  if (begin >= of.end) return;
  int low = 0, high = range_count - 1;  // searched: the last range with offset <= begin
  while (low < high) {
    int const middle = (low + high + 1) / 2;
    if (ranges[middle].offset <= begin) low = middle;
    else high = middle - 1;
  }
  std::size_t end = ranges[low].offset + ranges[low].count;
  factors_type now = factors_of(ranges[low]);
  for (int p = 0; p < update_packs; ++p) {
    std::size_t const i = begin + static_cast<std::size_t>(p) * stride;
    if (i >= of.end) return;
    factors_type factors[V];
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v) {
      while (i + static_cast<std::size_t>(v) >= end && low + 1 < range_count) {
        ++low;
        end = ranges[low].offset + ranges[low].count;
        now = factors_of(ranges[low]);
      }
      factors[v] = now;
    }
    each(i, factors);
  }
}

// Launches a kernel that calls for_each_update once, over `count` elements: packs of V elements if
// the addresses allow vectors, else single elements; see launch_packs.
template <int V, class Scalars, class Launch, class Kernel, class... Arguments>
void launch_update(Launch launch, bool vectors, std::size_t count, Kernel wide, Kernel narrow,
                   Arguments... arguments) {
  auto const launch_part = [&](Kernel kernel, int v, element_range part) {
    std::size_t const per_block = static_cast<std::size_t>(block_threads * v * update_packs);
    launch(kernel,
           launch_shape{static_cast<unsigned>(divide_up(part.end - part.begin, per_block)),
                        block_threads, sizeof(Scalars)},
           arguments..., part);
  };
  std::size_t const whole = vectors ? count - count % V : 0;
  if (whole > 0) launch_part(wide, V, {0, whole});
  if (whole < count) launch_part(narrow, 1, {whole, count});
}

/// The scalars of an update that all elements share, computed in double and rounded once. One
/// thread of each block computes them; each thread computes the factors below for the ranges of its
/// elements.
template <class P>
struct adamw_scalars {
  double learning_rate, step_size;
  P gradient_scale, deviation;
};
template <class P>
struct adamw_factors {
  P decay, step_size;
};
template <class P>
struct sgd_scalars {
  double learning_rate;
  P gradient_scale;
};
template <class P>
struct sgd_factors {
  P weight_decay, step_size;
};

}  // namespace detail

namespace detail {

/// Two states of AdamW in the type of the parameters: loads and stores packs of V elements.
template <class P>
struct plain_states {
  P *m, *v;

  template <int V>
  __device__ __forceinline__ void load_packs(std::size_t i, pack<P, V>& first,
                                             pack<P, V>& second) const {
    first = load<V>(m + i);
    second = load<V>(v + i);
  }
  template <int V>
  __device__ __forceinline__ void store_packs(std::size_t i, pack<P, V> const& first,
                                              pack<P, V> const& second) const {
    store(first, m + i);
    store(second, v + i);
  }
};

/// The work of a thread of an AdamW kernel. `States`: a type with the members of plain_states.
template <int V, class P, class S, class C, class States>
__device__ __forceinline__ void adamw_packs(P* parameter, S const* gradient, States states,
                                            update_range const* ranges, int range_count,
                                            adamw_constants const& constants,
                                            adamw_numbers const* numbers,
                                            double const* gradient_scale, C* compute_copy,
                                            element_range of) {
  auto& scalars = shared_memory<adamw_scalars<P>>();
  if (threadIdx.x == 0) {
    scalars.gradient_scale = static_cast<P>(gradient_scale == nullptr ? 1.0 : *gradient_scale);
    scalars.learning_rate = numbers->learning_rate;
    scalars.deviation = static_cast<P>(std::sqrt(numbers->bias_correction2));
    scalars.step_size = -(numbers->learning_rate / numbers->bias_correction1);
  }
  __syncthreads();
  if (std::isnan(scalars.gradient_scale)) return;
  P const weight1 = static_cast<P>(1 - constants.beta1);
  P const beta2 = static_cast<P>(constants.beta2);
  P const weight2 = static_cast<P>(1 - constants.beta2);
  P const epsilon = static_cast<P>(constants.epsilon);
  using factors_type = adamw_factors<P>;
  auto const factors_of = [&](update_range const& range) {
    double const rate = range.rate, decay = range.decay;
    return factors_type{
        static_cast<P>(1 - (scalars.learning_rate * rate) * (constants.weight_decay * decay)),
        static_cast<P>(scalars.step_size * rate)};
  };
  for_each_update<V>(
      ranges, range_count, of, factors_of, [&](std::size_t i, factors_type const(&factors)[V]) {
        auto values = load<V>(parameter + i);
        auto const gradients = load<V>(gradient + i);
        pack<P, V> first, second;
        states.load_packs(i, first, second);
        pack<C, V> copy;
        PLAIT_UNROLL
        for (int e = 0; e < V; ++e) {
          P const g = static_cast<P>(gradients.value[e]) * scalars.gradient_scale;
          first.value[e] += weight1 * (g - first.value[e]);
          second.value[e] = second.value[e] * beta2 + weight2 * g * g;
          P const denominator = std::sqrt(second.value[e]) / scalars.deviation + epsilon;
          P const decay = factors[e].decay;
          P const decayed = decay != P{1} ? values.value[e] * decay : values.value[e];
          values.value[e] = decayed + factors[e].step_size * first.value[e] / denominator;
          copy.value[e] = static_cast<C>(values.value[e]);
        }
        store(values, parameter + i);
        states.store_packs(i, first, second);
        if (compute_copy != nullptr) store(copy, compute_copy + i);
      });
}

}  // namespace detail

template <int V, class P, class S, class C>
__global__ __launch_bounds__(block_threads) void adamw_kernel(
    P* parameter, S const* gradient, P* m, P* v, update_range const* ranges, int range_count,
    adamw_constants constants, adamw_numbers const* numbers, double const* gradient_scale,
    C* compute_copy, element_range of) {
  detail::adamw_packs<V>(parameter, gradient, detail::plain_states<P>{m, v}, ranges, range_count,
                         constants, numbers, gradient_scale, compute_copy, of);
}

/// Makes one AdamW step on all parameters of an arena, in the order of operations of
/// torch.optim.AdamW: decay, first moment by lerp, second moment, denominator
/// sqrt(v) / sqrt(bias_correction2) + epsilon, update. If `compute_copy` is not null, the rounded
/// new parameters are written to it.
///
/// Shapes: parameter, gradient, m, v, compute_copy (count); ranges (range_count), sorted, cover [0,
///         count); numbers and gradient_scale point to device memory. gradient_scale may be null,
///         which means 1; if *gradient_scale is NaN, nothing is changed
/// Source: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
template <launcher Launch, class P, class S, class C = bfloat16>
void adamw(Launch launch, P* parameter, S const* gradient, P* m, P* v, std::size_t count,
           update_range const* ranges, int range_count, adamw_constants const& constants,
           adamw_numbers const* numbers, double const* gradient_scale, C* compute_copy = nullptr) {
  constexpr int wide = vector_elements<P>;
  detail::launch_update<wide, detail::adamw_scalars<P>>(
      launch, fits_vectors(parameter, gradient, m, v, compute_copy), count,
      adamw_kernel<wide, P, S, C>, adamw_kernel<1, P, S, C>, parameter, gradient, m, v, ranges,
      range_count, constants, numbers, gradient_scale, compute_copy);
}

template <int V, class P, class S, class C>
__global__ __launch_bounds__(block_threads) void sgd_kernel(
    P* parameter, S const* gradient, P* buffer, update_range const* ranges, int range_count,
    sgd_constants constants, sgd_numbers const* numbers, double const* gradient_scale,
    C* compute_copy, element_range of) {
  auto& scalars = shared_memory<detail::sgd_scalars<P>>();
  if (threadIdx.x == 0) {
    scalars.gradient_scale = static_cast<P>(gradient_scale == nullptr ? 1.0 : *gradient_scale);
    scalars.learning_rate = numbers->learning_rate;
  }
  __syncthreads();
  if (std::isnan(scalars.gradient_scale)) return;
  P const momentum = static_cast<P>(constants.momentum);
  bool const keeps = constants.momentum != 0;
  using factors_type = detail::sgd_factors<P>;
  auto const factors_of = [&](update_range const& range) {
    double const rate = range.rate, decay = range.decay;
    return factors_type{static_cast<P>(constants.weight_decay * decay),
                        static_cast<P>(-(scalars.learning_rate * rate))};
  };
  detail::for_each_update<V>(ranges, range_count, of, factors_of,
                             [&](std::size_t i, factors_type const(&factors)[V]) {
                               auto values = load<V>(parameter + i);
                               auto const gradients = load<V>(gradient + i);
                               pack<P, V> kept{};
                               if (keeps) kept = load<V>(buffer + i);
                               pack<C, V> copy;
                               PLAIT_UNROLL
                               for (int e = 0; e < V; ++e) {
                                 P g = static_cast<P>(gradients.value[e]) * scalars.gradient_scale;
                                 P const weight_decay = factors[e].weight_decay;
                                 if (weight_decay != 0) g += weight_decay * values.value[e];
                                 kept.value[e] = keeps ? momentum * kept.value[e] + g : g;
                                 values.value[e] += factors[e].step_size * kept.value[e];
                                 copy.value[e] = static_cast<C>(values.value[e]);
                               }
                               store(values, parameter + i);
                               if (keeps) store(kept, buffer + i);
                               if (compute_copy != nullptr) store(copy, compute_copy + i);
                             });
}

/// Makes one step of torch.optim.SGD without dampening on all parameters of an arena: buffer =
/// momentum * buffer + g, parameter -= learning_rate * buffer. With momentum 0 the buffer is not
/// used and may be null.
///
/// Shapes: as adamw; buffer (count)
template <launcher Launch, class P, class S, class C = bfloat16>
void sgd(Launch launch, P* parameter, S const* gradient, P* buffer, std::size_t count,
         update_range const* ranges, int range_count, sgd_constants const& constants,
         sgd_numbers const* numbers, double const* gradient_scale, C* compute_copy = nullptr) {
  constexpr int wide = vector_elements<P>;
  detail::launch_update<wide, detail::sgd_scalars<P>>(
      launch, fits_vectors(parameter, gradient, buffer, compute_copy), count,
      sgd_kernel<wide, P, S, C>, sgd_kernel<1, P, S, C>, parameter, gradient, buffer, ranges,
      range_count, constants, numbers, gradient_scale, compute_copy);
}

template <int V, class P>
__global__ void average_kernel(P const* x, P* average, double decay, double const* gradient_scale,
                               element_range range) {
  if (std::isnan(*gradient_scale)) return;
  P const old = static_cast<P>(decay);
  P const share = static_cast<P>(1 - decay);
  for_each_pack<V>(range, [&](std::size_t i) {
    auto const values = load<V>(x + i);
    auto averages = load<V>(average + i);
    PLAIT_UNROLL
    for (int e = 0; e < V; ++e)
      averages.value[e] = old * averages.value[e] + share * values.value[e];
    store(averages, average + i);
  });
}

/// average = decay * average + (1 - decay) * x. If *gradient_scale, in device memory, is NaN,
/// nothing is changed.
///
/// Shapes: x, average (count); the arrays do not overlap
template <launcher Launch, class P>
void average(Launch launch, P const* x, P* average, std::size_t count, double decay,
             double const* gradient_scale) {
  constexpr int wide = vector_elements<P>;
  launch_packs<wide>(launch, fits_vectors(x, average), count, average_kernel<wide, P>,
                     average_kernel<1, P>, x, average, decay, gradient_scale);
}

namespace detail {

/// The number of blocks that share the sum over one range, and the smallest number of elements of a
/// block.
inline constexpr std::size_t square_shares = 128;
inline constexpr std::size_t share_elements = 4096;

}  // namespace detail

/// The number of elements of workspace that sum_of_squares needs.
constexpr std::size_t squares_workspace(std::size_t range_count) {
  return range_count * detail::square_shares;
}

template <class T>
__global__ __launch_bounds__(block_threads) void squares_kernel(T const* x,
                                                                squares_range const* ranges,
                                                                double* partial) {
  constexpr std::size_t wide = vector_elements<T>;
  struct layout {
    double of_warp[block_warps];
  };
  auto& memory = shared_memory<layout>();
  squares_range const range = ranges[blockIdx.y];
  constexpr std::size_t pieces = detail::square_shares * wide;
  std::size_t const share =
      larger(detail::share_elements, (range.count + pieces - 1) / pieces * wide);
  std::size_t const begin = smaller(blockIdx.x * share, range.count);
  std::size_t const end = smaller(begin + share, range.count);
  T const* const from = x + range.offset;
  double sum = 0;
  auto const add = [&](T element) {
    double const value = static_cast<double>(static_cast<accumulate_t<T>>(element));
    sum += value * value;
  };
  bool const vectors = reinterpret_cast<std::uintptr_t>(from) % (sizeof(T) * wide) == 0;
  std::size_t const whole = vectors ? end - (end - begin) % wide : begin;  // end of the whole packs
  for_each_step<block_threads * wide>(begin + threadIdx.x * wide, whole, [&](std::size_t i) {
    auto const values = load<wide>(from + i);
    PLAIT_UNROLL
    for (int v = 0; v < int{wide}; ++v) add(values.value[v]);
  });
  for_each_step<block_threads>(whole + threadIdx.x, end, [&](std::size_t i) { add(from[i]); });
  sum = block_reduce(sum, memory.of_warp, [](double a, double b) { return a + b; });
  if (threadIdx.x == 0) partial[blockIdx.y * detail::square_shares + blockIdx.x] = sum;
}

template <class T>  // a template, so that several source files may define it
__global__ void add_squares_kernel(T const* partial, squares_range const* ranges, T* out) {
  constexpr std::size_t of_thread = detail::square_shares / warp_threads;
  T sum = 0;
  for (std::size_t i = 0; i < of_thread; ++i)
    sum += partial[blockIdx.x * detail::square_shares + i * warp_threads + threadIdx.x];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) out[ranges[blockIdx.x].index] = sum;
}

/// out[index of the range] = the sum of the squares of the elements of a range of x, in double.
///
/// Shapes: ranges (range_count) in device memory, where range_count is at most 65535; workspace
///         (squares_workspace(range_count))
template <launcher Launch, class T>
void sum_of_squares(Launch launch, T const* x, squares_range const* ranges, std::size_t range_count,
                    double* workspace, double* out) {
  if (range_count == 0) return;
  launch(squares_kernel<T>,
         launch_shape{static_cast<unsigned>(detail::square_shares), block_threads,
                      block_warps * sizeof(double), static_cast<unsigned>(range_count)},
         x, ranges, workspace);
  launch(add_squares_kernel<double>, launch_shape{static_cast<unsigned>(range_count), warp_threads},
         workspace, ranges, out);
}

template <class T>
__global__ void clip_factor_kernel(T const* squares, std::size_t count, T limit, T* norm,
                                   T* factor) {
  T sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += squares[i];
  T const root = std::sqrt(sum);
  T const wanted = limit / (root + 1e-6);
  *norm = root;
  *factor = (limit > 0 && wanted < 1 ? wanted : 1) + (root - root);  // NaN if root is inf or NaN
}

/// Computes *norm, the root of the sum of `squares` in order, and *factor, by which gradients are
/// multiplied so that their norm is at most `limit`. The factor is 1 if the norm is below the limit
/// or the limit is not positive, and NaN if the norm is not finite.
///
/// Shapes: squares (count); norm and factor point to one number each
template <launcher Launch>
void clip_factor(Launch launch, double const* squares, std::size_t count, double limit,
                 double* norm, double* factor) {
  launch(clip_factor_kernel<double>, launch_shape{}, squares, count, limit, norm, factor);
}

template <class T>
__global__ void check_finite_kernel(T const* loss, T const* norm, T* factor) {
  *factor += (*loss - *loss) + (*norm - *norm);  // adds 0, or NaN if either is not finite
}

/// Sets *factor to NaN if *loss or *norm is not finite.
template <launcher Launch>
void check_finite(Launch launch, double const* loss, double const* norm, double* factor) {
  launch(check_finite_kernel<double>, launch_shape{}, loss, norm, factor);
}

template <class T>
__global__ void divide_kernel(double number, T const* count, double* out) {
  *out = *count == 0 ? 0.0 : number / static_cast<double>(*count);
}

/// *out = number / *count, or 0 if *count is 0.
template <launcher Launch, class T>
void divide(Launch launch, double number, T const* count, double* out) {
  launch(divide_kernel<T>, launch_shape{}, number, count, out);
}

}  // namespace plait::cuda_kernels
