// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two layers whose bodies are algorithms of Thrust and, on a GPU, of CUB; a model with them; and
// its training on data that Thrust has made. nvcc compiles this file for GPUs and the processor,
// any other compiler only for the processor: thrust_layer.cu and thrust_layer.cpp.
#include <plait/backend/cuda/thrust.hpp>
#include <plait/plait.hpp>

#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/sort.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

#if defined(__CUDACC__)
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

#include <plait/backend/cuda/device/cuda_queue.hpp>
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace thrust_layer {

using counter = thrust::counting_iterator<std::size_t>;

// CUB reports at run time how much temporary memory it needs, but a slot has its size at compile
// time: this is more than a number for each block that a GPU of today can hold at once.
constexpr std::size_t values_for_cub = 16384;

// ---- y = x w / |w| -----------------------------------------------------------------------------

template <class T>
struct product_at {  // function objects are named types with PLAIT_HOST_DEVICE
  T const* a;
  T const* b;
  PLAIT_HOST_DEVICE T operator()(std::size_t i) const { return a[i] * b[i]; }
};

// example-begin sum
// *sum = a[0] b[0] + a[1] b[1] + ...: on a GPU the sum stays in its memory.
template <class T>
void sum_of_products(plait::ext::host_queue const& queue, plait::ext::thrust_scratch&, T const* a,
                     T const* b, std::size_t count, T* sum) {
  *sum = thrust::transform_reduce(plait::ext::thrust_policy(queue), counter(0), counter(count),
                                  product_at<T>{a, b}, T{0}, thrust::plus<T>());
}
#if defined(__CUDACC__)
template <class T>
void sum_of_products(plait::ext::cuda_queue const& queue, plait::ext::thrust_scratch& memory,
                     T const* a, T const* b, std::size_t count, T* sum) {
  plait::ext::run_cub(queue, memory, "cub::DeviceReduce::TransformReduce",
                      [&](void* temporary, std::size_t& bytes, cudaStream_t stream) {
                        return cub::DeviceReduce::TransformReduce(
                            temporary, bytes, counter(0), sum, static_cast<std::int64_t>(count),
                            thrust::plus<T>(), product_at<T>{a, b}, T{0}, stream);
                      });
}
#endif
// example-end

struct root {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {
    using std::sqrt;
    return sqrt(x);
  }
};
template <class T>
struct divided_by {
  T const* norm;
  PLAIT_HOST_DEVICE T operator()(T x) const { return x / *norm; }
};
template <class T>
struct without_radial_part {
  T const* along;
  T const* norm;
  PLAIT_HOST_DEVICE T operator()(T dw, T w) const { return dw - w * *along / (*norm * *norm); }
};

// example-begin norm
struct norm_of {  // norm = |w|
  template <class Queue, class Weight, class Norm, class Scratch>
  void operator()(Queue const& queue, Weight w, Norm norm, Scratch scratch) const {
    plait::ext::thrust_scratch memory(scratch);
    sum_of_products(queue, memory, w.data, w.data, w.count(), norm.data);
    thrust::transform(plait::ext::thrust_policy(queue), begin(norm), end(norm), begin(norm),
                      root{});
  }
};
// example-end
struct divide {  // y = x / norm; y may be x
  template <class Queue, class Norm, class X, class Y>
  void operator()(Queue const& queue, Norm norm, X x, Y y) const {
    using T = typename Y::element;
    thrust::transform(plait::ext::thrust_policy(queue), begin(x), end(x), begin(y),
                      divided_by<T>{norm.data});
  }
};
struct remove_radial_part {  // dw -= w (y, dy) / norm^2
  template <class Queue, class Weight, class Y, class Norm, class Scratch, class Gradient>
  void operator()(Queue const& queue, Weight w, Y y, Y dy, Norm norm, Scratch scratch,
                  Gradient dw) const {
    using T = typename Gradient::element;
    plait::ext::thrust_scratch memory(scratch);
    T* const along = memory.template take<T>(1);
    sum_of_products(queue, memory, y.data, dy.data, y.count(), along);
    thrust::transform(plait::ext::thrust_policy(queue), begin(dw), end(dw), begin(w), begin(dw),
                      without_radial_part<T>{along, norm.data});
  }
};

// example-begin layer
template <std::size_t In, std::size_t Out>
struct unit_linear {  // y = x w / |w|
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.5)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<In>;
  using output = plait::features<Out>;
  using norm = plait::slot<"norm", 0, 1>;
  using saved = plait::saved<plait::input_slot, plait::output_slot, norm>;
  using temporary = plait::slot<"temporary", 0, values_for_cub>;
  using scaled = plait::slot<"scaled", Out>;
  using scratch = plait::scratch<temporary, scaled>;

  static void forward(auto& ops, auto l) {
    ops.run(norm_of{}, l.p[weight{}], l.saved[norm{}], l.scratch[temporary{}]);
    ops.matmul(l.x, l.p[weight{}], l.y);
    ops.run(divide{}, l.saved[norm{}], l.y, l.y);
  }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, plait::transposed(l.p[weight{}]), l.dx);
    ops.run(divide{}, l.saved[norm{}], l.dx, l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.run(divide{}, l.saved[norm{}], l.dy, l.scratch[scaled{}]);
    ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]), l.scratch[scaled{}],
                          l.dp[weight{}]);
    ops.run(remove_radial_part{}, l.p[weight{}], l.saved[plait::output_slot{}], l.dy,
            l.saved[norm{}], l.scratch[temporary{}], l.dp[weight{}]);
  }
};
// example-end

// ---- The greatest values of each row, as a softmax of them; the others are 0 --------------------

struct column_of {
  std::size_t columns;
  PLAIT_HOST_DEVICE std::int32_t operator()(std::size_t i) const {
    return static_cast<std::int32_t>(i % columns);
  }
};
struct begin_of_row {
  std::size_t columns;
  PLAIT_HOST_DEVICE std::int32_t operator()(std::size_t row) const {
    return static_cast<std::int32_t>(row * columns);
  }
};
template <class T>
struct softmax_of_first {
  std::size_t keep, columns;
  T const* values;            // values of a row, in descending order
  std::int32_t const* order;  // the columns of these values
  T* y;
  PLAIT_HOST_DEVICE void operator()(std::size_t row) const {
    using std::exp;
    std::size_t const at = row * columns;
    T sum = 0;
    for (std::size_t k = 0; k < keep; ++k) sum += exp(values[at + k] - values[at]);
    for (std::size_t c = 0; c < columns; ++c) y[at + c] = 0;
    for (std::size_t k = 0; k < keep; ++k)
      y[at + static_cast<std::size_t>(order[at + k])] = exp(values[at + k] - values[at]) / sum;
  }
};

// Sorts the rows of x, greatest first, into `values`, and their columns into `order`.
template <class X, class T>
void sort_rows(plait::ext::host_queue const& queue, plait::ext::thrust_scratch&, X x, T* values,
               std::int32_t const* columns, std::int32_t* order) {
  auto const policy = plait::ext::thrust_policy(queue);
  thrust::copy(policy, begin(x), end(x), values);
  thrust::copy(policy, columns, columns + x.count(), order);
  for (std::size_t i = 0; i < x.count(); i += x.columns)
    thrust::stable_sort_by_key(policy, values + i, values + i + x.columns, order + i,
                               thrust::greater<T>());
}
#if defined(__CUDACC__)
template <class X, class T>
void sort_rows(plait::ext::cuda_queue const& queue, plait::ext::thrust_scratch& memory, X x,
               T* values, std::int32_t const* columns, std::int32_t* order) {
  auto const first = thrust::make_transform_iterator(counter(0), begin_of_row{x.columns});
  plait::ext::run_cub(queue, memory, "cub::DeviceSegmentedRadixSort::SortPairsDescending",
                      [&](void* temporary, std::size_t& bytes, cudaStream_t stream) {
                        return cub::DeviceSegmentedRadixSort::SortPairsDescending(
                            temporary, bytes, x.data, values, columns, order,
                            static_cast<int>(x.count()), static_cast<int>(x.rows), first, first + 1,
                            0, static_cast<int>(8 * sizeof(T)), stream);
                      });
}
#endif

// example-begin top_k
struct top_k {
  std::size_t keep;
  template <class Queue, class X, class Y, class Scratch>
  void operator()(Queue const& queue, X x, Y y, Scratch scratch) const {
    using T = typename Y::element;
    plait::ext::thrust_scratch memory(scratch);
    T* const values = memory.template take<T>(x.count());  // there are no slots of integers
    auto* const columns = memory.template take<std::int32_t>(x.count());
    auto* const order = memory.template take<std::int32_t>(x.count());
    auto const policy = plait::ext::thrust_policy(queue, memory);
    thrust::transform(policy, counter(0), counter(x.count()), columns, column_of{x.columns});
    sort_rows(queue, memory, x, values, columns, order);
    thrust::for_each(policy, counter(0), counter(x.rows),
                     softmax_of_first<T>{keep, x.columns, values, order, y.data});
  }
};
// example-end
struct softmax_gradient {  // 0 where y is
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, auto const* y, auto const* dy,
                                    auto* dx) const {
    auto sum = y[0] * dy[0];
    for (std::size_t c = 1; c < columns; ++c) sum += y[c] * dy[c];
    for (std::size_t c = 0; c < columns; ++c) dx[c] = y[c] * (dy[c] - sum);
  }
};

template <std::size_t Width, std::size_t Keep>
struct top_k_gate {
  static_assert(0 < Keep && Keep <= Width);
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using saved = plait::saved<plait::output_slot>;
  // Values and two lists of columns, and for CUB the same again without one of the lists.
  using temporary = plait::slot<"temporary", 5 * Width, values_for_cub>;
  using scratch = plait::scratch<temporary>;

  static void forward(auto& ops, auto l) { ops.run(top_k{Keep}, l.x, l.y, l.scratch[temporary{}]); }
  static void backward_input(auto& ops, auto l) {
    ops.rows(softmax_gradient{}, l.saved[plait::output_slot{}], l.dy, l.dx);
  }
};

// ---- A model of them
// -----------------------------------------------------------------------------

inline constexpr std::size_t width = 12, classes = 4;

constexpr plait::nn::linear_options head{.weight = plait::normal(0.5)};
using net = plait::sequential<unit_linear<width, 24>, top_k_gate<24, 6>,
                              plait::nn::linear<24, classes, head>>;
template <class Policy>
struct job : plait::parallel<plait::objective<net, plait::nn::cross_entropy<classes>>, Policy> {};

// example-begin data
struct number_at {  // sample s is near the centre of class s % classes
  PLAIT_HOST_DEVICE float operator()(std::size_t i) const {
    auto const uniform = [](std::uint32_t site, std::size_t index) {
      return plait::ext::uniform_from_bits(plait::ext::random_word({1, site, 0}, index)) - 0.5;
    };
    std::size_t const s = i / width, c = i % width;
    return static_cast<float>(8 * uniform(0, s % classes * width + c) + 2 * uniform(1, i));
  }
};

inline plait::in_memory<float> samples(std::size_t count) {
  thrust::device_vector<float> made(count * width);  // on the GPU, if Thrust uses one
  thrust::tabulate(made.begin(), made.end(), number_at{});
  std::vector<float> features(made.size());
  thrust::copy(made.begin(), made.end(), features.begin());
  std::vector<std::int32_t> labels(count);
  thrust::tabulate(thrust::seq, labels.begin(), labels.end(), column_of{classes});
  return {std::move(features), std::move(labels), width};
}
// example-end

/// The losses of two epochs.
template <class Policy, class Backend>
std::vector<double> train(Backend const& backend, bool replay = false) {
  auto const data = samples(256);
  std::vector<double> losses;
  plait::launch<job<Policy>>(backend, [&](auto& rank) {
    auto trainer =
        plait::trainer<job<Policy>>(rank, plait::adamw{.learning_rate = 0.05}, {.replay = replay});
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto const& batch : plait::batches(data, plait::global_batch<16>{}, rank)) {
        double const loss = trainer.step(batch).loss;
        if (rank.is_root()) losses.push_back(loss);
      }
  });
  return losses;
}

}  // namespace thrust_layer
