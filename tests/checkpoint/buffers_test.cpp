// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint timeout=300 seconds=10
//
// State that is not trained: batch_norm's running statistics. nn/buffer_mutants.sh checks that
// tests find faults.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/checkpoint/checkpoints.hpp"
#include "plait/plait.hpp"

namespace buffers_testing {

using namespace plait;
namespace files = std::filesystem;

constexpr std::size_t classes = 3, batch_size = 24, samples = 2 * batch_size + 10;
using picture = nn::image<2, 4, 4>;
using conv = nn::conv2d<picture, 6, {.padding = 1}>;
using norm = nn::batch_norm<conv::output, {.group = 4}>;
using pooled = nn::global_average_pool<conv::output>;
template <class Norm>
using net = sequential<named<"conv", conv>, named<"bn", Norm>, nn::relu<conv::output::size>, pooled,
                       named<"fc", nn::linear<6, classes>>>;
template <class Policy, class Norm = norm>
struct job : parallel<objective<net<Norm>, nn::cross_entropy<classes>>, Policy, double> {};

using tensors = std::map<std::string, std::vector<double>>;

in_memory<double> made_data(double value_of_last) {
  auto const from = in_memory<double>::random_classes(samples, picture::size, classes, 8);
  std::vector<double> features(samples * picture::size);
  std::vector<std::int32_t> targets(samples);
  for (std::size_t s = 0; s < samples; ++s) {
    from.inputs(s, std::span(features).subspan(s * picture::size, picture::size));
    from.targets(s, std::span(targets).subspan(s, 1));
  }
  if (value_of_last != 0) features.back() = value_of_last;
  return {std::move(features), std::move(targets), picture::size};
}
in_memory<double> const& data() {
  static auto const made = made_data(0);
  return made;
}

auto into(tensors& out) {
  return [&out](std::string const& name, auto const&, auto values) {
    out[name].assign(values.begin(), values.end());
  };
}
batch_options in_order(int microbatches = 0) {
  return {.how = sample_order::sequential,
          .last = last_batch::keep,
          .epochs = 0,
          .microbatches = microbatches};
}
auto with_momentum() { return sgd{.learning_rate = 0.05, .momentum = 0.9}; }

/// Trains up to step `end` and saves; continues from a checkpoint if there is one.
template <class Policy, class Norm = norm>
tensors train(files::path const& folder, std::uint64_t end, int microbatches = 0) {
  tensors out;
  launch<job<Policy, Norm>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Policy, Norm>>(rank, with_momentum(),
                                                     {.seed = 2, .clip = 0.1, .average = 0.8});
    auto batches = plait::batches(data(), global_batch<batch_size>{}, rank, in_order(microbatches));
    checkpoints saves(trainer, batches, {.folder = folder});
    for (auto step = saves.resume(); step < end; ++step) trainer.step(batches.at(step));
    saves.save();
    saves.finish();
    trainer.export_parameters(into(out));
    tensors averages;
    trainer.with_ema([&] { trainer.export_parameters(into(averages)); });
    if (!rank.is_root()) return;
    // Buffers have no averages.
    EXPECT_EQ(averages["bn.running_mean"], out["bn.running_mean"]);
    EXPECT_EQ(averages["bn.running_var"], out["bn.running_var"]);
    EXPECT_NE(averages["bn.weight"], out["bn.weight"]);
    for (auto& [name, values] : averages) out["average of " + name] = values;
  });
  return out;
}

void expect_near(tensors const& expected, tensors const& got, std::string const& plan) {
  ASSERT_EQ(got.size(), expected.size()) << plan;
  for (auto const& [name, right] : expected)
    for (std::size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(got.at(name)[i], right[i], 1e-11) << plan << ": " << name << " " << i;
}

files::path scratch(std::string const& name) {
  auto const out = files::path(::testing::TempDir()) / ("plait_buffers_" + name);
  files::remove_all(out);
  return out;
}

TEST(Buffers, ContinueUnderAnyPlan) {
  auto const undisturbed = train<serial>(scratch("all"), 20);
  auto const half = scratch("half");
  train<serial>(half, 10);
  auto const go_on = [&]<class Policy>(std::string const& plan) {
    auto const from = scratch("go_on");
    files::copy(half, from, files::copy_options::recursive);
    expect_near(undisturbed, train<Policy>(from, 20), plan);
  };
  go_on.template operator()<serial>("serial");
  go_on.template operator()<tensor_parallel<2>>("tp2");
  go_on.template operator()<pipeline<2>>("pp2");
  go_on.template operator()<data_parallel<3>>("dp3");
  go_on.template operator()<data_parallel<3, zero<1>>>("zero<1>");
  // It also continues from a plan of three ranks on one rank.
  auto const from_three = scratch("three");
  train<data_parallel<3>>(from_three, 10);
  expect_near(undisturbed, train<serial>(from_three, 20), "from dp3");
}

// Statistics of all samples of a microbatch; each plan has two microbatches.
TEST(Buffers, OfAllSamplesContinue) {
  using whole = nn::batch_norm<conv::output>;
  auto const undisturbed = train<serial, whole>(scratch("all"), 20, 2);
  auto const half = scratch("half");
  train<serial, whole>(half, 10, 2);
  expect_near(undisturbed, train<pipeline<2>, whole>(half, 20, 2), "pp2");
}

/// Returns the buffers of a first layer after four steps.
template <class Element, class Policy, std::size_t Group>
tensors statistics_of(double around) {
  using layer = nn::batch_norm<picture, {.group = Group}>;
  struct shifted
      : parallel<objective<sequential<named<"bn", layer>, nn::linear<picture::size, classes>>,
                           nn::cross_entropy<classes>>,
                 Policy, Element> {};
  std::vector<float> features(samples * picture::size);
  std::vector<std::int32_t> targets(samples);
  std::vector<double> of_sample(picture::size);
  for (std::size_t s = 0; s < samples; ++s) {
    data().inputs(s, of_sample);
    // Multiples of an eighth are exact in each type.
    for (std::size_t i = 0; i < picture::size; ++i)
      features[s * picture::size + i] =
          static_cast<float>(around + std::round(of_sample[i] * 8) / 8);
    data().targets(s, std::span(targets).subspan(s, 1));
  }
  in_memory<float> const shifted_data(std::move(features), std::move(targets), picture::size);
  tensors out;
  launch<shifted>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<shifted>(rank, sgd{.learning_rate = 0.01});
    auto batches = plait::batches<typename shifted::element>(
        shifted_data, global_batch<batch_size>{}, rank, in_order());
    for (std::uint64_t step = 0; step < 4; ++step) trainer.step(batches.at(step));
    trainer.export_parameters([&](std::string const& name, auto const&, auto values) {
      out[name].assign(values.begin(), values.end());
    });
  });
  return out;
}
template <class Element, class Policy, std::size_t Group>
void expect_statistics(double around, double bound) {
  auto const right = statistics_of<double, serial, Group>(around);
  auto const got = statistics_of<Element, Policy, Group>(around);
  for (auto const* name : {"bn.running_mean", "bn.running_var"})
    for (std::size_t c = 0; c < 2; ++c)
      EXPECT_NEAR(got.at(name)[c], right.at(name)[c], bound * std::abs(right.at(name)[c])) << name;
}

// A mean of a thousand deviations costs the variance no digits in float.
TEST(Buffers, OfNumbersFarFromZero) {
  expect_statistics<float, serial, 4>(1000, 1e-5);
  expect_statistics<float, data_parallel<2>, 0>(1000, 1e-5);
}

// If layers see bfloat16, buffers are not rounded to it, and are exported as they are.
TEST(Buffers, AreNotRoundedToWhatLayersSee) {
  expect_statistics<plait::precision<plait::bfloat16, float>, serial, 4>(0, 1e-5);
  expect_statistics<plait::precision<plait::bfloat16, float>, data_parallel<2, zero<1>>, 0>(0,
                                                                                            1e-5);
}

TEST(Buffers, FollowTheMeanOfAStepOnce) {
  tensors before, after, gradients, evaluated;
  double norm_reported = 0;
  launch<job<data_parallel<2>>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<data_parallel<2>>>(
        rank, adamw{.learning_rate = 0.1, .weight_decay = 0.1}, {.seed = 2, .clip = 1e-3});
    auto batches = plait::batches(data(), global_batch<batch_size>{}, rank, in_order());
    trainer.gradients_of(batches.at(0));
    trainer.export_gradients(into(gradients));
    trainer.evaluate(batches.at(1));
    trainer.export_parameters(into(before));
    auto const report = trainer.step(batches.at(0));
    if (rank.is_root()) norm_reported = report.gradient_norm;
    trainer.export_parameters(into(after));
    trainer.evaluate(batches.at(1));
    trainer.export_parameters(into(evaluated));
  });
  EXPECT_EQ(evaluated, after);
  // Neither forward nor gradients_of nor evaluation changes buffers, and they have no gradient.
  EXPECT_EQ(before.at("bn.running_mean"), std::vector<double>(6, 0.0));
  EXPECT_EQ(before.at("bn.running_var"), std::vector<double>(6, 1.0));
  EXPECT_FALSE(gradients.contains("bn.running_mean"));
  EXPECT_EQ(gradients.size(), 6u);
  double squares = 0;  // the squares of the norm's gradients
  for (auto const& [name, values] : gradients)
    for (double const value : values) squares += value * value;
  EXPECT_NEAR(norm_reported, std::sqrt(squares), 1e-12);
  // The buffers are the mean over the groups, of the outputs of conv; they are neither clipped nor
  // decayed.
  std::vector<double> mean(6), variance(6);
  constexpr std::size_t map = conv::output::map, group = 4;
  std::vector<double> x(picture::size);
  std::vector<std::vector<double>> made;
  for (std::size_t s = 0; s < batch_size; ++s) {
    data().inputs(s, x);
    std::vector<double> y(conv::output::size);
    for (std::size_t c = 0; c < 6; ++c)
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t k = 0; k < 4; ++k) {
          double sum = before.at("conv.bias")[c];
          for (std::size_t in = 0; in < 2; ++in)
            for (std::size_t dy = 0; dy < 3; ++dy)
              for (std::size_t dx = 0; dx < 3; ++dx)
                if (i + dy >= 1 && i + dy <= 4 && k + dx >= 1 && k + dx <= 4)
                  sum += before.at("conv.weight")[((c * 2 + in) * 3 + dy) * 3 + dx] *
                         x[in * 16 + (i + dy - 1) * 4 + k + dx - 1];
          y[c * map + i * 4 + k] = sum;
        }
    made.push_back(std::move(y));
  }
  for (std::size_t g = 0; g < batch_size / group; ++g)
    for (std::size_t c = 0; c < 6; ++c) {
      double sum = 0, around = 0;
      for (std::size_t s = 0; s < group; ++s)
        for (std::size_t i = 0; i < map; ++i) sum += made[g * group + s][c * map + i];
      double const middle = sum / double(group * map);
      for (std::size_t s = 0; s < group; ++s)
        for (std::size_t i = 0; i < map; ++i)
          around += std::pow(made[g * group + s][c * map + i] - middle, 2);
      mean[c] += middle * double(group) / double(batch_size);
      variance[c] += around / double(group * map - 1) * double(group) / double(batch_size);
    }
  for (std::size_t c = 0; c < 6; ++c) {
    EXPECT_NEAR(after.at("bn.running_mean")[c], 0.1 * mean[c], 1e-13);
    EXPECT_NEAR(after.at("bn.running_var")[c], 0.9 + 0.1 * variance[c], 1e-13);
  }
}

TEST(Buffers, AStepThatIsNotDoneChangesNothing) {
  tensors before, after;
  auto const broken = made_data(std::numeric_limits<double>::infinity());
  launch<job<serial>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<serial>>(rank, with_momentum(), {.seed = 2});
    auto batches = plait::batches(broken, global_batch<batch_size>{}, rank, in_order());
    trainer.step(batches.at(0));
    trainer.export_parameters(into(before));
    EXPECT_THROW(trainer.step(batches.at(2)), plait::error);
    trainer.export_parameters(into(after));
  });
  EXPECT_EQ(after, before);
}

// Skipped batches count as taken, also when a run continues from a checkpoint. The third batch of
// each epoch is not finite.
TEST(Buffers, AStepThatIsLeftOutChangesNothing) {
  using plan = data_parallel<3, zero<1>>;
  auto const broken = made_data(std::numeric_limits<double>::infinity());
  auto const run = [&](bool leaves_out) {
    tensors out, averages;
    auto const folder = scratch("left_out");
    for (std::uint64_t const end : {std::uint64_t{3}, std::uint64_t{5}})
      launch<job<plan>>(threads{}, [&](auto& rank) {
        auto trainer =
            plait::trainer<job<plan>>(rank, with_momentum(),
                                      {.seed = 2,
                                       .clip = 0.1,
                                       .average = 0.8,
                                       .on_not_finite = trainer_options::not_finite::skip});
        auto batches = plait::batches(leaves_out ? broken : data(), global_batch<batch_size>{},
                                      rank, in_order());
        checkpoints saves(trainer, batches, {.folder = folder});
        auto step = saves.resume();
        EXPECT_EQ(step, leaves_out && end == 5 ? 3u : end == 5 ? 2u : 0u);
        std::int64_t skipped = 0;
        for (step = end == 5 ? 3 : 0; step < end; ++step)
          if (leaves_out || step % 3 != 2) skipped = trainer.step(batches.at(step)).skipped;
        EXPECT_EQ(skipped, leaves_out && end == 3 ? 1 : 0);
        saves.save();
        saves.finish();
        trainer.export_parameters(into(out));
        trainer.with_ema([&] { trainer.export_parameters(into(averages)); });
        if (!leaves_out || end == 5) return;
        EXPECT_EQ(saves.resume(), 3u);
        EXPECT_EQ(trainer.step(batches.at(3)).skipped, 0) << "it counts from a resume on";
      });
    for (auto& [name, values] : averages) out["average of " + name] = values;
    return out;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Buffers, HaveNoStateOfAnOptimizer) {
  launch<job<serial>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<serial>>(rank, adamw{}, {.average = 0.9});
    std::size_t parameters = 0, others = 0;
    for (auto const& [name, info, kind] : trainer.state()->tensors()) {
      (info.is_buffer() ? others : parameters) += 1;
      EXPECT_TRUE(!info.is_buffer() || name.ends_with("running_mean") ||
                  name.ends_with("running_var"))
          << name;
    }
    EXPECT_EQ(parameters, 6u * 4);
    EXPECT_EQ(others, 2u);
  });
  using plan = job<serial>::plan_type;
  static_assert(plan::parameter_count() == plan::trained_parameter_count() + 2 * 6);
}

// A frozen layer reads its buffers: a step computes the values that an evaluation computes.
TEST(Buffers, OfAFrozenLayerAreRead) {
  using fixed = job<serial, frozen<norm>>;
  tensors before, after;
  launch<fixed>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<fixed>(rank, with_momentum(), {.seed = 2});
    trainer.import_parameters([](std::string const& name, auto const&, auto values) {
      if (!name.starts_with("bn.")) return false;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5 + 0.1 * double(i);
      return true;
    });
    trainer.export_parameters(into(before));
    auto batches = plait::batches(data(), global_batch<batch_size>{}, rank, in_order());
    double const evaluated = trainer.evaluate(batches.at(0));
    auto const report = trainer.step(batches.at(0));
    EXPECT_NEAR(report.loss, evaluated, 1e-13);
    trainer.export_parameters(into(after));
    // The gradient must be the loss's; conv's is checked by a difference.
    tensors gradients;
    trainer.gradients_of(batches.at(1));
    trainer.export_gradients(into(gradients));
    auto const shifted_loss = [&](double by) {
      trainer.import_parameters([&](std::string const& name, auto const&, auto values) {
        if (name != "conv.weight") return false;
        std::copy_n(after.at(name).begin(), values.size(), values.begin());
        values[5] += by;
        return true;
      });
      return trainer.evaluate(batches.at(1));
    };
    EXPECT_NEAR((shifted_loss(1e-5) - shifted_loss(-1e-5)) / 2e-5, gradients.at("conv.weight")[5],
                1e-8);
  });
  for (auto const* name : {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"})
    EXPECT_EQ(after.at(name), before.at(name)) << name;
  EXPECT_NE(after.at("conv.weight"), before.at("conv.weight"));
}

}  // namespace buffers_testing
