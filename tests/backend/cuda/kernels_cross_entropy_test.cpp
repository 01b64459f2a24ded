// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include <algorithm>
#include <cmath>
#include <limits>

#include "plait/backend/cuda/kernels/cross_entropy.hpp"
#include "plait/backend/host/maths/cross_entropy.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;

namespace {

constexpr std::int32_t ignored = -100;

// Classes [first_class, first_class + valid) of a larger number, in rows of `columns`.
struct shard {
  std::size_t rows, columns, valid, first_class;
};
constexpr shard shards[] = {{0, 5, 5, 0},  {1, 1, 1, 0},       {4, 7, 7, 0},   {9, 40, 33, 4},
                            {3, 16, 0, 8}, {5, 2200, 2200, 0}, {2, 600, 1, 3}, {3, 520, 519, 11}};

template <class T>
struct problem {
  shard of;
  std::vector<T> logits;
  std::vector<double> without_padding;
  std::vector<std::int32_t> targets;

  explicit problem(shard s) : of(s), logits(values<T>(s.rows * s.columns, 1)), targets(s.rows) {
    // Padding is large, so that the result shows if it counts.
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (i % s.columns >= s.valid) logits[i] = static_cast<T>(30);
    auto const all = wide(logits);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i % s.columns < s.valid) without_padding.push_back(all[i]);
    for (std::size_t r = 0; r < s.rows; ++r)  // some targets are in other shards, some are ignored
      targets[r] =
          r % 4 == 3
              ? ignored
              : static_cast<std::int32_t>((s.first_class + 5 * r) % (s.first_class + s.valid + 2));
  }
};

// Compares each operation on a shard with the host, also in place, with the terms of that shard
// only.
template <class T, class Target = plait::ext::one_hot_target>
void expect_host(shard s, std::size_t shift, double const* weights = nullptr, Target target = {},
                 launcher launch = {}) {
  using A = accumulate_t<T>;
  problem<T> const given(s);
  std::vector<double> max(s.rows), terms(Target::terms * s.rows);
  maths::row_max(given.without_padding.data(), max.data(), s.rows, s.valid, s.valid);
  memory<T> logits(given.logits, shift), dlogits(given.logits.size());
  memory<A> largest(s.rows), sums(Target::terms * s.rows);
  memory<std::int32_t> targets(given.targets);
  memory<double> given_weights(weights == nullptr ? std::vector<double>{}
                                                  : std::vector<double>(weights, weights + s.rows));
  double* const row_weights = weights == nullptr ? nullptr : given_weights.data();
  kernels::row_max(launch, logits.data(), largest.data(), s.rows, s.columns, s.valid);
  EXPECT_EQ(largest.wide(), max);
  if (s.valid == 0) return;

  maths::cross_entropy_terms<Target>(given.without_padding.data(), given.targets.data(), max.data(),
                                     terms.data(), s.first_class, s.rows, s.valid, s.valid);
  kernels::cross_entropy_terms<Target>(launch, logits.data(), targets.data(), largest.data(),
                                       sums.data(), s.first_class, s.rows, s.columns, s.valid);
  // Each summand is at most 2; e^x has an error of a few units in the last place.
  double const bound = 20 * rounding<A> * static_cast<double>(s.valid);
  expect_near(sums.wide(), terms, bound);

  double const scale = 0.375;
  auto factor = one(scale), loss = one(2.0);
  double const rows = static_cast<double>(s.rows);
  double const expected = 2 + scale * maths::cross_entropy_sum(terms.data(), given.targets.data(),
                                                               ignored, s.rows, weights, target);
  kernels::cross_entropy_sum(launcher{}, sums.data(), targets.data(), ignored, s.rows,
                             factor.data(), loss.data(), row_weights, target);
  EXPECT_NEAR(loss.value(), expected, rows * 30 * rounding<A>);

  std::vector<double> gradient(given.without_padding.size()), padded(given.logits.size());
  maths::cross_entropy_backward(given.without_padding.data(), given.targets.data(), max.data(),
                                terms.data(), scale, gradient.data(), s.first_class, ignored,
                                s.rows, s.valid, s.valid, weights, target);
  for (std::size_t r = 0; r < s.rows; ++r)
    std::copy_n(&gradient[r * s.valid], s.valid, &padded[r * s.columns]);
  kernels::cross_entropy_backward(launch, logits.data(), targets.data(), largest.data(),
                                  sums.data(), factor.data(), dlogits.data(), s.first_class,
                                  ignored, s.rows, s.columns, s.valid, row_weights, target);
  expect_near(dlogits.wide(), padded, rounding<T> + 30 * rounding<A>);
  kernels::cross_entropy_backward(launch, logits.data(), targets.data(), largest.data(),
                                  sums.data(), factor.data(), logits.data(), s.first_class, ignored,
                                  s.rows, s.columns, s.valid, row_weights, target);
  EXPECT_EQ(logits.wide(), dlogits.wide());
}

template <class T>
struct CrossEntropy : testing::Test {};
TYPED_TEST_SUITE(CrossEntropy, elements);

}  // namespace

TYPED_TEST(CrossEntropy, EqualsTheHostOnEveryShard) {
  for (auto const& s : shards)
    for (std::size_t const shift : shifts)
      expect_host<TypeParam>(s, shift, nullptr, plait::ext::one_hot_target{},
                             shift == 0 ? few_blocks : launcher{});
}

// A kernel that makes maxima and sums from one reading of the logits gives the results of two
// kernels. The logits grow along a row, are far apart, or are minus infinity; a row of minus
// infinities has no finite loss.
template <class T, class Target>
void expect_statistics_as_apart(shard s, std::size_t shift, double step) {
  using A = accumulate_t<T>;
  problem<T> given(s);
  for (std::size_t i = 0; i < given.logits.size(); ++i) {
    std::size_t const column = i % s.columns;
    if (column >= s.valid) continue;
    given.logits[i] = static_cast<T>(given.logits[i] + step * static_cast<double>(column % 300));
    if (i % 7 == 5) given.logits[i] = static_cast<T>(-std::numeric_limits<float>::infinity());
  }
  for (auto& target : given.targets) target -= static_cast<std::int32_t>(s.first_class);
  memory<T> logits(given.logits, shift);
  memory<std::int32_t> targets(given.targets);
  memory<A> max(s.rows), terms(Target::terms * s.rows), largest(s.rows),
      sums(Target::terms * s.rows);
  kernels::row_max(launcher{}, logits.data(), largest.data(), s.rows, s.columns, s.valid);
  kernels::cross_entropy_terms<Target>(launcher{}, logits.data(), targets.data(), largest.data(),
                                       sums.data(), 0, s.rows, s.columns, s.valid);
  kernels::cross_entropy_statistics<Target>(few_blocks, logits.data(), targets.data(), max.data(),
                                            terms.data(), s.rows, s.columns, s.valid);
  EXPECT_EQ(max.wide(), largest.wide());
  auto const got = terms.wide(), expected = sums.wide(), greatest = max.wide();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(greatest[i / Target::terms])) continue;
    if (std::isinf(expected[i])) EXPECT_EQ(got[i], expected[i]) << i;
    else EXPECT_NEAR(got[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i]))) << i;
  }
}

TYPED_TEST(CrossEntropy, OneReadingOfTheLogitsEqualsTwo) {
  for (int const number : {2, 4, 5})
    expect_statistics_as_apart<TypeParam, plait::ext::one_hot_target>(shards[number], shifts[0],
                                                                      0.05);
  for (double const step : {0.0, 4.0, -4.0})
    expect_statistics_as_apart<TypeParam, plait::ext::smoothed_target>(shards[7], shifts[step > 0],
                                                                       step);
}

// The kernel that makes the loss and its gradient gives the gradient of the separate kernel, also
// in place, for logits that are read as vectors or one by one. A row to ignore has no terms.
template <class T, class Target>
void expect_gradient_as_apart(shard s, std::size_t shift, bool weighted, Target target) {
  using A = accumulate_t<T>;
  problem<T> given(s);
  for (auto& label : given.targets)
    if (label != ignored) label %= static_cast<std::int32_t>(s.valid);
  memory<T> logits(given.logits, shift), apart(given.logits.size()), once(given.logits.size());
  memory<std::int32_t> targets(given.targets);
  memory<double> given_weights(values<double>(s.rows, 3));
  double const* const weights = weighted ? given_weights.data() : nullptr;
  memory<A> max(s.rows), sums(Target::terms * s.rows), terms(Target::terms * s.rows);
  auto scale = one(0.375), loss_apart = one(2.0), loss = one(2.0);
  kernels::cross_entropy_statistics<Target>(launcher{}, logits.data(), targets.data(), max.data(),
                                            sums.data(), s.rows, s.columns, s.valid);
  kernels::cross_entropy_sum(launcher{}, sums.data(), targets.data(), ignored, s.rows, scale.data(),
                             loss_apart.data(), weights, target);
  kernels::cross_entropy_backward(launcher{}, logits.data(), targets.data(), max.data(),
                                  sums.data(), scale.data(), apart.data(), 0, ignored, s.rows,
                                  s.columns, s.valid, weights, target);
  auto const with_gradient = [&](memory<T>& to) {
    kernels::cross_entropy_with_gradient(few_blocks, logits.data(), targets.data(), terms.data(),
                                         scale.data(), to.data(), ignored, s.rows, s.columns,
                                         s.valid, weights, target);
  };
  with_gradient(once);
  kernels::cross_entropy_sum(launcher{}, terms.data(), targets.data(), ignored, s.rows,
                             scale.data(), loss.data(), weights, target);
  EXPECT_NEAR(loss.value(), loss_apart.value(), static_cast<double>(s.rows) * 30 * rounding<A>);
  expect_near(once.wide(), apart.wide(), rounding<T> + 30 * rounding<A>);
  with_gradient(logits);
  EXPECT_EQ(logits.wide(), once.wide());
}

TYPED_TEST(CrossEntropy, GradientWithTheLossEqualsTheOneAfterIt) {
  for (auto const& s : shards) {
    if (s.valid == 0) continue;
    for (std::size_t const shift : shifts)
      expect_gradient_as_apart<TypeParam>(s, shift, shift != 0, plait::ext::one_hot_target{});
    expect_gradient_as_apart<TypeParam>(
        s, shifts[0], true, plait::ext::smoothed_target{.on_label = 0.7, .on_each = 0.3 / 17});
  }
}

TYPED_TEST(CrossEntropy, EqualsTheHostWithWeightsAndSmoothing) {
  plait::ext::smoothed_target const smoothed{.on_label = 0.7, .on_each = 0.3 / 17};
  for (auto const& s : shards) {
    auto const weights = values<double>(s.rows, 3);
    expect_host<TypeParam>(s, shifts[0], weights.data());
    expect_host<TypeParam>(s, shifts[0], nullptr, smoothed, few_blocks);
    expect_host<TypeParam>(s, shifts[1], weights.data(), smoothed);
  }
}

TEST(CrossEntropySum, OfManyRows) {
  std::size_t const rows = 2500;
  auto terms = values<double>(2 * rows, 1);
  std::vector<std::int32_t> targets(rows, 1);
  for (std::size_t r = 0; r < rows; ++r) {
    terms[2 * r] += 2;
    if (r % 7 == 2) targets[r] = ignored;
  }
  double const expected = maths::cross_entropy_sum(terms.data(), targets.data(), ignored, rows);
  memory<double> of_rows(terms);
  memory<std::int32_t> of_target(targets);
  auto scale = one(1.0), loss = one(0.0);
  kernels::cross_entropy_sum(launcher{}, of_rows.data(), of_target.data(), ignored, rows,
                             scale.data(), loss.data());
  EXPECT_NEAR(loss.value(), expected, 1e-12 * static_cast<double>(rows));
}
