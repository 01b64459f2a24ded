// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

namespace plait::formula {

/// The base of all that may stand in a formula. Calls find the functions of a formula by it.
struct operand_base {};

/// A value of a formula: an input, a parameter, a number, or an operation on such values.
template <class T>
concept operand = std::derived_from<T, operand_base>;

}  // namespace plait::formula
