// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

// The arguments of convolutions and pooling other than pointers; plain data for all devices.
namespace plait::ext {

/// The sizes, on one rank, of a convolution's or a pooling's windows and of the images over which
/// the windows slide. An image has `channels` maps (a map is the height x width elements of one
/// channel), stored one after another.
struct window_shape {
  std::size_t channels = 1, height = 1, width = 1;
  std::size_t kernel_height = 1, kernel_width = 1;
  std::size_t stride = 1;
  std::size_t padding = 0;  ///< number of rows or columns of padding on each side of a map

  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t out_height() const {
    return (height + 2 * padding - kernel_height) / stride + 1;
  }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t out_width() const {
    return (width + 2 * padding - kernel_width) / stride + 1;
  }
  /// The number of elements of a map.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t map() const { return height * width; }
  /// The number of elements that a window covers in one map.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t window() const {
    return kernel_height * kernel_width;
  }
  /// The number of windows in one map.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t out_map() const {
    return out_height() * out_width();
  }
  /// The number of elements of an image.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t image() const { return channels * map(); }
  /// The number of elements that a window covers in the maps of all channels.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t patch() const {
    return channels * window();
  }
  /// True for a 1 x 1 convolution: each window is one element, and each element has a window.
  [[nodiscard]] constexpr bool is_pointwise() const {
    return window() == 1 && stride == 1 && padding == 0;
  }
  /// Returns this shape with another number of channels.
  [[nodiscard]] constexpr window_shape of_channels(std::size_t count) const {
    window_shape out = *this;
    out.channels = count;
    return out;
  }
};

/// A range [begin, end) of positions along one side of a map, or of windows along it.
struct window_range {
  std::size_t begin, end;
};

/// Returns the positions along a side of `length` elements that window number `window` covers,
/// without padding.
PLAIT_HOST_DEVICE constexpr window_range places_of_window(std::size_t window, std::size_t length,
                                                          std::size_t kernel, std::size_t stride,
                                                          std::size_t padding) {
  std::size_t const first = window * stride, last = first + kernel;
  std::size_t const begin = first < padding ? 0 : first - padding;
  std::size_t const end = last < padding ? 0 : last - padding;
  return {begin, end < length ? end : length};
}

/// Returns the windows that cover position `at`; there are `windows` windows along the side.
PLAIT_HOST_DEVICE constexpr window_range windows_of_place(std::size_t at, std::size_t windows,
                                                          std::size_t kernel, std::size_t stride,
                                                          std::size_t padding) {
  std::size_t const place = at + padding;
  std::size_t const begin = place < kernel ? 0 : (place - kernel) / stride + 1;
  std::size_t const end = place / stride + 1;
  return {begin, end < windows ? end : windows};
}

/// The part of a convolution that is computed by one matrix product, over patches (copies of all
/// windows of all channels). If maps are small, the part has several samples, so that the product
/// is large enough; if maps are large, it has `rows` rows of the maps of one sample, so that the
/// patches stay in the cache.
struct patch_block {
  /// Limits for the number of columns of a product.
  static constexpr std::size_t least = 256, most = 1024;

  std::size_t samples = 1;
  std::size_t rows = 1;  ///< number of rows of the output's maps
  /// Number of elements of the patches; 0: the product reads the image itself.
  std::size_t patches = 0;
  /// Number of elements of the product if the product has several samples and is rearranged; else
  /// 0.
  std::size_t results = 0;

  /// The number of elements of scratch memory.
  [[nodiscard]] constexpr std::size_t room() const { return patches + results; }
};

/// Returns the part of a convolution that one matrix product computes: the number of samples and of
/// rows of their maps, and the sizes of the scratch memory for it.
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

/// The value of norm_shape::samples_together that means that a normalization set contains all
/// samples of a microbatch, on all ranks.
inline constexpr std::size_t all_together = 0;

/// The normalization sets of a norm of images: mean and variance are computed over the elements of
/// each set, which has `channels_together` consecutive channels of `samples_together` consecutive
/// samples. For example, a set of group norm has 1 sample and C / groups of the C channels; a set
/// of batch norm has 1 channel and many samples.
struct norm_shape {
  std::size_t samples = 0;  ///< number of rows, including padding
  /// The number of rows that are samples, from the first row on. The remaining rows are padding and
  /// are ignored.
  std::size_t present = 0;
  std::size_t channels = 1;  ///< channels on this rank
  std::size_t map = 1;       ///< number of elements of a channel of an image
  std::size_t samples_together = 1;
  std::size_t channels_together = 1;
  /// The number of elements of a set, summed over all ranks, if a set has the samples of all ranks;
  /// 0 if the elements of a set are all on this rank.
  std::size_t everywhere = 0;

  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t image() const { return channels * map; }
  /// The number of sets into which the channels of an image are divided.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t sets_across() const {
    return channels / channels_together;
  }
  /// The number of sets on this rank.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t sets() const {
    return samples / samples_together * sets_across();
  }
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t set_of(std::size_t sample,
                                                               std::size_t channel) const {
    return sample / samples_together * sets_across() + channel / channels_together;
  }
  /// The number of samples of a set, without padding.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t samples_of(std::size_t set) const {
    std::size_t const first = set / sets_across() * samples_together;
    if (first >= present) return 0;
    return present - first < samples_together ? present - first : samples_together;
  }
  /// The number of elements of a set on this rank, without padding.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t count_of(std::size_t set) const {
    return samples_of(set) * channels_together * map;
  }
  /// The number of elements of a set on all ranks that share the set, without padding.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t whole_count_of(std::size_t set) const {
    return everywhere != 0 ? everywhere : count_of(set);
  }
};

}  // namespace plait::ext
