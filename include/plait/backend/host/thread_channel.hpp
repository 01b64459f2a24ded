// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/host/thread_barrier.hpp"
#include "plait/backend/posted_messages.hpp"
#include "plait/core/error.hpp"
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
  void push(collective_call const& call) {
    if (count == ring.size()) {
      lean_vector<collective_call> larger(2 * count);
      for (std::size_t i = 0; i < count; ++i) larger[i] = ring[(first + i) % count];
      ring.swap(larger);
      first = 0;
    }
    ring[(first + count++) % ring.size()] = call;
  }
  collective_call pop() {
    auto const call = ring[first];
    first = (first + 1) % ring.size();
    --count;
    return call;
  }
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
            std::vector<int> const& members) {
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
      room_->advance(channel.state);  // from here on the other end's memory stays
      channel.pop();
      ++mine.posted;
    }
    auto const& sent = sends ? call : other;
    copy_bytes(sends ? other.target : call.target, sent.source, sent.bytes);
    channel.state.fetch_add(1);
    room_->wake({&peer, 1});
  }

  [[nodiscard]] std::uint64_t posted(ext::stream channel) const override {
    return ends_[std::size_t(ext::channel_number(channel))].posted;
  }
  void wait_for(ext::stream on, std::uint64_t count) override {
    auto& mine = end_of(on);
    if (count == 0) return;
    auto& channel = *mine.channel;
    if (thread_barrier::count_of(channel.state.load()) >= 2 * count) return;
    if (unseen_ != nullptr) std::rethrow_exception(std::exchange(unseen_, nullptr));
    if (count <= mine.given_up) return;
    if (mine.given_up > 0)
      throw job_aborted({"rank ", world_rank_, " has given up its messages of ", to_string(on),
                         ", as an exception had ended its program"});
    auto const call = first_of(channel);
    room_->wait_until_over(world_rank_, {.word = &channel.state,
                                         .target = 2 * count,
                                         .certain_from = 0,
                                         .awaited = {&mine.peer, 1},
                                         .call = &call,
                                         .members = mine.members,
                                         .is_certain_if_odd = true});
  }

  void leave() noexcept override {
    static_cast<void>(rest());
    ends_ = {};
  }
  [[nodiscard]] bool rest() noexcept override {
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
        std::this_thread::yield();  // the other end copies
    }
    return true;
  }

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
                                                  std::vector<int> const& members) const {
    auto const text = mismatch_text(from, sent, to, received, members);
    room_->refuse(text);
    throw collective_mismatch(text);
  }
  // What messages of errors say that this rank waits in.
  static collective_call first_of(thread_channel& channel) {
    std::scoped_lock const lock{channel.mutex};
    return channel.ring[channel.first];
  }

  thread_barrier* room_;
  int world_rank_;
  std::array<channel_end, std::size_t(ext::channel_count)> ends_{};
  std::exception_ptr unseen_{};  // what memory's end was thrown; the next wait throws it
};

}  // namespace plait::detail
