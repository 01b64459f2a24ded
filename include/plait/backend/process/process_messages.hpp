// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/posted_messages.hpp"
#include "plait/backend/process/flight_ring.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/shown_call.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

/// The messages that the rank of a process has posted on its channels, for example the activations
/// that a pipeline stage sends to the next stage. The engine transfers them while the rank computes
/// the next microbatch. If calls are compared, sender and receiver also exchange small messages
/// with their calls; these are compared when the rank waits for the message, so that posting never
/// blocks.
///
/// Cost:   no allocation except when more messages are in flight than ever before.
class process_messages final : public posted_messages {
 public:
  /// Posts a send or a receive on its channel. `members`: world ranks of the group; `rank`: this
  /// rank's index among them.
  void post(ext::process_group& group, std::vector<int> const& members, int rank,
            collective_call const& call, bool compares, flight_log& log);

  [[nodiscard]] std::uint64_t posted(ext::stream channel) const override {
    return ends_[std::size_t(ext::channel_number(channel))].posted;
  }
  void wait_for(ext::stream channel, std::uint64_t count) override;
  void go_on() override;
  [[nodiscard]] bool rest() noexcept override;
  void leave() noexcept override;

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};

  struct message {
    collective_call call{};
    shown_call mine{}, theirs{};
    std::size_t sent = nowhere, received = nowhere, moved = nowhere;
    flight_log::posted_entry entry{};
  };
  /// The messages of a channel that have not ended, in a ring. A message keeps its address, since
  /// an engine may write to it.
  struct channel_end {
    ext::process_group* group = nullptr;
    std::vector<int> const* members = nullptr;
    int rank = 0;
    std::uint64_t posted = 0, over = 0;
    std::vector<std::unique_ptr<message>> ring{};

    message& at(std::uint64_t number) { return *ring[number % ring.size()]; }
    message& push();
  };

  channel_end& end_of(ext::stream channel) {
    return ends_[std::size_t(ext::channel_number(channel))];
  }
  /// Leaks the message objects of a channel, to which a library may still write.
  void leave(channel_end& mine) noexcept;

  /// Waits for the oldest message of a channel that has not ended.
  void finish(channel_end& mine);
  static void compare(channel_end const& mine, message const& now);

  std::array<channel_end, std::size_t(ext::channel_count)> ends_{};
  bool has_failed_ = false, is_left_ = false;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_messages.ipp"
#endif
