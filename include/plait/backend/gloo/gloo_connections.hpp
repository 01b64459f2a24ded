// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <signal.h>
#include <csignal>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plait/backend/gloo/gloo_challenge.hpp"
#include "plait/backend/gloo/gloo_device.hpp"
#include "plait/backend/gloo/gloo_listener.hpp"
#include "plait/backend/gloo/gloo_pair.hpp"
#include "plait/backend/gloo/gloo_watch.hpp"
#include "plait/backend/process/terminate_sentence.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A gloo::Context with one connection for each pair of members; the ends of each connection have
/// passed gloo_challenge.
class gloo_mesh final : public ::gloo::Context {
 public:
  /// `timeout`: the limit for calls of Gloo that have no time-out argument.
  gloo_mesh(int own_rank, int members, gloo_interface const& over,
            std::shared_ptr<gloo_watch> const& watch, std::chrono::milliseconds timeout);
  gloo_mesh(gloo_mesh const&) = delete;
  gloo_mesh& operator=(gloo_mesh const&) = delete;
  /// Closes the connections, because Gloo's thread must have left the sentinels (see gloo_watch)
  /// before they are destroyed. Gloo's destructor waits for that, too, but with a counter that does
  /// not order memory accesses; closing takes the mutex under which Gloo's thread wakes the
  /// sentinels.
  ~gloo_mesh() override { close(); }

  /// Ends all waits on the connections, here and in the other processes.
  void close() noexcept;

  /// The address at which the other members reach this member.
  [[nodiscard]] std::string const& address() const { return listener_.address(); }

  /// Connects this member to all others; all members call it with the same addresses.
  /// \see gloo_listener
  void connect(gloo_identity const& identity, std::vector<std::string> addresses,
               std::function<void(gloo_listener::progress const&)> const& look);

 private:
  void make(gloo_interface const& over, std::shared_ptr<gloo_watch> const& watch,
            std::chrono::milliseconds timeout);

  gloo_listener listener_;
  std::shared_ptr<gloo_context> inner_;
  std::shared_ptr<watched_context> watched_;
};

/// A guard that ignores SIGPIPE while the guard exists, unless the program has set a handler: Gloo
/// may write to a connection that the other end has closed, and the signal would end the process.
/// All engines of a process share one object.
class ignored_sigpipe {
 public:
  static std::shared_ptr<ignored_sigpipe> shared();
  ignored_sigpipe();
  ignored_sigpipe(ignored_sigpipe const&) = delete;
  ignored_sigpipe& operator=(ignored_sigpipe const&) = delete;
  ~ignored_sigpipe();

 private:
  static bool is(struct sigaction const& what, void (*handler)(int)) {
    return (what.sa_flags & SA_SIGINFO) == 0 && what.sa_handler == handler;
  }
  bool is_ours_ = false;
};

/// The connections of one thread of this process to all other processes, with flags for failed
/// calls. The engine and the groups of that thread share this object.
struct gloo_connections {
  gloo_connections(gloo_interface way, gloo_identity of, int own_rank, int processes,
                   std::chrono::milliseconds limit, std::chrono::milliseconds left);
  /// The connections of the second thread of the process; `first`: the connections of its first
  /// thread.
  gloo_connections(gloo_connections const& first, std::shared_ptr<gloo_watch> own_watch,
                   std::shared_ptr<gloo_mesh> own_world);

  std::shared_ptr<ignored_sigpipe> no_signal = ignored_sigpipe::shared();
  std::shared_ptr<terminate_sentence> sentence;
  std::atomic<std::chrono::milliseconds> timeout;
  gloo_interface over;
  gloo_identity identity;
  std::shared_ptr<gloo_watch> watch = std::make_shared<gloo_watch>();
  std::shared_ptr<gloo_mesh> world;           ///< the connections to all processes
  std::weak_ptr<gloo_connections> beside{};   ///< the connections of the rank's other thread
  std::atomic<bool> has_failed{false};        ///< a call has failed; the connections are closed
  std::atomic<bool> other_has_failed{false};  ///< a call of the other thread has failed

  /// Adds connections that serve only Gloo's own collectives; fail() closes them, too.
  void add(std::shared_ptr<gloo_mesh> const& further);
  /// Closes all connections of both threads, so that the other processes see at once that this
  /// process has failed.
  void fail() noexcept;

 private:
  void close() noexcept;

  std::mutex mutex_;
  std::vector<std::weak_ptr<gloo_mesh>> others_;
};

/// Returns the message of an exception of Gloo, on one line and without the position in Gloo's
/// sources.
[[nodiscard]] [[gnu::cold]] std::string gloo_words(std::exception const& problem);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_connections.ipp"
#endif
