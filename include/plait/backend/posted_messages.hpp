// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

/// The messages that a rank on a CPU has posted on its channels and that may still be in flight.
/// The rank's device calls this class to wait for messages, and the rank's arenas call it to wait
/// before they free memory.
///
/// Threads: the thread of the rank.
class posted_messages {
 public:
  posted_messages() = default;
  posted_messages(posted_messages const&) = delete;
  posted_messages& operator=(posted_messages const&) = delete;
  virtual ~posted_messages() = default;

  /// Returns the number of messages posted on a channel.
  [[nodiscard]] virtual std::uint64_t posted(ext::stream channel) const = 0;
  /// Returns when the first `count` messages that were posted on a channel have been sent or
  /// received.
  ///
  /// Errors: the exceptions of the communicator that posted them.
  virtual void wait_for(ext::stream channel, std::uint64_t count) = 0;
  /// Lets messages in flight progress; does not wait.
  virtual void go_on() {}
  /// Waits until no message uses the rank's memory, since an arena is about to free it. If the
  /// rank's program ends by an exception, cancels the messages instead of waiting. Returns false if
  /// a library may still use the memory.
  [[nodiscard]] virtual bool rest() noexcept = 0;
  /// Notes that the rank's program has ended: memory that is freed later, when the groups no longer
  /// exist, need not wait for messages.
  virtual void leave() noexcept = 0;

  /// Waits for the messages of all channels.
  void wait_for_all();
};

/// A guard whose destructor calls leave() for the messages of a rank, when the rank's program ends;
/// the pointer may be null.
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
