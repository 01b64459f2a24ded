// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=30
//
// A residual net of images with batch_norm of groups under every plan, the last partial batch too:
// weights, running statistics and the loss in evaluation equal the results of the serial run.
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <string>

#include "nn/image_plans.hpp"
#include "plait/plait.hpp"

namespace {

using namespace image_plans;

outcome const& serial_run() {
  static outcome const once = train<job<serial>>(threads{}, 1);
  return once;
}

template <class Policy>
void expect_serial(int microbatches, std::string const& plan) {
  expect_near(train<job<Policy>>(threads{}, microbatches, true), serial_run(), plan);
}

TEST(ImagePlans, StatisticsHaveMoved) {
  auto const& of = serial_run().weights;
  for (double const value : of.at("layer1.bn.running_mean")) EXPECT_NE(value, 0);
  for (double const value : of.at("layer1.bn.running_var")) EXPECT_NE(value, 1);
  EXPECT_EQ(of.size(), 2u + 4 + 1 + 4 + 2);
}
TEST(ImagePlans, AreTheSerialRun) {
  expect_serial<serial>(8, "serial, 8 microbatches");
  expect_serial<data_parallel<2>>(1, "dp2");
  expect_serial<tensor_parallel<2>>(2, "tp2");
  expect_serial<pipeline<2>>(4, "pp2");
  expect_serial<hybrid<data_parallel<2>, pipeline<2>>>(4, "dp2.pp2");
  expect_serial<hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2>>>(2, "pp2.dp2.tp2");
}
TEST(ImagePlans, OfBlocksAndWhatIsMadeAgain) {
  expect_serial<data_parallel<2, zero<1>>>(1, "zero<1>");
  expect_serial<hybrid<data_parallel<2, zero<3>>, recompute<granularity::all>>>(
      2, "zero<3>, recompute");
}

// Slices of 4 samples each; the last batch has empty ones.
template <int Ranks>
outcome reproducible_run() {
  return train<job<hybrid<data_parallel<>, reproducible<8>>, float>>(threads{.data_ranks = Ranks},
                                                                     0);
}
TEST(ImagePlans, AreTheSameBitsOnAnyNumberOfRanks) {
  auto const one = reproducible_run<1>();
  EXPECT_TRUE(reproducible_run<2>() == one);
  EXPECT_TRUE(reproducible_run<3>() == one);
  EXPECT_TRUE(reproducible_run<8>() == one);
}

TEST(ImagePlans, GroupsDivideAMicrobatch) {
  try {
    train<job<data_parallel<2>>>(threads{}, 8);
    FAIL() << "no error";
  } catch (std::exception const& e) {
    std::string const text = e.what();
    EXPECT_NE(text.find("a microbatch has 2 samples on each data rank"), std::string::npos) << text;
    EXPECT_NE(text.find("and 4 samples of a group must be in the same microbatch"),
              std::string::npos)
        << text;
  }
}

TEST(ImagePlans, HaveNoRaceOnASimulatedDevice) {
  EXPECT_GT((expect_no_race<job<hybrid<pipeline<2>, tensor_parallel<2>>>>(4).size()), 10u);
}

}  // namespace
