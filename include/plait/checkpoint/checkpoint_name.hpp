// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// If a name consists of `start` and a number, returns this number; otherwise returns nullopt. For
/// example, the number of plait.lock-7 with the start plait.lock- is 7.
[[nodiscard]] std::optional<std::int64_t> number_behind(std::string_view start,
                                                        std::string_view name);

[[nodiscard]] std::string digits_of(std::uint64_t number);

/// The parts of the name of a checkpoint's folder: step-00000200, or best-00000200 for the best
/// weights. An elastic job appends the number of the folder's lease and the number of the save,
/// .lease-7-3, so that no two owners of the folder, and no two saves of one owner, ever write under
/// one name. The name of a folder that is still being written, replaced or removed ends in a word
/// for that state and 16 random digits.
struct checkpoint_name {
  enum kind { complete, partial, replaced, removing };
  static constexpr std::string_view suffixes[]{"", ".partial-", ".replaced-", ".removing-"};
  static constexpr std::string_view lease_word = ".lease-";

  std::int64_t step = 0;
  bool is_best = false;
  /// The numbers of the lease and of the save in the name, counted from 1; both are 0 for a job
  /// whose ranks do not change.
  std::int64_t lease = 0, save = 0;
  kind what = complete;
  std::string digits{};  ///< 16 random digits; empty for a complete checkpoint

  [[nodiscard]] std::string text() const;
  /// Returns the name of this checkpoint in state `other`, such as partial or replaced.
  [[nodiscard]] checkpoint_name as(kind other, std::string of_digits = {}) const;

  /// Parses the name of a folder; returns nullopt if it is not the name of a checkpoint.
  [[nodiscard]] static std::optional<checkpoint_name> from(std::string_view name);

  static bool is_random(std::string_view digits);
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoint_name.ipp"
#endif
