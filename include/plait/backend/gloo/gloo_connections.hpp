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

/// A gloo::Context over connections whose ends have shown each other who they are: each two members
/// have one.
class gloo_mesh final : public ::gloo::Context {
 public:
  /// `timeout`: of Gloo's own calls, where they are not told another.
  gloo_mesh(int own_rank, int members, gloo_interface const& over,
            std::shared_ptr<gloo_watch> const& watch, std::chrono::milliseconds timeout);
  gloo_mesh(gloo_mesh const&) = delete;
  gloo_mesh& operator=(gloo_mesh const&) = delete;
  /// Gloo's thread must have left the sentinels before they go. Gloo waits for it there, too, but
  /// with a counter that orders nothing; closing takes the mutex under which they are woken.
  ~gloo_mesh() override { close(); }

  /// What waits on the connections ends, here and in the other processes.
  void close() noexcept;

  /// Where the others reach this member.
  [[nodiscard]] std::string const& address() const { return listener_.address(); }

  /// All members call it with the addresses of all. \see gloo_listener
  void connect(gloo_identity const& identity, std::vector<std::string> addresses,
               std::function<void(gloo_listener::progress const&)> const& look);

 private:
  void make(gloo_interface const& over, std::shared_ptr<gloo_watch> const& watch,
            std::chrono::milliseconds timeout);

  gloo_listener listener_;
  std::shared_ptr<gloo_context> inner_;
  std::shared_ptr<watched_context> watched_;
};

/// Gloo writes to connections that the other end may have closed, and the signal SIGPIPE of that
/// would end the process. While one of these lives it is ignored, unless the program has said
/// something of its own. The engines of a process share one.
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

/// What an engine and the groups that one thread calls share: the connections of this process for
/// that thread, and whether one has failed.
struct gloo_connections {
  gloo_connections(gloo_interface way, gloo_identity of, int own_rank, int processes,
                   std::chrono::milliseconds limit, std::chrono::milliseconds left);
  /// Those of another thread of the same process.
  gloo_connections(gloo_connections const& first, std::shared_ptr<gloo_watch> own_watch,
                   std::shared_ptr<gloo_mesh> own_world);

  std::shared_ptr<ignored_sigpipe> no_signal = ignored_sigpipe::shared();
  std::shared_ptr<terminate_sentence> sentence;
  std::atomic<std::chrono::milliseconds> timeout;
  gloo_interface over;
  gloo_identity identity;
  std::shared_ptr<gloo_watch> watch = std::make_shared<gloo_watch>();
  std::shared_ptr<gloo_mesh> world;           ///< all groups' messages go over it
  std::weak_ptr<gloo_connections> beside{};   ///< those of the rank's other thread
  std::atomic<bool> has_failed{false};        ///< they are closed
  std::atomic<bool> other_has_failed{false};  ///< for that reason

  /// A mesh for the collectives of Gloo itself.
  void add(std::shared_ptr<gloo_mesh> const& further);
  /// So that the other processes see at once that this one has failed, and the other thread, too.
  void fail() noexcept;

 private:
  void close() noexcept;

  std::mutex mutex_;
  std::vector<std::weak_ptr<gloo_mesh>> others_;
};

/// What Gloo says, without the place in its sources and in one line.
[[nodiscard]] [[gnu::cold]] std::string gloo_words(std::exception const& problem);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_connections.ipp"
#endif
