// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "formula/modern_layers.hpp"
#include "oracle/stored_numbers.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/nn/identity.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plait.hpp"

/// Compares ten steps of small models under three plans, or six with PLAIT_ORACLE_OF_ALL_PLANS,
/// with PyTorch's losses, which tests/oracle/formula_reference.py prints.
namespace formula_oracle {

using namespace plait;

constexpr std::size_t in = 3, width = 12, out = 2, length = 4, batch = 4, steps = 10,
                      head_count = 6;

/// Returns a number between -1 and 1 for each place and key.
inline double number(std::size_t place, std::size_t key) {
  return std::sin(12.9898 * double(place) + 78.233 * double(key));
}
/// Returns the key of a parameter.
inline std::size_t key_of(std::string const& name) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < name.size(); ++i) sum += (i + 1) * std::size_t(name[i]);
  return sum % 97;
}

/// Samples with real targets, or with a class for each position.
template <class Target>
struct samples_by_formula {
  using concept_tag = dataset_tag;
  using element = double;
  using target = Target;
  static constexpr bool has_classes = std::is_same_v<Target, std::int32_t>;
  [[nodiscard]] std::size_t size() const { return batch * steps; }
  [[nodiscard]] std::size_t sequence_length() const { return length; }
  [[nodiscard]] std::size_t width() const { return in; }
  [[nodiscard]] std::size_t target_width() const { return has_classes ? 1 : out; }
  void inputs(std::size_t sample, std::span<double> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = number(sample * to.size() + i, 1);
  }
  void targets(std::size_t sample, std::span<Target> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::size_t const place = sample * to.size() + i;
      if constexpr (has_classes) to[i] = std::int32_t((7 * place + place / 5) % 4);
      else to[i] = number(place, 2);
    }
  }
};

using in_linear = named<"in", nn::linear<in, width>>;
template <class L, class First = in_linear>
struct regression
    : objective<sequential<First, named<"layer", L>, named<"out", nn::linear<width, out>>>,
                nn::mse<out>> {
  using target = double;
};
struct classification
    : objective<sequential<in_linear, nn::tanh<width>, named<"out", nn::linear<width, 4>>>,
                modern::focal_loss> {
  using target = std::int32_t;
};
template <class Objective, class Policy>
struct job : parallel<Objective, Policy, double> {
  using target = typename Objective::target;
};

template <class Job>
std::vector<double> losses_of() {
  std::vector<double> losses;
  samples_by_formula<typename Job::target> const data;
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, adamw{.learning_rate = 0.02, .beta2 = 0.95, .weight_decay = 0.1});
    trainer.import_parameters([](std::string const& name, auto const&, std::span<double> values) {
      double const offset = name.ends_with("norm") ? 1 : 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = offset + 0.5 * number(i, key_of(name));
    });
    auto from = batches(data, global_batch<batch>{}, rank, {.how = sample_order::sequential});
    for (std::uint64_t step = 0; step < steps; ++step) {
      double const loss = trainer.step(from.at(step)).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

inline void expect_near(std::vector<double> const& expected, std::vector<double> const& got,
                        char const* plan) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-10) << plan << ", step " << i;
}
/// Trains under each plan. `name`: the line of PyTorch's numbers.
template <class Objective>
void expect_losses_of(char const* name) {
  auto const expected = plait_test::stored_numbers("formula_numbers.txt", name);
  expect_near(expected, losses_of<job<Objective, serial>>(), "serial");
#ifdef PLAIT_ORACLE_OF_ALL_PLANS  // takes twice the time to compile
  expect_near(expected, losses_of<job<Objective, data_parallel<2>>>(), "2 data ranks");
  expect_near(expected, losses_of<job<Objective, tensor_parallel<2>>>(), "2 tensor ranks");
  expect_near(expected, losses_of<job<Objective, pipeline<2>>>(), "2 stages");
#endif
  expect_near(expected, losses_of<job<Objective, tensor_parallel<3>>>(), "3 tensor ranks");
  using all = hybrid<data_parallel<2>, tensor_parallel<2>, pipeline<2>>;
  expect_near(expected, losses_of<job<Objective, all>>(), "2 on each axis");
}
/// Trains L between two layers of `nn`.
template <class L, class First = in_linear>
void expect_losses(char const* name) {
  expect_losses_of<regression<L, First>>(name);
}

using namespace modern;

/// A layer of nn, and the unchanged data next to its output.
using with_data = fan_out<in_linear, nn::identity<in>>;

}  // namespace formula_oracle
