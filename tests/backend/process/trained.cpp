// SPDX-License-Identifier: Apache-2.0
// Trains a small net on ranks that are processes, or threads, and prints the results with all
// digits.
//   trained ENGINE PLAN ranked|library [FAULT] [steps=N] [seed=N] [batch=N] [data=N] [timeout=MS]
//     [in_turn=1]
// ENGINE: threads, or an engine that the program was linked with. FAULT: the error of one rank in
// the fourth step, or, for dp2, its difference after the third. Rank 0 prints on standard error the
// allocations after the first steps: after five of twelve, or, with N steps, after a hundred, and
// then also the engine's.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "backend/process/counted_engine.hpp"
#include "backend/process/engines.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"
#include "run/slept_steps.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

struct wish {
  std::string engine, fault;
  process_reduction reduction = process_reduction::ranked;
  int steps = 12, seed = 0, batch = 24, data = 0, timeout = 5'000, in_turn = 0;
};

/// The number of allocations of this process so far, and the bytes that it has allocated now.
struct memory_use {
  std::size_t own = plait_test::own_allocations, engine = plait_test::engine_allocations;
  long long bytes = bytes_now();

  static long long bytes_now() {
#ifdef __GLIBC__
    auto const all = ::mallinfo2();
    return static_cast<long long>(all.uordblks + all.hblkhd);
#else
    return 0;
#endif
  }
};

using model =
    sequential<named<"first", nn::linear<6, 48>>, nn::gelu<48>, named<"second", nn::linear<48, 48>>,
               nn::gelu<48>, named<"last", nn::linear<48, 4>>>;
// The gradients of each layer are reduced while the backward continues.
using in_buckets = data_parallel<2, buckets<1>>;
// The gradients of the step before are reduced during all passes.
using delayed_axis = data_parallel<2, zero<1>, buckets<1>, delayed<1>>;
// The ranks are replicas, which meet every four steps.
using local_axis = data_parallel<2, buckets<1>, local_steps<4>>;
// A plan for any number of ranks; with threads it has three.
using any_ranks = data_parallel<at_launch, zero<1>, buckets<1>>;
template <class Policy, class Element>
struct job : parallel<objective<model, nn::cross_entropy<4>>, Policy, Element> {};

/// Rank 1 fails while its second thread is in a call that the other rank does not make.
void throw_beside(auto& rank) {
  if (rank.world_rank() != 1) return std::this_thread::sleep_for(std::chrono::seconds{1});
  auto const room = rank.device().allocate(4 * sizeof(float));
  auto const other_calls = rank.calls_for(99);
  rank.world().all_reduce(std::span<float>(reinterpret_cast<float*>(room.data()), 4));
  throw input_error("this rank has had enough");
}

/// The error of rank 1, or of the guests of MPI, in the fourth step. "_inside": the error is within
/// a call of its second thread, at the beginning of the fifth step.
void go_wrong(std::string const& fault, auto& rank, auto& trainer, auto const& batch) {
  if (fault == "finalize") return (void)plait_test::engines().at("mpi_finalize")();
  if (fault == "throw_beside") return throw_beside(rank);
  if (rank.world_rank() != 1 || fault.empty()) return;
  std::vector<float> numbers(4);
  if (fault == "stop") ::raise(SIGSTOP);
  else if (fault == "kill") ::raise(SIGKILL);
  else if (fault == "leave") ::_exit(3);
  else if (fault == "stop_inside") plait_test::inside_next_call = [] { ::raise(SIGSTOP); };
  else if (fault == "kill_inside") plait_test::inside_next_call = [] { ::raise(SIGKILL); };
  else if (fault == "leave_inside") plait_test::inside_next_call = [] { ::_exit(3); };
  else if (fault == "throw_inside")
    plait_test::inside_next_call = [] { throw input_error("this call has had enough"); };
  else if (fault == "throw") throw input_error("this rank has had enough");
  else if (fault == "call") rank.world().all_reduce(std::span<float>(numbers));
  else if constexpr (requires { trainer.evaluate(batch); }) {
    if (fault == "evaluate") trainer.evaluate(batch);
    else throw input_error("unknown fault " + fault);
  } else throw input_error("unknown fault " + fault);
}

/// A difference of rank 1 between steps, which all ranks detect.
void differ(std::string const& fault, auto& trainer, auto const& data) {
  bool const odd = trainer.rank().world_rank() == 1;
  if (fault == "import")
    trainer.import_parameters([&](std::string const& name, auto const&, auto values) {
      for (auto& value : values) value = odd && name == "second.bias" ? 1 : 0;
    });
  if (fault != "measure") return;
  if (odd) (void)trainer.evaluate(data, global_batch<24>{}, measures::top<2>{});
  else (void)trainer.evaluate(data, global_batch<24>{}, measures::accuracy{});
}

/// Checks that sums have taken the memory that the plan declares; a part of it is the engine's.
template <class Job>
void check_room(auto& rank, std::size_t taken, std::size_t rows, process_reduction how) {
  workload const load{.rows = rows,
                      .data_ranks = rank.grid().size(batch_axes),
                      .gradient_norm = true,
                      .ranked_sums = rank.sums_in_room()};
  auto const planned = Job::plan_type::memory(rank.stage(), load).sums;
  if (how == process_reduction::ranked ? taken != planned : taken > planned)
    throw error("sums have taken " + std::to_string(taken) + " bytes of room, the plan has " +
                std::to_string(planned));
}

template <class Job>
void train(wish const& wanted) {
  auto const data =
      in_memory<double>::random_classes(70, 6, 4, static_cast<std::uint64_t>(wanted.data));
  auto const program = [&](auto& rank) {
    trainer_options options{.seed = std::uint64_t(wanted.seed), .clip = 1};
    if constexpr (Job::plan_type::local_steps > 0) options.outer = {.rate = 0.7, .momentum = 0.9};
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.01}, options);
    bool const is_long = wanted.steps > 200;
    int const first = is_long ? 100 : 5, span = is_long ? 100 : 0;
    memory_use early{}, early_end{}, late{}, end{};  // the memory after `first` steps, after `span`
                                                     // more steps, and `span` steps before the end
    std::size_t rows = 0;
    for (auto const& batch : batches<typename Job::element>(
             data, global_batch<>{std::size_t(wanted.batch)}, rank, {.epochs = 1'000'000})) {
      auto const report = trainer.step(batch);
      rows = batch.rows();
      int const steps = static_cast<int>(report.step) + 1;
      if constexpr (std::is_same_v<Job, job<in_buckets, double>>)
        if (steps == 3) differ(wanted.fault, trainer, data);
      if (steps == 4) go_wrong(wanted.fault, rank, trainer, batch);
      if (rank.is_root()) std::printf("%lld %.17g\n", (long long)report.step, report.loss);
      if (steps == first) early = memory_use();
      if (steps == first + span) early_end = memory_use();
      if (steps == wanted.steps - span) late = memory_use();
      if (steps == wanted.steps) break;
    }
    end = memory_use();
    // Only an evaluation sums losses over the replicas, and so takes the memory for these sums.
    if constexpr (Job::plan_type::local_steps > 0)
      (void)trainer.evaluate(data, global_batch<24>{}, measures::mean_loss{});
    double sum = 0;
    trainer.export_parameters([&](auto const&, auto const&, auto values) {
      for (auto const value : values) sum = std::fma(0.999, sum, static_cast<double>(value));
    });
    if (rank.is_root()) std::printf("weights %.17g\n", sum);
    if (wanted.engine != "threads")
      check_room<Job>(rank, trainer.allocated().sums, rows, wanted.reduction);
    if (!rank.is_root() || wanted.engine == "threads") return;
    std::fprintf(stderr, "allocated %zu times in %d steps\n", end.own - early.own,
                 wanted.steps - first);
    if (is_long)
      std::fprintf(stderr,
                   "the engine: %zu times in %d steps, %zu in the last %d, %lld bytes more\n",
                   early_end.engine - early.engine, span, end.engine - late.engine, span,
                   end.bytes - early.bytes);
  };
  constexpr bool asks_for_ranks = std::is_same_v<Job, job<any_ranks, double>>;
  if (wanted.engine == "threads")
    return launch<Job>(threads{.data_ranks = asks_for_ranks ? 3 : 0}, program);
  auto const engine =
      std::make_shared<plait_test::counted_engine>(plait_test::engines().at(wanted.engine)());
  std::optional<process_ranks> told;
  if (char const* const rank = std::getenv("TRAINED_RANK")) told = {std::atoi(rank), 2};
  launch<Job>(processes{.engine = engine,
                        .ranks = told,
                        .timeout = std::chrono::milliseconds{wanted.timeout},
                        .start_timeout = std::chrono::seconds{60},  // enough for a busy machine
                        .reduction = wanted.reduction,
                        .streams = wanted.in_turn != 0 ? process_streams::in_turn
                                                       : process_streams::concurrent,
                        .token = std::getenv("TRAINED_TOKEN") ? std::getenv("TRAINED_TOKEN") : ""},
              program);
}

/// Runs steps whose computations sleep, while messages are in transit. A rank that waited
/// immediately for each message would take 1.29 of the timetable in every try. A busy machine also
/// takes time to wake a process, so there are more tries as long as none was close. A fault strikes
/// at operation number `data`; "call": a message at that operation has another tag.
void train_asleep(wish const& wanted) {
  using asleep = slept_steps::job_of<interleaved<2>, 2>;
  auto const engine = plait_test::engines().at(wanted.engine)();
  std::chrono::milliseconds const timeout{wanted.timeout};
  launch<asleep>(processes{.engine = engine, .timeout = timeout}, [&](auto& rank) {
    bool const is_well = wanted.fault.empty();
    constexpr double most = 1.2;
    double found[1] = {1e300};  // the time of the slowest rank
    for (int attempt = 0; attempt < 10 && found[0] > most; ++attempt) {
      found[0] = slept_steps::slowness<asleep>(rank, 8, is_well ? 8 : 1, [&](auto& work) {
        if (rank.world_rank() != 1 || is_well) return;
        (wanted.fault == "call" ? work.mistakes : work.strikes_at) = wanted.data;
        work.strikes = [&] { go_wrong(wanted.fault, rank, rank, rank); };
      });
      rank.world().all_reduce(std::span<double>(found), reduction::max);
    }
    if (rank.is_root()) std::printf("%.3f of the timetable\n", found[0]);
    if (rank.is_root() && found[0] > most) throw error("messages do not go beside computations");
  });
}

using grid = hybrid<pipeline<2>, in_buckets, tensor_parallel<2>>;
std::map<std::string, void (*)(wish const&)> const plans{
    {"dp2", train<job<in_buckets, double>>},
    {"dp2.float", train<job<in_buckets, float>>},
    {"dp2.delayed", train<job<delayed_axis, double>>},
    {"dp2.local", train<job<local_axis, double>>},
    {"tp2", train<job<tensor_parallel<2>, double>>},
    {"pp2", train<job<pipeline<2>, double>>},
    {"pp2.interleaved", train<job<pipeline<2, interleaved<2>>, double>>},
    {"pp2.asleep", train_asleep},
    {"zero3", train<job<any_ranks, double>>},
    {"dp2.pp2", train<job<hybrid<pipeline<2>, data_parallel<2>>, precision<bfloat16, float>>>},
    {"dp2.tp2.pp2", train<job<grid, double>>}};

}  // namespace

int main(int count, char** words) {
  plait_test::is_plaits_own = true;
  try {
    if (count < 4 || !plans.contains(words[2])) {
      std::fputs(
          "trained ENGINE PLAN ranked|library [FAULT] [steps=N] [seed=N] [batch=N] [data=N] "
          "[timeout=MS] [in_turn=1]\n",
          stderr);
      return 2;
    }
    wish wanted{.engine = words[1], .fault = "", .reduction = process_reduction::ranked};
    if (std::string(words[3]) == "library") wanted.reduction = process_reduction::library;
    for (int i = 4; i < count; ++i) {
      std::string const word = words[i];
      auto const has = [&](std::string const& name, int& number) {
        if (!word.starts_with(name + "=")) return false;
        number = std::stoi(word.substr(name.size() + 1));
        return true;
      };
      if (!has("steps", wanted.steps) && !has("seed", wanted.seed) && !has("batch", wanted.batch) &&
          !has("data", wanted.data) && !has("timeout", wanted.timeout) &&
          !has("in_turn", wanted.in_turn))
        wanted.fault = word;
    }
    plans.at(words[2])(wanted);
    return 0;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "trained: %s\n", problem.what());
    return 1;
  }
}
