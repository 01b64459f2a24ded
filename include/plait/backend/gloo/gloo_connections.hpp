// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/backend/gloo/gloo_challenge.hpp"
#include "plait/backend/gloo/gloo_device.hpp"
#include "plait/backend/gloo/gloo_listener.hpp"
#include "plait/backend/gloo/gloo_pair.hpp"
#include "plait/backend/gloo/gloo_watch.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/terminate_sentence.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

/// A gloo::Context over connections whose ends have shown each other who they are: each two members
/// have one.
class gloo_mesh final : public ::gloo::Context {
 public:
  /// `timeout`: of Gloo's own calls, where they are not told another.
  gloo_mesh(int own_rank, int members, gloo_interface const& over,
            std::shared_ptr<gloo_watch> const& watch, std::chrono::milliseconds timeout)
      : ::gloo::Context(own_rank, members), listener_(over.address, over.address_bytes) {
    device_ = over.device;
    setTimeout(timeout);
    for (int tries = 1; inner_ == nullptr; ++tries) try {
        make(over, watch, timeout);
      } catch (engine_error const&) {
        constexpr int most = 3;
        if (tries == most) throw;
      }
  }
  gloo_mesh(gloo_mesh const&) = delete;
  gloo_mesh& operator=(gloo_mesh const&) = delete;
  /// Gloo's thread must have left the sentinels before they go. Gloo waits for it there, too, but
  /// with a counter that orders nothing; closing takes the mutex under which they are woken.
  ~gloo_mesh() override { close(); }

  /// What waits on the connections ends, here and in the other processes.
  void close() noexcept {
    try {
      closeConnections();
    } catch (std::exception const&) {  // it is closed
    }
  }

  /// Where the others reach this member.
  [[nodiscard]] std::string const& address() const { return listener_.address(); }

  /// All members call it with the addresses of all. \see gloo_listener
  void connect(gloo_identity const& identity, std::vector<std::string> addresses,
               std::function<void(gloo_listener::progress const&)> const& look) {
    gloo_challenge const challenge(identity, rank, std::move(addresses));
    auto sockets = listener_.connect(challenge, look);
    for (int member = 0; member < size; ++member)
      if (member != rank) {
        inner_->adopt(member, std::move(sockets[static_cast<std::size_t>(member)]));
        watched_->guard(member);
      }
  }

 private:
  void make(gloo_interface const& over, std::shared_ptr<gloo_watch> const& watch,
            std::chrono::milliseconds timeout) {
    auto inner = std::make_shared<gloo_context>(over.device, rank, size);
    inner->setTimeout(timeout);
    for (int member = 0; member < size; ++member)
      if (member != rank) inner->createPair(member);
    inner_ = std::move(inner);
    watched_ = std::make_shared<watched_context>(inner_, watch);
    transportContext_ = watched_;
  }

  gloo_listener listener_;
  std::shared_ptr<gloo_context> inner_;
  std::shared_ptr<watched_context> watched_;
};

/// Gloo writes to connections that the other end may have closed, and the signal SIGPIPE of that
/// would end the process. While one of these lives it is ignored, unless the program has said
/// something of its own. The engines of a process share one.
class ignored_sigpipe {
 public:
  static std::shared_ptr<ignored_sigpipe> shared() {
    static std::weak_ptr<ignored_sigpipe> last;
    auto now = last.lock();
    if (now == nullptr) last = now = std::make_shared<ignored_sigpipe>();
    return now;
  }
  ignored_sigpipe() {
    struct sigaction found{};
    is_ours_ = ::sigaction(SIGPIPE, nullptr, &found) == 0 && is(found, SIG_DFL);
    if (is_ours_) ::signal(SIGPIPE, SIG_IGN);
  }
  ignored_sigpipe(ignored_sigpipe const&) = delete;
  ignored_sigpipe& operator=(ignored_sigpipe const&) = delete;
  ~ignored_sigpipe() {
    struct sigaction found{};
    if (is_ours_ && ::sigaction(SIGPIPE, nullptr, &found) == 0 && is(found, SIG_IGN))
      ::signal(SIGPIPE, SIG_DFL);
  }

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
                   std::chrono::milliseconds limit, std::chrono::milliseconds left)
      : sentence(terminate_sentence::shared(own_rank)),
        timeout(limit),
        over(std::move(way)),
        identity(std::move(of)),
        world(std::make_shared<gloo_mesh>(own_rank, processes, over, watch, left)) {}
  /// Those of another thread of the same process.
  gloo_connections(gloo_connections const& first, std::shared_ptr<gloo_watch> own_watch,
                   std::shared_ptr<gloo_mesh> own_world)
      : sentence(first.sentence),
        timeout(first.timeout.load()),
        over(first.over),
        identity(first.identity),
        watch(std::move(own_watch)),
        world(std::move(own_world)) {}

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
  void add(std::shared_ptr<gloo_mesh> const& further) {
    std::scoped_lock const lock{mutex_};
    others_.push_back(further);
  }
  /// So that the other processes see at once that this one has failed, and the other thread, too.
  void fail() noexcept {
    close();
    if (auto const other = beside.lock(); other != nullptr) {
      other->other_has_failed = true;
      other->close();
      other->watch->interrupt();
    }
  }

 private:
  void close() noexcept {
    has_failed = true;
    world->close();
    std::scoped_lock const lock{mutex_};
    for (auto const& other : others_)
      if (auto const mesh = other.lock(); mesh != nullptr) mesh->close();
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<gloo_mesh>> others_;
};

/// What Gloo says, without the place in its sources and in one line.
[[nodiscard]] [[gnu::cold]] inline std::string gloo_words(std::exception const& problem) {
  std::string_view text(problem.what());
  if (auto const end = text.find("] "); text.starts_with('[') && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  return escaped(text.substr(0, text.find('\n')));
}

}  // namespace plait::detail
