// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/host/barrier_slot.hpp"
#include "plait/backend/host/thread_barrier.hpp"
#include "plait/backend/host/thread_channel.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The state that the ranks of one process share: the groups in which they communicate, and the
/// barrier by which a deadlock, a failed rank or a time-out becomes an exception on every waiting
/// rank.
///
/// Threads: each rank is one thread, which alone uses that rank's communicators. add_group() may be
///          called only before the ranks start; abort() may be called by any thread at any time.
/// Errors:  after the first deadlock, time-out or abort the world stays broken: every wait throws.
class thread_world {
 public:
  explicit thread_world(int ranks, thread_options options = {})
      : size_(checked(ranks)), room_(ranks, options) {}

  thread_world(thread_world const&) = delete;
  thread_world& operator=(thread_world const&) = delete;

  [[nodiscard]] int size() const noexcept { return size_; }

  /// Declares a group by its world ranks in group order; returns its id: 0, 1, 2, ... Two groups
  /// with equal members are one group, so that all calls among these ranks are compared.
  [[gnu::cold]] int add_group(std::vector<int> members);

  /// Creates the object for the posted messages of `rank`, which the rank's communicators and its
  /// device share.
  [[nodiscard]] [[gnu::cold]] std::shared_ptr<detail::thread_messages> messages_of(int rank) {
    return std::shared_ptr<detail::thread_messages>(new detail::thread_messages(room_, rank));
  }

  /// Makes every current and future wait of a rank throw job_aborted with this message, unless the
  /// world is broken already.
  [[gnu::cold]] void abort(std::string message) { room_.abort(std::move(message)); }

  /// Notes that all ranks begin to run; run_ranks() calls it.
  ///
  /// Errors:  the exception of the first failure if the world is broken.
  void start() { room_.start(); }

  /// Notes that `rank` makes no more calls, so that a rank that waits for it gets an error;
  /// run_ranks() calls it.
  void finish(int rank) { room_.finish(rank); }

 private:
  friend class thread_communicator;

  static int checked(int ranks);

  int size_;
  detail::thread_barrier room_;
  lean_vector<std::unique_ptr<detail::thread_group>> groups_;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/thread_world.ipp"
#endif
