// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/checkpoint_name.hpp"

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <system_error>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL std::optional<std::int64_t> number_behind(std::string_view start,
                                                     std::string_view name) {
  if (!name.starts_with(start)) return std::nullopt;
  auto const digits = name.substr(start.size());
  std::int64_t number = 0;
  auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc{} || number < 1 || digits != std::to_string(number)) return std::nullopt;
  return number;
}

PLAIT_DECL std::string digits_of(std::uint64_t number) {
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

PLAIT_DECL std::string checkpoint_name::text() const {
  char text[32];
  std::snprintf(text, sizeof text, "%s-%08lld", is_best ? "best" : "step",
                static_cast<long long>(step));
  auto const of = lease == 0 ? std::string{} : concat({lease_word, lease, "-", save});
  return text + of + std::string(suffixes[what]) + digits;
}

PLAIT_DECL checkpoint_name checkpoint_name::as(kind other, std::string of_digits) const {
  auto out = *this;
  out.what = other;
  out.digits = std::move(of_digits);
  return out;
}

PLAIT_DECL std::optional<checkpoint_name> checkpoint_name::from(std::string_view name) {
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
  // `name` has a wrong number of digits, or more text after them.
  if (out.text() != name) return std::nullopt;
  return out;
}

PLAIT_DECL bool checkpoint_name::is_random(std::string_view digits) {
  return digits.size() == 16 &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace plait::detail
