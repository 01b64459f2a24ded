// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"

namespace plait {

/// Base of every exception that plait throws; `what()` is one sentence that names the rank, the
/// operation and the numbers that disagree.
///
/// Example (tests/reference/names_in_use_test.cpp error):
///     try {
///       plait::launch<job>(plait::threads{}, [](auto&) { throw plait::error("no disk"); });
///     } catch (plait::error const& problem) {  // all that plait throws
///       std::printf("%s\n", problem.what());   // rank 1: no disk
///     }
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// Joins the parts into the text of the error, for example throw plait::error({"rank ", rank, "
  /// has no disk"}).
  [[gnu::cold]] error(std::initializer_list<ext::text_part> parts);
};

/// A value that comes from outside the program (file, command line, environment) cannot be used;
/// nothing was written.
///
/// Example (tests/reference/names_in_use_test.cpp input_error):
///     try {
///       auto const text = plait::byte_text::from_file("no such file", 8);
///     } catch (plait::input_error const& problem) {  // a mistake of the user
///       std::printf("%s\n", problem.what());
///       return true;
///     }
struct input_error : error {
  using error::error;
};

/// Two sizes that must be equal differ.
struct size_mismatch : error {
  using error::error;
};

/// Ranks of one group called different collectives, or one collective with different sizes of data.
struct collective_mismatch : error {
  using error::error;
};

/// A device has less free memory than a rank requested. If the memory is for a plan, `what()` also
/// lists how much memory the plan needs on this rank, and for which purposes.
///
/// Units:   bytes. `held` is the memory that this rank already has; the rest of the used memory
///          belongs to other processes. 0 if the device does not report a number.
struct out_of_memory : error {
  struct numbers {
    std::size_t asked = 0, free = 0, total = 0, held = 0;
  };
  out_of_memory(std::string const& text, numbers const& in_bytes) : error(text), bytes(in_bytes) {}

  numbers bytes;
};

/// The job ends after the same step on all ranks, each of which throws this exception.
struct job_ended : error {
  using error::error;
};

/// The loss or the gradient norm of a step was not a finite number; `what()` names the first layer
/// with such an output, if it is known. The weights and the step number are unchanged. If the
/// program continues, it trains another batch with the same step number; see
/// `trainer_options::not_finite::skip`.
struct not_finite_error : job_ended {
  using job_ended::job_ended;
};

/// A rank stopped waiting for other ranks, because this process has caught SIGINT or SIGTERM; see
/// stop_on_signals.
struct wait_stopped_by_signal : error {
  wait_stopped_by_signal(std::string const& text, int number) : error(text), signal(number) {}

  int signal;
  /// Returns the exit code of the program, by the convention of shells: 130 for SIGINT, 143 for
  /// SIGTERM.
  [[nodiscard]] int exit_code() const { return 128 + signal; }
};

}  // namespace plait

namespace plait::ext {

/// The job ended because another rank failed; `what()` is the message of that rank.
struct job_aborted : error {
  using error::error;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/core/error.ipp"
#endif
