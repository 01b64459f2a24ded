// SPDX-License-Identifier: Apache-2.0
// Compares the elements of a parameter on a rank with a reference that goes through single
// elements.
#include "plait/plan/sharding/parameter_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using namespace plait;
using namespace plait::ext;
using planning::element_range;
using planning::parameter_entry;

parameter_entry entry_of(int rank, std::size_t rows, std::size_t columns, std::size_t padding,
                         placement stored) {
  parameter_entry entry;
  entry.info = {.rank = rank, .rows = rows, .columns = columns, .padding = padding};
  entry.stored = stored;
  return entry;
}
placement cut(int index, int parts) { return {placement_kind::shard, index, parts}; }

std::vector<parameter_entry> entries() {
  return {entry_of(2, 6, 10, 0, invariant), entry_of(2, 6, 10, 2, invariant),
          entry_of(2, 12, 5, 0, cut(0, 1)), entry_of(2, 12, 5, 5, cut(0, 1)),
          entry_of(2, 24, 5, 0, cut(0, 2)), entry_of(2, 3, 36, 0, cut(1, 3)),
          entry_of(2, 3, 12, 1, cut(1, 1)), entry_of(1, 1, 36, 0, cut(1, 3)),
          entry_of(1, 1, 12, 7, cut(1, 1)), entry_of(1, 1, 12, 3, invariant)};
}

/// Returns the index in the whole parameter for each element of a rank's block, -1 for padding,
/// calculated again from the meaning of `parts` and the cut dimension.
std::vector<long> block_of(parameter_entry const& entry, int tensor_rank, int ranks) {
  auto const& info = entry.info;
  bool const is_cut = is_shard(entry.stored);
  bool const by_rows = is_cut && info.rank == 2 && entry.stored.index == 0;
  std::size_t const length = by_rows ? info.rows : info.columns;
  std::vector<std::size_t> mine;  // indices of the cut dimension
  for (std::size_t i = 0; i < length; ++i) {
    std::size_t const part = length / std::size_t(is_cut ? entry.stored.parts : 1);
    if (!is_cut || i % part / (part / std::size_t(ranks)) == std::size_t(tensor_rank))
      mine.push_back(i);
  }
  auto const whole = info.unpadded();
  std::vector<long> out;
  for (std::size_t a = 0; a < (by_rows ? mine.size() : info.rows); ++a)
    for (std::size_t b = 0; b < (by_rows ? info.columns : mine.size()); ++b) {
      std::size_t const row = by_rows ? mine[a] : a, column = by_rows ? b : mine[b];
      bool const is_padding = row >= whole.rows || column >= whole.columns;
      out.push_back(is_padding ? -1 : static_cast<long>(row * info.columns + column));
    }
  return out;
}

std::vector<long> marked(plait::ext::lean_vector<parameter_rectangle> const& rectangles,
                         std::size_t width, std::size_t places) {
  std::vector<long> out(places, -1);
  for (auto const& each : rectangles)
    planning::for_each_run(each, width, [&](std::size_t from, std::size_t to, std::size_t length) {
      for (std::size_t i = 0; i < length; ++i) {
        EXPECT_EQ(out.at(to + i), -1) << "twice";
        out.at(to + i) = static_cast<long>(from + i);
      }
    });
  return out;
}

TEST(ParameterBlocks, HaveTheElementsOfTheirRank) {
  for (auto const& entry : entries())
    for (int const ranks : {1, 2, 3, 4, 6}) {
      if (is_shard(entry.stored) && 12 % ranks != 0) continue;
      EXPECT_TRUE(planning::is_covered(entry, ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        auto const expected = block_of(entry, rank, ranks);
        auto const got = planning::rectangles_of(entry, rank, ranks);
        EXPECT_EQ(marked(got, entry.info.columns, expected.size()), expected);
        std::size_t filled = 0;
        for (auto const& each : got) filled += each.count();
        std::size_t padded = 0;
        for (auto const& each : planning::rectangles_of(entry, rank, ranks, true))
          padded += each.count();
        EXPECT_EQ(filled, expected.size() - std::size_t(std::ranges::count(expected, -1L)));
        EXPECT_EQ(padded, expected.size());
      }
    }
}

TEST(ParameterBlocks, AreNotCoveredWhereTheCutDoesNotDivide) {
  EXPECT_FALSE(planning::is_covered(entry_of(2, 6, 10, 0, cut(1, 3)), 2));
  EXPECT_FALSE(planning::is_covered(entry_of(2, 6, 10, 0, cut(0, 1)), 4));
  EXPECT_TRUE(planning::is_covered(entry_of(2, 6, 10, 0, cut(0, 1)), 3));
}

// An optimizer owns any range of the arena.
TEST(ParameterBlocks, CutByARangeOfTheArenaAreAtMostThreeRectanglesEach) {
  for (auto const& entry : entries()) {
    int const ranks = is_shard(entry.stored) ? 2 : 1;
    auto const all = block_of(entry, ranks - 1, ranks);
    constexpr std::size_t offset = 5;
    for (std::size_t begin = 0; begin <= all.size() + offset; ++begin)
      for (std::size_t end = begin; end <= all.size() + offset + 2; ++end) {
        plait::ext::lean_vector<parameter_rectangle> got;
        for (auto each : planning::rectangles_of(entry, ranks - 1, ranks)) {
          each.place += offset;
          std::size_t const before = got.size();
          planning::add_common(each, {begin, end - begin}, got);
          EXPECT_LE(got.size() - before, 3u);
        }
        std::vector<long> expected(all.size() + offset, -1);
        for (std::size_t i = std::max(begin, offset); i < std::min(end, all.size() + offset); ++i)
          expected[i] = all[i - offset];
        ASSERT_EQ(marked(got, entry.info.columns, expected.size()), expected);
      }
  }
}

}  // namespace
