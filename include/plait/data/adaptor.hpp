// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/picture_shape.hpp"

namespace plait::ext {

/// Marks an adaptor of data sets: a type declares that it is one by `using concept_tag =
/// adaptor_tag;`.
struct adaptor_tag {};

/// An adaptor makes a data set from another data set: `data | adaptor` is adaptor.on(data).
template <class A>
concept data_adaptor = std::same_as<typename std::remove_cvref_t<A>::concept_tag, adaptor_tag>;

/// The type in which an adapted data set keeps its inner data set: by value if that is a temporary,
/// else by reference. A named data set must therefore outlive the adapted data set.
template <class Data>
using held_data = std::conditional_t<std::is_lvalue_reference_v<Data>,
                                     std::remove_cvref_t<Data> const&, std::remove_cvref_t<Data>>;

/// Base class of adapted data sets. It forwards every member that the derived class does not define
/// to the inner data set. Derived classes define `inputs(sample, epoch, out, scratch)` and
/// `description()`.
///
/// Threads: all members are const and may run at the same time.
template <class Held>
class adapted_data {
 public:
  using data_type = std::remove_cvref_t<Held>;
  using concept_tag = dataset_tag;
  using element = typename data_type::element;
  using target = target_of<data_type>;
  static constexpr bool targets_per_sample = has_targets_per_sample<data_type>;
  static constexpr bool is_random = is_random_data<data_type>;
  static constexpr bool has_own_order = ext::has_own_order<data_type>;
  static constexpr int random_adaptors = random_adaptors_in<data_type>;

  /// Returns the inner data set, which this object adapts.
  [[nodiscard]] data_type const& data() const { return data_; }

  [[nodiscard]] std::size_t size() const { return data_.size(); }
  [[nodiscard]] std::size_t sequence_length() const { return data_.sequence_length(); }
  [[nodiscard]] std::size_t width() const
    requires feature_dataset<data_type>
  {
    return data_.width();
  }
  [[nodiscard]] std::size_t target_width() const { return target_width_of(data_); }
  [[nodiscard]] std::size_t scratch_elements() const { return scratch_elements_of(data_); }
  void targets(std::size_t sample, std::span<target> out) const
    requires detail::gives_targets<data_type>
  {
    data_.targets(sample, out);
  }
  void targets(std::size_t sample, std::int64_t epoch, std::span<target> out) const
    requires detail::gives_targets_of_epoch<data_type>
  {
    data_.targets(sample, epoch, out);
  }
  [[nodiscard]] double weight(std::size_t sample) const
    requires detail::gives_weights<data_type>
  {
    return static_cast<double>(data_.weight(sample));
  }
  [[nodiscard]] double weight(std::size_t sample, std::int64_t epoch) const
    requires detail::gives_weights_of_epoch<data_type>
  {
    return static_cast<double>(data_.weight(sample, epoch));
  }
  void documents(std::size_t sample, std::int64_t epoch, std::span<std::int32_t> out) const
    requires may_have_documents<data_type>
  {
    write_documents(data_, sample, epoch, out);
  }
  [[nodiscard]] bool has_documents() const { return has_documents_of(data_); }
  [[nodiscard]] std::uint64_t fingerprint() const
    requires requires(data_type const& data) { data.fingerprint(); }
  {
    return data_.fingerprint();
  }
  [[nodiscard]] auto picture_shape() const
    requires picture_dataset<data_type>
  {
    return data_.picture_shape();
  }
  [[nodiscard]] bool has_missing() const
    requires requires(data_type const& data) { data.has_missing(); }
  {
    return data_.has_missing();
  }
  [[nodiscard]] decltype(auto) classes() const
    requires requires(data_type const& data) { data.classes(); }
  {
    return data_.classes();
  }

 protected:
  template <class Data>
  explicit adapted_data(std::in_place_t, Data&& data) : data_(std::forward<Data>(data)) {}

  /// Returns the description of the inner data set, followed by `adaptor`, the description of the
  /// adaptor.
  [[nodiscard]] [[gnu::cold]] std::string followed_by(std::string const& adaptor) const {
    auto const inner = description_of(data_);
    return concat({(inner.empty() ? "data" : inner), " | ", adaptor});
  }

 private:
  Held data_;
};

}  // namespace plait::ext

namespace plait::detail {

/// Returns the shortest decimal number that reads back as `value`.
[[nodiscard]] [[gnu::cold]] std::string to_text(double value);
/// Returns "0.5" for a single number, "{0.5, 0.25}" for several.
[[nodiscard]] [[gnu::cold]] std::string to_text(std::vector<double> const& values);

template <class Data>
consteval void check_adapted() {
  static_assert(
      dataset<Data>,
      "data | adaptor: the left side of | is not a data set; write plait::in_memory<float> "
      "data(...) for samples in memory. A data set type of your own must define concept_tag, "
      "element, size, sequence_length, inputs and targets; see plait/data/dataset.hpp");
}
template <class Data>
consteval void check_pictures() {
  static_assert(
      picture_dataset<Data>,
      "data | resize, crop, random_crop or random_flip: the samples of the data set are not "
      "pictures; define `plait::picture_shape picture_shape() const` in the data set, which "
      "returns {channels, height, width}, and return the features in that order");
}

}  // namespace plait::detail

namespace plait {

/// Applies an adaptor to a data set: `data | plait::take(1000) | plait::normalize(0.5, 0.25)`.
template <class Data, ext::data_adaptor Adaptor>
[[nodiscard]] auto operator|(Data&& data, Adaptor const& adaptor) {
  detail::check_adapted<std::remove_cvref_t<Data>>();
  if constexpr (dataset<std::remove_cvref_t<Data>>) return adaptor.on(std::forward<Data>(data));
  else return 0;  // prevents further compile errors
}

}  // namespace plait

namespace plait::ext {

using plait::operator|;

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/data/adaptor.ipp"
#endif
