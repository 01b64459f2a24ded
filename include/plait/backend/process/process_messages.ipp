// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/process_messages.hpp"

#include <exception>

#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL void process_messages::post(ext::process_group& group, std::vector<int> const& members,
                                       int rank, collective_call const& call, bool compares,
                                       flight_log& log) {
  auto& mine = end_of(call.channel);
  mine.group = &group;
  mine.members = &members;
  mine.rank = rank;
  auto& now = mine.push();
  now.call = call;
  now.mine = shown_call::of(call);
  now.entry = log.post(call);
  group.serve(&call);
  bool const sends = call.kind == collective::send;
  std::size_t const size = compares ? sizeof now.mine : 0;
  now.sent = size > 0 ? group.post_send(&now.mine, size, call.other) : nowhere;
  now.received = size > 0 ? group.post_receive(&now.theirs, size, call.other) : nowhere;
  now.moved = call.bytes == 0 ? nowhere
              : sends         ? group.post_send(call.source, call.bytes, call.other)
                              : group.post_receive(call.target, call.bytes, call.other);
  group.serve(nullptr);
}

PLAIT_DECL void process_messages::wait_for(ext::stream channel, std::uint64_t count) {
  auto& mine = end_of(channel);
  while (mine.over < count) finish(mine);
}

PLAIT_DECL void process_messages::go_on() {
  for (auto& mine : ends_)
    if (mine.over < mine.posted) mine.group->go_on();
}

PLAIT_DECL bool process_messages::rest() noexcept {
  for (auto& mine : ends_) {
    if (mine.over == mine.posted) continue;
    if (std::uncaught_exceptions() == 0 && !has_failed_) try {
        while (mine.over < mine.posted) finish(mine);
        continue;
      } catch (...) {  // the engine is unusable, and every other call reports it
      }
    has_failed_ = true;
    if (!mine.group->give_up_posted()) leave(mine);
    mine.over = mine.posted;
  }
  return !is_left_;
}

PLAIT_DECL void process_messages::leave() noexcept {
  static_cast<void>(rest());
  for (auto& mine : ends_) mine.group = nullptr;
}

PLAIT_DECL process_messages::message& process_messages::channel_end::push() {
  if (posted - over == ring.size()) {
    std::vector<std::unique_ptr<message>> larger(ring.empty() ? 4 : 2 * ring.size());
    for (std::uint64_t i = over; i < posted; ++i)
      larger[i % larger.size()] = std::move(ring[i % ring.size()]);
    for (auto& one : larger)
      if (one == nullptr) one = std::make_unique<message>();
    ring = std::move(larger);
  }
  return at(posted++);
}

PLAIT_DECL void process_messages::leave(channel_end& mine) noexcept {
  is_left_ = true;
  for (auto& one : mine.ring) static_cast<void>(one.release());
  mine.ring.clear();
}

PLAIT_DECL void process_messages::finish(channel_end& mine) {
  auto& now = mine.at(mine.over);
  auto& group = *mine.group;
  try {
    group.serve(&now.call);
    now.entry.wait();
    if (now.received != nowhere) {
      group.wait_for_posted(now.received, now.call.other);
      group.wait_for_posted(now.sent, now.call.other);
      compare(mine, now);
    }
    if (now.moved != nowhere) group.wait_for_posted(now.moved, now.call.other);
    group.serve(nullptr);
  } catch (...) {
    has_failed_ = true;
    group.serve(nullptr);
    throw;
  }
  now.entry.end();
  ++mine.over;
}

PLAIT_DECL void process_messages::compare(channel_end const& mine, message const& now) {
  auto const theirs = now.theirs.call();
  if (now.call.fits(theirs)) return;
  bool const sends = now.call.kind == collective::send;
  auto const& members = *mine.members;
  int const me = members[std::size_t(mine.rank)], other = members[std::size_t(now.call.other)];
  throw collective_mismatch(sends ? mismatch_text(me, now.call, other, theirs, members)
                                  : mismatch_text(other, theirs, me, now.call, members));
}

}  // namespace plait::detail
