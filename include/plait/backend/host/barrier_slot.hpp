// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/host/thread_barrier.hpp"
#include "plait/backend/host/thread_channel.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"

namespace plait::detail {

// The mailbox for messages from one member of a group to another. The counter `state` is 3k before
// message k (k = 0, 1, ...), 3k+1 when the sender has posted it, 3k+2 while the receiver reads it,
// and 3k+3 when it has been received.
struct alignas(64) thread_mailbox {
  thread_barrier::counter state{0};
  // The sender writes `sent` before it sets the counter to 3k+1; the receiver writes `received`
  // before it sets the counter to 3k+3.
  collective_call sent, received;
};

// The data that one member publishes for the other members: its call and, if the operand is small,
// a copy of the operand. There are two buffers, used in turn, since a member may publish its next
// call while a slower member still reads the current one.
struct alignas(64) thread_member {
  static constexpr std::size_t few_bytes = 256;

  std::array<collective_call, 2> calls;
  alignas(64) std::array<std::array<std::byte, few_bytes>, 2> given;
  // Number of calls of meet() so far. Only this member uses this number and `arrivals`.
  std::uint64_t barriers = 0;
  // Value of the group's counter `arrivals` at which this member may continue.
  std::uint64_t arrivals = 0;
  std::array<thread_channel, 2> channels;  // messages posted to the next and to the previous member
};

struct thread_group {
  explicit thread_group(std::vector<int> ranks)
      : members(std::move(ranks)),
        member(members.size()),
        mailboxes(members.size() * members.size()) {}

  thread_mailbox& mailbox(int from, int to);

  thread_channel& channel(int from, int to);

  std::vector<int> members;  // world ranks in group order
  lean_vector<thread_member> member;
  lean_vector<thread_mailbox> mailboxes;
  alignas(64) thread_barrier::counter arrivals{0};  // alone on its cache line
};

// One member's handle of its group: it compares the calls of all members at a barrier, and
// transfers messages between two members.
class barrier_slot {
 public:
  barrier_slot(thread_barrier& room, thread_group& group, int rank)
      : room_(&room), group_(&group), rank_(rank) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(group_->members.size()); }

  // Publishes `call` to the other members, waits until all members have published their calls, and
  // throws on all members if the calls do not agree. Publishes a copy of the first `few` bytes of
  // the call's source, too.
  void meet(collective_call const& call, std::size_t few = 0);

  // All members call this function when they are done with the buffers of the call, if meet() did
  // not throw. It returns on no member before the last member has called it, even if other ranks
  // fail, since members may still read each other's buffers.
  void leave(collective_call const& call);

  // Returns the call that member `member` has published in the current barrier.
  collective_call const& shown(int member) const {
    return group_->member[static_cast<std::size_t>(member)].calls[own().barriers % 2];
  }

  // Returns the copy of operand bytes that member `member` has published with its call in the
  // current barrier.
  std::byte const* given(int member) const {
    return group_->member[static_cast<std::size_t>(member)].given[own().barriers % 2].data();
  }

  // Posts a message on the channel to or from its peer, and returns without waiting.
  void post(collective_call const& call, thread_messages& messages);

  // Sends the message; returns when the receiver has copied it.
  void send(collective_call const& call);

  // Waits until the sender has posted the message, and copies it.
  void receive(collective_call const& call);

 private:
  thread_member& own() const { return group_->member[static_cast<std::size_t>(rank_)]; }

  int world_rank(int member) const { return group_->members[static_cast<std::size_t>(member)]; }

  void wait(thread_barrier::counter const& word, std::uint64_t target, std::uint64_t certain_from,
            std::span<int const> awaited, collective_call const& call);

  void check_other_end(collective_call const& call) const;

  // Returns the text of the error for a message whose send and receive do not agree. `receiver` is
  // a world rank.
  std::string message_text(thread_mailbox const& box, int receiver) const;

  thread_barrier* room_;
  thread_group* group_;
  int rank_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/barrier_slot.ipp"
#endif
