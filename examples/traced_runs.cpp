// SPDX-License-Identifier: Apache-2.0
// ctest: traced_runs_made
// Trains a model twice and traces both runs; the second run has a layer with a wrong backward.
// scripts/compare_traces then names this layer: docs/tracing.md.
//   traced_runs FOLDER
#include <plait/observe/step_trace.hpp>
#include <plait/plait.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

// example-begin softsign
template <std::size_t Width, bool IsRight>
struct softsign {  // y = x / (1 + |x|), element by element
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using forms = plait::forms<plait::whole, plait::by_features>;
  using saved = plait::saved<plait::input_slot>;

  struct value {
    PLAIT_HOST_DEVICE auto operator()(auto x) const { return x / (1 + (x < 0 ? -x : x)); }
  };
  struct derivative {
    PLAIT_HOST_DEVICE auto operator()(auto x, auto dy) const {
      auto const d = 1 + (x < 0 ? -x : x);
      return IsRight ? dy / (d * d) : dy / d;
    }
  };
  static void forward(auto& ops, auto l) { ops.map(value{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.map(derivative{}, l.saved[plait::input_slot{}], l.dy, l.dx);
  }
};
// example-end

template <bool IsRight>
using layers = plait::sequential<plait::named<"first", plait::nn::linear<32, 64>>,
                                 plait::named<"softsign", softsign<64, IsRight>>,
                                 plait::named<"last", plait::nn::linear<64, 10>>>;
template <bool IsRight, class Policy>
struct job : plait::parallel<plait::objective<layers<IsRight>, plait::nn::cross_entropy<10>>,
                             Policy, double> {};

template <class Job>
void train(std::string const& path) {
  std::filesystem::remove(path);  // the trace of an earlier run of this program
  auto const data = plait::in_memory<double>::random_classes(512, 32, 10);
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    // example-begin trace
    auto trainer = plait::trainer<Job>(rank, plait::adamw{.learning_rate = 0.01});
    plait::ext::step_trace trace(trainer, path);
    auto batches = plait::batches<double>(data, plait::global_batch<64>{}, rank);
    for (int step = 0; step < 3; ++step) trainer.step(batches.at(std::uint64_t(step)));
    // example-end
  });
}

int main(int count, char** words) try {
  if (count != 2) {
    std::fprintf(stderr, "write traced_runs FOLDER\n");
    return 2;
  }
  std::filesystem::path const folder = words[1];
  std::filesystem::create_directories(folder);
  train<job<true, plait::data_parallel<1>>>((folder / "right").string());
  train<job<true, plait::tensor_parallel<2>>>((folder / "parallel").string());
  train<job<false, plait::data_parallel<2>>>((folder / "wrong").string());
} catch (std::exception const& problem) {
  std::fprintf(stderr, "%s\n", problem.what());
  return 1;
}
