// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

/// The messages that a rank of the processor has handed to its channels: what its device asks when
/// something has to wait for them, and what its memory asks before it goes.
///
/// Threads: the rank's own.
class posted_messages {
 public:
  posted_messages() = default;
  posted_messages(posted_messages const&) = delete;
  posted_messages& operator=(posted_messages const&) = delete;
  virtual ~posted_messages() = default;

  /// How many have been handed to a channel.
  [[nodiscard]] virtual std::uint64_t posted(ext::stream channel) const = 0;
  /// Returns when the first `count` of a channel have gone, or come.
  ///
  /// Errors: those of the communicator that was given them.
  virtual void wait_for(ext::stream channel, std::uint64_t count) = 0;
  /// Gives those that are on their way a chance to go on; it waits for nothing.
  virtual void go_on() {}
  /// Returns when none of them can use memory any more that is about to go. Where an exception ends
  /// the rank's program they are given up. False if a library may still use the memory.
  [[nodiscard]] virtual bool rest() noexcept = 0;
  /// The rank's program has ended: memory that outlives the groups asks for nothing any more.
  virtual void leave() noexcept = 0;

  /// The same for all channels.
  void wait_for_all();
};

/// Leaves the messages of a rank, if it has some, where its program ends.
class leaves_messages {
 public:
  explicit leaves_messages(posted_messages* of) : of_(of) {}
  leaves_messages(leaves_messages const&) = delete;
  leaves_messages& operator=(leaves_messages const&) = delete;
  ~leaves_messages() {
    if (of_ != nullptr) of_->leave();
  }

 private:
  posted_messages* of_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/posted_messages.ipp"
#endif
