// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// A vocabulary of 70 that is held as 96, so that two and four ranks divide it (of four ranks the
// last has nothing but padding): the same training as with 70, and files of 70.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t vocabulary = 70, padded = 96, width = 32, heads = 4, length = 8;

using block = sequential<
    residual<sequential<named<"ln_1", nn::layer_norm<width>>,
                        named<"attn", nn::causal_self_attention<width, heads, length>>>>,
    residual<sequential<
        named<"ln_2", nn::layer_norm<width>>,
        named<"mlp", sequential<named<"c_fc", nn::linear<width, 2 * width>>, nn::gelu<2 * width>,
                                named<"c_proj", nn::linear<2 * width, width>>>>>>>;

template <std::size_t Held>
using free_head =
    nn::linear<width, vocabulary,
               {.bias = false, .order = nn::weight_order::output_input, .padded_to = Held}>;
template <std::size_t Held>
using tied_head = tied<free_head<Held>, typename free_head<Held>::weight, "wte.weight">;
template <std::size_t Held>
using lookup = nn::embedding<vocabulary, width, normal(0.1), Held>;

template <class Lookup, class Head, std::size_t Held>
using model = objective<
    sequential<named<"wte", Lookup>, named<"wpe", nn::positions<length, width, normal(0.1)>>,
               named<"h", repeat<2, block>>, named<"ln_f", nn::layer_norm<width>>,
               named<"lm_head", Head>>,
    nn::cross_entropy<vocabulary, {.padded_to = Held}>>;
// Both uses of the table cut it by vocabulary.
template <std::size_t Held>
using tied_model =
    model<use_form<"vocabulary", lookup<Held>>, use_form<"column", tied_head<Held>>, Held>;

struct plain
    : parallel<model<lookup<vocabulary>, tied_head<vocabulary>, vocabulary>, serial, double> {};
template <class Policy>
struct tied_job : parallel<tied_model<padded>, Policy, double> {};
struct plain_untied
    : parallel<model<lookup<vocabulary>, free_head<vocabulary>, vocabulary>, serial, double> {};
template <class Policy>
struct untied_job : parallel<model<lookup<padded>, free_head<padded>, padded>, Policy, double> {};

/// Tokens from 0 to 69.
struct numbers {
  using concept_tag = dataset_tag;
  using element = std::int32_t;
  [[nodiscard]] static std::size_t size() { return 16; }
  [[nodiscard]] static std::size_t sequence_length() { return length; }
  static void inputs(std::size_t sample, std::span<std::int32_t> out) { fill(sample, 0, out); }
  static void targets(std::size_t sample, std::span<std::int32_t> out) { fill(sample, 1, out); }

 private:
  static void fill(std::size_t sample, std::size_t shift, std::span<std::int32_t> out) {
    for (std::size_t p = 0; p < out.size(); ++p) {
      std::size_t const place = sample * length + p + shift;
      out[p] = static_cast<std::int32_t>((place * place + 69) % vocabulary);
    }
  }
};

using tensors = std::map<std::string, std::vector<double>>;

struct training {
  std::vector<double> losses, norms;
  tensors first, gradients, last;
  std::vector<double> logits;  // (length, width of the output) of one sample, after the training
};

/// Some steps of AdamW, from `start` if it has weights.
template <class Job>
training train(tensors const& start = {}, std::uint64_t steps = 4) {
  training out;
  launch<Job>(threads{}, [&](auto& rank) {
    auto const into = [](tensors& to) {
      return
          [&to](std::string const& name, parameter_info const& info, std::span<double const> from) {
            EXPECT_EQ(from.size(), info.count()) << name;
            EXPECT_EQ(info.padding, 0u) << name;
            to[name].assign(from.begin(), from.end());
          };
    };
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 1e-2, .weight_decay = 0.1},
                                       {.seed = 3, .clip = 0.5});
    if (!start.empty())
      trainer.import_parameters(
          [&](std::string const& name, parameter_info const& info, std::span<double> to) {
            auto const& from = start.at(name);
            ASSERT_EQ(from.size(), info.count()) << name;
            ASSERT_EQ(from.size(), to.size()) << name;
            std::copy(from.begin(), from.end(), to.begin());
          });
    trainer.export_parameters(into(out.first));
    numbers const data;
    auto batches = plait::batches(data, global_batch<8>{}, rank, {.seed = 1, .epochs = 0});
    for (std::uint64_t step = 0; step < steps; ++step) {
      auto const report = trainer.step(batches.at(step));
      if (rank.is_root()) {
        out.losses.push_back(report.loss);
        out.norms.push_back(report.gradient_norm);
      }
    }
    if (steps > 0) trainer.export_gradients(into(out.gradients));
    trainer.export_parameters(into(out.last));
    std::vector<std::int32_t> window(length);
    data.inputs(0, window);
    device_batch<host_memory> batch;
    batch.samples = 1;
    batch.sequence = length;
    batch.inputs = reinterpret_cast<std::byte*>(window.data());
    batch.input = {value_kind::tokens, 1};
    auto const logits = trainer.predict(batch);
    if (rank.is_root()) out.logits.assign(logits.begin(), logits.end());
  });
  return out;
}

void expect_near(tensors const& expected, tensors const& got, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (auto const& [name, values] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    auto const& others = got.at(name);
    ASSERT_EQ(others.size(), values.size()) << name;
    // The key part of this bias has no gradient in exact arithmetic; AdamW makes steps of any size
    // out of what rounding leaves there.
    bool const has_key = name.ends_with("c_attn.bias");
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!has_key || i < width || i >= 2 * width) {
        ASSERT_NEAR(others[i], values[i], bound) << name << " " << i;
      }
  }
}

void expect_same(training const& expected, training const& got) {
  EXPECT_EQ(got.first, expected.first);  // to the bit
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t s = 0; s < expected.losses.size(); ++s) {
    EXPECT_NEAR(got.losses[s], expected.losses[s], 1e-10) << s;
    EXPECT_NEAR(got.norms[s], expected.norms[s], 1e-10) << s;
  }
  expect_near(expected.gradients, got.gradients, 1e-10);
  expect_near(expected.last, got.last, 1e-10);

  // Logits of padding are 0 as long as its weights are, after any number of steps.
  ASSERT_EQ(expected.logits.size(), length * vocabulary);
  ASSERT_EQ(got.logits.size(), length * padded);
  for (std::size_t p = 0; p < length; ++p)
    for (std::size_t c = 0; c < padded; ++c)
      if (c < vocabulary)
        ASSERT_NEAR(got.logits[p * padded + c], expected.logits[p * vocabulary + c], 1e-10);
      else ASSERT_EQ(got.logits[p * padded + c], 0.0) << p << " " << c;
}

TEST(Padding, ATiedHeadTrainsAsWithoutItUnderEveryPlan) {
  auto const expected = train<plain>();
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  ASSERT_EQ(expected.first.at("wte.weight").size(), vocabulary * width);
  EXPECT_FALSE(expected.first.contains("lm_head.weight"));
  expect_same(expected, train<tied_job<serial>>());
  expect_same(expected, train<tied_job<data_parallel<2>>>());
  expect_same(expected, train<tied_job<tensor_parallel<2>>>());
  expect_same(expected, train<tied_job<hybrid<data_parallel<2>, tensor_parallel<2>>>>());
  expect_same(expected, train<tied_job<tensor_parallel<4>>>());
}

TEST(Padding, AFreeHeadTrainsAsWithoutItUnderEveryPlan) {
  auto const expected = train<plain_untied>();
  ASSERT_EQ(expected.first.at("lm_head.weight").size(), vocabulary * width);
  expect_same(expected, train<untied_job<serial>>());
  expect_same(expected, train<untied_job<tensor_parallel<4>>>());
  expect_same(expected, train<untied_job<hybrid<pipeline<2>, tensor_parallel<2>>>>());
}

TEST(Padding, WeightsWithoutPaddingAreImported) {
  auto const before = train<tied_job<serial>>();
  auto const expected = train<plain>(before.last);
  expect_same(expected, train<tied_job<serial>>(before.last));
  expect_same(expected, train<tied_job<tensor_parallel<4>>>(before.last));
  EXPECT_NE(expected.losses.front(), before.losses.front());
}

TEST(Padding, ThePlanCountsParametersWithoutAndMemoryWithIt) {
  using with = tied_job<tensor_parallel<4>>::plan_type;
  using without = plain::plan_type;
  EXPECT_EQ(with::parameter_count(), without::parameter_count());
  constexpr workload load{.rows = 64, .microbatches = 1};
  EXPECT_EQ(tied_job<serial>::plan().memory(0, load).parameters,
            without::memory(0, load).parameters + (padded - vocabulary) * width * sizeof(double));
}

template <class Layer>
void expect_laws(std::int32_t valid) {
  plait::testing::layer_options options;
  for (std::size_t r = 0; r < plait::testing::checked_rows<Layer>; ++r)
    options.tokens.push_back(static_cast<std::int32_t>(r) % valid);
  auto const report = plait::testing::check_layer<Layer>(options);
  EXPECT_TRUE(report.passed()) << report.text();
}

// A linear layer alone does not: nothing keeps gradients away from the padding of its output.
TEST(Padding, LayersKeepTheLaws) {
  expect_laws<nn::embedding<18, 12, normal(0.02), 24>>(17);
  expect_laws<nn::cross_entropy<5, {.padded_to = 12}>>(5);
}

// Every class has the logit -3200, and padding 0. If the maximum included padding, every e^(logit -
// maximum) would be 0.
TEST(Padding, HasNoPartInTheMaximum) {
  auto const expect_even = []<class Job>(Job) {
    auto weights = train<Job>({}, 0).first;
    weights["ln_f.weight"].assign(width, 0);
    weights["ln_f.bias"].assign(width, 100);
    weights["lm_head.weight"].assign(vocabulary * width, -1);
    EXPECT_NEAR(train<Job>(weights, 1).losses.front(), std::log(double{vocabulary}), 1e-12);
  };
  expect_even(untied_job<serial>{});
  expect_even(untied_job<tensor_parallel<4>>{});
}

// Between other layers padding would learn: the next layer's weights give it a gradient.
template <class Policy>
struct hidden_job
    : parallel<
          objective<sequential<nn::embedding<vocabulary, width, normal(0.5)>,
                               named<"hidden", nn::linear<width, 42,
                                                          {.order = nn::weight_order::output_input,
                                                           .weight = normal(0.2),
                                                           .padded_to = 48}>>,
                               nn::linear<48, vocabulary, {.weight = normal(0.2)}>>,
                    nn::cross_entropy<vocabulary>>,
          Policy, double> {};

TEST(Padding, StaysZeroBetweenOtherLayers) {
  auto const check = []<class Job>(Job) {
    auto const trained = train<Job>();
    EXPECT_EQ(trained.last.at("hidden.bias").size(), 42u);
    EXPECT_NE(trained.last.at("hidden.bias")[41], 0.0);
    // If there were values after the 42, the file would not bring back the same.
    auto const loaded = train<Job>(trained.last, 0);
    EXPECT_EQ(loaded.logits, trained.logits);
  };
  check(hidden_job<serial>{});
  check(hidden_job<tensor_parallel<2>>{});
  check(hidden_job<tensor_parallel<4>>{});
}

TEST(Padding, LabelsOfPaddingAreRefused) {
  using loss = nn::cross_entropy<5, {.padded_to = 12}>;
  EXPECT_EQ(loss::count(std::vector<std::int32_t>{4, -100}), 1);
  EXPECT_THROW((void)loss::count(std::vector<std::int32_t>{5}), input_error);
}

}  // namespace
