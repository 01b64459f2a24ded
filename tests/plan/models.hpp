// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/combinators.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/dropout.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/product.hpp"
#include "plait/plan/plan.hpp"

/// Models that several tests of plans use.
namespace plait::models {

using nn::linear_options;

template <std::size_t Width>
using mlp = sequential<named<"c_fc", nn::linear<Width, 4 * Width>>, nn::gelu<4 * Width>,
                       named<"c_proj", nn::linear<4 * Width, Width>>>;

/// One block of GPT-2.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
using block = sequential<
    residual<sequential<named<"ln_1", nn::layer_norm<Width>>,
                        named<"attn", nn::causal_self_attention<Width, Heads, Sequence>>>>,
    residual<sequential<named<"ln_2", nn::layer_norm<Width>>, named<"mlp", mlp<Width>>>>>;

inline constexpr linear_options head_options{.bias = false,
                                             .order = nn::weight_order::output_input};

template <std::size_t Blocks, std::size_t Width, std::size_t Heads, std::size_t Sequence,
          std::size_t Vocabulary>
using gpt = sequential<
    named<"wte", nn::embedding<Vocabulary, Width>>, named<"wpe", nn::positions<Sequence, Width>>,
    named<"h", repeat<Blocks, block<Width, Heads, Sequence>>>, named<"ln_f", nn::layer_norm<Width>>,
    named<"lm_head", nn::linear<Width, Vocabulary, head_options>>>;

template <std::size_t Blocks, std::size_t Width, std::size_t Heads, std::size_t Sequence,
          std::size_t Vocabulary>
using gpt_with_loss =
    objective<gpt<Blocks, Width, Heads, Sequence, Vocabulary>, nn::cross_entropy<Vocabulary>>;

}  // namespace plait::models
