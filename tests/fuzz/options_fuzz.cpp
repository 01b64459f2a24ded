// SPDX-License-Identifier: Apache-2.0
// A command line of train_gpt, a word in each line.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "train_gpt/gpt.hpp"
#include "train_gpt/options.hpp"

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  std::vector<std::string> texts{"train_gpt"};
  while (!bytes.empty()) texts.push_back(fuzzing::take_line(bytes));
  std::vector<char const*> words;
  for (auto const& text : texts) words.push_back(text.c_str());
  fuzzing::accepts([&] {
    auto const read =
        train_gpt::parse(train_gpt::gpt, static_cast<int>(words.size()), words.data());
    auto const in_range = [](std::int64_t value, std::int64_t least, std::int64_t most) {
      fuzzing::expect(least <= value && value <= most, "a number out of range");
    };
    in_range(read.steps, 0, 1'000'000'000'000);
    in_range(read.batch, 1, train_gpt::most_batch);
    in_range(read.microbatches, 0, train_gpt::most_batch);
    in_range(read.generate, 0, 2147483647);
    in_range(std::min(read.seed, read.schedule_seed), 0, 0x7fffffffffffffff);
    for (double const value : {read.learning_rate, read.weight_decay, read.clip})
      fuzzing::expect(std::isfinite(value) && value >= 0, "a number that is not finite");
    for (auto const& text : {read.data, read.init, read.save, read.losses, read.draw})
      fuzzing::expect(!text.starts_with('-'), "a file called like an option");
  });
  return 0;
}
