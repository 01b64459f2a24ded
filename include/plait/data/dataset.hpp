// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace plait {

/// A type says on purpose that it is a data set by `using concept_tag = dataset_tag;`.
struct dataset_tag {};

/// Numbered samples, each a sequence of inputs and as many targets.
///
/// Syntax:  element: the type of an input; size(), sequence_length() -> std::size_t;
///          inputs(sample, std::span<element>), targets(sample, std::span<std::int32_t>) -> void,
///          all const.
/// Meaning: samples are 0 to size()-1 and never change; inputs and targets write all of a span of
///          exactly the length of one sample, allocate nothing, and may run on several threads at
///          the same time.
template <class D>
concept dataset = std::same_as<typename D::concept_tag, dataset_tag> &&
                  requires(D const& data, std::size_t sample, std::span<typename D::element> inputs,
                           std::span<std::int32_t> targets) {
                    { data.size() } -> std::same_as<std::size_t>;
                    { data.sequence_length() } -> std::same_as<std::size_t>;
                    { data.inputs(sample, inputs) } -> std::same_as<void>;
                    { data.targets(sample, targets) } -> std::same_as<void>;
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

}  // namespace plait
