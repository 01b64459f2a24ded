// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/layer/combinators.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/qk_norm.hpp"
#include "plait/nn/rotary.hpp"
#include "plait/nn/scale.hpp"
#include "plait/nn/scored_attention.hpp"

namespace plait::nn {

/// Options of qk_norm_attention.
struct qk_norm_attention_options {
  qk_norm_options norm{};
  rotary_options rotary{};
  ext::attention_options attention{};
  bool bias = false;  ///< the products of queries, keys and values have a bias
  /// Multiplies the queries, in addition to the division of the scores by the square root of
  /// HeadWidth. Gemma's query_pre_attn_scalar is sqrt(HeadWidth / query_pre_attn_scalar) here.
  ext::nano_fraction query_scale = fraction(1.0);
  /// If true, a query attends only to keys of its own document, and positions count from the
  /// beginning of the document; see document_attention, which does not run on GPUs.
  bool documents = false;
};

namespace detail {

template <std::size_t In, std::size_t HeadWidth, std::size_t Sequence,
          qk_norm_attention_options Options>
struct qk_norm_branches {
  static constexpr rotary_options angles = [] {
    auto of = Options.rotary;
    of.documents = of.documents || Options.documents;
    return of;
  }();
  template <std::size_t Out>
  using product = linear<In, Out, {.bias = Options.bias, .order = weight_order::output_input}>;
  template <std::size_t Out>
  using norm = qk_norm<Out, HeadWidth, Options.norm>;
  template <std::size_t Out>
  using turned = rotary<Out, HeadWidth, Sequence, angles>;
  template <std::size_t Out>
  using last_of_q = std::conditional_t<Options.query_scale.nano == 1'000'000'000, turned<Out>,
                                       sequential<turned<Out>, scale<Out, Options.query_scale>>>;

  template <std::size_t Out>
  using q = sequential<named<"q_proj", product<Out>>, named<"q_norm", norm<Out>>, last_of_q<Out>>;
  template <std::size_t Out>
  using k = sequential<named<"k_proj", product<Out>>, named<"k_norm", norm<Out>>, turned<Out>>;
  template <std::size_t Out>
  using v = named<"v_proj", product<Out>>;
};

}  // namespace detail

/// Self-attention whose queries and keys are normalised before they are rotated, as in Qwen3,
/// Gemma3 and OLMo2, with the parameter names of Hugging Face's files.
///
/// Shapes: x, y (Sequence * batch, Width); q_proj (Heads HeadWidth, Width), k_proj and v_proj
///         (KeyValueHeads HeadWidth, Width), o_proj (Width, Heads HeadWidth); q_norm and k_norm as
///         the weight of qk_norm.
/// Moves:  the products, norms and attention are cut by heads, with one all_reduce of the output;
///         see attention for more ranks than key-value heads.
///
/// Example (tests/reference/names_in_use_test.cpp qk_norm_attention):
///     using of_qwen3_0_6b =
///         plait::nn::qk_norm_attention<1024, 16, 8, 128, 4096, {.rotary = {.base = 1000000}}>;
template <std::size_t Width, std::size_t Heads, std::size_t KeyValueHeads, std::size_t HeadWidth,
          std::size_t Sequence, qk_norm_attention_options Options = qk_norm_attention_options{},
          class Branches = detail::qk_norm_branches<Width, HeadWidth, Sequence, Options>>
using qk_norm_attention =
    sequential<fan_out<typename Branches::template q<Heads * HeadWidth>,
                       typename Branches::template k<KeyValueHeads * HeadWidth>,
                       typename Branches::template v<KeyValueHeads * HeadWidth>>,
               std::conditional_t<
                   Options.documents,
                   document_attention<Heads, KeyValueHeads, HeadWidth, Sequence, Options.attention>,
                   attention<Heads, KeyValueHeads, HeadWidth, Sequence, Options.attention>>,
               named<"o_proj", linear<Heads * HeadWidth, Width,
                                      {.bias = false, .order = weight_order::output_input}>>>;

}  // namespace plait::nn
