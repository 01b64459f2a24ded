// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "plait/backend/device.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/simulated/simulated_queue.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/backend/simulated/simulated_world.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// Memory of a simulated device.
struct simulated_memory {
  using concept_tag = memory_tag;
};

/// One rank's device of the backend `simulated`: operations are only queued, and are executed when
/// all ranks wait.
///
/// All bits of new memory are 1 (a NaN or -1), and so are all bits of host memory to which a
/// download has been queued but not executed, so that values that are used too early are noticed.
/// Errors:  synchronize() throws the error of any rank, see `simulated`.
/// Threads: used by the one thread that runs the rank.
class simulated_device {
 public:
  using concept_tag = device_tag;
  static constexpr device_parts parts{.counts_workspace = true};
  using memory = simulated_memory;
  using queue = simulated_queue;
  struct graph {};

  /// Identifies all operations that were in a stream when the event was recorded. Copies of an
  /// event identify the same operations.
  class event {
    friend class simulated_device;
    stream on_ = stream::compute;
    std::uint64_t number_ = 0;  // 0: not yet recorded
  };

  /// Owns bytes of the device's memory, aligned to 64 bytes. They are freed when the arena is
  /// destroyed and no queued operation uses them.
  class arena {
   public:
    arena() = default;
    explicit arena(std::shared_ptr<host_device::arena const> block) : block_(std::move(block)) {}
    [[nodiscard]] std::byte* data() const { return block_ ? block_->data() : nullptr; }
    [[nodiscard]] std::size_t size() const { return block_ ? block_->size() : 0; }

   private:
    std::shared_ptr<host_device::arena const> block_;
  };

  /// The object that mark() returns: its destructor restores the previous name.
  class marked {
   public:
    marked(detail::simulated_rank& rank, std::string_view name)
        : rank_(rank), before_(rank.mark(name)) {}
    marked(marked const&) = delete;
    marked& operator=(marked const&) = delete;
    ~marked() { rank_.restore_mark(before_); }

   private:
    detail::simulated_rank& rank_;
    std::string_view before_;
  };

  simulated_device(detail::simulated_world& world, int rank)
      : world_(&world), rank_(&world.rank(rank)) {}

  [[nodiscard]] arena allocate(std::size_t bytes) const { return arena(rank_->allocate(bytes)); }

  void upload(void const* from, void* to, std::size_t bytes) const;
  void download(void const* from, void* to, std::size_t bytes) const;
  void synchronize() const { world_->synchronize(rank_->number()); }

  [[nodiscard]] queue on(stream which) const { return {*rank_, which}; }
  [[nodiscard]] event make_event() const { return {}; }
  void record(event& what, stream on) const;
  void wait(stream on, event const& what, wait_site site) const {
    rank_->wait(on, what.on_, what.number_, site);
  }

  template <class Body>
  void replay(graph&, Body&& body) const {
    std::forward<Body>(body)();
  }
  /// Returns a text with all properties on which the last bits of results depend; see ext::device.
  [[nodiscard]] std::string kind() const { return host_maths::kind(); }
  [[nodiscard]] marked mark(std::string_view name) const { return {*rank_, name}; }
  /// Returns the number of bytes that kernels have allocated in addition to the memory of the plan.
  [[nodiscard]] std::size_t workspace_bytes() const { return rank_->workspace().bytes(); }

 private:
  detail::simulated_world* world_;
  detail::simulated_rank* rank_;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated_device.ipp"
#endif
