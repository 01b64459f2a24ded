// SPDX-License-Identifier: Apache-2.0
// Any bytes as files of tokens. Eight bytes are the sequence length, three the vocabulary. If the
// next byte is odd, the rest is one file. Otherwise the rest is the tokens after valid headers: of
// 32 bits if the next bit is set, and in two files if that byte, without these bits, is not 0. It
// is then the place where the second file begins.
#include <algorithm>
#include <fstream>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/data/token_shards.hpp"

namespace {

std::vector<std::uint8_t> with_header(std::span<std::uint8_t const> tokens, bool is_wide) {
  std::vector<std::uint8_t> out(1024);
  auto const put = [&](std::size_t at, std::size_t value) {
    for (std::size_t i = 0; i < 4; ++i) out[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
  };
  put(0, is_wide ? 20240801 : 20240520), put(4, is_wide ? 7 : 1);
  put(8, tokens.size() / (is_wide ? 4 : 2));
  out.insert(out.end(), tokens.begin(), tokens.end());
  return out;
}

std::vector<std::filesystem::path> files_from(std::span<std::uint8_t const> bytes) {
  auto const choice = fuzzing::take(bytes, 1);
  if (choice % 2 == 1) return {fuzzing::file_of(bytes)};
  bool const is_wide = (choice & 2u) != 0;
  std::size_t const cut = std::min<std::size_t>(choice / 4 * 4, bytes.size());
  auto const last = with_header(bytes.subspan(cut), is_wide);
  if (cut == 0) return {fuzzing::file_of(last)};
  auto const first = with_header(bytes.first(cut), is_wide);
  auto const path = fuzzing::scratch() / "first";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<char const*>(first.data()),
             static_cast<std::streamsize>(first.size()));
  return {path, fuzzing::file_of(last)};
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  std::size_t const sequence = fuzzing::take(bytes, 8), vocabulary = fuzzing::take(bytes, 3);
  auto const paths = files_from(bytes);
  fuzzing::accepts([&] {
    plait::token_shards const file(paths, {.sequence = sequence, .vocabulary = vocabulary});
    fuzzing::expect(file.size() >= 1 && file.tokens() > sequence, "files without a sample");
    fuzzing::expect_message(file.description());
    std::vector<std::int32_t> inputs(sequence), targets(sequence);
    for (std::size_t sample = 0; sample < file.size(); ++sample) {  // up to the first bad token
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
