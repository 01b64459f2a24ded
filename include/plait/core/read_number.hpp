// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Reads a text that is a decimal number from its first to its last character, in every locale, as
/// the nearest double. A number that is too near to 0 becomes 0 with the same sign, and a number
/// that is too large becomes infinite, as in C and Python. Returns nullopt for all other texts.
///
/// All of plait reads real numbers with this function, so that a number means the same in a table,
/// on a command line and in a checkpoint.
[[nodiscard]] std::optional<double> number_of_text(std::string_view text);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/read_number.ipp"
#endif
