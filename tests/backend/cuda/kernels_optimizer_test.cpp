// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/cuda/kernels/optimizer.hpp"
#include "plait/backend/cuda/kernels/rounded_adamw.hpp"
#include "plait/backend/host/maths/optimizer.hpp"
#include "plait/backend/host/maths/rounded_adamw.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;
using plait::ext::update_range;

namespace {

using masters = testing::Types<double, float>;

template <class P>
struct Optimizer : testing::Test {};
TYPED_TEST_SUITE(Optimizer, masters);

// Arenas with odd borders, with an empty range, and with more elements than a block.
std::vector<std::vector<update_range>> const arenas = {{{0, 1, 1, 1}},
                                                       {{0, 7, 1, 0}, {7, 6, 1, 1}},
                                                       {{0, 5, 1, 1},
                                                        {5, 1, 0.5f, 0},
                                                        {6, 0, 1, 1},
                                                        {6, 3, 0.1f, 0.5f},
                                                        {9, 4100, 1, 0},
                                                        {4109, 5005, 0.25f, 2},
                                                        {9114, 2, 0, 1}}};

std::size_t count_of(std::vector<update_range> const& ranges) {
  return ranges.back().offset + ranges.back().count;
}

}  // namespace

TYPED_TEST(Optimizer, AdamwOfAWholeArena) {
  using P = TypeParam;
  plait::ext::adamw_constants const constants{0.8, 0.95, 1e-6, 0.3};
  plait::ext::adamw_numbers const numbers{0.05, 0.36, 0.09};
  double const gradient_scale = 0.5;
  for (auto const& ranges : arenas)
    for (std::size_t const shift : shifts) {
      std::size_t const n = count_of(ranges);
      auto const parameter = values<P>(n, 1), gradient = values<P>(n, 2), m = values<P>(n, 3);
      auto v = values<P>(n, 4);
      for (P& value : v) value = value * value;
      auto p1 = wide(parameter), m1 = wide(m), v1 = wide(v);
      auto const g1 = wide(gradient);
      for (auto const& range : ranges) {
        std::size_t const at = range.offset;
        maths::adamw_update(
            p1.data() + at, g1.data() + at, m1.data() + at, v1.data() + at, range.count,
            maths::adamw_step{numbers.learning_rate * range.rate, constants.beta1, constants.beta2,
                              constants.epsilon, constants.weight_decay * range.decay,
                              numbers.bias_correction1, numbers.bias_correction2, gradient_scale});
      }
      memory<P> p(parameter, shift), g(gradient), first(m), second(v);
      memory<plait::bfloat16> copy(n);
      memory<update_range> of(ranges);
      auto now = one(numbers);
      auto scale = one(gradient_scale);
      kernels::adamw(launcher{}, p.data(), g.data(), first.data(), second.data(), n, of.data(),
                     static_cast<int>(ranges.size()), constants, now.data(), scale.data(),
                     copy.data());
      expect_near(p.wide(), p1, 8 * rounding<P>);
      expect_near(first.wide(), m1, 4 * rounding<P>);
      expect_near(second.wide(), v1, 4 * rounding<P>);
      std::vector<plait::bfloat16> rounded;
      for (P const value : p.get()) rounded.push_back(static_cast<plait::bfloat16>(value));
      EXPECT_EQ(copy.wide(), wide(rounded));
      plait::bfloat16* const no_copy = nullptr;
      memory<P> again(parameter, shift), first_again(m), second_again(v);
      kernels::adamw(launcher{}, again.data(), g.data(), first_again.data(), second_again.data(), n,
                     of.data(), static_cast<int>(ranges.size()), constants, now.data(),
                     scale.data(), no_copy);
      EXPECT_EQ(again.get(), p.get());
    }
}

// States in bfloat16, of parameters that are whole, cut by columns or by rows, with padding between
// them. The host and the kernel draw the same random words, so nearly all states have equal bits:
// the last bits of the states before they are rounded may differ.
TYPED_TEST(Optimizer, AdamwWithRoundedStates) {
  using P = TypeParam;
  using plait::ext::element_origin;
  plait::ext::adamw_constants const constants{0.8, 0.95, 1e-6, 0.3};
  plait::ext::adamw_numbers const numbers{0.05, 0.36, 0.09};
  double const gradient_scale = 0.5;
  std::vector<element_origin> const origins{
      {.offset = 0, .count = 1, .piece = 40, .stride = 40, .number = 1},
      {.offset = 2, .count = 5, .first = 31, .begin = 24, .piece = 12, .stride = 36, .number = 0},
      {.offset = 8, .count = 4000, .first = 4, .begin = 8, .piece = 8, .stride = 24, .number = 7},
      {.offset = 4009, .count = 5000, .begin = 5000, .piece = 5000, .stride = 10000, .number = 2},
      {.offset = 9010, .count = 106, .begin = 3, .piece = 3, .stride = 9, .number = 3}};
  for (auto const& ranges : arenas)
    for (std::size_t const shift : shifts) {
      std::size_t const n = count_of(ranges), stride = (n + 15) / 8 * 8;
      std::vector<element_origin> inside;
      for (auto each : origins)
        if (each.offset < n) {
          each.count = std::min(each.count, n - each.offset);
          inside.push_back(each);
        }
      auto const parameter = values<P>(n, 1), gradient = values<P>(n, 2);
      std::vector<plait::bfloat16> states;
      for (P const value : values<P>(2 * stride, 3))
        states.push_back(static_cast<plait::bfloat16>(static_cast<float>(value * value)));
      auto p1 = parameter;
      auto s1 = states;
      std::uint32_t const step = 11;
      plait::ext::rounded_arena<P, P, plait::bfloat16> const here{
          {p1.data(), gradient.data(), s1.data(), nullptr, n, stride, ranges.data(),
           static_cast<int>(ranges.size()), &gradient_scale},
          inside.data(),
          static_cast<int>(inside.size()),
          5,
          &step};
      for (auto const& range : ranges)
        maths::adamw_update(here, range,
                            {numbers.learning_rate * range.rate, constants.beta1, constants.beta2,
                             constants.epsilon, constants.weight_decay * range.decay,
                             numbers.bias_correction1, numbers.bias_correction2, gradient_scale});
      memory<P> p(parameter, shift), g(gradient);
      memory<plait::bfloat16> s(states), copy(n);
      memory<update_range> of(ranges);
      memory<element_origin> from(inside);
      auto now = one(numbers);
      auto scale = one(gradient_scale);
      auto step_number = one(step);
      auto there = here;
      there.parameters = p.data(), there.gradients = g.data(), there.states = s.data();
      there.copies = copy.data(), there.ranges = of.data(), there.gradient_scale = scale.data();
      there.origins = from.data(), there.step = step_number.data();
      kernels::rounded_adamw(launcher{}, there, constants, now.data());
      expect_near(p.wide(), wide(p1), 8 * rounding<P>);
      auto const got = s.wide(), expected = wide(s1);
      std::size_t differences = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        differences += got[i] != expected[i];
        ASSERT_NEAR(got[i], expected[i], std::abs(expected[i]) / 64) << i;
      }
      EXPECT_LE(differences, got.size() / 1000);
      EXPECT_NE(got, wide(states));
      std::vector<plait::bfloat16> rounded;
      for (P const value : p.get()) rounded.push_back(static_cast<plait::bfloat16>(value));
      EXPECT_EQ(copy.wide(), wide(rounded));
    }
}

TYPED_TEST(Optimizer, SgdWithAndWithoutMomentum) {
  using P = TypeParam;
  plait::ext::sgd_numbers const numbers{0.05};
  double const gradient_scale = 0.5;
  for (double const momentum : {0.0, 0.75})
    for (auto const& ranges : arenas) {
      plait::ext::sgd_constants const constants{momentum, 0.3};
      std::size_t const n = count_of(ranges);
      auto const parameter = values<P>(n, 1), gradient = values<P>(n, 2), buffer = values<P>(n, 3);
      auto p1 = wide(parameter), b1 = wide(buffer);
      auto const g1 = wide(gradient);
      for (auto const& range : ranges)
        maths::sgd_update(p1.data() + range.offset, g1.data() + range.offset,
                          b1.data() + range.offset, range.count,
                          {numbers.learning_rate * range.rate, momentum,
                           constants.weight_decay * range.decay, gradient_scale});
      memory<P> p(parameter), g(gradient, 1), b(buffer);
      memory<plait::bfloat16> copy(n);
      memory<update_range> of(ranges);
      auto now = one(numbers);
      auto scale = one(gradient_scale);
      kernels::sgd(launcher{}, p.data(), g.data(), momentum == 0 ? nullptr : b.data(), n, of.data(),
                   static_cast<int>(ranges.size()), constants, now.data(), scale.data(),
                   copy.data());
      expect_near(p.wide(), p1, 4 * rounding<P>);
      expect_near(b.wide(), b1, 4 * rounding<P>);
      expect_near(copy.wide(), p1, 2 * rounding<plait::bfloat16>);
    }
}

// A gradient that is not finite changes no weight, if the check is on.
TYPED_TEST(Optimizer, AStepThatIsNotFiniteIsNotTaken) {
  using P = TypeParam;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (auto const& [loss, norm] : {std::pair{infinity, 0.0}, std::pair{2.0, -infinity},
                                   std::pair{std::nan(""), 1.0}, std::pair{2.0, 1.0}}) {
    auto loss_in_memory = one(loss), norm_in_memory = one(norm), scale = one(0.5);
    kernels::check_finite(launcher{}, loss_in_memory.data(), norm_in_memory.data(), scale.data());
    bool const is_taken = std::isfinite(loss) && std::isfinite(norm);
    EXPECT_EQ(std::isnan(scale.value()), !is_taken);
    if (is_taken) {
      EXPECT_EQ(scale.value(), 0.5);
    }
    auto const& ranges = arenas[1];
    memory<update_range> of(ranges);
    std::size_t const n = count_of(ranges);
    auto const start = values<P>(n, 1);
    auto const run = [&](auto update) {
      memory<P> p(start), first(start), second(start), g(start);
      memory<plait::bfloat16> copy(n);
      auto const before = copy.wide();
      update(p.data(), g.data(), first.data(), second.data(), copy.data());
      EXPECT_EQ(p.get() == start, !is_taken);
      EXPECT_EQ(first.get() == start && second.get() == start && copy.wide() == before, !is_taken);
    };
    run([&](P* p, P* g, P* first, P* second, plait::bfloat16* copy) {
      auto numbers = one(plait::ext::adamw_numbers{0.05, 0.36, 0.09});
      kernels::adamw(launcher{}, p, g, first, second, n, of.data(), static_cast<int>(ranges.size()),
                     {}, numbers.data(), scale.data(), copy);
    });
    run([&](P* p, P* g, P* first, P*, plait::bfloat16* copy) {
      auto numbers = one(plait::ext::sgd_numbers{0.05});
      kernels::sgd(launcher{}, p, g, first, n, of.data(), static_cast<int>(ranges.size()),
                   {0.9, 0.1}, numbers.data(), scale.data(), copy);
    });
  }
}

TYPED_TEST(Optimizer, AveragesFollowAndAreSwapped) {
  using P = TypeParam;
  for (std::size_t const n : {std::size_t{1}, std::size_t{7}, std::size_t{4100}})
    for (std::size_t const shift : shifts) {
      auto const x = values<P>(n, 1), before = values<P>(n, 2);
      auto expected = wide(before);
      maths::average(wide(x).data(), expected.data(), n, 0.9);
      memory<P> from(x, shift), average(before);
      auto scale = one(0.5), no_number = one(std::nan(""));
      kernels::average(launcher{}, from.data(), average.data(), n, 0.9, scale.data());
      expect_near(average.wide(), expected, 4 * rounding<P>);
      auto const once = average.get();
      kernels::average(launcher{}, from.data(), average.data(), n, 0.9, no_number.data());
      EXPECT_EQ(average.get(), once);
      kernels::swap(launcher{}, from.data(), average.data(), n);
      EXPECT_EQ(from.get(), once);
      EXPECT_EQ(average.get(), x);
      kernels::add_and_clear(launcher{}, average.data(), from.data(), n);
      auto sum = wide(x);
      for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(once[i]);
      expect_near(average.wide(), sum, rounding<P>);
      EXPECT_EQ(from.wide(), std::vector<double>(n, 0.0));
    }
}

TYPED_TEST(Optimizer, SumsOfSquares) {
  using T = TypeParam;
  std::vector<plait::ext::squares_range> const ranges = {
      {3, 10, 2}, {13, 0, 0}, {13, 1, 4}, {20, 9000, 1}, {10000, 530001, 5}};
  auto const x = values<T>(540001, 1);
  for (std::size_t const shift : shifts) {
    memory<T> in(x, shift);
    memory<plait::ext::squares_range> of(ranges);
    memory<double> sums(std::vector<double>(6, -1)),
        workspace(kernels::squares_workspace(ranges.size()));
    kernels::sum_of_squares(launcher{}, in.data(), of.data(), ranges.size(), workspace.data(),
                            sums.data());
    auto const out = sums.get();
    for (auto const& range : ranges) {
      double const expected = maths::sum_of_squares(x.data() + range.offset, range.count);
      EXPECT_NEAR(out[range.index], expected, 1e-13 * static_cast<double>(range.count));
    }
    EXPECT_EQ(out[3], -1);  // this element belongs to no range
  }
}

TEST(ClipFactor, OfTheNormOfTheList) {
  memory<double> squares(std::vector<double>{9, 0, 7, 0.25});
  auto norm = one(0.0), factor = one(0.0);
  auto const clip = [&](double limit) {
    kernels::clip_factor(launcher{}, squares.data(), 4, limit, norm.data(), factor.data());
    return factor.value();
  };
  EXPECT_DOUBLE_EQ(clip(2.0), 2.0 / (std::sqrt(16.25) + 1e-6));
  EXPECT_DOUBLE_EQ(norm.value(), std::sqrt(16.25));
  EXPECT_EQ(clip(5.0), 1);
  EXPECT_EQ(clip(0.0), 1);
  EXPECT_EQ(clip(std::numeric_limits<double>::infinity()), 1);
  for (double const broken : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    memory<double> some(std::vector<double>{9, broken});
    for (double const limit : {2.0, 0.0}) {
      kernels::clip_factor(launcher{}, some.data(), 2, limit, norm.data(), factor.data());
      EXPECT_FALSE(std::isfinite(norm.value()));
      EXPECT_TRUE(std::isnan(factor.value()));
    }
  }
}

TEST(Divide, ByZeroIsZero) {
  auto out = one(7.0), count = one(8.0);
  auto none = one(std::int64_t{0});
  kernels::divide(launcher{}, 3.0, count.data(), out.data());
  EXPECT_EQ(out.value(), 0.375);
  kernels::divide(launcher{}, 3.0, none.data(), out.data());
  EXPECT_EQ(out.value(), 0);
}
