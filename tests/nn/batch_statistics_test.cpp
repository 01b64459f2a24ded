// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=40
//
// A residual net of images with batch_norm of all samples of a microbatch, on all ranks: under each
// plan the numbers are those of a serial run whose microbatches have the same samples.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <type_traits>

#include "nn/image_plans.hpp"
#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"

namespace image_plans {

template <class Policy, class Element = double>
using whole = job<Policy, Element, 0>;

outcome const& serial_with(int microbatches) {
  static std::array<outcome, 5> made{};
  auto& out = made.at(std::size_t(microbatches));
  if (out.losses.empty()) out = train<whole<serial>>(threads{}, microbatches);
  return out;
}

template <class Policy>
void expect_serial_with(int microbatches, std::string const& plan) {
  expect_near(train<whole<Policy>>(threads{}, microbatches, true), serial_with(microbatches), plan);
}

// The last batch of an epoch has fewer samples: 22, of which four ranks have 6, 6, 5 and 5.
TEST(BatchStatistics, AreThoseOfTheSerialRun) {
  expect_serial_with<data_parallel<2>>(1, "dp2");
  expect_serial_with<tensor_parallel<2>>(2, "tp2");
  expect_serial_with<pipeline<2>>(4, "pp2");
  expect_serial_with<hybrid<data_parallel<4>, pipeline<2>, tensor_parallel<2>>>(1, "dp4.pp2.tp2");
  expect_serial_with<data_parallel<4, zero<2>, within<2>>>(1, "zero<2> within 2 of 4");
}
TEST(BatchStatistics, OfBlocksAndWhatIsMadeAgain) {
  expect_serial_with<hybrid<data_parallel<2, zero<1>, buckets<512>>, recompute<again::all>>>(
      1, "zero<1>, small buckets, recompute");
  expect_serial_with<hybrid<data_parallel<2, zero<3>>, recompute<again::cheap>>>(
      1, "zero<3>, recompute");
}
TEST(BatchStatistics, DifferFromThoseOfGroups) {
  EXPECT_NE(serial_with(1).losses, train<job<serial>>(threads{}, 1).losses);
  EXPECT_NE(serial_with(1).losses, serial_with(2).losses);
}

/// The samples of a serial run whose microbatches have those that two ranks have in theirs.
template <class Data>
struct reordered {
  using concept_tag = dataset_tag;
  using element = typename Data::element;
  Data const& of;

  static std::size_t place(std::size_t sample) {
    std::size_t const part = batch_size / 4, in_batch = sample % batch_size;
    std::size_t const microbatch = in_batch / part / 2, rank = in_batch / part % 2;
    return sample - in_batch + (rank * 2 + microbatch) * part + sample % part;
  }
  [[nodiscard]] std::size_t size() const { return of.size(); }
  [[nodiscard]] std::size_t sequence_length() const { return of.sequence_length(); }
  [[nodiscard]] std::size_t width() const { return of.width(); }
  void inputs(std::size_t sample, std::span<element> out) const { of.inputs(place(sample), out); }
  void targets(std::size_t sample, auto out) const { of.targets(place(sample), out); }
};

TEST(BatchStatistics, OfSeveralMicrobatchesAreOfTheSamplesThatRanksHaveInThem) {
  auto const sequential = sample_order::sequential;
  auto const all = in_memory<double>::random_classes(2 * batch_size, picture::size, classes, 4);
  reordered<std::remove_cvref_t<decltype(all)>> const in_order{all};
  auto const right = train_on<whole<serial>>(in_order, threads{}, 2, false, 2, sequential);
  auto const two = train_on<whole<data_parallel<2>>>(all, threads{}, 2, true, 2, sequential);
  expect_near(two, right, "dp2, 2 microbatches");
}

TEST(BatchStatistics, OfFrozenLayersAreTheBuffers) {
  using frozen_net = frozen<net<0>>;
  using head = named<"head", nn::linear<classes, classes>>;
  struct tuned : parallel<objective<sequential<frozen_net, head>, nn::cross_entropy<classes>>,
                          data_parallel<2>, double> {};
  auto const got = train<tuned>(threads{}, 2, true);
  for (double const value : got.weights.at("bn1.running_mean")) EXPECT_EQ(value, 0);
  for (double const value : got.weights.at("bn1.running_var")) EXPECT_EQ(value, 1);
}

TEST(BatchStatistics, HaveNoRaceOnASimulatedDevice) {
  using two = whole<hybrid<data_parallel<2, buckets<512>>, pipeline<2>>>;
  auto const expected = train<two>(threads{}, 2, false, 1);
  ext::simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    ASSERT_TRUE(train<two>(simulated{.seed = seed, .statistics = &statistics}, 2, false, 1) ==
                expected)
        << seed;
  int within = 0;
  for (auto const& site : statistics.sites) within += site.where == ext::wait_site::part::layer;
  EXPECT_GT(within, 0);
}

}  // namespace image_plans
