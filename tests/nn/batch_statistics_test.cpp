// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=40
//
// A residual net of images with batch_norm of all samples of a microbatch, on all ranks: under each
// plan the numbers equal the numbers of a serial run whose microbatches have the same samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "nn/image_plans.hpp"
#include "plait/plait.hpp"
#include "plan/expected_calls.hpp"
#include "testing/broken_layers.hpp"

namespace {

using namespace image_plans;

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
  expect_serial_with<hybrid<data_parallel<2, zero<1>, buckets<512>>, recompute<granularity::all>>>(
      1, "zero<1>, small buckets, recompute");
  expect_serial_with<hybrid<data_parallel<2, zero<3>>, recompute<granularity::cheap>>>(
      1, "zero<3>, recompute");
  expect_serial_with<hybrid<data_parallel<2>, tensor_parallel<2>, recompute<granularity::moves>>>(
      1, "dp2.tp2, moves again");
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

  /// Both ranks have 8 samples of each microbatch, but of the last batch 8 and 3.
  static std::size_t place(std::size_t sample) {
    constexpr std::size_t part = batch_size / 4;
    std::size_t const first = sample / batch_size * batch_size, in_batch = sample - first;
    std::size_t const of_rank = std::min(batch_size, samples - first) / 2;
    std::size_t const microbatch = in_batch / (2 * part);
    std::size_t const here = std::min(part, of_rank - microbatch * part);
    std::size_t const within = in_batch - microbatch * 2 * part;
    return first + within / here * of_rank + microbatch * part + within % here;
  }
  [[nodiscard]] std::size_t size() const { return of.size(); }
  [[nodiscard]] std::size_t sequence_length() const { return of.sequence_length(); }
  [[nodiscard]] std::size_t width() const { return of.width(); }
  void inputs(std::size_t sample, std::span<element> out) const { of.inputs(place(sample), out); }
  void targets(std::size_t sample, auto out) const { of.targets(place(sample), out); }
};

TEST(BatchStatistics, OfSeveralMicrobatchesAreOfTheSamplesThatRanksHaveInThem) {
  auto const sequential = sample_order::sequential;
  auto const& all = data<double>();
  reordered<std::remove_cvref_t<decltype(all)>> const in_order{all};
  auto const right = train_on<whole<serial>>(in_order, threads{}, 2, false, steps, sequential);
  auto const two = train_on<whole<data_parallel<2>>>(all, threads{}, 2, true, steps, sequential);
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

/// Checks that the ranks of a job make the list's calls, in its order, in a step and an evaluation.
template <class Job>
void expect_calls_of_the_list(int microbatches) {
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{});
    auto batches = plait::batches(data<double>(), global_batch<batch_size>{}, rank,
                                  {.microbatches = microbatches});
    auto const& batch = batches.at(0);
    trainer.evaluate(batch);  // compares the batches
    std::vector<detail::logged_call> log;
    for (auto const over : rank.groups().sets())
      rank.group(over).log_calls(&log, static_cast<int>(over.bits));
    workload const load{.rows = batches.rows(),
                        .microbatches = batches.microbatches(),
                        .data_ranks = rank.grid().size(axis::data)};
    auto const compare = [&](planning::job_part part) {
      EXPECT_EQ(
          (expected_calls::expansion<Job>(rank.grid(), rank.coordinates(), load, part).lines()),
          expected_calls::lines_of(log))
          << rank.world_rank();
      log.clear();
    };
    trainer.step(batch);
    compare(planning::job_part::training);
    trainer.evaluate(batch);
    compare(planning::job_part::evaluation);
    for (auto const over : rank.groups().sets()) rank.group(over).log_calls(nullptr, 0);
  });
}
TEST(BatchStatistics, SendWhatTheListSays) {
  expect_calls_of_the_list<whole<hybrid<data_parallel<2, buckets<512>>, pipeline<2>>>>(2);
  expect_calls_of_the_list<
      whole<hybrid<data_parallel<2>, tensor_parallel<2>, recompute<granularity::all>>>>(2);
  // Sums for every channel, 8 of them: two forward, and one of two kinds backward; none in an
  // evaluation.
  using plan = whole<data_parallel<2>>::plan_type;
  workload const load{.rows = 4, .microbatches = 3};
  std::int64_t sums = 0, bytes = 0;
  for (auto const& row : planning::transfers_of<plan>(0, load, planning::job_part::training))
    if (row.item >= 0) sums += row.times, bytes += row.times * std::int64_t(row.count * 8);
  EXPECT_EQ(sums, 2 * 3 * 3);
  EXPECT_EQ(bytes, 2 * 3 * (8 + 8 + 16) * 8);
  for (auto const& row : planning::transfers_of<plan>(0, load, planning::job_part::evaluation))
    EXPECT_LT(row.item, 0);
}

// The sums of a body are the sums that its form lists, in training, on every rank.
struct summing_job : parallel<objective<named<"row", broken::summing_row>, nn::cross_entropy<12>>,
                              data_parallel<2>, double> {};
std::string said_of_sums(broken::summing_row::sums fault, auto const& backend) {
  broken::summing_row::fault = fault;
  auto const all = in_memory<double>::random_classes(8, 12, 12);
  try {
    launch<summing_job>(backend, [&](auto& rank) {
      auto trainer = plait::trainer<summing_job>(rank, sgd{});
      auto batches = plait::batches(all, global_batch<8>{}, rank, {.microbatches = 2});
      trainer.evaluate(batches.at(0));
      trainer.step(batches.at(0));
    });
  } catch (error const& problem) {
    return problem.what();
  }
  return "";
}
TEST(BatchStatistics, OfABodyMatchTheListOfItsForm) {
  using sums = broken::summing_row::sums;
  auto const expect_said = [](sums fault, std::string const& text) {
    EXPECT_NE(said_of_sums(fault, threads{}).find(text), std::string::npos)
        << said_of_sums(fault, threads{});
    EXPECT_NE(said_of_sums(fault, simulated{}).find(text), std::string::npos);
  };
  EXPECT_EQ(said_of_sums(sums::as_listed, threads{}), "");
  EXPECT_EQ(said_of_sums(sums::as_listed, simulated{}), "");
  std::string const begin = "ops.sum_over_samples in layer row forward, form \"row\": ";
  expect_said(sums::once_more,
              begin + "sum 2 of the body is of 12 values, but the form lists 1 sums");
  expect_said(sums::once_less,
              begin + "the body ends without sum 1, but the form lists 12 values for it");
  expect_said(sums::shorter,
              begin + "sum 1 of the body is of 11 values, but the form lists 12 values for it");
}

TEST(BatchStatistics, OfOneValueAreAnError) {
  using one = nn::image<3, 1, 1>;
  struct tiny
      : parallel<objective<sequential<nn::batch_norm<one>, nn::linear<3, 2>>, nn::cross_entropy<2>>,
                 data_parallel<2>, double> {};
  auto const all = in_memory<double>::random_classes(3, 3, 2);
  try {
    launch<tiny>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<tiny>(rank, sgd{});
      auto batches = plait::batches(all, global_batch<2>{}, rank, {.last = last_batch::keep});
      trainer.step(batches.at(0));
      trainer.step(batches.at(1));
    });
    FAIL() << "no error";
  } catch (size_mismatch const& e) {
    EXPECT_NE(std::string(e.what()).find("one value for each channel, which has no variance"),
              std::string::npos)
        << e.what();
  }
}
// Only the last group may be short.
TEST(BatchStatistics, OfAGroupOfOneValueAreAnError) {
  using one = nn::image<3, 1, 1>;
  using pairs = nn::batch_norm<one, {.group = 2}>;
  struct tiny : parallel<objective<sequential<pairs, nn::linear<3, 2>>, nn::cross_entropy<2>>,
                         serial, double> {};
  auto const all = in_memory<double>::random_classes(7, 3, 2);
  launch<tiny>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<tiny>(rank, sgd{});
    auto batches = plait::batches(all, global_batch<4>{}, rank, {.last = last_batch::keep});
    trainer.step(batches.at(0));
    try {
      trainer.step(batches.at(1));
      ADD_FAILURE() << "no error";
    } catch (size_mismatch const& e) {
      EXPECT_NE(std::string(e.what()).find("which has no variance"), std::string::npos) << e.what();
    }
  });
}

TEST(BatchStatistics, HaveNoRaceOnASimulatedDevice) {
  using two = whole<hybrid<data_parallel<2, buckets<512>>, pipeline<2>>>;
  // An evaluation's sum of losses waits on the first stage, too, whose forward makes none; and the
  // last sums of bn1's backward, on the stream of its bucket, have waited for its gradients.
  std::set<std::string> const unneeded{
      "step: row 2 waits for forward from unit 0 on",
      "step: row 7 from unit 1 on waits for backward from unit 1 on"};
  int within = 0;
  for (auto const& site : expect_no_race<two>(2, unneeded))
    within += site.where == ext::wait_site::part::layer;
  EXPECT_EQ(within,
            2 * 3 * 2);  // two layers with three sums each, for each of which two streams wait
}

}  // namespace
