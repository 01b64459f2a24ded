// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

namespace plait::formula {

/// The base of all types that may appear in a formula. Because of this base, argument-dependent
/// lookup finds the operators and functions of formulas.
struct operand_base {};

/// A value in a formula: an input, a parameter, a number, or an operation on such values.
template <class T>
concept operand = std::derived_from<T, operand_base>;

}  // namespace plait::formula
