// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "plait/backend/device.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/host/maths/kind.hpp"
#include "plait/core/error.hpp"
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
  struct event {};
  struct graph {};

  host_device() = default;
  explicit host_device(int rank) : place_(static_cast<std::size_t>(rank) * 33 * 64 % 4096) {}

  /// Bytes of the device's memory, aligned to 64, freed with the object; their values are
  /// undefined.
  ///
  /// Errors: out_of_memory.
  class arena {
   public:
    arena() = default;
    explicit arena(std::size_t bytes, std::size_t place = 0) : bytes_(bytes), place_(place) {
      if (bytes == 0) return;
      data_.reset(static_cast<std::byte*>(
          ::operator new(bytes + place, std::align_val_t{64}, std::nothrow)));
      if (data_ == nullptr)
        throw out_of_memory("out of memory: asked the processor for " + std::to_string(bytes) +
                                " bytes (" + std::to_string(bytes >> 20) + " MiB)",
                            {.asked = bytes});
    }
    [[nodiscard]] std::byte* data() const {
      return data_ == nullptr ? nullptr : data_.get() + place_;
    }
    [[nodiscard]] std::size_t size() const { return bytes_; }
    /// The memory is never freed, as somebody may still write there.
    void leave() noexcept { static_cast<void>(data_.release()); }

   private:
    struct release {
      void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t{64}); }
    };
    std::unique_ptr<std::byte, release> data_;
    std::size_t bytes_ = 0;
    std::size_t place_ = 0;
  };

  [[nodiscard]] arena allocate(std::size_t bytes) const { return arena(bytes, place_); }

  void upload(void const* from, void* to, std::size_t bytes) const {
    queue{}.copy_bytes(from, to, bytes);
  }
  void download(void const* from, void* to, std::size_t bytes) const {
    queue{}.copy_bytes(from, to, bytes);
  }
  void synchronize() const {}

  [[nodiscard]] queue on(stream) const { return {}; }
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

 private:
  std::size_t place_ = 0;
};

static_assert(device<host_device>);

}  // namespace plait::ext
