// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/plait.hpp"

// GPT-2 with 124 million parameters.
namespace plan_gpt2 {

using namespace plait;

inline constexpr std::size_t width = 768, length = 1024, vocabulary = 50257, padded = 50304;
using block = sequential<
    residual<sequential<named<"ln_1", nn::layer_norm<width>>,
                        named<"attn", nn::causal_self_attention<width, 12, length>>>>,
    residual<sequential<
        named<"ln_2", nn::layer_norm<width>>,
        named<"mlp", sequential<named<"c_fc", nn::linear<width, 4 * width>>, nn::gelu<4 * width>,
                                named<"c_proj", nn::linear<4 * width, width>>>>>>>;
using lookup = nn::embedding<vocabulary, width, normal(0.02), padded>;
using free_head =
    nn::linear<width, vocabulary,
               nn::linear_options{
                   .bias = false, .order = nn::weight_order::output_input, .padded_to = padded}>;
template <class Head>
using gpt2_with = objective<
    sequential<named<"wte", use_form<"vocabulary", lookup>>,
               named<"wpe", nn::positions<length, width>>, named<"h", repeat<12, block>>,
               named<"ln_f", nn::layer_norm<width>>, named<"lm_head", use_form<"column", Head>>>,
    nn::cross_entropy<vocabulary, nn::cross_entropy_options{.padded_to = padded}>>;
using gpt2 = gpt2_with<tied<free_head, free_head::weight, "wte.weight">>;
/// GPT-2 with a separate head, which may be on another stage than the table.
using gpt2_untied = gpt2_with<free_head>;

}  // namespace plan_gpt2
