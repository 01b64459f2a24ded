// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/images/resize.hpp"

namespace plait::detail {

PLAIT_DECL middle_resize::middle_resize(picture_size from, picture_size to) : from_(from), to_(to) {
  // The scale, new pixels / old pixels, is the fraction `unit_` / `scale_`. It follows from the
  // lengths of the side along which nothing is cut off.
  bool const is_wide = from.width * to.height >= from.height * to.width;
  scale_ = static_cast<std::int64_t>(is_wide ? from.height : from.width);
  unit_ = static_cast<std::int64_t>(is_wide ? to.height : to.width);
}

PLAIT_DECL run_of_pixels middle_resize::weigh(std::size_t at, std::size_t old_size,
                                              std::size_t new_size,
                                              std::span<std::uint32_t> weights) const {
  auto const size = static_cast<std::int64_t>(old_size);
  auto const left_out = size * unit_ - static_cast<std::int64_t>(new_size) * scale_;
  auto const centre = left_out + (2 * static_cast<std::int64_t>(at) + 1) * scale_;
  auto const reach = 2 * std::max(scale_, unit_);
  auto const weight = [&](std::int64_t pixel) {
    auto const distance = (2 * pixel + 1) * unit_ - centre;
    return reach - (distance < 0 ? -distance : distance);
  };
  std::int64_t first = std::max<std::int64_t>(0, (centre - reach) / (2 * unit_));
  while (weight(first) <= 0) ++first;
  std::int64_t end = first, sum = 0;
  for (; end < size && weight(end) > 0; ++end) sum += weight(end);
  std::uint32_t left = 1u << 16;
  std::size_t largest = 0;
  for (std::int64_t pixel = first; pixel < end; ++pixel) {
    auto const i = static_cast<std::size_t>(pixel - first);
    weights[i] = static_cast<std::uint32_t>((weight(pixel) << 16) / sum);
    left -= weights[i];
    if (weights[i] > weights[largest]) largest = i;
  }
  weights[largest] += left;
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)};
}

}  // namespace plait::detail
