// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/random_normal.hpp"
#include "plait/data/dataset.hpp"

namespace plait {

/// A small data set held in memory: rows of features, each with a label.
///
/// Shapes: features (labels.size(), width), row-major.
/// Errors: input_error if there is no sample or width is 0; size_mismatch if the numbers of
/// features
///         and labels do not fit.
template <std::floating_point T>
class in_memory {
 public:
  using concept_tag = dataset_tag;
  using element = T;

  in_memory(std::vector<T> features, std::vector<std::int32_t> labels, std::size_t width)
      : features_(std::move(features)), labels_(std::move(labels)), width_(width) {
    if (labels_.empty() || width_ == 0)
      throw input_error("in_memory: " + std::to_string(labels_.size()) + " samples of width " +
                        std::to_string(width_) + "; both must be at least 1");
    if (features_.size() % width_ != 0 || features_.size() / width_ != labels_.size())
      throw size_mismatch("in_memory: " + std::to_string(features_.size()) +
                          " features are not rows of width " + std::to_string(width_) + " for " +
                          std::to_string(labels_.size()) + " labels");
  }

  /// Made-up samples: each class has a random centre, its samples lie around it.
  [[nodiscard]] static in_memory random_classes(std::size_t samples, std::size_t width,
                                                std::size_t classes, std::uint64_t seed = 0) {
    if (classes == 0) throw input_error("in_memory: random_classes needs at least 1 class");
    std::vector<T> features(samples * width);
    std::vector<std::int32_t> labels(samples);
    std::vector<double> centres(std::min(samples, classes) * width), around(width);
    random_normals<double>({seed, 0, 0}, 0, 1.0, centres);
    for (std::size_t s = 0; s < samples; ++s) {
      labels[s] = static_cast<std::int32_t>(s % classes);
      random_normals<double>({seed, 1, 0}, s * width, 1.0, around);
      for (std::size_t i = 0; i < width; ++i)
        features[s * width + i] = static_cast<T>(centres[s % classes * width + i] + around[i]);
    }
    return {std::move(features), std::move(labels), width};
  }

  [[nodiscard]] std::size_t size() const { return labels_.size(); }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return width_; }

  void inputs(std::size_t sample, std::span<T> out) const {
    check(sample, out.size(), width_);
    std::copy_n(features_.data() + sample * width_, width_, out.data());
  }

  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    check(sample, out.size(), 1);
    out[0] = labels_[sample];
  }

 private:
  void check(std::size_t sample, std::size_t given, std::size_t needed) const {
    if (sample >= size() || given != needed)
      throw size_mismatch("in_memory: sample " + std::to_string(sample) + " of " +
                          std::to_string(size()) + " into a span of " + std::to_string(given) +
                          ", which must be " + std::to_string(needed));
  }

  std::vector<T> features_;
  std::vector<std::int32_t> labels_;
  std::size_t width_;
};

static_assert(feature_dataset<in_memory<float>> && feature_dataset<in_memory<double>>);

}  // namespace plait
