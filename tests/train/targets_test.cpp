// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=4
//
// Targets that are numbers, of any width, per position or per sample, with weights: every plan
// computes the results of a loop over the samples.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nn/several_labels.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "train/penalty.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t length = 3, input_width = 6, wide = 2, count = 22;

double input_of(std::size_t sample, std::size_t i) { return std::sin(double(7 * sample + i)); }
/// Returns a target; one target is missing.
double target_of_place(std::size_t sample, std::size_t i) {
  if (sample == 5 && i == 1) return std::numeric_limits<double>::quiet_NaN();
  return 0.5 + 0.5 * std::cos(double(3 * sample + 2 * i));
}
double weight_of(std::size_t sample) { return double(sample % 4) / 2; }

template <bool PerSample, bool Weighted>
struct table {
  using concept_tag = dataset_tag;
  using element = double;
  using target = float;  // converted to the type in which the job sums
  static constexpr bool targets_per_sample = PerSample;
  [[nodiscard]] std::size_t size() const { return count; }
  [[nodiscard]] std::size_t sequence_length() const { return length; }
  [[nodiscard]] std::size_t width() const { return input_width; }
  [[nodiscard]] std::size_t target_width() const { return wide; }
  void inputs(std::size_t sample, std::span<double> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = input_of(sample, i);
  }
  void targets(std::size_t sample, std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(target_of_place(sample, i));
  }
  [[nodiscard]] double weight(std::size_t sample) const
    requires Weighted
  {
    return weight_of(sample);
  }
};

using body = sequential<named<"in", nn::linear<input_width, 12>>, nn::gelu<12>,
                        named<"out", nn::linear<12, wide>>>;
using penalized =
    sequential<plait_test::penalty<input_width>, named<"in", nn::linear<input_width, 12>>,
               nn::gelu<12>, named<"out", nn::linear<12, wide>>>;
template <class Policy, class Loss, class Element = double, class Body = body>
struct job : parallel<objective<Body, Loss>, Policy, Element> {};

struct outcome {
  std::vector<double> losses;
  std::vector<double> labels;
  double evaluated = 0;
  std::map<std::string, std::vector<double>> weights;
};

template <class Job, class Data, class Backend = threads>
outcome train(Data const& data, Backend const& backend = {}) {
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{.learning_rate = 0.3, .momentum = 0.9},
                                       {.seed = 4, .clip = 1});
    auto from = batches<typename Job::element>(
        data, global_batch<8>{}, rank, {.last = last_batch::keep, .epochs = 0, .microbatches = 2});
    for (std::uint64_t step = 0; step < 5; ++step) {  // the third step has 6 samples
      auto const report = trainer.step(from.at(step));
      if (rank.is_root()) {
        out.losses.push_back(report.loss);
        out.labels.push_back(report.labels);
      }
    }
    double const evaluated = trainer.evaluate(from.at(2));
    if (rank.is_root()) out.evaluated = evaluated;
    trainer.export_parameters([&](std::string const& name, auto const&, auto values) {
      out.weights[name].assign(values.begin(), values.end());
    });
  });
  return out;
}

void expect_near(outcome const& expected, outcome const& got, double tolerance) {
  EXPECT_EQ(expected.labels, got.labels);
  ASSERT_EQ(expected.losses.size(), got.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], tolerance) << i;
  EXPECT_NEAR(got.evaluated, expected.evaluated, tolerance);
  for (auto const& [name, values] : expected.weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.weights.at(name)[i], values[i], 10 * tolerance) << name;
}

using grid = hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2>>;

template <class Loss, class Data>
void expect_plans_are_serial(Data const& data) {
  auto const serial_run = train<job<serial, Loss>>(data);
  EXPECT_LT(serial_run.losses.back(), serial_run.losses.front());
  expect_near(serial_run, train<job<data_parallel<2>, Loss>>(data), 1e-12);
  expect_near(serial_run, train<job<grid, Loss>>(data), 1e-12);
  expect_near(serial_run, train<job<grid, Loss>>(data, simulated{}), 1e-12);
}

TEST(Targets, PlansAreTheSerialRun) {
  expect_plans_are_serial<nn::mse<wide>>(table<false, false>{});
  expect_plans_are_serial<nn::binary_cross_entropy<wide>>(table<true, true>{});
}

// The mean of the first batch, by hand, from the model's outputs.
template <bool PerSample, bool Weighted, class Element>
void expect_loss_by_hand(double tolerance) {
  using one = job<data_parallel<2>, nn::mse<wide>, Element>;
  table<PerSample, Weighted> const data;
  launch<one>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<one>(rank, sgd{}, {.seed = 4});
    auto from = batches<typename one::element>(
        data, global_batch<16>{}, rank,
        {.how = sample_order::sequential, .last = last_batch::keep, .microbatches = 2});
    for (std::uint64_t step : {0u, 1u}) {  // these batches have 16 and 6 samples
      auto const& batch = from.at(step);
      double const loss = trainer.evaluate(batch);
      auto const made = trainer.predict(batch, predicted::of_all);
      std::size_t const samples = step == 0 ? 16 : 6;
      ASSERT_EQ(made.size(), samples * length * wide);
      double sum = 0, weights = 0;
      for (std::size_t s = 0; s < samples; ++s)
        for (std::size_t p = PerSample ? length - 1 : 0; p < length; ++p)
          for (std::size_t c = 0; c < wide; ++c) {
            std::size_t const sample = 16 * step + s;
            double const target = float(target_of_place(sample, (PerSample ? 0 : p) * wide + c));
            if (std::isnan(target)) continue;
            double const weight = Weighted ? weight_of(sample) : 1;
            double const x = static_cast<double>(static_cast<accumulate_t<typename one::element>>(
                made[(s * length + p) * wide + c]));
            sum += weight * (x - target) * (x - target);
            weights += weight;
          }
      EXPECT_NEAR(loss, sum / weights, tolerance * sum / weights) << step;
    }
  });
}

TEST(Targets, TheLossIsTheWeightedMeanOfWhatCounts) {
  expect_loss_by_hand<false, false, double>(1e-12);
  expect_loss_by_hand<true, true, double>(1e-12);
  expect_loss_by_hand<false, true, float>(1e-5);
  expect_loss_by_hand<true, false, precision<plait::bfloat16, float>>(1e-5);
}

// A term in mid-model counts only present samples, each times its weight. The term is the mean
// square of the inputs.
TEST(Targets, ATermInMidModelHasTheWeightsOfItsSamples) {
  using one = job<grid, nn::mse<wide>, double, penalized>;
  launch<one>(simulated{}, [&](auto& rank) {
    auto trainer = plait::trainer<one>(rank, sgd{}, {.seed = 4});
    auto from =
        batches(table<true, true>{}, global_batch<16>{}, rank,
                {.how = sample_order::sequential, .last = last_batch::keep, .microbatches = 2});
    for (std::uint64_t step : {0u, 1u}) {  // these batches have 16 and 6 samples
      double sum = 0, weights = 0;
      for (std::size_t s = 16 * step; s < (step == 0 ? 16 : 22); ++s) {
        for (std::size_t i = 0; i < length * input_width; ++i)
          sum += weight_of(s) * std::pow(input_of(s, i), 2) / input_width;
        weights += weight_of(s) * length;
      }
      auto const report = trainer.step(from.at(step));
      ASSERT_EQ(report.terms.size(), 2);
      EXPECT_NEAR(report.terms[0], sum / weights, 1e-12) << step;
      EXPECT_EQ(report.loss, report.terms[0] + report.terms[1]);
    }
  });
  EXPECT_EQ(one::plan_type::loss_term_names(), (std::vector<std::string>{"0", "loss"}));
}

template <class Policy>
struct integer_job : parallel<objective<body, plait_test::integer_distance<wide>>, Policy, double> {
};

/// A loss that counts places without a sample, too.
struct all_count : nn::mse<wide> {
  static std::int64_t count(std::span<double const> targets) { return std::ssize(targets); }
};

TEST(Targets, APlaceWithoutASampleCountsForNoLoss) {
  using known = job<grid, nn::mse<wide>>;
  using unknown = job<grid, all_count>;
  table<false, false> const data;
  double losses[2] = {};
  auto const evaluate = [&]<class Job>(Job*, double& loss) {
    launch<Job>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<Job>(rank, sgd{.learning_rate = 0.1}, {.seed = 4});
      auto from = batches(data, global_batch<16>{}, rank,
                          {.how = sample_order::sequential, .last = last_batch::keep});
      trainer.step(from.at(1));  // 6 samples
      double const mine = trainer.evaluate(from.at(1));
      if (rank.is_root()) loss = mine;
    });
  };
  evaluate(static_cast<known*>(nullptr), losses[0]);
  evaluate(static_cast<unknown*>(nullptr), losses[1]);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_GT(losses[0], 0);
}

/// A loss that returns a negative count.
struct miscounts : nn::mse<wide> {
  static std::int64_t count(std::span<double const>) { return -1; }
};

TEST(Targets, ACountThatCannotBeIsAnError) {
  using wrong = job<serial, miscounts>;
  try {
    train<wrong>(table<false, false>{});
    FAIL() << "no error";
  } catch (input_error const& problem) {
    EXPECT_NE(std::string(problem.what()).find("count of the loss returned -1 of 48 targets"),
              std::string::npos)
        << problem.what();
  }
}

/// A loss that has `classes`, whose count refuses no label, and which ignores weights.
struct of_three_classes : plait_test::integer_distance<wide> {
  static constexpr std::size_t classes = 3;
  static constexpr bool takes_weights = false;
};
struct weighted_classes : in_memory<double> {
  using in_memory<double>::in_memory;
  [[nodiscard]] double weight(std::size_t sample) const { return weight_of(sample); }
};

// A kernel of a loss never gets a label that counts and is not a class.
TEST(Targets, ALabelThatIsNoneOfTheClassesOfALossIsAnError) {
  std::vector<double> const features(20 * input_width, 0.5);
  std::vector<std::int32_t> targets(20 * wide, 2);
  targets[3] = -1;  // this label does not count
  auto const train_on_all = [&] {
    train<job<serial, of_three_classes>>(in_memory<double>(features, targets, input_width, wide));
  };
  EXPECT_NO_THROW(train_on_all());
  targets[7 * wide] = 3, targets[7 * wide + 1] = -1;
  try {
    train_on_all();
    FAIL() << "no error";
  } catch (input_error const& problem) {
    EXPECT_NE(std::string(problem.what())
                  .find("got label 3 at position 0 of sample 7 of the data set; the loss takes "
                        "labels from 0 to 2, and other labels only if its count() ignores them"),
              std::string::npos)
        << problem.what();
  }
}

TEST(Targets, WeightsThatALossDoesNotHeedAreAnError) {
  weighted_classes const data(std::vector<double>(20 * input_width, 0.5),
                              std::vector<std::int32_t>(20 * wide, 2), input_width, wide);
  EXPECT_THROW((train<job<serial, of_three_classes>>(data)), input_error);
}

// A count may be a sum of weights, which need not be whole numbers.
TEST(Targets, ALabelThatCountsAHalfAndIsNotAClassIsFound) {
  std::vector<std::int32_t> const labels{2, -1, 0, 3};
  auto const half = [](std::span<std::int32_t const> of_row) { return of_row[0] < 0 ? 0 : 0.5; };
  EXPECT_EQ(execution::find_bad_label(labels, 1, 3, false, half), 3);
  EXPECT_EQ(execution::find_bad_label(std::span(labels).first(3), 1, 3, false, half), -1);
}

// Some of several labels of a row may not count.
TEST(Targets, ALabelOfARowThatCountsAndIsNotAClassIsFound) {
  auto const but_255 = [](std::span<std::int32_t const> of_row) {
    return double(of_row.size()) - double(std::ranges::count(of_row, 255));
  };
  auto const but_100 = [](std::span<std::int32_t const> of_row) {
    return double(of_row.size()) - double(std::ranges::count(of_row, -100));
  };
  EXPECT_EQ(execution::find_bad_label(std::vector{3, 255}, 2, 10, true, but_255), -1);
  EXPECT_EQ(execution::find_bad_label(std::vector{255, 12}, 2, 10, true, but_255), 1);
  EXPECT_EQ(execution::find_bad_label(std::vector{-5, -100}, 2, 10, true, but_100), 0);
}

// A loss that derives from another may count labels that the base refuses.
struct counts_all : nn::cross_entropy<3> {
  static std::int64_t count(std::span<std::int32_t const> labels) {
    return static_cast<std::int64_t>(labels.size());
  }
};
static_assert(execution::checks_labels<counts_all> &&
              !execution::checks_labels<nn::cross_entropy<3>>);

TEST(Targets, MayBeSeveralIntegers) {
  std::vector<double> features;
  std::vector<std::int32_t> targets;
  for (std::size_t i = 0; i < 20 * input_width; ++i) features.push_back(input_of(0, i));
  for (std::size_t i = 0; i < 20 * wide; ++i) targets.push_back(std::int32_t(7 * i / 3 % 4) - 1);
  in_memory<double> const data(features, targets, input_width, wide);
  auto const serial_run = train<integer_job<serial>>(data);
  EXPECT_LT(serial_run.losses.back(), serial_run.losses.front());
  EXPECT_LT(serial_run.labels[0], double(8 * wide));
  expect_near(serial_run, train<integer_job<grid>>(data), 1e-12);
}

TEST(Targets, OfAnotherWidthAreRefused) {
  using narrow = parallel<objective<nn::linear<input_width, 1>, nn::mse<1>>, serial, double>;
  try {
    launch<narrow>(threads{}, [](auto& rank) {
      auto trainer = plait::trainer<narrow>(rank, sgd{});
      auto from = batches(table<false, false>{}, global_batch<8>{}, rank);
      trainer.step(from.at(0));
    });
    FAIL() << "no error";
  } catch (size_mismatch const& problem) {
    EXPECT_NE(std::string(problem.what()).find("targets of width 2, the model takes 1"),
              std::string::npos)
        << problem.what();
  }
}

}  // namespace
