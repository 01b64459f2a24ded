// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_watch.hpp"

#include <utility>

namespace plait::detail {

PLAIT_DECL gloo_watch::~gloo_watch() {
  {
    std::scoped_lock const lock{mutex_};
    ends_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

PLAIT_DECL gloo_watch::ending gloo_watch::ended() {
  std::scoped_lock const lock{mutex_};
  return ended_;
}

PLAIT_DECL void gloo_watch::interrupt() {
  std::scoped_lock const lock{mutex_};
  is_interrupted_ = true;
}

PLAIT_DECL bool gloo_watch::is_interrupted() {
  std::scoped_lock const lock{mutex_};
  return is_interrupted_;
}

PLAIT_DECL gloo_watch::clock::time_point gloo_watch::time() {
  std::scoped_lock const lock{mutex_};
  return counted();
}

PLAIT_DECL void gloo_watch::hold(bool on) {
  std::scoped_lock const lock{mutex_};
  if (on == held_since_.has_value()) return;
  if (on) {
    held_since_ = clock::now();
  } else {
    held_ += clock::now() - *held_since_;
    held_since_.reset();
  }
}

PLAIT_DECL void gloo_watch::forget_waits() {
  std::scoped_lock const lock{mutex_};
  patience_.forget();
}

PLAIT_DECL gloo_watch::waiting::waiting(gloo_watch& watch, buffer& what, buffer* sentinel,
                                        direction way, std::chrono::milliseconds timeout)
    : watch_(watch) {
  watch_.set(&what, sentinel, way, timeout);
}

PLAIT_DECL void gloo_watch::set(buffer* what, buffer* sentinel, direction way,
                                std::chrono::milliseconds timeout) {
  std::scoped_lock const lock{mutex_};
  end_ = counted() + timeout;
  buffer_ = what;
  sentinel_ = sentinel;
  way_ = way;
  ++waits_;
}

PLAIT_DECL void gloo_watch::look() {
  constexpr std::chrono::milliseconds between{30};
  std::uint64_t seen = 0;
  std::unique_lock lock{mutex_};
  while (!wakes_.wait_for(lock, between, [this] { return ends_; })) {
    bool const is_long = seen == waits_;
    seen = waits_;
    if (buffer_ == nullptr) continue;
    int const signal = patience_.look(waits_, clock::now(), !held_since_);
    bool const ends = is_interrupted_ || counted() >= end_;
    if (signal != 0) ended_ = {signal, patience_.waited()};
    else if (!ends && (!is_long || sentinel_ == nullptr || !is_broken(*sentinel_))) continue;
    if (way_ == direction::in) buffer_->abortWaitRecv();
    else buffer_->abortWaitSend();
  }
}

PLAIT_DECL bool gloo_watch::is_broken(buffer& sentinel) {
  try {
    sentinel.abortWaitRecv();
    (void)sentinel.waitRecv(nullptr, std::chrono::hours{1});
    return false;
  } catch (std::exception const&) {
    return true;
  }
}

PLAIT_DECL watched_buffer::watched_buffer(std::unique_ptr<::gloo::transport::UnboundBuffer> inner,
                                          gloo_sentinels const& sentinels, gloo_watch& watch)
    : ::gloo::transport::UnboundBuffer(inner->ptr, inner->size),
      inner_(std::move(inner)),
      sentinels_(sentinels),
      watch_(watch) {}

PLAIT_DECL bool watched_buffer::waitRecv(int* rank, std::chrono::milliseconds timeout) {
  using way = gloo_watch::direction;
  return wait(from_, way::in, [&](auto limit) { return inner_->waitRecv(rank, limit); }, timeout);
}

PLAIT_DECL bool watched_buffer::waitSend(int* rank, std::chrono::milliseconds timeout) {
  using way = gloo_watch::direction;
  return wait(to_, way::out, [&](auto limit) { return inner_->waitSend(rank, limit); }, timeout);
}

PLAIT_DECL void watched_buffer::send(int to, std::uint64_t slot, std::size_t offset,
                                     std::size_t bytes) {
  to_ = to;
  inner_->send(to, slot, offset, bytes);
}

PLAIT_DECL void watched_buffer::recv(int from, std::uint64_t slot, std::size_t offset,
                                     std::size_t bytes) {
  from_ = from;
  inner_->recv(from, slot, offset, bytes);
}

PLAIT_DECL void watched_buffer::recv(std::vector<int> from, std::uint64_t slot, std::size_t offset,
                                     std::size_t bytes) {
  from_ = -1;
  inner_->recv(std::move(from), slot, offset, bytes);
}

PLAIT_DECL watched_context::watched_context(std::shared_ptr<::gloo::transport::Context> inner,
                                            std::shared_ptr<gloo_watch> watch)
    : ::gloo::transport::Context(inner->rank, inner->size),
      watch_(std::move(watch)),
      inner_(std::move(inner)),
      sentinels_(static_cast<std::size_t>(size)) {}

PLAIT_DECL void watched_context::guard(int other) {
  constexpr std::uint64_t nobodys_slot = std::uint64_t{0x7f} << 56;
  auto& sentinel = sentinels_[std::size_t(other)];
  sentinel = inner_->createUnboundBuffer(&unused_, sizeof unused_);
  sentinel->recv(other, nobodys_slot, 0, sizeof unused_);
}

PLAIT_DECL std::unique_ptr<::gloo::transport::UnboundBuffer> watched_context::createUnboundBuffer(
    void* data, std::size_t bytes) {
  return std::make_unique<watched_buffer>(inner_->createUnboundBuffer(data, bytes), sentinels_,
                                          *watch_);
}

}  // namespace plait::detail
