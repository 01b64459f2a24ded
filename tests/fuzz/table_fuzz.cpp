// SPDX-License-Identifier: Apache-2.0
// Any bytes as a table. The first byte chooses the options and the kind of targets, the rest is the
// file.
#include <cmath>
#include <string>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/data/table.hpp"

namespace {

template <class Table>
void read_all(std::string const& path, plait::table_options const& options) {
  fuzzing::accepts([&] {
    Table const data(path, options);
    fuzzing::expect(data.size() >= 1 && data.width() >= 1, "a table without a sample");
    fuzzing::expect(data.width() == data.feature_names().size(), "a feature without a name");
    std::vector<typename Table::element> inputs(data.width());
    std::vector<typename Table::target> targets(data.target_width());
    for (std::size_t sample = 0; sample < data.size(); ++sample) {
      data.inputs(sample, inputs);
      data.targets(sample, targets);
      for (auto const value : inputs) fuzzing::expect(std::isfinite(value), "no finite feature");
      for (auto const value : targets) {
        if constexpr (std::is_integral_v<typename Table::target>)
          fuzzing::expect(value == plait::ext::ignored_target ||
                              static_cast<std::size_t>(value) < data.classes().size(),
                          "a class without a word");
        else fuzzing::expect(!std::isinf(value), "an infinite target");
      }
    }
    fuzzing::expect_message(data.description());
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  auto const choice = fuzzing::take(bytes, 1);
  plait::table_options options{.targets = {"1"}};
  options.separator = choice & 1u ? ';' : ',';
  options.header = (choice & 2u) != 0;
  if (choice & 4u) options.missing = 0.5;
  if (choice & 8u) options.ignored = {"0"};
  if (choice & 64u) options.missing_words = {"NA", "?"};
  if (choice & 128u) {
    options.one_hot = {"2"};
    if (!(choice & (8u | 32u))) options.numbered = {"0"};
  }
  auto const path = fuzzing::file_of(bytes);
  if (choice & 16u) {
    if (choice & 32u) options.classes = {"b", "a"};
    read_all<plait::table<float>>(path, options);
  } else {
    if (choice & 32u) options.targets = {"1", "0"};
    read_all<plait::table<float, double>>(path, options);
  }
  return 0;
}
