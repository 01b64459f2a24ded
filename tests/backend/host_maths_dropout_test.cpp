// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/dropout.hpp"

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

constexpr plait::ext::random_key key{.seed = 11, .site = 3, .step = 8};
constexpr std::uint32_t threshold = maths::dropout_threshold(0.3);

// Returns the mask of the whole (sequence, batch, width), element by element from its definition.
std::vector<double> reference(std::vector<double> const& x, std::size_t sequence, std::size_t batch,
                              std::size_t width) {
  std::vector<double> y(x.size());
  for (std::size_t s = 0; s < sequence; ++s)
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t c = 0; c < width; ++c) {
        std::size_t const i = (s * batch + b) * width + c;
        std::uint64_t const index = (b * sequence + s) * width + c;
        y[i] = plait::ext::random_word(key, index) >= threshold ? x[i] * 2 : 0;
      }
  return y;
}

}  // namespace

TEST(Dropout, EveryBlockOfTheWholeIsTheWhole) {
  std::size_t const sequence = 6, batch = 4;
  for (std::size_t width : {1u, 4u, 10u, 16u, 19u}) {
    auto const x = values<double>(sequence * batch * width, 1);
    auto const whole = reference(x, sequence, batch, width);
    // Blocks (positions, samples, columns) are cut by sequence, by batch, by width and by all of
    // them.
    for (std::size_t positions : {6u, 2u})
      for (std::size_t samples : {4u, 1u, 2u})
        for (std::size_t columns : {width, width / 2, (width + 2) / 3}) {
          if (columns == 0 || width % columns != 0) continue;
          for (std::size_t s0 = 0; s0 < sequence; s0 += positions)
            for (std::size_t b0 = 0; b0 < batch; b0 += samples)
              for (std::size_t c0 = 0; c0 < width; c0 += columns) {
                auto const at = [&](std::size_t i) {
                  std::size_t const row = i / columns;
                  return ((s0 + row / samples) * batch + b0 + row % samples) * width + c0 +
                         i % columns;
                };
                std::vector<double> local(positions * samples * columns);
                for (std::size_t i = 0; i < local.size(); ++i) local[i] = x[at(i)];
                maths::dropout(local.data(), local.data(), positions * samples, columns, key,
                               threshold, 2,
                               {.batch_local = samples,
                                .first_position = s0,
                                .first_sample = b0,
                                .first_column = c0,
                                .sequence_global = sequence,
                                .width_global = width});
                for (std::size_t i = 0; i < local.size(); ++i) ASSERT_EQ(local[i], whole[at(i)]);
              }
        }
  }
}

TEST(Dropout, NumberEqualToTheThresholdIsKept) {
  float const x = 1;
  float y = 0;
  maths::dropout(&x, &y, 1, 1, key, plait::ext::random_word(key, 0), 1, {});
  EXPECT_EQ(y, 1);
  maths::dropout(&x, &y, 1, 1, key, plait::ext::random_word(key, 0) + 1, 1, {});
  EXPECT_EQ(y, 0);
}

TEST(Dropout, KeepsTheRightShare) {
  std::size_t const n = 100000;
  std::vector<float> const x(n, 1.0f);
  std::vector<float> y(n);
  maths::dropout(x.data(), y.data(), 1, n, key, threshold, 1, {.width_global = n});
  double kept = 0;
  for (float value : y) kept += static_cast<double>(value);
  EXPECT_NEAR(kept / static_cast<double>(n), 0.7, 0.006);  // 4 standard deviations
}

TEST(Dropout, DroppedNanIsZeroAndEmptyIsNothing) {
  std::vector<float> const x(64, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> y(64);
  maths::dropout(x.data(), y.data(), 1, 64, key, threshold, 1, {.width_global = 64});
  EXPECT_GT(std::count(y.begin(), y.end(), 0.0f), 0);
  maths::dropout<float>(nullptr, nullptr, 0, 8, key, threshold, 1, {.width_global = 8});
}

TEST(Dropout, ThresholdAtTheEnds) {
  static_assert(maths::dropout_threshold(0) == 0);
  static_assert(maths::dropout_threshold(0.5) == 2147483648u);
  static_assert(maths::dropout_threshold(1) == 4294967295u);
}
