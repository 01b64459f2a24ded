// SPDX-License-Identifier: Apache-2.0
// Measures how long a step takes whose link is so slow that the reduction of gradients takes as
// long as one step computes: on two processes, with delayed<1>, with buckets<at_end>, and without
// communication, steps of the three in turn.
//   delayed [turns=N] [ms=N]
// The model has one layer that sleeps `ms` milliseconds in each pass, so the times of a rank do not
// depend on the other programs of the machine. Rank 0 prints medians in milliseconds, and the
// medians of the ratios of each turn.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "processes/command_line.hpp"
#include "processes/raw.hpp"
#include "processes/small_gpt.hpp"

#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"
#include "plait/testing/slow_link.hpp"

namespace {

using namespace plait;
using small_gpt::median, small_gpt::seconds;

std::chrono::milliseconds sleeps{30};

/// The identity, which sleeps in the forward and twice as long in the backward.
template <std::size_t Width>
struct slow_identity {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole>;
  static void forward(auto& ops, auto const& l) {
    std::this_thread::sleep_for(sleeps);
    ops.copy(l.x, l.y);
  }
  static void backward_input(auto& ops, auto const& l) {
    std::this_thread::sleep_for(2 * sleeps);
    ops.copy(l.dy, l.dx);
  }
};

constexpr std::size_t width = 64, batch = 8;
using model = objective<sequential<nn::linear<width, width>, slow_identity<width>,
                                   nn::linear<width, width>, nn::linear<width, width>>,
                        nn::cross_entropy<width>>;
struct alone : parallel<model, serial> {};
struct behind : parallel<model, data_parallel<2, buckets<at_end>>> {};
struct late : parallel<model, data_parallel<2, delayed<1>>> {};

void print_medians(int turns) {
  auto engine = plait_benchmark::make_engine();
  double const step = 3 * std::chrono::duration<double>(sleeps).count();
  constexpr auto bytes = behind::plan_type::memory(0, {}).gradients;
  engine = testing::slow_link(engine, {.bytes_per_second = double(bytes) / step});
  auto const data = in_memory<float>::random_classes(8 * batch, width, width, 1);
  // A step without communication, of the samples of one rank.
  std::vector<double> quiet;
  launch<alone>(threads{.in_each_process = true}, [&](auto& rank) {
    auto trainer = plait::trainer<alone>(rank, sgd{});
    auto all = batches<float>(data, global_batch<batch / 2>{}, rank, {.epochs = 0});
    for (int turn = -2; turn < turns; ++turn) {
      double const took = seconds([&] { trainer.step(all.at(std::uint64_t(turn + 2))); });
      if (turn >= 0) quiet.push_back(took);
    }
  });
  processes const backend{.engine = engine, .streams = process_streams::concurrent};
  launch<behind, late>(backend, [&](auto& rank) {
    auto at_end_trainer = plait::trainer<behind>(rank, sgd{});
    auto late_trainer = plait::trainer<late>(rank, sgd{});
    auto all = batches<float>(data, global_batch<batch>{}, rank, {.epochs = 0});
    std::vector<double> of_at_end, of_late, ratios;
    for (int turn = -2; turn < turns; ++turn) {
      auto const& one = all.at(std::uint64_t(turn + 2));
      double const first = seconds([&] { at_end_trainer.step(one); });
      double const second = seconds([&] { late_trainer.step(one); });
      if (turn < 0) continue;
      of_at_end.push_back(first);
      of_late.push_back(second);
      ratios.push_back(second / first);
    }
    if (!rank.is_root()) return;
    std::printf("without communication %.1f ms, at_end %.1f ms, delayed<1> %.1f ms\n",
                1e3 * median(quiet), 1e3 * median(of_at_end), 1e3 * median(of_late));
    std::printf("delayed<1> / without communication %.3f, delayed<1> / at_end %.3f\n",
                median(of_late) / median(quiet), median(ratios));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return plait_benchmark::run_with_numbers(
      argc, argv, {{"turns", 40}, {"ms", 30}}, "delayed [turns=N] [ms=N]",
      [](std::string const&, int value) { return value > 0; },
      [](plait_benchmark::numbers const& given) {
        sleeps = std::chrono::milliseconds(given.at("ms"));
        print_medians(given.at("turns"));
      });
}
