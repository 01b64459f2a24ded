// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file with the tensors x and y. The first byte chooses the types; if
// its lowest bit is set, the rest is the file, otherwise two bytes say how much data follows the
// header, which is the rest, so that its length is always right.
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/data/tensor_table.hpp"

namespace {

std::vector<std::uint8_t> file_from(std::span<std::uint8_t const> bytes, bool is_whole) {
  if (is_whole) return {bytes.begin(), bytes.end()};
  std::size_t const data = fuzzing::take(bytes, 2);
  std::vector<std::uint8_t> out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::uint8_t>(bytes.size() >> (8 * i)));
  out.insert(out.end(), bytes.begin(), bytes.end());
  for (std::size_t i = 0; i < data; ++i) out.push_back(static_cast<std::uint8_t>(i * i * 31));
  return out;
}

template <class Table>
void read_all(std::string const& path) {
  fuzzing::accepts([&] {
    Table const data(path, "x", "y");
    fuzzing::expect(data.size() >= 1 && data.width() >= 1, "a table without a sample");
    fuzzing::expect_message(data.description());
    std::vector<typename Table::element> inputs(data.width());
    std::vector<typename Table::target> targets(data.target_width());
    for (std::size_t sample = 0; sample < data.size(); ++sample)
      fuzzing::accepts([&] {
        data.targets(sample, targets);
        data.inputs(sample, inputs);
      });
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  auto const choice = fuzzing::take(bytes, 1);
  auto const path = fuzzing::file_of(file_from(bytes, choice % 2 == 1));
  if (choice & 2u) read_all<plait::tensor_table<float>>(path);
  else if (choice & 4u) read_all<plait::tensor_table<double, float>>(path);
  else read_all<plait::tensor_table<float, double>>(path);
  return 0;
}
