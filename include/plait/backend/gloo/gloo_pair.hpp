// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gloo/common/error.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/terminate_sentence.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"

namespace plait::detail {

/// A connection of Gloo's over a socket that it is given, whose other end has shown who it is.
///
/// What Gloo throws in its own thread, as when bytes come that are none of its protocol, would end
/// the process; here it ends the connection, and the thread that waits on it learns why.
class gloo_pair final : public ::gloo::transport::tcp::Pair {
 public:
  using base = ::gloo::transport::tcp::Pair;

  /// Gloo of before 2023 listens at a port of its own as soon as there is a pair, and takes the
  /// first peer that comes. None may: it is closed at once.
  ///
  /// Errors: engine_error if somebody has come in between; then the context is of no use, too.
  gloo_pair(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
            int member, std::chrono::milliseconds timeout)
      : base(context, device, member, timeout) {
    std::scoped_lock const lock{m_};
    bool const is_taken = state_ == CONNECTED || ex_ != nullptr;
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));  // which takes it from Gloo's thread
    state_ = INITIALIZING;
    if (is_taken) throw engine_error("somebody has connected to a port of Gloo's");
  }

  gloo_pair(gloo_pair const&) = delete;
  gloo_pair& operator=(gloo_pair const&) = delete;
  /// It is closed, so that Gloo's thread comes no more; what that has read it has read before.
  ~gloo_pair() override { (void)is_handled_.load(std::memory_order_acquire); }

  /// \see gloo_listener
  void adopt(file_descriptor socket) {
    std::scoped_lock const lock{m_};
    int const on = 1;
    if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        ::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0)
      throw engine_error(
          concat({"a connection cannot be used: ", std::generic_category().message(errno)}));
    self_ = ::gloo::transport::tcp::Address::fromSockName(socket.get());
    peer_ = ::gloo::transport::tcp::Address::fromPeerName(socket.get());
    fd_ = socket.release();
    is_adopted_.store(true, std::memory_order_release);
    device_->registerDescriptor(fd_, EPOLLIN, this);
    changeState(CONNECTED);
  }

  void handleEvents(int events) override {
    handle(events);
    // Gloo waits for the end of this call without a mutex.
    is_handled_.store(true, std::memory_order_release);
  }

 private:
  void handle(int events) {
    if (!is_adopted_.load(std::memory_order_acquire)) return;
    terminate_sentence::mark_thread("Gloo");  // of what is thrown where it cannot be caught
    try {
      base::handleEvents(events);
    } catch (std::exception const& problem) {
      // Another thread that closes the connection holds the mutex and waits for this one.
      std::unique_lock const lock(m_, std::try_to_lock);
      if (!lock || ex_ != nullptr || state_ != CONNECTED) return;
      signalException(concat({"bytes have come that are none of Gloo's: ", problem.what()}));
    }
  }

  std::atomic<bool> is_adopted_{false}, is_handled_{false};
};

/// A context of Gloo's with connections that are adopted.
class gloo_context final : public ::gloo::transport::tcp::Context {
 public:
  using base = ::gloo::transport::tcp::Context;
  using base::base;

  std::unique_ptr<::gloo::transport::Pair>& createPair(int member) override {
    auto& place = pairs_[static_cast<std::size_t>(member)];
    place = std::make_unique<gloo_pair>(this, device_.get(), member, getTimeout());
    return place;
  }
  void adopt(int member, file_descriptor socket) {
    auto* const pair = pairs_[static_cast<std::size_t>(member)].get();
    static_cast<gloo_pair*>(pair)->adopt(std::move(socket));
  }
};

}  // namespace plait::detail
