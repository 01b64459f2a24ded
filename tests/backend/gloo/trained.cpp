// SPDX-License-Identifier: Apache-2.0
// Trains a small model over Gloo's processes, or over threads for comparison, and prints the losses
// with all digits.
//   trained threads|ranked|unchecked|library PLAN [OPTION=VALUE...]
// Options: steps, timeout and start (ms; start limits the time until all have met), wait (ms after
// each step), throw (rank 1, after this step), token, rank and size (instead of the launcher's),
// measure=1. After TRAINED_SECONDS (60) the process is killed, so that an endless wait is a
// failure.
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/gloo/gloo.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"

namespace {

std::size_t allocations = 0;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
  if (void* const out = std::malloc(bytes == 0 ? 1 : bytes)) return out;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace {

using model =
    plait::sequential<plait::nn::linear<6, 32>, plait::nn::gelu<32>, plait::nn::linear<32, 4>>;
template <class Policy>
using job = plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>, Policy, double>;
using options = std::map<std::string, std::string>;

int number(options const& from, char const* name, int otherwise) {
  auto const found = from.find(name);
  return found == from.end() ? otherwise : std::stoi(found->second);
}

/// Prints the microseconds and the allocations of a call of all_reduce.
template <class Rank>
void measure(Rank& rank, std::size_t floats, int times) {
  std::vector<float> data(floats, 1.0f);
  auto const call = [&] { rank.world().all_reduce(std::span<float>(data)); };
  for (int i = 0; i < 3; ++i) call();
  auto const before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
  auto const start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) call();
  std::chrono::duration<double, std::micro> const taken = std::chrono::steady_clock::now() - start;
  auto const news = __atomic_load_n(&allocations, __ATOMIC_RELAXED) - before;
  if (rank.is_root())
    std::printf("all_reduce of %zu bytes: %.1f us, %.3f GB/s, %.1f allocations\n", floats * 4,
                taken.count() / times, double(floats) * 4 * times / taken.count() / 1e3,
                double(news) / times);
}

template <class Policy, class Backend>
void train(Backend const& backend, options const& with) {
  auto const data = plait::in_memory<double>::random_classes(64, 6, 4);
  plait::launch<job<Policy>>(backend, [&](auto& rank) {
    if (number(with, "measure", 0) != 0) {
      measure(rank, 1, 2000);
      measure(rank, std::size_t{1} << 20, 50);
      return;
    }
    auto trainer =
        plait::trainer<job<Policy>>(rank, plait::adamw{.learning_rate = 0.01}, {.clip = 1});
    auto const last = number(with, "steps", 20);
    for (auto const& batch :
         plait::batches(data, plait::global_batch<24>{}, rank, {.epochs = 1'000'000})) {
      auto const report = trainer.step(batch);
      if (rank.is_root()) {
        std::printf("%ld %.17g\n", long(report.step), report.loss);
        std::fflush(stdout);
      }
      if (report.step == number(with, "throw", -1) && rank.world_rank() == 1)
        throw plait::input_error("this rank has had enough");
      std::this_thread::sleep_for(std::chrono::milliseconds{number(with, "wait", 0)});
      if (report.step + 1 >= last) break;
    }
  });
}

template <class Policy>
void run(std::string const& backend, options const& with) {
  if (backend == "threads") return train<Policy>(plait::threads{}, with);
  auto const text = [&](char const* name) {
    auto const found = with.find(name);
    return found == with.end() ? std::string() : found->second;
  };
  std::optional<plait::ext::process_ranks> ranks;
  if (with.contains("rank")) ranks = {number(with, "rank", 0), number(with, "size", 2)};
  train<Policy>(
      plait::processes{.engine = plait::gloo(),
                       .ranks = ranks,
                       .timeout = std::chrono::milliseconds{number(with, "timeout", 5000)},
                       .start_timeout = std::chrono::milliseconds{number(
                           with, "start", number(with, "timeout", 5000))},
                       .reduction = backend == "library" ? plait::process_reduction::library
                                                         : plait::process_reduction::ranked,
                       .compare_calls = backend == "ranked",
                       .token = text("token")},
      with);
}

}  // namespace

int main(int argc, char** argv) {
  char const* const seconds = std::getenv("TRAINED_SECONDS");
  ::alarm(seconds != nullptr ? static_cast<unsigned>(std::atoi(seconds)) : 60);
  try {
    std::string const backend = argc > 1 ? argv[1] : "", plan = argc > 2 ? argv[2] : "";
    options with;
    for (int i = 3; i < argc; ++i) {
      std::string const option = argv[i];
      auto const equals = option.find('=');
      if (equals == std::string::npos) throw plait::input_error("an option is NAME=VALUE");
      with[option.substr(0, equals)] = option.substr(equals + 1);
    }
    if (plan == "dp2") run<plait::data_parallel<2>>(backend, with);
    else if (plan == "dp3") run<plait::data_parallel<3>>(backend, with);
    else if (plan == "dp2.pp2")
      run<plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>>>(backend, with);
    else if (plan == "dp") run<plait::data_parallel<>>(backend, with);
    else if (plan == "dp.pp2")
      run<plait::hybrid<plait::pipeline<2>, plait::data_parallel<>>>(backend, with);
    else throw plait::input_error("the plan is none of dp2, dp3, dp2.pp2, dp, dp.pp2");
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
