// SPDX-License-Identifier: Apache-2.0
#include "plait/core/random_normal.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numbers>
#include <span>
#include <vector>

namespace {

using namespace plait;
using namespace plait::ext;

std::vector<double> numbers(random_key key, std::uint64_t first, std::size_t count) {
  std::vector<double> out(count);
  random_normals<double>(key, first, 1.0, out);
  return out;
}

// Box-Muller with the functions of the C library.
double expected(random_key key, std::uint64_t index) {
  auto const block = random_bits(key, index / 2);
  auto const pair = 2 * (index % 2);
  double const radius = std::sqrt(-2.0 * std::log(uniform_from_bits(block.word[pair])));
  return radius * std::cos(2.0 * std::numbers::pi * uniform_from_bits(block.word[pair + 1]));
}

std::int64_t ulps_between(double a, double b) {
  return std::abs(std::bit_cast<std::int64_t>(a) - std::bit_cast<std::int64_t>(b));
}

// glibc rounds one in 1000 of its logarithms and cosines the other way; the product can double
// that.
TEST(RandomNormal, IsWhatTheFunctionsOfTheLibraryGive) {
  constexpr std::size_t n = 200000;
  random_key const key{3, 1, 4};
  auto const got = numbers(key, 0, n);
  std::size_t different = 0, by_two = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const ulps = ulps_between(got[i], expected(key, i));
    ASSERT_LE(ulps, 3) << "number " << i;
    different += ulps > 0;
    by_two += ulps > 1;
  }
  EXPECT_LT(different, n / 100);
  EXPECT_LT(by_two, n / 1000);
}

// The words at which a logarithm or a cosine is hardest to get right, with the C library's values;
// in two different lanes.
TEST(RandomNormal, IsRightAtTheEndsAndZeros) {
  using two = detail::normal_lanes<false>;
  for (std::uint64_t const centre :
       {0x0u, 0x3fffffffu, 0x5a827998u, 0x7fffffffu, 0xb504f332u, 0xbfffffffu, 0xfffffffdu})
    for (std::uint64_t first = centre < 64 ? 0 : centre - 64; first < centre + 64; first += 2) {
      two::bits const word = (first + two::bits{0, 1}) & 0xffffffffu;
      two::real logarithm, cosine;
      two::minus_twice_log(word, logarithm);
      two::cosine(word, cosine);
      for (int i = 0; i < two::lanes; ++i) {
        double const u = uniform_from_bits(static_cast<std::uint32_t>(word[i]));
        EXPECT_LE(ulps_between(logarithm[i], -2.0 * std::log(u)), 1) << "word " << word[i];
        EXPECT_LE(ulps_between(cosine[i], std::cos(2.0 * std::numbers::pi * u)), 1)
            << "word " << word[i];
      }
    }
}

// A hash of the bits is the same in every build: g++ and clang++ gave it, with and without AVX2,
// AVX-512 and fused multiply-adds.
TEST(RandomNormal, HasTheSameBitsInEveryBuild) {
  std::uint64_t hash = 0;
  for (double const x : numbers({7, 8, 9}, 5, 100000))
    hash = hash * 0x9E3779B97F4A7C15u + std::bit_cast<std::uint64_t>(x);
  EXPECT_EQ(hash, 0xe88c97bef0a635eu);
}

TEST(RandomNormal, HasTheSameBitsWithoutAvx2) {
  random_key const key{7, 8, 9};
  constexpr std::uint64_t group = (std::uint64_t{1} << 40) - 20;
  std::vector<double> plain(8 * 40);
  detail::normal_lanes<false>::fill(key, group, 40, plain.data());
  EXPECT_EQ(numbers(key, 8 * group, plain.size()), plain);
}

TEST(RandomNormal, DoesNotDependOnTheCut) {
  random_key const key{1, 2, 3};
  constexpr std::uint64_t start = (std::uint64_t{1} << 34) - 300;
  auto const whole = numbers(key, start, 600);
  for (std::size_t first = 0; first < 20; ++first)
    for (std::size_t const count : {0u, 1u, 2u, 7u, 8u, 9u, 255u, 256u, 257u, 513u}) {
      auto const part = numbers(key, start + first, count);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(part[i], whole[first + i]) << first << " to " << first + count;
    }
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(random_normal(key, start + i), whole[i]);
}

TEST(RandomNormal, ScalesInDoubleAndRoundsOnce) {
  random_key const key{1, 2, 3};
  std::vector<float> got(100);
  random_normals<float>(key, 3, 0.02, got);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], static_cast<float>(0.02 * random_normal(key, 3 + i)));
}

// With n numbers the mean has the deviation 1/sqrt(n), the variance sqrt(2/n), the third moment
// sqrt(15/n) and the fourth sqrt(96/n); five deviations are never reached by a right generator,
// and the numbers are the same in every run.
TEST(RandomNormal, HasTheRightMoments) {
  constexpr int n = 200000;
  double moments[5]{};
  for (double const x : numbers({42, 1, 0}, 0, n)) {
    double power = 1;
    for (double& moment : moments) moment += power / n, power *= x;
  }
  EXPECT_NEAR(moments[1], 0.0, 5 * std::sqrt(1.0 / n));
  EXPECT_NEAR(moments[2], 1.0, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(moments[3], 0.0, 5 * std::sqrt(15.0 / n));
  EXPECT_NEAR(moments[4], 3.0, 5 * std::sqrt(96.0 / n));
}

TEST(RandomNormal, HasNeighboursThatAreUncorrelated) {
  constexpr std::size_t n = 200000;
  auto const x = numbers({42, 1, 0}, 0, n + 4);
  for (std::size_t const lag : {1u, 2u, 3u, 4u}) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i + lag];
    EXPECT_NEAR(sum / n, 0.0, 5 / std::sqrt(static_cast<double>(n))) << "lag " << lag;
  }
}

}  // namespace
