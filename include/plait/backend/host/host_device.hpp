// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "plait/backend/device.hpp"
#include "plait/backend/host/host_arena.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/host/host_workspace.hpp"
#include "plait/backend/host/maths/kind.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/synchronization.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// A rank's share of the processor. All its streams are the calling thread, so there is nothing to
/// wait for.
///
/// The memory of ranks of one process begins at different places of a page: who writes to several
/// of them by turns would be slow on some processors. Threads: one thread per device object.
struct host_device {
  using concept_tag = device_tag;
  using memory = host_memory;
  using queue = host_queue;
  using arena = host_arena;
  struct event {};
  struct graph {};

  host_device() = default;
  explicit host_device(int rank)
      : place_(static_cast<std::size_t>(rank) * 33 * 64 % 4096),
        workspace_(std::make_shared<host_workspace>(place_)) {}

  [[nodiscard]] arena allocate(std::size_t bytes) const { return arena(bytes, place_); }

  void upload(void const* from, void* to, std::size_t bytes) const {
    queue{}.copy_bytes(from, to, bytes);
  }
  void download(void const* from, void* to, std::size_t bytes) const {
    queue{}.copy_bytes(from, to, bytes);
  }
  void synchronize() const {}

  [[nodiscard]] queue on(stream) const { return queue(*workspace_); }
  [[nodiscard]] event make_event() const { return {}; }
  void record(event&, stream) const {}
  void wait(stream, event const&, wait_site) const {}

  template <class Body>
  void replay(graph&, Body&& body) const {
    std::forward<Body>(body)();
  }
  /// \see device
  [[nodiscard]] std::string kind() const { return host_maths::kind(); }
  [[nodiscard]] int mark(char const*) const { return 0; }
  /// Bytes that kernels have taken besides what the plan says.
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_->bytes(); }

 private:
  std::size_t place_ = 0;
  std::shared_ptr<host_workspace> workspace_ = std::make_shared<host_workspace>();
};

static_assert(device<host_device>);

}  // namespace plait::ext
