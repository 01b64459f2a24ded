// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/data/images/picture.hpp"

namespace plait::detail {

/// The adjacent old pixels whose weighted mean is a new pixel.
struct run_of_pixels {
  std::size_t first, count;
};

/// Memory that a thread reuses from picture to picture; its size only grows.
struct picture_scratch {
  std::vector<std::uint8_t> rgb;        // (height, width, 3), the decoded picture
  std::vector<std::uint16_t> narrowed;  // (needed rows, new width, 3), in units of 1/256
  std::vector<std::uint32_t> weights;   // (new width, most_taps)
  std::vector<run_of_pixels> columns;   // (new width)
};

/// Cuts the largest middle region with the new aspect ratio out of a picture, and resizes it: each
/// new pixel is a weighted mean of the old pixels around it (bilinear). The weights fall linearly
/// to 0 at a distance of one old pixel or one new pixel, whichever is larger.
///
/// All computations are in integers, so every machine gets the same bytes.
class middle_resize {
 public:
  middle_resize(picture_size from, picture_size to);

  /// Calls write(row, column, channel, byte) for each byte of the new picture.
  template <class Write>
  void run(picture_scratch& scratch, Write write) const {
    std::size_t const taps = most_taps(), stride = to_.width * 3;
    grow(scratch.weights, to_.width * taps);
    grow(scratch.columns, to_.width);
    std::span const all = std::span(scratch.weights);
    auto const last = weigh(to_.height - 1, from_.height, to_.height, all.first(taps));
    std::size_t const top = weigh(0, from_.height, to_.height, all.first(taps)).first;
    std::size_t const rows = last.first + last.count - top;
    grow(scratch.narrowed, rows * stride);
    for (std::size_t column = 0; column < to_.width; ++column)
      scratch.columns[column] =
          weigh(column, from_.width, to_.width, all.subspan(column * taps, taps));
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < to_.width; ++column) {
        auto const [first, count] = scratch.columns[column];
        auto const* const weights = all.data() + column * taps;
        auto const* const old = scratch.rgb.data() + ((top + row) * from_.width + first) * 3;
        for (std::size_t c = 0; c < 3; ++c)
          scratch.narrowed[row * stride + column * 3 + c] =
              static_cast<std::uint16_t>(weighted_sum(weights, old + c, count, 3, 1u << 7) >> 8);
      }
    for (std::size_t row = 0; row < to_.height; ++row) {
      auto const [first, count] = weigh(row, from_.height, to_.height, all.first(taps));
      auto const* const old = scratch.narrowed.data() + (first - top) * stride;
      for (std::size_t at = 0; at < stride; ++at) {
        auto const sum = weighted_sum(all.data(), old + at, count, stride, 1u << 23);
        write(row, at / 3, at % 3, static_cast<std::uint8_t>(sum >> 24));
      }
    }
  }

 private:
  template <class Number>
  static std::uint32_t weighted_sum(std::uint32_t const* weights, Number const* old,
                                    std::size_t count, std::size_t stride, std::uint32_t sum) {
    for (std::size_t i = 0; i < count; ++i) sum += weights[i] * old[i * stride];
    return sum;
  }

  template <class Number>
  static void grow(std::vector<Number>& scratch, std::size_t size) {
    if (scratch.size() < size) scratch.resize(size);
  }

  [[nodiscard]] std::size_t most_taps() const {
    return 2 * static_cast<std::size_t>(std::max(scale_, unit_) / unit_) + 3;
  }

  // Returns the run of old pixels from which new pixel `at` is computed, and writes their weights,
  // whose sum is 1 << 16. The function computes lengths in integers, in units of an old pixel's
  // width / (2 * `unit_`).
  [[nodiscard]] run_of_pixels weigh(std::size_t at, std::size_t old_size, std::size_t new_size,
                                    std::span<std::uint32_t> weights) const;

  picture_size from_, to_;
  std::int64_t scale_ = 1, unit_ = 1;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/images/resize.ipp"
#endif
