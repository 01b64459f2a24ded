// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_pair.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/terminate_sentence.hpp"
#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL gloo_pair::gloo_pair(::gloo::transport::tcp::Context* context,
                                ::gloo::transport::tcp::Device* device, int member,
                                std::chrono::milliseconds timeout)
    : base(context, device, member, timeout) {
  std::scoped_lock const lock{m_};
  bool const is_taken = state_ == CONNECTED || ex_ != nullptr;
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));  // removes it from Gloo's epoll set, too
  state_ = INITIALIZING;
  if (is_taken) throw engine_error("another program has connected to a port of Gloo");
}

PLAIT_DECL void gloo_pair::adopt(file_descriptor socket) {
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

PLAIT_DECL void gloo_pair::handleEvents(int events) {
  handle(events);
  // Gloo waits for the end of this call without a mutex, so this store orders the two threads.
  is_handled_.store(true, std::memory_order_release);
}

PLAIT_DECL void gloo_pair::handle(int events) {
  if (!is_adopted_.load(std::memory_order_acquire)) return;
  terminate_sentence::mark_thread("Gloo");  // for the message of std::terminate
  try {
    base::handleEvents(events);
  } catch (std::exception const& problem) {
    // If try_to_lock fails, another thread is closing the connection and waits for this thread.
    std::unique_lock const lock(m_, std::try_to_lock);
    if (!lock || ex_ != nullptr || state_ != CONNECTED) return;
    signalException(concat({"bytes have arrived that are not Gloo's: ", problem.what()}));
  }
}

PLAIT_DECL std::unique_ptr<::gloo::transport::Pair>& gloo_context::createPair(int member) {
  auto& place = pairs_[static_cast<std::size_t>(member)];
  place = std::make_unique<gloo_pair>(this, device_.get(), member, getTimeout());
  return place;
}

PLAIT_DECL void gloo_context::adopt(int member, file_descriptor socket) {
  auto* const pair = pairs_[static_cast<std::size_t>(member)].get();
  static_cast<gloo_pair*>(pair)->adopt(std::move(socket));
}

}  // namespace plait::detail
