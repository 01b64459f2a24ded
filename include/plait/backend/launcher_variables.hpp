// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A function that looks up an environment variable, like std::getenv: returns null if it is not
/// set.
using find_variable = function_reference<char const*(char const*)>;

/// Looks up a variable in the environment of this process.
inline constexpr auto own_environment = [](char const* name) -> char const* {
  return std::getenv(name);
};

/// The names of the environment variables in which a launcher passes the rank to a process; null if
/// the launcher does not set such a variable.
struct launcher_variables {
  char const* name;  ///< name of the launcher
  char const *rank, *world_size, *local_rank, *local_size, *node;
  std::array<char const*, 3> job;  ///< variables whose values differ between jobs of the launcher
  /// A variable that only the launcher sets. A user may set the other variables by hand, so this
  /// one shows that the launcher has started the process.
  char const* sign;
};

inline constexpr std::size_t srun_launcher = 4;

// The launchers, in the order in which they are searched. If one launcher has started another, for
// example srun has started torchrun, the variables of the inner launcher are valid. Batch systems
// are therefore last.
inline constexpr std::array<launcher_variables, srun_launcher + 1> launchers{
    {{"plait's launcher",
      "PLAIT_RANK",
      "PLAIT_WORLD_SIZE",
      "PLAIT_LOCAL_RANK",
      "PLAIT_LOCAL_SIZE",
      nullptr,
      {"PLAIT_JOB"},
      "PLAIT_JOB"},
     {"torchrun",
      "RANK",
      "WORLD_SIZE",
      "LOCAL_RANK",
      "LOCAL_WORLD_SIZE",
      "GROUP_RANK",
      {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"},
      "TORCHELASTIC_RUN_ID"},
     {"Open MPI",
      "OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE",
      nullptr,
      {"PMIX_NAMESPACE"},
      "PMIX_NAMESPACE"},
     {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr, {}, "PMI_FD"},
     {"srun",
      "SLURM_PROCID",
      "SLURM_STEP_NUM_TASKS",
      "SLURM_LOCALID",
      nullptr,  // null: the number is computed from SLURM_STEP_TASKS_PER_NODE
      "SLURM_NODEID",
      {"SLURM_JOB_ID", "SLURM_STEP_ID"},
      "SLURM_STEP_ID"}}};

/// Returns the number in `text`, the value of environment variable `name`.
///
/// Errors: input_error if the text is not a number from 0 to 2147483647.
[[gnu::cold]] int environment_number(char const* name, std::string_view text);

/// The Slurm step to which a process belongs. It distinguishes tasks of srun from other processes
/// with variables of Slurm: batch scripts have SLURM_PROCID=0 and the number of tasks that srun
/// would start, and the shell that salloc starts looks like a step of one task. Both have step
/// numbers that Slurm reserves, the largest possible ones.
class slurm_step {
 public:
  explicit slurm_step(find_variable variable) : variable_(variable) {}

  /// Returns true if srun has started the process.
  [[nodiscard]] [[gnu::cold]] bool is_of_srun() const;
  /// Returns true if the process runs in an allocation of Slurm, whichever launcher has started it.
  [[nodiscard]] bool is_allocated() const { return variable_("SLURM_JOB_ID") != nullptr; }
  /// Throws input_error. Its text says that the process runs in a batch script or a shell of salloc
  /// and is not a task of srun.
  [[noreturn]] [[gnu::cold]] void refuse() const;
  /// Throws input_error if the variables of the step and of the job contradict each other: a job
  /// that was submitted from within a step inherits that step's variables.
  [[gnu::cold]] void check() const;
  /// Returns the number of tasks on node number `node`, from SLURM_STEP_TASKS_PER_NODE (for example
  /// "4(x2),3": 4 tasks on nodes 0 and 1, and 3 on node 2); 0 if it is unknown.
  [[nodiscard]] [[gnu::cold]] int tasks_of_node(int node) const;

 private:
  [[nodiscard]] std::string_view text_of(char const* name) const;

  find_variable variable_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/launcher_variables.ipp"
#endif
