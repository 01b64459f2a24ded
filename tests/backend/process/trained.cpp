// SPDX-License-Identifier: Apache-2.0
// Trains a small net on ranks that are processes, or threads, and prints what comes out to the last
// digit.
//   trained ENGINE PLAN ranked|library [FAULT [TIMEOUT_MS]]
// ENGINE: threads, or one of those that the program was linked with. FAULT is what one rank does
// wrong in the fourth step.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "backend/process/engines.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const data = std::malloc(bytes)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace {

using namespace plait;

struct wish {
  std::string engine, fault;
  process_reduction reduction = process_reduction::ranked;
  int timeout_ms = 5'000;
};

using model =
    sequential<named<"first", nn::linear<6, 48>>, nn::gelu<48>, named<"second", nn::linear<48, 48>>,
               nn::gelu<48>, named<"last", nn::linear<48, 4>>>;
template <class Policy, class Element>
struct job : parallel<objective<model, nn::cross_entropy<4>>, Policy, Element> {};

/// What rank 1 does in the fourth step.
void go_wrong(std::string const& fault, auto& rank) {
  if (rank.world_rank() != 1 || fault.empty()) return;
  std::vector<float> numbers(4);
  if (fault == "stop") ::raise(SIGSTOP);
  else if (fault == "kill") ::raise(SIGKILL);
  else if (fault == "leave") ::_exit(3);
  else if (fault == "throw") throw input_error("this rank has had enough");
  else if (fault == "call") rank.world().all_reduce(std::span<float>(numbers));
  else if (fault == "finalize") plait_test::engines().at("mpi_finalize")();
  else throw input_error("unknown fault " + fault);
}

/// The room that sums have taken is what the plan says.
template <class Job>
void check_room(auto& rank) {
  if constexpr (requires { rank.world().room_bytes(); }) {
    using plan = typename Job::plan_type;
    std::size_t taken = 0;
    for (auto const over : rank.groups().sets()) taken += rank.group(over).room_bytes();
    workload const load{.rows = 24 / std::size_t(plan::grid.size(axis::data)),
                        .gradient_norm = true,
                        .ranked_sums = rank.sums_in_room()};
    if (auto const planned = plan::memory(rank.stage(), load).sums; taken != planned)
      throw error("sums have taken " + std::to_string(taken) + " bytes of room, the plan has " +
                  std::to_string(planned));
  }
}

template <class Job>
void train(wish const& wanted) {
  auto const data = in_memory<double>::random_classes(70, 6, 4);
  auto const program = [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.01}, {.clip = 1});
    std::size_t allocated = 0;
    for (auto const& batch :
         batches<typename Job::element>(data, global_batch<24>{}, rank, {.epochs = 6})) {
      auto const report = trainer.step(batch);
      if (report.step == 3) go_wrong(wanted.fault, rank);
      if (rank.is_root()) std::printf("%lld %.17g\n", (long long)report.step, report.loss);
      if (report.step == 4) allocated = allocations;
    }
    allocated = allocations - allocated;
    double sum = 0;
    trainer.export_parameters([&](auto const&, auto const&, auto values) {
      for (auto const value : values) sum = std::fma(0.999, sum, static_cast<double>(value));
    });
    if (rank.is_root()) std::printf("weights %.17g\n", sum);
    if (wanted.engine != "threads") check_room<Job>(rank);
    if (rank.is_root() && wanted.engine != "threads")
      std::fprintf(stderr, "allocated %zu times in %d steps\n", allocated, 7);
  };
  if (wanted.engine == "threads") return launch<Job>(threads{}, program);
  launch<Job>(processes{.engine = plait_test::engines().at(wanted.engine)(),
                        .timeout = std::chrono::milliseconds{wanted.timeout_ms},
                        .reduction = wanted.reduction,
                        .token = std::getenv("TRAINED_TOKEN") ? std::getenv("TRAINED_TOKEN") : ""},
              program);
}

using grid = hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2>>;
std::map<std::string, void (*)(wish const&)> const plans{
    {"dp2", train<job<data_parallel<2>, double>>},
    {"tp2", train<job<tensor_parallel<2>, double>>},
    {"pp2", train<job<pipeline<2>, double>>},
    {"zero3", train<job<data_parallel<3, zero<1>>, double>>},
    {"dp2.pp2", train<job<hybrid<pipeline<2>, data_parallel<2>>, precision<bfloat16, float>>>},
    {"dp2.tp2.pp2", train<job<grid, double>>}};

}  // namespace

int main(int count, char** words) {
  try {
    if (count < 4 || !plans.contains(words[2])) {
      std::fputs("trained ENGINE PLAN ranked|library [FAULT [TIMEOUT_MS]]\n", stderr);
      return 2;
    }
    plans.at(words[2])({words[1], count > 4 ? words[4] : "",
                        std::string(words[3]) == "library" ? process_reduction::library
                                                           : process_reduction::ranked,
                        count > 5 ? std::atoi(words[5]) : 5'000});
    return 0;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "trained: %s\n", problem.what());
    return 1;
  }
}
