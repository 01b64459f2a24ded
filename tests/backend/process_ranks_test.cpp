// SPDX-License-Identifier: Apache-2.0
// Recorded environments of launchers: the rank that each gives a process, or the error.
#include "plait/backend/process_ranks.hpp"
#include "plait/backend/started_once.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "plait/backend/host/threads.hpp"
#include "plait/backend/simulated/simulated.hpp"

namespace {

using plait::input_error;
using plait::ext::process_ranks;

struct environment {
  std::map<std::string, std::string> variables;

  [[nodiscard]] char const* find(char const* name) const {
    auto const found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  }
  [[nodiscard]] process_ranks read() const {
    return plait::ext::read_process_ranks([this](char const* name) { return find(name); });
  }
  [[nodiscard]] std::string refusal() const {
    try {
      return "no error: " + read().text();
    } catch (input_error const& problem) {
      return problem.what();
    }
  }
  /// Returns the error of a backend with all ranks in one process.
  [[nodiscard]] std::string refusal_of_threads() const {
    try {
      plait::detail::require_started_once("threads", "plait::processes",
                                          [this](char const* name) { return find(name); });
      return "";
    } catch (input_error const& problem) {
      return problem.what();
    }
  }
  /// Returns these variables, followed by the variables of `outer` with other names.
  [[nodiscard]] environment in(environment const& outer) const {
    auto all = *this;
    all.variables.insert(outer.variables.begin(), outer.variables.end());
    return all;
  }
  [[nodiscard]] environment without(char const* name) const {
    auto all = *this;
    all.variables.erase(name);
    return all;
  }
  [[nodiscard]] environment with(char const* name, char const* value) const {
    auto all = *this;
    all.variables[name] = value;
    return all;
  }
};

void expect_words(std::string const& text, std::string const& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

// scripts/launch
environment const of_plait{{{"PLAIT_RANK", "3"},
                            {"PLAIT_WORLD_SIZE", "4"},
                            {"PLAIT_LOCAL_RANK", "3"},
                            {"PLAIT_LOCAL_SIZE", "4"},
                            {"PLAIT_JOB", "a job"}}};

// Recorded from torchrun of PyTorch 1.13 with --nproc_per_node 2.
environment const of_torchrun{
    {{"GROUP_RANK", "0"},
     {"GROUP_WORLD_SIZE", "1"},
     {"LOCAL_RANK", "1"},
     {"LOCAL_WORLD_SIZE", "2"},
     {"MASTER_ADDR", "127.0.0.1"},
     {"MASTER_PORT", "29500"},
     {"RANK", "1"},
     {"ROLE_NAME", "default"},
     {"ROLE_RANK", "1"},
     {"ROLE_WORLD_SIZE", "2"},
     {"TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_82ig1x92/none_0jz5n_wd/attempt_0/1/error.json"},
     {"TORCHELASTIC_MAX_RESTARTS", "0"},
     {"TORCHELASTIC_RESTART_COUNT", "0"},
     {"TORCHELASTIC_RUN_ID", "none"},
     {"TORCHELASTIC_USE_AGENT_STORE", "True"},
     {"WORLD_SIZE", "2"}}};

// Recorded from mpirun -n 2 of Open MPI 4.1.4.
environment const of_open_mpi{{{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                               {"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_FIRST_RANKS", "0"},
                               {"OMPI_MCA_orte_ess_num_procs", "2"},
                               {"OMPI_MCA_orte_num_nodes", "1"},
                               {"OMPI_UNIVERSE_SIZE", "2"},
                               {"PMIX_HOSTNAME", "vm"},
                               {"PMIX_ID", "595722241.1"},
                               {"PMIX_NAMESPACE", "595722241"},
                               {"PMIX_RANK", "1"},
                               {"PMIX_VERSION", "4.2.2rc2"}}};

// Recorded from mpiexec -n 2 of MPICH 4.0.2.
environment const of_mpich{{{"HYDI_CONTROL_FD", "7"},
                            {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "vm"},
                            {"MPI_LOCALNRANKS", "2"},
                            {"MPI_LOCALRANKID", "1"},
                            {"PMI_FD", "8"},
                            {"PMI_RANK", "1"},
                            {"PMI_SIZE", "2"}}};

// The environment of a batch script of 4 tasks on 4 nodes, as users have published it.
environment const of_sbatch{{{"SLURM_CLUSTER_NAME", "ada"},
                             {"SLURM_GTIDS", "0"},
                             {"SLURM_JOBID", "200505"},
                             {"SLURM_JOB_CPUS_PER_NODE", "4(x4)"},
                             {"SLURM_JOB_ID", "200505"},
                             {"SLURM_JOB_NODELIST", "gnode[10,20,25,37]"},
                             {"SLURM_JOB_NUM_NODES", "4"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_NNODES", "4"},
                             {"SLURM_NODEID", "0"},
                             {"SLURM_NPROCS", "4"},
                             {"SLURM_NTASKS", "4"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_TASKS_PER_NODE", "1(x4)"},
                             {"SLURM_TASK_PID", "16360"}}};

// The variables that srun adds or overwrites in such a script for `srun -n 7`, according to the
// source of Slurm.
environment const of_srun = environment{
    {{"SLURM_LOCALID", "1"},
     {"SLURM_NNODES", "4"},
     {"SLURM_NODEID", "2"},
     {"SLURM_NPROCS", "7"},
     {"SLURM_NTASKS", "7"},
     {"SLURM_PROCID", "5"},
     {"SLURM_STEPID", "3"},
     {"SLURM_STEP_ID", "3"},
     {"SLURM_STEP_NODELIST", "gnode[10,20,25,37]"},
     {"SLURM_STEP_NUM_NODES", "4"},
     {"SLURM_STEP_NUM_TASKS", "7"},
     {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
     {"SLURM_TASKS_PER_NODE",
      "2(x3),1"}}}.in(of_sbatch);

// The environment of the shell of `salloc -n 8`, on the machine where salloc was called.
environment const of_salloc{{{"SLURM_CLUSTER_NAME", "arc-slurm"},
                             {"SLURM_JOBID", "1731344"},
                             {"SLURM_JOB_CPUS_PER_NODE", "8"},
                             {"SLURM_JOB_ID", "1731344"},
                             {"SLURM_JOB_NODELIST", "GPU71E4"},
                             {"SLURM_JOB_NUM_NODES", "1"},
                             {"SLURM_NNODES", "1"},
                             {"SLURM_NTASKS", "8"},
                             {"SLURM_TASKS_PER_NODE", "8"}}};

// The environment of such a shell if LaunchParameters has use_interactive_step, as users have
// published it.
environment const of_interactive_step{{{"SLURM_GTIDS", "0"},
                                       {"SLURM_JOBID", "1731344"},
                                       {"SLURM_JOB_ID", "1731344"},
                                       {"SLURM_JOB_NUM_NODES", "1"},
                                       {"SLURM_LOCALID", "0"},
                                       {"SLURM_MPI_TYPE", "pmix"},
                                       {"SLURM_NNODES", "1"},
                                       {"SLURM_NODEID", "0"},
                                       {"SLURM_PMIX_MAPPING_SERV", "(vector,(0,1,1))"},
                                       {"SLURM_PROCID", "0"},
                                       {"SLURM_STEPID", "4294967290"},
                                       {"SLURM_STEP_ID", "4294967290"},
                                       {"SLURM_STEP_NODELIST", "GPU71E4"},
                                       {"SLURM_STEP_NUM_NODES", "1"},
                                       {"SLURM_STEP_NUM_TASKS", "1"},
                                       {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                       {"SLURM_TASKS_PER_NODE", "8"},
                                       {"SLURM_TASK_PID", "2937593"}}};

TEST(ProcessRanks, ComeFromEachLauncher) {
  EXPECT_EQ(of_plait.read().text(),
            "rank 3 of 4, local rank 3 of 4, as plait's launcher says (PLAIT_RANK, "
            "PLAIT_WORLD_SIZE, PLAIT_LOCAL_RANK, PLAIT_LOCAL_SIZE)");
  EXPECT_EQ(of_torchrun.read().text(),
            "rank 1 of 2, local rank 1 of 2 on node 0, as torchrun says (RANK, WORLD_SIZE, "
            "LOCAL_RANK, GROUP_RANK, LOCAL_WORLD_SIZE)");
  EXPECT_EQ(of_open_mpi.read().text(),
            "rank 1 of 2, local rank 1 of 2, as Open MPI says (OMPI_COMM_WORLD_RANK, "
            "OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE)");
  EXPECT_EQ(of_mpich.read().text(),
            "rank 1 of 2, local rank 1 of 2, as MPICH says (PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, "
            "MPI_LOCALNRANKS)");
  EXPECT_EQ(of_srun.read().text(),
            "rank 5 of 7, local rank 1 of 2 on node 2, as srun says (SLURM_PROCID, "
            "SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_TASKS_PER_NODE)");
  for (auto const& all : {of_plait, of_torchrun, of_open_mpi, of_mpich, of_srun})
    EXPECT_TRUE(all.read().launched);
}

TEST(ProcessRanks, ComeFromAHandThatSetsVariables) {
  auto const here = environment{{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}}.read();
  EXPECT_EQ(here.text(),
            "rank 5 of 8, local rank 1, as the environment says (RANK, WORLD_SIZE, LOCAL_RANK)");
  EXPECT_FALSE(here.launched);
  EXPECT_EQ((process_ranks{1, 2}.text()), "rank 1 of 2, local rank 0, as the program says");
}

TEST(ProcessRanks, CarryTheJobsName) {
  EXPECT_EQ(of_plait.read().job, "PLAIT_JOB=a job");
  EXPECT_EQ(of_torchrun.read().job,
            "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 MASTER_PORT=29500");
  EXPECT_EQ(of_open_mpi.read().job, "PMIX_NAMESPACE=595722241");
  EXPECT_EQ(of_mpich.read().job, "");
  EXPECT_EQ(of_srun.read().job, "SLURM_JOB_ID=200505 SLURM_STEP_ID=3");
}

TEST(ProcessRanks, OfTheInnerLauncher) {
  // The program mpirun was started in a task of srun.
  EXPECT_EQ(of_open_mpi.in(of_srun).read(), of_open_mpi.read());
  EXPECT_EQ(of_open_mpi.in(of_sbatch).read(), of_open_mpi.read());
  EXPECT_EQ(of_mpich.in(of_interactive_step).read(), of_mpich.read());
  EXPECT_EQ(of_torchrun.in(of_sbatch).read(), of_torchrun.read());
  EXPECT_EQ(of_torchrun.in(of_srun).read(), of_torchrun.read());
  EXPECT_EQ(of_plait.in(of_torchrun).in(of_srun).read(), of_plait.read());
  EXPECT_EQ(of_plait.in(of_salloc).read(), of_plait.read());
}

TEST(ProcessRanks, OfTheFirstLauncherWithAllVariables) {
  // srun --mpi=pmi2 and --mpi=pmix also set variables of MPI.
  environment const pmi{{{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}}};
  EXPECT_EQ(pmi.in(of_srun).read(), of_srun.read());
  environment const pmix{{{"PMIX_RANK", "5"}, {"PMIX_NAMESPACE", "slurm.pmix.200505.3"}}};
  EXPECT_EQ(pmix.in(of_srun).read(), of_srun.read());
  EXPECT_EQ(of_torchrun.without("LOCAL_RANK").in(of_srun).read(), of_srun.read());
  EXPECT_EQ(of_plait.without("PLAIT_WORLD_SIZE").in(of_torchrun).read(), of_torchrun.read());
}

TEST(ProcessRanks, OfSlurmComeFromSrunOnly) {
  auto const words = [](std::string const& variables) {
    return "this process was not started by srun: " + variables +
           " belong to a batch script or to a shell of salloc, which runs only once, even if the "
           "job has several tasks; start the program there by srun, mpirun or torchrun";
  };
  EXPECT_EQ(of_sbatch.refusal(), words("SLURM_JOB_ID='200505' without SLURM_STEP_ID"));
  EXPECT_EQ(of_salloc.refusal(), words("SLURM_JOB_ID='1731344' without SLURM_STEP_ID"));
  EXPECT_EQ(of_interactive_step.refusal(),
            words("SLURM_JOB_ID='1731344' and SLURM_STEP_ID='4294967290'"));
  for (char const* const batch_step : {"4294967291", "-5", "x", ""})
    expect_words(of_srun.with("SLURM_STEP_ID", batch_step).refusal(),
                 "this process was not started by srun");
  // PMIx of an interactive step sets a rank, too.
  expect_words(environment{{{"PMIX_RANK", "0"}}}.in(of_interactive_step).refusal(),
               "this process was not started by srun");
  // A job that was submitted from within a step of one task has that step's variables.
  expect_words(
      environment{{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}}.in(of_sbatch).refusal(),
      "SLURM_STEP_NUM_TASKS='1' and SLURM_NTASKS='4' in the environment contradict");
}

TEST(ProcessRanks, TasksOfANodeOfSlurm) {
  auto const local_size = [](char const* tasks, char const* node) {
    return of_srun.with("SLURM_STEP_TASKS_PER_NODE", tasks)
        .with("SLURM_NODEID", node)
        .with("SLURM_LOCALID", "0")
        .read()
        .local_size;
  };
  EXPECT_EQ(local_size("2(x3),1", "0"), 2);
  EXPECT_EQ(local_size("2(x3),1", "2"), 2);
  EXPECT_EQ(local_size("2(x3),1", "3"), 1);
  EXPECT_EQ(local_size("1,2,4", "2"), 4);
  for (char const* const no_sense : {"", "x", "4(x", "4(x0),3", "1,", "1;2", ",", "4(x-1),2"})
    EXPECT_EQ(local_size(no_sense, "5"), 0) << no_sense;
}

TEST(ProcessRanks, OfPmixAloneHaveNoSize) {
  expect_words(
      environment{{{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "prterun-vm-12@1"}}}.refusal(),
      "PMIX_RANK='3' says which rank this process is, but PMIx does not say in the "
      "environment of how many; start the program by plait's scripts/launch, torchrun, mpirun "
      "or srun, or set PLAIT_RANK, PLAIT_WORLD_SIZE and PLAIT_LOCAL_RANK");
}

TEST(ProcessRanks, SensibleNumbersOnly) {
  auto const with = [](char const* rank, char const* size) {
    return environment{{{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", "0"}}}.refusal();
  };
  expect_words(with("2x", "4"), "RANK='2x'");
  expect_words(with("-1", "4"), "RANK='-1'");
  expect_words(with("", "4"), "RANK='' in the environment is not a number from 0 to 2147483647");
  expect_words(with("2147483648", "4"), "RANK='2147483648'");
  expect_words(with("\x1b[2J1", "4"), "RANK='\\x1b[2J1'");
  EXPECT_EQ((environment{{{"RANK", "0"}}}.refusal()),
            "the environment has RANK but no WORLD_SIZE, which torchrun sets together with it; set "
            "this variable, too, or set PLAIT_RANK, PLAIT_WORLD_SIZE and PLAIT_LOCAL_RANK");
  EXPECT_EQ(environment{}.refusal(),
            "the environment does not say which rank this process is; start the program by "
            "plait's scripts/launch, torchrun, mpirun or srun, or set PLAIT_RANK, PLAIT_WORLD_SIZE "
            "and PLAIT_LOCAL_RANK");
}

TEST(ProcessRanks, ContradictionsAreErrors) {
  expect_words(of_torchrun.with("RANK", "2").refusal(),
               "RANK=2 in the environment is not below WORLD_SIZE=2");
  expect_words(of_torchrun.without("LOCAL_WORLD_SIZE").with("LOCAL_RANK", "7").refusal(),
               "LOCAL_RANK=7 in the environment is not below WORLD_SIZE=2");
  expect_words(of_torchrun.with("LOCAL_WORLD_SIZE", "1").refusal(),
               "LOCAL_RANK=1 in the environment is not below LOCAL_WORLD_SIZE=1");
  expect_words(of_open_mpi.with("OMPI_COMM_WORLD_LOCAL_SIZE", "3").refusal(),
               "OMPI_COMM_WORLD_LOCAL_SIZE=3 in the environment is above OMPI_COMM_WORLD_SIZE=2");
  expect_words(of_srun.with("SLURM_STEP_TASKS_PER_NODE", "1(x7)").refusal(),
               "SLURM_LOCALID=1 in the environment is not below SLURM_STEP_TASKS_PER_NODE=1");
  expect_words(of_torchrun.with("WORLD_SIZE", "0").refusal(),
               "RANK=1 in the environment is not below WORLD_SIZE=0");
}

TEST(ProcessRanks, AsManyProcessesAsThePlanHasRanks) {
  EXPECT_NO_THROW(plait::ext::check_world_size({0, 4, 0}, 4));
  try {
    plait::ext::check_world_size({1, 4, 1}, 8);
    FAIL();
  } catch (input_error const& problem) {
    expect_words(
        problem.what(),
        "rank 1: the launcher started 4 processes, but the plan has 8 ranks; start as many");
  }
  try {
    plait::ext::check_world_size({0, 1, 0}, 2);
    FAIL();
  } catch (input_error const& problem) {
    expect_words(
        problem.what(),
        "this process was started alone, but the plan has 2 ranks; start as many "
        "processes: write scripts/launch -n 2, mpirun -n 2 or srun -n 2 before the program");
  }
}

TEST(StartedOnce, SeveralProcessesOfABackendThatHasAllRanksInOne) {
  auto const words = [](std::string const& size, std::string const& variable) {
    return "launch: the program was started as " + size + " processes (" + variable + "=" + size +
           "), but the backend is threads; write plait::processes{...}, or start it once; with "
           ".in_each_process = true each process runs the whole job";
  };
  EXPECT_EQ(of_plait.refusal_of_threads(), words("4", "PLAIT_WORLD_SIZE"));
  EXPECT_EQ(of_plait.without("PLAIT_JOB").refusal_of_threads(), words("4", "PLAIT_WORLD_SIZE"));
  EXPECT_EQ(of_torchrun.refusal_of_threads(), words("2", "WORLD_SIZE"));
  EXPECT_EQ(of_open_mpi.refusal_of_threads(), words("2", "OMPI_COMM_WORLD_SIZE"));
  EXPECT_EQ(of_mpich.refusal_of_threads(), words("2", "PMI_SIZE"));
  EXPECT_EQ(of_srun.refusal_of_threads(), words("7", "SLURM_STEP_NUM_TASKS"));
  EXPECT_EQ(of_open_mpi.in(of_salloc).refusal_of_threads(), words("2", "OMPI_COMM_WORLD_SIZE"));
}

TEST(StartedOnce, AnAllocationIsNotAStart) {
  EXPECT_EQ(environment{}.refusal_of_threads(), "");
  for (auto const& one : {of_sbatch, of_salloc, of_interactive_step})
    EXPECT_EQ(one.refusal_of_threads(), "");
  // One process, in any environment; and environments that cannot start processes.
  environment const alone{
      {{"PLAIT_RANK", "0"}, {"PLAIT_WORLD_SIZE", "1"}, {"PLAIT_LOCAL_RANK", "0"}}};
  EXPECT_EQ(alone.in(of_srun).refusal_of_threads(), "");
  EXPECT_EQ((environment{{{"WORLD_SIZE", "2"}}}.refusal_of_threads()), "");
  EXPECT_EQ((environment{{{"RANK", "0"}, {"WORLD_SIZE", "2"}}}.refusal_of_threads()), "");
  EXPECT_EQ(of_torchrun.with("WORLD_SIZE", "two").refusal_of_threads(), "");
}

template <class Backend>
void expect_to_refuse(Backend backend, std::string const& name) {
  int ranks = 0;
  auto const program = [&](auto&) { ++ranks; };
  try {
    backend.run(plait::ext::mesh{}, program);
    ADD_FAILURE() << name << " runs in each process";
  } catch (input_error const& problem) {
    expect_words(problem.what(), "(PLAIT_WORLD_SIZE=2), but the backend is " + name);
  }
  EXPECT_EQ(ranks, 0);
  backend.in_each_process = true;
  backend.run(plait::ext::mesh{}, program);
  EXPECT_EQ(ranks, 1);
}

TEST(StartedOnce, IsAskedOfThreadsAndTheSimulator) {
  std::map<char const*, char const*> const variables{
      {"PLAIT_RANK", "1"}, {"PLAIT_WORLD_SIZE", "2"}, {"PLAIT_LOCAL_RANK", "1"}};
  for (auto const& [name, value] : variables) ::setenv(name, value, 1);
  expect_to_refuse(plait::threads{}, "threads");
  expect_to_refuse(plait::simulated{}, "simulated");
  for (auto const& [name, value] : variables) ::unsetenv(name);
}

}  // namespace
