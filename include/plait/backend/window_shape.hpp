// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

// The arguments of convolutions and pooling other than pointers; plain data for all devices.
namespace plait::ext {

/// The windows that slide over the maps of an image, on one rank: a sample is `channels` maps of
/// height x width, one after another.
struct window_shape {
  std::size_t channels = 1, height = 1, width = 1;
  std::size_t kernel_height = 1, kernel_width = 1;
  std::size_t stride = 1;
  std::size_t padding = 0;  ///< places without an element on each side of a map

  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t out_height() const {
    return (height + 2 * padding - kernel_height) / stride + 1;
  }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t out_width() const {
    return (width + 2 * padding - kernel_width) / stride + 1;
  }
  /// The number of elements of a map, of elements of a window, and of windows of a map.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t map() const { return height * width; }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t window() const {
    return kernel_height * kernel_width;
  }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t out_map() const {
    return out_height() * out_width();
  }
  /// The number of elements of an image, and of all windows at one place of it.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t image() const { return channels * map(); }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t patch() const {
    return channels * window();
  }
  /// True if each window is one element, and every element is a window.
  [[nodiscard]] constexpr bool is_pointwise() const {
    return window() == 1 && stride == 1 && padding == 0;
  }
  /// Returns the windows for another number of channels.
  [[nodiscard]] constexpr window_shape of_channels(std::size_t count) const {
    window_shape out = *this;
    out.channels = count;
    return out;
  }
};

/// Places [begin, end) along one side of a map.
struct window_range {
  std::size_t begin, end;
};

/// Returns the places along a side of `length` at which window number `window` has elements,
/// without the padding.
PLAIT_HOST_DEVICE constexpr window_range places_of_window(std::size_t window, std::size_t length,
                                                          std::size_t kernel, std::size_t stride,
                                                          std::size_t padding) {
  std::size_t const first = window * stride, last = first + kernel;
  std::size_t const begin = first < padding ? 0 : first - padding;
  std::size_t const end = last < padding ? 0 : last - padding;
  return {begin, end < length ? end : length};
}

/// Returns the windows, of `windows` along a side, that contain place `at`.
PLAIT_HOST_DEVICE constexpr window_range windows_of_place(std::size_t at, std::size_t windows,
                                                          std::size_t kernel, std::size_t stride,
                                                          std::size_t padding) {
  std::size_t const place = at + padding;
  std::size_t const begin = place < kernel ? 0 : (place - kernel) / stride + 1;
  std::size_t const end = place / stride + 1;
  return {begin, end < windows ? end : windows};
}

/// The part of a convolution that is one matrix product: several samples if maps are small, so that
/// the product is large enough, or `rows` rows of the maps of one sample if they are large, so that
/// the patches stay in the cache.
struct patch_block {
  static constexpr std::size_t least = 256, most = 1024;  ///< columns of a product

  std::size_t samples = 1;
  std::size_t rows = 1;     ///< rows of the output's maps
  std::size_t patches = 0;  ///< elements of all windows; 0: no patches are needed
  std::size_t results = 0;  ///< elements of the products of several samples

  /// The number of elements of scratch.
  [[nodiscard]] constexpr std::size_t room() const { return patches + results; }
};

/// Returns the piece of a map, or the number of small maps, whose patches a convolution copies at
/// one time.
constexpr patch_block patch_block_of(window_shape const& in, std::size_t out_channels) {
  std::size_t const map = in.out_map(), height = in.out_height();
  patch_block out{.samples = map < patch_block::least ? (patch_block::least - 1) / map + 1 : 1,
                  .rows = height};
  if (out.samples > 1) {
    std::size_t const columns = out.samples * map;
    out.patches = in.patch() * columns;
    out.results = out_channels * columns;
  } else if (!in.is_pointwise()) {
    std::size_t const pieces = (map - 1) / patch_block::most + 1;
    out.rows = std::max<std::size_t>((height - 1) / std::min(pieces, height) + 1, 1);
    out.patches = in.patch() * out.rows * in.out_width();
  }
  return out;
}

/// The value of norm_shape::samples_together if a set has all samples of a microbatch, on all
/// ranks.
inline constexpr std::size_t all_together = 0;

/// The sets of elements over which a normalisation of images computes mean and variance: sets of
/// `channels_together` consecutive channels of `samples_together` consecutive samples. For example,
/// group norm has 1 sample and C / groups channels, batch norm 1 channel and many samples.
struct norm_shape {
  std::size_t samples = 0;   ///< number of rows
  std::size_t present = 0;   ///< the first rows, which are samples; others do not count
  std::size_t channels = 1;  ///< channels on this rank
  std::size_t map = 1;       ///< elements of a channel
  std::size_t samples_together = 1;
  std::size_t channels_together = 1;
  /// The elements of a set on all ranks if it has all samples of all of them; 0: only local ones.
  std::size_t everywhere = 0;

  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t image() const { return channels * map; }
  /// The number of sets in one row of sets, and of all sets.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t sets_across() const {
    return channels / channels_together;
  }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t sets() const {
    return samples / samples_together * sets_across();
  }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t set_of(std::size_t sample,
                                                               std::size_t channel) const {
    return sample / samples_together * sets_across() + channel / channels_together;
  }
  /// The number of samples of the set that count.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t samples_of(std::size_t set) const {
    std::size_t const first = set / sets_across() * samples_together;
    if (first >= present) return 0;
    return present - first < samples_together ? present - first : samples_together;
  }
  /// The number of elements of the set that count.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t count_of(std::size_t set) const {
    return samples_of(set) * channels_together * map;
  }
  /// The number of elements of the set that count, on all ranks that share it.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t whole_count_of(std::size_t set) const {
    return everywhere != 0 ? everywhere : count_of(set);
  }
};

}  // namespace plait::ext
