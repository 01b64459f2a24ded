// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/posted_messages.hpp"
#include "plait/backend/process/flight_ring.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/shown_call.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

/// The messages that a rank which is a process has posted on its channels: the engine carries them
/// on while the rank computes, and they are compared, where calls are, when something waits for
/// them.
///
/// Cost:   no allocation once as many have been on their way as ever are.
class process_messages final : public posted_messages {
 public:
  /// Hands a message to its channel. `members`: world ranks of the group.
  void post(ext::process_group& group, std::vector<int> const& members, int rank,
            collective_call const& call, bool compares, flight_log& log) {
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

  [[nodiscard]] std::uint64_t posted(ext::stream channel) const override {
    return ends_[std::size_t(ext::channel_number(channel))].posted;
  }
  void wait_for(ext::stream channel, std::uint64_t count) override {
    auto& mine = end_of(channel);
    while (mine.over < count) finish(mine);
  }
  void go_on() override {
    for (auto& mine : ends_)
      if (mine.over < mine.posted) mine.group->go_on();
  }
  [[nodiscard]] bool rest() noexcept override {
    for (auto& mine : ends_) {
      if (mine.over == mine.posted) continue;
      if (std::uncaught_exceptions() == 0 && !has_failed_) try {
          while (mine.over < mine.posted) finish(mine);
          continue;
        } catch (...) {  // the engine is of no more use, and every other call says so
        }
      has_failed_ = true;
      if (!mine.group->give_up_posted()) leave(mine);
      mine.over = mine.posted;
    }
    return !is_left_;
  }
  void leave() noexcept override {
    static_cast<void>(rest());
    for (auto& mine : ends_) mine.group = nullptr;
  }

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};

  struct message {
    collective_call call{};
    shown_call mine{}, theirs{};
    std::size_t sent = nowhere, received = nowhere, moved = nowhere;
    flight_log::posted_entry entry{};
  };
  /// A ring of those that have not ended; an engine may write to them where they are.
  struct channel_end {
    ext::process_group* group = nullptr;
    std::vector<int> const* members = nullptr;
    int rank = 0;
    std::uint64_t posted = 0, over = 0;
    std::vector<std::unique_ptr<message>> ring{};

    message& at(std::uint64_t number) { return *ring[number % ring.size()]; }
    message& push() {
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
  };

  channel_end& end_of(ext::stream channel) {
    return ends_[std::size_t(ext::channel_number(channel))];
  }
  /// A library may write what it was lent at any time.
  void leave(channel_end& mine) noexcept {
    is_left_ = true;
    for (auto& one : mine.ring) static_cast<void>(one.release());
    mine.ring.clear();
  }

  /// Waits for the first that has not ended.
  void finish(channel_end& mine) {
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
  static void compare(channel_end const& mine, message const& now) {
    auto const theirs = now.theirs.call();
    if (now.call.fits(theirs)) return;
    bool const sends = now.call.kind == collective::send;
    auto const& members = *mine.members;
    int const me = members[std::size_t(mine.rank)], other = members[std::size_t(now.call.other)];
    throw collective_mismatch(sends ? mismatch_text(me, now.call, other, theirs, members)
                                    : mismatch_text(other, theirs, me, now.call, members));
  }

  std::array<channel_end, std::size_t(ext::channel_count)> ends_{};
  bool has_failed_ = false, is_left_ = false;
};

}  // namespace plait::detail
