// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/dataset.hpp"

namespace plait::detail {

template <class Function, class Element>
concept maps_numbers = std::is_invocable_r_v<Element, Function const&, Element>;
template <class Function, class Element>
concept maps_samples = std::is_invocable_v<Function const&, std::span<Element>>;

template <class Function, class Element>
consteval void check_map() {
  static_assert(maps_numbers<Function, Element> || maps_samples<Function, Element>,
                "data | map(f): f must take one element of the inputs and return the new element, "
                "or take std::span<element>, all inputs of a sample, and change them in place; its "
                "operator() must be const, because several threads call it");
}

}  // namespace plait::detail

namespace plait::ext {

/// A data set whose inputs a function has changed: the result of `data | map(f)`.
template <class Held, class Function>
class mapped_data : public adapted_data<Held> {
  using base = adapted_data<Held>;

 public:
  using typename base::element;

  template <class Data>
  [[gnu::cold]] mapped_data(Data&& data, Function function, std::string name)
      : base(std::in_place, std::forward<Data>(data)),
        function_(std::move(function)),
        name_(std::move(name)) {
    detail::check_map<Function, element>();
  }

  [[nodiscard]] std::string description() const {
    return this->followed_by(concat({"map(", name_, ")"}));
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    write_inputs(this->data(), sample, epoch, out, scratch);
    if constexpr (detail::maps_numbers<Function, element>) {
      bool const may_miss = has_missing_of(this->data());
      for (auto& value : out) {
        auto const before = value;
        value = function_(before);
        if (may_miss && std::isnan(value) && !std::isnan(before)) refuse_nan(sample, before);
      }
    } else if constexpr (detail::maps_samples<Function, element>) {
      function_(out);
    }
  }

  /// Returns true if features may still be missing (nan) after the function is applied. If the
  /// function takes one number at a time, it may replace a nan by a number, and then no feature is
  /// missing.
  [[nodiscard]] bool has_missing() const
    requires requires(typename base::data_type const& data) { data.has_missing(); }
  {
    if (!this->data().has_missing()) return false;
    if constexpr (detail::maps_numbers<Function, element>)
      return std::isnan(function_(std::numeric_limits<element>::quiet_NaN()));
    return true;
  }

 private:
  [[noreturn]] void refuse_nan(std::size_t sample, element number) const {
    throw input_error({"map(", name_, "): ", detail::to_text(static_cast<double>(number)),
                       " of sample ", sample,
                       " becomes nan, and nan stands for a missing feature in this data set"});
  }

  Function function_;
  std::string name_;
};

}  // namespace plait::ext

namespace plait {

/// Changes inputs with a function that is called with one number at a time, `data |
/// plait::map([](float x) { return std::log(x); }, "log")`, or with a function that changes all
/// inputs of a sample in place: `data | plait::map([](std::span<float> sample) { ... })`.
///
/// The name represents the function when ranks compare data sets, and in checkpoints. If features
/// may be missing (`table_options::keep_missing`), the function is called with nan for a missing
/// feature.
///
/// Errors: input_error if features may be missing and a function of one number returns nan for a
///         number that is not nan, because the feature would then count as missing.
/// Threads: several threads call the function at the same time.
template <class Function>
class map {
 public:
  using concept_tag = ext::adaptor_tag;

  explicit map(Function function, std::string name = "f")
      : function_(std::move(function)), name_(std::move(name)) {}

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    return ext::mapped_data<ext::held_data<Data>, Function>(std::forward<Data>(data), function_,
                                                            name_);
  }

 private:
  Function function_;
  std::string name_;
};

}  // namespace plait
