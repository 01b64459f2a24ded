// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include "plait/backend/launcher_variables.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"

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
  [[nodiscard]] [[gnu::cold]] std::string text() const {
    auto const number = [](int value) { return std::to_string(value); };
    return concat({"rank ", number(rank), " of ", number(world_size), ", local rank ",
                   number(local_rank), (local_size > 0 ? concat({" of ", number(local_size)}) : ""),
                   (node >= 0 ? concat({" on node ", number(node)}) : ""), ", as ",
                   (source.empty() ? "the program says" : source)});
  }
  friend bool operator==(process_ranks const&, process_ranks const&) = default;
};

}  // namespace plait::ext

namespace plait::detail {

/// Reads the variables of one launcher, of which the rank is there.
class launcher_reader {
 public:
  launcher_reader(launcher_variables const& of, find_variable variable)
      : of_(of), variable_(variable) {}

  [[nodiscard]] [[gnu::cold]] process_ranks read() {
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

 private:
  [[nodiscard]] bool has(char const* name) const {
    return name != nullptr && variable_(name) != nullptr;
  }
  [[gnu::cold]] int number(char const* name) {
    if (!has(name))
      throw input_error({"the environment has ", of_.rank, " but no ", name, ", which ", of_.name,
                         " sets beside it; set it, or PLAIT_RANK, ",
                         "PLAIT_WORLD_SIZE and PLAIT_LOCAL_RANK"});
    add(used_, name, ", ");
    return environment_number(name, variable_(name));
  }
  [[gnu::cold]] static void add(std::string& to, std::string const& word, char const* between) {
    if (!to.empty()) to += between;
    to += word;
  }
  static std::string says(char const* name, int value) { return concat({name, "=", value}); }
  [[gnu::cold]] static void below(char const* name, int value, char const* limit, int size) {
    if (value >= size)
      throw input_error(
          {says(name, value), " in the environment is not below ", says(limit, size)});
  }

  launcher_variables const& of_;
  find_variable variable_;
  std::string used_;
};

/// The first launcher whose rank, size and local rank are all there, since one may start another;
/// else the first whose rank is, else null.
[[nodiscard]] [[gnu::cold]] inline launcher_variables const* find_launcher(find_variable variable) {
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

/// Reads the variables of plait's launcher, torchrun, Open MPI, MPICH and srun, the first of them
/// whose rank, size and local rank are all there. `variable(name)` is as std::getenv.
///
/// Errors: input_error if there are none, or some are missing, no sensible numbers, or contradict
///         each other, or if Slurm runs the process otherwise than by srun.
[[nodiscard]] [[gnu::cold]] inline process_ranks read_process_ranks(
    detail::find_variable variable = detail::own_environment) {
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

/// Throws input_error unless the processes are as many as the ranks of the plan.
inline void check_world_size(process_ranks const& here, int plan_ranks) {
  if (here.world_size == plan_ranks) return;
  auto const ranks = std::to_string(plan_ranks);
  if (here.world_size == 1)
    throw input_error({"this process was started alone, the plan has ", ranks,
                       " ranks; start as many: scripts/launch -n ", ranks, ", mpirun -n ", ranks,
                       " or srun -n ", ranks, " before the program"});
  throw input_error({"rank ", here.rank, ": the launcher started ", here.world_size,
                     " processes, the plan has ", ranks,
                     " ranks; start as many processes, or choose another size of the data axis"});
}

}  // namespace plait::ext
