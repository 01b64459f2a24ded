// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/operation/row.hpp"

/// One type for each operation; its member `is` is the declaration (row) of the operation. A queue
/// has a function run(row, operands..., numbers...) for each operation for which its device has a
/// kernel; host_queue defines which numbers follow the operands. No queue has the convolutions:
/// run/convolution.hpp computes a convolution from patches and matrix products.
namespace plait::operation {

// ---- Memory -------------------------------------------------------------------------------------

/// Sets all elements of y to one value.
struct fill {
  static constexpr row is{"fill", "-> y(r c)"};
};
struct copy_bytes {
  static constexpr row is{"copy_bytes", "from(1 c) -> to(1 c)"};
};
/// Copies rows that are not contiguous in memory. A row of `from` may be stored between two rows of
/// `to`.
struct copy_blocks {
  static constexpr row is{"copy_blocks", "from(r c) -> to(r c)"};
};
/// to = from, converted to another type.
struct convert {
  static constexpr row is{"convert", "from(r c) -> to(r c)"};
};
/// Rounds the elements of each row of `from` to one block of `to`, see rounded_block.
struct round_blocks {
  static constexpr row is{"round_blocks", "from(r c) -> to(r 1)"};
};
/// Replaces the elements of each row of `to` by the elements of a block.
struct widen_blocks {
  static constexpr row is{"widen_blocks", "from(r 1) -> to(r c)"};
};
/// Adds the elements of a block to the elements of each row of `sum`.
struct add_blocks {
  static constexpr row is{"add_blocks", "from(r 1) -> +sum(r c)"};
};
struct swap {
  static constexpr row is{"swap", "-> +a(r c), +b(r c)"};
};
struct add {
  static constexpr row is{"add", "a(r c), b(r c) -> out(r c); linear all; in place"};
};
/// sum += x; x = 0. The operands do not overlap.
struct add_and_clear {
  static constexpr row is{"add_and_clear", "-> +sum(r c), +x(r c)"};
};

// ---- Products -----------------------------------------------------------------------------------

struct matmul {
  static constexpr row is{"matmul", "a(m k), b(k n) -> out(m n); linear each", 2};
};
/// sums += the sum of the rows of dy.
struct accumulate_column_sums {
  static constexpr row is{"accumulate_column_sums", "dy(r c) -> +sums(1 c); linear all"};
};
/// Adds `row` to each row of y.
struct add_row {
  static constexpr row is{"add_row", "row(1 c) -> +y(r c); linear all"};
};
/// sums[c] += the sum of f(a[r][c], b[r][c]) over all rows r.
struct accumulate_columns {
  static constexpr row is{"accumulate_columns", "a(r c), b(r c) -> +sums(1 c)"};
};

// ---- Functions of users: an operand is read if its elements are const, and otherwise written ----

/// y = f(operands...), element by element.
struct map {
  static constexpr row is{"map", "->"};
};
/// y = f(place of the element, pointer to the row of each operand...), element by element.
struct map_at {
  static constexpr row is{"map_at", "->"};
};
/// Calls f(number of columns, pointer to the row of each operand...) for each row.
struct rows {
  static constexpr row is{"rows", "->"};
};

// ---- Norms of rows ------------------------------------------------------------------------------

struct layer_norm_backward_input {
  static constexpr row is{
      "layer_norm_backward_input",
      "dy(r c), x(r c), #statistics(r 21), gamma(1 c) -> dx(r c); whole c; linear first; in place"};
};
struct layer_norm_backward_parameters {
  static constexpr row is{
      "layer_norm_backward_parameters",
      "dy(r c), x(r c), #statistics(r 21) -> +dgamma(1 c), +dbeta(1 c); linear first"};
};
/// Computes the gradients of x and of the parameters in one pass over dy and x.
struct layer_norm_backward {
  static constexpr row is{"layer_norm_backward",
                          "dy(r c), x(r c), #statistics(r 21), gamma(1 c) -> dx(r c), "
                          "+dgamma(1 c), +dbeta(1 c); whole c; linear first; in place"};
};
struct layer_norm {
  static constexpr row is{
      "layer_norm", "x(r c), gamma(1 c), beta(1 c) -> y(r c), statistics(r 21); whole c; in place",
      8};
  using adjoints = adjoints_of<layer_norm_backward_input, layer_norm_backward_parameters>;
};

struct rms_norm_backward_input {
  static constexpr row is{
      "rms_norm_backward_input",
      "dy(r c), x(r c), #inverse(r 1), gamma(1 c) -> dx(r c); whole c; linear first; in place"};
};
struct rms_norm_backward_parameters {
  static constexpr row is{"rms_norm_backward_parameters",
                          "dy(r c), x(r c), #inverse(r 1) -> +dgamma(1 c); linear first"};
};
struct rms_norm {
  static constexpr row is{"rms_norm",
                          "x(r c), gamma(1 c) -> y(r c), inverse(r 1); whole c; in place", 5};
  using adjoints = adjoints_of<rms_norm_backward_input, rms_norm_backward_parameters>;
};

struct l2_normalise_backward {
  static constexpr row is{"l2_normalise_backward",
                          "dy(r c), x(r c), #inverse(r 1) -> dx(r c); whole c; linear first; "
                          "in place"};
};
/// y = x / |x| for each row. There is no kernel for GPUs.
struct l2_normalise {
  static constexpr row is{"l2_normalise", "x(r c) -> y(r c), inverse(r 1); whole c; in place", 3};
  using adjoints = adjoints_of<l2_normalise_backward>;
};

// ---- Tables -------------------------------------------------------------------------------------

struct scatter_add_rows {
  static constexpr row is{"scatter_add_rows", "#ids(r 1), dout(r c) -> +dtable(v c); linear all"};
};
/// Row r of out is row ids[r] of the table; zeros if another rank has that row.
struct gather_rows {
  static constexpr row is{"gather_rows", "#ids(r 1), table(v c) -> out(r c); linear all", 1};
  using adjoints = adjoints_of<scatter_add_rows>;
};
/// dtable += dy, summed over the samples of each position; the table has one row for each position.
/// By the first indices every rank holds the whole table; by the alternative indices the table is
/// cut along the positions, in the same way as dy.
struct accumulate_positions {
  static constexpr row is{"accumulate_positions", "dy(r c) -> +dtable(1 c); linear all; part", 0,
                          "dy(r c) -> +dtable(r c); linear all"};
};
struct add_positions {
  static constexpr row is{"add_positions",
                          "x(r c), table(1 c) -> y(r c); linear all; in place; part", 1,
                          "x(r c), table(r c) -> y(r c); linear all"};
};

// ---- Attention ----------------------------------------------------------------------------------

/// The gradient of attention whose query, key and value are side by side in one matrix. `h` are the
/// features; the number of heads is not part of the indices.
struct attention_side_by_side_backward {
  static constexpr row is{
      "attention_side_by_side_backward",
      "qkv(r 3h), out(r h), #log_sum(r h), dout(r h) -> dqkv(r 3h); whole r; linear last; part"};
};
struct attention_side_by_side {
  static constexpr row is{"attention_side_by_side",
                          "qkv(r 3h) -> out(r h), #log_sum(r h); whole r; part"};
  using adjoints = adjoints_of<attention_side_by_side_backward>;
};
/// The gradient of attention whose query, key and value are separate matrices. The indices hold if
/// each rank has whole heads of all three; `attention` has alternative indices for the case that
/// several ranks read the same head of key and value.
struct attention_backward {
  static constexpr row is{"attention_backward",
                          "q(r h), k(s h), v(s h), out(r h), #log_sum(r h), dout(r h) -> dq(r h), "
                          "dk(s h), dv(s h); whole r s; linear last; part"};
};
struct attention {
  static constexpr row is{
      "attention",
      "q(r h), k(s h), v(s h) -> out(r h), #log_sum(r h); whole r s; linear last; part", 0,
      "q(r h), k(s g), v(s g) -> out(r h), #log_sum(r h); whole r s g; linear last"};
  using adjoints = adjoints_of<attention_backward>;
};

// ---- Losses and dropout -------------------------------------------------------------------------

/// max = the greatest value of each row.
struct row_max {
  static constexpr row is{"row_max", "x(r c) -> max(r 1); max c; part"};
};
struct cross_entropy_terms {
  static constexpr row is{"cross_entropy_terms",
                          "logits(r c), #labels(r 1), #max(r 1) -> terms(r t); whole t; part", 4};
};
/// Computes row_max and cross_entropy_terms in one pass over the logits.
struct cross_entropy_statistics {
  static constexpr row is{"cross_entropy_statistics",
                          "logits(r c), #labels(r 1) -> max(r 1), terms(r t); whole c t; part"};
};
/// loss += scale times the sum over the rows of weight times -log(probability of the label).
struct cross_entropy_sum {
  static constexpr row is{
      "cross_entropy_sum",
      "#terms(r t), #labels(r 1), #scale(1 1), #weights(r 1) -> +loss(1 1); whole t; part"};
};
struct cross_entropy_backward {
  static constexpr row is{"cross_entropy_backward",
                          "logits(r c), #labels(r 1), #max(r 1), #terms(r t), #scale(1 1), "
                          "#weights(r 1) -> dlogits(r c); whole t; in place; part"};
};
/// Computes the loss and its gradient in one pass over the logits.
struct cross_entropy_with_gradient {
  static constexpr row is{"cross_entropy_with_gradient",
                          "logits(r c), #labels(r 1), #scale(1 1), #weights(r 1) -> "
                          "terms(r t), dlogits(r c), +loss(1 1); whole c t; in place; part"};
};
struct dropout {
  static constexpr row is{"dropout", "x(r c) -> y(r c); linear all; in place"};
};

// ---- Images: rows are samples, columns channels by maps -----------------------------------------

struct gather_patches {
  static constexpr row is{"gather_patches", "x(s i) -> patches(p q); part"};
};
struct add_patches {
  static constexpr row is{"add_patches", "patches(p q) -> +x(s i); part"};
};
/// to[b][a] = from[a][b], a transposition whose elements are blocks.
struct exchange_blocks {
  static constexpr row is{"exchange_blocks", "from(a b) -> to(b a); part"};
};
struct convolve_backward_input {
  static constexpr row is{"convolve_backward_input",
                          "dy(r o), w(o i) -> dx(r i); linear each; part", 0,
                          "dy(r g), w(g w) -> dx(r g); whole w; linear each"};
};
struct convolve_backward_weight {
  static constexpr row is{"convolve_backward_weight",
                          "dy(r o), x(r i) -> +dw(o i); linear each; part", 0,
                          "dy(r g), x(r g) -> +dw(g w); whole w; linear each"};
};
struct convolve {
  static constexpr row is{"convolve", "x(r i), w(o i) -> y(r o); linear each; part", 2,
                          "x(r g), w(g w) -> y(r g); whole w; linear each"};
  using adjoints = adjoints_of<convolve_backward_input, convolve_backward_weight>;
};
struct accumulate_map_sums {
  static constexpr row is{"accumulate_map_sums", "dy(r c) -> +dbias(1 c); linear all; part"};
};
struct add_to_maps {
  static constexpr row is{"add_to_maps", "bias(1 c) -> +y(r c); linear all; part"};
  using adjoints = adjoints_of<accumulate_map_sums>;
};
struct max_pool_backward {
  static constexpr row is{"max_pool_backward", "dy(r c), x(r c) -> dx(r c); linear first; part"};
};
struct max_pool {
  static constexpr row is{"max_pool", "x(r c) -> y(r c); part", 1};
  using adjoints = adjoints_of<max_pool_backward>;
};
struct average_pool_backward {
  static constexpr row is{"average_pool_backward", "dy(r c) -> dx(r c); linear all; part"};
};
struct average_pool {
  static constexpr row is{"average_pool", "x(r c) -> y(r c); linear all; part", 1};
  using adjoints = adjoints_of<average_pool_backward>;
};

// ---- Norms of images: a set of channels and samples has common statistics -----------------------

struct set_statistics {
  static constexpr row is{"set_statistics", "x(r c) -> statistics(1 s); part"};
};
struct accumulate_statistics {
  static constexpr row is{"accumulate_statistics",
                          "statistics(1 s) -> +means(1 c), +variances(1 c); part"};
};
struct sums_of_sets {
  static constexpr row is{"sums_of_sets", "statistics(1 s) -> sums(1 c); part"};
};
struct squares_of_sets {
  static constexpr row is{"squares_of_sets", "statistics(1 s), sums(1 c) -> squares(1 c); part"};
};
struct whole_statistics {
  static constexpr row is{"whole_statistics", "sums(1 c), squares(1 c) -> statistics(1 s); part"};
};
struct given_statistics {
  static constexpr row is{"given_statistics", "mean(1 c), variance(1 c) -> statistics(1 s); part"};
};
struct normalize_sets_backward {
  static constexpr row is{"normalize_sets_backward",
                          "dy(r c), x(r c), #statistics(1 s), gamma(1 c) -> dx(r c); whole s; "
                          "linear first; in place; part"};
};
struct normalize_whole_backward {
  static constexpr row is{"normalize_whole_backward",
                          "dy(r c), x(r c), #statistics(1 s), #dgamma(1 c), #dbeta(1 c), "
                          "gamma(1 c) -> dx(r c); whole s; linear first; in place; part"};
};
struct scale_sets {
  static constexpr row is{
      "scale_sets",
      "dy(r c), #statistics(1 s), gamma(1 c) -> dx(r c); whole s; linear first; in place; part"};
};
struct normalize_sets_parameters {
  static constexpr row is{"normalize_sets_parameters",
                          "dy(r c), x(r c), #statistics(1 s) -> +dgamma(1 c), +dbeta(1 c); whole "
                          "s; linear first; part"};
};
struct normalize_sets {
  static constexpr row is{
      "normalize_sets",
      "x(r c), #statistics(1 s), gamma(1 c), beta(1 c) -> y(r c); whole s; in place; part", 8};
};

// ---- Steps of an optimizer ----------------------------------------------------------------------

struct adamw {
  static constexpr row is{"adamw", "numbers(1 1) -> +arena(1 c); part"};
};
struct sgd {
  static constexpr row is{"sgd", "numbers(1 1) -> +arena(1 c); part"};
};
/// average = decay * average + (1 - decay) * x; does nothing if *scale is NaN.
struct average {
  static constexpr row is{"average", "scale(1 1), x(1 c) -> +average(1 c)"};
};
/// out[i] = the sum of the squares of the elements in range i of x.
struct sums_of_squares {
  static constexpr row is{"sums_of_squares", "x(1 c), ranges(1 n) -> out(1 n); part"};
};
/// *out = number / *count, or 0 if *count is 0; `number` is an argument after the operands.
struct divide {
  static constexpr row is{"divide", "count(1 1) -> out(1 1)"};
};
/// *norm = the square root of the sum of all elements of `squares`, which are added in their order.
/// *factor = the number by which a vector of this norm is multiplied so that its norm becomes at
/// most a given limit; NaN if the norm is not finite.
struct clip {
  static constexpr row is{"clip", "squares(1 c) -> norm(1 1), factor(1 1)"};
};
/// Sets *factor to NaN if *loss or *norm is not finite.
struct check_finite {
  static constexpr row is{"check_finite", "loss(1 1), norm(1 1) -> +factor(1 1)"};
};

}  // namespace plait::operation
