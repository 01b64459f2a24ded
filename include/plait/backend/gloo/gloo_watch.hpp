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

/// Ends waits that Gloo forgets: a connection that breaks wakes those whose message has not begun,
/// and not the one whose message is half on its way. A thread looks whether the connection of a
/// long wait has broken, whether a signal is to end it, and whether its time is over.
///
/// Cost:    a mutex that is nearly always free, twice for each wait.
/// Threads: one thread waits; the looking one is the watch's own.
class gloo_watch {
 public:
  using buffer = ::gloo::transport::UnboundBuffer;
  using clock = std::chrono::steady_clock;
  enum class direction { in, out };

  gloo_watch() : thread_([this] { look(); }) {}
  gloo_watch(gloo_watch const&) = delete;
  gloo_watch& operator=(gloo_watch const&) = delete;
  ~gloo_watch();

  /// The signal that has ended a wait, and how long that one went on behind it.
  struct ending {
    int signal = 0;
    std::chrono::milliseconds waited{};
  };
  [[nodiscard]] ending ended();
  /// Ends the wait of the other thread, and all that it begins from now on.
  void interrupt();
  [[nodiscard]] bool is_interrupted();
  /// The time of day, without that in which it was held.
  [[nodiscard]] clock::time_point time();
  /// Time-outs stand still until hold(false).
  void hold(bool on);
  /// \see signal_patience
  void forget_waits();

  /// What the calling thread waits for while this lives.
  class waiting {
   public:
    /// `sentinel` waits on the same connection for what never comes.
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
  // A wait that has been aborted before it begins ends at once, or throws what the connection has
  // thrown.
  static bool is_broken(buffer& sentinel);

  std::mutex mutex_;
  std::condition_variable wakes_;
  buffer *buffer_ = nullptr, *sentinel_ = nullptr;
  direction way_ = direction::in;
  std::uint64_t waits_ = 0;
  clock::time_point end_{};  // of the wait, as time() has it
  clock::duration held_{};
  std::optional<clock::time_point> held_since_{};
  signal_patience patience_;
  ending ended_;
  bool ends_ = false, is_interrupted_ = false;
  std::thread thread_;
};

/// For each other member a receive that never ends; it learns when the connection breaks.
using gloo_sentinels = std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>>;

/// A buffer whose waits are watched.
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
      if (of(std::chrono::hours{24 * 365})) return true;  // the watch ends it
    }
    // The message may have ended while the connection broke.
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

/// A context of Gloo's, all of whose buffers are watched, also those that Gloo makes for itself.
class watched_context final : public ::gloo::transport::Context {
 public:
  watched_context(std::shared_ptr<::gloo::transport::Context> inner,
                  std::shared_ptr<gloo_watch> watch);

  /// Once the connection to `other` is there.
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
