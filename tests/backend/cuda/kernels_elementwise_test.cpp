// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include <algorithm>
#include <deque>

#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/tensor/functions.hpp"
#include "run/own_rotary.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace functions = plait::functions;

namespace {

constexpr std::size_t counts[] = {0, 1, 7, 8, 64, 67, 2049, 5000};

template <class T>
struct Elementwise : testing::Test {};
TYPED_TEST_SUITE(Elementwise, elements);

}  // namespace

TYPED_TEST(Elementwise, Fill) {
  for (std::size_t const n : counts)
    for (std::size_t const shift : shifts) {
      memory<TypeParam> y(n, shift);
      kernels::fill(launcher{}, static_cast<TypeParam>(-2.5), y.data(), n);
      EXPECT_EQ(y.wide(), std::vector<double>(n, -2.5));
    }
}

TYPED_TEST(Elementwise, AddRoundsOnceAndMayOverwriteAnOperand) {
  using T = TypeParam;
  for (std::size_t const n : counts)
    for (std::size_t const shift : shifts) {
      auto const x = values<T>(n, 1), y = values<T>(n, 2);
      std::vector<double> expected(n);
      for (std::size_t i = 0; i < n; ++i)
        expected[i] = wide<T>({static_cast<T>(static_cast<accumulate_t<T>>(x[i]) +
                                              static_cast<accumulate_t<T>>(y[i]))})[0];
      memory<T> a(x, shift), b(y), out(n, shift);
      kernels::add(launcher{}, a.data(), b.data(), out.data(), n);
      EXPECT_EQ(out.wide(), expected);
      kernels::add(launcher{}, a.data(), b.data(), b.data(), n);
      EXPECT_EQ(b.wide(), expected);
    }
}

namespace {

struct weighted {
  template <class A>
  PLAIT_HOST_DEVICE A operator()(A a, A b, A c) const {
    return a + 2 * b + 4 * c;
  }
};

// Reads its own row, a row of each position, a row for all, and its place.
struct from_rows {
  PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at, auto own, auto position,
                                    auto all) const {
    using A = decltype(own[at.column]);
    A const place = static_cast<A>(at.row + 10 * at.sample + 100 * at.position);
    return own[at.column] + own[3] * position[0] + static_cast<A>(all[1]) + place / 1024;
  }
};

}  // namespace

TYPED_TEST(Elementwise, MapAtIsThatOfTheHost) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  using plait::ext::element_operand;
  // Rows are cut and begin at the fourth column; there are three positions of `samples`.
  for (std::size_t const samples : {1u, 2u, 70u})
    for (std::size_t const columns : {1u, 5u, 130u}) {
      plait::ext::element_block const of{3 * samples, columns, samples, 7, 4, 3};
      auto const own = values<T>(of.rows * columns, 1), position = values<T>(3 * 2, 2);
      auto const all = values<A>(2, 3);
      auto const run = [&](auto const& launch, T const* a, T const* b, A const* c, T* y) {
        launch(from_rows{}, of, y, element_operand<T>{a, of.rows * columns, columns, 3, 1},
               element_operand<T>{b, 6, 2, 0, samples}, element_operand<A>{c, 2, 2, 0, of.rows});
      };
      std::vector<T> expected(of.rows * columns);
      run([](auto... given) { plait::host_maths::map_at(given...); }, own.data(), position.data(),
          all.data(), expected.data());
      memory<T> a(own, 1), b(position), y(of.rows * columns, 1);
      memory<A> c(all);
      run([](auto... given) { kernels::map_at(launcher{}, given...); }, a.data(), b.data(),
          c.data(), y.data());
      expect_same(y.wide(), wide(expected), 4 * rounding<T>);
    }
}

// Runs a user's function object on the host and in a kernel.
TYPED_TEST(Elementwise, RotaryPositionsOfAUser) {
  using T = TypeParam;
  plait::ext::element_block const of{12, 16, 3, 100, 0, 32};
  auto const x = values<T>(of.rows * of.columns, 1);
  for (double const direction : {1.0, -1.0}) {
    own_rotary::turned<8> const turned{direction};
    std::vector<T> expected(x.size());
    plait::host_maths::map_at(turned, of, expected.data(),
                              plait::ext::element_operand<T>{x.data(), x.size(), 16, 32, 1});
    memory<T> in(x), out(x.size());
    kernels::map_at(launcher{}, turned, of, out.data(),
                    plait::ext::element_operand<T>{in.data(), x.size(), 16, 32, 1});
    expect_same(out.wide(), wide(expected), 4 * rounding<T>);
    EXPECT_NE(out.wide(), wide(x));
  }
}

TYPED_TEST(Elementwise, MapsCallTheFunctionWithTheAccumulatingType) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  std::size_t const n = 1003;
  for (std::size_t const shift : shifts) {
    auto const x = values<T>(n, 1), y = values<T>(n, 2);
    std::vector<T> first(n), second(n);
    for (std::size_t i = 0; i < n; ++i) {
      first[i] = static_cast<T>(functions::gelu_tanh{}(static_cast<A>(x[i])));
      second[i] = static_cast<T>(
          functions::gelu_tanh_derivative{}(static_cast<A>(x[i]), static_cast<A>(y[i])));
    }
    memory<T> a(x, shift), b(y, shift);
    memory<T> c(y), sum(n, shift);
    kernels::map(launcher{}, weighted{}, n, a.data(), b.data(), c.data(), sum.data());
    std::vector<T> third(n);
    for (std::size_t i = 0; i < n; ++i)
      third[i] = static_cast<T>(
          weighted{}(static_cast<A>(x[i]), static_cast<A>(y[i]), static_cast<A>(y[i])));
    expect_same(sum.wide(), wide(third), 4 * rounding<T>);
    kernels::map(launcher{}, weighted{}, n, a.data(), b.data(), c.data(), c.data());
    EXPECT_EQ(c.wide(), sum.wide());
    kernels::map(launcher{}, functions::gelu_tanh_derivative{}, n, a.data(), b.data(), b.data());
    kernels::map(launcher{}, functions::gelu_tanh{}, n, a.data(), a.data());
    expect_same(a.wide(), wide(first), 4 * rounding<T>);
    expect_same(b.wide(), wide(second), 4 * rounding<T>);
  }
}

TYPED_TEST(Elementwise, CopyBlocks) {
  struct cut {
    std::size_t from_stride, to_stride, count, block;
  };
  for (auto const& [from_stride, to_stride, count, block] :
       {cut{0, 0, 0, 5}, cut{3, 3, 2, 0}, cut{7, 9, 1, 1}, cut{10, 8, 5, 3}, cut{48, 16, 9, 16},
        cut{64, 80, 3, 37}, cut{2056, 2048, 2, 2048}, cut{5, 3, 1, 3000}})
    for (std::size_t const shift : shifts) {
      auto const x = values<TypeParam>(count == 0 ? 0 : (count - 1) * from_stride + block, 1);
      auto const y = values<TypeParam>(count == 0 ? 0 : (count - 1) * to_stride + block, 2);
      auto const given = wide(x);
      auto expected = wide(y);
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t c = 0; c < block; ++c)
          expected[i * to_stride + c] = given[i * from_stride + c];
      memory<TypeParam> from(x, shift), to(y);
      kernels::copy_blocks(launcher{}, from.data(), from_stride, to.data(), to_stride, count,
                           block);
      EXPECT_EQ(to.wide(), expected);
    }
}

namespace {

// out = factor * (x - the greatest element of its row)
struct below_largest {
  template <class T>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, T const* x, T const* factor,
                                    T* out) const {
    accumulate_t<T> largest = x[0];
    for (std::size_t c = 1; c < columns; ++c)
      largest = kernels::larger(largest, static_cast<accumulate_t<T>>(x[c]));
    for (std::size_t c = 0; c < columns; ++c) out[c] = factor[c] * (x[c] - largest);
  }
};

}  // namespace

TYPED_TEST(Elementwise, RowsWithARepeatedOne) {
  using T = TypeParam;
  for (auto const& [rows, columns] : {extents{0, 3}, extents{1, 1}, extents{70, 5}}) {
    auto const x = values<T>(rows * columns, 1), factor = values<T>(columns, 2);
    auto expected = x;
    for (std::size_t r = 0; r < rows; ++r)
      below_largest{}(columns, &x[r * columns], factor.data(), &expected[r * columns]);
    memory<T> a(x), f(factor), out(rows * columns);
    kernels::rows(launcher{}, below_largest{}, rows, columns,
                  kernels::row_operand<T const>{a.data(), columns},
                  kernels::row_operand<T const>{f.data(), 0},
                  kernels::row_operand<T>{out.data(), columns});
    EXPECT_EQ(out.wide(), wide(expected));
  }
}

TYPED_TEST(Elementwise, CombineInOrder) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (std::size_t const n : counts)
    for (std::size_t const shift : shifts)
      for (int const count : {1, 2, 5, 16}) {
        std::vector<std::vector<T>> inputs;
        std::vector<T> sum(n), greatest(n);
        for (int s = 0; s < count; ++s)
          inputs.push_back(values<T>(n, static_cast<std::uint32_t>(s)));
        for (std::size_t i = 0; i < n; ++i) {
          A total = inputs[0][i], most = inputs[0][i];
          for (std::size_t s = 1; s < inputs.size(); ++s) {
            total += static_cast<A>(inputs[s][i]);
            most = std::max(most, static_cast<A>(inputs[s][i]));
          }
          sum[i] = static_cast<T>(total);
          greatest[i] = static_cast<T>(most);
        }
        memory<T> out(n), last(inputs.back(), shift);
        std::deque<memory<T>> others;
        kernels::source_table<T> sources{};
        for (std::size_t s = 0; s + 1 < inputs.size(); ++s)
          sources.of[s] = others.emplace_back(inputs[s]).data();
        sources.of[count - 1] = last.data();
        kernels::combine(launcher{}, kernels::plus{}, sources, count, out.data(), n);
        EXPECT_EQ(out.wide(), wide(sum));
        kernels::combine(launcher{}, kernels::maximum{}, sources, count, last.data(), n);
        EXPECT_EQ(last.wide(), wide(greatest));
      }
}

TEST(Elementwise, EmptyOperandsLaunchNothing) {
  int launches = 0;
  float* const none = nullptr;
  kernels::fill(launcher{&launches}, 0, none, 0);
  kernels::add(launcher{&launches}, none, none, none, 0);
  kernels::copy_blocks(launcher{&launches}, none, 1, none, 1, 0, 3);
  kernels::combine(launcher{&launches}, kernels::plus{}, kernels::source_table<float>{}, 2, none,
                   0);
  EXPECT_EQ(launches, 0);
  auto number = one(1.0f);
  kernels::fill(launcher{&launches}, 0, number.data(), 1);
  EXPECT_EQ(launches, 1);
}
