// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "plait/core/concat.hpp"

namespace plait::detail {

/// The number behind `start` in a name such as plait.lock-7; none if it is no such name.
[[nodiscard]] inline std::optional<std::int64_t> number_behind(std::string_view start,
                                                               std::string_view name) {
  if (!name.starts_with(start)) return std::nullopt;
  auto const digits = name.substr(start.size());
  std::int64_t number = 0;
  auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc{} || number < 1 || digits != std::to_string(number)) return std::nullopt;
  return number;
}

[[nodiscard]] inline std::string digits_of(std::uint64_t number) {
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

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

  [[nodiscard]] std::string text() const {
    char text[32];
    std::snprintf(text, sizeof text, "%s-%08lld", is_best ? "best" : "step",
                  static_cast<long long>(step));
    auto const of = lease == 0 ? std::string{} : concat({lease_word, lease, "-", save});
    return text + of + std::string(suffixes[what]) + digits;
  }
  /// The name of the same checkpoint as something else.
  [[nodiscard]] checkpoint_name as(kind other, std::string of_digits = {}) const {
    auto out = *this;
    out.what = other;
    out.digits = std::move(of_digits);
    return out;
  }

  /// None if it is no such name.
  [[nodiscard]] static std::optional<checkpoint_name> from(std::string_view name) {
    checkpoint_name out;
    out.is_best = name.starts_with("best-");
    if (!out.is_best && !name.starts_with("step-")) return std::nullopt;
    auto rest = name.substr(5);
    auto const take = [&rest](std::int64_t& number) {
      auto const [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      return problem == std::errc{} && number >= 0;
    };
    if (!take(out.step)) return std::nullopt;
    if (rest.starts_with(lease_word)) {
      rest.remove_prefix(lease_word.size());
      if (!take(out.lease) || !rest.starts_with('-')) return std::nullopt;
      rest.remove_prefix(1);
      if (!take(out.save) || out.lease == 0) return std::nullopt;
    }
    for (kind const what : {partial, replaced, removing})
      if (rest.starts_with(suffixes[what]) && is_random(rest.substr(suffixes[what].size()))) {
        out.what = what;
        out.digits = rest.substr(suffixes[what].size());
      }
    if (out.text() != name) return std::nullopt;  // other digits, or something else behind it
    return out;
  }

  static bool is_random(std::string_view digits) {
    return digits.size() == 16 &&
           digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  }
};

}  // namespace plait::detail
