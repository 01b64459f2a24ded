// SPDX-License-Identifier: Apache-2.0
#include "plait/train/state/start_values.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace plait;
using namespace plait::ext;
using planning::parameter_entry;

constexpr std::uint64_t seed = 5;
constexpr int number = 3;

parameter_entry matrix(std::size_t rows, std::size_t columns, std::size_t padding, placement stored,
                       initializer initial) {
  parameter_entry entry;
  entry.info = {
      .rank = 2, .rows = rows, .columns = columns, .initial = initial, .padding = padding};
  entry.stored = stored;
  return entry;
}

std::vector<float> values(parameter_entry const& entry, int rank, int ranks, std::size_t threads) {
  std::vector<float> block(entry.info.count() / static_cast<std::size_t>(ranks), -1.0f);
  execution::initial_values<float>(entry.info, number, seed,
                                   planning::rectangles_of(entry, rank, ranks), block, threads);
  return block;
}

/// Returns the value of an element of the whole matrix.
float expected(parameter_entry const& entry, std::size_t index) {
  if (index >= entry.info.unpadded().count()) return 0.0f;
  return static_cast<float>(entry.info.initial.number() *
                            random_normal({seed, number, 0xffffffffu}, index));
}

// 131 x 602 elements are more than one thread draws, and no piece ends at the end of a row.
TEST(StartValues, StartTheSameFromAnyNumberOfThreads) {
  auto const entry = matrix(131, 602, 3, placement{placement_kind::invariant}, normal(0.02));
  auto const alone = values(entry, 0, 1, 1);
  for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_EQ(alone[i], expected(entry, i)) << i;
  for (std::size_t const threads : {2u, 3u, 100u}) EXPECT_EQ(values(entry, 0, 1, threads), alone);
}

TEST(StartValues, StartTheSameOnAnyNumberOfRanks) {
  auto const by_columns = matrix(130, 900, 2, placement{placement_kind::shard, 1, 3}, normal(0.02));
  for (int const ranks : {1, 2, 3})
    for (int rank = 0; rank < ranks; ++rank) {
      auto const block = values(by_columns, rank, ranks, 2);
      // The columns of a rank in each part.
      std::size_t const width = 300 / static_cast<std::size_t>(ranks);
      for (std::size_t i = 0; i < block.size(); ++i) {
        std::size_t const row = i / (3 * width), part = i / width % 3, column = i % width;
        std::size_t const first = part * 300 + static_cast<std::size_t>(rank) * width;
        ASSERT_EQ(block[i], expected(by_columns, row * 900 + first + column)) << i;
      }
    }
}

TEST(StartValues, StartAsAConstantBeforeThePadding) {
  auto const entry = matrix(10, 4, 3, placement{placement_kind::shard, 0, 1}, constant(1.5));
  auto const block = values(entry, 1, 2, 1);
  for (std::size_t i = 0; i < block.size(); ++i) EXPECT_EQ(block[i], i < 8 ? 1.5f : 0.0f) << i;
}

}  // namespace
