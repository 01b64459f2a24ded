// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Looks up an environment variable, as std::getenv: null if it is not set.
using find_variable = function_reference<char const*(char const*)>;

/// Looks up a variable in the environment of this process.
inline constexpr auto own_environment = [](char const* name) -> char const* {
  return std::getenv(name);
};

/// The variables by which a launcher tells a process its rank; null: the launcher has none.
struct launcher_variables {
  char const* name;  ///< name of the launcher
  char const *rank, *world_size, *local_rank, *local_size, *node;
  std::array<char const*, 3> job;  ///< these distinguish the launcher's jobs
  char const* sign;                ///< set by the launcher only; a user may set the others by hand
};

inline constexpr std::size_t srun_launcher = 4;

// In the order in which they are searched: launchers start each other, as srun starts torchrun, and
// the inner launcher is the valid one. Batch systems are the outermost.
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
      nullptr,  // it is in SLURM_STEP_TASKS_PER_NODE, among others
      "SLURM_NODEID",
      {"SLURM_JOB_ID", "SLURM_STEP_ID"},
      "SLURM_STEP_ID"}}};

/// Returns the number in a variable that is set.
///
/// Errors: input_error if a rank or a size cannot be this number.
[[gnu::cold]] int environment_number(char const* name, std::string_view text);

/// The Slurm step of which a process is a part. Batch scripts have SLURM_PROCID=0 and the number of
/// tasks that srun would start, and the shell of an interactive step of salloc looks like a step of
/// one task; the step numbers of both are the largest possible ones.
class slurm_step {
 public:
  explicit slurm_step(find_variable variable) : variable_(variable) {}

  /// Returns true if srun has started the process.
  [[nodiscard]] [[gnu::cold]] bool is_of_srun() const;
  /// Returns true if the process runs in an allocation of Slurm, started by any launcher.
  [[nodiscard]] bool is_allocated() const { return variable_("SLURM_JOB_ID") != nullptr; }
  /// Throws input_error that says what the process is instead of a task of srun.
  [[noreturn]] [[gnu::cold]] void refuse() const;
  /// Throws input_error if the variables of a step do not belong to its job: a job that was
  /// submitted from within a step has inherited them.
  [[gnu::cold]] void check() const;
  /// Returns the tasks of a node by SLURM_STEP_TASKS_PER_NODE, such as "4(x2),3"; 0 if unknown.
  [[nodiscard]] [[gnu::cold]] int tasks_of_node(int node) const;

 private:
  [[nodiscard]] std::string_view text_of(char const* name) const;

  find_variable variable_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/launcher_variables.ipp"
#endif
