// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace plait {

/// Base of every exception that plait throws; `what()` is one sentence that names the rank, the
/// operation and the numbers that disagree.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value from outside (file, command line, environment) cannot be used; nothing was written.
struct input_error : error {
  using error::error;
};

/// Two sizes that must agree do not.
struct size_mismatch : error {
  using error::error;
};

/// Ranks of one group called different collectives, or the same one with different sizes.
struct collective_mismatch : error {
  using error::error;
};

/// The job ended because another rank failed; `what()` carries that rank's message.
struct job_aborted : error {
  using error::error;
};

}  // namespace plait
