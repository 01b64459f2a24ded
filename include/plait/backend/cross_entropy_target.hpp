// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Says whether a target does not count: one that is `ignore`, and every negative one, as are those
/// of places without a sample.
PLAIT_HOST_DEVICE constexpr bool is_ignored(std::int32_t target, std::int32_t ignore) {
  return target < 0 || target == ignore;
}

/// The target distribution that has all probability on the label of a row.
struct one_hot_target {
  static constexpr bool is_smoothed = false;
  /// For each row: the sum of e^(logit - max), and logit - max of the label.
  static constexpr std::size_t terms = 2;

  /// Of a row, from its terms.
  template <class A>
  PLAIT_HOST_DEVICE double loss(A const* of_row) const {
    return std::log(static_cast<double>(of_row[0])) - static_cast<double>(of_row[1]);
  }
};

/// The same with a part of the label spread evenly over all classes, so that on_label + classes *
/// on_each is 1.
struct smoothed_target {
  static constexpr bool is_smoothed = true;
  /// Behind those above the sum of (logit - max) over the classes.
  static constexpr std::size_t terms = 3;

  double on_label = 1;  ///< besides on_each, which the label's class has too
  double on_each = 0;

  /// Of a row, from its terms.
  template <class A>
  PLAIT_HOST_DEVICE double loss(A const* of_row) const {
    return std::log(static_cast<double>(of_row[0])) - on_label * static_cast<double>(of_row[1]) -
           on_each * static_cast<double>(of_row[2]);
  }
};

}  // namespace plait::ext
