// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/launcher_variables.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The rank of this process and the number of ranks, as the environment variables of a launcher or
/// the program state them.
struct process_ranks {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;   ///< rank among the processes of this machine
  int local_size = 0;   ///< number of processes on this machine; 0: not known
  int node = -1;        ///< number of this machine; -1: not known
  int first_here = -1;  ///< lowest rank that shares memory with this process (MPI); -1: not known
  /// The identifier that the launcher gives the job. It is equal in all processes of the job.
  std::string job{};
  /// A text that names the source of the values, such as "torchrun says (RANK, WORLD_SIZE, ...)";
  /// empty if the program has set the values.
  std::string source{};
  /// True if a launcher has started the process; false if a user has set the variables by hand.
  bool launched = false;

  /// Returns text such as "rank 3 of 8, local rank 1 of 4 on node 0, as torchrun says (RANK,
  /// WORLD_SIZE, ...)".
  [[nodiscard]] [[gnu::cold]] std::string text() const;
  friend bool operator==(process_ranks const&, process_ranks const&) = default;
};

}  // namespace plait::ext

namespace plait::detail {

/// Reads the ranks of this process from the variables of one launcher, whose rank variable is set.
class launcher_reader {
 public:
  launcher_reader(launcher_variables const& of, find_variable variable)
      : of_(of), variable_(variable) {}

  [[nodiscard]] [[gnu::cold]] process_ranks read();

 private:
  [[nodiscard]] bool has(char const* name) const {
    return name != nullptr && variable_(name) != nullptr;
  }
  [[gnu::cold]] int number(char const* name);
  [[gnu::cold]] static void add(std::string& to, std::string const& word, char const* between);
  static std::string says(char const* name, int value);
  [[gnu::cold]] static void below(char const* name, int value, char const* limit, int size);

  launcher_variables const& of_;
  find_variable variable_;
  std::string used_;
};

/// Returns the first launcher whose variables for rank, size and local rank are all set; else the
/// first launcher whose rank variable is set; else null.
[[nodiscard]] [[gnu::cold]] launcher_variables const* find_launcher(find_variable variable);

}  // namespace plait::detail

namespace plait::ext {

/// Reads the variables of the first launcher among plait's launcher, torchrun, Open MPI, MPICH and
/// srun whose rank, size and local rank are all set. `variable(name)` is like std::getenv.
///
/// Errors: input_error if no launcher's variables are set, if some are missing, out of range or
///         contradictory, or if the process runs in Slurm but was not started by a launcher.
[[nodiscard]] [[gnu::cold]] process_ranks read_process_ranks(
    detail::find_variable variable = detail::own_environment);

/// Throws input_error unless the number of processes equals `plan_ranks`, the number of ranks of
/// the plan.
void check_world_size(process_ranks const& here, int plan_ranks);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/process_ranks.ipp"
#endif
