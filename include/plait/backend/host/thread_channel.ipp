// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/thread_channel.hpp"

#include <thread>
#include <utility>

#include "plait/backend/host/rank_order.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL void thread_channel::push(collective_call const& call) {
  if (count == ring.size()) {
    lean_vector<collective_call> larger(2 * count);
    for (std::size_t i = 0; i < count; ++i) larger[i] = ring[(first + i) % count];
    ring.swap(larger);
    first = 0;
  }
  ring[(first + count++) % ring.size()] = call;
}

PLAIT_DECL collective_call thread_channel::pop() {
  auto const call = ring[first];
  first = (first + 1) % ring.size();
  --count;
  return call;
}

PLAIT_DECL void thread_messages::post(thread_channel& channel, collective_call const& call,
                                      int peer, std::vector<int> const& members) {
  auto& mine = end_of(call.channel);
  bool const sends = call.kind == collective::send;
  mine.channel = &channel;
  mine.peer = peer;
  mine.members = &members;
  collective_call other;
  {
    std::scoped_lock const lock{channel.mutex};
    if (channel.is_closed || channel.count == 0 || channel.are_sent == sends) {
      channel.are_sent = sends;
      channel.push(call);
      ++mine.posted;
      return;
    }
    other = channel.ring[channel.first];
    if (sends) require_fit(world_rank_, call, peer, other, members);
    else require_fit(peer, other, world_rank_, call, members);
    // From here on, the peer does not free the memory of its message.
    room_->advance(channel.state);
    channel.pop();
    ++mine.posted;
  }
  auto const& sent = sends ? call : other;
  copy_bytes(sends ? other.target : call.target, sent.source, sent.bytes);
  channel.state.fetch_add(1);
  room_->wake({&peer, 1});
}

PLAIT_DECL void thread_messages::wait_for(ext::stream on, std::uint64_t count) {
  auto& mine = end_of(on);
  if (count == 0) return;
  auto& channel = *mine.channel;
  if (thread_barrier::count_of(channel.state.load()) >= 2 * count) return;
  if (unseen_ != nullptr) std::rethrow_exception(std::exchange(unseen_, nullptr));
  if (count <= mine.given_up) return;
  if (mine.given_up > 0)
    throw job_aborted({"rank ", world_rank_, " has given up its messages of ", to_string(on),
                       ", because an exception has ended the program of that rank"});
  auto const call = first_of(channel);
  room_->wait_until_over(world_rank_, {.word = &channel.state,
                                       .target = 2 * count,
                                       .certain_from = 0,
                                       .awaited = {&mine.peer, 1},
                                       .call = &call,
                                       .members = mine.members,
                                       .is_certain_if_odd = true});
}

PLAIT_DECL void thread_messages::leave() noexcept {
  static_cast<void>(rest());
  ends_ = {};
}

PLAIT_DECL bool thread_messages::rest() noexcept {
  for (auto& mine : ends_) {
    if (mine.channel == nullptr || is_over(mine) || mine.given_up == mine.posted) continue;
    if (std::uncaught_exceptions() == 0 && !is_broken(mine)) try {
        auto const number = static_cast<int>(&mine - ends_.data());
        wait_for(static_cast<ext::stream>(static_cast<int>(ext::stream::to_next) + number),
                 mine.posted);
      } catch (error const&) {
        unseen_ = std::current_exception();
      }
    if (is_over(mine)) continue;
    mine.given_up = mine.posted;
    {
      std::scoped_lock const lock{mine.channel->mutex};
      mine.channel->is_closed = true;
      mine.channel->count = 0;
    }
    while (thread_barrier::count_of(mine.channel->state.load()) % 2 != 0)
      std::this_thread::yield();  // waits while the peer copies the message
  }
  return true;
}

PLAIT_DECL void thread_messages::refuse_mismatch(int from, collective_call const& sent, int to,
                                                 collective_call const& received,
                                                 std::vector<int> const& members) const {
  auto const text = mismatch_text(from, sent, to, received, members);
  room_->refuse(text);
  throw collective_mismatch(text);
}

PLAIT_DECL collective_call thread_messages::first_of(thread_channel& channel) {
  std::scoped_lock const lock{channel.mutex};
  return channel.ring[channel.first];
}

}  // namespace plait::detail
