// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/plait.hpp"

// A GPT small enough to be trained under many plans in one test, with a text to train on.
namespace small_gpt {

using plait::named;
using plait::residual;
using plait::sequential;
namespace nn = plait::nn;

constexpr std::size_t width = 16, heads = 4, length = 8, vocabulary = 256;

using block = sequential<
    residual<sequential<named<"ln_1", nn::layer_norm<width>>,
                        named<"attn", nn::causal_self_attention<width, heads, length>>>>,
    residual<sequential<
        named<"ln_2", nn::layer_norm<width>>,
        named<"mlp", sequential<named<"c_fc", nn::linear<width, 2 * width>>, nn::gelu<2 * width>,
                                named<"c_proj", nn::linear<2 * width, width>>>>>>>;
using body = sequential<named<"wte", nn::embedding<vocabulary, width>>,
                        named<"wpe", nn::positions<length, width>>, nn::dropout<width, 100>,
                        named<"h", plait::repeat<2, block>>, named<"ln_f", nn::layer_norm<width>>,
                        named<"lm_head", nn::linear<width, vocabulary>>>;
using objective = plait::objective<body, nn::cross_entropy<vocabulary>>;

// A GPT whose head is the embedding's table. Six rows of the table are padding.
constexpr std::size_t tied_vocabulary = 250;
using table = nn::embedding<tied_vocabulary, width, plait::normal(0.02), vocabulary>;
using free_head =
    nn::linear<width, tied_vocabulary,
               nn::linear_options{.bias = false,
                                  .order = nn::weight_order::output_input,
                                  .padded_to = vocabulary}>;  // nvcc needs the name of the type
using tied_head = plait::tied<free_head, free_head::weight, "wte.weight">;
using tied_body =
    sequential<named<"wte", plait::use_form<"vocabulary", table>>,
               named<"wpe", nn::positions<length, width>>, named<"h", plait::repeat<2, block>>,
               named<"ln_f", nn::layer_norm<width>>,
               named<"lm_head", plait::use_form<"column", tied_head>>>;
using tied_objective =
    plait::objective<tied_body, nn::cross_entropy<tied_vocabulary, nn::cross_entropy_options{
                                                                       .padded_to = vocabulary}>>;

template <class Policy, class Element = double>
struct tied_job : plait::parallel<tied_objective, Policy, Element> {};
template <class Policy, class Element = double>
struct job : plait::parallel<objective, Policy, Element> {};

using tp2 = plait::tensor_parallel<2>;
using tp2_sharded = plait::tensor_parallel<2, plait::sequence::sharded>;
using three_axes = plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>, tp2>;
using three_axes_sharded = plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>, tp2_sharded>;

/// Data-parallel ranks whose optimizers own blocks.
template <int Ranks>
struct sharded_replicas {
  using concept_tag = plait::ext::policy_tag;
  static constexpr plait::axis along = plait::axis::replica;
  static constexpr int ranks = Ranks;
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
  static constexpr plait::ext::parameter_rule parameters{
      .summed = plait::partial, .owned = plait::shard<plait::dim::elements>};
};

inline plait::byte_text text() {
  std::string bytes;
  for (unsigned i = 0; i < 600; ++i) bytes.push_back(static_cast<char>('a' + i * i % 23));
  return plait::byte_text::from_text(bytes, length);
}

}  // namespace small_gpt
