// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// While one of these lives, a thread that an engine's library has started and that fails by an
/// exception ends the process with a sentence that names the rank, the library and what was thrown,
/// and by SIGABRT as before. For threads of the program the handler of before is called. The
/// engines of a process share one.
///
/// Threads: libraries in C, as MPI is, throw nothing in theirs.
class terminate_sentence {
 public:
  static std::shared_ptr<terminate_sentence> shared(int rank);
  /// The calling thread is one of `library`, a text that stays.
  static void mark_thread(char const* library) { library_of_thread() = library; }

  terminate_sentence() { before() = std::set_terminate(handle); }
  terminate_sentence(terminate_sentence const&) = delete;
  terminate_sentence& operator=(terminate_sentence const&) = delete;
  ~terminate_sentence() {
    if (std::get_terminate() == handle) std::set_terminate(before());
  }

 private:
  static std::atomic<int>& of_rank();
  static std::atomic<std::terminate_handler>& before();
  static char const*& library_of_thread();

  [[noreturn]] static void handle();
  static constexpr std::size_t most_bytes = 500;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/terminate_sentence.ipp"
#endif
