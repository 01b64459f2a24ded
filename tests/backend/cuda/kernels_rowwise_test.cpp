// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include <algorithm>

#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/cuda/kernels/layer_norm.hpp"
#include "plait/backend/cuda/kernels/rms_norm.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"
#include "plait/backend/host/maths/rowwise.hpp"
#include "plait/tensor/functions.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;

namespace {

constexpr extents shapes[] = {{0, 5},   {1, 1},   {3, 1},    {1, 16},   {9, 15},
                              {70, 40}, {5, 520}, {201, 33}, {130, 264}};

template <class T>
struct Rowwise : testing::Test {};
TYPED_TEST_SUITE(Rowwise, elements);
template <class T>
struct LayerNorm : testing::Test {};
TYPED_TEST_SUITE(LayerNorm, elements);

// Returns a bound of the rounding errors of a sum over `rows` terms of at most 1. The kernel sums
// slices of 64 rows with 8 warps each, and then the slices.
template <class S>
double sum_bound(std::size_t rows) {
  return rounding<S> * static_cast<double>(rows + 8) * std::sqrt(static_cast<double>(rows + 8));
}

}  // namespace

TYPED_TEST(Rowwise, AddRow) {
  using T = TypeParam;
  for (auto const& [rows, columns] : shapes)
    for (std::size_t const shift : shifts) {
      auto const bias = values<T>(columns, 1), before = values<T>(rows * columns, 2);
      auto expected = wide(before);
      maths::add_row(wide(bias).data(), expected.data(), rows, columns);
      memory<T> row(bias, shift), y(before);
      kernels::add_row(launcher{}, row.data(), y.data(), rows, columns);
      expect_near(y.wide(), expected, 2 * rounding<T>);
    }
}

TYPED_TEST(Rowwise, ColumnSumsWithAndWithoutWorkspace) {
  using T = TypeParam;
  using S = accumulate_t<T>;
  for (auto const& [rows, columns] : shapes)
    for (std::size_t const shift : shifts)
      for (bool const sliced : {false, true}) {
        auto const terms = values<T>(rows * columns, 1), factors = values<T>(rows * columns, 2);
        auto const start = values<S>(columns, 3);
        auto expected = wide(start), products = expected;
        maths::accumulate_column_sums(wide(terms).data(), expected.data(), rows, columns);
        auto const first = wide(terms), second = wide(factors);
        for (std::size_t i = 0; i < first.size(); ++i)
          products[i % columns] += first[i] * second[i];
        memory<T> dy(terms, shift), factor(factors);
        memory<S> sums(start), sums_of_products(start),
            workspace(kernels::column_sums_workspace(rows, columns));
        S* const scratch = sliced ? workspace.data() : nullptr;
        kernels::accumulate_column_sums(launcher{}, dy.data(), sums.data(), scratch, rows, columns);
        kernels::accumulate_columns(
            launcher{}, plait::functions::multiply{}, rows, columns, sums_of_products.data(),
            scratch, static_cast<T const*>(dy.data()), static_cast<T const*>(factor.data()));
        expect_near(sums.wide(), expected, sum_bound<S>(rows));
        expect_near(sums_of_products.wide(), products, sum_bound<S>(rows));
      }
}

TEST(Rowwise, SlicesAreUsedAndTheWorkspaceIsBounded) {
  EXPECT_GT(kernels::detail::column_slices(201, 33), 1u);
  for (std::size_t const columns : {1u, 33u, 768u, 50304u})
    for (std::size_t const rows : {1u, 64u, 8192u, 1u << 20u})
      EXPECT_LE(kernels::column_sums_workspace(rows, columns), 256 * (columns + 512)) << rows;
}

TYPED_TEST(LayerNorm, ForwardAndInPlace) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (auto const& [rows, columns] : shapes)
    for (std::size_t const shift : shifts) {
      auto const x = values<T>(rows * columns, 1);
      auto const gamma = values<T>(columns, 2), beta = values<T>(columns, 3);
      std::vector<double> expected(rows * columns), statistics(2 * rows);
      maths::layer_norm_forward(wide(x).data(), wide(gamma).data(), wide(beta).data(),
                                expected.data(), statistics.data(), rows, columns, 1e-5);
      memory<T> in(x, shift), out(rows * columns), factor(gamma), summand(beta, shift);
      memory<A> kept(2 * rows);
      kernels::layer_norm(launcher{}, in.data(), factor.data(), summand.data(), out.data(),
                          kept.data(), rows, columns, 1e-5);
      // A normalised value is at most sqrt(columns). It has one rounding error and the errors of
      // the statistics, which with one column are 1 / sqrt(epsilon) times larger.
      double const size = 1 + std::sqrt(static_cast<double>(columns));
      double const deviation = columns == 1 ? 320 : 1;
      double const bound = rounding<T> * size + rounding<A> * size * 40 * deviation;
      expect_near(out.wide(), expected, bound);
      for (std::size_t i = 0; i < 2 * rows; ++i)
        EXPECT_NEAR(kept.wide()[i], statistics[i],
                    40 * rounding<A> * std::max(1.0, std::abs(statistics[i])));
      kernels::layer_norm(few_blocks, in.data(), factor.data(), summand.data(), in.data(),
                          kept.data(), rows, columns, 1e-5);
      EXPECT_EQ(in.wide(), out.wide());
    }
}

TYPED_TEST(LayerNorm, Backward) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (auto const& [rows, columns] : shapes)
    for (std::size_t const shift : shifts) {
      auto const x = values<T>(rows * columns, 1), dy = values<T>(rows * columns, 2);
      auto const gamma = values<T>(columns, 3);
      // A large epsilon keeps the inverse deviation at 3, also with one column.
      std::vector<double> unused(rows * columns), statistics(2 * rows), dx(rows * columns);
      maths::layer_norm_forward(wide(x).data(), wide(gamma).data(), wide(gamma).data(),
                                unused.data(), statistics.data(), rows, columns, 0.1);
      std::vector<A> kept;
      for (double const value : statistics) kept.push_back(static_cast<A>(value));
      maths::layer_norm_backward_input(wide(dy).data(), wide(x).data(), wide(kept).data(),
                                       wide(gamma).data(), dx.data(), rows, columns);
      auto const start = values<A>(columns, 4);
      auto dgamma = wide(start), dbeta = wide(start);
      maths::layer_norm_backward_parameters(wide(dy).data(), wide(x).data(), wide(kept).data(),
                                            dgamma.data(), dbeta.data(), rows, columns);

      memory<T> gradient(dy, shift), in(x), factor(gamma, shift), out(rows * columns);
      memory<A> with(kept), sums0(start), sums1(start),
          workspace(kernels::column_sums_workspace(rows, columns, 2));
      kernels::layer_norm_backward_parameters(launcher{}, gradient.data(), in.data(), with.data(),
                                              sums0.data(), sums1.data(), workspace.data(), rows,
                                              columns);
      expect_near(sums0.wide(), dgamma, 8 * sum_bound<A>(rows));
      expect_near(sums1.wide(), dbeta, sum_bound<A>(rows));
      kernels::layer_norm_backward_input(launcher{}, gradient.data(), in.data(), with.data(),
                                         factor.data(), out.data(), rows, columns);
      expect_near(out.wide(), dx, 10 * rounding<T> + 100 * rounding<A>);
      kernels::layer_norm_backward_input(few_blocks, gradient.data(), in.data(), with.data(),
                                         factor.data(), gradient.data(), rows, columns);
      EXPECT_EQ(gradient.wide(), out.wide());
    }
}

// A kernel that makes both gradients from one reading of dy and x, and adds another gradient, gives
// the bits of separate kernels.
TYPED_TEST(LayerNorm, BothGradientsAndASumHaveTheBitsOfEachByItself) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  int done = 0;
  for (auto const& [rows, columns] :
       {extents{0, 8}, extents{1, 8}, extents{9, 15}, extents{70, 40}, extents{66, 264},
        extents{2, 768}, extents{9, 1000}, extents{2, 1032}})
    for (std::size_t const shift : shifts) {
      auto const x = values<T>(rows * columns, 1), dy = values<T>(rows * columns, 2);
      auto const gamma = values<T>(columns, 3), more = values<T>(rows * columns, 6);
      auto const statistics = values<A>(2 * rows, 4), start = values<A>(columns, 5);
      memory<T> gradient(dy, shift), in(x), factor(gamma), apart(rows * columns),
          together(rows * columns), added(more), sum(rows * columns);
      memory<A> with(statistics), dgamma(start), dbeta(start), dgamma_apart(start),
          dbeta_apart(start), workspace(kernels::column_sums_workspace(rows, columns, 2));
      auto const both = [&](T const* addend, T* dx) {
        return kernels::layer_norm_backward(launcher{}, gradient.data(), in.data(), with.data(),
                                            factor.data(), addend, dx, dgamma.data(), dbeta.data(),
                                            workspace.data(), rows, columns);
      };
      bool const fits = std::is_same_v<A, float> && columns <= 1024 &&
                        (shift == 0 && columns * sizeof(T) % 16 == 0);
      ASSERT_EQ(both(nullptr, together.data()), fits || rows == 0) << rows << " " << columns;
      if (!fits) {
        EXPECT_EQ(dgamma.wide(), wide(start));
        continue;
      }
      ++done;
      kernels::layer_norm_backward_parameters(launcher{}, gradient.data(), in.data(), with.data(),
                                              dgamma_apart.data(), dbeta_apart.data(),
                                              workspace.data(), rows, columns);
      kernels::layer_norm_backward_input(launcher{}, gradient.data(), in.data(), with.data(),
                                         factor.data(), apart.data(), rows, columns);
      expect_same(together.wide(), apart.wide(), rounding<T>);
      expect_same(dgamma.wide(), dgamma_apart.wide(), 8 * sum_bound<A>(rows));
      expect_same(dbeta.wide(), dbeta_apart.wide(), sum_bound<A>(rows));
      kernels::add(launcher{}, apart.data(), added.data(), sum.data(), rows * columns);
      both(added.data(), added.data());
      expect_same(added.wide(), sum.wide(), 4 * rounding<T>);
      both(nullptr, gradient.data());
      EXPECT_EQ(gradient.wide(), together.wide());
    }
  bool const is_float = std::is_same_v<A, float>;
  EXPECT_EQ(done, is_float ? 6 : 0);
}

template <class T>
struct RmsNorm : testing::Test {};
TYPED_TEST_SUITE(RmsNorm, elements);

TYPED_TEST(RmsNorm, ForwardAndInPlace) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (auto const& [rows, columns] : shapes)
    for (std::size_t const shift : shifts) {
      auto const x = values<T>(rows * columns, 1), gamma = values<T>(columns, 2);
      std::vector<double> expected(rows * columns), inverse(rows);
      maths::rms_norm_forward(wide(x).data(), wide(gamma).data(), expected.data(), inverse.data(),
                              rows, columns, 1e-5);
      memory<T> in(x, shift), out(rows * columns), factor(gamma);
      memory<A> kept(rows);
      kernels::rms_norm(launcher{}, in.data(), factor.data(), out.data(), kept.data(), rows,
                        columns, 1e-5);
      // A normalised value is at most sqrt(columns).
      double const size = 1 + std::sqrt(static_cast<double>(columns));
      expect_near(out.wide(), expected, rounding<T> * size + 40 * rounding<A> * size);
      for (std::size_t i = 0; i < rows; ++i)
        EXPECT_NEAR(kept.wide()[i], inverse[i], 40 * rounding<A> * std::max(1.0, inverse[i]));
      kernels::rms_norm(few_blocks, in.data(), factor.data(), in.data(), kept.data(), rows, columns,
                        1e-5);
      EXPECT_EQ(in.wide(), out.wide());
    }
}

TYPED_TEST(RmsNorm, Backward) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (auto const& [rows, columns] : shapes)
    for (std::size_t const shift : shifts) {
      auto const x = values<T>(rows * columns, 1), dy = values<T>(rows * columns, 2);
      auto const gamma = values<T>(columns, 3);
      // A large epsilon keeps the factor at 3, also with one column.
      std::vector<double> unused(rows * columns), inverse(rows), dx(rows * columns);
      maths::rms_norm_forward(wide(x).data(), wide(gamma).data(), unused.data(), inverse.data(),
                              rows, columns, 0.1);
      std::vector<A> kept;
      for (double const value : inverse) kept.push_back(static_cast<A>(value));
      maths::rms_norm_backward_input(wide(dy).data(), wide(x).data(), wide(kept).data(),
                                     wide(gamma).data(), dx.data(), rows, columns);
      auto const start = values<A>(columns, 4);
      auto dgamma = wide(start);
      maths::rms_norm_backward_parameters(wide(dy).data(), wide(x).data(), wide(kept).data(),
                                          dgamma.data(), rows, columns);

      memory<T> gradient(dy, shift), in(x), factor(gamma, shift), out(rows * columns);
      memory<A> with(kept), sums(start), workspace(kernels::column_sums_workspace(rows, columns));
      kernels::rms_norm_backward_parameters(launcher{}, gradient.data(), in.data(), with.data(),
                                            sums.data(), workspace.data(), rows, columns);
      expect_near(sums.wide(), dgamma, 8 * sum_bound<A>(rows));
      kernels::rms_norm_backward_input(launcher{}, gradient.data(), in.data(), with.data(),
                                       factor.data(), out.data(), rows, columns);
      expect_near(out.wide(), dx, 10 * rounding<T> + 100 * rounding<A>);
      kernels::rms_norm_backward_input(few_blocks, gradient.data(), in.data(), with.data(),
                                       factor.data(), gradient.data(), rows, columns);
      EXPECT_EQ(gradient.wide(), out.wide());
    }
}
