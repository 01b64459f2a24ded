// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/window_shape.hpp"
#include "plait/formula/terms.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/signature.hpp"

/// The nodes of the graph of a formula, and the mistakes that a formula can have.
namespace plait::formula {

enum class node_kind : int {
  none,  ///< a product that has been merged with the addition of its bias
  input,
  parameter,
  number,
  index_function,   ///< a function of the place of an element in the result
  draw,             ///< a random number for each element
  output_gradient,  ///< the gradient of the loss with respect to the output, dy
  seed,             ///< the number by which the gradient of each row's loss term is multiplied
  product,          ///< x w, or x w + bias
  map,    ///< an elementwise function; rows of parameters, columns and single numbers are repeated
  slope,  ///< the derivative of a map with respect to an operand, times the gradient of the map's
          ///< result
  add,    ///< the sum of two gradients of one value
  multiply,         ///< the product of two values, in the gradient of a scan
  broadcast,        ///< the number of each row, repeated in several columns
  reduce,           ///< the sum over the last factor of the columns
  sum_of_factors,   ///< the sum over the slower factors of the columns
  weight_gradient,  ///< transposed(x) dy
  column_sum,       ///< the sum over rows
  reshape,   ///< the same value, with its columns divided into other factors, such as 8 into [2, 4]
  part,      ///< one of several equal pieces of the columns
  concat,    ///< several values side by side, as the columns of one value
  contract,  ///< a product of two activations that is described by the letters of their dimensions
             ///< (einsum)
  attention,  ///< attention by a kernel of the device; its second result is the log-sum-exp of the
              ///< scores
  attention_gradient,
  softmax,  ///< softmax over the last factor
  softmax_gradient,
  shift,  ///< the value of each feature at an earlier position
  scan,   ///< h[t] = a[t] h[t - 1] + x[t]; with x alone `factor` is a[t]
  scan_gradient,
  across,  ///< the numbers of all positions of a sample, side by side in each of its rows
  across_gradient,
  log_sum_exp,  ///< the logarithm of the sum of exp(x) over the last factor
  log_sum_exp_gradient,
  maximum,  ///< the greatest element of the last factor
  maximum_gradient,
  pick,  ///< for each row, the element of x in the column whose number an integer input contains
  pick_gradient,
  call,   ///< the first result of a call of an operation that is declared in operation/rows.hpp or
          ///< by the program
  result  ///< a further result of a call or of an attention
};

/// A dimension of a value: the variable that it belongs to (-1 if ranks cannot cut the dimension),
/// and its length.
struct dimension {
  int variable = -1;
  int extent = 1;

  [[nodiscard]] constexpr bool is_single() const { return variable < 0 && extent == 1; }
};

/// The variable of the rows of activations. The number of rows is known at run time only.
inline constexpr int row_variable = 0;

/// The shape of a value whose columns are an image; the number of channels is 0 if the columns are
/// not an image.
struct image_shape {
  int channels = 0, height = 0, width = 0;

  [[nodiscard]] constexpr int map() const { return height * width; }
  [[nodiscard]] constexpr int size() const { return channels * map(); }
  friend constexpr bool operator==(image_shape const&, image_shape const&) = default;
};
/// The windows of a convolution or pooling. For other operations the size of the kernel is 0.
struct window_numbers {
  int kernel = 0, stride = 1, padding = 0, groups = 1;
};
/// Returns the windows of an image in the form that `ops` takes.
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
  dimension factors[most_factors]{};  ///< the factors of the columns, the slowest first
  int factor_count = 0;               ///< 0: a single column
  image_shape image{};  ///< the shape of the image that the columns are, if they are an image
  int row_place = 0;    ///< the index of the letter of the rows among the letters of a contraction
  int operands[most_operands]{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  int count = 0;
  /// The operands of a map's own function, including constant numbers. `operands` lists, without
  /// constant numbers, the operands of all functions of which the map consists.
  int own[4]{-1, -1, -1, -1};
  int own_count = 0;
  algebra is = algebra::other;
  distribution draws = distribution::dropout;  ///< the distribution of a draw
  bool is_inlined = false;     ///< the map is evaluated within the maps that read it
  bool from_output = false;    ///< the derivative of a map is calculated from its result
  bool is_transposed = false;  ///< the product reads its matrix transposed
  bool is_tokens = false;      ///< an input of integers
  bool is_data = false;        ///< integers, targets, and values made of these alone; no gradient
  bool is_matrix = false;      ///< a parameter with two dimensions
  bool is_lookup = false;  ///< a call of operation::gather_rows, which reads some rows of a table
  bool is_own = false;  ///< a call of an operation that the program declares and has a kernel for
  bool is_convolution = false;  ///< a call of operation::convolve
  bool is_causal = false;       ///< a softmax over the columns up to the position of the row
  /// The number of an input, parameter, part, draw, result or adjoint. A slope has the number of
  /// the operand with respect to which it is the derivative.
  int number = 0;
  /// The number of pieces of a part or a concat. For a column_sum, the number of neighbouring
  /// columns that are added up as well; 0 if only rows are added up.
  int pieces = 0;
  int steps = 0;             ///< the number of positions of a shift
  window_numbers windows{};  ///< the windows of an operation on images
  int of = -1;               ///< the node of the forward that a slope or an adjoint belongs to
  int parameter = -1;        ///< the parameter whose gradient the node is added to, or -1
  int term = -1;  ///< the term that the node represents; for a gradient, the term of node `of`
  int flops = 1;  ///< FLOPs of a map's own function for each element
  /// The factor of a reduce, broadcast or scan, the value of a number, or the probability of a
  /// dropout.
  double factor = 1;
  /// The letters of a contraction, for the rows and factors of both operands and of the result.
  char letters[3][most_dimensions]{};
  operation::row const* row = nullptr;  ///< the declaration of the operation, see row_of_node
  operation::row const*
      adjoints[most_adjoints]{};  ///< the declarations of the operations that compute its gradients
  int adjoint_count = 0;

  [[nodiscard]] constexpr bool is_per_row() const { return rows.variable == row_variable; }
  /// Returns true for a value that consists of real numbers (not tokens) and has a row for each
  /// position of each sample.
  [[nodiscard]] constexpr bool is_activation() const { return is_per_row() && !is_tokens; }
  /// Returns the number of columns.
  [[nodiscard]] constexpr int width() const {
    int out = 1;
    for (int f = 0; f < factor_count; ++f) out *= factors[f].extent;
    return out;
  }
  [[nodiscard]] constexpr dimension last() const {
    return factor_count == 0 ? dimension{} : factors[factor_count - 1];
  }
  /// Returns the slowest factor of the columns. Ranks get blocks of columns along this factor.
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

/// Returns true if `letters` contains `letter`.
constexpr bool holds(char const (&letters)[node::most_dimensions], char letter) {
  for (char const each : letters)
    if (each == letter) return true;
  return false;
}

/// Returns the index of the operand of `of` whose name is `name` without its first `skipped`
/// characters, or -1. For example, with one character skipped, the name "dx" of a gradient finds
/// the operand "x". A skipped character must be 'd'.
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
/// mistake_writer (formula/mistakes.hpp) writes it as a sentence.
///
/// Example: in matmul(x, w) with x of 12 columns and w of 16 rows, `what` is inner_lengths, `left`
/// is 12 and `right` is 16.
struct mistake {
  enum class kind : int {
    none,
    not_called,     ///< `formula` does not take the inputs
    no_expression,  ///< `formula` does not return an expression
    inner_lengths,  ///< `left` and `right` are the lengths of the summed dimension of a product
    map_shapes,     ///< unlike columns in an elementwise function, or in values side by side
    call_shapes,    ///< lengths that do not fit the declaration of an operation
    heads,          ///< `left` columns cannot be divided into `right` heads
    parts,          ///< `left` columns cannot be divided into `right` pieces
    letters,  ///< `left` letters for an operand of `right` dimensions, or letters without a meaning
    is_no_image,    ///< an operand is not an image
    output_image,   ///< the layer declares an image of `left` channels and `right` rows
    image_width,    ///< `left` columns cannot be an image of `right` elements
    unlike_images,  ///< images of unlike shapes in an elementwise function
    kernel,  ///< a kernel of `left` rows and columns is larger than a side of `right` elements of a
             ///< map, padding included
    groups,  ///< `left` channels cannot be divided into `right` groups
    weight_shape,      ///< the weight of a convolution has `left` columns instead of `right`
    bias_shape,        ///< the bias does not have `left` numbers, one for each output channel
    output_width,      ///< the layer declares `right` columns and the result has `left`
    needs_sequence,    ///< the layer does not declare `sequence`, or a value has `left` columns in
                       ///< place of one for each of `right` positions
    is_tokens,         ///< an operand is an input of tokens
    is_no_tokens,      ///< an operand is not an input of integers
    is_data,           ///< an operand is an input of real numbers of the data set
    is_matrix,         ///< an operand of an elementwise function is a matrix
    is_no_activation,  ///< an operand is not an activation
    is_no_matrix,      ///< the second operand of a product is not a parameter with two dimensions
    is_no_parameter,   ///< an operand that an operation declares as a parameter is not a parameter
    is_no_decay,       ///< the first operand of a scan is neither a number nor a value of each row
    has_factors,       ///< an operand has heads, or is a single column without factors
    output_shape,  ///< the result is an input, a parameter or another value that the formula does
                   ///< not calculate
    loss_width,    ///< a term of the loss is not a single number of each row
    loss_inputs,   ///< a loss has `left` inputs, or inputs other than features and targets
    inner_with_loss,      ///< with_loss(...) is not the outermost operation
    loss_in_loss,         ///< with_loss(...) is within a loss
    unused_input,         ///< input `left` is not read
    no_adjoint,           ///< an operation declares no gradient for one of its operands
    too_many_inputs,      ///< input `left` is above the largest number of inputs
    too_many_parameters,  ///< the formula has `left` parameters
    too_many_leaves,      ///< the formula has `left` leaves, each counted as often as it is read
    too_many_values,      ///< a chain of functions reads more than `left` values
    too_many_functions,   ///< a chain has more functions than the limit, which `left` holds
    too_many_nodes,       ///< the formula and its gradients have `left` nodes
    too_many_saved,       ///< the backward needs `left` saved slots
    too_many_scratch      ///< the bodies need `left` scratch slots
  };
  kind what = kind::none;
  int term = -1, left = 0, right = 0;
  char letter = 0;  ///< the letter of a contraction whose lengths differ between the operands
};

}  // namespace plait::formula
