// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of tokens. Eight bytes are the sequence length, three the vocabulary; if the
// next one is odd, the rest is the file, otherwise it is the tokens behind a right header.
#include <limits>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/data/token_file.hpp"

namespace {

std::vector<std::uint8_t> file_from(std::span<std::uint8_t const> bytes) {
  if (fuzzing::take(bytes, 1) % 2 == 1) return {bytes.begin(), bytes.end()};
  std::vector<std::uint8_t> out(1024);
  auto const put = [&](std::size_t at, std::size_t value) {
    for (std::size_t i = 0; i < 4; ++i) out[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
  };
  put(0, 20240520), put(4, 1), put(8, bytes.size() / 2);
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  std::size_t const sequence = fuzzing::take(bytes, 8), vocabulary = fuzzing::take(bytes, 3);
  auto const path = fuzzing::file_of(file_from(bytes));
  fuzzing::accepts([&] {
    plait::token_file const file(path, sequence, vocabulary);
    fuzzing::expect(file.size() >= 1 && file.tokens() > sequence, "a file without a sample");
    std::vector<std::int32_t> inputs(sequence), targets(sequence);
    for (std::size_t sample = 0; sample < file.size(); ++sample) {
      file.inputs(sample, inputs);
      file.targets(sample, targets);
      for (std::size_t i = 0; i < sequence; ++i) {
        auto const token = static_cast<std::size_t>(targets[i]);
        fuzzing::expect(token < vocabulary, "a token beyond the vocabulary");
        fuzzing::expect(i + 1 == sequence || targets[i] == inputs[i + 1], "another target");
      }
    }
  });
  return 0;
}
