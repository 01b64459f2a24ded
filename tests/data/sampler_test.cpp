// SPDX-License-Identifier: Apache-2.0
// test: optimise
#include "plait/data/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

namespace {

using plait::global_batch;
using plait::last_batch;
using plait::sample_order;
using plait::ext::sampler;

std::vector<std::size_t> epoch_order(sampler const& samples, std::uint64_t epoch) {
  std::vector<std::size_t> out(samples.samples());
  samples.fill(epoch, {0, out.size()}, out);
  return out;
}

std::vector<std::size_t> counted(std::size_t n) {
  std::vector<std::size_t> out(n);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

TEST(Sampler, EveryEpochIsAPermutation) {
  std::vector<std::size_t> sizes{1000, 4095, 4096, 4097, 65537, 100003};
  for (std::size_t n = 1; n <= 200; ++n) sizes.push_back(n);
  for (std::size_t const n : sizes)
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      auto got = epoch_order(sampler(n, {.seed = 3}), epoch);
      std::ranges::sort(got);
      ASSERT_EQ(got, counted(n)) << n << " samples, epoch " << epoch;
    }
}

TEST(Sampler, HugeDataSetsNeedNoMemoryAndStayInRange) {
  std::size_t const n = (std::size_t{1} << 63) + 12345;
  sampler const samples(n);
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < 200; ++i) seen.insert(samples.at(5, i));
  EXPECT_EQ(seen.size(), 200u);
  EXPECT_LT(*seen.rbegin(), n);
}

TEST(Sampler, SequentialOrderIsTheSamplesOwn) {
  sampler const samples(50, {.seed = 9, .order = sample_order::sequential});
  EXPECT_EQ(epoch_order(samples, 0), counted(50));
  EXPECT_EQ(epoch_order(samples, 7), counted(50));
}

TEST(Sampler, OrderDependsOnSeedEpochAndSizeOnly) {
  sampler const samples(100, {.seed = 1});
  EXPECT_EQ(epoch_order(samples, 0), epoch_order(sampler(100, {.seed = 1}), 0));
  EXPECT_NE(epoch_order(samples, 0), counted(100));
  EXPECT_NE(epoch_order(samples, 0), epoch_order(samples, 1));
  EXPECT_NE(epoch_order(samples, 0), epoch_order(samples, std::uint64_t{1} << 32));
  EXPECT_NE(epoch_order(samples, 0), epoch_order(sampler(100, {.seed = 2}), 0));
  EXPECT_NE(epoch_order(samples, 0), epoch_order(sampler(100, {.seed = 1ull << 32 | 1}), 0));
}

// The order is part of the answer of a training run, so it may not change by accident.
TEST(Sampler, OrderIsTheSameOnEveryMachine) {
  std::vector<std::size_t> const expected{0, 1, 5, 6, 8, 9, 4, 3, 7, 2};
  EXPECT_EQ(epoch_order(sampler(10, {.seed = 42}), 1), expected);
}

// Each sample lands at each place equally often. With 5 samples and 20000 epochs a cell of the
// 5 x 5 table has mean 4000 and standard deviation sqrt(20000 * 0.2 * 0.8) = 57; the bound is 5.5.
TEST(Sampler, ShufflingIsUniform) {
  sampler const samples(5, {.seed = 11});
  std::array<std::array<int, 5>, 5> table{};
  for (std::uint64_t epoch = 0; epoch < 20000; ++epoch)
    for (std::size_t i = 0; i < 5; ++i) ++table[i][samples.at(epoch, i)];
  for (auto const& row : table)
    for (int const count : row) EXPECT_NEAR(count, 4000, 310);
}

TEST(Sampler, EverySampleIsSeenByExactlyOneDataRank) {
  for (sample_order const how : {sample_order::sequential, sample_order::shuffled})
    for (last_batch const last : {last_batch::keep, last_batch::drop})
      for (int ranks = 1; ranks <= 5; ++ranks)
        for (std::size_t const share : {1u, 2u, 3u})
          for (std::size_t const n : {1u, 4u, 5u, 29u, 30u, 31u, 61u}) {
            sampler const samples(n, {.seed = 4, .order = how, .last = last});
            global_batch<> const batch{share * static_cast<std::size_t>(ranks)};
            std::size_t const batches = samples.batches_per_epoch(batch);
            std::vector<std::size_t> seen;  // in the order of batches and ranks
            for (std::size_t b = 0; b < batches; ++b) {
              std::size_t least = n, most = 0, here = 0;
              for (int d = 0; d < ranks; ++d) {
                auto const slice = samples.slice(batch, b, d, ranks);
                std::vector<std::size_t> mine(slice.count);
                samples.fill(2, slice, mine);
                seen.insert(seen.end(), mine.begin(), mine.end());
                least = std::min(least, slice.count);
                most = std::max(most, slice.count);
                here += slice.count;
              }
              EXPECT_LE(most - least, here == batch.samples ? 0u : 1u);
              if (b + 1 < batches || last == last_batch::drop) {
                EXPECT_EQ(here, batch.samples);
              }
            }
            auto expected = epoch_order(samples, 2);
            if (last == last_batch::drop) expected.resize(n - n % batch.samples);
            EXPECT_EQ(seen, expected) << n << " samples, " << ranks << " data ranks";
          }
}

// All data ranks together see in a step the samples that one rank alone would see.
TEST(Sampler, BatchesDoNotDependOnTheNumberOfDataRanks) {
  sampler const samples(100, {.seed = 8});
  auto const one = samples.slice(global_batch<12>{}, 3, 0, 1);
  for (int const ranks : {2, 3, 4, 6, 12}) {
    std::size_t next = one.first;
    for (int d = 0; d < ranks; ++d) {
      auto const part = samples.slice(global_batch<12>{}, 3, d, ranks);
      EXPECT_EQ(part.first, next);
      next += part.count;
    }
    EXPECT_EQ(next, one.first + one.count);
  }
}

TEST(Sampler, StepsCountThroughEpochs) {
  sampler const keep(10, {.last = last_batch::keep});
  EXPECT_EQ(keep.batches_per_epoch(global_batch<4>{}), 3u);
  EXPECT_EQ(keep.position(global_batch<4>{}, 0), (plait::ext::epoch_position{0, 0}));
  EXPECT_EQ(keep.position(global_batch<4>{}, 7), (plait::ext::epoch_position{2, 1}));
  sampler const drop(10, {.last = last_batch::drop});
  EXPECT_EQ(drop.batches_per_epoch(global_batch<4>{}), 2u);
  EXPECT_EQ(drop.position(global_batch<4>{}, 7), (plait::ext::epoch_position{3, 1}));
}

TEST(Sampler, ImpossibleRequestsAreErrors) {
  EXPECT_THROW(sampler(0), plait::input_error);
  sampler const samples(10, {.last = last_batch::drop});
  EXPECT_THROW((void)samples.at(0, 10), plait::error);
  EXPECT_EQ(samples.batches_per_epoch(global_batch<11>{}), 0u);
  EXPECT_THROW((void)samples.position(global_batch<11>{}, 0), plait::input_error);
  EXPECT_THROW((void)samples.slice(global_batch<4>{}, 0, 0, 3), plait::input_error);
  EXPECT_THROW((void)samples.slice(global_batch<4>{}, 2, 0, 2), plait::error);
  EXPECT_THROW((void)samples.slice(global_batch<4>{}, 0, 2, 2), plait::error);
  EXPECT_THROW((void)samples.slice(global_batch<4>{}, 0, -1, 2), plait::error);
  std::array<std::size_t, 3> small{};
  EXPECT_THROW(samples.fill(0, {0, 4}, small), plait::size_mismatch);
}

}  // namespace
