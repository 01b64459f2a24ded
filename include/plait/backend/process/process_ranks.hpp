// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait {

/// Which rank of how many this process is, as its launcher says.
struct process_ranks {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< among the processes of this machine
  std::string job{};   ///< what the launcher calls the job; the same in all of its processes

  friend bool operator==(process_ranks const&, process_ranks const&) = default;
};

/// Reads the variables of torchrun, Open MPI, MPICH and Slurm, the first of them that are all
/// there: one launcher may set some of another's. `variable(name)` is as std::getenv.
///
/// Errors: input_error if there are none, or one of them is missing or no sensible number, or they
///         contradict each other.
template <class Variable>
[[nodiscard]] process_ranks read_process_ranks(Variable variable) {
  struct names {
    char const *rank, *world_size, *local_rank;
    std::array<char const*, 3> job;
  };
  constexpr std::array<names, 4> launchers{
      {{"RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"}},
       {"OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        {"PMIX_NAMESPACE"}},
       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", {}},
       {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", {"SLURM_JOB_ID", "SLURM_STEP_ID"}}}};
  auto const number = [&](char const* name) {
    char const* const found = variable(name);
    if (found == nullptr)
      throw input_error(std::string("the environment has no ") + name +
                        " beside the other variables of its launcher; set it");
    std::string_view const text(found);
    int value = -1;
    auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < 0)
      throw input_error(std::string("") + name + "=" + detail::in_quotes(text) +
                        " in the environment is not a number from 0 to 2147483647");
    return value;
  };
  auto const begins = [&](names const& of) { return variable(of.rank) != nullptr; };
  auto const is_whole = [&](names const& of) {
    return begins(of) && variable(of.world_size) != nullptr && variable(of.local_rank) != nullptr;
  };
  auto chosen = std::ranges::find_if(launchers, is_whole);
  if (chosen == launchers.end()) chosen = std::ranges::find_if(launchers, begins);
  if (chosen == launchers.end())
    throw input_error(
        "the environment does not say which rank this process is; start the program "
        "by torchrun, mpirun or srun, or set RANK, WORLD_SIZE and LOCAL_RANK");
  auto const& [rank, world_size, local_rank, job] = *chosen;
  process_ranks out{number(rank), number(world_size), number(local_rank)};
  auto const below_world_size = [&](char const* name, int value) {
    if (value >= out.world_size)
      throw input_error(std::string("") + name + "=" + std::to_string(value) +
                        " in the environment is not below " + world_size + "=" +
                        std::to_string(out.world_size));
  };
  below_world_size(rank, out.rank);
  below_world_size(local_rank, out.local_rank);
  for (char const* const name : job)
    if (char const* const found = name == nullptr ? nullptr : variable(name); found != nullptr)
      out.job += (out.job.empty() ? "" : " ") + std::string(name) + "=" + found;
  return out;
}

/// Throws input_error unless the processes are as many as the ranks of the plan.
inline void check_world_size(process_ranks const& here, int plan_ranks) {
  if (here.world_size == plan_ranks) return;
  throw input_error("rank " + std::to_string(here.rank) + ": the launcher started " +
                    std::to_string(here.world_size) + " processes, the plan has " +
                    std::to_string(plan_ranks) +
                    " ranks; start as many processes, or choose another size of the data axis");
}

}  // namespace plait
