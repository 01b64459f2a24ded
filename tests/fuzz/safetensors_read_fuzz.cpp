// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file. If the first byte is odd, the rest is the file; otherwise two
// bytes say how much data follows the header, which is the rest, so that its length is always
// right.
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/io/sharding_info.hpp"

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

// The later half along each dimension, against the whole.
void read_half(plait::safetensors_reader const& reader, plait::safetensors_entry const& info) {
  auto offset = info.shape, extent = info.shape;
  std::size_t elements = 1;
  for (std::size_t i = 0; i < offset.size(); ++i) {
    offset[i] /= 2;
    elements *= extent[i] -= offset[i];
  }
  std::vector<double> part(elements), all(info.elements());
  fuzzing::accepts([&] {
    reader.read_block(info.name, offset, extent, std::span(part));
    reader.read(info.name, std::span(all));
    if (elements != 0)
      fuzzing::expect(std::memcmp(&part.back(), &all.back(), sizeof(double)) == 0,
                      "a rectangle has other values than the whole");
  });
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
    read_half(reader, info);
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
    fuzzing::accepts([&] { plait::ext::parse_sharding_metadata(reader.metadata(), "f"); });
  });
  return 0;
}
