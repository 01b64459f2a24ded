// SPDX-License-Identifier: Apache-2.0
// Calculates the logits of train_gpt's and train_llama's models of size tiny, from weights that
// other programs have written. real_weights.py compiles it:
//   real_logits gpt|llama WEIGHTS TEXT FILE      doubles of eight sequences of TEXT, or the
//   sentence that refuses them
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>

#include "train_gpt/gpt.hpp"
#include "train_gpt/init_weights.hpp"
#include "train_gpt/job.hpp"
#include "train_llama/llama.hpp"
#include "train_llama/model.hpp"

namespace {

constexpr std::size_t samples = 8;

template <class Size>
struct job : plait::parallel<typename Size::objective, plait::serial, double> {};

template <class Size>
void write_logits(train_gpt::program_description const& of, std::string const& weights,
                  std::string const& text, std::string const& to) {
  train_gpt::entry entry;
  entry.size = "tiny";
  entry.parameters = train_gpt::parameters_of<job<Size>>;
  bool const is_tied = train_gpt::check_config_of(weights, Size::config()).tie_word_embeddings;
  train_gpt::init_names init;
  train_gpt::with_weights(
      weights, [&](auto&& from) { init = train_gpt::names_of_init(of, entry, is_tied, from); });
  auto const data = plait::byte_text::from_file(text, Size::sequence);
  plait::launch<job<Size>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Size>>(rank, plait::sgd{}, {.seed = 1});
    train_gpt::with_weights(
        weights, [&](auto&& from) { plait::load_weights(*trainer.state(), from, init.names); });
    std::vector<std::int32_t> tokens(Size::sequence);
    auto& device = rank.device();
    auto const room = device.allocate(tokens.size() * sizeof(std::int32_t));
    std::ofstream file(to, std::ios::binary);
    for (std::size_t sample = 0; sample < samples; ++sample) {
      data.inputs(sample, tokens);
      device.upload(tokens.data(), room.data(), tokens.size() * sizeof(std::int32_t));
      plait::device_batch<typename std::remove_reference_t<decltype(device)>::memory> batch;
      batch.samples = 1;
      batch.sequence = Size::sequence;
      batch.inputs = room.data();
      batch.input = {plait::ext::value_kind::tokens, 1};
      auto const logits = trainer.predict(batch);
      file.write(reinterpret_cast<char const*>(logits.data()),
                 static_cast<std::streamsize>(logits.size_bytes()));
    }
  });
}

}  // namespace

int main(int, char** words) try {
  std::string const weights = words[2], text = words[3], to = words[4];
  if (std::string(words[1]) == "gpt")
    write_logits<train_gpt::sizes::tiny>(train_gpt::gpt, weights, text, to);
  else write_logits<train_llama::sizes::tiny<0>>(train_llama::program, weights, text, to);
} catch (plait::input_error const& problem) {
  std::printf("%s\n", problem.what());
  return 2;
}
