// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

/// Marks a data set: a type declares that it is one by `using concept_tag = dataset_tag;`.
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

/// The type of a data set's targets: the member type `target`, or std::int32_t if the data set does
/// not define it.
template <class D>
using target_of = typename detail::target_of_data<D>::type;

/// Returns the number of target values at one position: target_width(), or 1 if the data set does
/// not define this function.
template <class D>
[[nodiscard]] constexpr std::size_t target_width_of(D const& data) {
  if constexpr (requires { data.target_width(); }) return data.target_width();
  else return 1;
}

/// Returns true if features of a data set may be missing (nan): the result of has_missing(), or
/// false if the data set does not define this function.
template <class D>
[[nodiscard]] bool has_missing_of(D const& data) {
  if constexpr (requires { data.has_missing(); }) return data.has_missing();
  else return false;
}

/// True if a sample has one target, and false if it has one target for each position: the member
/// `targets_per_sample`, or false if the data set does not define this member.
template <class D>
inline constexpr bool has_targets_per_sample = [] {
  if constexpr (requires { D::targets_per_sample; }) return bool{D::targets_per_sample};
  else return false;
}();

/// True if batches take the samples of a data set in the order of their numbers, epoch after epoch:
/// the member `has_own_order`, or false if the data set does not define it.
template <class D>
inline constexpr bool has_own_order = [] {
  if constexpr (requires { D::has_own_order; }) return bool{D::has_own_order};
  else return false;
}();

/// The epoch number that means "no epoch". With this number, samples are read without random
/// changes, so that they can be evaluated, measured or compared.
inline constexpr std::int64_t no_epoch = -1;

}  // namespace plait::ext

namespace plait::detail {

template <class D>
concept gives_inputs =
    requires(D const& data, std::size_t sample, std::span<typename D::element> out) {
      { data.inputs(sample, out) } -> std::same_as<void>;
    };
template <class D>
concept gives_inputs_of_epoch = requires(D const& data, std::size_t sample, std::int64_t epoch,
                                         std::span<typename D::element> out) {
  { data.inputs(sample, epoch, out) } -> std::same_as<void>;
};
template <class D>
concept gives_inputs_with_scratch =
    requires(D const& data, std::size_t sample, std::int64_t epoch,
             std::span<typename D::element> out, std::span<typename D::element> scratch) {
      { data.inputs(sample, epoch, out, scratch) } -> std::same_as<void>;
      { data.scratch_elements() } -> std::same_as<std::size_t>;
    };

template <class D>
concept gives_targets =
    requires(D const& data, std::size_t sample, std::span<ext::target_of<D>> out) {
      { data.targets(sample, out) } -> std::same_as<void>;
    };
template <class D>
concept gives_targets_of_epoch = requires(D const& data, std::size_t sample, std::int64_t epoch,
                                          std::span<ext::target_of<D>> out) {
  { data.targets(sample, epoch, out) } -> std::same_as<void>;
};
template <class D>
concept gives_documents = requires(D const& data, std::size_t sample, std::span<std::int32_t> out) {
  { data.documents(sample, out) } -> std::same_as<void>;
};
template <class D>
concept gives_documents_of_epoch =
    requires(D const& data, std::size_t sample, std::int64_t epoch, std::span<std::int32_t> out) {
      { data.documents(sample, epoch, out) } -> std::same_as<void>;
    };
template <class D>
concept gives_weights = requires(D const& data, std::size_t sample) {
  { data.weight(sample) } -> std::convertible_to<double>;
};
template <class D>
concept gives_weights_of_epoch = requires(D const& data, std::size_t sample, std::int64_t epoch) {
  { data.weight(sample, epoch) } -> std::convertible_to<double>;
};

}  // namespace plait::detail

namespace plait::ext {

/// True if the inputs of a sample may differ between epochs: the member `is_random` or, if the data
/// set does not define this member, true if `inputs` has an epoch parameter.
template <class D>
inline constexpr bool is_random_data = [] {
  if constexpr (requires { D::is_random; }) return bool{D::is_random};
  else return detail::gives_inputs_of_epoch<D> || detail::gives_inputs_with_scratch<D>;
}();

/// The number of random adaptors that were applied to make a data set. From this number, each
/// adaptor gets its own random stream.
template <class D>
inline constexpr int random_adaptors_in = [] {
  if constexpr (requires { D::random_adaptors; }) return int{D::random_adaptors};
  else return 0;
}();

/// Returns the number of elements of scratch memory that a data set needs to write the inputs of a
/// sample; 0 for most data sets.
template <class D>
[[nodiscard]] constexpr std::size_t scratch_elements_of(D const& data) {
  static_assert(
      detail::gives_inputs_with_scratch<D> || !requires { data.scratch_elements(); },
      "a data set with scratch_elements() needs `std::size_t scratch_elements() const` and `void "
      "inputs(std::size_t sample, std::int64_t epoch, std::span<element> out, std::span<element> "
      "scratch) const`, as described in plait/data/dataset.hpp");
  if constexpr (detail::gives_inputs_with_scratch<D>) return data.scratch_elements();
  else return 0;
}

/// Writes the inputs of a sample in an epoch. It calls the overload of the data set's `inputs` that
/// has the most parameters.
///
/// Shapes: out (sequence_length(), width()), scratch (at least scratch_elements_of(data)).
template <class D>
void write_inputs(D const& data, std::size_t sample, std::int64_t epoch,
                  std::span<typename D::element> out, std::span<typename D::element> scratch) {
  if constexpr (detail::gives_inputs_with_scratch<D>) data.inputs(sample, epoch, out, scratch);
  else if constexpr (detail::gives_inputs_of_epoch<D>) data.inputs(sample, epoch, out);
  else data.inputs(sample, out);
}

/// Writes the targets of a sample in an epoch.
///
/// Shapes: out (sequence_length(), target_width()), or (target_width()) with targets_per_sample.
template <class D>
void write_targets(D const& data, std::size_t sample, std::int64_t epoch,
                   std::span<target_of<D>> out) {
  if constexpr (detail::gives_targets_of_epoch<D>) data.targets(sample, epoch, out);
  else data.targets(sample, out);
}

/// Returns the weight of a sample in an epoch; 1 if the samples of the data set have no weights.
template <class D>
[[nodiscard]] double weight_of(D const& data, std::size_t sample, std::int64_t epoch) {
  if constexpr (detail::gives_weights_of_epoch<D>)
    return static_cast<double>(data.weight(sample, epoch));
  else if constexpr (detail::gives_weights<D>) return static_cast<double>(data.weight(sample));
  else return 1;
}

/// True if a data set may number the documents of its samples.
template <class D>
inline constexpr bool may_have_documents =
    detail::gives_documents<D> || detail::gives_documents_of_epoch<D>;

/// Returns true if a data set numbers the documents of its samples: false if it does not define
/// documents(), else the result of has_documents(), or true if it does not define that function.
template <class D>
[[nodiscard]] constexpr bool has_documents_of(D const& data) {
  if constexpr (!may_have_documents<D>) return false;
  else if constexpr (requires { data.has_documents(); }) return data.has_documents();
  else return true;
}

/// Writes the number of the document of each position of a sample; zeros if the data set does not
/// number documents.
///
/// Shapes: out (sequence_length()).
template <class D>
void write_documents(D const& data, std::size_t sample, std::int64_t epoch,
                     std::span<std::int32_t> out) {
  if (!has_documents_of(data)) std::fill(out.begin(), out.end(), 0);
  else if constexpr (detail::gives_documents_of_epoch<D>) data.documents(sample, epoch, out);
  else if constexpr (detail::gives_documents<D>) data.documents(sample, out);
}

/// Returns the text by which a data set describes itself: the result of description(), or "" if the
/// data set does not define this function.
template <class D>
[[nodiscard]] std::string description_of(D const& data) {
  if constexpr (requires { data.description(); }) {
    static_assert(std::same_as<decltype(data.description()), std::string>,
                  "the description() of a data set must return a std::string");
    return data.description();
  } else {
    return {};
  }
}

}  // namespace plait::ext

namespace plait {

/// A collection of numbered samples. Each sample has a sequence of inputs, and one target for each
/// position or one for the whole sequence.
///
/// Syntax:  element: the type of an input; size(), sequence_length() -> std::size_t; inputs(sample,
///          std::span<element>), targets(sample, std::span<target>) -> void, all const. Optional
///          members: target, an integer of 32 bits (the default) or a floating-point type;
///          target_width() -> std::size_t; `static constexpr bool targets_per_sample`;
///          weight(sample) -> double, a factor by which the sample's loss is multiplied;
///          fingerprint() -> std::uint64_t, a hash of all samples; description() -> std::string. If
///          inputs differ between epochs: inputs(sample, std::int64_t epoch, std::span<element>).
///          If a sample needs memory in addition to `out`: scratch_elements() -> std::size_t and
///          inputs(sample, epoch, std::span<element>, std::span<element> scratch), and `static
///          constexpr bool is_random`, false if inputs do not depend on the epoch. If features may
///          be missing: has_missing() -> bool, true if any feature is nan. plait::normalize fills
///          missing features; plait::batches refuses them. If batches keep the order of the
///          samples: `static constexpr bool has_own_order`. If targets and weights differ between
///          epochs: targets(sample, std::int64_t epoch, std::span<target>) and weight(sample,
///          epoch). If a sample of tokens consists of several documents: documents(sample,
///          std::span<std::int32_t>), a number for each position, which never decreases within the
///          sample, and has_documents() -> bool, false if the object has one document per sample.
/// Shapes:  inputs (sequence_length(), width()), targets (sequence_length(), target_width()), or
///          (target_width()) with targets_per_sample: these belong to the last position, and other
///          positions have none.
/// Meaning: the samples have the numbers 0 to size() - 1, and their values change only with the
///          epoch. In no_epoch, the epoch of evaluations, nothing is random. inputs and targets
///          fill the whole span, which has exactly the length of one sample, allocate nothing, and
///          may run on several threads at the same time, each with scratch memory of its own. A
///          real target that is nan is ignored in the loss. Weights are not negative. All ranks
///          have the same samples: they compare description(), and fingerprint() or, without it, 64
///          samples that are spread over the data set.
template <class D>
concept dataset =
    std::same_as<typename D::concept_tag, dataset_tag> &&
    (std::same_as<ext::target_of<D>, std::int32_t> || std::floating_point<ext::target_of<D>>) &&
    (detail::gives_inputs<D> || detail::gives_inputs_of_epoch<D> ||
     detail::gives_inputs_with_scratch<D>) &&
    (detail::gives_targets<D> || detail::gives_targets_of_epoch<D>) && requires(D const& data) {
      { data.size() } -> std::same_as<std::size_t>;
      { data.sequence_length() } -> std::same_as<std::size_t>;
    };

}  // namespace plait

namespace plait::ext {

/// A data set whose samples have weights.
template <class D>
concept weighted_dataset =
    dataset<D> && (detail::gives_weights<D> || detail::gives_weights_of_epoch<D>);

/// A data set whose inputs are tokens; a sample has sequence_length() tokens.
template <class D>
concept token_dataset = dataset<D> && std::same_as<typename D::element, std::int32_t>;

/// A data set whose inputs are features; a sample has sequence_length() x width() features.
template <class D>
concept feature_dataset =
    dataset<D> && std::floating_point<typename D::element> && requires(D const& data) {
      { data.width() } -> std::same_as<std::size_t>;
    };

}  // namespace plait::ext

namespace plait::detail {

/// Checks that no feature of a data set is missing. A data set without has_missing() passes the
/// check.
///
/// Errors: input_error with the data set's description.
template <class D>
[[gnu::cold]] void require_features(D const& data) {
  if (!ext::has_missing_of(data)) return;
  auto const text = ext::description_of(data);
  throw input_error(
      {"batches: features are missing in ", (text.empty() ? "the data set" : text),
       "; write data | plait::normalize::from(train), which replaces missing features by their "
       "mean in the training part, or set table_options::missing to a number"});
}

/// Checks that a sample's number is less than the data set's `size`, and that the length of the
/// output span, `given`, equals `needed`.
///
/// Errors: size_mismatch with the data set's name and all four numbers.
void check_sample(char const* data, std::size_t sample, std::size_t size, std::size_t given,
                  std::size_t needed);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/dataset.ipp"
#endif
