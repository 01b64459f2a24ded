// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 alone
//
// Tests plait::cuda_process end to end: processes of this program get their ranks from the
// environment, train together and must get the losses of the processor. Processes share a GPU if
// there are fewer GPUs than processes: NCCL_HOSTID makes NCCL take each process for a separate
// machine.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/backend/cuda/cuda_process.hpp"
#include "train/small_gpt.hpp"

namespace {

namespace fs = std::filesystem;
using cuda_testing::gpus;
using job = small_gpt::job<plait::data_parallel<>>;

#ifdef __CUDACC__
constexpr bool devices_are_pretended = false;
#else  // pretended devices exist within one process only
constexpr bool devices_are_pretended = true;
#endif

// ---- What each rank does ----

/// Returns the losses of three steps, which are equal on every rank. `met` is set when all ranks
/// run. With graphs the second step is recorded, and the third replays it.
template <class Backend>
std::vector<double> train(Backend const& backend, bool& met) {
  auto const text = small_gpt::text();
  std::vector<double> losses;
  plait::launch<job>(backend, [&](auto& rank) {
    met = true;
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01},
                                       {.seed = 7, .replay = cuda_testing::records(backend)});
    auto batches = plait::batches(text, plait::global_batch<4>{}, rank, {.seed = 3, .epochs = 0});
    for (std::uint64_t step = 0; step < 3; ++step)
      losses.push_back(trainer.step(batches.at(step)).loss);
  });
  return losses;
}

constexpr char const* report_variable = "PLAIT_TEST_REPORT";  // the file of the losses
constexpr char const* replay_variable = "PLAIT_TEST_REPLAY";  // set where the process records steps
enum exit_code { trained = 0, failed = 1, refused_by_nccl = 3 };

/// Runs a process that was started as one of the ranks.
int run_as_rank(fs::path const& report) {
  bool met = false;
  std::ofstream out(report);
  try {
    auto const here = plait::ext::read_process_ranks(
        [](char const* name) { return static_cast<char const*>(std::getenv(name)); });
    bool const replay = std::getenv(replay_variable) != nullptr;
    plait::cuda_process const backend{
        .data_ranks = here.world_size,
        .options = {.timeout = std::chrono::seconds{60}, .graphs = replay}};
    for (double const loss : train(backend, met)) out << std::hexfloat << loss << '\n';
    return trained;
  } catch (plait::ext::nccl_error const& e) {
    out << e.what();
    return met ? failed : refused_by_nccl;
  } catch (std::exception const& e) {
    out << e.what();
    return failed;
  }
}

// ---- What starts them ----

struct CudaProcess : testing::Test {
  fs::path folder = fs::temp_directory_path() / ("plait_process_" + std::to_string(::getpid()));
  CudaProcess() { fs::create_directory(folder); }
  ~CudaProcess() override { fs::remove_all(folder); }

  static void expect_losses(std::vector<double> const& got) {
    bool met = false;
    auto const expected = train(plait::threads{}, met);
    ASSERT_EQ(got.size(), expected.size());
    ASSERT_LT(expected.back(), expected.front());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9);
  }

  /// Starts one process, as a launcher does.
  pid_t start(int rank, int ranks, bool replay) const {
    std::vector<std::string> variables{"RANK=" + std::to_string(rank),
                                       "WORLD_SIZE=" + std::to_string(ranks),
                                       "LOCAL_RANK=" + std::to_string(rank % gpus()),
                                       "PLAIT_RENDEZVOUS=" + (folder / "rendezvous").string(),
                                       std::string(report_variable) + "=" + report(rank).string()};
    if (ranks > gpus())
      for (char const* setting :
           {"NET=Socket", "IB_DISABLE=1", "SOCKET_IFNAME=lo", "MAX_CTAS=2", "NVLS_ENABLE=0"})
        variables.push_back(std::string("NCCL_") + setting);
    if (ranks > gpus()) variables.push_back("NCCL_HOSTID=plait" + std::to_string(rank));
    if (replay) variables.push_back(std::string(replay_variable) + "=1");
    std::vector<char*> environment;  // the first of two variables with one name is used
    for (auto& variable : variables) environment.push_back(variable.data());
    for (char** inherited = environ; *inherited != nullptr; ++inherited)
      environment.push_back(*inherited);
    environment.push_back(nullptr);
    char program[] = "/proc/self/exe";
    char* words[] = {program, nullptr};
    pid_t process = 0;
    EXPECT_EQ(posix_spawn(&process, program, nullptr, nullptr, words, environment.data()), 0);
    return process;
  }

  /// Returns the exit code of a process; kills a process that does not end.
  static int wait(pid_t process) {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{120};
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) kill(process, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : failed;
  }

  [[nodiscard]] fs::path report(int rank) const { return folder / ("rank" + std::to_string(rank)); }
  [[nodiscard]] std::string text_of(int rank) const {
    std::ostringstream text;
    text << std::ifstream(report(rank)).rdbuf();
    return text.str();
  }

  void train_in_processes(int ranks, bool replay = false) const {
    std::vector<pid_t> processes;
    for (int rank = 0; rank < ranks; ++rank) processes.push_back(start(rank, ranks, replay));
    std::vector<int> codes;
    for (pid_t const process : processes) codes.push_back(wait(process));
    for (int rank = 0; rank < ranks; ++rank) {
      auto const code = codes[std::size_t(rank)];
      if (code == refused_by_nccl && ranks > gpus())
        GTEST_SKIP() << "NCCL refuses processes that share a GPU: " << text_of(rank);
      ASSERT_EQ(code, trained) << "rank " << rank << ": " << text_of(rank);
      std::vector<double> losses;
      std::istringstream lines(text_of(rank));
      for (std::string line; std::getline(lines, line);)
        losses.push_back(std::strtod(line.c_str(), nullptr));
      expect_losses(losses);
    }
  }

  void train_in_threads(int ranks, bool replay) const {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([=, this] {
        plait::cuda_process const backend{.data_ranks = ranks,
                                          .ranks = plait::ext::process_ranks{rank, ranks, rank},
                                          .rendezvous = folder / "rendezvous",
                                          .options = {.graphs = replay}};
        bool met = false;
        try {
          expect_losses(train(backend, met));
        } catch (std::exception const& e) {
          ADD_FAILURE() << e.what();
        }
      });
  }
};

TEST_F(CudaProcess, OneProcess) { train_in_processes(1); }

TEST_F(CudaProcess, TwoProcesses) {
  if (devices_are_pretended) train_in_threads(2, false);
  else train_in_processes(2);
}

TEST_F(CudaProcess, TwoProcessesThatRecordSteps) {
  if (devices_are_pretended) train_in_threads(2, true);
  else train_in_processes(2, true);
}

}  // namespace

int main(int count, char** words) {
  if (char const* const path = std::getenv(report_variable)) return run_as_rank(path);
  testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
