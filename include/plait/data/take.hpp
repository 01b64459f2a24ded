// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/in_memory.hpp"

namespace plait::ext {

/// A data set of the first n samples of another data set: the result of `data | take(n)`.
template <class Held>
class taken_data : public adapted_data<Held> {
  using base = adapted_data<Held>;

 public:
  using typename base::element;

  template <class Data>
  [[gnu::cold]] taken_data(Data&& data, std::size_t samples)
      : base(std::in_place, std::forward<Data>(data)), samples_(samples) {
    if (samples == 0 || samples > this->data().size())
      throw input_error({"take: ", samples, " samples were requested from a data set of ",
                         this->data().size(), "; request at least 1 sample, and at most all"});
  }

  [[nodiscard]] std::size_t size() const { return samples_; }
  [[nodiscard]] std::string description() const {
    return this->followed_by(concat({"take(", samples_, ")"}));
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    write_inputs(this->data(), sample, epoch, out, scratch);
  }

 private:
  std::size_t samples_;
};

}  // namespace plait::ext

namespace plait {

/// Takes the first `samples` samples of a data set: `data | plait::take(1000)`.
///
/// Errors: input_error if `samples` is 0, or if the data set has fewer samples.
class take {
 public:
  using concept_tag = ext::adaptor_tag;

  explicit take(std::size_t samples) : samples_(samples) {}

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    constexpr bool keeps_samples = !detail::gives_targets_of_epoch<std::remove_cvref_t<Data>>;
    static_assert(keeps_samples,
                  "data | take(n): the samples of a mixture continue from epoch to epoch, and the "
                  "samples after n would be left out of each; write plait::mix({.samples = n}, "
                  "...)");
    if constexpr (keeps_samples)
      return ext::taken_data<ext::held_data<Data>>(std::forward<Data>(data), samples_);
    else return 0;  // prevents further compile errors
  }

 private:
  std::size_t samples_;
};

static_assert(ext::feature_dataset<ext::taken_data<in_memory<float>>>);

}  // namespace plait
