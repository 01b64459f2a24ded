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
            int member, std::chrono::milliseconds timeout);

  gloo_pair(gloo_pair const&) = delete;
  gloo_pair& operator=(gloo_pair const&) = delete;
  /// It is closed, so that Gloo's thread comes no more; what that has read it has read before.
  ~gloo_pair() override { (void)is_handled_.load(std::memory_order_acquire); }

  /// \see gloo_listener
  void adopt(file_descriptor socket);

  void handleEvents(int events) override;

 private:
  void handle(int events);

  std::atomic<bool> is_adopted_{false}, is_handled_{false};
};

/// A context of Gloo's with connections that are adopted.
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
