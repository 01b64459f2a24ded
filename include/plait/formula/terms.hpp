// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/backend/attention_shape.hpp"
#include "plait/formula/draws.hpp"
#include "plait/formula/term.hpp"
#include "plait/layer/formula_operand.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/operation/rows.hpp"
#include "plait/tensor/dual_number.hpp"
#include "plait/tensor/functions.hpp"

/// The operators and functions of which a formula consists.
///
/// The compiler calls a formula once, with empty objects. The formula returns an empty object whose
/// type is the expression: `term<op::map<functions::silu>, term<op::matmul<false>, input_value<0>,
/// gate>>`. Terms of equal type are the same value, so a value that is used twice is calculated
/// once. formula/graph.hpp makes a table of the terms; no other code reads the types of terms.
namespace plait::formula {

// ---- Element by element -------------------------------------------------------------------------

template <operand A, operand B>
constexpr auto operator+(A, B) {
  return term<op::map<arithmetic::add>, A, B>{};
}
template <operand A, operand B>
constexpr auto operator-(A, B) {
  return term<op::map<arithmetic::subtract>, A, B>{};
}
template <operand A, operand B>
constexpr auto operator*(A, B) {
  return term<op::map<arithmetic::multiply>, A, B>{};
}
template <operand A, operand B>
constexpr auto operator/(A, B) {
  return term<op::map<arithmetic::divide>, A, B>{};
}
template <operand A>
constexpr auto operator-(A) {
  return term<op::map<arithmetic::negate>, A>{};
}

template <class T>
concept arithmetic_number = std::is_arithmetic_v<T>;
template <class Number>
consteval void refuse_number() {
  static_assert(sizeof(Number) == 0,
                "a formula cannot contain a plain number, because formulas are types; write the "
                "literal 0.5_c for 0.5, after `using namespace plait::literals;`");
}
template <operand A, arithmetic_number N>
constexpr auto operator+(A, N) {
  return refuse_number<N>(), A{};
}
template <arithmetic_number N, operand A>
constexpr auto operator+(N, A) {
  return refuse_number<N>(), A{};
}
template <operand A, arithmetic_number N>
constexpr auto operator-(A, N) {
  return refuse_number<N>(), A{};
}
template <arithmetic_number N, operand A>
constexpr auto operator-(N, A) {
  return refuse_number<N>(), A{};
}
template <operand A, arithmetic_number N>
constexpr auto operator*(A, N) {
  return refuse_number<N>(), A{};
}
template <arithmetic_number N, operand A>
constexpr auto operator*(N, A) {
  return refuse_number<N>(), A{};
}
template <operand A, arithmetic_number N>
constexpr auto operator/(A, N) {
  return refuse_number<N>(), A{};
}
template <arithmetic_number N, operand A>
constexpr auto operator/(N, A) {
  return refuse_number<N>(), A{};
}

// A struct and not an alias template, because nvcc loses the parameter pack of an alias template.
template <class, class T>
struct same_for {
  using type = T;
};
/// Returns f(values...), element by element. `f` is a function object without data members that
/// takes up to four numbers of any type. If `f` has a member function `slope`, this is the
/// derivative of `f`; otherwise the derivative is calculated with dual numbers.
///
/// Example (tests/reference/names_in_use_test.cpp map_of_formula):
///     static constexpr auto formula(auto x) {
///       return map(smooth_step{}, x, b);  // a function object without members
///     }
template <class Function, operand... Operands>
constexpr auto map(Function, Operands...) {
  static_assert(std::is_empty_v<Function>,
                "map(f, values...): f has data members, but a formula keeps only the type of f; "
                "write a function object without data members, and pass the numbers that it needs "
                "as parameters of the layer");
  static_assert(
      sizeof...(Operands) >= 1 && sizeof...(Operands) <= 4,
      "map(f, values...): f must take one to four values; split f into a chain of functions");
  static_assert(
      std::is_invocable_v<Function const&, typename same_for<Operands, float>::type...>,
      "map(f, values...): f cannot be called with one number for each value; declare `auto "
      "operator()(auto a, ...) const` in f, with as many parameters as there are values");
  return term<op::map<Function>, Operands...>{};
}

#define PLAIT_FORMULA_FUNCTION(name, function) \
  template <operand A>                         \
  constexpr auto name(A) {                     \
    return term<op::map<function>, A>{};       \
  }
PLAIT_FORMULA_FUNCTION(relu, functions::relu)
PLAIT_FORMULA_FUNCTION(gelu, functions::gelu_tanh)
PLAIT_FORMULA_FUNCTION(silu, functions::silu)
PLAIT_FORMULA_FUNCTION(sigmoid, functions::sigmoid)
PLAIT_FORMULA_FUNCTION(tanh, functions::tanh)
PLAIT_FORMULA_FUNCTION(exp, arithmetic::exponential)
PLAIT_FORMULA_FUNCTION(log, arithmetic::logarithm)
PLAIT_FORMULA_FUNCTION(sqrt, arithmetic::square_root)
PLAIT_FORMULA_FUNCTION(rsqrt, arithmetic::inverse_root)
PLAIT_FORMULA_FUNCTION(square, arithmetic::square)
#undef PLAIT_FORMULA_FUNCTION

/// Returns a number f(place) for each element of the elementwise function that reads it. `place` is
/// the index_place of the element in the whole value, so the number does not depend on how ranks
/// cut the value.
template <class Function>
constexpr auto at(Function) {
  static_assert(std::is_empty_v<Function>,
                "at(f): f has data members, but a formula keeps only the type of f; write a "
                "function object without data members");
  static_assert(std::is_invocable_v<Function const&, index_place const&>,
                "at(f): f cannot be called with the place of an element; declare `auto "
                "operator()(auto const& at) const` in f, which returns a number");
  return term<op::at<Function>>{};
}

// ---- Random numbers -----------------------------------------------------------------------------

/// Returns a uniform number in (0, 1) for each element of the elementwise function that reads it.
/// Draws with different `Number` are independent. All uses of the same `Number` in a formula read
/// the same draw.
///
/// The numbers depend on the seed, the step, the layer and the place of an element in the whole
/// value. Every plan therefore draws the same numbers, and the backward draws the numbers of the
/// forward. In evaluation all numbers are 0.5, their mean.
template <int Number>
constexpr auto uniform() {
  return term<op::draw<distribution::uniform, Number>>{};
}
/// Returns a standard normal number for each element of the elementwise function that reads it. The
/// numbers are drawn in the same way as the numbers of `uniform`. In evaluation each number is 0,
/// the mean, so mu + sigma * plait::formula::normal<0>() is mu.
template <int Number>
constexpr auto normal() {
  return term<op::draw<distribution::normal, Number>>{};
}
/// While training, sets each element to 0 with the given probability and scales the other elements
/// up; in evaluation, returns x (as torch.nn.Dropout does). Each dropout of a formula draws its own
/// numbers. The first one drops the same elements that an nn::dropout layer would drop in place of
/// this layer.
template <operand X, long long Numerator, long long Denominator>
constexpr auto dropout(X, number<Numerator, Denominator>) {
  static_assert(Numerator >= 0 && Numerator < Denominator,
                "dropout(x, probability): the probability must be in [0, 1), such as 0.1_c");
  return term<op::dropout<Numerator, Denominator>, X>{};
}
template <operand X, class Probability>
constexpr auto dropout(X, Probability) {
  static_assert(sizeof(Probability) == 0,
                "dropout(x, probability): the probability must be a formula literal, such as 0.1_c "
                "after `using namespace plait::literals;`");
  return X{};
}

// ---- Products and sums --------------------------------------------------------------------------

/// The operand of a product that reads the transpose of matrix A.
template <operand A>
struct transposed_operand {};
template <operand A>
constexpr auto transposed(A) {
  return transposed_operand<A>{};
}
/// Returns the product of each row of x and a matrix w; write transposed(w) for the transpose of a
/// matrix.
///
/// Shapes: x (rows, k); w, a parameter, (k, n), or (n, k) if it is read transposed; result (rows,
///         n).
template <operand X, operand W>
constexpr auto matmul(X, W) {
  return term<op::matmul<false>, X, W>{};
}
template <operand X, operand W>
constexpr auto matmul(X, transposed_operand<W>) {
  return term<op::matmul<true>, X, W>{};
}
/// Returns the sum of the features of each row, as a single feature.
template <operand A>
constexpr auto sum(A) {
  return term<op::reduce<false>, A>{};
}
/// Returns the mean of the features of each row, as a single feature.
template <operand A>
constexpr auto mean(A) {
  return term<op::reduce<true>, A>{};
}

/// Returns the logarithm of the sum of exp(x) over the last factor of the features, without
/// overflow.
template <operand A>
constexpr auto log_sum_exp(A) {
  return term<op::log_sum_exp, A>{};
}
/// Returns the greatest element of the last factor of the features. If several are equal, the
/// gradient is added to the first one.
template <operand A>
constexpr auto max(A) {
  return term<op::maximum, A>{};
}

// ---- Heads and pieces ---------------------------------------------------------------------------

/// Returns the features split into Heads equal heads: (rows, n) becomes (rows, [Heads, n / Heads]),
/// without a copy. Elementwise functions align such shapes at their last factors, in the same way
/// as PyTorch broadcasts: a row of n / Heads numbers is repeated for each head. Sums, means, norms
/// and softmax are calculated for each head.
///
/// A vector of parameters may be split into heads if elementwise functions read it. It has Heads
/// numbers, one for each head, or Heads * width numbers, one for each element.
template <std::size_t Heads, operand A>
constexpr auto heads(A) {
  return term<op::heads<int(Heads)>, A>{};
}
/// Returns the heads joined into features: (rows, [h, d]) becomes (rows, h d), without a copy.
template <operand A>
constexpr auto side_by_side(A) {
  return term<op::side_by_side, A>{};
}
/// Returns piece `Number` of `Count` equal pieces of the features.
template <int Number, int Count, operand A>
constexpr auto part(A) {
  static_assert(Count >= 2 && Count <= 8 && Number >= 0 && Number < Count,
                "part<Number, Count>(x): Number must be the number of a piece, counted from 0, and "
                "Count the number of pieces, two to eight");
  return term<op::part<Number, Count>, A>{};
}
/// Returns two to eight values of equal widths side by side, as one value.
template <operand... A>
constexpr auto concat(A...) {
  static_assert(sizeof...(A) >= 2 && sizeof...(A) <= 8,
                "concat(values...): pass two to eight values");
  return term<op::concat, A...>{};
}

// ---- Positions ----------------------------------------------------------------------------------

/// Returns the product of two activations, described by letters as in torch.einsum: one letter for
/// the position and one for each factor of the features. The sample has no letter.
/// einsum<"thd,shd->hts">(q, k) returns the scores of each head: the sum over d of q at position t
/// times k at position s. The rows of the result are the positions of the first letter of the
/// result that denotes a position. A softmax of the result runs over its last letter.
///
/// Shapes: each operand may have at most one letter that the other operand lacks and the result
///         has, and at most one letter is summed. Each rank has the whole sequence.
template <contraction_letters Letters, operand A, operand B>
constexpr auto einsum(A, B) {
  static_assert(
      parsed_contraction(Letters).is_sound,
      "einsum<letters>(a, b): write lower-case letters, one for each dimension of a, of b and of "
      "the result, at most four for each of them: einsum<\"thd,shd->hts\">(q, k)");
  return term<op::contract<Letters>, A, B>{};
}
/// Returns exp(x) divided by the sum of exp(x), over the last factor of the features.
template <operand A>
constexpr auto softmax(A) {
  return term<op::softmax<false>, A>{};
}
/// Returns the softmax of each row over the columns up to the row's own position (a causal mask);
/// later columns are 0.
template <operand A>
constexpr auto causal_softmax(A) {
  return term<op::softmax<true>, A>{};
}
/// Returns the attention with Heads query heads. A kernel of the device computes it and does not
/// store the scores. Heads / KeyValueHeads query heads read each key-value head. The scores are
/// divided by the square root of a head's width.
///
/// Shapes: q (rows, Heads width), k and v (rows, KeyValueHeads width); result as q.
template <std::size_t Heads, std::size_t KeyValueHeads = Heads,
          ext::attention_options Options = ext::attention_options{}, operand Q, operand K,
          operand V>
constexpr auto attention(Q, K, V) {
  return term<op::attention<Heads, KeyValueHeads, Options>, Q, K, V>{};
}
/// Returns the value `Steps` positions earlier; 0 if that position is outside of the sample.
template <int Steps, operand A>
constexpr auto shift(A) {
  return term<op::shift<Steps>, A>{};
}
/// Returns the numbers v of all positions of a sample, side by side in each row of the sample, so
/// that functions of scores can read them. With d = number_of(documents), a function of d and
/// across(d) can tell whether two positions belong to one document.
///
/// Shapes: v (rows, 1) or (rows, [h, 1]); result (rows, [positions]) or (rows, [h, positions]),
///         like the scores einsum<"thd,shd->hts">(q, k). Each rank has the whole sequence.
template <operand V>
constexpr auto across(V) {
  return term<op::across, V>{};
}
/// Returns h with h[t] = a[t] h[t - 1] + x[t], for the positions of each sample and for each
/// feature separately. In front of the first position, h is 0.
///
/// Shapes: x (rows, n); a (rows, n), or (rows, 1), or a number of the formula such as 0.9_c; result
///         (rows, n).
template <operand A, operand X>
constexpr auto scan(A, X) {
  return term<op::scan, A, X>{};
}

// ---- Images -------------------------------------------------------------------------------------

/// Returns the features as an image without a copy: Channels maps of Height x Width, one after the
/// other. An input that is declared as an image needs no as_image. Elementwise functions, heads,
/// part, concat, convolutions and poolings of images return images.
template <std::size_t Channels, std::size_t Height, std::size_t Width, operand A>
constexpr auto as_image(A) {
  static_assert(Channels > 0 && Height > 0 && Width > 0,
                "as_image<Channels, Height, Width>(x): one of the three numbers is 0; set them to "
                "the number of maps, and to the rows and columns of each map");
  return term<op::as_image<Channels, Height, Width>, A>{};
}

template <convolution_options Options>
consteval void check_convolution() {
  static_assert(Options.kernel > 0 && Options.stride > 0 && Options.groups > 0,
                "convolve<{.kernel, .stride, .groups}>(x, w): one of the three options is 0; set "
                "each to at least 1");
}
/// Returns the convolution of x with w, as torch.nn.functional.conv2d does: each element of an
/// output channel is the sum of the elements in one window of the input channels of its group, each
/// multiplied by a weight of the channel.
///
/// Shapes: x an image; w, a parameter, (outputs, channels / groups * kernel * kernel); b, a
///         parameter (outputs) that is added to the maps; result an image of `outputs` channels
///         with (height + 2 padding - kernel) / stride + 1 rows.
template <convolution_options Options = convolution_options{}, operand X, operand W>
constexpr auto convolve(X, W) {
  check_convolution<Options>();
  return term<op::convolve<Options>, X, W>{};
}
template <convolution_options Options = convolution_options{}, operand X, operand W, operand B>
constexpr auto convolve(X, W, B) {
  check_convolution<Options>();
  return term<op::convolve<Options>, X, W, B>{};
}

template <class Row, pool_options Options, operand X>
constexpr auto pool_of(X) {
  static_assert(
      Options.kernel > 0 && 2 * Options.padding <= Options.kernel,
      "max_pool or average_pool<{.kernel, .padding}>(x): some window would contain no element of "
      "the image; set .kernel to at least 1 and .padding to at most half of .kernel");
  return term<op::pool<Row, Options>, X>{};
}
/// Returns the greatest element of each window. The gradient is added to this element or, if
/// several elements are equally large, to the first of them.
///
/// Shapes: x an image; result an image of its channels with
///         (height + 2 padding - kernel) / stride + 1 rows.
template <pool_options Options = pool_options{}, operand X>
constexpr auto max_pool(X) {
  return pool_of<operation::max_pool, Options>(X{});
}
/// Returns the mean of each window, in which padding counts as zeros. mean(heads<Channels>(x)) is
/// the mean of each map.
///
/// Shapes: as max_pool.
template <pool_options Options = pool_options{}, operand X>
constexpr auto average_pool(X) {
  return pool_of<operation::average_pool, Options>(X{});
}

// ---- Operations with rows of their own ---------------------------------------------------------

/// Returns, for each token, the row of the table whose number is the token, as in
/// torch.nn.functional.embedding.
///
/// Shapes: table, a parameter (tokens, n); ids, an input of plait::tokens; result (rows, n).
template <operand Table, operand Ids>
constexpr auto gather(Table, Ids) {
  return term<op::call<operation::gather_rows>, Ids, Table>{};
}

/// Returns the integers of an input, converted to real numbers for elementwise functions. They have
/// no gradient.
///
/// Shapes: ids, an input of plait::tokens or integers<n> (rows, n); result (rows, n).
template <operand Ids>
constexpr auto number_of(Ids) {
  return term<op::map<arithmetic::to_number>, Ids>{};
}

/// Returns, for each row, the element of x in the column whose number is the row's integer.
///
/// Shapes: x (rows, n); ids, an input of plait::tokens (rows); result (rows, 1). If the integer is
///         outside of [0, n), the result and the gradient of the row are 0.
template <operand X, operand Ids>
constexpr auto pick(X, Ids) {
  return term<op::pick, X, Ids>{};
}
/// Returns -log(softmax(x)[id]) for each row: log_sum_exp(x) - pick(x, ids).
///
/// Shapes: as pick.
template <operand X, operand Ids>
constexpr auto cross_entropy(X, Ids) {
  return log_sum_exp(X{}) - pick(X{}, Ids{});
}

template <class A>
struct as_made {
  using type = A;
};
template <int Index>
struct as_made<input_value<Index>> {
  using type = term<op::map<arithmetic::identity>, input_value<Index>>;
};
/// Returns y, and adds the mean of `loss` over all rows of the global batch to the loss of the job.
/// It is the outermost operation of a formula.
///
/// Shapes: y, the result of any formula; loss, a number of each row (rows, 1).
template <operand Y, operand Loss>
constexpr auto with_loss(Y, Loss) {
  return term<op::with_loss, typename as_made<Y>::type, typename as_made<Loss>::type>{};
}

template <class T>
inline constexpr bool is_number = false;
template <long long Numerator, long long Denominator>
inline constexpr bool is_number<number<Numerator, Denominator>> = true;

/// Returns gamma x / sqrt(mean of the squares of the row + epsilon).
template <operand X, operand Gamma, operand Epsilon = number<1, 100000>>
constexpr auto rms_norm(X, Gamma, Epsilon = {}) {
  static_assert(is_number<Epsilon>,
                "rms_norm(x, gamma, epsilon): epsilon must be a formula literal, such as 1e-5_c");
  return term<op::call<operation::rms_norm, Epsilon>, X, Gamma>{};
}
/// Returns gamma (x - mean of the row) / sqrt(variance of the row + epsilon) + beta.
template <operand X, operand Gamma, operand Beta, operand Epsilon = number<1, 100000>>
constexpr auto layer_norm(X, Gamma, Beta, Epsilon = {}) {
  static_assert(
      is_number<Epsilon>,
      "layer_norm(x, gamma, beta, epsilon): epsilon must be a formula literal, such as 1e-5_c");
  return term<op::call<operation::layer_norm, Epsilon>, X, Gamma, Beta>{};
}

/// The number that the characters of a literal denote, as a fraction. `is_number`: false if the
/// characters do not denote a number.
struct parsed_number {
  long long numerator = 0, denominator = 1;
  bool is_number = true;
};
constexpr parsed_number parse_number(char const* text, int size) {
  parsed_number out;
  bool has_point = false;
  int i = 0, exponent = 0;
  for (; i < size && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.' && !has_point) has_point = true;
    else if (text[i] >= '0' && text[i] <= '9') {
      out.numerator = out.numerator * 10 + (text[i] - '0');
      if (has_point) out.denominator *= 10;
    } else if (text[i] != '\'') out.is_number = false;
  }
  bool const is_negative = i + 1 < size && text[i + 1] == '-';
  for (i += is_negative ? 2 : 1; i < size; ++i) exponent = exponent * 10 + (text[i] - '0');
  for (; exponent > 0; --exponent) (is_negative ? out.denominator : out.numerator) *= 10;
  return out;
}

}  // namespace plait::formula

/// Literals for numbers in formulas, such as 1e-5_c; enable them with `using namespace
/// plait::literals;`.
namespace plait {
inline namespace literals {

/// Returns a number in a formula, such as 0.5_c or 1e-5_c. Formulas are types, so the numbers in
/// them are types, too.
///
/// Errors: a number with more digits than a long long holds does not compile.
template <char... Characters>
constexpr auto operator""_c() {
  constexpr char text[]{Characters...};
  constexpr auto parsed = formula::parse_number(text, sizeof...(Characters));
  static_assert(parsed.is_number,
                "a formula literal such as 0.5_c has other characters than digits, a point and an "
                "exponent; write it like 0.5_c or 1e-5_c");
  return formula::number<parsed.numerator, parsed.denominator>{};
}

}  // namespace literals
}  // namespace plait
