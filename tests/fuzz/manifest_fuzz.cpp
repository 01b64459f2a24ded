// SPDX-License-Identifier: Apache-2.0
// Any bytes as a manifest. If the first byte is odd, the rest is the text; otherwise it gets the
// beginning and the checksum that belong to it, so that what is between is read.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/checkpoint/checkpoint_list.hpp"
#include "plait/checkpoint/manifest_text.hpp"

namespace {

std::string text_from(std::span<std::uint8_t const> bytes) {
  bool const as_it_is = fuzzing::take(bytes, 1) % 2 == 1;
  std::string const rest(bytes.begin(), bytes.end());
  if (as_it_is) return rest;
  auto const text = std::string(plait::detail::manifest_head) + "1,\n" + rest;
  return text + plait::detail::manifest_tail(plait::detail::crc_of_text(text));
}

// The promises of the rules to code that opens the files.
void expect_rules(plait::ext::checkpoint_manifest const& manifest) {
  for (auto const& block : manifest.blocks) {
    fuzzing::expect(block.file.find_first_of(std::string("/\0", 2)) == std::string::npos &&
                        block.file != "." && block.file != "..",
                    "a file is not in the folder");
    auto const of =
        std::ranges::find(manifest.tensors, block.tensor, &plait::ext::checkpoint_tensor::name);
    fuzzing::expect(of != manifest.tensors.end(), "a block of no tensor");
    fuzzing::expect(plait::detail::is_block_of(of->shape, block.offset, block.extent),
                    "a block outside its tensor");
  }
  for (auto const& tensor : manifest.tensors) {
    std::size_t const elements = plait::detail::elements_of(tensor.shape);
    if (elements > 100'000) continue;
    std::vector<int> times(elements, 0);
    for (auto const& block : manifest.blocks)
      if (block.tensor == tensor.name)
        plait::detail::for_each_run(tensor.shape, block.offset, block.extent,
                                    [&](std::size_t first, std::size_t count) {
                                      for (std::size_t i = 0; i < count; ++i) ++times.at(first + i);
                                    });
    for (int const one : times) fuzzing::expect(one == 1, "an element is not there exactly once");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const text = text_from({data, size});
  fuzzing::accepts([&] {
    auto const manifest = plait::ext::parse_manifest(text);
    expect_rules(manifest);
    auto const again = plait::ext::to_text(manifest);
    fuzzing::expect(plait::ext::parse_manifest(again) == manifest, "another manifest is read back");
    fuzzing::expect(plait::ext::to_text(plait::ext::parse_manifest(again)) == again,
                    "another text");
  });
  // The bytes also serve as the name of a folder.
  if (auto const name = plait::detail::checkpoint_name::from(text))
    fuzzing::expect(name->text() == text, "another name");
  return 0;
}
