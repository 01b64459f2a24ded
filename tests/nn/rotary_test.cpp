// SPDX-License-Identifier: Apache-2.0
#include "plait/nn/rotary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"
#include "testing/near_double.hpp"

namespace rotary_testing {

namespace nn = plait::nn;

constexpr nn::rotary_options none{.base = 100};
constexpr nn::rotary_options linear{
    .base = 50, .scaling = nn::rotary_scaling::linear, .factor = plait::fraction(2.5)};
// Some of the 8 angles of a head of 16 are slow, some fast, and some between.
constexpr nn::rotary_options llama3{.base = 1000,
                                    .scaling = nn::rotary_scaling::llama3,
                                    .factor = plait::fraction(8.0),
                                    .low_frequency_factor = plait::fraction(0.5),
                                    .high_frequency_factor = plait::fraction(3.0),
                                    .original_positions = 100};

template <class L, class Element>
void expect_laws() {
  auto const report = check_in_type<L, Element>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GE(report.checked.size(), 4u);
}

TEST(Rotary, KeepsTheLaws) { expect_laws<nn::rotary<48, 4, 12, none>, double>(); }
// Four ranks divide the 24 features and not the heads.
TEST(Rotary, KeepsTheLawsWithSixHeads) { expect_laws<nn::rotary<24, 4, 12, llama3>, double>(); }
TEST(Rotary, KeepsTheLawsInOtherTypes) {
  expect_laws<nn::rotary<48, 4, 12, llama3>, float>();
  expect_laws<nn::rotary<48, 4, 12, linear>, plait::precision<plait::bfloat16, float>>();
}

template <class View>
struct one_slot {
  View view;
  auto operator[](auto) const { return view; }
};

/// The forward of a layer on one block of the positions or of the features, called by hand.
template <class L, class T, plait::placement At>
std::vector<T> forward_on(std::vector<T> const& x, std::size_t positions, std::size_t batch,
                          std::size_t columns, int part, int parts) {
  using plait::view;
  struct body {
    view<T const, At> x;
    view<T, At> y;
    one_slot<view<plait::accumulate_t<T>, plait::typing::is_columns(At) ? plait::replicate : At>>
        scratch;
  };
  std::vector<T> y(x.size());
  std::vector<plait::accumulate_t<T>> room(positions * columns);
  plait::threads{}.run(plait::ext::mesh{}, [&](auto& rank) {
    plait::ext::layer_context context{};
    context.batch = batch;
    context.tensor_rank = part;
    context.tensor_ranks = parts;
    context.sequence = plait::typing::is_rows(At) ? positions * std::size_t(parts) : positions;
    plait::ext::operations<plait::threads::rank_type> ops(rank, context, 0);
    L::forward(ops, body{{x.data(), positions * batch, columns},
                         {y.data(), positions * batch, columns},
                         {{room.data(), 1, room.size()}}});
  });
  return y;
}

/// The angle of a pair at a position, as Hugging Face's transformers write it down: by wavelengths.
double angle_of(nn::rotary_options const& of, std::size_t width, std::size_t pair,
                std::size_t position) {
  double rate = 1.0 / std::pow(double(of.base), double(2 * pair) / double(width));
  double const factor = of.factor.number();
  if (of.scaling == nn::rotary_scaling::linear) rate /= factor;
  if (of.scaling == nn::rotary_scaling::llama3) {
    double const low = of.low_frequency_factor.number(), high = of.high_frequency_factor.number();
    double const context = double(of.original_positions);
    double const wavelength = 2 * std::numbers::pi / rate;
    if (wavelength > context / low) {
      rate /= factor;
    } else if (!(wavelength < context / high)) {
      double const smooth = (context / wavelength - low) / (high - low);
      rate = (1 - smooth) * rate / factor + smooth * rate;
    }
  }
  return double(position) * rate;
}

template <nn::rotary_options Options>
void expect_formula() {
  constexpr std::size_t positions = 6, batch = 2, width = 32, head = 16, half = 8;
  using layer = nn::rotary<width, head, positions, Options>;
  std::vector<double> x(positions * batch * width);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(double(7 * i + 1));
  std::vector<double> right(x.size());
  for (std::size_t p = 0; p < positions; ++p)
    for (std::size_t s = 0; s < batch; ++s)
      for (std::size_t h = 0; h < width / head; ++h)
        for (std::size_t k = 0; k < half; ++k) {
          double const angle = angle_of(Options, head, k, p);
          std::size_t const first = (p * batch + s) * width + h * head + k, second = first + half;
          right[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
          right[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
        }
  auto const expect_near = [](auto const& got, std::vector<double> const& wanted, double bound) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], bound) << i;
  };
  expect_near(forward_on<layer, double, plait::invariant>(x, positions, batch, width, 0, 1), right,
              1e-15);
  // The second half of the positions, and the second head.
  auto const half_of = [](auto const& all) {
    return std::vector<double>(all.begin() + std::ptrdiff_t(all.size() / 2), all.end());
  };
  expect_near(
      forward_on<layer, double, plait::shard<0>>(half_of(x), positions / 2, batch, width, 1, 2),
      half_of(right), 1e-15);
  auto const head_of = [&](std::vector<double> const& all) {
    std::vector<double> out;
    for (std::size_t r = 0; r < positions * batch; ++r)
      for (std::size_t c = head; c < width; ++c) out.push_back(all[r * width + c]);
    return out;
  };
  expect_near(forward_on<layer, double, plait::shard<1>>(head_of(x), positions, batch, head, 1, 2),
              head_of(right), 1e-15);
}

TEST(Rotary, IsItsFormula) { expect_formula<none>(); }
TEST(Rotary, IsItsFormulaSlowedDown) { expect_formula<linear>(); }
TEST(Rotary, IsItsFormulaSlowedDownInPart) {
  // Slow, between and fast angles are there.
  EXPECT_NEAR(angle_of(llama3, 16, 7, 1) * 8, angle_of({.base = 1000}, 16, 7, 1), 1e-15);
  EXPECT_NEAR(angle_of(llama3, 16, 0, 1), 1.0, 1e-15);
  double const middle = angle_of(llama3, 16, 3, 1), whole = angle_of({.base = 1000}, 16, 3, 1);
  EXPECT_TRUE(middle < 0.99 * whole && middle > whole / 7.9) << middle << " of " << whole;
  expect_formula<llama3>();
}

// A bfloat16 cannot hold a position above 256, nor a float one above 2^24: angles need other types.
TEST(Rotary, AnglesOfFarPositionsAreNotRoundedBefore) {
  constexpr std::size_t positions = 301, head = 4;
  using layer = nn::rotary<head, head, positions, {.base = 10}>;
  std::vector<plait::bfloat16> x(positions * head);
  for (auto& number : x) number = plait::bfloat16(1.0f);
  auto const y = forward_on<layer, plait::bfloat16, plait::invariant>(x, positions, 1, head, 0, 1);
  for (std::size_t p = 250; p < positions; ++p) {
    double const right = std::cos(double(p)) - std::sin(double(p));
    EXPECT_NEAR(double(float(y[p * head])), right, 2.0 / 256) << p;
  }
}

}  // namespace rotary_testing
