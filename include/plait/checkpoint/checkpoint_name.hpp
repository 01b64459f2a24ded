// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The number behind `start` in a name such as plait.lock-7; none if it is no such name.
[[nodiscard]] std::optional<std::int64_t> number_behind(std::string_view start,
                                                        std::string_view name);

[[nodiscard]] std::string digits_of(std::uint64_t number);

/// What the name of a folder says: step-00000200, or best-00000200 of the best weights. Behind it
/// an elastic job has the number of the folder's lease and that of the save, .lease-7-3, so that no
/// two owners of the folder, and no two saves of one, ever write under one name. What is not a
/// checkpoint yet, or not for long, has one word more, and 16 digits.
struct checkpoint_name {
  enum kind { complete, partial, replaced, removing };
  static constexpr std::string_view suffixes[]{"", ".partial-", ".replaced-", ".removing-"};
  static constexpr std::string_view lease_word = ".lease-";

  std::int64_t step = 0;
  bool is_best = false;
  std::int64_t lease = 0, save = 0;  ///< from 1 on; 0 of a job whose ranks do not change
  kind what = complete;
  std::string digits{};  ///< of those that are not complete

  [[nodiscard]] std::string text() const;
  /// The name of the same checkpoint as something else.
  [[nodiscard]] checkpoint_name as(kind other, std::string of_digits = {}) const;

  /// None if it is no such name.
  [[nodiscard]] static std::optional<checkpoint_name> from(std::string_view name);

  static bool is_random(std::string_view digits);
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoint_name.ipp"
#endif
