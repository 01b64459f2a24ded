// SPDX-License-Identifier: Apache-2.0
// test: seconds=20
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>

#include "nn/image_layers.hpp"
#include "plait/nn/batch_norm.hpp"
#include "plait/nn/conv2d.hpp"
#include "plait/nn/flatten.hpp"
#include "plait/nn/group_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/pooling.hpp"
#include "testing/near_double.hpp"

namespace image_laws {

using namespace plait::nn;

template <class L, class Element = double>
void expect_laws(std::size_t checked) {
  auto const report = check_in_type<L, Element>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), checked);
}

// Jobs of a form in double: 4 where ranks cut (1 to 4 of them), 2 where all do the same; one more
// without shared buffers, for each form if buffers may be shared.

TEST(ImageLaws, Conv2dInAllForms) {  // whole, column, row, by rows
  expect_laws<conv2d<image<12, 3, 5>, 12, {.stride = 2, .padding = 1}>>(15);
}
TEST(ImageLaws, Conv2dInGroups) {  // whole, groups, by rows
  expect_laws<conv2d<image<12, 2, 3>, 24, {.kernel = 2, .groups = 12, .bias = false}>>(11);
  expect_laws<conv2d<image<12, 3, 5>, 24, {.kernel = 2, .stride = 2, .groups = 12}>>(11);
}
// Windows of 1 x 1, on maps that are large enough to need no patches.
TEST(ImageLaws, Conv2dInOtherTypes) {
  static_assert(conv2d<image<2, 16, 16>, 4, {.kernel = 1}>::room == 0);
  expect_laws<conv2d<image<2, 16, 16>, 4, {.kernel = 1}>, plait::precision<plait::bfloat16, float>>(
      5);
}
// A weight has the requested initial values, or the initial values of He et al. without a request.
static_assert(conv2d<image<3, 4, 4>, 4, {.weight = plait::constant(0)}>::weight::initial.how ==
              plait::initializer::kind::constant);
static_assert(conv2d<image<3, 4, 4>, 4>::weight::initial.nano > 0);

TEST(ImageLaws, MaxPool) {
  expect_laws<max_pool<image<12, 3, 5>, {.kernel = 3, .stride = 2, .padding = 1}>>(11);
}
TEST(ImageLaws, AveragePool) {  // and of sums still to be made
  expect_laws<average_pool<image<12, 3, 5>, {.kernel = 2, .stride = 1, .padding = 1}>>(15);
}
TEST(ImageLaws, GlobalAveragePool) { expect_laws<global_average_pool<image<12, 3, 5>>>(15); }
TEST(ImageLaws, GroupNorm) { expect_laws<group_norm<image<24, 3, 1>, 12>>(14); }
TEST(ImageLaws, BatchNormMixesItsGroupsAlone) {
  static_assert(plait::ext::leaf_of<batch_norm<image<12, 3, 1>, {.group = 3}>>.mixes_samples == 3);
  expect_laws<batch_norm<image<12, 3, 1>, {.group = 3}>>(9);
}
TEST(ImageLaws, BatchNormOfAllSamples) {
  expect_laws<batch_norm<image<12, 3, 1>>>(10);  // and on two data ranks
  expect_laws<batch_norm<image<12, 1, 2>>, plait::precision<plait::bfloat16, float>>(3);
}
TEST(ImageLaws, FlattenMovesNothing) {
  expect_laws<plait::sequential<flatten<image<2, 3, 1>>, plait::nn::linear<6, 2>>>(7);
}

TEST(ImageLaws, SizesFollowFromTheImage) {
  using first = conv2d<image<3, 224, 224>, 64, {.kernel = 7, .stride = 2, .padding = 3}>;
  static_assert(std::is_same_v<first::output, image<64, 112, 112>>);
  using pooled = max_pool<first::output, {.kernel = 3, .stride = 2, .padding = 1}>;
  static_assert(std::is_same_v<pooled::output, image<64, 56, 56>>);
  static_assert(std::is_same_v<global_average_pool<pooled::output>::output, image<64, 1, 1>>);
  static_assert(first::flops_per_row == 2.0 * 64 * 112 * 112 * 3 * 49);
  // With maps of 224 x 224 not all patches exist at once.
  static_assert(first::room == 3 * 49 * 9 * 112);
  // With maps of 7 x 7 there are several samples at once, and their results.
  static_assert(conv2d<image<512, 7, 7>, 512, {.padding = 1}>::room == 512 * 10 * 6 * 49);
}

TEST(ImageLaws, OfEqualElementsTheFirstHasTheGradient) {
  using layer = max_pool<image<1, 2, 4>, {.kernel = 2}>;
  auto const got = image_layers::run_layer<layer>(1, {5, 5, 1, 7, 5, 5, 7, 7}, {}, {3, 4});
  EXPECT_EQ(got.y, (image_layers::numbers{5, 7}));
  EXPECT_EQ(got.dx, (image_layers::numbers{3, 0, 0, 4, 0, 0, 0, 0}));
}

TEST(ImageLaws, AWindowWithoutANumberIsNone) {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  using layer = max_pool<image<1, 2, 4>, {.kernel = 2}>;
  auto const got = image_layers::run_layer<layer>(1, {5, 6, 1, 7, nan, 5, 7, 7}, {}, {3, 4});
  EXPECT_TRUE(std::isnan(got.y[0]));
  EXPECT_EQ(got.y[1], 7);
  EXPECT_EQ(got.dx, (image_layers::numbers{0, 0, 0, 4, 3, 0, 0, 0}));
}

TEST(ImageLaws, ShapesThatDoNotFitAreRefused) {
  using layer = conv2d<image<2, 3, 3>, 4, {.bias = false}>;
  plait::threads{}.run(plait::ext::mesh{}, [](auto& rank) {
    plait::ext::layer_context const context{};
    plait::ext::operations<plait::threads::rank_type> ops(rank, context, 0);
    image_layers::numbers x(2 * 18), w(72), y(2 * 4), room(layer::room);
    auto const convolve = [&](std::size_t columns, std::size_t outputs, std::size_t place) {
      ops.convolve(layer::windows, 1, plait::view<double const>{x.data(), 2, columns},
                   plait::view<double const>{w.data(), 4, 18},
                   plait::view<double>{y.data(), 2, outputs},
                   plait::view<double>{room.data(), 1, place});
    };
    auto const refusal = [&](auto... numbers) -> std::string {
      try {
        convolve(numbers...);
        return "";
      } catch (plait::size_mismatch const& e) {
        return e.what();
      }
    };
    EXPECT_EQ(refusal(18u, 4u, layer::room), "");
    EXPECT_NE(refusal(17u, 4u, layer::room).find("x is 2 x 17"), std::string::npos);
    EXPECT_NE(refusal(9u, 4u, layer::room).find("w must be 4 x 9"), std::string::npos);
    EXPECT_NE(refusal(18u, 5u, layer::room).find("y must be 2 x 4"), std::string::npos);
    EXPECT_NE(refusal(18u, 4u, layer::room - 1).find("room for"), std::string::npos);
  });
}

}  // namespace image_laws
