// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "backend/host_maths_testing.hpp"
#include "plait/backend/host/maths/matmul.hpp"

// Cases for the portable kernel and for CBLAS, which are tested by two programs.

namespace {

using namespace host_maths_testing;
using plait::host_maths::matmul;
using plait::host_maths::transpose;

template <class T>
struct MatmulTest : testing::Test {};
using elements = testing::Types<float, double>;
TYPED_TEST_SUITE(MatmulTest, elements);

// Compares with sums in long double. Every row has 3 elements more than the matrix: they are NaN in
// A and B, where no kernel may read them, and must not change in C.
template <class T>
void check(transpose a_is, transpose b_is, std::size_t m, std::size_t n, std::size_t k, T alpha,
           T beta) {
  SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " transposed "
                                  << (a_is == transpose::yes) << (b_is == transpose::yes)
                                  << " alpha " << alpha << " beta " << beta);
  bool const a_turned = a_is == transpose::yes, b_turned = b_is == transpose::yes;
  std::size_t const lda = (a_turned ? m : k) + 3, ldb = (b_turned ? k : n) + 3, ldc = n + 3;
  auto a = values<T>((a_turned ? k : m) * lda, 1);
  auto b = values<T>((b_turned ? n : k) * ldb, 2);
  auto c = values<T>(m * ldc, 3);
  T const nan = std::numeric_limits<T>::quiet_NaN();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (i % lda >= lda - 3) a[i] = nan;
  for (std::size_t i = 0; i < b.size(); ++i)
    if (i % ldb >= ldb - 3) b[i] = nan;
  if (beta == T{0})
    for (std::size_t i = 0; i < c.size(); ++i)
      if (i % ldc < n) c[i] = nan;
  auto const before = c;
  matmul<T>(a_is, b_is, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
  for (std::size_t i = 0; i < c.size(); ++i) {
    std::size_t const row = i / ldc, column = i % ldc;
    if (column >= n) {
      ASSERT_EQ(c[i], before[i]) << "outside the matrix";
      continue;
    }
    long double sum = 0, magnitude = 0;
    for (std::size_t p = 0; p < k; ++p) {
      auto const product = static_cast<long double>(a[a_turned ? p * lda + row : row * lda + p]) *
                           b[b_turned ? column * ldb + p : p * ldb + column];
      sum += product;
      magnitude += std::abs(product);
    }
    long double const kept = beta == T{0} ? 0 : static_cast<long double>(beta) * before[i];
    double const bound = static_cast<double>(std::abs(alpha) * magnitude + std::abs(kept)) *
                         epsilon<T> * static_cast<double>(k + 2);
    ASSERT_NEAR(static_cast<double>(c[i]), static_cast<double>(alpha * sum + kept), bound)
        << "row " << row << " column " << column;
  }
}

// The extents reach every edge case of the portable kernel: a tile has 6 rows and 4 to 32 columns,
// a block has 48 rows, 128 or 256 columns and a depth of 128.
TYPED_TEST(MatmulTest, EqualsPlainSums) {
  struct extents {
    std::size_t m, n, k;
  };
  std::vector<extents> const cases = {{1, 1, 1},      {1, 37, 300}, {37, 1, 5},     {2, 3, 4},
                                      {6, 16, 64},    {7, 17, 65},  {48, 256, 128}, {49, 257, 129},
                                      {100, 130, 31}, {5, 300, 260}};
  for (auto const& [m, n, k] : cases)
    for (auto a_is : {transpose::no, transpose::yes})
      for (auto b_is : {transpose::no, transpose::yes}) {
        check<TypeParam>(a_is, b_is, m, n, k, 1, 0);
        check<TypeParam>(a_is, b_is, m, n, k, 1, 1);
        check<TypeParam>(a_is, b_is, m, n, k, TypeParam(-0.75), TypeParam(0.5));
      }
}

TYPED_TEST(MatmulTest, EmptyExtents) {
  for (auto a_is : {transpose::no, transpose::yes})
    for (auto b_is : {transpose::no, transpose::yes}) {
      check<TypeParam>(a_is, b_is, 0, 5, 5, 1, 0);
      check<TypeParam>(a_is, b_is, 5, 0, 5, 1, 0);
      check<TypeParam>(a_is, b_is, 5, 4, 0, 1, 0);
      check<TypeParam>(a_is, b_is, 5, 4, 0, 1, 1);
      check<TypeParam>(a_is, b_is, 5, 4, 0, 1, TypeParam(0.5));
    }
}

TYPED_TEST(MatmulTest, SameBitsEveryTime) {
  std::size_t const n = 70;
  auto const a = values<TypeParam>(n * n, 1), b = values<TypeParam>(n * n, 2);
  std::vector<TypeParam> first(n * n), second(n * n);
  auto const run = [&](std::vector<TypeParam>& c) {
    matmul<TypeParam>(transpose::no, transpose::yes, n, n, n, 1, a.data(), n, b.data(), n, 0,
                      c.data(), n);
  };
  run(first);
  run(second);
  EXPECT_EQ(first, second);
}

}  // namespace
