// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/windows.hpp"
#include "plait/backend/window_shape.hpp"

// Normalisation over sets of elements, see norm_shape: batch norm, group norm and others. A block
// of threads computes the sums of one set, or of one channel; a thread writes one element.

namespace plait::cuda_kernels {

using plait::ext::norm_shape;

namespace detail {

template <class A>
struct warp_sums {
  A of[block_warps];
};

/// Adds `value` over the threads of the block and returns the sum, on all threads.
template <class A>
__device__ __forceinline__ A block_sum(A value) {
  auto& memory = shared_memory<warp_sums<A>>();
  __syncthreads();  // waits until all threads have read the previous sum
  return block_reduce(value, memory.of, [](A a, A b) { return a + b; });
}

/// Returns the index, in the array, of element `i` of a set; `i` counts over samples, then
/// channels, then the elements of a map.
__device__ __forceinline__ std::size_t place_in_set(norm_shape const& of, std::size_t set,
                                                    std::size_t i) {
  std::size_t const piece = of.channels_together * of.map;
  std::size_t const sample = set / of.sets_across() * of.samples_together + i / piece;
  return sample * of.image() + set % of.sets_across() * piece + i % piece;
}

template <class A, class Term>
__device__ __forceinline__ A sum_of_set(norm_shape const& of, std::size_t set, Term term) {
  A sum = 0;
  for (std::size_t i = threadIdx.x; i < of.count_of(set); i += blockDim.x)
    sum += term(place_in_set(of, set, i));
  return block_sum(sum);
}

/// Launches a kernel with one block of threads for each of `blocks` sets or channels.
template <class A, class Launch, class Kernel, class... Arguments>
void launch_blocks(Launch launch, Kernel kernel, std::size_t blocks, Arguments... arguments) {
  if (blocks > 0)
    launch(kernel, launch_shape{blocks_for(blocks, 1), block_threads, sizeof(warp_sums<A>)},
           arguments...);
}

}  // namespace detail

template <class T>
__global__ __launch_bounds__(block_threads) void set_statistics_kernel(norm_shape of, T const* x,
                                                                       accumulate_t<T>* statistics,
                                                                       accumulate_t<T> epsilon) {
  using A = accumulate_t<T>;
  for (std::size_t set = blockIdx.x; set < of.sets(); set += gridDim.x) {
    A const count = static_cast<A>(of.count_of(set) == 0 ? 1 : of.count_of(set));
    A const mean =
        detail::sum_of_set<A>(of, set, [&](std::size_t at) { return static_cast<A>(x[at]); }) /
        count;
    A const squares = detail::sum_of_set<A>(of, set, [&](std::size_t at) {
      A const centred = static_cast<A>(x[at]) - mean;
      return centred * centred;
    });
    if (threadIdx.x != 0) continue;
    statistics[2 * set] = mean;
    statistics[2 * set + 1] = of.count_of(set) == 0 ? 0 : 1 / std::sqrt(squares / count + epsilon);
  }
}

/// Computes the mean and 1 / sqrt(variance + epsilon) of each set; for a set without a sample, both
/// are 0.
///
/// Shapes: as in host_maths::set_statistics
template <launcher Launch, class T>
void set_statistics(Launch launch, norm_shape const& of, T const* x, accumulate_t<T>* statistics,
                    double epsilon) {
  using A = accumulate_t<T>;
  detail::launch_blocks<A>(launch, set_statistics_kernel<T>, of.sets(), of, x, statistics,
                           static_cast<A>(epsilon));
}

template <class T>
__global__ void normalize_sets_kernel(norm_shape of, T const* x, accumulate_t<T> const* statistics,
                                      T const* gamma, T const* beta, T* y, std::size_t n) {
  using A = accumulate_t<T>;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    std::size_t const c = i / of.map % of.channels, set = of.set_of(i / of.image(), c);
    A const factor = statistics[2 * set + 1] * static_cast<A>(gamma[c]);
    y[i] = static_cast<T>((static_cast<A>(x[i]) - statistics[2 * set]) * factor +
                          static_cast<A>(beta[c]));
  });
}

/// y = gamma * (x - mean) * inverse_deviation + beta, with mean and inverse_deviation of the
/// element's set from `statistics`. y may be x.
template <launcher Launch, class T>
void normalize_sets(Launch launch, norm_shape const& of, T const* x,
                    accumulate_t<T> const* statistics, T const* gamma, T const* beta, T* y) {
  detail::launch_elements(launch, normalize_sets_kernel<T>, of.samples * of.image(), of, x,
                          statistics, gamma, beta, y);
}

template <class T>
__global__ __launch_bounds__(block_threads) void normalize_sets_backward_kernel(
    norm_shape of, T const* dy, T const* x, accumulate_t<T> const* statistics, T const* gamma,
    T* dx) {
  using A = accumulate_t<T>;
  for (std::size_t set = blockIdx.x; set < of.sets(); set += gridDim.x) {
    A const mean = statistics[2 * set], inverse = statistics[2 * set + 1];
    A const count = static_cast<A>(of.count_of(set) == 0 ? 1 : of.count_of(set));
    // With g = dy * gamma and h = (x - mean) * inverse:
    // dx = inverse * (g - average(g) - h * average(g * h))
    auto const g_of = [&](std::size_t at) {
      return static_cast<A>(dy[at]) * static_cast<A>(gamma[at / of.map % of.channels]);
    };
    auto const h_of = [&](std::size_t at) { return (static_cast<A>(x[at]) - mean) * inverse; };
    A const average_g = detail::sum_of_set<A>(of, set, g_of) / count;
    A const average_gh =
        detail::sum_of_set<A>(of, set, [&](std::size_t at) { return g_of(at) * h_of(at); }) / count;
    std::size_t const all = of.samples_together * of.channels_together * of.map;
    for (std::size_t i = threadIdx.x; i < all; i += blockDim.x) {
      std::size_t const at = detail::place_in_set(of, set, i);
      dx[at] = i < of.count_of(set)
                   ? static_cast<T>(inverse * (g_of(at) - average_g - h_of(at) * average_gh))
                   : static_cast<T>(0);
    }
  }
}

/// Computes the gradient of normalize_sets with respect to x, where the statistics depend on x,
/// too. dx may be dy.
template <launcher Launch, class T>
void normalize_sets_backward(Launch launch, norm_shape const& of, T const* dy, T const* x,
                             accumulate_t<T> const* statistics, T const* gamma, T* dx) {
  detail::launch_blocks<accumulate_t<T>>(launch, normalize_sets_backward_kernel<T>, of.sets(), of,
                                         dy, x, statistics, gamma, dx);
}

template <class T>
__global__ void scale_sets_kernel(norm_shape of, T const* dy, accumulate_t<T> const* statistics,
                                  T const* gamma, T* dx, std::size_t n) {
  using A = accumulate_t<T>;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    std::size_t const c = i / of.map % of.channels;
    A const factor = statistics[2 * of.set_of(i / of.image(), c) + 1] * static_cast<A>(gamma[c]);
    dx[i] = static_cast<T>(static_cast<A>(dy[i]) * factor);
  });
}

/// dx = dy * gamma * inverse_deviation, the gradient of normalize_sets with respect to x if the
/// statistics are constant. dx may be dy.
template <launcher Launch, class T>
void scale_sets(Launch launch, norm_shape const& of, T const* dy, accumulate_t<T> const* statistics,
                T const* gamma, T* dx) {
  detail::launch_elements(launch, scale_sets_kernel<T>, of.samples * of.image(), of, dy, statistics,
                          gamma, dx);
}

template <class T, class S>
__global__ __launch_bounds__(block_threads) void normalize_sets_parameters_kernel(
    norm_shape of, T const* dy, T const* x, accumulate_t<T> const* statistics, S* dgamma,
    S* dbeta) {
  using A = accumulate_t<T>;
  for (std::size_t c = blockIdx.x; c < of.channels; c += gridDim.x) {
    S products = 0, sum = 0;
    for (std::size_t i = threadIdx.x; i < of.present * of.map; i += blockDim.x) {
      std::size_t const s = i / of.map, at = s * of.image() + c * of.map + i % of.map;
      A const* const of_set = statistics + 2 * of.set_of(s, c);
      A const h = (static_cast<A>(x[at]) - of_set[0]) * of_set[1];
      products += static_cast<S>(static_cast<A>(dy[at]) * h);
      sum += static_cast<S>(static_cast<A>(dy[at]));
    }
    S const all_products = detail::block_sum(products), all = detail::block_sum(sum);
    if (threadIdx.x != 0) continue;
    dgamma[c] += all_products;
    dbeta[c] += all;
  }
}

/// Adds the gradients of normalize_sets with respect to gamma and beta to dgamma and dbeta.
template <launcher Launch, class T, class S>
void normalize_sets_parameters(Launch launch, norm_shape const& of, T const* dy, T const* x,
                               accumulate_t<T> const* statistics, S* dgamma, S* dbeta) {
  detail::launch_blocks<S>(launch, normalize_sets_parameters_kernel<T, S>, of.channels, of, dy, x,
                           statistics, dgamma, dbeta);
}

template <class T, class S>
__global__ __launch_bounds__(block_threads) void map_sums_kernel(T const* dy, S* sums,
                                                                 std::size_t samples,
                                                                 std::size_t channels,
                                                                 std::size_t map) {
  for (std::size_t c = blockIdx.x; c < channels; c += gridDim.x) {
    S sum = 0;
    for (std::size_t i = threadIdx.x; i < samples * map; i += blockDim.x)
      sum += static_cast<S>(dy[(i / map * channels + c) * map + i % map]);
    S const all = detail::block_sum(sum);
    if (threadIdx.x == 0) sums[c] += all;
  }
}

/// Adds the sums of dy over samples and maps to `sums`, which has an element for each channel.
template <launcher Launch, class T, class S>
void accumulate_map_sums(Launch launch, T const* dy, S* sums, std::size_t samples,
                         std::size_t channels, std::size_t map) {
  detail::launch_blocks<S>(launch, map_sums_kernel<T, S>, channels, dy, sums, samples, channels,
                           map);
}

template <class A, class S>
__global__ void statistics_sums_kernel(norm_shape of, A const* statistics, S* means, S* variances,
                                       double share, double epsilon, std::size_t n) {
  for_each_pack<1>({0, n}, [&](std::size_t c) {
    S mean = means[c], spread = variances[c];
    for (std::size_t set = c; set < of.sets(); set += of.sets_across()) {
      if (of.count_of(set) == 0) continue;
      double const weight = share * static_cast<double>(of.samples_of(set));
      double const inverse = static_cast<double>(statistics[2 * set + 1]);
      double const variance = 1 / (inverse * inverse) - epsilon;
      double const whole = static_cast<double>(of.whole_count_of(set));
      mean += static_cast<S>(weight * static_cast<double>(statistics[2 * set]));
      spread += static_cast<S>(weight * (variance < 0 ? 0 : variance) * (whole / (whole - 1)));
    }
    means[c] = mean;
    variances[c] = spread;
  });
}

/// Adds, for each channel, the means and the unbiased variances of its sets to `means` and
/// `variances`. Each set is weighted by `share` times its number of samples.
///
/// Shapes: as in host_maths::accumulate_statistics
template <launcher Launch, class A, class S>
void accumulate_statistics(Launch launch, norm_shape const& of, A const* statistics, S* means,
                           S* variances, double share, double epsilon) {
  detail::launch_elements(launch, statistics_sums_kernel<A, S>, of.channels, of, statistics, means,
                          variances, share, epsilon);
}

template <class A>
__global__ void sums_of_sets_kernel(norm_shape of, A const* statistics, A* sums, std::size_t n) {
  for_each_pack<1>(
      {0, n}, [&](std::size_t c) { sums[c] = static_cast<A>(of.count_of(c)) * statistics[2 * c]; });
}

/// Computes the sum of each set over the elements on this rank. Each set is one channel, and other
/// ranks have elements of it, too.
///
/// Shapes: as in host_maths::sums_of_sets
template <launcher Launch, class A>
void sums_of_sets(Launch launch, norm_shape const& of, A const* statistics, A* sums) {
  detail::launch_elements(launch, sums_of_sets_kernel<A>, of.channels, of, statistics, sums);
}

template <class A>
__global__ void squares_of_sets_kernel(norm_shape of, A const* statistics, A const* sums,
                                       A* squares, std::size_t n) {
  for_each_pack<1>({0, n}, [&](std::size_t c) {
    A const distance = statistics[2 * c] - sums[c] / static_cast<A>(of.whole_count_of(c));
    A const inverse = statistics[2 * c + 1];
    squares[c] = of.count_of(c) == 0 ? A(0)
                                     : static_cast<A>(of.count_of(c)) *
                                           (1 / (inverse * inverse) + distance * distance);
  });
}

/// Computes the sum of (x - mean)^2 of each set over the elements on this rank, where the mean is
/// the mean over all ranks.
///
/// Shapes: as in host_maths::squares_of_sets
template <launcher Launch, class A>
void squares_of_sets(Launch launch, norm_shape const& of, A const* statistics, A const* sums,
                     A* squares) {
  detail::launch_elements(launch, squares_of_sets_kernel<A>, of.channels, of, statistics, sums,
                          squares);
}

template <class A>
__global__ void whole_statistics_kernel(norm_shape of, A const* sums, A const* squares,
                                        A* statistics, A epsilon, std::size_t n) {
  for_each_pack<1>({0, n}, [&](std::size_t c) {
    A const count = static_cast<A>(of.whole_count_of(c));
    statistics[2 * c] = sums[c] / count;
    statistics[2 * c + 1] = 1 / std::sqrt(squares[c] / count + epsilon);
  });
}

/// Computes the mean and 1 / sqrt(variance + epsilon) of each set over all ranks, from the sums and
/// squares summed over all ranks.
///
/// Shapes: as in host_maths::whole_statistics
template <launcher Launch, class A>
void whole_statistics(Launch launch, norm_shape const& of, A const* sums, A const* squares,
                      A* statistics, double epsilon) {
  detail::launch_elements(launch, whole_statistics_kernel<A>, of.channels, of, sums, squares,
                          statistics, static_cast<A>(epsilon));
}

template <class T>
__global__ void normalize_whole_backward_kernel(norm_shape of, T const* dy, T const* x,
                                                accumulate_t<T> const* statistics,
                                                accumulate_t<T> const* dgamma,
                                                accumulate_t<T> const* dbeta, T const* gamma, T* dx,
                                                std::size_t n) {
  using A = accumulate_t<T>;
  A const count = static_cast<A>(of.everywhere == 0 ? 1 : of.everywhere);
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    std::size_t const c = i / of.map % of.channels;
    bool const is_present = i / of.image() < of.present;
    A const inverse = statistics[2 * c + 1];
    A const h = (static_cast<A>(x[i]) - statistics[2 * c]) * inverse;
    A const factor = is_present ? inverse * static_cast<A>(gamma[c]) : A(0);
    dx[i] = static_cast<T>(factor *
                           (static_cast<A>(dy[i]) - dbeta[c] / count - h * (dgamma[c] / count)));
  });
}

/// Computes the gradient of normalize_sets with respect to x for sets of which other ranks have a
/// part. dx may be dy.
///
/// Shapes: as in host_maths::normalize_whole_backward
template <launcher Launch, class T>
void normalize_whole_backward(Launch launch, norm_shape const& of, T const* dy, T const* x,
                              accumulate_t<T> const* statistics, accumulate_t<T> const* dgamma,
                              accumulate_t<T> const* dbeta, T const* gamma, T* dx) {
  detail::launch_elements(launch, normalize_whole_backward_kernel<T>, of.samples * of.image(), of,
                          dy, x, statistics, dgamma, dbeta, gamma, dx);
}

template <class T>
__global__ void given_statistics_kernel(T const* mean, T const* variance,
                                        accumulate_t<T>* statistics, accumulate_t<T> epsilon,
                                        std::size_t n) {
  using A = accumulate_t<T>;
  for_each_pack<1>({0, n}, [&](std::size_t c) {
    statistics[2 * c] = static_cast<A>(mean[c]);
    statistics[2 * c + 1] = 1 / std::sqrt(static_cast<A>(variance[c]) + epsilon);
  });
}

/// Computes for each channel the statistics that normalisation uses, mean and 1 / sqrt(variance +
/// epsilon), from a given mean and variance, such as the running averages of batch norm.
template <launcher Launch, class T>
void given_statistics(Launch launch, T const* mean, T const* variance, accumulate_t<T>* statistics,
                      std::size_t channels, double epsilon) {
  detail::launch_elements(launch, given_statistics_kernel<T>, channels, mean, variance, statistics,
                          static_cast<accumulate_t<T>>(epsilon));
}

}  // namespace plait::cuda_kernels
