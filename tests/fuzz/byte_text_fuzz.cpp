// SPDX-License-Identifier: Apache-2.0
// Any bytes as a text, after eight bytes for the sequence length.
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/data/byte_text.hpp"

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  std::size_t const sequence = fuzzing::take(bytes, 8);
  fuzzing::accepts([&] {
    auto const text = plait::byte_text::from_file(fuzzing::file_of(bytes), sequence);
    fuzzing::expect(text.bytes() == bytes.size(), "another length");
    fuzzing::expect(text.size() >= 1 && text.size() * sequence < text.bytes(), "too many samples");
    std::vector<std::int32_t> inputs(sequence), targets(sequence);
    for (std::size_t sample = 0; sample < text.size(); ++sample) {
      text.inputs(sample, inputs);
      text.targets(sample, targets);
      for (std::size_t i = 0; i < sequence; ++i) {
        fuzzing::expect(inputs[i] == bytes[sample * sequence + i], "another byte");
        fuzzing::expect(targets[i] == bytes[sample * sequence + i + 1], "another target");
      }
    }
  });
  return 0;
}
