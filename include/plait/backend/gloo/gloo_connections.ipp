// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_connections.hpp"

#include <cstddef>
#include <string_view>
#include <utility>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL gloo_mesh::gloo_mesh(int own_rank, int members, gloo_interface const& over,
                                std::shared_ptr<gloo_watch> const& watch,
                                std::chrono::milliseconds timeout)
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

PLAIT_DECL void gloo_mesh::close() noexcept {
  try {
    closeConnections();
  } catch (std::exception const&) {  // the connection is closed already
  }
}

PLAIT_DECL void gloo_mesh::connect(
    gloo_identity const& identity, std::vector<std::string> addresses,
    std::function<void(gloo_listener::progress const&)> const& look) {
  gloo_challenge const challenge(identity, rank, std::move(addresses));
  auto sockets = listener_.connect(challenge, look);
  for (int member = 0; member < size; ++member)
    if (member != rank) {
      inner_->adopt(member, std::move(sockets[static_cast<std::size_t>(member)]));
      watched_->guard(member);
    }
}

PLAIT_DECL void gloo_mesh::make(gloo_interface const& over,
                                std::shared_ptr<gloo_watch> const& watch,
                                std::chrono::milliseconds timeout) {
  auto inner = std::make_shared<gloo_context>(over.device, rank, size);
  inner->setTimeout(timeout);
  for (int member = 0; member < size; ++member)
    if (member != rank) inner->createPair(member);
  inner_ = std::move(inner);
  watched_ = std::make_shared<watched_context>(inner_, watch);
  transportContext_ = watched_;
}

PLAIT_DECL std::shared_ptr<ignored_sigpipe> ignored_sigpipe::shared() {
  static std::weak_ptr<ignored_sigpipe> last;
  auto now = last.lock();
  if (now == nullptr) last = now = std::make_shared<ignored_sigpipe>();
  return now;
}

PLAIT_DECL ignored_sigpipe::ignored_sigpipe() {
  struct sigaction found{};
  is_ours_ = ::sigaction(SIGPIPE, nullptr, &found) == 0 && is(found, SIG_DFL);
  if (is_ours_) ::signal(SIGPIPE, SIG_IGN);
}

PLAIT_DECL ignored_sigpipe::~ignored_sigpipe() {
  struct sigaction found{};
  if (is_ours_ && ::sigaction(SIGPIPE, nullptr, &found) == 0 && is(found, SIG_IGN))
    ::signal(SIGPIPE, SIG_DFL);
}

PLAIT_DECL gloo_connections::gloo_connections(gloo_interface way, gloo_identity of, int own_rank,
                                              int processes, std::chrono::milliseconds limit,
                                              std::chrono::milliseconds left)
    : sentence(terminate_sentence::shared(own_rank)),
      timeout(limit),
      over(std::move(way)),
      identity(std::move(of)),
      world(std::make_shared<gloo_mesh>(own_rank, processes, over, watch, left)) {}

PLAIT_DECL gloo_connections::gloo_connections(gloo_connections const& first,
                                              std::shared_ptr<gloo_watch> own_watch,
                                              std::shared_ptr<gloo_mesh> own_world)
    : sentence(first.sentence),
      timeout(first.timeout.load()),
      over(first.over),
      identity(first.identity),
      watch(std::move(own_watch)),
      world(std::move(own_world)) {}

PLAIT_DECL void gloo_connections::add(std::shared_ptr<gloo_mesh> const& further) {
  std::scoped_lock const lock{mutex_};
  others_.push_back(further);
}

PLAIT_DECL void gloo_connections::fail() noexcept {
  close();
  if (auto const other = beside.lock(); other != nullptr) {
    other->other_has_failed = true;
    other->close();
    other->watch->interrupt();
  }
}

PLAIT_DECL void gloo_connections::close() noexcept {
  has_failed = true;
  world->close();
  std::scoped_lock const lock{mutex_};
  for (auto const& other : others_)
    if (auto const mesh = other.lock(); mesh != nullptr) mesh->close();
}

PLAIT_DECL std::string gloo_words(std::exception const& problem) {
  std::string_view text(problem.what());
  if (auto const end = text.find("] "); text.starts_with('[') && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  return escaped(text.substr(0, text.find('\n')));
}

}  // namespace plait::detail
