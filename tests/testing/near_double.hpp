// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "plait/testing/check_layer.hpp"

/// Checks all laws of a layer in double. In another type it only compares the layer with itself in
/// double, as check_layer would check all laws in double again.
template <class L, class Element>
plait::testing::check_report check_in_type() {
  if constexpr (std::is_same_v<Element, double>) return plait::testing::check_layer<L>();
  else return plait::testing::detail::precision_checker<L, Element>({}).report();
}
