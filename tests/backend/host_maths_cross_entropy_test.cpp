// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/cross_entropy.hpp"

#include <algorithm>
#include <limits>

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

constexpr std::int32_t ignore = -100;

std::vector<std::int32_t> labels(std::size_t rows, std::size_t classes) {
  std::vector<std::int32_t> result(rows);
  for (std::size_t r = 0; r < rows; ++r)
    result[r] = r % 4 == 2 ? ignore : static_cast<std::int32_t>((r * 7 + 3) % classes);
  return result;
}

double reference_sum(std::vector<double> const& logits, std::vector<std::int32_t> const& targets,
                     std::size_t classes) {
  double loss = 0;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == ignore) continue;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(logits[r * classes + c]);
    loss += std::log(sum) - logits[r * classes + static_cast<std::size_t>(targets[r])];
  }
  return loss;
}

template <class T>
struct whole {
  std::vector<T> max, terms;
  double loss;
  whole(std::vector<T> const& logits, std::vector<std::int32_t> const& targets, std::size_t classes)
      : max(targets.size()), terms(2 * targets.size()) {
    maths::row_max(logits.data(), max.data(), targets.size(), classes, classes);
    maths::cross_entropy_terms(logits.data(), targets.data(), max.data(), terms.data(), 0,
                               targets.size(), classes, classes);
    loss = maths::cross_entropy_sum(terms.data(), targets.data(), ignore, targets.size());
  }
};

}  // namespace

TEST(CrossEntropy, LossEqualsTheDefinition) {
  for (std::size_t rows : {0u, 1u, 7u})
    for (std::size_t classes : {1u, 10u, 16u, 33u}) {
      auto const targets = labels(rows, classes);
      auto const logits = values<float>(rows * classes, 1);
      std::vector<double> const exact(logits.begin(), logits.end());
      double const expected = reference_sum(exact, targets, classes);
      EXPECT_NEAR((whole<float>{logits, targets, classes}).loss, expected, 5e-6);
      EXPECT_NEAR((whole<double>{exact, targets, classes}).loss, expected, 1e-13);
    }
}

TEST(CrossEntropy, BackwardEqualsDifferencesAndMayBeInPlace) {
  double const scale = 0.125;
  for (std::size_t rows : {0u, 1u, 7u})
    for (std::size_t classes : {1u, 10u, 33u}) {
      auto const targets = labels(rows, classes);
      auto logits = values<double>(rows * classes, 1);
      whole<double> const forward{logits, targets, classes};
      std::vector<double> dlogits(logits.size(), 9);
      maths::cross_entropy_backward(logits.data(), targets.data(), forward.max.data(),
                                    forward.terms.data(), scale, dlogits.data(), 0, ignore, rows,
                                    classes, classes);
      auto in_place = logits;
      maths::cross_entropy_backward(in_place.data(), targets.data(), forward.max.data(),
                                    forward.terms.data(), scale, in_place.data(), 0, ignore, rows,
                                    classes, classes);
      EXPECT_EQ(in_place, dlogits);
      expect_gradient([&] { return scale * whole<double>{logits, targets, classes}.loss; }, logits,
                      dlogits);
    }
}

TEST(CrossEntropy, ShardsOfTheClassesGiveTheWhole) {
  std::size_t const rows = 6, classes = 21, cut[] = {0, 8, 9, 21};
  auto const targets = labels(rows, classes);
  auto const logits = values<double>(rows * classes, 1);
  whole<double> const expected{logits, targets, classes};

  std::vector<double> max(rows, -std::numeric_limits<double>::infinity()), terms(2 * rows, 0);
  std::vector<std::vector<double>> shards;
  for (std::size_t s = 0; s < 3; ++s) {
    std::vector<double> shard;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = cut[s]; c < cut[s + 1]; ++c) shard.push_back(logits[r * classes + c]);
    shards.push_back(shard);
    std::vector<double> local(rows);
    maths::row_max(shard.data(), local.data(), rows, cut[s + 1] - cut[s], cut[s + 1] - cut[s]);
    for (std::size_t r = 0; r < rows; ++r) max[r] = std::max(max[r], local[r]);
  }
  EXPECT_EQ(max, expected.max);
  for (std::size_t s = 0; s < 3; ++s) {
    std::vector<double> local(2 * rows);
    maths::cross_entropy_terms(shards[s].data(), targets.data(), max.data(), local.data(), cut[s],
                               rows, cut[s + 1] - cut[s], cut[s + 1] - cut[s]);
    for (std::size_t i = 0; i < terms.size(); ++i) terms[i] += local[i];
  }
  expect_near(terms, expected.terms, 1e-14);

  std::vector<double> dwhole(logits.size());
  maths::cross_entropy_backward(logits.data(), targets.data(), max.data(), terms.data(), 2,
                                dwhole.data(), 0, ignore, rows, classes, classes);
  for (std::size_t s = 0; s < 3; ++s) {
    std::size_t const cols = cut[s + 1] - cut[s];
    maths::cross_entropy_backward(shards[s].data(), targets.data(), max.data(), terms.data(), 2,
                                  shards[s].data(), cut[s], ignore, rows, cols, cols);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        EXPECT_NEAR(shards[s][r * cols + c], dwhole[r * classes + cut[s] + c], 1e-15);
  }
}

// 24 columns in three shards have 13 classes: 8, 5 and 0. Padding columns are never read.
TEST(CrossEntropy, PaddingCountsNowhere) {
  std::size_t const rows = 6, classes = 13, cols = 8, shards = 3;
  auto const targets = labels(rows, classes);
  auto const logits = values<double>(rows * classes, 1);
  whole<double> const expected{logits, targets, classes};
  std::vector<double> dexpected(logits.size());
  maths::cross_entropy_backward(logits.data(), targets.data(), expected.max.data(),
                                expected.terms.data(), 2, dexpected.data(), 0, ignore, rows,
                                classes, classes);

  std::vector<double> max(rows, -std::numeric_limits<double>::infinity()), terms(2 * rows, 0);
  for (bool const backward : {false, true}) {
    for (std::size_t s = 0; s < shards; ++s) {
      std::size_t const first = s * cols,
                        valid = std::min(cols, classes - std::min(first, classes));
      std::vector<double> shard(rows * cols, s == 1 ? NAN : 1e300), local(2 * rows);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < valid; ++c)
          shard[r * cols + c] = logits[r * classes + first + c];
      if (!backward) {
        maths::row_max(shard.data(), local.data(), rows, cols, valid);
        for (std::size_t r = 0; r < rows; ++r) max[r] = std::max(max[r], local[r]);
        // Sums need the maximum over all shards, which is the expected maximum.
        maths::cross_entropy_terms(shard.data(), targets.data(), expected.max.data(), local.data(),
                                   first, rows, cols, valid);
        for (std::size_t i = 0; i < terms.size(); ++i) terms[i] += local[i];
        continue;
      }
      maths::cross_entropy_backward(shard.data(), targets.data(), max.data(), terms.data(), 2,
                                    shard.data(), first, ignore, rows, cols, valid);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < cols; ++c)
          if (c < valid)
            EXPECT_NEAR(shard[r * cols + c], dexpected[r * classes + first + c], 1e-15);
          else EXPECT_EQ(shard[r * cols + c], 0.0);
    }
    EXPECT_EQ(max, expected.max);
    expect_near(terms, expected.terms, 1e-14);
  }
}

// Compares the definition, class by class, with `shards` blocks of equal width. The last has
// padding.
template <class Target>
void expect_naive(Target target, double smoothing, std::vector<double> const* weights,
                  std::size_t shards) {
  std::size_t const rows = 7, classes = 13, cols = (classes + 1 + shards) / shards;
  double const scale = 0.375, all = static_cast<double>(classes);
  auto const targets = labels(rows, classes);
  auto const logits = values<double>(rows * classes, 1);
  double loss = 0;
  std::vector<double> gradient(logits.size());
  for (std::size_t r = 0; r < rows; ++r) {
    if (targets[r] == ignore) continue;
    double const weight = weights == nullptr ? 1.0 : (*weights)[r];
    double const* const row = &logits[r * classes];
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(row[c]);
    for (std::size_t c = 0; c < classes; ++c) {
      double const wanted =
          (static_cast<std::size_t>(targets[r]) == c ? 1 - smoothing : 0) + smoothing / all;
      loss -= weight * wanted * std::log(std::exp(row[c]) / sum);
      gradient[r * classes + c] = scale * weight * (std::exp(row[c]) / sum - wanted);
    }
  }

  double const* const by_row = weights == nullptr ? nullptr : weights->data();
  std::vector<double> max(rows, -std::numeric_limits<double>::infinity()), local(rows),
      terms(Target::terms * rows), mine(terms.size());
  std::vector<std::vector<double>> blocks;
  auto const valid = [&](std::size_t s) { return std::min(cols, classes - s * cols); };
  for (std::size_t s = 0; s < shards; ++s) {
    blocks.emplace_back(rows * cols, 1e300);
    for (std::size_t r = 0; r < rows; ++r)
      std::copy_n(&logits[r * classes + s * cols], valid(s), &blocks[s][r * cols]);
    maths::row_max(blocks[s].data(), local.data(), rows, cols, valid(s));
    for (std::size_t r = 0; r < rows; ++r) max[r] = std::max(max[r], local[r]);
  }
  for (std::size_t s = 0; s < shards; ++s) {
    maths::cross_entropy_terms<Target>(blocks[s].data(), targets.data(), max.data(), mine.data(),
                                       s * cols, rows, cols, valid(s));
    for (std::size_t i = 0; i < terms.size(); ++i) terms[i] += mine[i];
  }
  EXPECT_NEAR(maths::cross_entropy_sum(terms.data(), targets.data(), ignore, rows, by_row, target),
              loss, 1e-13);
  for (std::size_t s = 0; s < shards; ++s) {
    maths::cross_entropy_backward(blocks[s].data(), targets.data(), max.data(), terms.data(), scale,
                                  blocks[s].data(), s * cols, ignore, rows, cols, valid(s), by_row,
                                  target);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        EXPECT_NEAR(blocks[s][r * cols + c],
                    c < valid(s) ? gradient[r * classes + s * cols + c] : 0.0, 1e-15);
  }
}

TEST(CrossEntropy, WeightsAndSmoothingAreTheDefinition) {
  std::vector<double> const weights{0.5, 2, 3, 0, 1, -1, 0.25};
  double const part = 0.3;
  plait::ext::smoothed_target const smoothed{.on_label = 1 - part, .on_each = part / 13};
  for (std::size_t shards : {1u, 2u, 4u})
    for (auto const* by : {static_cast<std::vector<double> const*>(nullptr), &weights}) {
      expect_naive(plait::ext::one_hot_target{}, 0, by, shards);
      expect_naive(smoothed, part, by, shards);
    }
}

TEST(CrossEntropy, LargeAndMaskedLogits) {
  float const infinity = std::numeric_limits<float>::infinity();
  std::vector<float> const logits = {1e4f, -1e4f, -infinity, 1e4f};
  std::vector<std::int32_t> const targets = {3};
  whole<float> const forward{logits, targets, 4};
  EXPECT_NEAR(forward.loss, std::log(2.0), 1e-6);
  std::vector<float> dlogits(4);
  maths::cross_entropy_backward(logits.data(), targets.data(), forward.max.data(),
                                forward.terms.data(), 1, dlogits.data(), 0, ignore, 1, 4, 4);
  EXPECT_EQ(dlogits, (std::vector<float>{0.5f, 0, 0, -0.5f}));
}

TEST(CrossEntropy, NanLogitIsANanLoss) {
  std::vector<float> const logits = {1, std::numeric_limits<float>::quiet_NaN(), 2};
  EXPECT_TRUE(std::isnan((whole<float>{logits, {0}, 3}).loss));
}
