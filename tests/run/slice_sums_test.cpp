// SPDX-License-Identifier: Apache-2.0
// The sum of slices is the sum of one binary tree over their numbers, bit for bit, on any ranks.
#include "plait/run/slice_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

constexpr int slices = 7;
constexpr std::size_t vocabulary = 24, width = 32;
using head =
    nn::linear<width, vocabulary, {.bias = false, .order = nn::weight_order::output_input}>;
using body = objective<sequential<named<"wte", nn::embedding<vocabulary, width>>,
                                  named<"mid", nn::linear<width, width>>,
                                  named<"head", tied<head, head::weight, "wte.weight">>>,
                       nn::cross_entropy<vocabulary>>;
struct job : parallel<body, hybrid<data_parallel<>, reproducible<slices>>, float> {};
using plan = job::plan_type;

/// Returns the summand of a slice for an element. Summands have unlike sizes, so that the order of
/// a sum matters.
float value(int turn, int slice, std::size_t element) {
  auto const mixed = (std::uint32_t(slice) * 2654435761u + std::uint32_t(element) * 40503u +
                      std::uint32_t(turn) * 97u) >>
                     7;
  float const size = std::ldexp(1.0f + float(mixed % 1021) / 1021.0f, int(mixed % 19) - 9);
  return mixed % 2 == 0 ? size : -size;
}

/// Sums by the tree: the left part has the largest power of two that is less than the whole.
float tree_sum(int turn, int first, int count, std::size_t element) {
  if (count == 1) return value(turn, first, element);
  int left = 1;
  while (2 * left < count) left *= 2;
  float const a = tree_sum(turn, first, left, element);
  return a + tree_sum(turn, first + left, count - left, element);
}
std::vector<float> tree_sums(int turn, std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = tree_sum(turn, 0, slices, i);
  return out;
}

/// Checks the sums on all ranks after two steps, in pieces of `piece` elements (0: as planned).
void expect_tree(int data_ranks, std::size_t piece) {
  launch<job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    auto const layout = plan::parameter_layout_for(0, rank.grid());
    auto where = plan::gradient_arena_for(layout, rank.grid());
    ASSERT_EQ(where.stride, layout.gradient_count());
    ASSERT_GE(where.sent_at, where.stride * std::size_t(where.accumulators));
    if (piece > 0 && data_ranks > 1)
      where.add_rooms(std::size_t(data_ranks) * std::size_t(where.roots) * piece);
    constexpr std::size_t guarded = 64;
    std::vector<float> arena(where.total, 0.0f);
    arena.resize(where.total + guarded, 12345.0f);
    execution::slice_sums<float, rank_type, true> const sums(rank, plait::planning::ir_of<plan>,
                                                             layout, where, arena.data());
    auto list = execution::transfers_on<plan>(rank, {}, job_part::training);
    for (auto& one : list)
      if (piece > 0 && one.piece > 0) one.piece = piece;
    execution::transfer_runner<rank_type> const transfers(rank, list);

    auto const mine = sums.mine();
    EXPECT_EQ(mine.first, slices * rank.world_rank() / data_ranks);
    EXPECT_EQ(mine.end(), slices * (rank.world_rank() + 1) / data_ranks);
    for (int turn = 0; turn < 2; ++turn) {
      sums.clear(rank);
      for (int m = 0; m < mine.count; ++m) {
        float* const at = sums.place_of(m);
        ASSERT_EQ(std::size_t(at - arena.data()) % where.stride, 0u);
        ASSERT_LE(at - arena.data(),
                  std::ptrdiff_t(where.stride * std::size_t(where.accumulators - 1)));
        for (std::size_t i = 0; i < where.stride; ++i) {
          ASSERT_EQ(at[i], 0.0f) << "turn " << turn << ", microbatch " << m;
          at[i] += value(turn, mine.first + m, i);
        }
        sums.add(rank, 0, m);
      }
      for (auto const place : {transfer_place::slices, transfer_place::gradients})
        for (std::size_t r = 0; r < list.size(); ++r) {
          if (list[r].place != place || transfers.row(int(r)).group == nullptr) continue;
          if (transfers.row(int(r)).moves == collective::all_to_all)
            sums.exchange(transfers, {.row = int(r)});
          else transfers.run({.row = int(r)}, arena.data());
        }
      auto const expected = tree_sums(turn, where.stride);
      for (std::size_t i = 0; i < where.stride; ++i)
        ASSERT_EQ(arena[i], expected[i]) << data_ranks << " ranks, turn " << turn << ", element "
                                         << i << ", rank " << rank.world_rank();
    }
    for (std::size_t i = where.total; i < arena.size(); ++i) EXPECT_EQ(arena[i], 12345.0f);
  });
}

TEST(SliceSumsTree, TheOrderOfTheValuesIsSeen) {
  int others = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    float one_by_one = 0;
    for (int slice = 0; slice < slices; ++slice) one_by_one += value(0, slice, i);
    others += one_by_one != tree_sum(0, 0, slices, i);
  }
  EXPECT_GT(others, 20);
}

class SliceSums : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SliceSums, ::testing::Values(1, 2, 3, 5));

TEST_P(SliceSums, AreThoseOfTheTree) { expect_tree(GetParam(), 0); }

// No block is a multiple of 100, so the last piece is shorter.
TEST_P(SliceSums, AreTheSameInPieces) {
  for (std::size_t const piece : {100u, 512u}) expect_tree(GetParam(), piece);
}

}  // namespace
