// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=4
//
// Measures over a data set that no batch divides equal one loop over its samples.
#include "plait/train/measures/measures.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t width = 6, classes = 4, count = 23;
using body = sequential<named<"in", nn::linear<width, 8>>, nn::gelu<8>,
                        named<"out", nn::linear<8, classes>>>;

/// A user's own measure.
struct sum_of_squares {
  using concept_tag = measure_tag;
  static constexpr std::size_t numbers = 1;
  static void add(std::span<double const> outputs, auto, double weight, std::span<double> sums) {
    for (double const x : outputs) sums[0] += weight * x * x;
  }
  static double value(std::span<double const> sums, ext::evaluation_totals const&) {
    return sums[0];
  }
};

/// Two losses, the second of which does not count one of the classes.
using two_losses = sum_of<nn::cross_entropy<classes>,
                          times<fraction(0.3), nn::cross_entropy<classes, {.ignored = 2}>>>;
template <class Policy>
struct by_class : parallel<objective<body, two_losses>, Policy, double> {};
template <class Policy>
struct by_number : parallel<objective<body, nn::mse<classes>>, Policy, double> {};

in_memory<double> const& samples() {
  static auto const data = in_memory<double>::random_classes(count, width, classes, 5);
  return data;
}
in_memory<double, double> const& numbers() {
  static auto const data = [] {
    std::vector<double> features, targets;
    for (std::size_t i = 0; i < count * width; ++i) features.push_back(std::sin(double(i * i)));
    for (std::size_t i = 0; i < count * classes; ++i) targets.push_back(std::cos(double(3 * i)));
    return in_memory<double, double>(features, targets, width, classes);
  }();
  return data;
}

/// Sets weights with which the model is sometimes right and sometimes wrong.
template <class Trainer>
void prepare(Trainer& trainer) {
  trainer.import_parameters([](std::string const& name, auto const&, std::span<double> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(double(7 * i + name.size()));
  });
}

/// Returns the outputs of all samples, on one rank.
template <template <class> class Job, class Data>
std::vector<double> outputs_of(Data const& data) {
  std::vector<double> out;
  launch<Job<serial>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job<serial>>(rank, sgd{});
    prepare(trainer);
    for (auto const& batch :
         batches(data, global_batch<1>{}, rank, {.how = sample_order::sequential})) {
      auto const made = trainer.predict(batch);
      out.insert(out.end(), made.begin(), made.end());
    }
  });
  return out;
}

std::int32_t label_of(std::size_t sample) {
  std::int32_t label[1];
  samples().targets(sample, label);
  return label[0];
}

template <class Policy, class Backend>
void expect_measures_by_hand(Backend const& backend) {
  auto const outputs = outputs_of<by_class>(samples());
  double first_loss = 0, other_loss = 0, others = 0, right = 0, second = 0, squares = 0;
  double confusion[classes][classes] = {};
  for (std::size_t s = 0; s < count; ++s) {
    double const* const row = outputs.data() + s * classes;
    auto const label = static_cast<std::size_t>(label_of(s));
    double total = 0;
    std::size_t greater = 0, best = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      total += std::exp(row[c]);
      squares += row[c] * row[c];
      greater += row[c] > row[label] ? 1 : 0;
      if (row[c] > row[best]) best = c;
    }
    double const of_row = std::log(total) - row[label];
    first_loss += of_row;
    if (label != 2) other_loss += of_row, ++others;
    right += greater == 0 ? 1 : 0;
    second += greater <= 1 ? 1 : 0;
    ++confusion[label][best];
  }
  double const loss = first_loss / count + 0.3 * other_loss / others;
  ASSERT_LT(others, double(count));
  ASSERT_GT(right, 0);
  ASSERT_LT(second, double(count));
  using job = by_class<Policy>;
  launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, sgd{});
    prepare(trainer);
    auto const [mean, accuracy, top2, perplexity, matrix, own] =
        trainer.evaluate(samples(), global_batch<8>{}, measures::mean_loss{}, measures::accuracy{},
                         measures::top<2>{}, measures::perplexity{},
                         measures::confusion_matrix<classes>{}, sum_of_squares{});
    EXPECT_NEAR(mean, loss, 1e-12);
    EXPECT_NEAR(perplexity, std::exp(loss), 1e-11);
    EXPECT_EQ(accuracy, right / count);
    EXPECT_EQ(top2, second / count);
    EXPECT_NEAR(own, squares, 1e-10);
    for (std::size_t a = 0; a < classes; ++a)
      for (std::size_t b = 0; b < classes; ++b) EXPECT_EQ(matrix[a][b], confusion[a][b]);
    auto const [alone] = trainer.evaluate(samples(), global_batch<4>{}, measures::mean_loss{});
    EXPECT_NEAR(alone, loss, 1e-12);
  });
}

template <class Policy, class Backend>
void expect_error_by_hand(Backend const& backend) {
  auto const outputs = outputs_of<by_number>(numbers());
  double error = 0, squared = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    double const distance = outputs[i] - std::cos(double(3 * i));
    error += std::abs(distance);
    squared += distance * distance;
  }
  using job = by_number<Policy>;
  launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, sgd{});
    prepare(trainer);
    auto const [mean, absolute] = trainer.evaluate(
        numbers(), global_batch<8>{}, measures::mean_loss{}, measures::mean_absolute_error{});
    EXPECT_NEAR(mean, squared / double(outputs.size()), 1e-12);
    EXPECT_NEAR(absolute, error / double(outputs.size()), 1e-12);
  });
}

using grid = hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2>>;

TEST(Measures, AreThoseOfOneLoopOverTheSamples) {
  expect_measures_by_hand<serial>(threads{});
  expect_measures_by_hand<grid>(threads{});
  expect_measures_by_hand<grid>(simulated{});
  expect_error_by_hand<grid>(threads{});
}

/// Returns the text of the error that evaluate throws.
template <class Measure>
std::string refusal(auto const& data, Measure of) {
  using job = by_class<serial>;
  try {
    launch<job>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, sgd{});
      (void)trainer.evaluate(data, global_batch<8>{}, of);
    });
  } catch (input_error const& problem) {
    return problem.what();
  }
  return "";
}

// A model whose outputs are nan is right about nothing.
TEST(Measures, NanOutputsAreNotRight) {
  double const nan = std::nan(""), rows[][3]{{nan, nan, nan}, {1, nan, 3}, {3, 2, 1}};
  std::int32_t const labels[]{0, 2, 0};
  std::vector<double> first(2), two(2), matrix(9);
  for (std::size_t row = 0; row < 3; ++row) {
    std::span const label(labels + row, 1);
    measures::accuracy::add(rows[row], label, 1, first);
    measures::top<2>::add(rows[row], label, 1, two);
    if (row > 0) measures::confusion_matrix<3>::add(rows[row], label, 1, matrix);
    measures::confusion_matrix<3>::add(rows[row], label, 0, matrix);  // this row does not count
  }
  EXPECT_EQ(first, (std::vector<double>{1, 3}));
  EXPECT_EQ(two, (std::vector<double>{2, 3}));  // one of the two rows has the NaN
  EXPECT_EQ(matrix[0], 1);
  for (std::size_t taken_for = 0; taken_for < 3; ++taken_for)
    EXPECT_TRUE(std::isnan(matrix[6 + taken_for]));
}

TEST(Measures, RefuseWhatDoesNotFitTheModel) {
  EXPECT_NE(refusal(samples(), measures::confusion_matrix<3>{})
                .find("it has 3 classes, but the model has 4 outputs"),
            std::string::npos);
  std::vector<double> sums(2);
  double const outputs[]{1, 2};
  std::int32_t const label[]{2};
  double const numbers[]{1, 2, 3};
  EXPECT_THROW(measures::accuracy::add(outputs, label, 1, sums), input_error);
  EXPECT_THROW(
      measures::mean_absolute_error::add(outputs, std::span<double const>(numbers), 1, sums),
      input_error);
}

/// Writes past its numbers.
template <std::size_t Behind>
struct overrun {
  using concept_tag = measure_tag;
  static constexpr std::size_t numbers = 2;
  static void add(std::span<double const>, auto, double weight, std::span<double> sums) {
    sums.data()[1 + Behind] += weight;
  }
  static double value(std::span<double const> sums, ext::evaluation_totals const&) {
    return sums[1];
  }
};

TEST(Measures, OneThatWritesPastItsNumbersIsNamed) {
  EXPECT_EQ(refusal(samples(), overrun<0>{}), "");
  auto const text = refusal(samples(), overrun<1>{});
  EXPECT_NE(text.find("overrun<1"), std::string::npos) << text;
  EXPECT_NE(text.find("has written past the end of its 2 sums;"), std::string::npos);
  EXPECT_NE(refusal(samples(), overrun<4>{}).find("overrun<4"), std::string::npos);
}

template <class Backend>
void expect_unlike_measures_are_named(Backend const& backend) {
  using job = by_class<grid>;
  std::mutex mutex;
  std::multiset<std::string> texts;
  launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, sgd{});
    try {
      if (rank.world_rank() == 5)
        (void)trainer.evaluate(samples(), global_batch<8>{}, measures::top<2>{});
      else (void)trainer.evaluate(samples(), global_batch<8>{}, measures::accuracy{});
    } catch (input_error const& problem) {
      std::scoped_lock const lock{mutex};
      texts.insert(problem.what());
    }
  });
  ASSERT_EQ(texts.size(), 8u);
  EXPECT_EQ(texts.count(*texts.begin()), 8u) << "the same on all ranks";
  EXPECT_NE(texts.begin()->find("batches 1: the ranks differ in the measures: "
                                "'plait::measures::top<1>' on rank 0, "
                                "'plait::measures::top<2>' on rank 5"),
            std::string::npos)
      << *texts.begin();
}

TEST(Measures, UnlikeOnesOnRanksAreNamedOnAllRanks) {
  expect_unlike_measures_are_named(threads{});
  expect_unlike_measures_are_named(simulated{});
}

TEST(Measures, MemoryIsThePlans) {
  using job = by_class<grid>;
  launch<job>(threads{}, [](auto& rank) {
    auto trainer = plait::trainer<job>(rank, sgd{});
    (void)trainer.evaluate(samples(), global_batch<8>{}, measures::accuracy{});
    auto const planned = job::plan_type::memory(
        rank.stage(), {.rows = 2, .microbatches = 2, .optimizer_states = 1, .measured_numbers = 2});
    EXPECT_EQ(trainer.allocated().total() + planned.batches, planned.total());
  });
}

}  // namespace
