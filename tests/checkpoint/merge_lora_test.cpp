// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
#include "plait/checkpoint/merge_lora.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/llama_weights.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/nn/lora.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using llama_weights::refusal;
namespace files = std::filesystem;
using words = std::vector<std::string>;

files::path scratch(std::string const& name) {
  return llama_weights::scratch("merge_" + name, ::testing::TempDir());
}

// ---- A model with adapters and its base
// ----------------------------------------------------------

template <std::size_t Rank, std::size_t Alpha>
struct tuned {
  template <class L>
  using layer = frozen<L>;
  template <class L>
  using adapted = nn::lora<L, Rank, Alpha>;
};
struct plain {
  template <class L>
  using layer = L;
  template <class L>
  using adapted = L;
};

constexpr nn::linear_options stored{.bias = false, .order = nn::weight_order::output_input};
constexpr nn::linear_options with_bias{.order = nn::weight_order::output_input};

// Square layers show whether a merge takes W for its transpose. One of them and `down` store
// (In, Out); `mid` and `down` have a bias between the weight and the adapters.
using square = nn::linear<12, 12, {.bias = false}>;
template <class Kind>
using block = residual<named<
    "mlp", sequential<named<"up", typename Kind::template adapted<nn::linear<12, 24, stored>>>,
                      nn::gelu<24>,
                      named<"mid", typename Kind::template adapted<nn::linear<24, 24, with_bias>>>,
                      named<"down", typename Kind::template adapted<nn::linear<24, 12>>>>>>;
template <class Kind>
using model = sequential<named<"h", repeat<3, block<Kind>>>,
                         named<"wide", typename Kind::template adapted<square>>,
                         named<"head", typename Kind::template layer<nn::linear<12, 8>>>>;
template <class Kind, class Policy, class Element = float>
struct job : parallel<objective<model<Kind>, nn::cross_entropy<8>>, Policy, Element> {};

/// Trains a model with adapters for three steps, so that no B is 0.
template <class Element>
void train(auto& trainer, auto& rank) {
  auto const data = in_memory<float>::random_classes(24, 12, 8);
  for (auto const& batch : batches<Element>(data, global_batch<8>{}, rank, {.epochs = 1}))
    trainer.step(batch);
}

template <class Element>
std::vector<Element> logits(auto& trainer, auto& rank) {
  auto const data = in_memory<float>::random_classes(8, 12, 8);
  std::vector<Element> out;
  for (auto const& batch : batches<Element>(data, global_batch<8>{}, rank, {.epochs = 1})) {
    auto const seen = trainer.predict(batch, predicted::of_all);
    out.assign(seen.begin(), seen.end());
  }
  return out;
}

words names_of(files::path const& folder) { return weights_folder(folder).names(); }

/// Saves a trained model merged, loads it into the base model, and compares the logits of both and
/// the names with what the base model saves.
template <class Policy, class Element>
void expect_equal_logits(std::string const& name, double most) {
  using parameters = typename ext::precision_of<Element>::parameters;
  auto const above = scratch(name);
  std::vector<parameters> expected, found;
  using tuned_job = job<tuned<3, 5>, Policy, Element>;
  launch<tuned_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tuned_job>(rank, adamw{.learning_rate = 0.05}, {.seed = 3});
    train<parameters>(trainer, rank);
    save_weights(trainer, above / "before");
    save_weights(trainer, above / "merged", {.most_bytes = 3000, .merge_lora = true});
    save_weights(trainer, above / "after");
    auto const seen = logits<parameters>(trainer, rank);
    if (rank.is_root()) expected = seen;
  });
  using base_job = job<plain, serial, Element>;
  launch<base_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<base_job>(rank, sgd{}, {.seed = 4});
    load_weights(trainer, weights_folder(above / "merged"));
    save_weights(trainer, above / "base");
    found = logits<parameters>(trainer, rank);
  });
  ASSERT_EQ(found.size(), 64u) << name;
  ASSERT_EQ(expected.size(), 64u) << name;
  double greatest = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    greatest = std::max(greatest, std::abs(double(found[i]) - double(expected[i])));
  EXPECT_LE(greatest, most) << name;
  EXPECT_EQ(names_of(above / "merged"), names_of(above / "base")) << name;
  // The job's own weights stay.
  EXPECT_EQ(llama_weights::bytes_in(above / "before"), llama_weights::bytes_in(above / "after"));
  // Without the adapters the logits differ, so that the comparison above shows something.
  launch<base_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<base_job>(rank, sgd{}, {.seed = 4});
    load_weights(trainer, weights_folder(above / "before"), {.extra = {"*lora_*"}});
    auto const without = logits<parameters>(trainer, rank);
    double change = 0;
    for (std::size_t i = 0; i < without.size(); ++i)
      change = std::max(change, std::abs(double(without[i]) - double(expected[i])));
    EXPECT_GT(change, 0.1) << name;
  });
  files::remove_all(above);
}

TEST(MergeLora, LogitsAndNamesAreEqualToThePlainModelUnderEveryPlan) {
  expect_equal_logits<serial, double>("serial", 1e-12);
  expect_equal_logits<tensor_parallel<2>, double>("tp2", 1e-12);
  expect_equal_logits<pipeline<2>, double>("pp2", 1e-12);
  expect_equal_logits<data_parallel<2, zero<3>>, double>("zero3", 1e-12);
  expect_equal_logits<tensor_parallel<2>, float>("float_tp2", 1e-6);
}

// ---- Files
// ---------------------------------------------------------------------------------------

std::vector<double> read(files::path const& folder, std::string const& name, std::size_t count) {
  std::vector<double> out(count);
  weights_folder(folder).read(name, std::span(out));
  return out;
}

/// Returns W + A B 5 / 3 of the weight (Out, In) with this prefix, each element by itself.
std::vector<double> sum_of(files::path const& folder, std::string const& prefix, std::size_t in,
                           std::size_t out) {
  auto sum = read(folder, prefix + "weight", in * out);
  auto const a = read(folder, prefix + "lora_A.weight", 3 * in);
  auto const b = read(folder, prefix + "lora_B.weight", out * 3);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < in; ++i) {
      double product = 0;
      for (std::size_t r = 0; r < 3; ++r) product += b[o * 3 + r] * a[r * in + i];
      sum[o * in + i] += product * 5 / 3;
    }
  return sum;
}

TEST(MergeLora, RoundsOnceToTheTypeOfTheFile) {
  auto const above = scratch("types");
  using mixed = precision<plait::bfloat16, float, float>;
  using tuned_job = job<tuned<3, 5>, tensor_parallel<2>, mixed>;
  launch<tuned_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tuned_job>(rank, adamw{.learning_rate = 0.05}, {.seed = 3});
    train<plait::bfloat16>(trainer, rank);
    save_weights(trainer, above / "parts");
    save_weights(trainer, above / "f64", {.type = stored_type::f64, .merge_lora = true});
    save_weights(trainer, above / "bf16", {.type = stored_type::bf16, .merge_lora = true});
    save_weights(trainer, above / "only",
                 {.names = {{"h.*", "layers.*"}}, .only = {"h.*.mid.*"}, .merge_lora = true});
    EXPECT_THROW(  // a merged model has no adapters
        save_weights(trainer, above / "none", {.only = {"*.lora_*"}, .merge_lora = true}),
        input_error);
  });
  EXPECT_FALSE(files::exists(above / "none"));
  for (std::string const prefix : {"h.0.mlp.mid.", "h.2.mlp.up."}) {
    std::size_t const in = prefix.ends_with("up.") ? 12 : 24;
    auto const expected = sum_of(above / "parts", prefix, in, 24);
    auto const wide = read(above / "f64", prefix + "weight", in * 24);
    auto const narrow = read(above / "bf16", prefix + "weight", in * 24);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(wide[i], expected[i], 1e-8) << prefix;  // 5 / 3 has nine digits after the point
      EXPECT_EQ(float(narrow[i]), float(plait::bfloat16(wide[i]))) << prefix;
    }
  }
  EXPECT_EQ(names_of(above / "only"),
            (words{"layers.0.mlp.mid.bias", "layers.0.mlp.mid.weight", "layers.1.mlp.mid.bias",
                   "layers.1.mlp.mid.weight", "layers.2.mlp.mid.bias", "layers.2.mlp.mid.weight"}));
  EXPECT_EQ(read(above / "only", "layers.1.mlp.mid.weight", 576)[7],
            double(float(read(above / "f64", "h.1.mlp.mid.weight", 576)[7])));
  files::remove_all(above);
}

// A merged folder is the start of another fine-tuning: B is 0 again.
TEST(MergeLora, AdaptersStartAtAMergedFolder) {
  auto const above = scratch("again");
  using tuned_job = job<tuned<3, 5>, tensor_parallel<2>>;
  std::vector<float> trained, loaded;
  launch<tuned_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tuned_job>(rank, adamw{.learning_rate = 0.05}, {.seed = 3});
    train<float>(trainer, rank);
    save_weights(trainer, above / "merged", {.merge_lora = true});
    auto const seen = logits<float>(trainer, rank);
    if (rank.is_root()) trained = seen;
    train<float>(trainer, rank);  // continues with the unmerged weights
  });
  launch<tuned_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tuned_job>(rank, adamw{.learning_rate = 0.05}, {.seed = 5});
    load_weights(trainer, weights_folder(above / "merged"), {.missing = {"*lora_*"}});
    auto const seen = logits<float>(trainer, rank);
    if (rank.is_root()) loaded = seen;
  });
  ASSERT_EQ(trained.size(), loaded.size());
  for (std::size_t i = 0; i < trained.size(); ++i) EXPECT_NEAR(trained[i], loaded[i], 1e-6);
  files::remove_all(above);
}

constexpr nn::linear_options padded{
    .bias = false, .order = nn::weight_order::output_input, .padded_to = 8};
struct padded_job
    : parallel<objective<sequential<named<"wide", nn::lora<nn::linear<6, 5, padded>, 3, 5>>,
                                    named<"head", nn::linear<8, 4>>>,
                         nn::cross_entropy<4>>,
               tensor_parallel<2>> {};

TEST(MergeLora, PaddingOfTheWeightIsLeftOut) {
  auto const above = scratch("padded");
  launch<padded_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<padded_job>(rank, adamw{.learning_rate = 0.05});
    auto const data = in_memory<float>::random_classes(16, 6, 4);
    for (auto const& batch : batches(data, global_batch<8>{}, rank, {.epochs = 1}))
      trainer.step(batch);
    save_weights(trainer, above / "parts");
    save_weights(trainer, above / "merged", {.merge_lora = true});
  });
  EXPECT_EQ(names_of(above / "merged"), (words{"head.bias", "head.weight", "wide.weight"}));
  std::vector<double> expected = read(above / "parts", "wide.weight", 30);
  auto const a = read(above / "parts", "wide.lora_A.weight", 18);
  auto const b = read(above / "parts", "wide.lora_B.weight", 24);
  auto const found = read(above / "merged", "wide.weight", 30);
  for (std::size_t o = 0; o < 5; ++o)
    for (std::size_t i = 0; i < 6; ++i) {
      for (std::size_t r = 0; r < 3; ++r)
        expected[o * 6 + i] += b[o * 3 + r] * a[r * 6 + i] * 5 / 3;
      EXPECT_NEAR(found[o * 6 + i], expected[o * 6 + i], 1e-7);
    }
  files::remove_all(above);
}

// ---- Errors
// --------------------------------------------------------------------------------------

/// Returns the text of the error for a merge of this model's adapters.
template <class Model>
std::string refusal_of() {
  struct one : parallel<objective<Model, nn::cross_entropy<4>>, tensor_parallel<2>> {};
  return refusal([] {
    plait::detail::lora_weights(plait::detail::loras_of<typename one::plan_type>(), words{});
  });
}

TEST(MergeLora, SaysWhatCannotBeMerged) {
  auto const above = scratch("errors");
  std::string const option = "merge_lora: ",
                    instead = "; leave merge_lora out and save the adapters";
  using two = sequential<nn::linear<4, 6>, nn::linear<6, 4>>;
  EXPECT_EQ((refusal_of<named<"two", nn::lora<two, 2>>>()),
            option +
                "the lora of 'two.lora_B.weight' adapts a layer that is not one "
                "plait::nn::linear" +
                instead);
  using small = nn::linear<4, 4, {.bias = false}>;
  auto const shared = option +
                      "the lora of 'first.lora_B.weight' shares its weight with another "
                      "layer, which would change, too" +
                      instead;
  EXPECT_EQ((refusal_of<sequential<named<"first", nn::lora<small, 2>>,
                                   frozen<tied<small, small::weight, "first.weight">>>>()),
            shared);
  EXPECT_EQ(
      (refusal_of<
          sequential<named<"table", frozen<small>>,
                     named<"first", nn::lora<tied<small, small::weight, "table.weight">, 2>>>>()),
      shared);

  using base_job = job<plain, data_parallel<2>>;
  auto const text = refusal([&] {
    launch<base_job>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<base_job>(rank, sgd{});
      save_weights(trainer, above / "to", {.merge_lora = true});
    });
  });
  EXPECT_EQ(text.substr(text.find(": ") + 2),
            option + "the model has no plait::nn::lora; leave merge_lora out");
  std::vector<safetensors_entry> const one{{"a", stored_type::f32, {2}}};
  EXPECT_EQ(refusal([&] { ext::weights_writer(above / "to", one, {.merge_lora = true}); }),
            "weights_writer: save_weights_options::merge_lora is true, but only save_weights knows "
            "the adapters of a model; call it, or leave merge_lora out");
  EXPECT_EQ(llama_weights::names_in(above), words{});
  files::remove_all(above);
}

}  // namespace
