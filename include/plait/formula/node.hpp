// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/window_shape.hpp"
#include "plait/formula/terms.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/signature.hpp"

/// The nodes of a formula.
namespace plait::formula {

enum class node_kind : int {
  none,  ///< a product that has become one with its bias
  input,
  parameter,
  number,
  index_function,   ///< a function of the place of an element
  draw,             ///< a random number for each element
  output_gradient,  ///< dy
  seed,             ///< the factor of the gradient of each row's term of the loss
  product,          ///< x w, or x w + bias
  map,              ///< a function of elements; rows, columns and single numbers are repeated
  slope,            ///< the derivative of a map by an operand, times the gradient of its result
  add,              ///< the sum of two gradients of one value
  multiply,         ///< the product of two values, in the gradient of a scan
  broadcast,        ///< a number for each row, repeated
  reduce,           ///< the sum over the last factor of the columns
  sum_of_factors,   ///< the sum over the slower factors of the columns
  weight_gradient,  ///< transposed(x) dy
  column_sum,       ///< the sum over rows
  reshape,          ///< a value with its columns in other factors
  part,             ///< one of several equal pieces of the columns
  concat,           ///< pieces side by side
  contract,         ///< a product of two activations by the letters of their dimensions
  attention,        ///< by the device's kernels; its result is the logarithms of the sums
  attention_gradient,
  softmax,  ///< over the last factor
  softmax_gradient,
  shift,  ///< the rows of an earlier position
  scan,   ///< h[t] = a[t] h[t - 1] + x[t]; with x alone `factor` is a[t]
  scan_gradient,
  across,  ///< a number of each position, side by side in all rows of a sample
  across_gradient,
  log_sum_exp,  ///< over the last factor
  log_sum_exp_gradient,
  maximum,  ///< over the last factor
  maximum_gradient,
  pick,  ///< the column of each row that an integer says
  pick_gradient,
  call,   ///< the first result of a row of operation/rows.hpp
  result  ///< another result of it
};

/// A dimension of a value: the variable that it belongs to, -1 if ranks cannot cut it.
struct dimension {
  int variable = -1;
  int extent = 1;

  [[nodiscard]] constexpr bool is_single() const { return variable < 0 && extent == 1; }
};

/// The variable of the rows of activations, whose number is known when a program runs.
inline constexpr int row_variable = 0;

/// The shape of a value whose columns are an image; without channels it is none.
struct image_shape {
  int channels = 0, height = 0, width = 0;

  [[nodiscard]] constexpr int map() const { return height * width; }
  [[nodiscard]] constexpr int size() const { return channels * map(); }
  friend constexpr bool operator==(image_shape const&, image_shape const&) = default;
};
/// The windows of a convolution or pooling; without a kernel it is neither.
struct window_numbers {
  int kernel = 0, stride = 1, padding = 0, groups = 1;
};
/// The windows of an image as ops takes them.
constexpr ext::window_shape windows_of(image_shape const& of, window_numbers const& by) {
  auto const kernel = std::size_t(by.kernel);
  return {std::size_t(of.channels), std::size_t(of.height), std::size_t(of.width), kernel, kernel,
          std::size_t(by.stride),   std::size_t(by.padding)};
}

struct node {
  static constexpr int most_operands = 16;
  static constexpr int most_adjoints = 3;
  static constexpr int most_factors = 3;
  static constexpr int most_dimensions = 1 + most_factors;

  node_kind kind = node_kind::none;
  dimension rows{};
  dimension factors[most_factors]{};  ///< factors of the columns
  int factor_count = 0;               ///< 0: a single column
  image_shape image{};  ///< the image that the columns are, if they are known to be one
  int row_place = 0;    ///< the place of the rows among the letters of a contraction
  int operands[most_operands]{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  int count = 0;
  /// The operands of a map's own function; `operands` are those of all functions that it consists
  /// of, without numbers.
  int own[4]{-1, -1, -1, -1};
  int own_count = 0;
  algebra is = algebra::other;
  distribution draws = distribution::dropout;  ///< the numbers of a draw
  bool is_inlined = false;                     ///< a map that is a part of the maps that read it
  bool from_output = false;     ///< the derivative of a map is a function of its result
  bool is_transposed = false;   ///< a product reads its matrix transposed
  bool is_tokens = false;       ///< an input of integers
  bool is_data = false;         ///< integers, targets, and what is made of them: without a gradient
  bool is_matrix = false;       ///< a parameter of two lengths
  bool is_lookup = false;       ///< a call that reads some rows of a table
  bool is_own = false;          ///< a call of a row that brings its kernel
  bool is_convolution = false;  ///< a call of operation::convolve
  bool is_causal = false;       ///< a softmax of the columns up to the position of the row
  int number = 0;               ///< the number of an input, parameter, part, draw or result; of the
                                ///< operand that a slope is by; of an adjoint
  int pieces = 0;               ///< the number of pieces of a part or concat; the neighbouring
                                ///< columns that a sum over rows adds up, too, or 0
  int steps = 0;                ///< the positions of a shift
  window_numbers windows{};     ///< the windows of an operation on images
  int of = -1;                  ///< the node that a slope or an adjoint is the gradient of
  int parameter = -1;           ///< the gradient of which parameter it adds to
  int term = -1;                ///< the term that it stands for; of a gradient, that of node `of`
  int flops = 1;                ///< operations of a map's own function for each element
  double factor = 1;            ///< the factor of a reduce, broadcast or scan; the value of a
                                ///< number; the probability of a dropout
  /// The letters of a contraction, for the rows and factors of both operands and of the result.
  char letters[3][most_dimensions]{};
  operation::row const* row = nullptr;              ///< see row_of_node
  operation::row const* adjoints[most_adjoints]{};  ///< the rows of its gradients
  int adjoint_count = 0;

  [[nodiscard]] constexpr bool is_per_row() const { return rows.variable == row_variable; }
  /// A value that has a row for each position of each sample, of numbers.
  [[nodiscard]] constexpr bool is_activation() const { return is_per_row() && !is_tokens; }
  /// The number of columns.
  [[nodiscard]] constexpr int width() const {
    int out = 1;
    for (int f = 0; f < factor_count; ++f) out *= factors[f].extent;
    return out;
  }
  [[nodiscard]] constexpr dimension last() const {
    return factor_count == 0 ? dimension{} : factors[factor_count - 1];
  }
  /// The slowest factor of the columns: blocks of the columns are cut along it.
  [[nodiscard]] constexpr dimension first() const {
    return factor_count == 0 ? dimension{} : factors[0];
  }
  constexpr void set_columns(dimension const& all) {
    factor_count = 0, image = {};
    if (!all.is_single()) factors[factor_count++] = all;
  }
  constexpr void copy_shape(node const& from) {
    rows = from.rows, factor_count = from.factor_count, row_place = from.row_place;
    image = from.image;
    for (int f = 0; f < most_factors; ++f) factors[f] = from.factors[f];
  }
  [[nodiscard]] constexpr bool reads(int value) const {
    for (int k = 0; k < count; ++k)
      if (operands[k] == value) return true;
    return false;
  }
  constexpr void read(int value) { operands[count++] = value; }
};

/// Returns true if a letter is among those of a dimension.
constexpr bool holds(char const (&letters)[node::most_dimensions], char letter) {
  for (char const each : letters)
    if (each == letter) return true;
  return false;
}

/// The place of the operand of a row that has a name, from its character `skipped` on, or -1: the
/// operand that "dx" is the gradient of is "x", its name without one character.
constexpr int find_operand(operation::row const& of, operation::operand_name name, int skipped) {
  if (skipped > 0 && name.begin[0] != 'd') return -1;
  int const count = operation::signature::of(of.text).count;
  for (int k = 0; k < count; ++k) {
    operation::operand_name const each = of.name_of(k);
    bool is_same = name.size - skipped == each.size;
    for (int i = 0; is_same && i < each.size; ++i)
      is_same = name.begin[i + skipped] == each.begin[i];
    if (is_same) return k;
  }
  return -1;
}

/// A mistake in a formula: the rule, the term that breaks it, and two numbers that do not fit.
/// formula/mistakes.hpp says it in a sentence.
struct mistake {
  enum class kind : int {
    none,
    not_called,           ///< `formula` does not take the inputs
    no_expression,        ///< it returns no expression
    inner_lengths,        ///< the inner lengths of a product
    map_shapes,           ///< columns of a function of elements, or of values side by side
    call_shapes,          ///< lengths of a row of operation/rows.hpp
    heads,                ///< `left` columns in `right` heads
    parts,                ///< `left` columns in `right` pieces
    letters,              ///< `left` letters for an operand of `right` dimensions, or others
    is_no_image,          ///< an operand
    output_image,         ///< the layer says one of `left` channels and `right` rows
    image_width,          ///< `left` columns as an image of `right`
    unlike_images,        ///< the operands
    kernel,               ///< `left` does not fit into `right`, a side with its padding
    groups,               ///< `left` channels in `right` groups
    weight_shape,         ///< `left` columns of a convolution's weight where `right` fit
    bias_shape,           ///< no row of `left` numbers, one for each output channel
    output_width,         ///< the layer says `right` columns and the result has `left`
    needs_sequence,       ///< the layer does not say it, or `left` is not `right`
    is_tokens,            ///< an operand
    is_no_tokens,         ///< an operand
    is_data,              ///< an operand
    is_matrix,            ///< an operand of a function of elements
    is_no_activation,     ///< an operand
    is_no_matrix,         ///< the second operand of a product
    is_no_parameter,      ///< an operand of a row
    is_no_decay,          ///< the first operand of a scan
    has_factors,          ///< an operand has heads, or it has a single column and none
    output_shape,         ///< the result is no activation that the formula makes
    loss_width,           ///< a term of the loss is no single number of each row
    loss_inputs,          ///< a loss has `left` inputs, or others than features and targets
    inner_with_loss,      ///< with_loss(...) is read
    loss_in_loss,         ///< with_loss(...) in a loss
    unused_input,         ///< `left`: which
    no_adjoint,           ///< a row lacks a gradient
    too_many_inputs,      ///< `left`: which is the first
    too_many_parameters,  ///< `left` of them
    too_many_leaves,      ///< `left` of them, each counted as often as it is read
    too_many_values,      ///< a chain of functions reads too many
    too_many_functions,   ///< in a chain
    too_many_nodes,       ///< with those of the gradients
    too_many_saved,       ///< `left` slots
    too_many_scratch      ///< `left` slots
  };
  kind what = kind::none;
  int term = -1, left = 0, right = 0;
  char letter = 0;  ///< the index of a contraction whose lengths do not fit
};

}  // namespace plait::formula
