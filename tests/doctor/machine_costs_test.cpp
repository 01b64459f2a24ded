// SPDX-License-Identifier: Apache-2.0
// test: libs=machine
#include "plait/doctor/machine_costs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "doctor/random_machine.hpp"
#include "plait/core/error.hpp"

namespace {

using plait::ext::collective;
using plait::ext::link_between;
using plait::ext::machine;
using plait::ext::machine_link;
using plait::ext::product_shape;
using plait::ext::rank_group;
using plait::ext::seconds_of_collective;
using plait::ext::seconds_of_product;
using plait::ext::transposed_operand;

template <class Call>
std::string refusal_of(Call call) {
  try {
    (void)call();
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no input_error";
}

/// Returns a machine with a product for each shape of a grid; `speed` returns the speed of a shape.
machine with_grid(std::vector<std::size_t> const& lengths, auto speed) {
  machine out;
  out.name = "grid";
  auto& type = out.element_types.emplace_back();
  type.name = "float";
  for (auto const rows : lengths)
    for (auto const columns : lengths)
      for (auto const inner : lengths) {
        product_shape const shape{rows, columns, inner, transposed_operand::none};
        type.products.push_back({shape, speed(shape)});
      }
  return out;
}

double flop_of(product_shape const& of) {
  return 2.0 * double(of.rows) * double(of.columns) * double(of.inner);
}
double speed_of(machine const& of, product_shape const& shape) {
  return flop_of(shape) / seconds_of_product(of, "float", shape);
}

/// Returns a speed that grows with each length up to a full speed, as for real products.
double saturating(product_shape const& of) {
  return 1e11 / (1 + 64.0 / double(of.rows) + 48.0 / double(of.columns) + 96.0 / double(of.inner));
}

TEST(SecondsOfProduct, MeasuredShapesHaveTheirMeasuredTime) {
  auto const machine = with_grid({32, 128, 512, 2048}, saturating);
  for (auto const& [shape, speed] : machine.element_types[0].products)
    EXPECT_DOUBLE_EQ(seconds_of_product(machine, "float", shape), flop_of(shape) / speed);
  // example-begin seconds_of_product
  double const seconds = plait::ext::seconds_of_product(
      machine, "float", {.rows = 4096, .columns = 1024, .inner = 768});
  // example-end
  EXPECT_GT(seconds, 2.0 * 4096 * 1024 * 768 / 1e11);
}

// Computes the rule in the comment of seconds_of_product by a formula for these shapes.
TEST(SecondsOfProduct, NearestSpeedsAreAveragedByTheirLogarithms) {
  machine machine;
  machine.name = "four";
  auto& type = machine.element_types.emplace_back();
  type.name = "float";
  type.products = {{{64, 64, 64, transposed_operand::none}, 1e9},
                   {{256, 64, 64, transposed_operand::none}, 4e9},
                   {{64, 1024, 64, transposed_operand::none}, 9e9},
                   {{64, 64, 64, transposed_operand::b}, 7e9}};
  // The shape has a distance of 1 from each of the first two shapes, and of sqrt(1 + 16) from the
  // third.
  double const logarithm =
      (std::log(1e9) / 1 + std::log(4e9) / 1 + std::log(9e9) / 17) / (1 + 1 + 1.0 / 17);
  EXPECT_NEAR(speed_of(machine, {.rows = 128, .columns = 64, .inner = 64}), std::exp(logarithm), 1);
  EXPECT_NEAR(speed_of(machine, {128, 64, 64, transposed_operand::b}), 7e9, 1);
  // A length outside the range counts as the nearest measured length: 8 and 32 as 64, 10^6 as 256.
  EXPECT_NEAR(speed_of(machine, {.rows = 8, .columns = 32, .inner = 64}), 1e9, 1);
  EXPECT_NEAR(speed_of(machine, {.rows = 1'000'000, .columns = 1, .inner = 1}), 4e9, 1);
}

TEST(SecondsOfProduct, TheEighthNearestSpeedIsTheLast) {
  machine machine;
  auto& type = machine.element_types.emplace_back();
  type.name = "float";
  // The distances from 2^10 are 1, 1, 2, 2, ... 5, 5; the two farthest shapes do not count.
  for (std::size_t i = 1; i <= 5; ++i)
    for (std::size_t const rows : {std::size_t{1024} << i, std::size_t{1024} >> i})
      type.products.push_back({{rows, 8, 8, transposed_operand::none}, i == 5 ? 1e3 : 1e9});
  EXPECT_NEAR(speed_of(machine, {.rows = 1024, .columns = 8, .inner = 8}), 1e9, 10);
  // Shapes as near as the eighth count, too, so the order of the products has no influence.
  type.products.push_back({{1024, 128, 8, transposed_operand::none}, 1e3});
  auto const speed = speed_of(machine, {.rows = 1024, .columns = 8, .inner = 8});
  EXPECT_LT(speed, 9e8);
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(type.products.begin(), type.products.end(), random);
    EXPECT_NEAR(speed_of(machine, {.rows = 1024, .columns = 8, .inner = 8}), speed, 1);
  }
}

TEST(SecondsOfProduct, SpeedsBetweenAGridAreNear) {
  auto const machine = with_grid({32, 76, 182, 437, 1048, 2512}, saturating);
  double least = 1e300, most = 0;
  for (auto const& product : machine.element_types[0].products) {
    least = std::min(least, product.flop_per_second);
    most = std::max(most, product.flop_per_second);
  }
  std::mt19937 random(2);
  std::uniform_real_distribution<double> logarithm(5, 11.2);
  auto const length = [&] { return static_cast<std::size_t>(std::exp2(logarithm(random))); };
  std::vector<double> errors;
  for (int i = 0; i < 300; ++i) {
    product_shape const shape{length(), length(), length(), transposed_operand::none};
    double const speed = speed_of(machine, shape);
    EXPECT_GE(speed, least * 0.999999);
    EXPECT_LE(speed, most * 1.000001);
    errors.push_back(std::abs(speed / saturating(shape) - 1));
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[150], 0.05);
  EXPECT_LT(errors[270], 0.10);
}

TEST(SecondsOfProduct, OtherQuestionsAreRefused) {
  auto const machine = random_machine::complete();
  EXPECT_EQ(refusal_of([&] {
              return seconds_of_product(machine, "bfloat16", {1, 1, 1, transposed_operand::a});
            }),
            "machine 'cluster' has no measured products of element type 'bfloat16' with transposed "
            "operand 'a'; measure the machine again, with these included");
  EXPECT_EQ(refusal_of([&] {
              return seconds_of_product(machine, "float", {1, 1, 1, transposed_operand::b});
            }),
            "machine 'cluster' has no measured products of element type 'float' with transposed "
            "operand 'b'; measure the machine again, with these included");
  EXPECT_EQ(
      refusal_of(
          [&] { return seconds_of_product(machine, "float", {8, 0, 3, transposed_operand::a}); }),
      "a product of rows x columns x inner = 8 x 0 x 3 has a length of 0; each length must be "
      "at least 1");
}

TEST(SecondsOfCollective, TimesAreLinearBetweenSizes) {
  auto const machine = random_machine::complete();  // 4 B 20 us, 1 KiB 30 us, 1 MiB 1 ms
  auto const seconds = [&](std::uint64_t bytes) {
    return seconds_of_collective(machine, collective::all_reduce, rank_group::world, bytes);
  };
  EXPECT_EQ(seconds(0), 2e-5);
  EXPECT_EQ(seconds(4), 2e-5);
  EXPECT_EQ(seconds(1024), 3e-5);
  EXPECT_EQ(seconds(1048576), 1e-3);
  EXPECT_NEAR(seconds(514), 2.5e-5, 1e-18);
  EXPECT_NEAR(seconds(524800), (3e-5 + 1e-3) / 2, 1e-15);
  EXPECT_NEAR(seconds(std::uint64_t{1} << 30), 1024 * 1e-3, 1e-12);
  for (std::uint64_t bytes = 1; bytes < 1u << 24; bytes += 1 + bytes / 3)
    EXPECT_LE(seconds(bytes), seconds(bytes + 1));
  EXPECT_EQ(seconds_of_collective(machine, collective::all_gather, rank_group::host, 1), 1e-6);
  EXPECT_EQ(
      refusal_of([&] {
        return seconds_of_collective(machine, collective::all_gather, rank_group::world, 1);
      }),
      "machine 'cluster' has no measured times of all_gather over groups 'world'; measure the "
      "machine again, with these included");
  EXPECT_EQ(refusal_of([&] {
              return seconds_of_collective(machine, collective::send, rank_group::one_per_host, 1);
            }),
            "machine 'cluster' has no measured times of send over groups 'one_per_host'; measure "
            "the machine again, with these included");
}

TEST(LinkBetween, AMeasuredPairIsPreferred) {
  auto machine = random_machine::complete();
  machine.link_latency_seconds[0][1] = 3e-6;
  EXPECT_EQ(link_between(machine, 0, 1), (machine_link{3e-6, 8e9, 2}));
  EXPECT_EQ(link_between(machine, 1, 0), (machine_link{1e-6, 8e9, 2}));
  // Ranks 1 and 3 are on two hosts, and were not measured.
  EXPECT_EQ(link_between(machine, 1, 3), *machine.link_between_hosts);
  machine.link_latency_seconds.clear();
  machine.link_bytes_per_second.clear();
  EXPECT_EQ(link_between(machine, 0, 1), *machine.link_within_host);
  EXPECT_EQ(link_between(machine, 2, 0), *machine.link_between_hosts);
  machine.link_between_hosts.reset();
  EXPECT_EQ(refusal_of([&] { return link_between(machine, 2, 0); }),
            "machine 'cluster' has no measured link between hosts; measure the machine again, with "
            "these included");
  for (auto const& [sender, receiver] : std::vector<std::pair<int, int>>{{1, 1}, {-1, 0}, {0, 4}})
    EXPECT_EQ(
        refusal_of([&, from = sender, to = receiver] { return link_between(machine, from, to); }),
        "machine 'cluster' has no link from rank " + std::to_string(sender) + " to rank " +
            std::to_string(receiver) + "; give two different ranks from 0 to 3");
}

}  // namespace
