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

/// A small data set held in memory: rows of features, each with a class, or with `target_width`
/// real numbers: `in_memory<float, float>`.
///
/// Shapes: features (samples, width), targets (samples, target_width), row-major.
/// Errors: input_error if there is no sample or a width is 0; size_mismatch if the numbers of
///         features and targets do not fit.
///
/// Example (tests/reference/names_in_use_test.cpp in_memory):
///     std::vector<float> features(64 * 10, 0.5F);  // 64 samples of 10 numbers,
///     std::vector<std::int32_t> classes(64, 1);    // and the class of each
///     plait::in_memory<float> const data(features, classes, 10);
template <std::floating_point T, class Target = std::int32_t>
class in_memory {
 public:
  using concept_tag = dataset_tag;
  using element = T;
  using target = Target;

  in_memory(std::vector<T> features, std::vector<Target> targets, std::size_t width,
            std::size_t target_width = 1)
      : features_(std::move(features)),
        targets_(std::move(targets)),
        width_(width),
        target_width_(target_width) {
    if (targets_.empty() || width_ == 0 || target_width_ == 0)
      throw input_error({"in_memory: ", targets_.size(), " targets of width ", target_width_,
                         " for samples of width ", width_, "; all must be at least 1"});
    if (targets_.size() % target_width_ != 0 || features_.size() != size() * width_)
      throw size_mismatch({"in_memory: ", features_.size(), " features are not rows of width ",
                           width_, " for ", targets_.size(), " targets of width ", target_width_});
  }

  /// Made-up samples: each class has a random centre, its samples lie around it.
  [[nodiscard]] [[gnu::cold]] static in_memory random_classes(std::size_t samples,
                                                              std::size_t width,
                                                              std::size_t classes,
                                                              std::uint64_t seed = 0)
    requires std::same_as<Target, std::int32_t>
  {
    if (classes == 0) throw input_error("in_memory: random_classes needs at least 1 class");
    std::vector<T> features(samples * width);
    std::vector<std::int32_t> labels(samples);
    std::vector<double> centres(std::min(samples, classes) * width), around(width);
    ext::random_normals<double>({seed, 0, 0}, 0, 1.0, centres);
    for (std::size_t s = 0; s < samples; ++s) {
      labels[s] = static_cast<std::int32_t>(s % classes);
      ext::random_normals<double>({seed, 1, 0}, s * width, 1.0, around);
      for (std::size_t i = 0; i < width; ++i)
        features[s * width + i] = static_cast<T>(centres[s % classes * width + i] + around[i]);
    }
    return {std::move(features), std::move(labels), width};
  }

  [[nodiscard]] std::size_t size() const { return targets_.size() / target_width_; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t target_width() const { return target_width_; }

  void inputs(std::size_t sample, std::span<T> out) const {
    detail::check_sample("in_memory", sample, size(), out.size(), width_);
    std::copy_n(features_.data() + sample * width_, width_, out.data());
  }

  void targets(std::size_t sample, std::span<Target> out) const {
    detail::check_sample("in_memory", sample, size(), out.size(), target_width_);
    std::copy_n(targets_.data() + sample * target_width_, target_width_, out.data());
  }

 private:
  std::vector<T> features_;
  std::vector<Target> targets_;
  std::size_t width_, target_width_;
};

static_assert(ext::feature_dataset<in_memory<float>> &&
              ext::feature_dataset<in_memory<double, float>>);

}  // namespace plait
