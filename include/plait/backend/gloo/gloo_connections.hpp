// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/backend/gloo/gloo_watch.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

/// A gloo::Context whose members exchange their addresses as they like: each pair of members has a
/// connection of its own and each end of it an address.
class gloo_mesh final : public ::gloo::Context {
 public:
  /// `timeout`: for all connections together, which Gloo multiplies by five.
  gloo_mesh(int own_rank, int members, std::shared_ptr<::gloo::transport::Device> const& device,
            std::shared_ptr<gloo_watch> watch, std::chrono::milliseconds timeout)
      : ::gloo::Context(own_rank, members) {
    constexpr int factor = 5;
    auto const each = std::max(timeout / factor, std::chrono::milliseconds{1});
    device_ = device;
    auto inner = device->createContext(rank, size);
    inner->setTimeout(each);
    watched_ = std::make_shared<watched_context>(std::move(inner), std::move(watch));
    transportContext_ = watched_;
    setTimeout(each);
    for (int member = 0; member < size; ++member)
      if (member != rank) transportContext_->createPair(member);
  }

  /// Of the ends of this member, in the order of the members; its own place is zeros.
  [[nodiscard]] std::string addresses() {
    std::string out(address_bytes * static_cast<std::size_t>(size), '\0');
    for (int member = 0; member < size; ++member)
      if (member != rank) {
        auto const bytes = getPair(member)->address().bytes();
        std::copy_n(bytes.begin(), std::min(bytes.size(), address_bytes),
                    out.begin() + static_cast<std::ptrdiff_t>(address_bytes) * member);
      }
    return out;
  }
  /// All members call it for the others in the order of the members.
  void connect(int member, std::string_view their_end) {
    auto const bytes = getPair(rank == 0 ? 1 : 0)->address().bytes().size();
    getPair(member)->connect({their_end.begin(), their_end.begin() + std::ptrdiff_t(bytes)});
    watched_->guard(member);
  }

  static constexpr std::size_t address_bytes = ::gloo::transport::Address::kMaxByteSize;

 private:
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

/// What an engine and its groups share: the connections of this process, and whether one has
/// failed.
struct gloo_connections {
  gloo_connections(std::shared_ptr<::gloo::transport::Device> over, int own_rank, int processes,
                   std::chrono::milliseconds limit, std::chrono::milliseconds left)
      : timeout(limit),
        device(std::move(over)),
        world(std::make_shared<gloo_mesh>(own_rank, processes, device, watch, left)) {}

  std::shared_ptr<ignored_sigpipe> no_signal = ignored_sigpipe::shared();
  std::chrono::milliseconds timeout;
  std::shared_ptr<::gloo::transport::Device> device;
  std::shared_ptr<gloo_watch> watch = std::make_shared<gloo_watch>();
  std::shared_ptr<gloo_mesh> world;              ///< all groups' messages go over it
  std::vector<std::weak_ptr<gloo_mesh>> others;  ///< for the collectives of Gloo itself
  bool has_failed = false;

  /// So that the other processes see at once that this one has failed.
  void close() noexcept {
    has_failed = true;
    auto const close_one = [](gloo_mesh& mesh) {
      try {
        mesh.closeConnections();
      } catch (std::exception const&) {  // it is closed
      }
    };
    close_one(*world);
    for (auto const& other : others)
      if (auto const mesh = other.lock(); mesh != nullptr) close_one(*mesh);
  }
};

/// What Gloo says, without the place in its sources and in one line.
[[nodiscard]] [[gnu::cold]] inline std::string gloo_words(std::exception const& problem) {
  std::string_view text(problem.what());
  if (auto const end = text.find("] "); text.starts_with('[') && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  return escaped(text.substr(0, text.find('\n')));
}

}  // namespace plait::detail
