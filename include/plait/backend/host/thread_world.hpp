// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/host/thread_seat.hpp"
#include "plait/backend/host/waiting_room.hpp"
#include "plait/core/error.hpp"

namespace plait {

/// What the ranks of one process share: the groups in which they communicate and the state that
/// turns a deadlock, a failed rank or a hang into an error on every waiting rank.
///
/// Threads: each rank is one thread, which alone uses that rank's communicators. add_group() is for
///          the time before the ranks start; abort() may be called by any thread at any time.
/// Errors:  after the first deadlock, time-out or abort the world stays broken: every wait throws.
class thread_world {
 public:
  explicit thread_world(int ranks, thread_options options = {})
      : size_(checked(ranks)), room_(ranks, options) {}

  thread_world(thread_world const&) = delete;
  thread_world& operator=(thread_world const&) = delete;

  [[nodiscard]] int size() const noexcept { return size_; }

  /// Declares a group by its world ranks in group order; returns its id: 0, 1, 2, ...
  [[gnu::cold]] int add_group(std::vector<int> members) {
    auto sorted = members;
    std::ranges::sort(sorted);
    if (sorted.empty() || sorted.front() < 0 || sorted.back() >= size_ ||
        std::ranges::adjacent_find(sorted) != sorted.end())
      throw input_error("thread_world::add_group: " + detail::group_text(members) +
                        " is not a set of different ranks from 0 to " + std::to_string(size_ - 1));
    auto& group = *groups_.emplace_back(std::make_unique<detail::thread_group>(std::move(members)));
    room_.watch(group.arrivals);
    for (auto& box : group.mailboxes) room_.watch(box.state);
    return static_cast<int>(groups_.size()) - 1;
  }

  /// Every present and future wait of a rank throws job_aborted with this message, except where an
  /// earlier failure has already been declared.
  void abort(std::string message) { room_.abort(std::move(message)); }

  /// Says that all ranks run; run_ranks() calls it.
  ///
  /// Errors:  that of the earlier failure if the world is broken.
  void start() { room_.start(); }

  /// Says that `rank` will call nothing any more, so that a rank that waits for it is told;
  /// run_ranks() calls it.
  void finish(int rank) { room_.finish(rank); }

 private:
  friend class thread_communicator;

  static int checked(int ranks) {
    if (ranks < 1)
      throw input_error("thread_world: " + std::to_string(ranks) +
                        " ranks; there must be at least 1");
    return ranks;
  }

  int size_;
  detail::waiting_room room_;
  std::vector<std::unique_ptr<detail::thread_group>> groups_;
};

namespace detail {

// Rethrows what rank `rank` threw. A plait error whose text names no rank is rethrown as the same
// type with "rank R: " before the text; any other standard exception nested in such an error.
[[noreturn]] [[gnu::cold]] inline void rethrow_with_rank(std::exception_ptr const& failure,
                                                         int rank) {
  auto const prefix = "rank " + std::to_string(rank) + ": ";
  try {
    std::rethrow_exception(failure);
  } catch (error const& e) {
    std::string const text = e.what();
    if (text.find("rank ") != std::string::npos) throw;
    if (typeid(e) == typeid(input_error)) throw input_error(prefix + text);
    if (typeid(e) == typeid(size_mismatch)) throw size_mismatch(prefix + text);
    if (typeid(e) == typeid(collective_mismatch)) throw collective_mismatch(prefix + text);
    if (typeid(e) == typeid(error)) throw error(prefix + text);
    throw;
  } catch (std::exception const& e) {
    std::throw_with_nested(error(prefix + e.what()));
  }
}

[[gnu::cold]] inline std::string failure_text(std::exception_ptr const& failure, int rank) {
  auto const subject = "rank " + std::to_string(rank) + " failed";
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) {
    return subject + ": " + e.what();
  } catch (...) {
    return subject + " with an exception that is not a std::exception";
  }
}

}  // namespace detail

/// Runs `program(rank)` for each rank of `world`, rank 0 on the calling thread and the others on
/// threads of their own, and returns when all have ended.
///
/// Errors:  the first failure aborts the world and is rethrown here when all ranks have ended; the
///          job_aborted that the other ranks then throw is not. A plait error keeps its type;
///          another standard exception is nested in a plait::error. The text names the rank. A
///          job_ended aborts nothing: all ranks throw it, each when it has done its part.
template <class Program>
[[gnu::cold]] void run_ranks(thread_world& world, Program const& program) {
  std::mutex mutex;
  std::exception_ptr failure;
  int failed_rank = -1;

  auto const run = [&](int rank) {
    auto const keep_first = [&] {
      std::scoped_lock const lock{mutex};
      if (failure) return;
      failure = std::current_exception();
      failed_rank = rank;
    };
    try {
      program(rank);
    } catch (job_ended const&) {
      keep_first();
    } catch (...) {
      keep_first();
      world.abort(detail::failure_text(std::current_exception(), rank));
    }
    world.finish(rank);
  };

  world.start();
  {
    std::vector<std::jthread> threads;  // joins when it goes
    try {
      threads.reserve(static_cast<std::size_t>(world.size()));
      for (int rank = 1; rank < world.size(); ++rank) threads.emplace_back(run, rank);
    } catch (std::system_error const& e) {
      world.abort("run_ranks: a thread could not be started: " + std::string(e.what()));
      throw;
    }
    run(0);
  }
  if (failure) detail::rethrow_with_rank(failure, failed_rank);
}

}  // namespace plait
