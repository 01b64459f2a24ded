// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process_ranks.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::ext {

PLAIT_DECL std::string process_ranks::text() const {
  auto const number = [](int value) { return std::to_string(value); };
  return concat({"rank ", number(rank), " of ", number(world_size), ", local rank ",
                 number(local_rank), (local_size > 0 ? concat({" of ", number(local_size)}) : ""),
                 (node >= 0 ? concat({" on node ", number(node)}) : ""), ", as ",
                 (source.empty() ? "the program says" : source)});
}

}  // namespace plait::ext

namespace plait::detail {

PLAIT_DECL process_ranks launcher_reader::read() {
  process_ranks out{number(of_.rank), number(of_.world_size), number(of_.local_rank)};
  if (has(of_.node)) out.node = number(of_.node);
  auto const* local_size = of_.local_size;
  if (&of_ == &launchers[srun_launcher]) {
    slurm_step const step(variable_);
    step.check();
    out.local_size = step.tasks_of_node(out.node);
    local_size = out.local_size > 0 ? "SLURM_STEP_TASKS_PER_NODE" : nullptr;
    if (local_size != nullptr) add(used_, local_size, ", ");
  } else if (has(local_size)) {
    out.local_size = number(local_size);
  }
  below(of_.rank, out.rank, of_.world_size, out.world_size);
  below(of_.local_rank, out.local_rank, of_.world_size, out.world_size);
  if (has(local_size)) {
    below(of_.local_rank, out.local_rank, local_size, out.local_size);
    if (out.local_size > out.world_size)
      throw input_error({says(local_size, out.local_size), " in the environment is above ",
                         says(of_.world_size, out.world_size)});
  }
  for (char const* const name : of_.job)
    if (has(name)) add(out.job, concat({name, "=", variable_(name)}), " ");
  out.launched = has(of_.sign);
  out.source = concat({out.launched ? of_.name : "the environment", " says (", used_, ")"});
  return out;
}

PLAIT_DECL int launcher_reader::number(char const* name) {
  if (!has(name))
    throw input_error({"the environment has ", of_.rank, " but no ", name, ", which ", of_.name,
                       " sets together with it; set this variable, too, or set PLAIT_RANK, ",
                       "PLAIT_WORLD_SIZE and PLAIT_LOCAL_RANK"});
  add(used_, name, ", ");
  return environment_number(name, variable_(name));
}

PLAIT_DECL void launcher_reader::add(std::string& to, std::string const& word,
                                     char const* between) {
  if (!to.empty()) to += between;
  to += word;
}

PLAIT_DECL std::string launcher_reader::says(char const* name, int value) {
  return concat({name, "=", value});
}

PLAIT_DECL void launcher_reader::below(char const* name, int value, char const* limit, int size) {
  if (value >= size)
    throw input_error({says(name, value), " in the environment is not below ", says(limit, size)});
}

PLAIT_DECL launcher_variables const* find_launcher(find_variable variable) {
  slurm_step const slurm(variable);
  launcher_variables const* first = nullptr;
  for (auto const& of : launchers) {
    if (variable(of.rank) == nullptr || (&of == &launchers[srun_launcher] && !slurm.is_of_srun()))
      continue;
    if (variable(of.world_size) != nullptr && variable(of.local_rank) != nullptr) return &of;
    if (first == nullptr) first = &of;
  }
  return first;
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL process_ranks read_process_ranks(detail::find_variable variable) {
  if (auto const* const launcher = detail::find_launcher(variable); launcher != nullptr)
    return detail::launcher_reader(*launcher, variable).read();
  detail::slurm_step const slurm(variable);
  if (slurm.is_allocated()) slurm.refuse();
  char const* const pmix = variable("PMIX_RANK");
  throw input_error(
      {(pmix == nullptr ? std::string("the environment does not say which rank this process is")
                        : concat({"PMIX_RANK=", detail::in_quotes(pmix),
                                  " says which rank this process is, but PMIx does not say in the "
                                  "environment of how many"})),
       "; start the program by plait's scripts/launch, torchrun, mpirun or srun, or "
       "set PLAIT_RANK, PLAIT_WORLD_SIZE and "
       "PLAIT_LOCAL_RANK"});
}

PLAIT_DECL void check_world_size(process_ranks const& here, int plan_ranks) {
  if (here.world_size == plan_ranks) return;
  auto const ranks = std::to_string(plan_ranks);
  if (here.world_size == 1)
    throw input_error({"this process was started alone, but the plan has ", ranks,
                       " ranks; start as many processes: write scripts/launch -n ", ranks,
                       ", mpirun -n ", ranks, " or srun -n ", ranks, " before the program"});
  throw input_error({"rank ", here.rank, ": the launcher started ", here.world_size,
                     " processes, but the plan has ", ranks,
                     " ranks; start as many processes, or choose another size of the data axis"});
}

}  // namespace plait::ext
