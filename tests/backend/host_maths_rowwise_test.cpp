// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/rowwise.hpp"

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

struct extents {
  std::size_t rows, cols;
};
std::vector<extents> const shapes = {{0, 5}, {1, 1}, {3, 1}, {1, 16}, {4, 15}, {5, 33}, {2, 100}};

}  // namespace

TEST(Elementwise, AddScaleFillCopyAtEveryAlias) {
  for (std::size_t n : {0u, 1u, 7u, 64u, 65u}) {
    auto const x = values<double>(n, 1), y = values<double>(n, 2);
    std::vector<double> sum(n), twice(n), scaled(n);
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] = x[i] + y[i];
      twice[i] = x[i] + x[i];
      scaled[i] = -3 * x[i];
    }
    std::vector<double> out(n);
    maths::add(x.data(), y.data(), out.data(), n);
    EXPECT_EQ(out, sum);
    out = x;
    maths::add(out.data(), y.data(), out.data(), n);
    EXPECT_EQ(out, sum);
    out = y;
    maths::add(x.data(), out.data(), out.data(), n);
    EXPECT_EQ(out, sum);
    out = x;
    maths::add(out.data(), out.data(), out.data(), n);
    EXPECT_EQ(out, twice);
    maths::scale(-3, x.data(), out.data(), n);
    EXPECT_EQ(out, scaled);
    out = x;
    maths::scale(-3, out.data(), out.data(), n);
    EXPECT_EQ(out, scaled);
    maths::copy(x.data(), out.data(), n);
    EXPECT_EQ(out, x);
    maths::fill(4, out.data(), n);
    EXPECT_EQ(out, std::vector<double>(n, 4));
  }
}

TEST(Rowwise, AddRowAndColumnSums) {
  for (auto const& [rows, cols] : shapes) {
    auto const bias = values<double>(cols, 1), y = values<double>(rows * cols, 2);
    auto added = y;
    auto sums = bias;
    maths::add_row(bias.data(), added.data(), rows, cols);
    maths::accumulate_column_sums(y.data(), sums.data(), rows, cols);
    for (std::size_t c = 0; c < cols; ++c) {
      double sum = bias[c];
      for (std::size_t r = 0; r < rows; ++r) {
        EXPECT_EQ(added[r * cols + c], y[r * cols + c] + bias[c]);
        sum += y[r * cols + c];
      }
      EXPECT_NEAR(sums[c], sum, 1e-14);
    }
  }
}

TEST(LayerNorm, ForwardInFloatAndInPlace) {
  for (auto const& [rows, cols] : shapes) {
    auto x = values<float>(rows * cols, 1);
    auto const gamma = values<float>(cols, 2), beta = values<float>(cols, 3);
    std::vector<float> y(rows * cols), statistics(2 * rows);
    maths::layer_norm_forward(x.data(), gamma.data(), beta.data(), y.data(), statistics.data(),
                              rows, cols, 1e-5f);
    for (std::size_t r = 0; r < rows; ++r) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < cols; ++c) mean += static_cast<double>(x[r * cols + c]);
      mean /= static_cast<double>(cols);
      for (std::size_t c = 0; c < cols; ++c)
        variance += std::pow(static_cast<double>(x[r * cols + c]) - mean, 2);
      double const inverse = 1 / std::sqrt(variance / static_cast<double>(cols) + 1e-5);
      EXPECT_NEAR(static_cast<double>(statistics[2 * r]), mean, 1e-6);
      EXPECT_NEAR(static_cast<double>(statistics[2 * r + 1]) / inverse, 1, 1e-5);
      for (std::size_t c = 0; c < cols; ++c)
        EXPECT_NEAR(static_cast<double>(y[r * cols + c]),
                    (static_cast<double>(x[r * cols + c]) - mean) * inverse *
                            static_cast<double>(gamma[c]) +
                        static_cast<double>(beta[c]),
                    2e-5);
    }
    maths::layer_norm_forward(x.data(), gamma.data(), beta.data(), x.data(), statistics.data(),
                              rows, cols, 1e-5f);
    expect_near(x, y, 1e-6);
  }
}

TEST(LayerNorm, BackwardEqualsDifferences) {
  for (auto const& [rows, cols] : shapes) {
    auto x = values<double>(rows * cols, 1);
    auto gamma = values<double>(cols, 2), beta = values<double>(cols, 3);
    auto const dy = values<double>(rows * cols, 4);
    std::vector<double> y(rows * cols), statistics(2 * rows), dx(rows * cols);
    auto const loss = [&] {
      maths::layer_norm_forward(x.data(), gamma.data(), beta.data(), y.data(), statistics.data(),
                                rows, cols, 1e-1);
      return dot(y, dy);
    };
    loss();
    maths::layer_norm_backward_input(dy.data(), x.data(), statistics.data(), gamma.data(),
                                     dx.data(), rows, cols);
    auto in_place = dy;
    maths::layer_norm_backward_input(in_place.data(), x.data(), statistics.data(), gamma.data(),
                                     in_place.data(), rows, cols);
    expect_near(in_place, dx, 1e-14);

    auto const start = values<double>(cols, 5);  // gradients are added to these values
    auto dgamma = start, dbeta = start;
    maths::layer_norm_backward_parameters(dy.data(), x.data(), statistics.data(), dgamma.data(),
                                          dbeta.data(), rows, cols);
    for (std::size_t c = 0; c < cols; ++c) {
      dgamma[c] -= start[c];
      dbeta[c] -= start[c];
    }
    expect_gradient(loss, x, dx);
    expect_gradient(loss, gamma, dgamma);
    expect_gradient(loss, beta, dbeta);
  }
}
