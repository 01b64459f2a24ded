// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A number in units of 1e-9, stored as an integer so that it can be a template argument with every
/// compiler; see `fraction`.
struct nano_fraction {
  std::int64_t nano = 0;

  [[nodiscard]] constexpr double number() const { return static_cast<double>(nano) / 1e9; }
};

}  // namespace plait::ext

namespace plait {

/// Turns a number into a template argument, for options of layers: `times<fraction(0.5), L>`.
/// Digits after the ninth decimal place are ignored.
///
/// Errors: does not compile if the absolute value is less than 1e-9 and not 0, or is 9e9 or more.
///
/// Example (tests/reference/names_in_use_test.cpp fraction):
///     using weaker =
///         plait::times<plait::fraction(0.5), plait::nn::cross_entropy<2>>;  // half of the loss
consteval ext::nano_fraction fraction(double value) {
  if (!(value > -9e9 && value < 9e9)) throw "fraction(value): value must be between -9e9 and 9e9";
  ext::nano_fraction const out{static_cast<std::int64_t>(value * 1e9 + (value < 0 ? -0.5 : 0.5))};
  if (out.nano == 0 && value != 0)
    throw "fraction(value): digits after the ninth decimal place are ignored, and the first nine are all 0 here; the absolute value must be 0 or at least 1e-9";
  return out;
}

}  // namespace plait
