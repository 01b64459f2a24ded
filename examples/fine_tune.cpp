// SPDX-License-Identifier: Apache-2.0
// libs: safetensors checkpoint
// ctest:
// Trains a small Llama, saves its weights in Hugging Face's format, and trains two additional
// matrices for some of its layers, which it saves alone and added to the weights. A program that
// fine-tunes existing weights begins with the second launch.
// example-begin
#include <plait/checkpoint/load_weights.hpp>
#include <plait/checkpoint/save_gguf.hpp>
#include <plait/checkpoint/save_weights.hpp>
#include <plait/checkpoint/weights_folder.hpp>
#include <plait/plait.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include "train_llama/model.hpp"

constexpr train_llama::shape small{.layers = 2,
                                   .width = 32,
                                   .hidden = 64,
                                   .heads = 4,
                                   .key_value_heads = 2,
                                   .head_width = 8,
                                   .sequence = 16,
                                   .vocabulary = plait::byte_text::vocabulary,
                                   .attention = {.window = 8}};
template <class Trained, class Policy>
using job_of = plait::parallel<plait::objective<train_llama::llama<small, Trained>,
                                                plait::nn::cross_entropy<small.vocabulary>>,
                               Policy>;
// llama.cpp has no window in this architecture; up to its length both compute the same.
plait::gguf_model const for_llama_cpp{.context_length = 8,
                                      .heads = small.heads,
                                      .key_value_heads = small.key_value_heads,
                                      .norm_epsilon = small.norm.epsilon.number(),
                                      .rope_base = double(small.rotary.base)};
struct base_job : job_of<train_llama::all_trained, plait::data_parallel<2>> {};
struct tuned_job : job_of<train_llama::lora_trained<4>, plait::tensor_parallel<2>> {};

// The target of each byte is the next.
double train(auto& trainer, plait::byte_text const& text, std::uint64_t epochs) {
  auto all = plait::batches(text, plait::global_batch<8>{}, trainer.rank(), {.epochs = epochs});
  double loss = 0;
  for (auto const& batch : all) loss = trainer.step(batch).loss;
  return loss;
}

int main() {
  namespace fs = std::filesystem;
  auto const folder =
      fs::temp_directory_path() / ("plait_fine_tune_" + std::to_string(std::random_device{}()));
  fs::create_directories(folder / "adapter");
  auto const adapter = folder / "adapter" / "adapter_model.safetensors";
  std::string words, others;
  for (int i = 0; i < 120; ++i) words += "one two three ", others += "eins zwei drei ";
  auto const first = plait::byte_text::from_text(words, small.sequence);
  auto const second = plait::byte_text::from_text(others, small.sequence);

  plait::launch<base_job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<base_job>(rank, plait::adamw{.learning_rate = 0.01});
    double const loss = train(trainer, first, 4);
    plait::save_weights(trainer, folder / "base", {.type = plait::stored_type::bf16});
    if (rank.is_root()) std::printf("the base: loss %.2f\n", loss);
  });

  plait::weight_names const to_lora{.missing = {"*.lora_*"}};
  plait::weight_names const of_peft{.names = {{"*", "base_model.model.*"}}, .missing = {"*"}};
  plait::launch<tuned_job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tuned_job>(rank, plait::adamw{.learning_rate = 0.02});
    plait::load_weights(trainer, plait::weights_folder(folder / "base"), to_lora);
    double const loss = train(trainer, second, 8);
    plait::save_weights(trainer, adapter, {.names = of_peft.names, .only = {"*.lora_*"}});
    plait::save_weights(trainer, folder / "merged", {.merge_lora = true});
    plait::save_gguf(trainer, folder / "merged.gguf", for_llama_cpp, {.merge_lora = true});
    if (rank.is_root()) std::printf("another text, two matrices: loss %.2f\n", loss);
  });

  // Loads base and adapter again, one after the other.
  plait::launch<tuned_job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tuned_job>(rank, plait::adamw{});
    plait::load_weights(trainer, plait::weights_folder(folder / "base"), to_lora);
    plait::load_weights(trainer, plait::safetensors_reader(adapter), of_peft);
    auto const [loss] =
        trainer.evaluate(second, plait::global_batch<8>{}, plait::measures::mean_loss{});
    if (rank.is_root()) std::printf("loaded again: loss %.2f\n", loss);
  });

  // Loads the merged weights into the model without adapters.
  plait::launch<base_job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<base_job>(rank, plait::adamw{});
    plait::load_weights(trainer, plait::weights_folder(folder / "merged"));
    auto const [loss] =
        trainer.evaluate(second, plait::global_batch<8>{}, plait::measures::mean_loss{});
    if (rank.is_root()) std::printf("merged: loss %.2f\n", loss);
  });
  fs::remove_all(folder);
}
// example-end
