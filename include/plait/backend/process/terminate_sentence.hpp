// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

/// While one of these lives, a thread that an engine's library has started and that fails by an
/// exception ends the process with a sentence that names the rank, the library and what was thrown,
/// and by SIGABRT as before. For threads of the program the handler of before is called. The
/// engines of a process share one.
///
/// Threads: libraries in C, as MPI is, throw nothing in theirs.
class terminate_sentence {
 public:
  static std::shared_ptr<terminate_sentence> shared(int rank) {
    static std::weak_ptr<terminate_sentence> last;
    of_rank() = rank;
    auto now = last.lock();
    if (now == nullptr) last = now = std::make_shared<terminate_sentence>();
    return now;
  }
  /// The calling thread is one of `library`, a text that stays.
  static void mark_thread(char const* library) { library_of_thread() = library; }

  terminate_sentence() { before() = std::set_terminate(handle); }
  terminate_sentence(terminate_sentence const&) = delete;
  terminate_sentence& operator=(terminate_sentence const&) = delete;
  ~terminate_sentence() {
    if (std::get_terminate() == handle) std::set_terminate(before());
  }

 private:
  static std::atomic<int>& of_rank() {
    static std::atomic<int> rank{0};
    return rank;
  }
  static std::atomic<std::terminate_handler>& before() {
    static std::atomic<std::terminate_handler> handler{nullptr};
    return handler;
  }
  static char const*& library_of_thread() {
    thread_local char const* library = nullptr;
    return library;
  }

  [[noreturn]] static void handle() {
    auto const* const library = library_of_thread();
    if (library == nullptr) {
      if (auto const next = before().load(); next != nullptr) next();
      std::abort();
    }
    std::string words = "nothing was thrown";
    try {
      if (auto const problem = std::current_exception()) std::rethrow_exception(problem);
    } catch (std::exception const& problem) {
      words = escaped(std::string(problem.what()).substr(0, most_bytes));
    } catch (...) {
      words = "what was thrown has no words";
    }
    auto const text =
        concat({"plait: rank ", of_rank().load(), ": ", library,
                " has failed in its own thread, which ends the process: ", words, "\n"});
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    std::abort();
  }
  static constexpr std::size_t most_bytes = 500;
};

}  // namespace plait::detail
