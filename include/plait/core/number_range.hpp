// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The range of values that an option accepts, and the text that describes the range in errors.
struct number_range {
  double least = 0, most = 0;
  char const* text = "";

  /// Returns true if the value is in the range; false for NaN.
  [[nodiscard]] constexpr bool contains(double value) const {
    return value >= least && value <= most;
  }
};

}  // namespace plait::ext

namespace plait {

/// Ranges that several options have in common.
namespace number_ranges {

inline constexpr double greatest_finite = std::numeric_limits<double>::max();
inline constexpr double infinite = std::numeric_limits<double>::infinity();

inline constexpr ext::number_range finite_from_0{0, greatest_finite, "a finite number from 0 on"};
inline constexpr double next_to_0 = std::numeric_limits<double>::denorm_min();
inline constexpr ext::number_range finite_above_0{next_to_0, greatest_finite,
                                                  "a finite number above 0"};
inline constexpr ext::number_range from_0{0, infinite, "from 0 on"};
inline constexpr ext::number_range above_0{next_to_0, infinite, "above 0"};
inline constexpr ext::number_range from_0_to_1{0, 1, "from 0 to 1"};
inline constexpr double below_1 = 1 - std::numeric_limits<double>::epsilon() / 2;
inline constexpr ext::number_range from_0_to_below_1{0, below_1, "from 0 to below 1"};
inline constexpr ext::number_range at_least_minus_1{-1, infinite, "at least -1"};
inline constexpr ext::number_range at_least_0{0, infinite, "at least 0"};
inline constexpr ext::number_range at_least_1{1, infinite, "at least 1"};

}  // namespace number_ranges

namespace detail {

/// Returns a number as text for an error message, with six digits.
[[gnu::cold]] std::string number_text(double value);

/// Checks that the value of an option, such as "trainer_options::clip", is in its range.
///
/// Errors: input_error with the option, its value and its range.
[[gnu::cold]] void require_range(std::string const& option, double value,
                                 number_range const& range);
/// Checks that a duration is in a range whose bounds are numbers of seconds.
[[gnu::cold]] void require_range(std::string const& option, std::chrono::duration<double> value,
                                 number_range const& range);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/core/number_range.ipp"
#endif
