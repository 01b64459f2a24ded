// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/communicator_probe.hpp"

#include "plait/core/stable_sort.hpp"

namespace plait::testing::detail {

PLAIT_DECL void communicator_findings::add(int world_rank, std::string const& law,
                                           std::string const& text) {
  std::scoped_lock const lock{mutex_};
  if (alike_[{world_rank, law}]++ < most_alike) failures_.emplace_back(world_rank, text);
}

PLAIT_DECL void communicator_findings::move_to(check_report& report) {
  std::scoped_lock const lock{mutex_};
  plait::detail::stable_sort(failures_, [](failure const& a, failure const& b) {
    return a.first < b.first;  // in the same order in every run
  });
  for (auto& [rank, text] : failures_) report.failures.push_back(std::move(text));
  for (auto const& [kind, count] : alike_)
    if (count > most_alike)
      report.failures.push_back(ext::concat({"rank ", kind.first, " ", kind.second, ": ",
                                             count - most_alike, " more failures of this kind"}));
  failures_.clear();
  alike_.clear();
}

}  // namespace plait::testing::detail
