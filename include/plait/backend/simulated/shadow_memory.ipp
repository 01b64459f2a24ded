// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/shadow_memory.hpp"

namespace plait::detail {

PLAIT_DECL void shadow_memory::add(address begin, std::size_t bytes, int number) {
  arenas_[begin] = {begin + bytes, number};
  cells_[begin] = {.end = begin + bytes, .arena = number};
}

PLAIT_DECL void shadow_memory::remove(address begin) {
  auto const found = arenas_.find(begin);
  cells_.erase(cells_.find(begin), cells_.lower_bound(found->second.end));
  arenas_.erase(found);
}

PLAIT_DECL shadow_memory::finding shadow_memory::read(address begin, address end,
                                                      accessor const& by) {
  if (find(begin, end) == not_found()) return {state::foreign, begin, end};
  finding out;
  split(end);
  for (auto at = split(begin); at != cells_.end() && at->first < end;) {
    auto& now = at->second;
    bool const is_race = now.writer_number > by.known[now.writer];
    if (is_race && now.is_defined)
      return {state::race, at->first, now.end, now.writer, now.writer_number, true};
    if (!now.is_defined && out.what == state::fine)
      out = {
          state::undefined, at->first, now.end, now.writer, is_race ? now.writer_number : 0, true};
    now.readers[by.on] = by.number;
    at = std::next(merge_with_previous(at));
  }
  merge_at(end);
  return out;
}

PLAIT_DECL shadow_memory::finding shadow_memory::write(address begin, address end,
                                                       accessor const& by, bool is_defined) {
  auto const where = find(begin, end);
  if (where == not_found()) return {state::foreign, begin, end};
  split(end);
  auto const first = split(begin);
  auto last = first;
  for (; last != cells_.end() && last->first < end; ++last) {
    auto const& now = last->second;
    if (now.writer_number > by.known[now.writer])
      return {state::race, last->first, now.end, now.writer, now.writer_number, true};
    for (std::size_t on = 0; on < streams; ++on)
      if (now.readers[on] > by.known[on])
        return {state::race, last->first, now.end, on, now.readers[on], false};
  }
  cells_.erase(std::next(first), last);
  first->second = {.end = end,
                   .arena = where->second.number,
                   .writer = static_cast<std::uint8_t>(by.on),
                   .is_defined = is_defined,
                   .writer_number = by.number};
  merge_with_previous(first);
  merge_at(end);
  return {};
}

PLAIT_DECL void shadow_memory::forget_accesses() {
  for (auto at = cells_.begin(); at != cells_.end();) {
    auto& now = at->second;
    now.writer = 0;
    now.writer_number = 0;
    now.readers = {};
    at = std::next(merge_with_previous(at));
  }
}

PLAIT_DECL bool shadow_memory::cell::is_like(cell const& other) const {
  return arena == other.arena && writer == other.writer && is_defined == other.is_defined &&
         writer_number == other.writer_number && readers == other.readers;
}

PLAIT_DECL shadow_memory::iterator shadow_memory::split(address at) {
  auto const next = cells_.lower_bound(at);
  if (next != cells_.end() && next->first == at) return next;
  if (next == cells_.begin()) return next;
  auto const before = std::prev(next);
  if (before->second.end <= at) return next;
  auto const after = cells_.emplace_hint(next, at, before->second);
  before->second.end = at;
  return after;
}

PLAIT_DECL shadow_memory::iterator shadow_memory::merge_with_previous(iterator at) {
  if (at == cells_.begin()) return at;
  auto const before = std::prev(at);
  if (before->second.end != at->first || !before->second.is_like(at->second)) return at;
  before->second.end = at->second.end;
  cells_.erase(at);
  return before;
}

}  // namespace plait::detail
