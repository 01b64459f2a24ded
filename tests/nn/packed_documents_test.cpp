// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// Training on samples into which documents are packed equals training on the documents one by one,
// on every plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/train_once.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/qk_norm_attention.hpp"
#include "plait/nn/rotary.hpp"
#include "plait/nn/scored_attention.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t heads = 4, key_value_heads = 2, head_width = 4, length = 12;
constexpr std::size_t width = heads * head_width, key_width = key_value_heads * head_width;
constexpr std::size_t samples = 8, vocabulary = 128;

/// Lines of 1 to 15 letters; some end at the end of a sample, some are cut by it.
std::string const& lines() {
  static std::string const text = [] {
    std::string out;
    for (std::size_t line = 0; out.size() <= samples * length; ++line) {
      for (std::size_t i = 0; i < line * 5 % 11 + line % 5; ++i)
        out += static_cast<char>('a' + (line * line + 3 * i * i + i) % 7);
      out += '\n';
    }
    out.resize(samples * length + 1);
    return out;
  }();
  return text;
}

byte_text packed() {
  // example-begin data
  auto const text =
      plait::byte_text::from_text(lines(), {.sequence = 12, .pack = true, .end_of_text = '\n'});
  // example-end data
  return text;
}

/// The documents of the packed samples, each in a sample of its own, which ends with positions
/// whose targets are ignored.
struct one_by_one {
  using concept_tag = dataset_tag;
  using element = std::int32_t;
  std::vector<std::vector<std::int32_t>> in, to;

  one_by_one() {
    auto const all = packed();
    std::vector<std::int32_t> inputs(length), targets(length), numbers(length);
    for (std::size_t sample = 0; sample < all.size(); ++sample) {
      all.inputs(sample, inputs);
      all.targets(sample, targets);
      all.documents(sample, numbers);
      for (std::size_t i = 0; i < length; ++i) {
        if (i == 0 || numbers[i] != numbers[i - 1]) {
          in.emplace_back();
          to.emplace_back();
        }
        in.back().push_back(inputs[i]);
        to.back().push_back(targets[i]);
      }
    }
    for (auto& document : in) document.resize(length, 'z');
    for (auto& document : to) document.resize(length, ignored_target);
  }
  std::size_t size() const { return in.size(); }
  std::size_t sequence_length() const { return length; }
  void inputs(std::size_t i, std::span<std::int32_t> out) const {
    std::ranges::copy(in[i], out.begin());
  }
  void targets(std::size_t i, std::span<std::int32_t> out) const {
    std::ranges::copy(to[i], out.begin());
  }
};

template <std::size_t Out>
using product = nn::linear<width, Out, nn::linear_options{.bias = false, .weight = normal(0.4)}>;
struct nearer {
  auto operator()(auto score, std::size_t query, std::size_t key, std::size_t head) const {
    return score - 0.1 * double(head) * double(query - key);
  }
};
/// Values are rotated like queries and keys: the scores depend on differences of positions only,
/// but the rotated values depend on the positions themselves.
template <bool Documents>
struct of_model {
  template <std::size_t Out>
  using turned =
      sequential<product<Out>,
                 nn::rotary<Out, head_width, length, {.base = 100, .documents = Documents}>>;
  using attention = nn::scored_attention<heads, key_value_heads, head_width, length, nearer,
                                         {.documents = Documents}>;
  using block =
      residual<sequential<fan_out<named<"q", turned<width>>, named<"k", turned<key_width>>,
                                  named<"v", turned<key_width>>>,
                          attention, named<"o", product<width>>>>;
  using type = objective<
      sequential<named<"wte", nn::embedding<vocabulary, width, normal(1.0)>>,
                 named<"wpe", nn::positions<length, width, normal(1.0), {.documents = Documents}>>,
                 repeat<2, block>, named<"head", product<vocabulary>>>,
      nn::cross_entropy<vocabulary>>;
};
template <class Policy, bool Documents = true>
struct job : parallel<typename of_model<Documents>::type, Policy, double> {};

/// Loss and gradients of all samples of a data set, in one step.
template <class Job, class Data, class Backend = threads>
nn_testing::outcome outcome_of(Data const& data, int microbatches = 1,
                               Backend const& backend = {}) {
  nn_testing::outcome out;
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::sgd{}, {.seed = 5});
    auto all = plait::batches(data, global_batch<>{data.size()}, rank,
                              {.how = sample_order::sequential, .microbatches = microbatches});
    auto const report = trainer.gradients_of(all.at(0));
    if (rank.is_root()) {
      out.loss = report.loss;
      out.labels = report.labels;
    }
    trainer.export_gradients(
        [&](std::string const& name, parameter_info const&, std::span<double const> values) {
          out.gradients[name].assign(values.begin(), values.end());
        });
  });
  return out;
}

/// Expects equal results, up to 1e-12 of the loss and of the largest element of each gradient.
void expect_equal(nn_testing::outcome const& expected, nn_testing::outcome const& got,
                  std::string const& plan) {
  EXPECT_EQ(got.labels, expected.labels) << plan;
  EXPECT_NEAR(got.loss, expected.loss, 1e-12 * std::abs(expected.loss)) << plan;
  ASSERT_EQ(got.gradients.size(), expected.gradients.size()) << plan;
  for (auto const& [name, right] : expected.gradients) {
    auto const& found = got.gradients.at(name);
    ASSERT_EQ(found.size(), right.size()) << plan << ": " << name;
    double largest = 0;
    for (double const value : right) largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 0) << plan << ": " << name;
    for (std::size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(found[i], right[i], 1e-12 * largest) << plan << ": " << name << " " << i;
  }
}

template <class Policy, int Microbatches = 1>
void expect_as_one_by_one(std::string const& plan) {
  static auto const right = outcome_of<job<serial>>(one_by_one());
  expect_equal(right, outcome_of<job<Policy>>(packed(), Microbatches), plan);
}

TEST(PackedDocuments, TheTextHasDocumentsOfManyLengths) {
  EXPECT_EQ(packed().size(), samples);
  EXPECT_GT(one_by_one().size(), 2 * samples);
}

TEST(PackedDocuments, EqualDocumentsOneByOneOnEveryPlan) {
  expect_as_one_by_one<serial, 1>("serial");
  expect_as_one_by_one<serial, 2>("two microbatches");
  expect_as_one_by_one<data_parallel<2>, 2>("dp2");
  expect_as_one_by_one<tensor_parallel<2>>("tp2");
  expect_as_one_by_one<tensor_parallel<2, sequence::sharded>>("tp2, sequence cut");
  expect_as_one_by_one<hybrid<pipeline<2>, recompute<granularity::all>>, 4>("pp2, recompute");
}

// The simulated device reports reads of memory that an operation does not declare.
TEST(PackedDocuments, EqualDocumentsOneByOneInAnyOrderOfEvents) {
  auto const right = outcome_of<job<serial>>(one_by_one());
  using cut = hybrid<pipeline<2>, tensor_parallel<2>>;
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    expect_equal(right, outcome_of<job<cut>>(packed(), 2, simulated{.seed = seed}), "pp2.tp2");
}

// A batch has inputs, targets and positions, one after the other.
TEST(PackedDocuments, TakeTheMemoryOfThePlan) {
  using plan = job<serial>::plan_type;
  constexpr auto bytes = [](bool documents) {
    return plan::memory(0,
                        {.rows = samples / 2 * length, .microbatches = 2, .documents = documents})
        .batches;
  };
  static_assert(bytes(true) == planning::aligned(bytes(false)) + samples * length * 4);
  plait::launch<job<serial>>(threads{}, [&](auto& rank) {
    auto const data = packed();
    auto all = plait::batches(data, global_batch<samples>{}, rank, {.microbatches = 2});
    auto const batch = all.at(0);
    auto const* const end =
        reinterpret_cast<std::byte const*>(batch.document_positions + samples * length);
    EXPECT_EQ(static_cast<std::size_t>(end - batch.inputs), bytes(true));
    auto trainer = plait::trainer<job<serial>>(rank, plait::sgd{});
    workload const load{
        .rows = all.rows(), .microbatches = 2, .optimizer_states = 1, .documents = true};
    EXPECT_EQ(trainer.planned_bytes(all), plan::bytes_per_rank(load));
  });
}

/// The packed samples, each as one document.
struct unnumbered {
  using concept_tag = dataset_tag;
  using element = std::int32_t;
  byte_text all = packed();
  std::size_t size() const { return all.size(); }
  std::size_t sequence_length() const { return length; }
  void inputs(std::size_t i, std::span<std::int32_t> out) const { all.inputs(i, out); }
  void targets(std::size_t i, std::span<std::int32_t> out) const { all.targets(i, out); }
};
TEST(PackedDocuments, AreNotEqualWithoutTheirNumbers) {
  auto const right = outcome_of<job<serial>>(one_by_one());
  auto const got = outcome_of<job<serial>>(unnumbered());
  EXPECT_EQ(got.labels, right.labels);
  EXPECT_GT(std::abs(got.loss - right.loss), 1e-3);
}

// example-begin layers
using table = plait::nn::positions<12, 16, plait::normal(1.0), {.documents = true}>;
using block = plait::residual<plait::nn::qk_norm_attention<16, 4, 2, 4, 12, {.documents = true}>>;
// example-end layers
struct example_job
    : parallel<objective<sequential<named<"wte", nn::embedding<vocabulary, width, normal(1.0)>>,
                                    table, block, named<"head", product<vocabulary>>>,
                         nn::cross_entropy<vocabulary>>,
               serial, double> {};
TEST(PackedDocuments, EqualDocumentsOneByOneInReadyMadeAttention) {
  auto const right = outcome_of<example_job>(one_by_one());
  expect_equal(right, outcome_of<example_job>(packed()), "serial");
  EXPECT_GT(std::abs(outcome_of<example_job>(unnumbered()).loss - right.loss), 1e-4);
}

struct mixing_job
    : parallel<objective<sequential<named<"wte", nn::embedding<vocabulary, width, normal(1.0)>>,
                                    residual<nn::causal_self_attention<width, heads, length>>,
                                    named<"head", product<vocabulary>>>,
                         nn::cross_entropy<vocabulary>>,
               data_parallel<2>, double> {};
TEST(PackedDocuments, AreRefusedByModelsThatMixThem) {
  EXPECT_NO_THROW(outcome_of<mixing_job>(byte_text::from_text(lines(), length)));
  try {
    outcome_of<mixing_job>(packed());
    ADD_FAILURE() << "no error";
  } catch (input_error const& problem) {
    EXPECT_NE(std::string(problem.what())
                  .find("a layer of the model mixes the positions of all documents; write "
                        "nn::document_attention instead of nn::attention"),
              std::string::npos)
        << problem.what();
  }
}

TEST(PackedDocuments, SamplesWithoutDocumentsAreOneDocument) {
  auto const text = byte_text::from_text(lines(), length);
  using plain = job<serial, false>;
  expect_equal(outcome_of<plain>(text), outcome_of<job<serial>>(text), "serial");
  expect_equal(outcome_of<plain>(text),
               outcome_of<job<tensor_parallel<2, sequence::sharded>>>(text), "sequence cut");
}

}  // namespace
