// SPDX-License-Identifier: Apache-2.0
// test: seconds=10
//
// Ranks that exchange rounded gradients: each sum is the sum of the rounded values in rank order,
// rounded once more if it is gathered, and has the same bits on all ranks.
#include "plait/run/block_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

// 64 x 48 and 48 weights, and another layer: several blocks for each of up to four ranks.
using model = objective<sequential<nn::linear<64, 48>, nn::linear<48, 16>>, nn::cross_entropy<16>>;
template <class Element, class Gradient, class... Options>
struct job : parallel<model, data_parallel<at_launch, compressed<Element>, Options...>, Gradient> {
};

/// Faults of an exchange, which the comparison must see.
enum class fault {
  none,
  owner_keeps_its_unrounded_sum,
  own_block_is_not_rounded,
  scale_of_the_neighbouring_block
};

using numbers = std::vector<double>;

/// Returns 64 numbers after a transfer as float8, by the definition of the format.
numbers through_float8(numbers const& x, double other_scale) {
  double largest = 0;
  for (double const one : x)
    largest = std::isfinite(one) ? std::max(largest, std::abs(one)) : HUGE_VAL;
  float scale = static_cast<float>(largest) / 448.0f;
  if (largest > 0) scale = std::max(scale, std::numeric_limits<float>::min());
  numbers out;
  for (double const one : x) {
    if (!std::isfinite(largest)) out.push_back(one == 0 ? 0 : std::nan(""));
    else if (largest == 0) out.push_back(0);
    else {
      float const code = float8(static_cast<float>(one) / scale);
      out.push_back(double(code * (other_scale > 0 ? float(other_scale) : scale)));
    }
  }
  return out;
}
template <class Element>
numbers through(numbers const& x, bool takes_other_scale = false) {
  numbers out;
  for (std::size_t begin = 0; begin < x.size(); begin += 64) {
    numbers const block(x.begin() + std::ptrdiff_t(begin), x.begin() + std::ptrdiff_t(begin + 64));
    if constexpr (std::is_same_v<Element, float8>) {
      double other = 0;
      if (takes_other_scale) {
        std::size_t const next = begin + 64 < x.size() ? begin + 64 : 0;
        for (std::size_t i = next; i < next + 64; ++i)
          other = std::max(other, std::abs(x[i]) / 448);
      }
      for (double const one : through_float8(block, other)) out.push_back(one);
    } else {
      for (double const one : block) out.push_back(double(float(plait::bfloat16(float(one)))));
    }
  }
  return out;
}

/// The value of an element on a rank.
template <class Gradient>
Gradient value(int rank, std::size_t element) {
  std::size_t const block = element / 64;
  auto const mixed = (std::uint32_t(rank) * 2654435761u + std::uint32_t(element) * 40503u) >> 7;
  if (block % 7 == 3 || ((block == 9 || block == 11) && element % 64 == 40)) return 0;
  if (block == 9 && element % 64 == 5 && rank == 1)
    return std::numeric_limits<Gradient>::infinity();
  if (block == 11 && element % 64 == 6 && rank == 0) return Gradient(std::nan(""));
  // Values of 12 orders of magnitude, in some blocks next to each other.
  int const exponent = int(block % 2 == 0 ? mixed % 41 : block * 7 % 41) - 20;
  auto const size = Gradient(std::ldexp(1.0 + double(mixed % 1021) / 1021.0, exponent));
  return mixed % 2 == 0 ? size : -size;
}

/// Returns the sums that a rank must have, and has if the exchange has the fault. `gathers`: ranks
/// need whole sums; otherwise the numbers of other ranks' blocks are not defined.
template <class Element, class Gradient>
numbers expected(int me, int ranks, element_range const& bucket, bool gathers, fault planted) {
  std::size_t const block = bucket.count / std::size_t(ranks);
  numbers out;
  for (int owner = 0; owner < ranks; ++owner) {
    std::vector<Gradient> sum(block, 0);
    for (int r = 0; r < ranks; ++r) {
      numbers x;
      for (std::size_t i = 0; i < block; ++i)
        x.push_back(double(value<Gradient>(r, bucket.offset + std::size_t(owner) * block + i)));
      bool const is_kept = planted == fault::own_block_is_not_rounded && r == owner;
      auto const sent =
          is_kept ? x : through<Element>(x, planted == fault::scale_of_the_neighbouring_block);
      for (std::size_t i = 0; i < block; ++i)
        sum[i] = r == 0 ? Gradient(sent[i]) : Gradient(sum[i] + Gradient(sent[i]));
    }
    numbers whole(sum.begin(), sum.end());
    if (gathers && !(planted == fault::owner_keeps_its_unrounded_sum && owner == me))
      whole = through<Element>(whole, planted == fault::scale_of_the_neighbouring_block);
    out.insert(out.end(), whole.begin(), whole.end());
  }
  return out;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// The worst ratio of an error to its bound.
template <class Element, class Gradient>
double worst_error(numbers const& got, int ranks, element_range const& bucket, bool gathers) {
  double worst = 0;
  for (std::size_t begin = 0; begin < bucket.count; begin += 64) {
    numbers bound(64, 0), exact(64, 0), largest(std::size_t(ranks) + 1, 0);
    bool is_finite = true;
    for (std::size_t i = 0; i < 64; ++i)
      for (int r = 0; r < ranks; ++r) {
        double const x = double(value<Gradient>(r, bucket.offset + begin + i));
        is_finite = is_finite && std::isfinite(x);
        exact[i] += x;
        largest[std::size_t(r)] = std::max(largest[std::size_t(r)], std::abs(x));
        largest[std::size_t(ranks)] =
            std::max(largest[std::size_t(ranks)], std::abs(got[begin + i]));
      }
    if (!is_finite) continue;
    auto const of = [&](double x, double most) {
      return std::is_same_v<Element, float8> ? std::max(0x1p-4 * std::abs(x), 0x1p-10 * most / 448)
                                             : 0x1p-8 * std::abs(x);
    };
    for (std::size_t i = 0; i < 64; ++i) {
      double all = 0;
      for (int r = 0; r < ranks; ++r) {
        double const x = double(value<Gradient>(r, bucket.offset + begin + i));
        bound[i] += of(x, largest[std::size_t(r)]), all += std::abs(x);
      }
      if (gathers) bound[i] += of(got[begin + i], largest[std::size_t(ranks)]) * (1 + 0x1p-3);
      bound[i] += double(std::numeric_limits<Gradient>::epsilon()) * all * ranks;
      double const error = std::abs(got[begin + i] - exact[i]);
      if (error > 0) worst = std::max(worst, error / bound[i]);
    }
  }
  return worst;
}

template <class Element, class Gradient, class... Options>
void expect_sums(int ranks, std::size_t piece, bool gathers) {
  using job_type = job<Element, Gradient, Options...>;
  using plan = typename job_type::plan_type;
  launch<job_type>(threads{.data_ranks = ranks}, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    auto const layout = plan::parameter_layout_for(0, rank.grid());
    auto const where = plan::gradient_arena_for(layout, rank.grid());
    ASSERT_GT(where.received_at, where.sent_at);
    constexpr std::size_t guarded = 64;
    std::vector<Gradient> arena(where.total + guarded, Gradient(12345));
    for (std::size_t i = 0; i < where.stride; ++i) arena[i] = value<Gradient>(rank.world_rank(), i);
    execution::block_exchange<Gradient, plan::rules.sent, rank_type> const exchange(rank, where,
                                                                                    arena.data());
    auto list = execution::transfers_on<plan>(rank, {}, job_part::training);
    for (auto& one : list)
      if (piece > 0 && one.piece > 0) one.piece = piece;
    execution::transfer_runner<rank_type> const transfers(rank, list);
    for (std::size_t r = 0; r < list.size(); ++r)
      for (int b = 0; b < list[r].buckets && list[r].place == transfer_place::gradients; ++b)
        exchange.run(transfers, {.row = int(r), .bucket = list[r].bucket + b}, arena.data());
    for (auto const& bucket : layout.buckets) {
      auto const& range = bucket.elements;
      auto const check = [&](fault planted) {
        auto const right =
            expected<Element, Gradient>(rank.world_rank(), ranks, range, gathers, planted);
        std::size_t const block = range.count / std::size_t(ranks),
                          first = gathers ? 0 : std::size_t(rank.world_rank()) * block,
                          end = gathers ? range.count : first + block;
        int others = 0;
        for (std::size_t i = first; i < end; ++i)
          others += !same(double(arena[range.offset + i]), right[i]);
        return others;
      };
      EXPECT_EQ(check(fault::none), 0) << ranks << " ranks, piece " << piece;
      EXPECT_GT(check(fault::own_block_is_not_rounded), 0);
      if (gathers) {
        EXPECT_GT(check(fault::owner_keeps_its_unrounded_sum), 0);
        numbers const got(arena.begin() + std::ptrdiff_t(range.offset),
                          arena.begin() + std::ptrdiff_t(range.end()));
        double const worst = worst_error<Element, Gradient>(got, ranks, range, gathers);
        EXPECT_LE(worst, 1);
        EXPECT_GT(worst, 0.1) << "the bound is about as large as the error";
      }
      if constexpr (std::is_same_v<Element, float8>) {
        EXPECT_GT(check(fault::scale_of_the_neighbouring_block), 0);
      }
    }
    for (std::size_t i = where.total; i < arena.size(); ++i) EXPECT_EQ(arena[i], Gradient(12345));
  });
}

class BlockExchange : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, BlockExchange, ::testing::Values(2, 3, 4));

TEST_P(BlockExchange, GathersRoundedSums) {
  expect_sums<plait::bfloat16, float>(GetParam(), 0, true);
  expect_sums<float8, float>(GetParam(), 0, true);
  expect_sums<float8, double, buckets<1>>(GetParam(), 0, true);
}
TEST_P(BlockExchange, KeepsTheSumsOfOwnBlocks) {
  expect_sums<plait::bfloat16, double, zero<1>>(GetParam(), 0, false);
  expect_sums<float8, float, zero<1>>(GetParam(), 0, false);
}
// The last piece is shorter.
TEST_P(BlockExchange, InPieces) {
  expect_sums<float8, float>(GetParam(), 128, true);
  expect_sums<plait::bfloat16, float, zero<1>>(GetParam(), 256, false);
}

// Sums of whole numbers that bfloat16 can hold are exact: nothing is rounded.
TEST(BlockExchangeOfIntegers, HasTheBitsOfTheSum) {
  using job_type = job<plait::bfloat16, float>;
  using plan = job_type::plan_type;
  launch<job_type>(threads{.data_ranks = 4}, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    auto const layout = plan::parameter_layout_for(0, rank.grid());
    auto const where = plan::gradient_arena_for(layout, rank.grid());
    auto const of = [](int r, std::size_t i) {
      return float(int(i * 7 % 85) - 42) * float(r % 2 + 1);
    };
    std::vector<float> arena(where.total);
    for (std::size_t i = 0; i < where.stride; ++i) arena[i] = of(rank.world_rank(), i);
    execution::block_exchange<float, plan::rules.sent, rank_type> const exchange(rank, where,
                                                                                 arena.data());
    auto const list = execution::transfers_on<plan>(rank, {}, job_part::training);
    execution::transfer_runner<rank_type> const transfers(rank, list);
    for (std::size_t r = 0; r < list.size(); ++r)
      for (int b = 0; b < list[r].buckets && list[r].place == transfer_place::gradients; ++b)
        exchange.run(transfers, {.row = int(r), .bucket = list[r].bucket + b}, arena.data());
    for (std::size_t i = 0; i < where.stride; ++i)
      ASSERT_EQ(arena[i], of(0, i) + of(1, i) + of(2, i) + of(3, i)) << i;
  });
}

// A rank sends at most 1 MiB to all ranks together in one call.
TEST(BlockExchangeRooms, AreAtMostAMebibyteEach) {
  using wide =
      objective<sequential<nn::linear<1024, 2048>, nn::linear<2048, 64>>, nn::cross_entropy<64>>;
  using plan = parallel<wide, data_parallel<4, compressed<plait::bfloat16>>>::plan_type;
  auto const layout = plan::parameter_layout_for(0, plan::grid);
  auto const where = plan::gradient_arena_for(layout, plan::grid);
  EXPECT_EQ(piece_of_rounding(layout, plan::rules, plan::grid).gradients,
            (std::size_t{1} << 20) / 2 / 4);
  EXPECT_EQ((where.received_at - where.sent_at) * sizeof(float), std::size_t{1} << 20);
  EXPECT_EQ(where.total, where.received_at + (where.received_at - where.sent_at));
}

}  // namespace
