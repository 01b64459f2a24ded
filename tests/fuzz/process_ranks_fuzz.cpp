// SPDX-License-Identifier: Apache-2.0
// An environment: lines of a byte that chooses a variable, and its value.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "fuzz/fuzzing.hpp"
#include "plait/backend/process_ranks.hpp"

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  // New names come last, because the corpus has numbers of names.
  constexpr std::array names{"RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "OMPI_COMM_WORLD_RANK",
                             "PMI_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "PMI_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "SLURM_PROCID",
                             "MPI_LOCALRANKID",
                             "SLURM_NTASKS",
                             "SLURM_LOCALID",
                             "PMIX_NAMESPACE",
                             "TORCHELASTIC_RUN_ID",
                             "MASTER_PORT",
                             "SLURM_JOB_ID",
                             "PLAIT_RANK",
                             "PLAIT_WORLD_SIZE",
                             "PLAIT_LOCAL_RANK",
                             "PLAIT_LOCAL_SIZE",
                             "LOCAL_WORLD_SIZE",
                             "GROUP_RANK",
                             "SLURM_STEP_ID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_NODEID",
                             "PMIX_RANK"};
  std::span<std::uint8_t const> bytes(data, size);
  std::map<std::string, std::string> variables;
  while (!bytes.empty()) {
    char const* const name = names[fuzzing::take(bytes, 1) % names.size()];
    auto value = fuzzing::take_line(bytes);
    value.erase(std::find(value.begin(), value.end(), '\0'),
                value.end());  // an environment has none
    variables[name] = value;
  }
  fuzzing::accepts([&] {
    auto const ranks = plait::ext::read_process_ranks([&](char const* name) {
      auto const found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    fuzzing::expect(0 <= ranks.rank && ranks.rank < ranks.world_size, "a rank out of range");
    fuzzing::expect(0 <= ranks.local_rank && ranks.local_rank < ranks.world_size,
                    "a local rank out of range");
    fuzzing::expect(ranks.local_size == 0 || (ranks.local_rank < ranks.local_size &&
                                              ranks.local_size <= ranks.world_size),
                    "a local size out of range");
    fuzzing::expect(ranks.node >= -1 && !ranks.text().empty(), "a node out of range");
    fuzzing::accepts([&] { plait::ext::check_world_size(ranks, 4); });
  });
  return 0;
}
