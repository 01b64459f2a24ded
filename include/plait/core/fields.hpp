// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

namespace plait::detail {

struct any_field {
  template <class T>
  constexpr operator T() const;  // NOLINT: implicit
};

template <class T, class... Known>
consteval int count_fields() {
  if constexpr (requires { T{Known{}..., any_field{}}; })
    return count_fields<T, Known..., any_field>();
  else return sizeof...(Known);
}

inline constexpr int most_fields = 8;

/// Calls each(double) for each member of a struct of numbers, in the order of declaration. Padding
/// bytes are never read, so that they cannot influence a comparison or a hash.
template <class T, class Each>
constexpr void for_each_field(T const& of, Each each) {
  static_assert(
      std::is_aggregate_v<T> && count_fields<T>() > 0 && count_fields<T>() <= most_fields,
      "optimizer: `numbers`, the values that change from step to step, must be a struct of 1 to 8 "
      "numbers without base classes, arrays or constructors, because ranks compare these values");
  auto const all = [&](auto... fields) {
    constexpr bool are_numbers = (std::is_arithmetic_v<decltype(fields)> && ...);
    static_assert(are_numbers,
                  "optimizer: `numbers` has a member that is not a number, so ranks cannot compare "
                  "it; make `numbers` a struct of 1 to 8 numbers");
    if constexpr (are_numbers) (each(static_cast<double>(fields)), ...);
  };
  constexpr int count = count_fields<T>();
  if constexpr (count == 1) {
    auto const& [a] = of;
    all(a);
  } else if constexpr (count == 2) {
    auto const& [a, b] = of;
    all(a, b);
  } else if constexpr (count == 3) {
    auto const& [a, b, c] = of;
    all(a, b, c);
  } else if constexpr (count == 4) {
    auto const& [a, b, c, d] = of;
    all(a, b, c, d);
  } else if constexpr (count == 5) {
    auto const& [a, b, c, d, e] = of;
    all(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto const& [a, b, c, d, e, f] = of;
    all(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    auto const& [a, b, c, d, e, f, g] = of;
    all(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    auto const& [a, b, c, d, e, f, g, h] = of;
    all(a, b, c, d, e, f, g, h);
  }
}

}  // namespace plait::detail
