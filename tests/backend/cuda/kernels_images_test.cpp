// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include <array>
#include <cmath>
#include <limits>

#include "plait/backend/cuda/kernels/image_norm.hpp"
#include "plait/backend/cuda/kernels/windows.hpp"
#include "plait/backend/host/maths/image_norm.hpp"
#include "plait/backend/host/maths/windows.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;

namespace {

using plait::ext::norm_shape;
using plait::ext::window_shape;

constexpr std::size_t samples = 3;

// Covers odd sizes, strides, padding and kernels that are not square.
constexpr window_shape windows[] = {{1, 1, 1, 1, 1, 1, 0}, {2, 5, 7, 3, 3, 1, 1},
                                    {3, 7, 6, 3, 3, 2, 1}, {4, 6, 5, 2, 2, 2, 0},
                                    {2, 9, 4, 9, 4, 1, 0}, {1, 17, 19, 5, 3, 3, 1}};

template <class T>
struct Windows : testing::Test {};
TYPED_TEST_SUITE(Windows, elements);
template <class T>
struct SetNorm : testing::Test {};
TYPED_TEST_SUITE(SetNorm, elements);

}  // namespace

TYPED_TEST(Windows, Patches) {
  using T = TypeParam;
  for (auto const& of : windows)
    for (auto const& [first, rows] :
         {std::pair<std::size_t, std::size_t>{0, of.out_height()}, {of.out_height() / 2, 1}}) {
      std::size_t const count = of.patch() * samples * rows * of.out_width();
      auto const x = values<T>(samples * of.image(), 1), gradient = values<T>(count, 2);
      auto const start = values<T>(samples * of.image(), 3);
      std::vector<double> expected(count);
      auto back = wide(start);
      maths::gather_patches(of, samples, first, rows, wide(x).data(), expected.data());
      maths::add_patches(of, samples, first, rows, wide(gradient).data(), back.data());
      memory<T> in(x), patches(count, 1), with(gradient), sums(start);
      kernels::gather_patches(launcher{}, of, samples, first, rows, in.data(), patches.data());
      expect_near(patches.wide(), expected, 0);
      kernels::add_patches(launcher{}, of, samples, first, rows, with.data(), sums.data());
      expect_near(sums.wide(), back, rounding<T> * double(of.window() + 1) * 2);
    }
}

TYPED_TEST(Windows, BlocksAndMaps) {
  using T = TypeParam;
  using S = accumulate_t<T>;
  for (std::size_t const map : {1u, 7u, 300u})
    for (std::size_t const channels : {1u, 5u}) {
      std::size_t const count = samples * channels * map;
      auto const x = values<T>(count, 1), bias = values<T>(channels, 2);
      auto const start = values<S>(channels, 3);
      std::vector<double> exchanged(count);
      auto added = wide(x), sums = wide(start);
      maths::exchange_blocks(wide(x).data(), exchanged.data(), samples, channels, map);
      maths::add_to_maps(wide(bias).data(), added.data(), samples, channels, map);
      maths::accumulate_map_sums(wide(x).data(), sums.data(), samples, channels, map);
      memory<T> in(x), out(count), row(bias);
      memory<S> got(start);
      kernels::exchange_blocks(launcher{}, in.data(), out.data(), samples, channels, map);
      expect_near(out.wide(), exchanged, 0);
      kernels::accumulate_map_sums(few_blocks, in.data(), got.data(), samples, channels, map);
      expect_near(got.wide(), sums, rounding<S> * double(samples * map + 1) * 4);
      kernels::add_to_maps(launcher{}, row.data(), in.data(), samples, channels, map);
      expect_near(in.wide(), added, 2 * rounding<T>);
    }
}

TYPED_TEST(Windows, Pools) {
  using T = TypeParam;
  for (auto of : windows) {
    if (2 * of.padding > of.kernel_height || 2 * of.padding > of.kernel_width) continue;
    std::size_t const count = samples * of.channels * of.out_map();
    auto x = values<T>(samples * of.image(), 1);
    // Inputs with equal elements and a NaN.
    for (auto& value : x) value = static_cast<T>(std::round(4 * double(float(value))));
    if (x.size() > 9) x[9] = std::numeric_limits<float>::quiet_NaN();
    auto const dy = values<T>(count, 2);
    std::vector<double> most(count), mean(count), dmost(x.size()), dmean(x.size());
    maths::max_pool(of, samples, wide(x).data(), most.data());
    maths::max_pool_backward(of, samples, wide(dy).data(), wide(x).data(), dmost.data());
    maths::average_pool_backward(of, samples, wide(dy).data(), dmean.data());
    memory<T> in(x), out(count), gradient(dy), back(x.size());
    kernels::max_pool(launcher{}, of, samples, in.data(), out.data());
    auto const got = out.wide();
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_TRUE(got[i] == most[i] || (std::isnan(got[i]) && std::isnan(most[i]))) << i;
    kernels::max_pool_backward(launcher{}, of, samples, gradient.data(), in.data(), back.data());
    expect_near(back.wide(), dmost, rounding<T> * double(of.window()));
    kernels::average_pool_backward(launcher{}, of, samples, gradient.data(), back.data());
    expect_near(back.wide(), dmean, 4 * rounding<T>);
    auto const plain = values<T>(x.size(), 3);
    maths::average_pool(of, samples, wide(plain).data(), mean.data());
    memory<T> numbers(plain);
    kernels::average_pool(launcher{}, of, samples, numbers.data(), out.data());
    expect_near(out.wide(), mean, 4 * rounding<T>);
  }
}

TYPED_TEST(SetNorm, OfGroupsOfChannelsAndOfSamples) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  // Covers groups of channels, groups of samples of which some do not count, and the group of all.
  for (norm_shape const of : {norm_shape{3, 3, 6, 5, 1, 2}, norm_shape{6, 4, 3, 7, 2, 1},
                              norm_shape{8, 5, 2, 300, 4, 1}, norm_shape{4, 4, 1, 1, 4, 1}}) {
    std::size_t const count = of.samples * of.image();
    auto const x = values<T>(count, 1), dy = values<T>(count, 2);
    auto const gamma = values<T>(of.channels, 3), beta = values<T>(of.channels, 4);
    constexpr double epsilon = 0.1;  // limits the inverse deviation to about 3
    std::vector<double> statistics(2 * of.sets()), y(count), dx(count), scaled(count);
    maths::set_statistics(of, wide(x).data(), statistics.data(), epsilon);
    std::vector<A> kept;
    for (double const value : statistics) kept.push_back(static_cast<A>(value));
    maths::normalize_sets(of, wide(x).data(), wide(kept).data(), wide(gamma).data(),
                          wide(beta).data(), y.data());
    maths::normalize_sets_backward(of, wide(dy).data(), wide(x).data(), wide(kept).data(),
                                   wide(gamma).data(), dx.data());
    maths::scale_sets(of, wide(dy).data(), wide(kept).data(), wide(gamma).data(), scaled.data());
    auto const start = values<A>(of.channels, 5);
    auto dgamma = wide(start), dbeta = dgamma, means = dgamma, variances = dgamma;
    maths::normalize_sets_parameters(of, wide(dy).data(), wide(x).data(), wide(kept).data(),
                                     dgamma.data(), dbeta.data());

    memory<T> in(x), out(count), factor(gamma), summand(beta), gradient(dy);
    memory<A> found(2 * of.sets()), with(kept), sums0(start), sums1(start), sums2(start),
        sums3(start);
    kernels::set_statistics(few_blocks, of, in.data(), found.data(), epsilon);
    expect_near(found.wide(), statistics, 100 * rounding<A>);
    kernels::normalize_sets(launcher{}, of, in.data(), with.data(), factor.data(), summand.data(),
                            out.data());
    expect_near(out.wide(), y, 10 * rounding<T>);
    kernels::normalize_sets_backward(launcher{}, of, gradient.data(), in.data(), with.data(),
                                     factor.data(), out.data());
    expect_near(out.wide(), dx, 10 * rounding<T> + 100 * rounding<A>);
    kernels::scale_sets(launcher{}, of, gradient.data(), with.data(), factor.data(), out.data());
    expect_near(out.wide(), scaled, 10 * rounding<T>);
    kernels::normalize_sets_parameters(few_blocks, of, gradient.data(), in.data(), with.data(),
                                       sums0.data(), sums1.data());
    double const bound = rounding<A> * double(of.samples * of.map + 8) * 20;
    expect_near(sums0.wide(), dgamma, bound);
    expect_near(sums1.wide(), dbeta, bound);
    if (of.channels_together == 1) {
      maths::accumulate_statistics(of, kept.data(), means.data(), variances.data(), 0.125, epsilon);
      kernels::accumulate_statistics(launcher{}, of, with.data(), sums2.data(), sums3.data(), 0.125,
                                     epsilon);
      expect_near(sums2.wide(), means, 20 * rounding<A>);
      expect_near(sums3.wide(), variances, 20 * rounding<A>);
    }
    kernels::normalize_sets_backward(few_blocks, of, gradient.data(), in.data(), with.data(),
                                     factor.data(), gradient.data());
    expect_near(gradient.wide(), dx, 10 * rounding<T> + 100 * rounding<A>);
  }
}

// Two ranks share their sets; the second has fewer samples, or none.
TYPED_TEST(SetNorm, OfSamplesOnTwoRanks) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  constexpr std::size_t channels = 3, map = 7, rows = 4, image = channels * map;
  constexpr double epsilon = 0.1;
  for (std::size_t const there : {std::size_t{3}, std::size_t{0}}) {
    auto const of = [&](std::size_t present) {
      return norm_shape{rows, present, channels, map, rows, 1, (rows + there) * map};
    };
    norm_shape const all{2 * rows, rows + there, channels, map, 2 * rows, 1};
    auto const x = values<T>(2 * rows * image, 1), dy = values<T>(2 * rows * image, 2);
    auto const gamma = values<T>(channels, 3);
    std::vector<double> statistics(2 * channels), dx(x.size());
    maths::set_statistics(all, wide(x).data(), statistics.data(), epsilon);
    maths::normalize_sets_backward(all, wide(dy).data(), wide(x).data(), statistics.data(),
                                   wide(gamma).data(), dx.data());

    std::array<norm_shape, 2> const ranks{of(rows), of(there)};
    std::array<memory<T>, 2> in{memory<T>({x.begin(), x.begin() + rows * image}),
                                memory<T>({x.begin() + rows * image, x.end()})},
        gradient{memory<T>({dy.begin(), dy.begin() + rows * image}),
                 memory<T>({dy.begin() + rows * image, dy.end()})};
    std::array<memory<A>, 2> found{memory<A>(2 * channels), memory<A>(2 * channels)},
        sums{memory<A>(channels), memory<A>(channels)},
        squares{memory<A>(channels), memory<A>(channels)};
    auto const add_up = [](std::array<memory<A>, 2>& of_ranks) {
      for (std::size_t c = 0; c < channels; ++c)
        of_ranks[0].data()[c] = of_ranks[1].data()[c] =
            of_ranks[0].data()[c] + of_ranks[1].data()[c];
    };
    for (std::size_t r : {0u, 1u}) {
      kernels::set_statistics(launcher{}, ranks[r], in[r].data(), found[r].data(), 0.0);
      kernels::sums_of_sets(launcher{}, ranks[r], found[r].data(), sums[r].data());
    }
    add_up(sums);
    for (std::size_t r : {0u, 1u})
      kernels::squares_of_sets(launcher{}, ranks[r], found[r].data(), sums[r].data(),
                               squares[r].data());
    add_up(squares);
    memory<T> factor(gamma);
    std::array<memory<A>, 2> dgamma{memory<A>(channels), memory<A>(channels)},
        dbeta{memory<A>(channels), memory<A>(channels)};
    for (std::size_t r : {0u, 1u}) {
      kernels::whole_statistics(launcher{}, ranks[r], sums[r].data(), squares[r].data(),
                                found[r].data(), epsilon);
      expect_near(found[r].wide(), statistics, 200 * rounding<A>);
      for (auto* const of_rank : {&dgamma[r], &dbeta[r]})
        for (std::size_t c = 0; c < channels; ++c) of_rank->data()[c] = A(0);
      kernels::normalize_sets_parameters(launcher{}, ranks[r], gradient[r].data(), in[r].data(),
                                         found[r].data(), dgamma[r].data(), dbeta[r].data());
    }
    add_up(dgamma);
    add_up(dbeta);
    // Buffers are updated with each rank's part by its number of samples, and with the unbiased
    // variance over all.
    std::vector<double> means(channels), variances(channels);
    maths::accumulate_statistics(all, statistics.data(), means.data(), variances.data(), 0.125,
                                 epsilon);
    std::vector<A> const zeros(channels, A(0));
    std::array<memory<A>, 2> followed{memory<A>(zeros), memory<A>(zeros)},
        spread{memory<A>(zeros), memory<A>(zeros)};
    for (std::size_t r : {0u, 1u})
      kernels::accumulate_statistics(launcher{}, ranks[r], found[r].data(), followed[r].data(),
                                     spread[r].data(), 0.125, epsilon);
    add_up(followed);
    add_up(spread);
    expect_near(followed[0].wide(), means, 200 * rounding<A>);
    expect_near(spread[0].wide(), variances, 2000 * rounding<A>);
    for (std::size_t r : {0u, 1u}) {
      std::vector<double> const right(dx.begin() + std::ptrdiff_t(r * rows * image),
                                      dx.begin() + std::ptrdiff_t((r + 1) * rows * image));
      memory<T> out(rows * image);
      kernels::normalize_whole_backward(launcher{}, ranks[r], gradient[r].data(), in[r].data(),
                                        found[r].data(), dgamma[r].data(), dbeta[r].data(),
                                        factor.data(), out.data());
      expect_near(out.wide(), right, 10 * rounding<T> + 1000 * rounding<A>);
    }
  }
}

TYPED_TEST(SetNorm, OfGivenStatistics) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  std::vector<T> const mean{T(0.5F), T(-2), T(0)}, variance{T(1), T(0.25F), T(0)};
  std::vector<double> expected(6);
  maths::given_statistics(wide(mean).data(), wide(variance).data(), expected.data(), 3, 0.01);
  memory<T> first(mean), second(variance);
  memory<A> out(6);
  kernels::given_statistics(launcher{}, first.data(), second.data(), out.data(), 3, 0.01);
  expect_near(out.wide(), expected, 40 * rounding<A>);
}
