// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "plait/backend/arguments.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/error.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/number_range.hpp"
#include "plait/operation/rows.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/whole_matrices.hpp"

namespace plait::execution::muon_steps {

/// Updates the momentum of one element, and writes the element of the matrix that the step makes
/// orthogonal, in the type Number: the momentum or, with nesterov, a weighted sum of the momentum
/// and the gradient. If the step is not taken, the momentum is unchanged and the sum is 0.
template <class Number>
struct add_to_momentum {
  Number momentum;
  bool nesterov;

  template <class Gradient, class State>
  PLAIT_HOST_DEVICE void operator()(std::size_t, Gradient const* gradient, double const* scale,
                                    State* state, Number* sum) const {
    if (*scale != *scale) {
      *sum = 0;
      return;
    }
    Number const of_step = static_cast<Number>(*gradient) * static_cast<Number>(*scale);
    Number const next = momentum * static_cast<Number>(*state) + (1 - momentum) * of_step;
    *state = static_cast<State>(next);
    *sum = nesterov ? momentum * next + (1 - momentum) * of_step : next;
  }
};

/// Writes 1 / (the Frobenius norm of a matrix + 1e-7). `gram`: the product of the matrix and its
/// transpose. The sum of its diagonal is the square of the norm.
template <class Number>
struct inverse_norm {
  PLAIT_HOST_DEVICE void operator()(std::size_t side, Number const* gram, Number* inverse) const {
    using std::sqrt;
    Number squares = 0;
    for (std::size_t i = 0; i < side; ++i) squares += gram[i * (side + 1)];
    *inverse = 1 / (sqrt(squares) + static_cast<Number>(1e-7));
  }
};

/// Multiplies an element by a number, `times` times.
template <class Number>
struct multiply {
  int times;
  PLAIT_HOST_DEVICE void operator()(std::size_t, Number const* factor, Number* value) const {
    for (int i = 0; i < times; ++i) *value *= *factor;
  }
};

/// Computes power = b * gram + c * power for one element.
template <class Number>
struct combine {
  Number b, c;
  PLAIT_HOST_DEVICE void operator()(std::size_t, Number const* gram, Number* power) const {
    *power = b * *gram + c * *power;
  }
};

template <class Number>
struct add_number {
  Number a;
  PLAIT_HOST_DEVICE void operator()(std::size_t, Number* value) const { *value += a; }
};

/// Subtracts the step from a parameter, and writes its copy if there is one.
template <class Number>
struct subtract_step {
  Number rate;    ///< factor of the learning rate
  Number factor;  ///< factor of the orthogonal matrix
  Number weight_decay;

  template <class Parameter, class Copy>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, Number const* orthogonal,
                                    adamw_numbers const* now, update_range const* range,
                                    double const* scale, Parameter* parameter, Copy* copy) const {
    (*this)(columns, orthogonal, now, range, scale, parameter);
    if (*scale == *scale) *copy = static_cast<Copy>(*parameter);
  }
  template <class Parameter>
  PLAIT_HOST_DEVICE void operator()(std::size_t, Number const* orthogonal, adamw_numbers const* now,
                                    update_range const* range, double const* scale,
                                    Parameter* parameter) const {
    if (*scale != *scale) return;  // the step is not taken
    auto const learning_rate = static_cast<Number>(now->learning_rate * range->rate) * rate;
    auto const kept = 1 - learning_rate * weight_decay * static_cast<Number>(range->decay);
    *parameter = static_cast<Parameter>(static_cast<Number>(*parameter) * kept -
                                        learning_rate * factor * *orthogonal);
  }
};

}  // namespace plait::execution::muon_steps

namespace plait::ext {

/// Functions of the shape of a matrix. Each returns a factor by which `muon` multiplies the
/// orthogonal matrix of a step.
namespace matrix_scales {

/// Returns 0.2 * sqrt(max(rows, columns)). A step is then about as large as a step of AdamW, so
/// that both rules can use the same learning rate. Moonlight uses this factor, and so does
/// PyTorch's `match_rms_adamw`.
inline double like_adamw(std::size_t rows, std::size_t columns) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
}
/// Returns sqrt(max(1, rows / columns)), the original factor for matrices that are stored as
/// (outputs, inputs), as PyTorch, nn::swiglu and nn::conv2d store them.
inline double output_input(std::size_t rows, std::size_t columns) {
  return std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
}
/// Returns sqrt(max(1, columns / rows)), the original factor for matrices that are stored as
/// (inputs, outputs), as nn::linear stores them by default.
inline double input_output(std::size_t rows, std::size_t columns) {
  return output_input(columns, rows);
}

}  // namespace matrix_scales

/// Updates matrices by Muon, and all other parameters by AdamW. Muon replaces the singular values
/// of a matrix's momentum by numbers near 1, and subtracts the result, times the learning rate and
/// a factor, from the matrix. It computes the result by a few Newton-Schulz iterations, which
/// consist of matrix products.
///
/// Sources: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et
///          al., "Muon is scalable for LLM training" (Moonlight), 2025.
/// Needs:   whole matrices, as under data_parallel<Ranks>, pipeline<Ranks> and
///          zero_of_matrices<Level>. With zero<Level> it does not compile. If a tensor axis cuts a
///          matrix, an input_error names the matrix. At least one trained matrix of the model must
///          be selected by `matrices`.
/// Cost:    an iteration on a matrix of (m, n), m <= n, makes three products: 4 m^2 n + 2 m^3
///          floating-point operations. Each rank that has a matrix updates it. The memory has two
///          states as large as the weights, of which the second stays 0 for matrices, and one piece
///          of scratch memory (workload::optimizer_scratch).
/// Units:   updates are computed in accumulate_t of the parameters' type: in float for bfloat16.
///
/// Example (tests/train/muon_test.cpp original):
///     muon const original{.scale = matrix_scales::input_output, .matrix_rate = 20};
struct muon {
  using concept_tag = optimizer_tag;
  using numbers = adamw_numbers;
  using whole_matrices = execution::whole_matrices;
  /// The name in checkpoints.
  static constexpr char const* name = "muon";
  static constexpr int states = 2;
  /// The names in checkpoints of the states that AdamW updates.
  static constexpr auto state_names = adamw::state_names;
  /// The name in checkpoints of the momentum of a matrix. The second state of a matrix is not
  /// saved.
  static constexpr std::array<char const*, 1> matrix_state_names{"muon_momentum"};

  double learning_rate = 1e-3;
  double weight_decay = 1e-2;
  bool (*decays)(parameter_description const&) = decay_all;
  /// Selects the parameters that are updated as whole matrices. AdamW updates vectors even if the
  /// function returns true for them. The usual choice excludes embeddings and the head. Checkpoints
  /// and ranks compare the selected matrices.
  bool (*matrices)(parameter_description const&) = decay_matrices;

  // For matrices.
  double momentum = 0.95;
  bool nesterov = true;
  int iterations = 5;
  /// An iteration replaces each singular value s by a s + b s^3 + c s^5.
  std::array<double, 3> coefficients{3.4445, -4.7750, 2.0315};
  double (*scale)(std::size_t rows, std::size_t columns) = matrix_scales::like_adamw;
  double matrix_rate = 1;  ///< factor of the learning rate for matrices

  // For other parameters; see adamw.
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;

  /// Returns the settings; see adamw::settings.
  ///
  /// Errors: input_error if `matrices`, `decays` or `scale` is null.
  [[nodiscard]] std::array<setting, 14> settings() const;
  /// Returns the numbers that change from update to update; see adamw::numbers_of.
  [[nodiscard]] numbers numbers_of(std::int64_t age, double rate_factor) const {
    return adamw{.learning_rate = learning_rate, .beta1 = beta1, .beta2 = beta2}.numbers_of(
        age, rate_factor);
  }
  /// Returns the bytes of scratch memory for matrices of this shape, for
  /// workload::optimizer_scratch: two copies of a matrix, two square matrices of its smaller side,
  /// and a number. `Parameter`: the type of the parameters that the optimizer updates.
  template <class Parameter>
  [[nodiscard]] static constexpr std::size_t scratch_bytes(std::size_t rows, std::size_t columns) {
    return scratch_of<accumulate_t<Parameter>>(rows, columns).total;
  }
  /// Enqueues an update of one matrix or of other parameters; see matrix_optimizer.
  template <class Queue, class Arena>
  void update(Queue queue, Arena const& of, numbers const* now) const {
    if (of.rows == 0)
      return queue.adamw(of, adamw_constants{beta1, beta2, epsilon, weight_decay}, now);
    using number = accumulate_t<std::remove_pointer_t<decltype(of.parameters)>>;
    auto const offsets = scratch_of<number>(of.rows, of.columns);
    auto const count = of.rows * of.columns;
    auto const at = [&](std::size_t bytes) {
      return reinterpret_cast<number*>(static_cast<std::byte*>(of.scratch) + bytes);
    };
    number* const x = at(offsets.x);
    queue.run(
        operation::rows{},
        execution::muon_steps::add_to_momentum<number>{static_cast<number>(momentum), nesterov},
        count, 1, each(of.gradients, count), one(of.gradient_scale), each(of.states, count),
        each(x, count));
    number const* const step = orthogonal(queue, of.rows, of.columns, x, at(offsets.y),
                                          at(offsets.gram), at(offsets.power), at(0));
    execution::muon_steps::subtract_step<number> const last{
        static_cast<number>(matrix_rate), static_cast<number>(scale(of.rows, of.columns)),
        static_cast<number>(weight_decay)};
    if (of.copies == nullptr)
      queue.run(operation::rows{}, last, count, 1, each(step, count), one(now), one(of.ranges),
                one(of.gradient_scale), each(of.parameters, count));
    else
      queue.run(operation::rows{}, last, count, 1, each(step, count), one(now), one(of.ranges),
                one(of.gradient_scale), each(of.parameters, count), each(of.copies, count));
  }

 private:
  /// Offsets of the parts of the scratch memory, in bytes; the inverse of the norm is first.
  struct places {
    std::size_t x = 0, y = 0, gram = 0, power = 0, total = 0;
  };
  template <class Number>
  static constexpr places scratch_of(std::size_t rows, std::size_t columns) {
    std::size_t const side = std::min(rows, columns);
    std::size_t const matrix_bytes = planning::aligned(rows * columns * sizeof(Number));
    std::size_t const square_bytes = planning::aligned(side * side * sizeof(Number));
    std::size_t const x = planning::aligned(sizeof(Number)), gram = x + 2 * matrix_bytes;
    return {x, x + matrix_bytes, gram, gram + square_bytes, gram + 2 * square_bytes};
  }

  /// Returns operands of operation::rows: consecutive elements, or a number that all elements use.
  template <class T>
  static matrix<T> each(T* data, std::size_t count) {
    return {data, count, 1};
  }
  template <class T>
  static matrix<T const> one(T const* data) {
    return {data, 1, 1, 0};
  }

  /// Enqueues the iterations on the matrix x, and returns the address of the result: x or y.
  ///
  /// Shapes: x, y (rows, columns); gram, power (side, side), side = min(rows, columns); inverse (1)
  template <class Queue, class Number>
  Number* orthogonal(Queue const& queue, std::size_t rows, std::size_t columns, Number* x,
                     Number* y, Number* gram, Number* power, Number* inverse) const {
    using namespace execution::muon_steps;
    bool const is_wide = rows <= columns;
    std::size_t const side = std::min(rows, columns);
    auto const [a, b, c] = coefficients;
    auto const whole = [&](auto* data) { return matrix{data, rows, columns}; };
    auto const square = [&](auto* data) { return matrix{data, side, side}; };
    auto const constant = [](Number const* data) { return data; };
    for (int i = 0; i < iterations; ++i) {
      queue.run(operation::matmul{}, whole(constant(x)), whole(constant(x)), square(gram),
                transposes{!is_wide, is_wide}, false);  // (side, side)
      if (i == 0) {
        queue.run(operation::rows{}, inverse_norm<Number>{}, 1, side,
                  matrix<Number const>{gram, 1, side * side}, each(inverse, 1));
        queue.run(operation::rows{}, multiply<Number>{1}, rows * columns, 1, one<Number>(inverse),
                  each(x, rows * columns));
        queue.run(operation::rows{}, multiply<Number>{2}, side * side, 1, one<Number>(inverse),
                  each(gram, side * side));
      }
      // power = a + b gram + c gram^2, which is a polynomial of x's squared singular values
      queue.run(operation::matmul{}, square(constant(gram)), square(constant(gram)), square(power),
                transposes{}, false);
      queue.run(operation::rows{}, combine<Number>{static_cast<Number>(b), static_cast<Number>(c)},
                side * side, 1, each(constant(gram), side * side), each(power, side * side));
      queue.run(operation::rows{}, add_number<Number>{static_cast<Number>(a)}, side, 1,
                matrix<Number>{power, side, 1, side + 1});
      if (is_wide)
        queue.run(operation::matmul{}, square(constant(power)), whole(constant(x)), whole(y),
                  transposes{}, false);
      else
        queue.run(operation::matmul{}, whole(constant(x)), square(constant(power)), whole(y),
                  transposes{}, false);
      std::swap(x, y);
    }
    return x;
  }
};

inline std::array<setting, 14> muon::settings() const {
  using namespace number_ranges;
  if (matrices == nullptr || decays == nullptr || scale == nullptr)
    throw input_error(
        {"the optimizer's ",
         matrices == nullptr ? "matrices"
         : decays == nullptr ? "decays"
                             : "scale",
         " is null; write a function, such as plait::decay_matrices for the first two "
         "and plait::ext::matrix_scales::like_adamw for scale"});
  number_range const finite{-greatest_finite, greatest_finite, "a finite number"};
  return {{{"learning_rate", learning_rate, finite_from_0},
           {"weight_decay", weight_decay, finite_from_0},
           {"momentum", momentum, from_0_to_below_1},
           {"nesterov", nesterov ? 1.0 : 0.0},
           {"iterations", static_cast<double>(iterations), {1, 100, "from 1 to 100"}},
           {"coefficients[0]", coefficients[0], finite},
           {"coefficients[1]", coefficients[1], finite},
           {"coefficients[2]", coefficients[2], finite},
           {"scale(2, 8)", scale(2, 8), finite_from_0},
           {"scale(8, 2)", scale(8, 2), finite_from_0},
           {"matrix_rate", matrix_rate, finite_from_0},
           {"beta1", beta1, from_0_to_below_1},
           {"beta2", beta2, from_0_to_below_1},
           {"epsilon", epsilon, finite_above_0}}};
}

static_assert(matrix_optimizer<muon>);

}  // namespace plait::ext
