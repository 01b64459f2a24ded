// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/terminate_sentence.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL std::shared_ptr<terminate_sentence> terminate_sentence::shared(int rank) {
  static std::weak_ptr<terminate_sentence> last;
  of_rank() = rank;
  auto now = last.lock();
  if (now == nullptr) last = now = std::make_shared<terminate_sentence>();
  return now;
}

PLAIT_DECL std::atomic<int>& terminate_sentence::of_rank() {
  static std::atomic<int> rank{0};
  return rank;
}

PLAIT_DECL std::atomic<std::terminate_handler>& terminate_sentence::before() {
  static std::atomic<std::terminate_handler> handler{nullptr};
  return handler;
}

PLAIT_DECL char const*& terminate_sentence::library_of_thread() {
  thread_local char const* library = nullptr;
  return library;
}

PLAIT_DECL void terminate_sentence::handle() {
  auto const* const library = library_of_thread();
  if (library == nullptr) {
    if (auto const next = before().load(); next != nullptr) next();
    std::abort();
  }
  std::string words = "there is no exception";
  try {
    if (auto const problem = std::current_exception()) std::rethrow_exception(problem);
  } catch (std::exception const& problem) {
    words = escaped(std::string(problem.what()).substr(0, most_bytes));
  } catch (...) {
    words = "an exception without a text";
  }
  auto const text =
      concat({"plait: rank ", of_rank().load(), ": ", library,
              " has failed in its own thread, which ends the process: ", words, "\n"});
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

}  // namespace plait::detail
