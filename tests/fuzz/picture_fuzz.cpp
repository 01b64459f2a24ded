// SPDX-License-Identifier: Apache-2.0
// Any bytes as a picture, which is resized to a size that the first byte chooses. Pictures of more
// than a million pixels are left alone, for time.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/data/images/resize.hpp"

namespace {

void read(std::span<std::byte const> file, std::size_t choice) {
  auto const header = plait::detail::decode_picture(file, std::nullopt, nullptr);
  fuzzing::expect(header.width >= 1 && header.height >= 1, "a picture without a pixel");
  if (header.width * header.height > 1'000'000) return;
  plait::detail::picture_scratch scratch;
  auto const found = plait::detail::decode_picture(file, header, &scratch.rgb);
  fuzzing::expect(found == header, "two sizes");
  fuzzing::expect(scratch.rgb.size() == 3 * found.width * found.height, "not all pixels");
  plait::detail::picture_size const to = choice % 2 == 0
                                             ? plait::detail::picture_size{8, 8}
                                             : plait::detail::picture_size{1 + choice / 2, 5};
  auto const [least, most] = std::ranges::minmax(scratch.rgb);
  std::size_t written = 0;
  plait::detail::middle_resize(found, to).run(
      scratch, [&](std::size_t row, std::size_t column, std::size_t c, std::uint8_t byte) {
        fuzzing::expect(row < to.height && column < to.width && c < 3, "no such pixel");
        fuzzing::expect(byte >= least && byte <= most, "a byte that is no mean");
        ++written;
      });
  fuzzing::expect(written == to.width * to.height * 3, "not all new pixels");
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  auto const choice = fuzzing::take(bytes, 1);
  // A copy of just these bytes, so that the sanitizer sees reads after them.
  std::vector<std::uint8_t> const copy(bytes.begin(), bytes.end());
  fuzzing::accepts([&] {
    try {
      read(std::as_bytes(std::span(copy)), choice);
    } catch (plait::input_error const& problem) {  // named as by image_folder
      throw plait::input_error(std::string("picture 'p' ") + problem.what());
    }
  });
  return 0;
}
