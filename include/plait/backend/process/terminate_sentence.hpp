// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A guard that sets the terminate handler of the process while it exists: an uncaught exception in
/// a thread of an engine's library then prints a message with the rank, the library and the
/// exception, and ends the process by SIGABRT as usual. For threads of the program, the previous
/// handler is called. The engines of a process share one object.
///
/// Threads: mark_thread() must be called in each thread of a C++ library; threads of C libraries
///          such as MPI throw nothing.
class terminate_sentence {
 public:
  static std::shared_ptr<terminate_sentence> shared(int rank);
  /// Marks the calling thread as a thread of `library`, a text of static duration.
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
