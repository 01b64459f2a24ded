// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "plait/core/macros.hpp"
#include "plait/formula/layer.hpp"
#include "plait/nn/image.hpp"

/// Formulas that together have each kind of node and exercise each rule of forms.
namespace formula_testing {

using namespace plait::literals;

template <plait::ext::name Label, std::size_t... Lengths>
using weights = plait::parameter<Label, plait::extents<Lengths...>, plait::normal(0.4)>;

// ---- Products, biases and functions of elements -------------------------------------------------

/// A bias that a product adds, a matrix that is read transposed, and a bias that a product cannot
/// add because another operation is between them.
template <std::size_t Width, std::size_t Hidden>
struct residual_mlp {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"up_bias", Hidden> up_bias{};
  static constexpr weights<"down", Width, Hidden> down{};
  static constexpr weights<"down_bias", Width> down_bias{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return x + matmul(gelu(matmul(x, up) + up_bias), transposed(down)) + down_bias;
  }
};

/// A norm whose result two products read, and two functions of elements that become one.
template <std::size_t Width, std::size_t Hidden>
struct normed_gate {
  static constexpr weights<"gamma", Width> gamma{};
  static constexpr weights<"gate", Width, Hidden> gate{};
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"down", Hidden, Width> down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const normed = rms_norm(x, gamma);
    return matmul(silu(matmul(normed, gate)) * matmul(normed, up), down);
  }
};

/// Two products that add up, and a constant.
template <std::size_t Width, std::size_t Rank>
struct adapted {
  static constexpr weights<"weight", Width, Width> weight{};
  static constexpr weights<"a", Width, Rank> a{};
  static constexpr weights<"b", Rank, Width> b{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return matmul(x, weight) + matmul(matmul(x, a), b) * 0.5_c;
  }
};

/// Rows that are repeated.
template <std::size_t Width>
struct affine {
  static constexpr weights<"factor", Width> factor{};
  static constexpr weights<"summand", Width> summand{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return x * factor + summand; }
};

/// A norm written out in its formula: ranks can cut the features if they add up one number for each
/// row in the forward and one in the backward.
template <std::size_t Width>
struct norm_of_words {
  static constexpr weights<"gamma", Width> gamma{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return x * rsqrt(mean(square(x)) + 0.1_c) * gamma; }
};

/// Two sums for each row in the forward, the second of which needs the first, and two in the
/// backward.
template <std::size_t Width>
struct centred_norm {
  static constexpr weights<"gamma", Width> gamma{};
  static constexpr weights<"beta", Width> beta{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const centred = x - mean(x);
    return centred * rsqrt(mean(square(centred)) + 0.1_c) * gamma + beta;
  }
};

/// A block with its residual. Ranks that cut the hidden features add up the branch before x is
/// added. They add up the gradient of the branch before the gradient of the residual is added.
template <std::size_t Width, std::size_t Hidden>
struct residual_block {
  static constexpr weights<"gamma", Width> gamma{};
  static constexpr weights<"gate", Width, Hidden> gate{};
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"down", Hidden, Width> down{};
  static constexpr weights<"bias", Width> bias{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const normed = rms_norm(x, gamma);
    return x + (matmul(silu(matmul(normed, gate)) * matmul(normed, up), down) + bias);
  }
};

/// A branch times x. Its gradient is a product whose first operand is the summand, which no
/// operation takes.
template <std::size_t Width, std::size_t Hidden>
struct scaled_branch {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"down", Hidden, Width> down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return x * matmul(relu(matmul(x, up)), down); }
};

/// A branch that a row of parameters scales before it is added to x.
template <std::size_t Width, std::size_t Hidden>
struct scaled_residual {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"gate", Width, Hidden> gate{};
  static constexpr weights<"down", Hidden, Width> down{};
  static constexpr weights<"scale", Width> scale{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return x + scale * matmul(gelu(matmul(x, up)) * matmul(x, gate), down);
  }
};

/// A norm of hidden features: the gradients of `up` would need the norm's sum of the backward.
template <std::size_t Width, std::size_t Hidden>
struct norm_of_product {
  static constexpr weights<"up", Width, Hidden> up{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const hidden = matmul(x, up);
    return hidden / sqrt(sum(square(hidden)) + 0.1_c);
  }
};

/// A bias that two nodes read, so it cannot be added on one rank only.
template <std::size_t Width>
struct shared_bias {
  static constexpr weights<"bias", Width> bias{};
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return matmul(x + bias, transposed(weight)) + bias; }
};

struct clipped_softly {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto x, auto limit) const {
    using std::sqrt;
    auto const ratio = x / limit;
    return x / sqrt(decltype(x)(1) + ratio * ratio);
  }
};
/// A user's own function, with slopes by dual numbers.
template <std::size_t Width>
struct soft_clip {
  static constexpr weights<"weight", Width, Width> weight{};
  static constexpr weights<"limit", Width> limit{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return map(clipped_softly{}, matmul(x, weight), 2_c + square(limit));
  }
};

/// Values that are used several times, at several depths.
template <std::size_t Width>
struct not_series_parallel {
  static constexpr weights<"w", Width, Width> w{};
  static constexpr weights<"v", Width, Width> v{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const h = matmul(x, w);
    auto const a = silu(h) * x;
    auto const b = matmul(a, v) + h;
    auto const c = b * a;
    return c + tanh(b * h) - h;
  }
};

// ---- Random numbers -----------------------------------------------------------------------------

/// A dropout alone, which drops what nn::dropout drops.
template <std::size_t Width>
struct dropped {
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return dropout(x, 0.3_c); }
};

/// Dropouts where the hidden features are cut and where they are summed; each draws its own
/// numbers.
template <std::size_t Width, std::size_t Hidden>
struct dropped_mlp {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"down", Hidden, Width> down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return dropout(matmul(dropout(silu(matmul(x, up)), 0.3_c), down), 0.25_c);
  }
};

/// A sample of a normal distribution. The input has the means and the logarithms of the variances.
template <std::size_t Width>
struct reparametrised {
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<2 * Width>;
  static constexpr auto formula(auto x) {
    auto const deviation = exp(part<1, 2>(x) * 0.5_c);
    return matmul(part<0, 2>(x) + deviation * plait::formula::normal<0>(), weight);
  }
};

/// Numbers of heads, and a draw that two functions of elements read.
template <std::size_t Width, std::size_t Heads>
struct noisy_heads {
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const h = heads<Heads>(x);
    auto const noise = plait::formula::uniform<0>() + plait::formula::uniform<1>();
    return side_by_side(h * noise / (2_c + square(mean(h * noise))));
  }
};

// ---- Norms and numbers of rows ------------------------------------------------------------------

/// A norm of a norm, with parameters that both read.
template <std::size_t Width>
struct two_norms {
  static constexpr weights<"gamma", Width> gamma{};
  static constexpr weights<"beta", Width> beta{};
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return layer_norm(matmul(rms_norm(x, gamma), weight) + x, gamma, beta);
  }
};

/// Almost a norm by its definition: means, and numbers that are repeated along rows.
template <std::size_t Width>
struct centred {
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const distance = x - mean(x) * 0.5_c;
    return distance * rsqrt(mean(square(distance)) + 1e-3_c);
  }
};

/// A product of one column, which is a number for each row.
template <std::size_t Width>
struct row_gate {
  static constexpr weights<"direction", Width, 1> direction{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return x * sigmoid(matmul(x, direction)); }
};

/// A chain with a quotient; slopes with respect to its other part do not read it.
template <std::size_t Width>
struct quotient_and_product {
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return (tanh(x) / (2_c + square(mean(x))) + sum(x) * 0.25_c) * x;
  }
};

// ---- Several inputs -----------------------------------------------------------------------------

template <std::size_t Width>
struct gate_of_two {
  static constexpr weights<"weight", Width, Width> weight{};
  static constexpr weights<"bias", Width> bias{};
  using input = plait::inputs<plait::features<Width>, plait::features<Width>>;
  static constexpr auto formula(auto x, auto gate) {
    return x * sigmoid(matmul(gate, weight) + bias);
  }
};

/// An input that is read only through a sum.
template <std::size_t Width>
struct times_sum {
  using input = plait::inputs<plait::features<Width>, plait::features<Width>>;
  static constexpr auto formula(auto x, auto other) { return relu(x) / (2_c + square(sum(other))); }
};

/// Two inputs with the same gradient.
template <std::size_t Width>
struct difference_of_products {
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::inputs<plait::features<Width>, plait::features<Width>>;
  static constexpr auto formula(auto x, auto y) { return matmul(x + y, weight) - x; }
};

// ---- Heads and pieces ---------------------------------------------------------------------------

/// A row for each head, a number for each head, and heads side by side as the output.
template <std::size_t Width, std::size_t Heads>
struct scaled_heads {
  static constexpr weights<"of_head", Width / Heads> of_head{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const h = heads<Heads>(x);
    return side_by_side(h * of_head / (1_c + square(mean(h))) + h);
  }
};

/// A row that is calculated, for each head.
template <std::size_t Width, std::size_t Heads>
struct weighted_heads {
  static constexpr weights<"w", Width, Width / Heads> w{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return side_by_side(heads<Heads>(x) * matmul(x, w)); }
};

/// A number and a row of parameters for each head.
template <std::size_t Width, std::size_t Heads>
struct heads_of_parameters {
  static constexpr weights<"weight", Width, Width> weight{};
  static constexpr weights<"of_head", Heads> of_head{};
  static constexpr weights<"of_element", Width> of_element{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const h = heads<Heads>(matmul(x, weight));
    auto const scale = exp(heads<Heads>(of_head));
    return side_by_side(tanh(h * scale + heads<Heads>(of_element)) * heads<Heads>(of_head));
  }
};

/// An output that is its input in another shape.
template <std::size_t Width, std::size_t Heads>
struct reshaped {
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return side_by_side(heads<Heads>(matmul(x, weight))); }
};

/// A number for each channel: the mean of its places, and a factor that depends on all channels.
template <std::size_t Channels, std::size_t Places>
struct squeezed {
  static constexpr weights<"weight", Channels, Channels> weight{};
  using input = plait::features<Channels * Places>;
  static constexpr auto formula(auto x) {
    auto const h = heads<Channels>(x);
    auto const factor = sigmoid(matmul(side_by_side(mean(h)), weight));
    return side_by_side(h * heads<Channels>(factor));
  }
};

/// Each element of a row times each element of another. Ranks that cut the second row have pieces
/// of the product.
template <std::size_t Width, std::size_t Other>
struct outer_product {
  static constexpr weights<"weight", Width, Other> weight{};
  static constexpr weights<"scale", Other> scale{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return side_by_side(sum(tanh(heads<Width>(x) * matmul(x, weight)) * scale));
  }
};

/// A row that several pieces of a product read, each of which is cut.
template <std::size_t Width>
struct scaled_pieces {
  static constexpr weights<"weight", Width, 2 * Width> weight{};
  static constexpr weights<"scale", 2 * Width> scale{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const all = silu(matmul(x, weight)) * scale;
    return part<0, 2>(all) * part<1, 2>(all);
  }
};

/// Each feature times each of some numbers of the row, side by side. The numbers cannot be cut, as
/// their blocks are not contiguous.
template <std::size_t Width, std::size_t Count>
struct flat_outer_product {
  static constexpr weights<"numbers", Width, Count> numbers{};
  static constexpr weights<"out", Width * Count, Width> out{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return matmul(side_by_side(heads<Width>(tanh(x)) * matmul(x, numbers)), out);
  }
};

template <std::size_t Width>
struct last_part {
  using input = plait::features<2 * Width>;
  static constexpr auto formula(auto x) { return part<1, 2>(x); }
};

template <std::size_t Width>
struct concat_of_two {
  static constexpr weights<"a", Width, Width> a{};
  static constexpr weights<"b", Width, Width> b{};
  static constexpr weights<"c", 2 * Width, Width> c{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return matmul(concat(silu(matmul(x, a)), matmul(x, b)), c);
  }
};

/// The log-sum-exp and the maximum of each head.
template <std::size_t Width, std::size_t Heads>
struct heads_as_numbers {
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const h = heads<Heads>(matmul(x, weight));
    return side_by_side(h * max(h) - square(log_sum_exp(h)));
  }
};
/// The log-sum-exp and the maximum of all features.
template <std::size_t Width>
struct rows_as_numbers {
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return x / (2_c + square(log_sum_exp(x))) + max(x) * x; }
};

// ---- Positions ----------------------------------------------------------------------------------

/// Query, key and value as parts of one product.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct packed_attention {
  static constexpr weights<"qkv", Width, 3 * Width> qkv{};
  static constexpr weights<"bias", 3 * Width> bias{};
  static constexpr weights<"out", Width, Width> out{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const all = matmul(x, qkv) + bias;
    auto const q = heads<Heads>(part<0, 3>(all));
    auto const k = heads<Heads>(part<1, 3>(all));
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const scores = causal_softmax(einsum<"thd,shd->hts">(q, k) * 0.5_c);
    return matmul(side_by_side(einsum<"hts,shd->thd">(scores, v)), out);
  }
};

/// Norms of each head, by the operation and by its definition.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct normed_attention {
  static constexpr weights<"q", Width, Width> q{};
  static constexpr weights<"k", Width, Width> k{};
  static constexpr weights<"gamma", Width / Heads> gamma{};
  static constexpr weights<"beta", Width / Heads> beta{};
  static constexpr weights<"out", Width, Width> out{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const h = heads<Heads>(matmul(x, q));
    auto const normed = h * rsqrt(mean(square(h)) + 1e-3_c) * gamma;
    auto const keys = layer_norm(heads<Heads>(matmul(x, k)), gamma, beta);
    // The operands are swapped: scores of keys by queries.
    auto const scores = softmax(einsum<"shd,thd->hts">(keys, normed));
    return matmul(side_by_side(einsum<"hts,shd->thd">(scores, keys)), out);
  }
};

struct distance_bias {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto const& at) const {
    return -0.25 * double(1 + at[0]) * (double(at.position) - double(at[1]));
  }
};
/// A number that depends on places, in the scores of one position by another.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct biased_attention {
  static constexpr weights<"q", Width, Width> q{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const h = heads<Heads>(matmul(x, q));
    auto const scores = einsum<"thd,shd->hts">(h, h) + plait::formula::at(distance_bias{});
    return side_by_side(einsum<"hts,shd->thd">(causal_softmax(scores), h));
  }
};

/// Scores that a value with heads weighs, from the left or from the right. There are as many heads
/// as positions, so lengths do not tell letters apart.
template <std::size_t Width, std::size_t Count, bool IsLeft>
struct weighed_scores {
  static constexpr weights<"q", Width, Width> q{};
  static constexpr weights<"factor", Width, Count * Count> factor{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Count;
  static constexpr auto formula(auto x) {
    auto const h = heads<Count>(matmul(x, q));
    auto const scores = softmax(einsum<"thd,shd->hts">(h, h));
    auto const by = heads<Count>(matmul(x, factor));
    if constexpr (IsLeft) return side_by_side(einsum<"hts,shd->thd">(by * scores, h));
    else return side_by_side(einsum<"hts,shd->thd">(scores * by, h));
  }
};

struct is_end {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto id) const {
    return decltype(id)(id == 0 ? 1 : 0);
  }
};
struct is_earlier {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE double operator()(auto const& at) const {
    return at[0] < at.position ? 1 : 0;
  }
};
struct within_document {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto score, auto mine, auto other) const {
    return mine == other ? score : decltype(score)(-1e30f);
  }
};
/// Attention of several documents in one sample, each of which ends with token 0. A position
/// attends to its own document, whose number is the number of ends before it.
template <std::size_t Tokens, std::size_t Width, std::size_t Heads, std::size_t Sequence,
          bool HasDocuments = true>
struct document_attention {
  static constexpr weights<"table", Tokens, Width> table{};
  static constexpr weights<"qkv", Width, 3 * Width> qkv{};
  static constexpr weights<"out", Width, Width> out{};
  using input = plait::tokens;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto ids) {
    auto const all = matmul(gather(table, ids), qkv);
    auto const q = heads<Heads>(part<0, 3>(all));
    auto const k = heads<Heads>(part<1, 3>(all));
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const shares = causal_softmax(masked(einsum<"thd,shd->hts">(q, k), ids) * 0.5_c);
    return matmul(side_by_side(einsum<"hts,shd->thd">(shares, v)), out);
  }
  static constexpr auto masked(auto scores, auto ids) {
    auto const ends = map(is_end{}, number_of(ids));
    auto const document = sum(across(ends) * plait::formula::at(is_earlier{}));
    if constexpr (HasDocuments) return map(within_document{}, scores, document, across(document));
    else return scores;
  }
};

struct distance {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto const& at) const {
    return double(at.position) - double(at[1]);
  }
};
struct sloped {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto score, auto slope, auto distance) const {
    return score - slope * distance;
  }
};
/// Scores with a slope for each head by the distance, soft capping, and a sink: a learned score of
/// a position without a value.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct sunk_attention {
  static constexpr weights<"q", Width, Width> q{};
  static constexpr weights<"slope", Heads> slope{};
  static constexpr weights<"sink", Heads> sink{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const h = heads<Heads>(matmul(x, q));
    auto const scores = map(sloped{}, einsum<"thd,shd->hts">(h, h), heads<Heads>(slope),
                            plait::formula::at(distance{}));
    auto const capped = 5_c * tanh(scores * 0.2_c);
    auto const kept = sigmoid(log_sum_exp(capped) - heads<Heads>(sink));
    return side_by_side(einsum<"hts,shd->thd">(softmax(capped) * kept, h));
  }
};

/// A number that a position passes to all others, for each head and for all of them.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct weighted_positions {
  static constexpr weights<"v", Width, Width> v{};
  static constexpr weights<"score", Width, Heads> score{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const scores = across(heads<Heads>(matmul(x, score))) + across(mean(x));
    auto const values = heads<Heads>(matmul(x, v));
    return side_by_side(einsum<"hts,shd->thd">(softmax(scores), values));
  }
};

/// Attention by kernels that store no scores; several query heads read one key head.
template <std::size_t Width, std::size_t Heads, std::size_t KeyHeads, std::size_t Sequence>
struct grouped_attention {
  static constexpr std::size_t key_width = Width / Heads * KeyHeads;
  static constexpr weights<"q", Width, Width> q{};
  static constexpr weights<"k", Width, key_width> k{};
  static constexpr weights<"v", Width, key_width> v{};
  static constexpr weights<"out", Width, Width> out{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    return matmul(attention<Heads, KeyHeads>(matmul(x, q), matmul(x, k), matmul(x, v)), out);
  }
};

/// Attention without heads: no rank can have a part of the features.
template <std::size_t Width, std::size_t Sequence>
struct one_head {
  static constexpr weights<"q", Width, Width> q{};
  static constexpr weights<"k", Width, Width> k{};
  static constexpr weights<"v", Width, Width> v{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const scores = causal_softmax(einsum<"td,sd->ts">(matmul(x, q), matmul(x, k)) * 0.35_c);
    return einsum<"ts,sd->td">(scores, matmul(x, v));
  }
};

template <std::size_t Width, std::size_t Sequence>
struct depthwise {
  static constexpr weights<"now", Width> now{};
  static constexpr weights<"before", Width> before{};
  static constexpr weights<"earlier", Width> earlier{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    return silu(x * now + shift<1>(x) * before + shift<2>(x) * earlier);
  }
};

template <std::size_t Width, std::size_t Hidden, std::size_t Sequence>
struct gated_recurrence {
  static constexpr weights<"in", Width, Hidden> in{};
  static constexpr weights<"decay", Width, Hidden> decay{};
  static constexpr weights<"bias", Hidden> bias{};
  static constexpr weights<"out", Hidden, Width> out{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const kept = sigmoid(matmul(x, decay) + bias);
    return matmul(scan(kept, (1_c - kept) * matmul(x, in)), out);
  }
};

/// Scans whose decay is a number, or a number of each row; and a scan of a number of each row.
template <std::size_t Width, std::size_t Hidden, std::size_t Sequence>
struct scans_of_rows {
  static constexpr weights<"in", Width, Hidden> in{};
  static constexpr weights<"decay", Width, 1> decay{};
  static constexpr weights<"out", Hidden, Width> out{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const kept = sigmoid(matmul(x, decay));
    auto const slow = scan(0.9_c, matmul(x, in));
    return matmul(scan(kept, slow), out) * scan(kept, mean(x)) + scan(0.5_c, mean(square(x)));
  }
};
/// A scan by a number is linear: ranks add up the summands after it.
template <std::size_t Width, std::size_t Hidden, std::size_t Sequence>
struct scan_of_summands {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"down", Hidden, Width> down{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    return scan(0.9_c, matmul(gelu(scan(0.25_c, matmul(x, up))), down));
  }
};

// ---- Images -------------------------------------------------------------------------------------

/// A convolution with strides and padding, its bias, and pooling.
template <std::size_t Channels, std::size_t Outputs>
struct convolved {
  static constexpr weights<"weight", Outputs, Channels * 9> weight{};
  static constexpr weights<"bias", Outputs> bias{};
  using input = plait::nn::image<Channels, 5, 4>;
  using output = plait::nn::image<Outputs, 3, 2>;
  static constexpr auto formula(auto x) {
    return convolve<{.kernel = 3, .stride = 2, .padding = 1}>(x, weight, bias);
  }
};

/// A convolution of blocks of channels.
template <std::size_t Channels, std::size_t Groups>
struct grouped_convolution {
  static constexpr weights<"weight", 2 * Channels, Channels / Groups * 4> weight{};
  using input = plait::nn::image<Channels, 4, 4>;
  static constexpr auto formula(auto x) {
    return tanh(convolve<{.kernel = 2, .groups = Groups}>(x, weight));
  }
};

/// A convolution of each map, and a convolution across all maps at each place.
// example-begin separable
template <std::size_t Channels, std::size_t Outputs>
struct separable_block {
  using matrix = plait::extents<Outputs, Channels>;
  static constexpr plait::parameter<"depthwise", plait::extents<Channels, 9>, plait::normal(0.4)>
      depthwise{};
  static constexpr plait::parameter<"bias", plait::extents<Channels>, plait::normal(0.4)> bias{};
  static constexpr plait::parameter<"pointwise", matrix, plait::normal(0.4)> pointwise{};
  using input = plait::nn::image<Channels, 3, 4>;
  using output = plait::nn::image<Outputs, 3, 4>;
  static constexpr auto formula(auto x) {
    auto const own = convolve<{.padding = 1, .groups = Channels}>(x, depthwise, bias);
    return convolve<{.kernel = 1}>(relu(own), pointwise);
  }
};
// example-end

/// Maps times numbers that depend on their means.
// example-begin squeeze
template <std::size_t Channels, std::size_t Hidden>
struct squeeze_and_excite {
  using of_hidden = plait::extents<Channels, Hidden>;
  using of_maps = plait::extents<Hidden, Channels>;
  static constexpr plait::parameter<"down", of_hidden, plait::normal(0.4)> down{};
  static constexpr plait::parameter<"up", of_maps, plait::normal(0.4)> up{};
  using input = plait::nn::image<Channels, 2, 3>;
  using output = input;
  static constexpr auto formula(auto x) {
    auto const maps = heads<Channels>(x);
    auto const hidden = relu(matmul(side_by_side(mean(maps)), down));
    return maps * heads<Channels>(sigmoid(matmul(hidden, up)));
  }
};
// example-end

/// A number of each map, as a factor and as a summand.
template <std::size_t Channels>
struct scaled_maps {
  static constexpr weights<"factor", Channels> factor{};
  static constexpr weights<"summand", Channels> summand{};
  static constexpr weights<"weight", Channels, Channels> weight{};
  using input = plait::nn::image<Channels, 2, 3>;
  static constexpr auto formula(auto x) {
    auto const maps = heads<Channels>(tanh(x)) * heads<Channels>(factor);
    return heads<Channels>(convolve<{.kernel = 1}>(maps, weight)) + heads<Channels>(summand);
  }
};

/// Pooling of both kinds, with padding and with windows that overlap.
template <std::size_t Channels>
struct pooled {
  using input = plait::nn::image<Channels, 5, 5>;
  static constexpr auto formula(auto x) {
    auto const largest = max_pool<{.padding = 1}>(x);
    auto const means = average_pool<{.kernel = 3, .stride = 1}>(x);
    return average_pool<{.stride = 1}>(concat(largest, means));
  }
};

/// Features that become an image, whose halves are concatenated.
template <std::size_t Width, std::size_t Channels>
struct decoded {
  static constexpr weights<"in", Width, 2 * Channels * 6> in{};
  static constexpr weights<"out", Channels, 2 * Channels * 4> out{};
  using input = plait::features<Width>;
  using output = plait::nn::image<Channels, 2, 1>;
  static constexpr auto formula(auto x) {
    auto const image = as_image<2 * Channels, 3, 2>(matmul(x, in));
    auto const gated = part<0, 2>(image) * sigmoid(part<1, 2>(image));
    return convolve<{.kernel = 2}>(concat(gated, part<0, 2>(image)), out);
  }
};

// ---- Tables -------------------------------------------------------------------------------------

template <std::size_t Tokens, std::size_t Width>
struct scaled_lookup {
  static constexpr weights<"table", Tokens, Width> table{};
  using input = plait::tokens;
  static constexpr auto formula(auto ids) { return gather(table, ids) * 3_c; }
};

/// A function that reads only integers. It is called with plain numbers and may index an array.
struct weight_of_id {
  template <std::floating_point T>
  PLAIT_HOST_DEVICE double operator()(T id) const {
    constexpr double weights[]{1, 2, 0.5};
    return weights[int(id) % 3];
  }
};
/// Integers as numbers, in functions that are stored and in functions that are not.
template <std::size_t Tokens, std::size_t Width>
struct weighted_lookup {
  static constexpr weights<"table", Tokens, Width> table{};
  static constexpr weights<"out", Width, Width> out{};
  using input = plait::tokens;
  static constexpr auto formula(auto ids) {
    auto const number = number_of(ids);
    auto const weight = map(weight_of_id{}, number) / (1_c + square(number));
    return matmul(gather(table, ids) * weight + exp(number * 0.1_c), out);
  }
};
/// Integers next to features.
template <std::size_t Width, std::size_t Hidden>
struct scaled_by_number {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"down", Hidden, Width> down{};
  using input = plait::inputs<plait::features<Width>, plait::tokens>;
  static constexpr auto formula(auto x, auto ids) {
    return matmul(tanh(matmul(x, up) * exp(-0.1_c * number_of(ids))), down);
  }
};

/// A column of each row, and numbers that need all columns.
template <std::size_t Tokens, std::size_t Width>
struct picked_lookup {
  static constexpr weights<"table", Tokens, Width> table{};
  static constexpr weights<"out", Width, Width> out{};
  using input = plait::tokens;
  static constexpr auto formula(auto ids) {
    auto const row = gather(table, ids);
    return matmul(row * pick(row, ids), out) + cross_entropy(row, ids);
  }
};

/// Passes its integers on, next to another layer's result for them.
struct passed_tokens {
  struct copy_integers {
    static constexpr bool any_placement = true;
    void operator()(auto const& queue, auto x, auto y) const {
      queue.copy_bytes(x.data, const_cast<std::int32_t*>(y.data), x.rows * sizeof(*x.data));
    }
  };
  using concept_tag = plait::layer_tag;
  using input = plait::tokens;
  using output = plait::tokens;
  using forms = plait::forms<plait::whole, plait::by_sequence<>>;
  static void forward(auto& ops, auto const& l) { ops.run(copy_integers{}, l.x, l.y); }
};

}  // namespace formula_testing
