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

/// A connection of Gloo over a socket that gloo_listener has opened; its other end has passed the
/// challenge.
///
/// If Gloo's thread throws, for example because bytes that Gloo cannot read have arrived, the
/// process would end. This class catches the exception and closes the connection instead; the
/// thread that waits for the connection throws the reason.
class gloo_pair final : public ::gloo::transport::tcp::Pair {
 public:
  using base = ::gloo::transport::tcp::Pair;

  /// Closes the port that older versions of Gloo (before 2023) open for each pair: Gloo would
  /// accept the first peer that connects to it, without a check.
  ///
  /// Errors: engine_error if a peer has connected to that port already; the context is then
  ///         unusable, too.
  gloo_pair(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
            int member, std::chrono::milliseconds timeout);

  gloo_pair(gloo_pair const&) = delete;
  gloo_pair& operator=(gloo_pair const&) = delete;
  /// The base class has removed the connection from Gloo's thread. The load synchronises with the
  /// last store of that thread, so that everything this thread has done happens before the
  /// destruction.
  ~gloo_pair() override { (void)is_handled_.load(std::memory_order_acquire); }

  /// Uses `socket` for this connection from now on. \see gloo_listener
  void adopt(file_descriptor socket);

  void handleEvents(int events) override;

 private:
  void handle(int events);

  std::atomic<bool> is_adopted_{false}, is_handled_{false};
};

/// A Gloo context whose connections use the sockets passed to adopt().
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
