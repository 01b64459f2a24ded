// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/launcher_variables.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The rank of this process, the number of ranks, and the launcher that says so.
struct process_ranks {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;   ///< among the processes of this machine
  int local_size = 0;   ///< how many of them this machine has; 0: nobody has said
  int node = -1;        ///< the number of this machine; -1: nobody has said
  int first_here = -1;  ///< the first rank of those that share memory (MPI); -1: nobody has said
  std::string job{};    ///< what the launcher calls the job; the same in all of its processes
  /// "torchrun says (RANK, WORLD_SIZE, ...)"; empty: the program has said it.
  std::string source{};
  /// Whether a launcher has started the process, not a hand that has set its variables.
  bool launched = false;

  /// "rank 3 of 8, local rank 1 of 4 on node 0, as torchrun says (RANK, WORLD_SIZE, ...)"
  [[nodiscard]] [[gnu::cold]] std::string text() const;
  friend bool operator==(process_ranks const&, process_ranks const&) = default;
};

}  // namespace plait::ext

namespace plait::detail {

/// Reads the variables of one launcher, of which the rank is there.
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

/// The first launcher whose rank, size and local rank are all there, since one may start another;
/// else the first whose rank is, else null.
[[nodiscard]] [[gnu::cold]] launcher_variables const* find_launcher(find_variable variable);

}  // namespace plait::detail

namespace plait::ext {

/// Reads the variables of plait's launcher, torchrun, Open MPI, MPICH and srun, the first of them
/// whose rank, size and local rank are all there. `variable(name)` is as std::getenv.
///
/// Errors: input_error if there are none, or some are missing, no sensible numbers, or contradict
///         each other, or if Slurm runs the process otherwise than by srun.
[[nodiscard]] [[gnu::cold]] process_ranks read_process_ranks(
    detail::find_variable variable = detail::own_environment);

/// Throws input_error unless the processes are as many as the ranks of the plan.
void check_world_size(process_ranks const& here, int plan_ranks);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/process_ranks.ipp"
#endif
