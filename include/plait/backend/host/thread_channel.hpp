// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/host/thread_barrier.hpp"
#include "plait/backend/posted_messages.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

// The messages between one rank and a neighbour that only one of the two ends has posted; the end
// that posts second copies. At any time all messages in it are from one end.
struct alignas(64) thread_channel {
  // Two counts for each message: the count is odd while a message is copied.
  thread_barrier::counter state{0};
  std::mutex mutex;  // guards the members below
  lean_vector<collective_call> ring{4};
  std::size_t first = 0, count = 0;
  bool are_sent = false;   // true if the sender waits, false if the receiver does
  bool is_closed = false;  // a rank has cancelled the messages that it had posted here

  // Grows to the largest number of messages in flight; steps after the first ones allocate nothing.
  void push(collective_call const& call);
  collective_call pop();
};

// A rank's ends of its channels in a thread_world. Memory of a message must stay until the message
// has been sent or received; the rank's device and memory ask for that.
class thread_messages final : public posted_messages {
 public:
  explicit thread_messages(thread_barrier& room, int world_rank)
      : room_(&room), world_rank_(world_rank) {}

  // Posts a message on a channel: it is copied at once if the other end has been posted. `peer`:
  // the world rank of the other end; `members`: the group, for messages of errors.
  void post(thread_channel& channel, collective_call const& call, int peer,
            std::vector<int> const& members);

  [[nodiscard]] std::uint64_t posted(ext::stream channel) const override {
    return ends_[std::size_t(ext::channel_number(channel))].posted;
  }
  void wait_for(ext::stream on, std::uint64_t count) override;

  void leave() noexcept override;
  [[nodiscard]] bool rest() noexcept override;

 private:
  struct channel_end {
    thread_channel* channel = nullptr;
    std::vector<int> const* members = nullptr;
    int peer = -1;
    std::uint64_t posted = 0, given_up = 0;
  };

  channel_end& end_of(ext::stream channel) {
    return ends_[std::size_t(ext::channel_number(channel))];
  }
  static bool is_over(channel_end const& mine) {
    return thread_barrier::count_of(mine.channel->state.load()) >= 2 * mine.posted;
  }
  static bool is_broken(channel_end const& mine) {
    return (mine.channel->state.load() & thread_barrier::broken_bit) != 0;
  }
  void require_fit(int from, collective_call const& sent, int to, collective_call const& received,
                   std::vector<int> const& members) const {
    if (!sent.fits(received)) refuse_mismatch(from, sent, to, received, members);
  }
  // Tells all ranks: the other end may first wait for something else.
  [[noreturn]] [[gnu::cold]] void refuse_mismatch(int from, collective_call const& sent, int to,
                                                  collective_call const& received,
                                                  std::vector<int> const& members) const;
  // Returns the call in which errors say that this rank waits.
  static collective_call first_of(thread_channel& channel);

  thread_barrier* room_;
  int world_rank_;
  std::array<channel_end, std::size_t(ext::channel_count)> ends_{};
  std::exception_ptr unseen_{};  // an exception in a destructor of memory; the next wait throws it
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/thread_channel.ipp"
#endif
