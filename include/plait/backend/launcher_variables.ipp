// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/launcher_variables.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL int environment_number(char const* name, std::string_view text) {
  int value = -1;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 0)
    throw input_error(
        {name, "=", in_quotes(text), " in the environment is not a number from 0 to 2147483647"});
  return value;
}

PLAIT_DECL bool slurm_step::is_of_srun() const {
  constexpr std::uint32_t first_special = 0xfffffff0u;
  auto const text = text_of("SLURM_STEP_ID");
  std::uint32_t number = first_special;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc{} && end == text.data() + text.size() && number < first_special;
}

PLAIT_DECL void slurm_step::refuse() const {
  bool const has_step = variable_("SLURM_STEP_ID") != nullptr;
  throw input_error(
      {"this process was not started by srun: SLURM_JOB_ID=", in_quotes(text_of("SLURM_JOB_ID")),
       (has_step ? concat({" and SLURM_STEP_ID=", in_quotes(text_of("SLURM_STEP_ID"))})
                 : std::string(" without SLURM_STEP_ID")),
       " belong to a batch script or to a shell of salloc, which runs only once, even if the job "
       "has several tasks; start the program there by srun, mpirun or torchrun"});
}

PLAIT_DECL void slurm_step::check() const {
  auto const step = text_of("SLURM_STEP_NUM_TASKS"), job = text_of("SLURM_NTASKS");
  if (step != job && !job.empty())
    throw input_error({"SLURM_STEP_NUM_TASKS=", in_quotes(step),
                       " and SLURM_NTASKS=", in_quotes(job),
                       " in the environment contradict each other: start the program by srun "
                       "(without --preserve-env), which sets both"});
}

PLAIT_DECL int slurm_step::tasks_of_node(int node) const {
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

PLAIT_DECL std::string_view slurm_step::text_of(char const* name) const {
  char const* const found = variable_(name);
  return found == nullptr ? "" : found;
}

}  // namespace plait::detail
