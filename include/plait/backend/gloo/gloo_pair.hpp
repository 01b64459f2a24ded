// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/common/error.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>

#include "plait/core/clock.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/axis.hpp"

namespace plait::detail {

/// A Gloo connection over a given socket, whose other end has passed the challenge.
///
/// An exception in Gloo's own thread, as for bytes that are not in its protocol, would end the
/// process. Here it ends the connection, and the thread that waits on it throws the reason.
class gloo_pair final : public ::gloo::transport::tcp::Pair {
 public:
  using base = ::gloo::transport::tcp::Pair;

  /// Closes the pair's own port. Gloo of before 2023 listens at a port as soon as there is a pair,
  /// and takes the first peer that connects, without a check.
  ///
  /// Errors: engine_error if a peer has connected before that; then the context is unusable, too.
  gloo_pair(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
            int member, std::chrono::milliseconds timeout);

  gloo_pair(gloo_pair const&) = delete;
  gloo_pair& operator=(gloo_pair const&) = delete;
  /// The base class has closed it to Gloo's thread; the load orders this thread after that thread's
  /// last access.
  ~gloo_pair() override { (void)is_handled_.load(std::memory_order_acquire); }

  /// \see gloo_listener
  void adopt(file_descriptor socket);

  void handleEvents(int events) override;

 private:
  void handle(int events);

  std::atomic<bool> is_adopted_{false}, is_handled_{false};
};

/// A Gloo context with adopted connections.
class gloo_context final : public ::gloo::transport::tcp::Context {
 public:
  using base = ::gloo::transport::tcp::Context;
  using base::base;

  std::unique_ptr<::gloo::transport::Pair>& createPair(int member) override;
  void adopt(int member, file_descriptor socket);
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_pair.ipp"
#endif
