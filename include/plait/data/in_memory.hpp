// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/random_normal.hpp"
#include "plait/data/dataset.hpp"
#include "plait/layer/value.hpp"

namespace plait::detail {

/// Returns the part of a data set's description that states the length of its samples; "" if
/// samples have one position.
[[nodiscard]] [[gnu::cold]] std::string in_sequences(std::size_t length, bool targets_per_sample);

}  // namespace plait::detail

namespace plait {

/// A small data set in memory: rows of features, and for each row a class or, with
/// `in_memory<float, float>`, `target_width` real numbers. Samples may be sequences of rows, with
/// targets for each position. With `{.targets_per_sample = true}` a sample has targets only at its
/// last position.
///
/// Shapes: features (samples, width), targets (samples, target_width), row-major; for sequences
///         (samples, length, width), and (samples, length, target_width) or (samples,
///         target_width).
/// Errors: input_error if there is no sample or a width is 0; size_mismatch if the number of
///         features or targets does not match the shape.
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

  /// The shape of samples that are sequences of rows.
  struct sequence_shape {
    std::size_t length = 1;  ///< the number of positions
    std::size_t width = 1;   ///< the number of features of each position
    std::size_t target_width = 1;
    bool targets_per_sample = false;
  };

  in_memory(std::vector<T> features, std::vector<Target> targets, std::size_t width,
            std::size_t target_width = 1)
      : in_memory(std::move(features), std::move(targets),
                  sequence_shape{1, width, target_width, false}) {}
  in_memory(std::vector<T> features, std::vector<Target> targets, sequence_shape const& shape);

  /// Makes random samples for tests: each class has a random centre, and the samples of the class
  /// are near it.
  [[nodiscard]] [[gnu::cold]] static in_memory random_classes(std::size_t samples,
                                                              std::size_t width,
                                                              std::size_t classes,
                                                              std::uint64_t seed = 0)
    requires std::same_as<Target, std::int32_t>;

  [[nodiscard]] std::size_t size() const { return targets_.size() / targets_of_sample(); }
  [[nodiscard]] std::size_t sequence_length() const { return shape_.length; }
  [[nodiscard]] std::size_t width() const { return shape_.width; }
  [[nodiscard]] std::size_t target_width() const { return shape_.target_width; }

  void inputs(std::size_t sample, std::span<T> out) const {
    detail::check_sample("in_memory", sample, size(), out.size(), of_sample());
    std::copy_n(features_.data() + sample * of_sample(), of_sample(), out.data());
  }

  void targets(std::size_t sample, std::span<Target> out) const;

 private:
  /// Returns the number of features of a sample.
  [[nodiscard]] std::size_t of_sample() const { return shape_.length * shape_.width; }
  [[nodiscard]] std::size_t targets_of_sample() const {
    return (shape_.targets_per_sample ? 1 : shape_.length) * shape_.target_width;
  }
  static constexpr Target not_counted() {
    if constexpr (std::floating_point<Target>) return std::numeric_limits<Target>::quiet_NaN();
    else return ext::ignored_target;
  }
  std::vector<T> features_;
  std::vector<Target> targets_;
  sequence_shape shape_;
};

template <std::floating_point T, class Target>
in_memory<T, Target>::in_memory(std::vector<T> features, std::vector<Target> targets,
                                sequence_shape const& shape)
    : features_(std::move(features)), targets_(std::move(targets)), shape_(shape) {
  auto const& [length, width, target_width, per_sample] = shape_;
  if (targets_.empty() || length == 0 || width == 0 || target_width == 0)
    throw input_error({"in_memory: ", targets_.size(), " targets of width ", target_width,
                       " for samples of width ", width,
                       detail::in_sequences(shape_.length, shape_.targets_per_sample),
                       "; all of these numbers must be at least 1"});
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  if (width > most / length || target_width > most / length)
    throw input_error({"in_memory: samples of ", length, " positions of width ", width,
                       " with targets of width ", target_width, " are too large"});
  if (targets_.size() % targets_of_sample() != 0 || features_.size() / of_sample() != size() ||
      features_.size() % of_sample() != 0)
    throw size_mismatch({"in_memory: ", features_.size(),
                         " features are not as many as rows of width ", width, " for ",
                         targets_.size(), " targets of width ", target_width,
                         detail::in_sequences(shape_.length, shape_.targets_per_sample)});
}

template <std::floating_point T, class Target>
in_memory<T, Target> in_memory<T, Target>::random_classes(std::size_t samples, std::size_t width,
                                                          std::size_t classes, std::uint64_t seed)
  requires std::same_as<Target, std::int32_t>
{
  if (classes == 0)
    throw input_error("in_memory: random_classes was called with 0 classes; pass at least 1");
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

template <std::floating_point T, class Target>
void in_memory<T, Target>::targets(std::size_t sample, std::span<Target> out) const {
  std::size_t const count = targets_of_sample(), all = shape_.length * shape_.target_width;
  detail::check_sample("in_memory", sample, size(), out.size(), all);
  auto* const first = std::fill_n(out.data(), all - count, not_counted());
  std::copy_n(targets_.data() + sample * count, count, first);
}

static_assert(ext::feature_dataset<in_memory<float>> &&
              ext::feature_dataset<in_memory<double, float>>);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/in_memory.ipp"
#endif
