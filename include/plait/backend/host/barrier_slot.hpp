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

// The mailbox of one (sender, receiver) pair. Message k moves the counter from 3k (empty) over 3k+1
// (posted) and 3k+2 (the receiver reads) to 3k+3 (done).
struct alignas(64) thread_mailbox {
  thread_barrier::counter state{0};
  collective_call sent, received;  // written by the sender before 3k+1, by the receiver before 3k+3
};

// The data that one member shows to the others: its call and, if they are few, the bytes of its
// operand. There are two copies, used in turn: a member may already publish its next call while a
// slower member still reads this one.
struct alignas(64) thread_member {
  static constexpr std::size_t few_bytes = 256;

  std::array<collective_call, 2> calls;
  alignas(64) std::array<std::array<std::byte, few_bytes>, 2> given;
  std::uint64_t barriers = 0;  // this and the next are the member's own
  std::uint64_t arrivals = 0;  // value of the group's counter at which this member may continue
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

// One member's access to its group: it lets calls meet and messages pass.
class barrier_slot {
 public:
  barrier_slot(thread_barrier& room, thread_group& group, int rank)
      : room_(&room), group_(&group), rank_(rank) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(group_->members.size()); }

  // Shows `call` to the other members, waits for theirs, and throws on all if they do not agree.
  // The first `few` bytes of its source are shown together with it.
  void meet(collective_call const& call, std::size_t few = 0);

  // All members call it after a barrier without an error. None returns before the last has called
  // it, even if other ranks fail: members may still read each other's buffers.
  void leave(collective_call const& call);

  // Returns the call that member `member` shows in the current barrier.
  collective_call const& shown(int member) const {
    return group_->member[static_cast<std::size_t>(member)].calls[own().barriers % 2];
  }

  // Returns the bytes that member `member` has shown with its call in the current barrier.
  std::byte const* given(int member) const {
    return group_->member[static_cast<std::size_t>(member)].given[own().barriers % 2].data();
  }

  // Posts a message on its channel and returns.
  void post(collective_call const& call, thread_messages& messages);

  // Posts the message and returns when the receiver has copied it.
  void send(collective_call const& call);

  // Waits for the message and copies it.
  void receive(collective_call const& call);

 private:
  thread_member& own() const { return group_->member[static_cast<std::size_t>(rank_)]; }

  int world_rank(int member) const { return group_->members[static_cast<std::size_t>(member)]; }

  void wait(thread_barrier::counter const& word, std::uint64_t target, std::uint64_t certain_from,
            std::span<int const> awaited, collective_call const& call);

  void check_other_end(collective_call const& call) const;

  // `receiver` is a world rank.
  std::string message_text(thread_mailbox const& box, int receiver) const;

  thread_barrier* room_;
  thread_group* group_;
  int rank_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/barrier_slot.ipp"
#endif
