// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Layers that are written as formulas: a type with `input` and `formula` is a layer, and its
/// bodies, slots and forms follow from the expression that `formula` returns.
///
/// Example (tests/reference/names_in_use_test.cpp formula):
///     template <std::size_t In, std::size_t Out>
///     struct gate {  // silu(x w) * (x v)
///       template <plait::ext::name Label>
///       using matrix = plait::parameter<Label, plait::extents<In, Out>, plait::normal(0.2)>;
///       static constexpr matrix<"w"> w{};
///       static constexpr matrix<"v"> v{};
///       using input = plait::features<In>;
///       static constexpr auto formula(auto x) { return silu(matmul(x, w)) * matmul(x, v); }
///     };
#include "plait/formula/explain.hpp"
#include "plait/formula/layer.hpp"
