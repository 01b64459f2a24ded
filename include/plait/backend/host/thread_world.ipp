// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/thread_world.hpp"

#include <cstddef>

#include "plait/core/error.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::ext {

PLAIT_DECL int thread_world::add_group(std::vector<int> members) {
  lean_vector<char> is_member(static_cast<std::size_t>(size_), false);
  bool are_different = !members.empty();
  for (int const rank : members)
    are_different = are_different && rank >= 0 && rank < size_ &&
                    !std::exchange(is_member[static_cast<std::size_t>(rank)], true);
  if (!are_different)
    throw input_error({"thread_world::add_group: ", ranks_in_braces(members),
                       " is not a set of different ranks from 0 to ", size_ - 1});
  for (std::size_t id = 0; id < groups_.size(); ++id)
    if (groups_[id]->members == members) return static_cast<int>(id);
  groups_.push_back(std::make_unique<detail::thread_group>(std::move(members)));
  auto& group = *groups_.back();
  room_.watch(group.arrivals);
  for (auto& box : group.mailboxes) room_.watch(box.state);
  for (auto& one : group.member)
    for (auto& channel : one.channels) room_.watch(channel.state);
  return static_cast<int>(groups_.size()) - 1;
}

PLAIT_DECL int thread_world::checked(int ranks) {
  if (ranks < 1) throw input_error({"thread_world: ", ranks, " ranks; there must be at least 1"});
  return ranks;
}

}  // namespace plait::ext
