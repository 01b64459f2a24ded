// SPDX-License-Identifier: Apache-2.0
// libs: safetensors checkpoint
// ctest: --plan dp2.pp2 --steps 2
// Trains a ResNet, with the names of torchvision's parameters, under any of the compiled plans; see
// train_resnet/model.hpp for the models as types.
#include <cstdio>
#include <exception>
#include <string>

#include "train_gpt/command_line.hpp"
#include "train_resnet/job.hpp"

namespace {

constexpr char const* help =
    R"(train_resnet trains a ResNet on this machine, one thread for each rank.
  --model NAME          resnet18 on pictures of 32 x 32, or resnet50 on 224 x 224
  --plan NAME           serial, dp2, pp2 or dp2.pp2
  --batch N             samples of a step (16); each microbatch takes groups of 4
  --microbatches N      pieces of a step on each data rank; left out: one for each stage
  --steps N             (20)
  --learning-rate X     of SGD (0.01), and --momentum X (0.9)
  --seed N              of weights and order (1)
  --data FILE           safetensors with x (samples, 3, edge, edge) and classes y; left out: made up
  --init FILE           weights to begin from, named as torchvision's, of as many classes
  --save FILE           where the weights go, as torchvision names them
  --explain             prints the plan, and where it is cut, instead of training
)";

/// Errors: input_error that names the built models, if this one is not built.
train_resnet::entry const& find(train_resnet::options const& wanted, bool explains) {
  std::string built;
  bool is_other_model = false;
  for (auto const& job : train_resnet::entries()) {
    if (!explains && job.train == nullptr) continue;
    if (job.model == wanted.model && job.plan == wanted.plan) return job;
    is_other_model |= job.plan == wanted.plan;
    built += (built.empty() ? "" : ", ") + job.model + " under " + job.plan;
  }
  throw plait::input_error(
      "model '" + wanted.model + "' under plan '" + wanted.plan + "' is not built; built are " +
      built +
      (is_other_model ? "; configure with '-D PLAIT_RESNET_MODELS=resnet18;resnet50' for all"
                      : ""));
}

void run(int count, char** words) {
  constexpr std::int64_t most = 1'000'000;
  train_resnet::options wanted;
  bool explains = false, asks = false;
  using whole = command_line::number<std::int64_t>;
  using real = command_line::number<double>;
  command_line::option options[]{{"--help", &asks},
                                 {"--model", &wanted.model},
                                 {"--plan", &wanted.plan},
                                 {"--batch", whole{&wanted.batch, 1, most}},
                                 {"--microbatches", whole{&wanted.microbatches, 1, most}},
                                 {"--steps", whole{&wanted.steps, 0, most}},
                                 {"--learning-rate", real{&wanted.learning_rate, 0, 1e6}},
                                 {"--momentum", real{&wanted.momentum, 0, 0.999999}},
                                 {"--seed", whole{&wanted.seed, 0, most}},
                                 {"--data", &wanted.data},
                                 {"--init", &wanted.init},
                                 {"--save", &wanted.save},
                                 {"--explain", &explains}};
  command_line::parse(options, count, words);
  if (asks) {
    std::fputs(help, stdout);
    return;
  }
  auto const& job = find(wanted, explains);
  if (explains) std::fputs(job.explain(wanted).c_str(), stdout);
  else job.train(wanted);
}

}  // namespace

int main(int count, char** words) try {
  command_line::hold_standard_files();
  run(count, words);
  command_line::check_output();
} catch (std::exception const& problem) {
  std::fprintf(stderr, "train_resnet: %s\n", problem.what());
  return 1;
}
