// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"

namespace plait::ext {

/// Returns a sentence about the first value of a tensor that is infinite or NaN; empty if all are
/// finite.
///
/// Cost: reads all values.
template <class T>
[[nodiscard, gnu::cold]] std::string not_finite(std::string const& name,
                                                std::span<T const> values) {
  auto const found = std::find_if(values.begin(), values.end(),
                                  [](T one) { return !std::isfinite(static_cast<double>(one)); });
  if (found == values.end()) return {};
  auto const value = static_cast<double>(*found);
  return concat({"tensor ", detail::in_quotes(name), " holds ",
                 (std::isnan(value) ? "nan"
                  : value > 0       ? "inf"
                                    : "-inf"),
                 " at place ", found - values.begin(), " of ", values.size()});
}

}  // namespace plait::ext
