// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

/// Looks for a variable of an environment, as std::getenv: null if there is none.
using find_variable = function_reference<char const*(char const*)>;

/// That of this process.
inline constexpr auto own_environment = [](char const* name) -> char const* {
  return std::getenv(name);
};

/// The variables in which a launcher tells a process who it is; null: it has none.
struct launcher_variables {
  char const* name;  ///< of the launcher
  char const *rank, *world_size, *local_rank, *local_size, *node;
  std::array<char const*, 3> job;  ///< what tells its jobs apart
  char const* sign;  ///< the launcher itself has set it; the others may be of somebody's hand
};

inline constexpr std::size_t srun_launcher = 4;

// In the order in which they are looked for: launchers start each other, as srun starts torchrun,
// and the inner one is to be heard. Batch systems are the outermost.
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
      nullptr,  // in SLURM_STEP_TASKS_PER_NODE, among others
      "SLURM_NODEID",
      {"SLURM_JOB_ID", "SLURM_STEP_ID"},
      "SLURM_STEP_ID"}}};

/// The number in a variable that is there.
///
/// Errors: input_error if it is none that a rank or a size can be.
[[gnu::cold]] inline int environment_number(char const* name, std::string_view text) {
  int value = -1;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 0)
    throw input_error(
        {name, "=", in_quotes(text), " in the environment is not a number from 0 to 2147483647"});
  return value;
}

/// What Slurm says of the step that a process is part of. Batch scripts have SLURM_PROCID=0 beside
/// the number of tasks that srun would start, and the shell of an interactive step of salloc looks
/// like a step of one task; the numbers of such steps are the greatest there are.
class slurm_step {
 public:
  explicit slurm_step(find_variable variable) : variable_(variable) {}

  /// Whether srun has started the process.
  [[nodiscard]] [[gnu::cold]] bool is_of_srun() const {
    constexpr std::uint32_t first_special = 0xfffffff0u;
    auto const text = text_of("SLURM_STEP_ID");
    std::uint32_t number = first_special;
    auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    return code == std::errc{} && end == text.data() + text.size() && number < first_special;
  }
  /// Whether the process runs in an allocation of Slurm, by any launcher.
  [[nodiscard]] bool is_allocated() const { return variable_("SLURM_JOB_ID") != nullptr; }
  /// Throws input_error, which says what the process is instead of a task of srun.
  [[noreturn]] [[gnu::cold]] void refuse() const {
    bool const has_step = variable_("SLURM_STEP_ID") != nullptr;
    throw input_error(
        {"you are not under srun: SLURM_JOB_ID=", in_quotes(text_of("SLURM_JOB_ID")),
         (has_step ? concat({" and SLURM_STEP_ID=", in_quotes(text_of("SLURM_STEP_ID"))})
                   : std::string(" without SLURM_STEP_ID")),
         " are those of a batch script or of a shell of salloc, which runs once however many tasks "
         "the job has; start the program by srun in there, or by mpirun or torchrun"});
  }
  /// Throws input_error where the variables of a step are not those of its job: a job that was
  /// submitted from within a step has inherited them.
  [[gnu::cold]] void check() const {
    auto const step = text_of("SLURM_STEP_NUM_TASKS"), job = text_of("SLURM_NTASKS");
    if (step != job && !job.empty())
      throw input_error({"SLURM_STEP_NUM_TASKS=", in_quotes(step),
                         " and SLURM_NTASKS=", in_quotes(job),
                         " in the environment contradict each other: start the program by srun "
                         "(without --preserve-env), which sets both"});
  }
  /// Of SLURM_STEP_TASKS_PER_NODE, such as "4(x2),3"; 0 if it does not say.
  [[nodiscard]] [[gnu::cold]] int tasks_of_node(int node) const {
    auto text = text_of("SLURM_STEP_TASKS_PER_NODE");
    auto const number = [&] {
      int value = 0;
      auto const* const end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      return value;
    };
    while (node >= 0) {
      int const tasks = number();
      int times = 1;
      if (text.starts_with("(x")) {
        text.remove_prefix(2);
        times = number();
        text.remove_prefix(text.starts_with(')') ? 1 : 0);
      }
      if (node < times) return std::max(tasks, 0);
      if (times < 1 || !text.starts_with(',')) break;
      node -= times;
      text.remove_prefix(1);
    }
    return 0;
  }

 private:
  [[nodiscard]] std::string_view text_of(char const* name) const {
    char const* const found = variable_(name);
    return found == nullptr ? "" : found;
  }

  find_variable variable_;
};

}  // namespace plait::detail
