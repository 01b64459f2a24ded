// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/work_between_steps.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/plan/schedule/transfers.hpp"

namespace plait::execution {

PLAIT_DECL void work_between_steps::at_end(int, step_report const& last) const {
  if (on_stop_) on_stop_(last);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

PLAIT_DECL void work_between_steps::end_if_failed(number_gather const& gather,
                                                  step_report const& last) const {
  auto const failed = of_all(gather, last.step);
  if (failed && on_stop_) on_stop_(last);
  if (failed) throw *failed;
}

PLAIT_DECL work_between_steps::sentence work_between_steps::what() const {
  if (failure_ == nullptr) return {};
  try {
    std::rethrow_exception(failure_);
  } catch (input_error const& problem) {
    return {problem.what(), true};
  } catch (std::exception const& problem) {
    return {problem.what(), false};
  } catch (...) {
    return {"work between two steps has thrown an object that is not a std::exception", false};
  }
}

PLAIT_DECL std::optional<work_failed> work_between_steps::of_all(number_gather const& gather,
                                                                 std::int64_t step) const {
  enum field : std::size_t { state, text };
  enum : std::uint64_t { well, failed, failed_by_input };
  constexpr std::size_t most = (compared_fields - text) * sizeof(std::uint64_t);
  std::vector<std::uint64_t> mine(compared_fields);
  auto const here = what();
  mine[state] = failure_ == nullptr ? well : here.is_input ? failed_by_input : failed;
  std::memcpy(mine.data() + text, here.text.data(), std::min(here.text.size(), most));
  if (here.text.size() > most)
    std::memcpy(reinterpret_cast<char*>(mine.data() + text) + most - 3, "...", 3);
  auto const all = gather.of_all(mine);
  for (int other = 0; other < static_cast<int>(all.size()); ++other) {
    auto const* const row = all[static_cast<std::size_t>(other)];
    if (row[state] == well) continue;
    auto const* const sent = reinterpret_cast<char const*>(row + text);
    std::string_view words(sent, most);
    words = words.substr(0, words.find('\0'));
    if (other == gather.world_rank) words = here.text;
    bool const needs_rank = all.size() > 1 && words.find("rank ") == std::string_view::npos;
    return work_failed(needs_rank ? concat({"rank ", other, ": ", words}) : std::string(words),
                       {.rank = other, .is_input = row[state] == failed_by_input}, step);
  }
  return std::nullopt;
}

}  // namespace plait::execution
