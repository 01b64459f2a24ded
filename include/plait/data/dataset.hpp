// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/namespaces.hpp"

namespace plait {

/// A type says on purpose that it is a data set by `using concept_tag = dataset_tag;`.
struct dataset_tag {};

}  // namespace plait

namespace plait::detail {

template <class D>
struct target_of_data {
  using type = std::int32_t;
};
template <class D>
  requires requires { typename D::target; }
struct target_of_data<D> {
  using type = typename D::target;
};

}  // namespace plait::detail

namespace plait::ext {

/// The type of a target of a data set: its `target`, std::int32_t if it has none.
template <class D>
using target_of = typename detail::target_of_data<D>::type;

/// Numbers of a target, per position: its target_width(), 1 if it has none.
template <class D>
[[nodiscard]] constexpr std::size_t target_width_of(D const& data) {
  if constexpr (requires { data.target_width(); }) return data.target_width();
  else return 1;
}

/// True if each sample has one target, not one for each position: `targets_per_sample`, false if
/// there is none.
template <class D>
inline constexpr bool has_targets_per_sample = [] {
  if constexpr (requires { D::targets_per_sample; }) return bool{D::targets_per_sample};
  else return false;
}();

}  // namespace plait::ext

namespace plait {

/// Numbered samples, each a sequence of inputs and as many targets, or one.
///
/// Syntax:  element: the type of an input; size(), sequence_length() -> std::size_t;
///          inputs(sample, std::span<element>), targets(sample, std::span<target>) -> void, all
///          const. It may have target, an integer of 32 bits (as it is without) or a floating-point
///          type, target_width() -> std::size_t, `static constexpr bool targets_per_sample`, and
///          weight(sample) -> double, by which the sample's share of the loss is multiplied, and
///          fingerprint() -> std::uint64_t, which stands for all samples.
/// Shapes:  inputs (sequence_length(), width()), targets (sequence_length(), target_width()), or
///          (target_width()) per sample: then they stand at the last position, and the others do
///          not count.
/// Meaning: samples are 0 to size()-1 and never change; inputs and targets write all of a span of
///          exactly the length of one sample, allocate nothing, and may run on several threads at
///          the same time. A real target that is not a number does not count. Weights are not
///          negative. All ranks have the same samples: they compare fingerprint(), or, without it,
///          64 samples that are spread over the data set.
template <class D>
concept dataset =
    std::same_as<typename D::concept_tag, dataset_tag> &&
    (std::same_as<ext::target_of<D>, std::int32_t> || std::floating_point<ext::target_of<D>>) &&
    requires(D const& data, std::size_t sample, std::span<typename D::element> inputs,
             std::span<ext::target_of<D>> targets) {
      { data.size() } -> std::same_as<std::size_t>;
      { data.sequence_length() } -> std::same_as<std::size_t>;
      { data.inputs(sample, inputs) } -> std::same_as<void>;
      { data.targets(sample, targets) } -> std::same_as<void>;
    };

}  // namespace plait

namespace plait::ext {

/// A data set whose samples have weights.
template <class D>
concept weighted_dataset = dataset<D> && requires(D const& data, std::size_t sample) {
  { data.weight(sample) } -> std::convertible_to<double>;
};

/// A data set whose inputs are tokens: a sample is (sequence_length()) of them.
template <class D>
concept token_dataset = dataset<D> && std::same_as<typename D::element, std::int32_t>;

/// A data set whose inputs are features: a sample is (sequence_length(), width()) of them.
template <class D>
concept feature_dataset =
    dataset<D> && std::floating_point<typename D::element> && requires(D const& data) {
      { data.width() } -> std::same_as<std::size_t>;
    };

}  // namespace plait::ext
