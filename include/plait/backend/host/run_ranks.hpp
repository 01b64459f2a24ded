// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "plait/backend/host/thread_world.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

// Rethrows the exception of rank `rank`, so that its text names the rank: a plait error without a
// rank in its text is rethrown with the same type and "rank R: " in front of the text. Any other
// standard exception is nested in a plait::error with such a text.
[[noreturn]] [[gnu::cold]] void rethrow_with_rank(std::exception_ptr const& failure, int rank);

[[gnu::cold]] std::string failure_text(std::exception_ptr const& failure, int rank);

}  // namespace plait::detail

namespace plait::ext {

/// Runs `program(rank)` for each rank of `world`, rank 0 on the calling thread and each other rank
/// on its own thread, and returns when all have ended.
///
/// Errors:  the first exception of a rank aborts the world, so that waits of the other ranks throw
///          job_aborted. When all ranks have ended, the first exception is rethrown here, with a
///          text that names the rank; a plait error keeps its type, and another standard exception
///          is nested in a plait::error. A job_ended does not abort the world, since every rank
///          throws it at the end of its own work.
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
    lean_vector<std::jthread> threads;  // its destructor joins the threads
    try {
      threads.reserve(static_cast<std::size_t>(world.size()));
      for (int rank = 1; rank < world.size(); ++rank) threads.push_back(std::jthread(run, rank));
    } catch (std::system_error const& e) {
      world.abort(concat({"run_ranks: a thread could not be started: ", e.what()}));
      throw;
    }
    run(0);
  }
  if (failure) detail::rethrow_with_rank(failure, failed_rank);
}

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/run_ranks.ipp"
#endif
