// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/backend/attention_shape.hpp"
#include "plait/formula/draws.hpp"
#include "plait/layer/formula_operand.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/operation/rows.hpp"
#include "plait/tensor/dual_number.hpp"
#include "plait/tensor/functions.hpp"

/// The types of which the expressions of formulas consist: values, operations, and the functions of
/// the operators + - * /.
namespace plait::formula {

/// Input `Index` of a layer.
template <int Index>
struct input_value : operand_base {};

/// A constant, Numerator / Denominator.
template <long long Numerator, long long Denominator = 1>
struct number : operand_base {
  static_assert(Denominator > 0,
                "number<Numerator, Denominator>: the denominator must be positive");
  static constexpr double value = double(Numerator) / double(Denominator);
};

/// The result of an operation on operands.
template <class Operation, operand... Operands>
struct term : operand_base {};

/// The text of a contraction, such as "thd,shd->hts". It is not an array of characters because nvcc
/// does not take an array in the name of a kernel.
struct contraction_letters {
  ext::name text;

  template <std::size_t Size>
  consteval contraction_letters(char const (&letters)[Size]) : text(letters) {}  // NOLINT: implicit
  constexpr explicit contraction_letters(ext::name of) : text(of) {}
};
/// The letters of both operands and of the result of a contraction.
struct parsed_contraction {
  static constexpr int most = 4;
  char letters[3][most]{};
  int counts[3]{};
  bool is_sound = true;

  constexpr explicit parsed_contraction(contraction_letters const& from) {
    int group = 0;
    for (std::size_t i = 0; i < from.text.size(); ++i) {
      char const each = from.text[i];
      bool const is_letter = each >= 'a' && each <= 'z';
      if (is_letter && counts[group] < most) letters[group][counts[group]++] = each;
      else if (each == ',' && group == 0) group = 1;
      else if (each == '-' && group == 1 && from.text[i + 1] == '>') group = 2, ++i;
      else if (each != ' ') is_sound = false;
    }
    is_sound = is_sound && group == 2 && counts[0] > 0 && counts[1] > 0 && counts[2] > 0;
  }
};

/// Options of `convolve`. nvcc does not accept options in bare braces after the name of a function;
/// for nvcc write their type, too: convolve<convolution_options{.kernel = 5}>(x, w).
struct convolution_options {
  std::size_t kernel = 3;   ///< rows and columns of the windows
  std::size_t stride = 1;   ///< the distance between neighbouring windows
  std::size_t padding = 0;  ///< rows and columns of zeros on each side of a map
  std::size_t groups = 1;   ///< groups of channels; each group is convolved separately
};
/// Options of `max_pool` and `average_pool`.
struct pool_options {
  std::size_t kernel = 2;   ///< rows and columns of the windows
  std::size_t stride = 0;   ///< the distance between neighbouring windows; 0: as large as `kernel`
  std::size_t padding = 0;  ///< rows and columns on each side of a map; at most half the kernel
};

/// The operations of terms.
namespace op {
template <class Function>
struct at {};
template <class Function>
struct map {};
/// A random number for each element. Draws with different `Number` are independent.
template <distribution From, int Number>
struct draw {};
template <long long Numerator, long long Denominator>
struct dropout {};
template <bool IsTransposed>
struct matmul {};
template <bool IsMean>
struct reduce {};
template <int Count>
struct heads {};
struct side_by_side {};
template <int Number, int Count>
struct part {};
struct concat {};
template <contraction_letters Letters>
struct contract {};
template <bool IsCausal>
struct softmax {};
/// Attention of `Heads` query heads that read `KeyValueHeads` key-value heads.
template <std::size_t Heads, std::size_t KeyValueHeads, ext::attention_options Options>
struct attention {};
template <int Steps>
struct shift {};
struct scan {};
template <std::size_t Channels, std::size_t Height, std::size_t Width>
struct as_image {};
template <convolution_options Options>
struct convolve {};
/// A pooling. `Row`: the operation of operation/rows.hpp that reduces each window.
template <class Row, pool_options Options>
struct pool {};
struct across {};
struct log_sum_exp {};
struct maximum {};
struct pick {};
struct with_loss {};
/// A call of an operation that is declared in operation/rows.hpp or by the program itself.
/// `Numbers` are constants that follow the operands in the call.
template <class Row, class... Numbers>
struct call {};
}  // namespace op

/// The place of an element of a result: `at.position` in the sequence, `at.sample` in the global
/// batch, and at[0], at[1], ..., the indices in the factors of the columns. In columns [heads,
/// width] at[0] is the head and at[1] the feature. Even if ranks have blocks, all of these indices
/// count from 0 in the whole sequence, batch and row.
struct index_place {
  std::size_t position = 0, sample = 0;
  std::size_t factors[3]{};
  random_place random{};  ///< the place in the stream of random numbers, from which the draws of a
                          ///< formula are computed

  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr std::size_t operator[](int factor) const {
    return factors[factor];
  }
};

/// The algebraic kind of a function. It decides whether a sum over ranks may pass through the
/// function.
enum class algebra : int { other, sum, difference, negation, product, quotient };

/// The functions that the operators + - * / apply to numbers of any type.
namespace arithmetic {
struct add {
  static constexpr auto is = algebra::sum;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto a, auto b) const { return a + b; }
};
struct subtract {
  static constexpr auto is = algebra::difference;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto a, auto b) const { return a - b; }
};
struct negate {
  static constexpr auto is = algebra::negation;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto a) const { return -a; }
};
struct multiply {
  static constexpr auto is = algebra::product;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto a, auto b) const { return a * b; }
};
struct divide {
  static constexpr auto is = algebra::quotient;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto a, auto b) const { return a / b; }
};
/// A function that returns x, as a separate value.
struct identity {
  static constexpr auto is = algebra::sum;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto x) const { return x; }
};
/// A function that converts an integer to a real number.
struct to_number {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto id) const { return id; }
};
struct square {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto operator()(auto x) const { return x * x; }
};
struct exponential {
  static constexpr bool from_output = true;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto x) const {
    return functions::exponential(x);
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr auto slope(auto y) const { return y; }
};
struct logarithm {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto x) const {
    using std::log;
    return log(x);
  }
};
struct square_root {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto x) const {
    using std::sqrt;
    return sqrt(x);
  }
};
struct inverse_root {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto x) const {
    using std::sqrt;
    return decltype(x)(1) / sqrt(x);
  }
};
}  // namespace arithmetic

}  // namespace plait::formula
