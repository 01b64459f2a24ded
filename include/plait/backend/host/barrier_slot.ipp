// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/barrier_slot.hpp"

#include "plait/backend/host/rank_order.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL thread_mailbox& thread_group::mailbox(int from, int to) {
  return mailboxes[static_cast<std::size_t>(from) * members.size() + static_cast<std::size_t>(to)];
}

PLAIT_DECL thread_channel& thread_group::channel(int from, int to) {
  bool const is_next = to == (from + 1) % static_cast<int>(members.size());
  return member[static_cast<std::size_t>(from)].channels[is_next ? 0 : 1];
}

PLAIT_DECL void barrier_slot::meet(collective_call const& call, std::size_t few) {
  auto& me = own();
  me.calls[++me.barriers % 2] = call;
  copy_bytes(me.given[me.barriers % 2].data(), call.source, few);
  if (size() > 1) {
    me.arrivals += static_cast<std::uint64_t>(size());
    if (room_->advance(group_->arrivals) == me.arrivals) room_->wake(group_->members);
    else wait(group_->arrivals, me.arrivals, me.arrivals, group_->members, call);
    for (int other = 1; other < size(); ++other)
      if (!shown(0).agrees_with(shown(other)))
        throw collective_mismatch(mismatch_text(world_rank(0), shown(0), world_rank(other),
                                                shown(other), group_->members));
  }
  for (int member = 0; member < size(); ++member)
    check_shape(world_rank(member), shown(member), group_->members);
}

PLAIT_DECL void barrier_slot::leave(collective_call const& call) {
  if (size() == 1) return;
  auto& me = own();
  me.arrivals += static_cast<std::uint64_t>(size());
  if (thread_barrier::count_of(group_->arrivals.fetch_add(1)) + 1 == me.arrivals)
    room_->wake(group_->members);
  else wait(group_->arrivals, me.arrivals, 0, group_->members, call);
}

PLAIT_DECL void barrier_slot::post(collective_call const& call, thread_messages& messages) {
  check_other_end(call);
  bool const sends = call.kind == collective::send;
  auto& channel = sends ? group_->channel(rank_, call.other) : group_->channel(call.other, rank_);
  messages.post(channel, call, world_rank(call.other), group_->members);
}

PLAIT_DECL void barrier_slot::send(collective_call const& call) {
  check_other_end(call);
  auto& box = group_->mailbox(rank_, call.other);
  box.sent = call;
  auto const posted = room_->advance(box.state);
  int const peer = world_rank(call.other);
  room_->wake({&peer, 1});
  wait(box.state, posted + 2, posted + 1, {&peer, 1}, call);
  if (!box.sent.fits(box.received)) throw collective_mismatch(message_text(box, peer));
}

PLAIT_DECL void barrier_slot::receive(collective_call const& call) {
  check_other_end(call);
  auto& box = group_->mailbox(call.other, rank_);
  auto const posted = thread_barrier::count_of(box.state.load()) / 3 * 3 + 1;
  int const peer = world_rank(call.other);
  wait(box.state, posted, posted, {&peer, 1}, call);
  room_->advance(box.state);  // from here on, the sender waits until this rank is done
  box.received = call;
  bool const good = box.sent.fits(box.received);
  auto const text = good ? std::string{} : message_text(box, world_rank(rank_));
  if (good) copy_bytes(call.target, box.sent.source, call.bytes);
  box.state.fetch_add(1);
  room_->wake({&peer, 1});
  if (!good) throw collective_mismatch(text);
}

PLAIT_DECL void barrier_slot::wait(thread_barrier::counter const& word, std::uint64_t target,
                                   std::uint64_t certain_from, std::span<int const> awaited,
                                   collective_call const& call) {
  room_->wait_until_over(world_rank(rank_), {.word = &word,
                                             .target = target,
                                             .certain_from = certain_from,
                                             .awaited = awaited,
                                             .call = &call,
                                             .members = &group_->members});
}

PLAIT_DECL void barrier_slot::check_other_end(collective_call const& call) const {
  if (call.other >= 0 && call.other < size() && call.other != rank_) return;
  throw input_error({"rank ", world_rank(rank_), " called ", call_text(call, group_->members),
                     ": the other end must be another member of the group"});
}

PLAIT_DECL std::string barrier_slot::message_text(thread_mailbox const& box, int receiver) const {
  return mismatch_text(world_rank(box.received.other), box.sent, receiver, box.received,
                       group_->members);
}

}  // namespace plait::detail
