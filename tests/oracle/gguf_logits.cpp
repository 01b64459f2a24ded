// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files of a small Llama with weights of all sizes, and the logarithms of the
// probabilities that plait computes for the token after a prompt. gguf_logits.py compiles it:
//   gguf_logits FOLDER      FOLDER has a tokenizer.json; it gets f32.gguf and so on
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/checkpoint/save_gguf.hpp"
#include "train_llama/model.hpp"

namespace {

constexpr train_llama::shape small{.layers = 2,
                                   .width = 64,
                                   .hidden = 96,
                                   .heads = 4,
                                   .key_value_heads = 2,
                                   .head_width = 16,
                                   .sequence = 12,
                                   .vocabulary = 256,
                                   .rotary = {.base = 500000,
                                              .scaling = plait::nn::rotary_scaling::llama3,
                                              .factor = plait::fraction(32.0),
                                              .original_positions = 64}};
struct job
    : plait::parallel<
          plait::objective<train_llama::llama<small>, plait::nn::cross_entropy<small.vocabulary>>,
          plait::serial> {};

void set_weights(auto& trainer) {
  trainer.import_parameters([](std::string const& name, auto const& info, auto values) {
    std::uint32_t state = 1;
    for (char const each : name) state = state * 31 + static_cast<unsigned char>(each);
    for (auto& value : values) {
      state = state * 1664525u + 1013904223u;
      value = (static_cast<float>(state >> 8) * 0x1p-23f - 1) * 0.35f + (info.rank == 1 ? 1 : 0);
    }
    return true;
  });
}

void print_next(auto& trainer, auto& rank, std::string const& prompt) {
  std::vector<std::int32_t> const tokens(prompt.begin(), prompt.end());
  auto& device = rank.device();
  auto const room = device.allocate(tokens.size() * sizeof(std::int32_t));
  device.upload(tokens.data(), room.data(), tokens.size() * sizeof(std::int32_t));
  plait::device_batch<typename std::remove_reference_t<decltype(device)>::memory> batch;
  batch.samples = 1;
  batch.sequence = tokens.size();
  batch.inputs = room.data();
  batch.input = {plait::ext::value_kind::tokens, 1};
  auto const last = trainer.predict(batch).last(small.vocabulary);
  double sum = 0;
  for (float const logit : last) sum += std::exp(double(logit));
  for (float const logit : last) std::printf("%.9g\n", double(logit) - std::log(sum));
}

}  // namespace

int main(int, char** given) {
  std::filesystem::path const folder = given[1];
  plait::gguf_model const model{
      .context_length = 64,
      .heads = small.heads,
      .key_value_heads = small.key_value_heads,
      .norm_epsilon = small.norm.epsilon.number(),
      .rope_base = double(small.rotary.base),
      .rope_scaling = plait::gguf_model::llama3_scaling{.factor = 32, .original_positions = 64},
      .tokenizer = folder};
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{});
    set_weights(trainer);
    for (auto const& [name, type] : {std::pair("f32", plait::gguf_type::f32),
                                     {"f16", plait::gguf_type::f16},
                                     {"bf16", plait::gguf_type::bf16},
                                     {"q8_0", plait::gguf_type::q8_0}})
      plait::save_gguf(trainer, folder / (std::string(name) + ".gguf"), model, {.type = type});
    print_next(trainer, rank, "Hello, world");
  });
}
