// SPDX-License-Identifier: Apache-2.0
#include "plait/core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>

namespace {

using namespace plait;
using namespace plait::ext;

constexpr bool is(random_block block, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                  std::uint32_t d) {
  return block.word[0] == a && block.word[1] == b && block.word[2] == c && block.word[3] == d;
}

// The known answers of the reference implementation (Random123, kat_vectors, philox4x32 10).
static_assert(is(philox(0, {{0, 0, 0, 0}}), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
static_assert(is(philox(0xffffffffffffffff, {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}),
                 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
static_assert(is(philox(0x299f31d0a4093822, {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}),
                 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));

TEST(Random, EveryPartOfTheKeyAndTheIndexMatters) {
  random_key const key{1, 2, 3};
  std::set<std::uint32_t> words;
  words.insert(random_word(key, 7));
  words.insert(random_word({2, 2, 3}, 7));
  words.insert(random_word({1 + (std::uint64_t{1} << 32), 2, 3}, 7));
  words.insert(random_word({1, 3, 3}, 7));
  words.insert(random_word({1, 2, 4}, 7));
  words.insert(random_word(key, 8));
  words.insert(random_word(key, 7 + (std::uint64_t{1} << 34)));
  EXPECT_EQ(words.size(), 7u);
  EXPECT_EQ(random_word(key, 7), random_word(random_key{1, 2, 3}, 7));
}

TEST(Random, AWordIsAWordOfItsBlock) {
  random_key const key{5, 6, 7};
  for (std::uint64_t i = 0; i < 16; ++i)
    EXPECT_EQ(random_word(key, i), random_bits(key, i / 4).word[i % 4]);
}

TEST(Random, UniformNumbersAreNeverZeroOrOne) {
  static_assert(uniform_from_bits(0) > 0.0);
  static_assert(uniform_from_bits(0xffffffff) < 1.0);
  EXPECT_GT(uniform_from_bits(0x80000000), 0.5);
  EXPECT_LT(uniform_from_bits(0x7fffffff), 0.5);
}

TEST(Random, UniformNumbersFillTheirBins) {
  constexpr int n = 160000, bins = 16;
  int counts[bins]{};
  for (std::uint64_t i = 0; i < n; ++i)
    ++counts[static_cast<int>(bins * uniform_from_bits(random_word({9, 0, 0}, i)))];
  // Each count is binomial with a deviation just below sqrt(n / bins).
  for (int const count : counts) EXPECT_NEAR(count, n / bins, 5 * std::sqrt(n / bins));
}

}  // namespace
