// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "plait/backend/process/signal_patience.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Ends waits that Gloo would not end. When a connection breaks, Gloo wakes the threads whose
/// message has not begun, but not a thread whose message is half received; that thread would wait
/// until its time-out, 60 s for example. The watch therefore runs a thread that checks every 30 ms
/// if the connection of a long wait has broken, a signal has to end the wait, or its time is over.
///
/// Cost:    locks a mutex, which is nearly always free, twice for each wait.
/// Threads: waits are in one thread; the watch's own thread ends them.
class gloo_watch {
 public:
  using buffer = ::gloo::transport::UnboundBuffer;
  using clock = std::chrono::steady_clock;
  enum class direction { in, out };

  gloo_watch() : thread_([this] { look(); }) {}
  gloo_watch(gloo_watch const&) = delete;
  gloo_watch& operator=(gloo_watch const&) = delete;
  ~gloo_watch();

  /// The signal that has ended a wait, and the time for which the wait continued after the signal.
  struct ending {
    int signal = 0;
    std::chrono::milliseconds waited{};
  };
  [[nodiscard]] ending ended();
  /// Ends the current wait of the watched thread, and all later waits.
  void interrupt();
  [[nodiscard]] bool is_interrupted();
  /// The time of the steady clock, minus the time for which hold(true) has stopped it.
  [[nodiscard]] clock::time_point time();
  /// hold(true) stops the clock of the time-outs, and hold(false) starts it again.
  void hold(bool on);
  /// Forgets the lengths of all earlier waits. It is called, for example, at the start of a job,
  /// where waits are longer than later; see signal_patience.
  void forget_waits();

  /// A guard that registers the buffer for which the calling thread waits while the guard exists.
  class waiting {
   public:
    /// `sentinel`: a pending receive on the same connection that no message ever matches; it fails
    /// when the connection breaks.
    waiting(gloo_watch& watch, buffer& what, buffer* sentinel, direction way,
            std::chrono::milliseconds timeout);
    waiting(waiting const&) = delete;
    waiting& operator=(waiting const&) = delete;
    ~waiting() { watch_.set(nullptr, nullptr, direction::in, {}); }

   private:
    gloo_watch& watch_;
  };

 private:
  void set(buffer* what, buffer* sentinel, direction way, std::chrono::milliseconds timeout);

  void look();
  [[nodiscard]] clock::time_point counted() const {
    return (held_since_ ? *held_since_ : clock::now()) - held_;
  }
  // Returns true if the connection of a sentinel has failed. The function aborts a wait for the
  // sentinel before the wait begins: such a wait ends at once, and throws if the connection has
  // failed.
  static bool is_broken(buffer& sentinel);

  std::mutex mutex_;
  std::condition_variable wakes_;
  buffer *buffer_ = nullptr, *sentinel_ = nullptr;
  direction way_ = direction::in;
  std::uint64_t waits_ = 0;
  clock::time_point end_{};  // the wait's deadline, by the clock of time()
  clock::duration held_{};
  std::optional<clock::time_point> held_since_{};
  signal_patience patience_;
  ending ended_;
  bool ends_ = false, is_interrupted_ = false;
  std::thread thread_;
};

/// For each other member, a pending receive that no message ever matches; it fails when the
/// connection breaks.
using gloo_sentinels = std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>>;

/// A buffer of Gloo that registers each of its waits with a gloo_watch.
class watched_buffer final : public ::gloo::transport::UnboundBuffer {
 public:
  watched_buffer(std::unique_ptr<::gloo::transport::UnboundBuffer> inner,
                 gloo_sentinels const& sentinels, gloo_watch& watch);

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override;
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override;
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;
  void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override;

 private:
  template <class Wait>
  bool wait(int other, gloo_watch::direction way, Wait of, std::chrono::milliseconds timeout) {
    {
      auto* const sentinel = other < 0 ? nullptr : sentinels_[std::size_t(other)].get();
      gloo_watch::waiting const now(watch_, *inner_, sentinel, way, timeout);
      if (of(std::chrono::hours{24 * 365}))
        return true;  // practically no limit, because the watch ends the wait
    }
    // The message may be complete although the connection has broken.
    try {
      if (of(std::chrono::milliseconds{1})) return true;
    } catch (std::exception const&) {
    }
    throw ::gloo::IoException("Connection broken in the middle of a message");
  }

  std::unique_ptr<::gloo::transport::UnboundBuffer> inner_;
  gloo_sentinels const& sentinels_;
  gloo_watch& watch_;
  int from_ = -1, to_ = -1;
};

/// A Gloo context whose buffers are all watched_buffers, including Gloo's internal buffers.
class watched_context final : public ::gloo::transport::Context {
 public:
  watched_context(std::shared_ptr<::gloo::transport::Context> inner,
                  std::shared_ptr<gloo_watch> watch);

  /// Posts the sentinel for the connection to `other`. The connection must exist.
  void guard(int other);

  std::unique_ptr<::gloo::transport::Pair>& getPair(int other) override {
    return inner_->getPair(other);
  }
  std::unique_ptr<::gloo::transport::Pair>& createPair(int other) override {
    return inner_->createPair(other);
  }
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                        std::size_t bytes) override;

 private:
  std::shared_ptr<gloo_watch> watch_;
  std::shared_ptr<::gloo::transport::Context> inner_;
  gloo_sentinels sentinels_;
  char unused_ = 0;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_watch.ipp"
#endif
