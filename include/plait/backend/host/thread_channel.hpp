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

// The messages of one rank to one of its neighbours that only one of the two has come to yet: who
// comes second copies. At one time they are those of one end.
struct alignas(64) thread_channel {
  // Two for each message: an odd count while one is copied.
  thread_barrier::counter state{0};
  std::mutex mutex;  // of the rest
  lean_vector<collective_call> ring{4};
  std::size_t first = 0, count = 0;
  bool are_sent = false;   // whether the sender waits, else the receiver
  bool is_closed = false;  // a rank has given up what it had posted here

  // Grows with the most that are ever on their way; a step allocates nothing behind its first runs.
  void push(collective_call const& call);
  collective_call pop();
};

// The ends of channels that a rank of a thread_world has. What its messages lend must stay until
// they have gone: the rank's device and memory ask for it.
class thread_messages final : public posted_messages {
 public:
  explicit thread_messages(thread_barrier& room, int world_rank)
      : room_(&room), world_rank_(world_rank) {}

  // Hands a message to a channel: it goes at once where the other end is there already. `peer`: the
  // world rank there; `members`: of the group, for texts.
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
  // All ranks are told: the other end may wait for something else first.
  [[noreturn]] [[gnu::cold]] void refuse_mismatch(int from, collective_call const& sent, int to,
                                                  collective_call const& received,
                                                  std::vector<int> const& members) const;
  // What messages of errors say that this rank waits in.
  static collective_call first_of(thread_channel& channel);

  thread_barrier* room_;
  int world_rank_;
  std::array<channel_end, std::size_t(ext::channel_count)> ends_{};
  std::exception_ptr unseen_{};  // what memory's end was thrown; the next wait throws it
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/thread_channel.ipp"
#endif
