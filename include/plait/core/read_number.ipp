// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/read_number.hpp"

#include <charconv>
#include <limits>
#include <system_error>

namespace plait::detail {

// Returns true if the absolute value of a decimal number is less than 1. The number must not be 0,
// and must be too large or too small for a double, so that its power of ten decides.
PLAIT_DECL bool is_below_1(std::string_view number) {
  auto const e = number.find_first_of("eE");
  auto const digits = number.substr(0, e);
  auto const point = digits.find('.');
  auto power = static_cast<long long>(point == digits.npos ? digits.size() : point) -
               static_cast<long long>(digits.find_first_of("123456789"));
  if (e == number.npos) return power < 0;
  auto exponent = number.substr(e + 1);
  bool const is_negative = exponent.starts_with('-');
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  int value = 0;
  auto const problem = std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
  return problem.ec != std::errc{} ? is_negative : power + value < 0;
}

PLAIT_DECL std::optional<double> number_of_text(std::string_view text) {
  double out = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (end != text.data() + text.size() || problem == std::errc::invalid_argument)
    return std::nullopt;
  if (problem == std::errc{}) return out;
  double const nearest = is_below_1(text) ? 0 : std::numeric_limits<double>::infinity();
  return text.starts_with('-') ? -nearest : nearest;
}

}  // namespace plait::detail
