// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/formula/layer.hpp"

/// Layers of models since 2020, written as formulas; tests/oracle/formula_reference.py writes them
/// in PyTorch.
namespace modern {

using namespace plait::literals;

template <plait::ext::name Label, std::size_t... Lengths>
using weights = plait::parameter<Label, plait::extents<Lengths...>, plait::normal(0.2)>;

// ---- Gates --------------------------------------------------------------------------------------

template <std::size_t Width>
struct gated_residual {
  static constexpr weights<"w", Width, Width> w{};
  static constexpr weights<"gate", Width, Width> gate{};
  static constexpr weights<"bias", Width> bias{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return x + sigmoid(matmul(x, gate) + bias) * tanh(matmul(x, w));
  }
};

template <std::size_t Width, std::size_t Hidden>
struct bilinear_gate {
  static constexpr weights<"left", Width, Hidden> left{};
  static constexpr weights<"right", Width, Hidden> right{};
  static constexpr weights<"down", Hidden, Width> down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return matmul(matmul(x, left) * matmul(x, right), down); }
};

// ---- Attention ----------------------------------------------------------------------------------

struct alibi_slope {
  PLAIT_HOST_DEVICE double operator()(plait::formula::index_place const& at) const {
    return (double(at[1]) - double(at.position)) / double(2 << at[0]);
  }
};
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct alibi_attention {
  static constexpr weights<"qkv", Width, 3 * Width> qkv{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const all = matmul(x, qkv);
    auto const q = heads<Heads>(part<0, 3>(all));
    auto const k = heads<Heads>(part<1, 3>(all));
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const scores = einsum<"thd,shd->hts">(q, k) * 0.5_c + plait::formula::at(alibi_slope{});
    return side_by_side(einsum<"hts,shd->thd">(causal_softmax(scores), v));
  }
};

template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct soft_cap_attention {
  static constexpr weights<"qkv", Width, 3 * Width> qkv{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const all = matmul(x, qkv);
    auto const q = heads<Heads>(part<0, 3>(all));
    auto const k = heads<Heads>(part<1, 3>(all));
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const scores = 0.4_c * tanh(einsum<"thd,shd->hts">(q, k) * 2_c);
    return side_by_side(einsum<"hts,shd->thd">(causal_softmax(scores), v));
  }
};

struct causal_mask {
  PLAIT_HOST_DEVICE double operator()(plait::formula::index_place const& at) const {
    return at[1] > at.position ? -1e9 : 0;
  }
};
/// Attention with a sink: each head has one more score that belongs to no position, so the weights
/// add up to less than 1.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct sink_attention {
  static constexpr weights<"qkv", Width, 3 * Width> qkv{};
  static constexpr weights<"sink", Heads> sink{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const all = matmul(x, qkv);
    auto const q = heads<Heads>(part<0, 3>(all));
    auto const k = heads<Heads>(part<1, 3>(all));
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const scores = einsum<"thd,shd->hts">(q, k) * 0.5_c + plait::formula::at(causal_mask{});
    auto const kept = sigmoid(side_by_side(log_sum_exp(scores)) - sink);
    return side_by_side(einsum<"hts,shd->thd">(softmax(scores) * heads<Heads>(kept), v));
  }
};

struct sign_of {  // a step function, whose slope is 0
  PLAIT_HOST_DEVICE auto operator()(auto x) const { return decltype(x)(x > 0 ? 1 : -1); }
};
/// Attention within a document: of two documents, the sign of `mark` gives a position's document.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct document_attention {
  static constexpr weights<"qkv", Width, 3 * Width> qkv{};
  using input = plait::inputs<plait::features<Width>, plait::features<3>>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x, auto mark) {
    auto const all = matmul(x, qkv);
    auto const q = heads<Heads>(part<0, 3>(all));
    auto const k = heads<Heads>(part<1, 3>(all));
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const document = map(sign_of{}, part<0, 3>(mark));
    auto const same = einsum<"t,s->ts">(document, document);  // 1 or -1
    auto const scores = einsum<"thd,shd->hts">(q, k) * 0.5_c + (same - 1_c) * 1e9_c;
    return side_by_side(einsum<"hts,shd->thd">(causal_softmax(scores), v));
  }
};

// ---- Recurrences --------------------------------------------------------------------------------

/// One step of a gated recurrent unit: x and the state before.
template <std::size_t Width>
struct gru_cell {
  static constexpr weights<"of_x", Width, 3 * Width> of_x{};
  static constexpr weights<"of_x_bias", 3 * Width> of_x_bias{};
  static constexpr weights<"of_h", Width, 3 * Width> of_h{};
  static constexpr weights<"of_h_bias", 3 * Width> of_h_bias{};
  using input = plait::inputs<plait::features<Width>, plait::features<Width>>;
  static constexpr auto formula(auto x, auto h) {
    auto const from_x = matmul(x, of_x) + of_x_bias;
    auto const from_h = matmul(h, of_h) + of_h_bias;
    auto const r = sigmoid(part<0, 3>(from_x) + part<0, 3>(from_h));
    auto const z = sigmoid(part<1, 3>(from_x) + part<1, 3>(from_h));
    auto const made = tanh(part<2, 3>(from_x) + r * part<2, 3>(from_h));
    return (1_c - z) * made + z * h;
  }
};

/// A selective scan, as in Mamba: each hidden feature has a state of `State` numbers.
template <std::size_t Width, std::size_t Hidden, std::size_t State, std::size_t Sequence>
struct selective_scan {
  static constexpr weights<"in", Width, Hidden> in{};
  static constexpr weights<"step", Width, Hidden> step{};
  static constexpr weights<"step_bias", Hidden> step_bias{};
  static constexpr weights<"b", Width, State> b{};
  static constexpr weights<"c", Width, State> c{};
  static constexpr weights<"decay", State> decay{};
  static constexpr weights<"skip", Hidden> skip{};
  static constexpr weights<"out", Hidden, Width> out{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const u = silu(matmul(x, in));
    auto const dt = log(1_c + exp(matmul(x, step) + step_bias));
    auto const kept = exp(-(heads<Hidden>(dt) * exp(decay)));
    auto const enters = heads<Hidden>(dt * u) * matmul(x, b);
    auto const h = heads<Hidden>(scan(side_by_side(kept), side_by_side(enters)));
    return matmul(side_by_side(sum(h * matmul(x, c))) + u * skip, out);
  }
};

// ---- Mixtures -----------------------------------------------------------------------------------

template <std::size_t Width, std::size_t Hidden, std::size_t Experts>
struct dense_mixture {
  static constexpr weights<"router", Width, Experts> router{};
  static constexpr weights<"up", Width, Experts * Hidden> up{};
  static constexpr weights<"down", Experts * Hidden, Width> down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const shares = heads<Experts>(softmax(matmul(x, router)));
    return matmul(side_by_side(heads<Experts>(silu(matmul(x, up))) * shares), down);
  }
};

struct is_less {  // a step function, whose slope is 0
  PLAIT_HOST_DEVICE auto operator()(auto a, auto b) const { return decltype(a)(a < b ? 1 : 0); }
};
struct if_below_2 {
  PLAIT_HOST_DEVICE auto operator()(auto x, auto rank) const {
    return rank < decltype(rank)(2) ? x : decltype(x)(0);
  }
};
/// Calculates all experts, and uses the two with the largest shares.
template <std::size_t Width, std::size_t Hidden, std::size_t Experts>
struct masked_mixture {
  static constexpr weights<"router", Width, Experts> router{};
  static constexpr weights<"up", Width, Experts * Hidden> up{};
  static constexpr weights<"down", Experts * Hidden, Width> down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const all = softmax(matmul(x, router));
    // The number of experts with a larger share, for each: [Experts, 1].
    auto const rank = sum(map(is_less{}, heads<Experts>(all), all));
    auto const taken = map(if_below_2{}, heads<Experts>(all), rank);
    auto const shares = taken / sum(side_by_side(taken));
    return matmul(side_by_side(heads<Experts>(silu(matmul(x, up))) * shares), down);
  }
};

// ---- Terms of the loss --------------------------------------------------------------------------

/// y = x, with a term that keeps the logarithm of the sum of exponentials near 0.
template <std::size_t Width>
struct z_loss {
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return with_loss(x, 0.1_c * square(log_sum_exp(x))); }
};

/// A latent row: a mean plus noise, with the divergence of its distribution from the standard
/// normal one as a term of the loss. The noise is an input, so that other programs can use equal
/// noise.
template <std::size_t Width, std::size_t Latent>
struct variational {
  static constexpr weights<"mean", Width, Latent> to_mean{};
  static constexpr weights<"log_variance", Width, Latent> to_log_variance{};
  static constexpr weights<"out", Latent, Width> out{};
  using input = plait::inputs<plait::features<Width>, plait::features<Latent>>;
  static constexpr auto formula(auto x, auto noise) {
    auto const m = matmul(x, to_mean);
    auto const log_variance = matmul(x, to_log_variance);
    auto const divergence = 0.5_c * sum(square(m) + exp(log_variance) - log_variance - 1_c);
    return with_loss(matmul(m + exp(0.5_c * log_variance) * noise, out), divergence);
  }
};

struct weight_of_class {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T label) const {
    constexpr double of[]{1, 2, 0.5, 3};
    return static_cast<T>(of[int(label)]);
  }
};
/// Cross-entropy with a smaller weight where it is small.
struct focal_loss {
  using input = plait::inputs<plait::features<4>, plait::tokens>;
  using output = plait::loss_value;
  static constexpr auto formula(auto x, auto label) {
    auto const entropy = cross_entropy(x, label);
    return map(weight_of_class{}, number_of(label)) * square(1_c - exp(-entropy)) * entropy;
  }
};

}  // namespace modern
