// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "plait/backend/host/maths/lanes.hpp"

namespace plait::host_maths {

namespace detail {

// Replaces the elements of a block by their square roots, rounded as by std::sqrt. The function
// uses the processor's instruction. With std::sqrt, which may set errno, compilers would not
// vectorise the enclosing loop.
template <class T>
PLAIT_IN_LOOPS void take_roots(T (&values)[lanes<T>]) {
#if defined(__SSE2__)
#if defined(__AVX512F__)
  constexpr std::size_t bytes = 64;
#elif defined(__AVX__)
  constexpr std::size_t bytes = 32;
#else
  constexpr std::size_t bytes = 16;
#endif
  typedef T vector __attribute__((vector_size(bytes)));
  for (std::size_t l = 0; l < lanes<T>; l += bytes / sizeof(T)) {
    vector root;
    std::memcpy(&root, values + l, bytes);
#if defined(__AVX__)
    if constexpr (sizeof(T) == 4) asm("vsqrtps %0, %0" : "+v"(root));
    else asm("vsqrtpd %0, %0" : "+v"(root));
#else
    if constexpr (sizeof(T) == 4) asm("sqrtps %0, %0" : "+x"(root));
    else asm("sqrtpd %0, %0" : "+x"(root));
#endif
    std::memcpy(values + l, &root, bytes);
  }
#else
  for (T& value : values) value = std::sqrt(value);
#endif
}

}  // namespace detail

/// The numbers of one AdamW step.
struct adamw_step {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
  double bias_correction1 = 1;  // 1 - beta1^t, with t = 1 at the first step
  double bias_correction2 = 1;  // 1 - beta2^t
  double gradient_scale = 1;    // factor of the gradient, applied first (clipping)
};

/// Makes one AdamW step for n parameters, in the order of operations of torch.optim.AdamW: decay,
/// first moment by lerp, second moment, sqrt(v) * (1 / sqrt(bias_correction2)) + epsilon, update.
///
/// Shapes: parameter, gradient, m, v (n); no operands overlap
/// Source: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
template <class T, class Gradient>
[[gnu::noinline]] void adamw_update(T* __restrict__ parameter,
                                    Gradient const* __restrict__ gradient, T* __restrict__ m,
                                    T* __restrict__ v, std::size_t n, adamw_step const& step) {
  // The scalars are computed in double and rounded once, as in PyTorch.
  T const gradient_scale = static_cast<T>(step.gradient_scale);
  T const decay = static_cast<T>(1 - step.learning_rate * step.weight_decay);
  T const weight1 = static_cast<T>(1 - step.beta1);
  T const beta2 = static_cast<T>(step.beta2);
  T const weight2 = static_cast<T>(1 - step.beta2);
  T const inverse_deviation = static_cast<T>(1 / std::sqrt(step.bias_correction2));
  T const epsilon = static_cast<T>(step.epsilon);
  T const step_size = static_cast<T>(-(step.learning_rate / step.bias_correction1));
  in_blocks<T>(n, [=](std::size_t first, auto count) PLAIT_INLINED {
    T new_m[lanes<T>], new_v[lanes<T>], root[lanes<T>] = {};
    for (std::size_t l = 0, i = first; l < count; ++l, ++i) {
      T const g = gradient[i] * gradient_scale;
      new_m[l] = multiply_add(weight1, g - m[i], m[i]);
      root[l] = new_v[l] = multiply_add(v[i], beta2, weight2 * g * g);
    }
    detail::take_roots(root);
    for (std::size_t l = 0, i = first; l < count; ++l, ++i) {
      T const denominator = multiply_add(root[l], inverse_deviation, epsilon);
      root[l] = multiply_add(parameter[i], decay, step_size * new_m[l] / denominator);
    }
    std::memcpy(m + first, new_m, count * sizeof(T));
    std::memcpy(v + first, new_v, count * sizeof(T));
    std::memcpy(parameter + first, root, count * sizeof(T));
  });
}

/// The numbers of one step of stochastic gradient descent.
struct sgd_step {
  double learning_rate = 1e-2;
  double momentum = 0;
  double weight_decay = 0;    // added to the gradient: g + weight_decay * parameter
  double gradient_scale = 1;  // factor of the gradient, applied first (clipping)
};

/// Makes one step of torch.optim.SGD without dampening for n parameters: buffer = momentum * buffer
/// + g, parameter -= learning_rate * buffer. The buffer starts as zeros; with momentum 0 it may be
/// null.
///
/// Shapes: parameter, gradient, buffer (n); no operands overlap
template <class T, class Gradient>
[[gnu::noinline]] void sgd_update(T* __restrict__ parameter, Gradient const* __restrict__ gradient,
                                  T* __restrict__ buffer, std::size_t n, sgd_step const& step) {
  T const gradient_scale = static_cast<T>(step.gradient_scale);
  T const weight_decay = static_cast<T>(step.weight_decay);
  T const momentum = static_cast<T>(step.momentum);
  T const step_size = static_cast<T>(-step.learning_rate);
  auto const g = [=](std::size_t i) PLAIT_INLINED {
    return multiply_add(weight_decay, parameter[i], gradient[i] * gradient_scale);
  };
  if (step.momentum == 0)
    return generate<T>(n, parameter, [=](std::size_t i) PLAIT_INLINED {
      return multiply_add(step_size, g(i), parameter[i]);
    });
  generate<T>(n, buffer,
              [=](std::size_t i) PLAIT_INLINED { return multiply_add(momentum, buffer[i], g(i)); });
  generate<T>(n, parameter, [=](std::size_t i) PLAIT_INLINED {
    return multiply_add(step_size, buffer[i], parameter[i]);
  });
}

/// average = decay * average + (1 - decay) * x.
///
/// Shapes: x, average (n); they do not overlap
template <class T>
[[gnu::noinline]] void average(T const* __restrict__ x, T* __restrict__ average, std::size_t n,
                               double decay) {
  T const old = static_cast<T>(decay);
  T const share = static_cast<T>(1 - decay);
  generate<T>(n, average, [=](std::size_t i) PLAIT_INLINED {
    return multiply_add(old, average[i], share * x[i]);
  });
}

/// Returns the sum of the squares of n values, in double.
template <class T>
[[gnu::noinline]] double sum_of_squares(T const* x, std::size_t n) {
  auto const value = [=](std::size_t i) PLAIT_INLINED { return static_cast<double>(x[i]); };
  return lane_sum_of_products<double>(n, value, value);
}

}  // namespace plait::host_maths
