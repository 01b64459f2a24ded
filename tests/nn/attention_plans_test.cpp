// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// Models with attention of groups of heads: the loss of one rank equals the loss of softmax
// attention written out, and every plan trains as one rank does.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "nn/same_outcome.hpp"
#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/product.hpp"
#include "plait/plan/explain.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using nn::attention_options;

constexpr std::size_t vocabulary = 6, heads = 4, key_value_heads = 2, head_width = 4, length = 8;
constexpr std::size_t width = heads * head_width, key_width = key_value_heads * head_width;
constexpr std::size_t samples = 4, classes = 8;

template <std::size_t Out>
using matrix = nn::linear<width, Out, nn::linear_options{.bias = false, .weight = normal(0.4)}>;
template <name KeyForm, attention_options Options>
using attending =
    sequential<fan_out<named<"q", matrix<width>>, named<"k", use_form<KeyForm, matrix<key_width>>>,
                       named<"v", use_form<KeyForm, matrix<key_width>>>>,
               nn::attention<heads, key_value_heads, head_width, length, Options>,
               named<"o", matrix<width>>>;
using free_keys = sequential<fan_out<named<"q", matrix<width>>, named<"k", matrix<key_width>>,
                                     named<"v", matrix<key_width>>>,
                             nn::attention<heads, key_value_heads, head_width, length>,
                             named<"o", matrix<width>>>;
template <class Block>
using model = objective<sequential<named<"wte", nn::embedding<vocabulary, width, normal(1.0)>>,
                                   named<"wpe", nn::positions<length, width, normal(1.0)>>,
                                   residual<Block>, named<"head", matrix<classes>>>,
                        nn::cross_entropy<classes>>;
template <class Block, class Policy>
struct job : parallel<model<Block>, Policy, double> {};

nn_testing::token_batch some_batch() {
  nn_testing::token_batch batch{samples, length, {}, {}};
  for (std::size_t i = 0; i < samples * length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % classes));
  }
  return batch;
}

// ---- softmax attention written out

using weights = std::map<std::string, std::vector<double>>;

std::vector<double> times(std::vector<double> const& x, std::vector<double> const& w,
                          std::size_t columns) {
  std::vector<double> y(columns);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t c = 0; c < columns; ++c) y[c] += x[i] * w[i * columns + c];
  return y;
}

double written_out(weights const& w, nn_testing::token_batch const& batch,
                   attention_options const& how) {
  double loss = 0;
  for (std::size_t s = 0; s < samples; ++s) {
    std::vector<std::vector<double>> x, q, k, v;
    for (std::size_t p = 0; p < length; ++p) {
      auto const token = std::size_t(batch.tokens[s * length + p]);
      x.emplace_back();
      for (std::size_t c = 0; c < width; ++c)
        x[p].push_back(w.at("wte.weight")[token * width + c] + w.at("wpe.weight")[p * width + c]);
      q.push_back(times(x[p], w.at("q.weight"), width));
      k.push_back(times(x[p], w.at("k.weight"), key_width));
      v.push_back(times(x[p], w.at("v.weight"), key_width));
    }
    for (std::size_t p = 0; p < length; ++p) {
      std::vector<double> mixed(width);
      for (std::size_t h = 0; h < heads; ++h) {
        std::size_t const mine = h * head_width,
                          shared = h / (heads / key_value_heads) * head_width;
        std::vector<double> of_key(length);
        double sum = 0;
        for (std::size_t t = 0; t < length; ++t) {
          if (how.causal && t > p) continue;
          if (how.window != 0 && t + how.window <= p) continue;
          double score = 0;
          for (std::size_t c = 0; c < head_width; ++c) score += q[p][mine + c] * k[t][shared + c];
          of_key[t] = std::exp(score / std::sqrt(double(head_width)));
          sum += of_key[t];
        }
        for (std::size_t t = 0; t < length; ++t)
          for (std::size_t c = 0; c < head_width; ++c)
            mixed[mine + c] += of_key[t] / sum * v[t][shared + c];
      }
      auto y = times(mixed, w.at("o.weight"), width);
      for (std::size_t c = 0; c < width; ++c) y[c] += x[p][c];
      auto const logits = times(y, w.at("head.weight"), classes);
      double total = 0;
      for (double const logit : logits) total += std::exp(logit);
      loss += std::log(total) - logits[std::size_t(batch.labels[s * length + p])];
    }
  }
  return loss / double(samples * length);
}

template <class Job>
weights start_weights() {
  weights out;
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::sgd{}, {.seed = 5});
    trainer.export_parameters(
        [&](std::string const& name, parameter_info const&, std::span<double const> values) {
          out[name].assign(values.begin(), values.end());
        });
  });
  return out;
}

template <attention_options Options>
void expect_written_out() {
  using alone = job<attending<"whole", Options>, serial>;
  auto const batch = some_batch();
  auto const got = nn_testing::train_once<alone>(batch, 1);
  auto w = start_weights<alone>();
  EXPECT_NEAR(got.loss, written_out(w, batch, Options), 1e-13);
  for (auto const& [name, gradient] : got.gradients)
    for (std::size_t i = 0; i < gradient.size(); i += 7) {
      double& at = w.at(name)[i];
      double const before = at, step = 1e-5;
      at = before + step;
      double const above = written_out(w, batch, Options);
      at = before - step;
      double const below = written_out(w, batch, Options);
      at = before;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-8) << name << " " << i;
    }
}

TEST(AttentionPlans, OneRankComputesWhatIsWrittenOut) {
  expect_written_out<attention_options{}>();
  expect_written_out<attention_options{.causal = false}>();
  expect_written_out<attention_options{.window = 3}>();
}

// ---- plans

template <class Block>
void expect_plans_agree() {
  auto const batch = some_batch();
  auto const right = nn_testing::train_once<job<Block, serial>>(batch, 2);
  auto const expect = [&]<class Policy>(Policy, char const* text, int microbatches = 2) {
    expect_same(right, nn_testing::train_once<job<Block, Policy>>(batch, microbatches), text);
  };
  expect(data_parallel<2>{}, "dp2");
  expect(tensor_parallel<2>{}, "tp2");
  expect(tensor_parallel<2, sequence::sharded>{}, "tp2 sharded");
  expect(tensor_parallel<4>{}, "tp4");
  expect(hybrid<pipeline<2>, tensor_parallel<2>>{}, "pp2.tp2");
}

TEST(AttentionPlans, AgreeWithTheSerialRun) {
  expect_plans_agree<free_keys>();
  expect_plans_agree<attending<"whole", attention_options{.window = 3}>>();
}

template <class Job>
std::string plan_text() {
  return explain(Job::plan(), {.rows = length});
}
// Each rank makes a block of k and v and has the others from its neighbours; backward gives each
// its part of the sum.
TEST(AttentionPlans, KeysAreCutAndGathered) {
  auto const text = plan_text<job<free_keys, tensor_parallel<4>>>();
  EXPECT_NE(text.find("(attention)  groups    shard<features>, replicate, replicate  "
                      "shard<features>"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("replicate: all_gather / reduce_scatter, 384 B; "
                      "replicate: all_gather / reduce_scatter, 384 B"),
            std::string::npos)
      << text;
}
// Each rank makes all of k and v; backward adds up their gradients.
TEST(AttentionPlans, KeysMayBeMadeWhole) {
  auto const text = plan_text<job<attending<"whole", attention_options{}>, tensor_parallel<4>>>();
  EXPECT_NE(text.find("groups    shard<features>, replicate, replicate  shard<features>"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("replicate: none / all_reduce, 768 B; replicate: none / all_reduce, 768 B"),
            std::string::npos)
      << text;
}

// ---- what attention works in

void expect_room_of_the_device(auto const& backend) {
  using tp2 = job<free_keys, tensor_parallel<2>>;
  using plan = tp2::plan_type;
  for (auto const& leaf : plan::tree.leaves) EXPECT_EQ(leaf.scratch.own.size(), 0);
  auto const text = byte_text::from_text(std::string(samples * length + 1, '\1'), length);
  plait::launch<tp2>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<tp2>(rank, plait::sgd{});
    auto batches = plait::batches(text, global_batch<>{samples}, rank);
    trainer.step(batches.at(0));
    auto const there = trainer.allocated();
    EXPECT_EQ(there.activations,
              plan::memory(0, {.rows = samples * length, .optimizer_states = 0}).activations);
    EXPECT_EQ(there.workspace, 2 * length * length * sizeof(double));
  });
}

// A plan holds for all devices, and a GPU needs none of this memory.
TEST(AttentionPlans, LeaveWhatAttentionWorksInToTheDevice) {
  expect_room_of_the_device(threads{});
  expect_room_of_the_device(simulated{});
}

// ---- the simulated device

template <class Job>
std::vector<double> losses_of_two_steps(auto const& backend, int microbatches = 2) {
  std::string bytes;
  for (std::size_t i = 0; i < samples * length * 2 + 1; ++i)
    bytes.push_back(static_cast<char>(i * i % vocabulary));
  auto const text = byte_text::from_text(bytes, length);
  std::vector<double> out;
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::sgd{.learning_rate = 0.1}, {.seed = 5});
    auto batches = plait::batches(text, global_batch<>{samples}, rank,
                                  {.epochs = 0, .microbatches = microbatches});
    for (std::uint64_t step = 0; step < 2; ++step) {
      auto const report = trainer.step(batches.at(step));
      if (rank.is_root()) out.push_back(report.loss);
    }
  });
  return out;
}

TEST(AttentionPlans, HaveNoRaceAndNoWaitTooMany) {
  using tp4 = job<free_keys, tensor_parallel<4>>;
  auto const expected = losses_of_two_steps<tp4>(threads{});
  ASSERT_EQ(expected.size(), 2u);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    ASSERT_EQ(losses_of_two_steps<tp4>(simulated{.seed = seed, .statistics = &statistics}),
              expected)
        << seed;
  EXPECT_GT(statistics.sites.size(), 3u);
  for (auto const& site : statistics.sites)
    EXPECT_THROW(losses_of_two_steps<tp4>(simulated{.without = site}), race_error)
        << to_string(site);
}

// The query heads of a key are added up in their order, and slices by a tree.
TEST(AttentionPlans, HaveTheSameBitsOnAnyNumberOfDataRanks) {
  auto const losses = []<int Ranks> {
    return losses_of_two_steps<
        job<free_keys, hybrid<data_parallel<Ranks>, reproducible<4>, tensor_parallel<4>>>>(
        threads{}, 0);
  };
  auto const expected = losses.operator()<1>();
  ASSERT_EQ(expected.size(), 2u);
  EXPECT_EQ(losses.operator()<2>(), expected);
}

}  // namespace
