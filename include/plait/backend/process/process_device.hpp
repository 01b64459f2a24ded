// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "plait/backend/device.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/posted_messages.hpp"
#include "plait/backend/process/second_thread.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::ext {

/// The device of a rank that is a process and computes on the processor. Operations of all streams
/// run at once in the calling thread. If the launch has made a second thread, the communicators'
/// calls on stream data are handed over to it instead, and events order the two threads.
///
/// on(stream::data) waits for all calls that were handed over so far, so a queue that it returned
/// must not be used after a later call: on() must be called again. In the second thread, which does
/// the work of a call's stream before and after the transfer, it returns at once. Memory is freed
/// when no call is under way.
/// Errors:  wait, record, synchronize and on(stream::data) rethrow an exception that a call has
///          thrown in the second thread.
/// Threads: one thread per device object.
class process_device : public host_device {
 public:
  /// The number of calls on stream data that were handed over when the event was recorded; 0 for an
  /// event of another stream, whose operations have ended already.
  struct event : host_device::event {
    std::uint64_t calls = 0;
  };

  process_device() = default;
  /// `second`: the rank's second thread; `messages`: the rank's posted messages. Both may be null.
  explicit process_device(std::shared_ptr<detail::second_thread> second,
                          std::shared_ptr<detail::posted_messages> messages = {})
      : host_device(0, std::move(messages)), second_(std::move(second)) {}

  /// Memory like host_device::arena. Its destructor also waits until the second thread no longer
  /// uses it.
  class arena {
   public:
    arena() = default;
    arena(host_device::arena memory, std::shared_ptr<detail::second_thread> second)
        : memory_(std::move(memory)), second_(std::move(second)) {}
    arena(arena&&) noexcept = default;
    arena& operator=(arena&& other) noexcept;
    ~arena() {
      if (second_ != nullptr && memory_.size() > 0 && !second_->rest()) memory_.leave();
    }
    [[nodiscard]] std::byte* data() const { return memory_.data(); }
    [[nodiscard]] std::size_t size() const { return memory_.size(); }

   private:
    host_device::arena memory_{};
    std::shared_ptr<detail::second_thread> second_{};
  };

  [[nodiscard]] arena allocate(std::size_t bytes) const {
    return {host_device::allocate(bytes), second_};
  }

  void synchronize() const;
  [[nodiscard]] queue on(stream which) const;
  void go_on() const {
    with_first_error([&] { host_device::go_on(); });
  }
  [[nodiscard]] event make_event() const { return {}; }
  void record(event& now, stream on) const;
  /// Makes stream `on` wait for an event. If `on` is stream::data, the function returns at once,
  /// because calls that are handed over to the second thread later run after everything that this
  /// thread has done so far.
  void wait(stream on, event const& awaited, wait_site site) const;

 private:
  /// Calls work(), which waits for messages. If work() throws because the second thread has failed,
  /// throws the second thread's exception instead.
  template <class Work>
  void with_first_error(Work work) const {
    try {
      work();
    } catch (other_thread_failed const&) {
      if (second_ != nullptr) second_->rethrow_earlier(true);
      throw;
    } catch (...) {
      if (second_ != nullptr) second_->rethrow_earlier(false);
      throw;
    }
  }

  std::shared_ptr<detail::second_thread> second_{};
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_device.ipp"
#endif
