// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/number_range.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/picture_shape.hpp"
#include "plait/data/sample_random.hpp"

namespace plait::ext {

/// A data set of pictures, some of which are mirrored: the result of `data | random_flip()`.
template <class Held>
class flipped_data : public adapted_data<Held> {
  using base = adapted_data<Held>;
  static constexpr int place = base::random_adaptors;

 public:
  using typename base::element;
  static constexpr bool is_random = true;
  static constexpr int random_adaptors = place + 1;

  template <class Data>
  [[gnu::cold]] flipped_data(Data&& data, double chance, std::uint64_t seed)
      : base(std::in_place, std::forward<Data>(data)),
        width_(detail::shape_of_pictures(this->data(), "random_flip").width),
        chance_(chance),
        seed_(seed) {
    detail::require_range("random_flip: chance", chance, number_ranges::from_0_to_1);
  }

  [[nodiscard]] std::string description() const {
    return this->followed_by(
        concat({"random_flip(", detail::to_text(chance_), ", seed ", seed_, ")"}));
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    write_inputs(this->data(), sample, epoch, out, scratch);
    if (epoch == no_epoch || !sample_random(seed_, place, epoch, sample).chance(chance_)) return;
    for (std::size_t row = 0; row < out.size(); row += width_)
      std::reverse(out.data() + row, out.data() + row + width_);
  }

 private:
  std::size_t width_;
  double chance_;
  std::uint64_t seed_;
};

}  // namespace plait::ext

namespace plait {

/// Mirrors each picture, left to right, with a given probability: `data | plait::random_flip()`. In
/// evaluations no picture is mirrored.
///
/// Errors: input_error for a probability below 0 or above 1.
class random_flip {
 public:
  using concept_tag = ext::adaptor_tag;

  explicit random_flip(double chance = 0.5, std::uint64_t seed = 0)
      : chance_(chance), seed_(seed) {}

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    using Pictures = std::remove_cvref_t<Data>;
    detail::check_pictures<Pictures>();
    if constexpr (ext::picture_dataset<Pictures>)
      return ext::flipped_data<ext::held_data<Data>>(std::forward<Data>(data), chance_, seed_);
    else return 0;  // prevents further compile errors
  }

 private:
  double chance_;
  std::uint64_t seed_;
};

}  // namespace plait
