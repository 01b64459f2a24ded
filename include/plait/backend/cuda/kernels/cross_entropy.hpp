// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "plait/backend/cross_entropy_target.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/tensor/functions.hpp"

// The cross-entropy of logits whose classes may be sharded: a shard has the classes [first_class,
// first_class + valid_columns), and its columns from valid_columns on are padding. Every shard
// calls row_max and cross_entropy_terms; after each, the results of all shards are combined, by
// maximum and by sum. Then cross_entropy_sum and cross_entropy_backward need no communication. If
// one shard has all classes, cross_entropy_statistics replaces row_max and cross_entropy_terms by
// one pass over the logits, and cross_entropy_with_gradient replaces all functions except
// cross_entropy_sum. A block of threads computes a row. `weights` has a factor for each row; null
// means 1.

namespace plait::cuda_kernels {

namespace detail {

template <class A>
struct of_each_warp {
  A value[warp_threads];
};

// Returns the column of a shard that contains class `target`, or `count` if another shard has it.
__device__ __forceinline__ std::size_t local_class(std::int32_t target, std::size_t first,
                                                   std::size_t count) {
  // A negative target, or a target below `first`, wraps around to a very large number.
  return smaller(static_cast<std::size_t>(target) - first, count);
}

/// Calls each(pack) for the elements of a row that this thread reads; the block reads the whole
/// row.
template <int V, int Threads = block_threads, class T, class Each>
__device__ __forceinline__ void for_each_logits(T const* row, std::size_t columns, Each each) {
  std::size_t const whole = columns - columns % V;
  for_each_step<std::size_t{Threads} * V, 4>(
      std::size_t{threadIdx.x} * V, whole, [&](std::size_t c) { return load<V>(row + c); },
      [&](std::size_t, pack<T, V> const& values) { each(values); });
  if constexpr (V > 1)
    if (whole + threadIdx.x < columns) each(load<1>(row + whole + threadIdx.x));
}

/// Calls each(logit) for the logits of a row that this thread reads.
template <int V, class T, class Each>
__device__ __forceinline__ void for_each_logit(T const* row, std::size_t columns, Each each) {
  for_each_logits<V>(row, columns, [&]<int W>(pack<T, W> const& values) {
    PLAIT_UNROLL
    for (int v = 0; v < W; ++v) each(static_cast<accumulate_t<T>>(values.value[v]));
  });
}

/// The largest logit that a thread has read so far, and sums relative to it (online softmax).
template <class A, class Target>
struct online_sums {
  A max = minus_infinity<A>;
  A sum = 0;                     // sum of e^(logit - max)
  A sum_below = 0;               // sum of (logit - max); for a smoothed target only
  [[maybe_unused]] A count = 0;  // number of summands in sum_below

  template <class T, int W>
  __device__ __forceinline__ void add(pack<T, W> const& values) {
    A largest = max;
    PLAIT_UNROLL
    for (int v = 0; v < W; ++v) {
      A const logit = static_cast<A>(values.value[v]);
      largest = logit > largest ? logit : largest;
    }
    refer_to(largest);
    // If all logits so far are minus infinity, their difference to max would be NaN.
    A const from = max == minus_infinity<A> ? A{0} : max;
    PLAIT_UNROLL
    for (int v = 0; v < W; ++v) {
      A const below = static_cast<A>(values.value[v]) - from;
      sum += functions::exponential(below);
      if constexpr (Target::is_smoothed) sum_below += below;
    }
    if constexpr (Target::is_smoothed) count += A{W};
  }
  /// Stores the terms of a row whose classes are not sharded.
  template <class T>
  __device__ __forceinline__ void store_terms(T const* row, std::int32_t target,
                                              std::size_t classes, A* to) const {
    std::size_t const label = local_class(target, 0, classes);
    to[0] = sum;
    to[1] = label == classes ? A{0} : static_cast<A>(row[label]) - max;
    if constexpr (Target::is_smoothed) to[2] = sum_below;
  }
  /// Rescales the sums, so that they are relative to `largest`, which is at least max.
  __device__ __forceinline__ void refer_to(A largest) {
    if (!(largest > max)) return;
    sum *= functions::exponential(max - largest);
    if constexpr (Target::is_smoothed)
      if (count > 0) sum_below -= count * (largest - max);
    max = largest;
  }
};

/// Returns the maximum of a row whose classes are not sharded, and the sums relative to it. All
/// threads of the block get the same result.
template <int V, class Target, int Threads = block_threads, class T, class Memory>
__device__ __forceinline__ online_sums<accumulate_t<T>, Target> statistics_of_row(
    T const* row, std::size_t valid_columns, Memory& memory) {
  using A = accumulate_t<T>;
  auto const plus = [](A a, A b) { return a + b; };
  online_sums<A, Target> seen;
  for_each_logits<V, Threads>(row, valid_columns, [&](auto const& values) { seen.add(values); });
  A const largest = block_reduce(seen.max, memory.value, [](A a, A b) { return b > a ? b : a; });
  seen.refer_to(largest);
  __syncthreads();
  seen.sum = block_reduce(seen.sum, memory.value, plus);
  __syncthreads();
  if constexpr (Target::is_smoothed) {
    seen.sum_below = block_reduce(seen.sum_below, memory.value, plus);
    __syncthreads();
  }
  return seen;
}

/// Stores the gradient with respect to the logits of a row. `label`: the column of the row's label,
/// or valid_columns if another shard has it.
template <int V, int Threads = block_threads, class T, class Target>
__device__ __forceinline__ void store_gradient_of_row(T const* row, T* to, std::size_t label,
                                                      accumulate_t<T> of_row,
                                                      accumulate_t<T> largest, accumulate_t<T> sum,
                                                      std::size_t columns,
                                                      std::size_t valid_columns,
                                                      [[maybe_unused]] Target target) {
  using A = accumulate_t<T>;
  A const factor = of_row / sum;
  A on_label = of_row;
  [[maybe_unused]] A on_each = 0;
  if constexpr (Target::is_smoothed) {
    on_label = of_row * static_cast<A>(target.on_label);
    on_each = of_row * static_cast<A>(target.on_each);
  }
  for_each_step<std::size_t{Threads} * V, 2>(
      std::size_t{threadIdx.x} * V, columns, [&](std::size_t c) { return load<V>(row + c); },
      [&](std::size_t c, pack<T, V> values) {
        // Returns the index of a column in the pack, or V if the column is not in the pack.
        auto const place = [&](std::size_t column) {
          return static_cast<int>(smaller<std::size_t>(V, column - smaller(column, c)));
        };
        int const of_label = label < c ? V : place(label), valid = place(valid_columns);
        PLAIT_UNROLL
        for (int v = 0; v < V; ++v) {
          A softmax = factor * functions::exponential(static_cast<A>(values.value[v]) - largest);
          if constexpr (Target::is_smoothed) softmax -= on_each;
          A const gradient = v == of_label ? softmax - on_label : softmax;
          values.value[v] = static_cast<T>(v < valid ? gradient : A{0});
        }
        store(values, to + c);
      });
}
template <int V, int Threads = block_threads, class T>
__device__ __forceinline__ void store_zeros_of_row(T* to, std::size_t columns) {
  for_each_step<std::size_t{Threads} * V>(std::size_t{threadIdx.x} * V, columns,
                                          [&](std::size_t c) { store(pack<T, V>{}, to + c); });
}

template <class A>
launch_shape shape_for_long_rows(std::size_t rows) {
  return {blocks_for(rows, 1), block_threads, sizeof(of_each_warp<A>)};
}

}  // namespace detail

template <int V, class T>
__global__ __launch_bounds__(block_threads) void row_max_kernel(T const* logits,
                                                                accumulate_t<T>* max,
                                                                std::size_t rows,
                                                                std::size_t columns,
                                                                std::size_t valid_columns) {
  using A = accumulate_t<T>;
  auto& memory = shared_memory<detail::of_each_warp<A>>();
  auto const greater = [](A a, A b) { return b > a ? b : a; };
  for (std::size_t r = blockIdx.x; r < rows; r += gridDim.x) {
    A largest = minus_infinity<A>;
    detail::for_each_logit<V>(logits + r * columns, valid_columns,
                              [&](A logit) { largest = greater(largest, logit); });
    largest = block_reduce(largest, memory.value, greater);
    if (threadIdx.x == 0) max[r] = largest;
    __syncthreads();
  }
}

/// Computes the largest logit of each row; minus infinity if valid_columns is 0. NaNs are skipped.
///
/// Shapes: logits (rows, columns), valid_columns <= columns; max (rows)
template <launcher Launch, class T>
void row_max(Launch launch, T const* logits, accumulate_t<T>* max, std::size_t rows,
             std::size_t columns, std::size_t valid_columns) {
  if (rows == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(logits, columns * sizeof(T));
  launch(vectors ? row_max_kernel<wide, T> : row_max_kernel<1, T>,
         detail::shape_for_long_rows<accumulate_t<T>>(rows), logits, max, rows, columns,
         valid_columns);
}

template <int V, class Target, class T>
__global__ __launch_bounds__(block_threads) void cross_entropy_terms_kernel(
    T const* logits, std::int32_t const* targets, accumulate_t<T> const* max,
    accumulate_t<T>* terms, std::size_t first_class, std::size_t rows, std::size_t columns,
    std::size_t valid_columns) {
  using A = accumulate_t<T>;
  auto& memory = shared_memory<detail::of_each_warp<A>>();
  for (std::size_t r = blockIdx.x; r < rows; r += gridDim.x) {
    A const largest = max[r];
    A sum = 0;
    [[maybe_unused]] A sum_below = 0;  // sum of (logit - max)
    detail::for_each_logit<V>(logits + r * columns, valid_columns, [&](A logit) {
      A const below = logit - largest;
      sum += functions::exponential(below);
      if constexpr (Target::is_smoothed) sum_below += below;
    });
    auto const plus = [](A a, A b) { return a + b; };
    sum = block_reduce(sum, memory.value, plus);
    A* const of_row = terms + Target::terms * r;
    if (threadIdx.x == 0) {
      std::size_t const target = detail::local_class(targets[r], first_class, valid_columns);
      of_row[0] = sum;
      of_row[1] =
          target == valid_columns ? A{0} : static_cast<A>(logits[r * columns + target]) - largest;
    }
    __syncthreads();
    if constexpr (Target::is_smoothed) {
      sum_below = block_reduce(sum_below, memory.value, plus);
      if (threadIdx.x == 0) of_row[2] = sum_below;
      __syncthreads();
    }
  }
}

/// Computes the terms of each row, to which each shard contributes: the sum of e^(logit - max); the
/// target's logit minus max, or 0 if another shard has the target; for a smoothed target also the
/// sum of (logit - max).
///
/// Shapes: logits (rows, columns); targets, max (rows); terms (rows, Target::terms)
template <class Target = one_hot_target, launcher Launch, class T>
void cross_entropy_terms(Launch launch, T const* logits, std::int32_t const* targets,
                         accumulate_t<T> const* max, accumulate_t<T>* terms,
                         std::size_t first_class, std::size_t rows, std::size_t columns,
                         std::size_t valid_columns) {
  if (rows == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(logits, columns * sizeof(T));
  launch(vectors ? cross_entropy_terms_kernel<wide, Target, T>
                 : cross_entropy_terms_kernel<1, Target, T>,
         detail::shape_for_long_rows<accumulate_t<T>>(rows), logits, targets, max, terms,
         first_class, rows, columns, valid_columns);
}

template <int V, class Target, class T>
__global__ __launch_bounds__(block_threads) void cross_entropy_statistics_kernel(
    T const* logits, std::int32_t const* targets, accumulate_t<T>* max, accumulate_t<T>* terms,
    std::size_t rows, std::size_t columns, std::size_t valid_columns) {
  using A = accumulate_t<T>;
  auto& memory = shared_memory<detail::of_each_warp<A>>();
  for (std::size_t r = blockIdx.x; r < rows; r += gridDim.x) {
    T const* const row = logits + r * columns;
    auto const seen = detail::statistics_of_row<V, Target>(row, valid_columns, memory);
    if (threadIdx.x == 0) {
      max[r] = seen.max;
      seen.store_terms(row, targets[r], valid_columns, terms + Target::terms * r);
    }
  }
}

/// Computes the results of row_max and cross_entropy_terms, for classes that are not sharded, in
/// one pass over the logits. The sums are relative to the maximum so far, and are rescaled when a
/// larger logit appears.
///
/// Shapes: logits (rows, columns); targets, max (rows); terms (rows, Target::terms)
template <class Target = one_hot_target, launcher Launch, class T>
void cross_entropy_statistics(Launch launch, T const* logits, std::int32_t const* targets,
                              accumulate_t<T>* max, accumulate_t<T>* terms, std::size_t rows,
                              std::size_t columns, std::size_t valid_columns) {
  if (rows == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(logits, columns * sizeof(T));
  launch(vectors ? cross_entropy_statistics_kernel<wide, Target, T>
                 : cross_entropy_statistics_kernel<1, Target, T>,
         detail::shape_for_long_rows<accumulate_t<T>>(rows), logits, targets, max, terms, rows,
         columns, valid_columns);
}

inline constexpr int loss_threads = 1024;

template <class A, class Target>
__global__ __launch_bounds__(loss_threads) void cross_entropy_sum_kernel(
    A const* terms, std::int32_t const* targets, std::int32_t ignore, std::size_t rows,
    double const* scale, double* loss, double const* weights, Target target) {
  auto& memory = shared_memory<detail::of_each_warp<double>>();
  double sum = 0;
  for (std::size_t r = threadIdx.x; r < rows; r += loss_threads)
    if (!is_ignored(targets[r], ignore))
      sum += (weights == nullptr ? 1.0 : weights[r]) * target.loss(terms + Target::terms * r);
  sum = block_reduce(sum, memory.value, [](double a, double b) { return a + b; });
  if (threadIdx.x == 0) *loss += *scale * sum;
}

/// Adds *scale * (sum over rows of weight * -log(probability of the target)) to *loss. Rows whose
/// target is `ignore` are skipped. The terms must have been summed over all shards.
///
/// Shapes: terms (rows, Target::terms); targets, weights (rows); scale and loss point to one number
///         in device memory
template <launcher Launch, class A, class Target = one_hot_target>
void cross_entropy_sum(Launch launch, A const* terms, std::int32_t const* targets,
                       std::int32_t ignore, std::size_t rows, double const* scale, double* loss,
                       double const* weights = nullptr, Target target = {}) {
  if (rows == 0) return;
  launch(cross_entropy_sum_kernel<A, Target>,
         launch_shape{1, loss_threads, sizeof(detail::of_each_warp<double>)}, terms, targets,
         ignore, rows, scale, loss, weights, target);
}

template <int V, class T, class Target>
__global__ __launch_bounds__(block_threads) void cross_entropy_backward_kernel(
    T const* logits, std::int32_t const* targets, accumulate_t<T> const* max,
    accumulate_t<T> const* terms, double const* scale, T* dlogits, std::size_t first_class,
    std::int32_t ignore, std::size_t rows, std::size_t columns, std::size_t valid_columns,
    double const* weights, [[maybe_unused]] Target target) {
  using A = accumulate_t<T>;
  double const of_all = *scale;
  for (std::size_t r = blockIdx.x; r < rows; r += gridDim.x) {
    T* const to = dlogits + r * columns;
    if (is_ignored(targets[r], ignore)) {
      detail::store_zeros_of_row<V>(to, columns);
      continue;
    }
    A const of_row = static_cast<A>(weights == nullptr ? of_all : of_all * weights[r]);
    detail::store_gradient_of_row<V>(
        logits + r * columns, to, detail::local_class(targets[r], first_class, valid_columns),
        of_row, max[r], terms[Target::terms * r], columns, valid_columns, target);
  }
}

/// dlogits = *scale * weight * (softmax - target); zeros in rows whose target is ignored, and in
/// the padding. The terms must have been summed over all shards. dlogits may be logits.
///
/// Shapes: logits, dlogits (rows, columns); targets, max, weights (rows); terms (rows,
///         Target::terms); scale points to one number in device memory
template <launcher Launch, class T, class Target = one_hot_target>
void cross_entropy_backward(Launch launch, T const* logits, std::int32_t const* targets,
                            accumulate_t<T> const* max, accumulate_t<T> const* terms,
                            double const* scale, T* dlogits, std::size_t first_class,
                            std::int32_t ignore, std::size_t rows, std::size_t columns,
                            std::size_t valid_columns, double const* weights = nullptr,
                            Target target = {}) {
  if (rows == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(logits, dlogits, columns * sizeof(T));
  launch(vectors ? cross_entropy_backward_kernel<wide, T, Target>
                 : cross_entropy_backward_kernel<1, T, Target>,
         launch_shape{blocks_for(rows, 1), block_threads}, logits, targets, max, terms, scale,
         dlogits, first_class, ignore, rows, columns, valid_columns, weights, target);
}

inline constexpr int row_threads = 512;
/// The number of blocks for which a multiprocessor has enough registers; in double two blocks would
/// spill registers.
template <class T>
inline constexpr int row_blocks = sizeof(T) == 8 ? 1 : 2;

template <int V, class T, class Target>
__global__ __launch_bounds__(row_threads, row_blocks<T>) void cross_entropy_with_gradient_kernel(
    T const* logits, std::int32_t const* targets, accumulate_t<T>* terms, double const* scale,
    T* dlogits, std::int32_t ignore, std::size_t rows, std::size_t columns,
    std::size_t valid_columns, double const* weights, Target target) {
  using A = accumulate_t<T>;
  auto& memory = shared_memory<detail::of_each_warp<A>>();
  double const of_all = *scale;
  for (std::size_t r = blockIdx.x; r < rows; r += gridDim.x) {
    T const* const row = logits + r * columns;
    T* const to = dlogits + r * columns;
    if (is_ignored(targets[r], ignore)) {
      detail::store_zeros_of_row<V, row_threads>(to, columns);
      continue;
    }
    auto const seen = detail::statistics_of_row<V, Target, row_threads>(row, valid_columns, memory);
    if (threadIdx.x == 0)
      seen.store_terms(row, targets[r], valid_columns, terms + Target::terms * r);
    __syncthreads();  // waits for thread 0, which has just read `row`: `to` may be `row`
    A const of_row = static_cast<A>(weights == nullptr ? of_all : of_all * weights[r]);
    detail::store_gradient_of_row<V, row_threads>(
        row, to, detail::local_class(targets[r], 0, valid_columns), of_row, seen.max, seen.sum,
        columns, valid_columns, target);
  }
}

/// Computes the results of cross_entropy_statistics and cross_entropy_backward for classes that are
/// not sharded. A block reads a row, and then reads it once more for the gradient, from the L2
/// cache. Blocks are large and few, so that all rows in progress fit into that cache: 26 MB for
/// 50,304 classes in bfloat16 on 132 multiprocessors. No terms are written for rows whose target is
/// `ignore`, since cross_entropy_sum does not read them. dlogits may be logits.
///
/// Shapes: logits, dlogits (rows, columns); targets, weights (rows); terms (rows, Target::terms);
///         scale points to one number in device memory
template <launcher Launch, class T, class Target = one_hot_target>
void cross_entropy_with_gradient(Launch launch, T const* logits, std::int32_t const* targets,
                                 accumulate_t<T>* terms, double const* scale, T* dlogits,
                                 std::int32_t ignore, std::size_t rows, std::size_t columns,
                                 std::size_t valid_columns, double const* weights = nullptr,
                                 Target target = {}) {
  if (rows == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(logits, dlogits, columns * sizeof(T));
  launch(
      vectors ? cross_entropy_with_gradient_kernel<wide, T, Target>
              : cross_entropy_with_gradient_kernel<1, T, Target>,
      launch_shape{blocks_for(rows, 1), row_threads, sizeof(detail::of_each_warp<accumulate_t<T>>)},
      logits, targets, terms, scale, dlogits, ignore, rows, columns, valid_columns, weights,
      target);
}

}  // namespace plait::cuda_kernels
