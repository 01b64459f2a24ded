// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Returns true if a target does not contribute to the loss: if it equals `ignore` or is negative.
/// Rows that only fill up a batch have negative targets.
PLAIT_HOST_DEVICE constexpr bool is_ignored(std::int32_t target, std::int32_t ignore) {
  return target < 0 || target == ignore;
}

/// The target distribution with all probability on the label of a row.
struct one_hot_target {
  static constexpr bool is_smoothed = false;
  /// The number of terms that are stored for each row. The terms are the sum of e^(logit - max)
  /// over the classes, and (logit - max) at the label.
  static constexpr std::size_t terms = 2;

  /// Returns the loss of a row, from its terms.
  template <class A>
  PLAIT_HOST_DEVICE double loss(A const* of_row) const {
    return std::log(static_cast<double>(of_row[0])) - static_cast<double>(of_row[1]);
  }
};

/// The target distribution with a part of the probability spread evenly over all classes (label
/// smoothing), so that on_label + classes * on_each is 1.
struct smoothed_target {
  static constexpr bool is_smoothed = true;
  /// The number of terms that are stored for each row. The terms are the two terms of
  /// one_hot_target and, as the third, the sum of (logit - max) over the classes.
  static constexpr std::size_t terms = 3;

  double on_label = 1;  ///< probability of the label, in addition to on_each
  double on_each = 0;

  /// Returns the loss of a row, from its terms.
  template <class A>
  PLAIT_HOST_DEVICE double loss(A const* of_row) const {
    return std::log(static_cast<double>(of_row[0])) - on_label * static_cast<double>(of_row[1]) -
           on_each * static_cast<double>(of_row[2]);
  }
};

}  // namespace plait::ext
