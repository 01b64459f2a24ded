// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "plait/backend/device.hpp"
#include "plait/backend/host/host_arena.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/host/host_workspace.hpp"
#include "plait/backend/host/maths/kind.hpp"
#include "plait/backend/posted_messages.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// The device of a rank on the processor. Operations of all streams run at once, on the calling
/// thread, so a wait has an effect only for messages that a communicator has posted on a channel.
///
/// The arenas of different ranks of one process begin at different offsets in a 4 KiB page. With
/// equal offsets, a thread that writes to the memory of several ranks in turn would be slow on some
/// processors.
///
/// Errors:  wait and synchronize throw the exceptions of the communicator that posted the messages.
/// Threads: one thread per device object.
struct host_device {
  using concept_tag = device_tag;
  static constexpr device_parts parts{.goes_on = true, .counts_workspace = true};
  using memory = host_memory;
  using queue = host_queue;
  using arena = host_arena;
  struct graph {};
  /// The number of messages that were posted on a channel when the event was recorded; 0: a wait
  /// for the event returns at once.
  struct event {
    std::uint64_t messages = 0;
    stream channel = stream::compute;
  };

  host_device() = default;
  explicit host_device(int rank, std::shared_ptr<detail::posted_messages> messages = {})
      : place_(static_cast<std::size_t>(rank) * 33 * 64 % 4096),
        workspace_(std::make_shared<host_workspace>(place_)),
        messages_(std::move(messages)) {}

  [[nodiscard]] [[gnu::cold]] arena allocate(std::size_t bytes) const {
    return arena(bytes, place_, messages_);
  }

  void upload(void const* from, void* to, std::size_t bytes) const {
    queue{}.copy_bytes(from, to, bytes);
  }
  void download(void const* from, void* to, std::size_t bytes) const {
    queue{}.copy_bytes(from, to, bytes);
  }
  void synchronize() const {
    if (messages_ != nullptr) messages_->wait_for_all();
  }
  /// Lets posted messages progress; called between two operations.
  void go_on() const {
    if (messages_ != nullptr) messages_->go_on();
  }

  [[nodiscard]] queue on(stream) const { return queue(*workspace_); }
  [[nodiscard]] event make_event() const { return {}; }
  void record(event& now, stream on) const;
  void wait(stream on, event const& awaited, wait_site) const;

  template <class Body>
  void replay(graph&, Body&& body) const {
    std::forward<Body>(body)();
  }
  /// Returns a text with all properties on which the last bits of results depend; see ext::device.
  [[nodiscard]] std::string kind() const { return host_maths::kind(); }
  [[nodiscard]] int mark(char const*) const { return 0; }
  /// Returns the number of bytes that kernels have allocated in addition to the memory of the plan.
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_->bytes(); }

 private:
  std::size_t place_ = 0;
  std::shared_ptr<host_workspace> workspace_ = std::make_shared<host_workspace>();
  std::shared_ptr<detail::posted_messages> messages_{};
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/host_device.ipp"
#endif
