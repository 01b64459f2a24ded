// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/device_laws.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"

namespace plait::testing::detail {

PLAIT_DECL std::vector<std::byte> pattern_of(std::size_t count, unsigned salt) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::byte>((i * 37 + i / 251 + salt) % 256);
  return out;
}

PLAIT_DECL void compare_copied(check_report& report, std::string const& law,
                               std::vector<std::byte> const& copied,
                               std::vector<std::byte> const& got, std::size_t before,
                               std::byte next_to_them) {
  for (std::size_t i = 0; i < copied.size(); ++i)
    if (got[before + i] != copied[i]) {
      report.failures.push_back(
          ext::concat({law, ": byte ", i, " must come back as ", static_cast<unsigned>(copied[i]),
                       ", but came back as ", static_cast<unsigned>(got[before + i])}));
      return;
    }
  auto const same = [=](std::byte one) { return one == next_to_them; };
  auto const first = got.begin() + static_cast<std::ptrdiff_t>(before);
  bool const is_whole =
      std::all_of(got.begin(), first, same) &&
      std::all_of(first + static_cast<std::ptrdiff_t>(copied.size()), got.end(), same);
  if (!is_whole)
    report.failures.push_back(ext::concat({law, ": bytes next to them must stay as they are"}));
}

}  // namespace plait::testing::detail
