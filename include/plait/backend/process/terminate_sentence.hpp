// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// While an object of this type exists, an uncaught exception in a thread of an engine's library
/// ends the process with a sentence that names the rank, the library and the exception, and then by
/// SIGABRT as usual. For threads of the program the previous handler is called. The engines of a
/// process share one object.
///
/// Threads: C libraries such as MPI throw nothing in their threads.
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
