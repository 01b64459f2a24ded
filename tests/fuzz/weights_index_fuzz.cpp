// SPDX-License-Identifier: Apache-2.0
// Any bytes as the index of a folder of weights.
#include <algorithm>
#include <string>
#include <string_view>

#include "fuzz/fuzzing.hpp"
#include "plait/checkpoint/weights_index.hpp"

namespace {

plait::detail::weights_index parsed(std::string const& text) {
  return plait::detail::parse_weights_index(text, plait::detail::file_name("index", "i"));
}

// The promises of the parser to code that opens the files.
void expect_rules(plait::detail::weights_index const& index, std::string_view text) {
  fuzzing::expect(!index.empty(), "an index without a tensor");
  for (auto const& [tensor, file] : index) {
    bool const is_plain = std::ranges::all_of(file, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '_' || c == '-';
    });
    fuzzing::expect(is_plain && !file.empty() && file[0] != '.', "a file is not in the folder");
    // Escapes of JSON are longer than the characters that they encode.
    fuzzing::expect(tensor.size() + file.size() < text.size(), "more names than there are");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  fuzzing::accepts([&] {
    auto const index = parsed(text);
    expect_rules(index, text);
    auto const again = plait::detail::to_text(index, size);
    fuzzing::expect(parsed(again) == index, "another index is read back");
    fuzzing::expect(plait::detail::to_text(parsed(again), size) == again, "another text");
  });
  // A file with this text gives the same message.
  fuzzing::expect(fuzzing::accepts([&] {
                    (void)plait::detail::read_weights_index(fuzzing::file_of({data, size}));
                  }) == fuzzing::accepts([&] { (void)parsed(text); }),
                  "a file is another index than its text");
  return 0;
}
