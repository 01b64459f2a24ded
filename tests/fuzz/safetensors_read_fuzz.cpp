// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file. If the first byte is odd, the rest is the file; otherwise two
// bytes say how much data follows the header, which is the rest, so that its length is always
// right.
#include <string>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/io/safetensors.hpp"

namespace {

std::vector<std::uint8_t> file_from(std::span<std::uint8_t const> bytes) {
  if (fuzzing::take(bytes, 1) % 2 == 1) return {bytes.begin(), bytes.end()};
  std::size_t const data = fuzzing::take(bytes, 2);
  std::vector<std::uint8_t> out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::uint8_t>(bytes.size() >> (8 * i)));
  out.insert(out.end(), bytes.begin(), bytes.end());
  out.resize(out.size() + data, 0x3f);
  return out;
}

void read_all(plait::safetensors_reader const& reader, std::size_t file_bytes) {
  std::size_t bytes = 0;
  for (auto const& name : reader.names()) {
    auto const& info = reader.info(name);
    fuzzing::expect(info.name == name && reader.contains(name), "a tensor has two names");
    bytes += info.bytes();
    reader.expect_shape(name, info.shape);
    fuzzing::accepts([&] {
      std::vector<float> values(info.elements());
      reader.read(name, std::span(values));
    });
    fuzzing::accepts([&] {
      std::vector<double> values(info.elements());
      reader.read(name, std::span(values));
    });
    fuzzing::expect(!fuzzing::accepts([&] {
      std::vector<double> values(info.elements() + 1);
      reader.read(name, std::span(values));
    }),
                    "another number of elements was read");
  }
  fuzzing::expect(bytes + 8 <= file_bytes, "more data than there is");
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const file = file_from({data, size});
  fuzzing::accepts([&] {
    plait::safetensors_reader const reader(fuzzing::file_of(file));
    read_all(reader, file.size());
  });
  return 0;
}
