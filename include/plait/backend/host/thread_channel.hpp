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

// The queue of messages between a rank and a neighbour for which only one of the two ranks has
// posted its call, send or receive. The rank that posts the second call of a message copies the
// data. At any time all calls in the queue are from the same rank.
struct alignas(64) thread_channel {
  // Counts 2 for each message: 1 before the copy and 1 after it, so the count is odd during a copy.
  thread_barrier::counter state{0};
  std::mutex mutex;  // guards the members below
  lean_vector<collective_call> ring{4};
  std::size_t first = 0, count = 0;
  bool are_sent = false;   // true if the posted calls are sends, false if they are receives
  bool is_closed = false;  // true if a rank has cancelled the messages that it had posted here

  // Appends a call. The ring grows to the largest number of messages in flight, so only the first
  // steps allocate memory.
  void push(collective_call const& call);
  collective_call pop();
};

// The posted messages of one rank of a thread_world, on all its channels. The memory of a message
// must stay valid until the message has been sent or received, so the rank's device and arenas use
// this class to wait.
class thread_messages final : public posted_messages {
 public:
  explicit thread_messages(thread_barrier& room, int world_rank)
      : room_(&room), world_rank_(world_rank) {}

  // Posts a send or a receive on a channel; copies the message at once if the peer has posted its
  // call. `peer`: the peer's world rank; `members`: the group, for error messages.
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
  // Breaks the world, so that all ranks throw, even if the peer first waits for something else.
  [[noreturn]] [[gnu::cold]] void refuse_mismatch(int from, collective_call const& sent, int to,
                                                  collective_call const& received,
                                                  std::vector<int> const& members) const;
  // Returns the oldest call in a channel, which error messages name as the call in which this rank
  // waits.
  static collective_call first_of(thread_channel& channel);

  thread_barrier* room_;
  int world_rank_;
  std::array<channel_end, std::size_t(ext::channel_count)> ends_{};
  // An exception that rest() caught in the destructor of an arena; the next wait throws it.
  std::exception_ptr unseen_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/thread_channel.ipp"
#endif
