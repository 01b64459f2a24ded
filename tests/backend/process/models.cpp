// SPDX-License-Identifier: Apache-2.0
// Trains a transformer on packed documents of two texts, traces each step, and prints the losses
// with all digits.
//   models threads|simulated|gloo documents|matrices TRACE
// documents: two tensor ranks that cut the sequence, and AdamW with states in bfloat16.
// matrices: two data ranks that own whole parameters, and Muon.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "plait/backend/gloo/gloo.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/data/mix.hpp"
#include "plait/nn/qk_norm_attention.hpp"
#include "plait/nn/scored_attention.hpp"
#include "plait/observe/step_trace.hpp"
#include "plait/plait.hpp"
#include "plait/plan/zero_of_matrices.hpp"
#include "plait/train/adamw_bfloat16.hpp"
#include "plait/train/muon.hpp"

namespace {

using namespace plait;

constexpr std::size_t width = 16, heads = 4, head_width = 4, length = 12, vocabulary = 128;

/// Prefers near keys, and more so in later heads.
struct nearer {
  auto operator()(auto score, std::size_t query, std::size_t key, std::size_t head) const {
    return score - 0.1 * double(head) * double(query - key);
  }
};
using product = nn::linear<width, width, nn::linear_options{.bias = false}>;
using scored =
    sequential<fan_out<named<"q", product>, named<"k", product>, named<"v", product>>,
               nn::scored_attention<heads, heads, head_width, length, nearer, {.documents = true}>,
               named<"o", product>>;
using normed = nn::qk_norm_attention<width, heads, 2, head_width, length, {.documents = true}>;
using model = objective<
    sequential<named<"wte", nn::embedding<vocabulary, width>>,
               named<"wpe", nn::positions<length, width, normal(0.02), {.documents = true}>>,
               named<"scored", residual<scored>>, named<"normed", residual<normed>>,
               named<"head", nn::linear<width, vocabulary>>>,
    nn::cross_entropy<vocabulary>>;

struct documents : parallel<model, tensor_parallel<2, sequence::sharded>, double> {
  static constexpr ext::adamw_bfloat16 optimizer{.learning_rate = 0.01};
};
struct matrices : parallel<model, data_parallel<2, ext::zero_of_matrices<2>>, double> {
  static constexpr ext::muon optimizer{.learning_rate = 0.01};
};

/// Lines of 1 to 15 of the letters from `first`; each line is a document.
byte_text lines(char first) {
  std::string out;
  for (std::size_t line = 0; out.size() < 40 * length; ++line) {
    for (std::size_t i = 0; i < line * 5 % 11 + line % 5; ++i)
      out += static_cast<char>(first + static_cast<char>((line * line + 3 * i * i + i) % 7));
    out += '\n';
  }
  return byte_text::from_text(out, {.sequence = length, .pack = true, .end_of_text = '\n'});
}

template <class Job>
void train(auto const& backend, std::string const& path) {
  auto const small = lines('a'), large = lines('A');
  auto const texts = mix({.seed = 3}, share(small, 0.7), share(large, 0.3));
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, Job::optimizer, {.clip = 1});
    ext::step_trace trace(trainer, path);
    auto batches = plait::batches(texts, global_batch<8>{}, rank, {.microbatches = 2});
    for (int step = 0; step < 4; ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      if (rank.is_root()) std::printf("%d %.17g\n", step, report.loss);
    }
  });
}

template <class Job>
void train_on(std::string const& backend, std::string const& path) {
  if (backend == "threads") train<Job>(threads{}, path);
  else if (backend == "simulated") train<Job>(simulated{.seed = 7}, path);
  else if (backend == "gloo") train<Job>(processes{.engine = plait::gloo()}, path);
  else throw input_error("the backend is none of threads, simulated, gloo");
}

}  // namespace

int main(int count, char** words) try {
  ::alarm(250);
  if (count != 4) throw input_error("models BACKEND PLAN TRACE");
  std::string const plan = words[2];
  if (plan == "documents") train_on<documents>(words[1], words[3]);
  else if (plan == "matrices") train_on<matrices>(words[1], words[3]);
  else throw input_error("the plan is none of documents, matrices");
} catch (std::exception const& problem) {
  std::fprintf(stderr, "models: %s\n", problem.what());
  return 1;
}
