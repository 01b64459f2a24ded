// SPDX-License-Identifier: Apache-2.0
//
// Layers on images against PyTorch, whose numbers tests/oracle/images_reference.py prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "nn/image_layers.hpp"
#include "oracle/stored_numbers.hpp"
#include "plait/nn/batch_norm.hpp"
#include "plait/nn/conv2d.hpp"
#include "plait/nn/group_norm.hpp"
#include "plait/nn/pooling.hpp"

namespace image_oracle {

using image_layers::by_formula;
using image_layers::numbers;
using namespace plait::nn;

constexpr std::size_t samples = 3;

numbers stored(std::string const& name) {
  return plait_test::stored_numbers("images_numbers.txt", name);
}

void expect_numbers(std::string const& name, numbers const& got) {
  numbers const expected = stored(name);
  double sum = 0, size = 1;
  for (double const value : got) sum += value, size = std::max(size, std::abs(value));
  ASSERT_FALSE(expected.empty());
  EXPECT_NEAR(sum, expected[0], 1e-11 * size * double(got.size())) << name << ": the sum";
  std::size_t const step = std::max<std::size_t>(1, got.size() / 12);
  ASSERT_EQ(expected.size() - 1, (got.size() + step - 1) / step) << name;
  for (std::size_t i = 1; i < expected.size(); ++i)
    EXPECT_NEAR(got[(i - 1) * step], expected[i], 1e-11 * size) << name << " element " << i - 1;
}

template <class L>
void expect_as_pytorch(std::string const& name, std::vector<std::string> const& parameters = {}) {
  constexpr auto leaf = plait::ext::leaf_of<L>;
  std::vector<numbers> values;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    values.push_back(by_formula(leaf.parameters[static_cast<int>(i)].count(), int(i) + 2));
  auto const got =
      image_layers::run_layer<L>(samples, by_formula(samples * L::input::info.width, 1), values,
                                 by_formula(samples * L::output::info.width, 9));
  expect_numbers(name + ".y", got.y);
  expect_numbers(name + ".dx", got.dx);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expect_numbers(name + "." + parameters[i], got.gradients[i]);
}

TEST(ImageLayers, ConvolutionsAreThoseOfPyTorch) {
  std::vector<std::string> const both{"weight", "bias"};
  expect_as_pytorch<conv2d<image<4, 5, 7>, 6, {.padding = 1}>>("conv_3x3", both);
  expect_as_pytorch<conv2d<image<3, 6, 7>, 5, {.stride = 2, .padding = 2, .bias = false}>>(
      "conv_stride", {"weight"});
  expect_as_pytorch<conv2d<image<6, 7, 5>, 4, {.stride = 2, .groups = 2}>>("conv_groups", both);
  expect_as_pytorch<conv2d<image<5, 4, 3>, 3, {.kernel = 1}>>("conv_1x1", both);
  using pointwise = conv2d<image<2, 17, 16>, 3, {.kernel = 1}>;  // without patches
  static_assert(pointwise::room == 0);
  expect_as_pytorch<pointwise>("conv_1x1_large", both);
  using banded = conv2d<image<2, 37, 33>, 3, {.kernel = 5, .padding = 2}>;  // in pieces of a map
  static_assert(banded::room == 2 * 25 * 19 * 33);
  expect_as_pytorch<banded>("conv_large", both);
  using pointwise_groups = conv2d<image<4, 17, 16>, 6, {.kernel = 1, .groups = 2}>;
  static_assert(pointwise_groups::room == 0);
  expect_as_pytorch<pointwise_groups>("conv_1x1_groups", both);
  using banded_groups = conv2d<image<4, 37, 33>, 6, {.kernel = 5, .padding = 2, .groups = 2}>;
  static_assert(banded_groups::room == 4 * 25 * 19 * 33);
  expect_as_pytorch<banded_groups>("conv_large_groups", both);
}

TEST(ImageLayers, PoolingIsThatOfPyTorch) {
  expect_as_pytorch<max_pool<image<2, 7, 6>, {.kernel = 3, .stride = 2, .padding = 1}>>("max_pool");
  expect_as_pytorch<max_pool<image<3, 5, 4>>>("max_pool_2");
  expect_as_pytorch<average_pool<image<2, 7, 6>, {.kernel = 3, .stride = 2, .padding = 1}>>(
      "average_pool");
  expect_as_pytorch<global_average_pool<image<4, 3, 5>>>("average_pool_global");
}

TEST(ImageLayers, GroupNormIsThatOfPyTorch) {
  expect_as_pytorch<group_norm<image<6, 3, 4>, 2>>("group_norm", {"weight", "bias"});
}

template <std::size_t Group>
void expect_batch_norm() {
  using layer = batch_norm<image<4, 3, 2>, {.group = Group}>;
  std::vector<std::string> const names{"weight", "bias", "running_mean", "running_var"};
  std::vector<numbers> values{by_formula(4, 2), by_formula(4, 3), numbers(4, 0), numbers(4, 1)};
  auto const x = by_formula(samples * 24, 1), dy = by_formula(samples * 24, 9);
  auto const got = image_layers::run_layer<layer>(samples, x, values, dy);
  expect_numbers("batch_norm.y", got.y);
  expect_numbers("batch_norm.dx", got.dx);
  for (std::size_t i : {0u, 1u}) expect_numbers("batch_norm." + names[i], got.gradients[i]);
  for (std::size_t i : {2u, 3u}) {  // update by the step's statistics; PyTorch's momentum is 0.1
    auto after = values[i];
    for (std::size_t c = 0; c < 4; ++c) after[c] = 0.9 * after[c] + 0.1 * got.gradients[i][c];
    values[i] = after;
    expect_numbers("batch_norm." + names[i], after);
  }
  auto const evaluated = image_layers::run_layer<layer>(samples, x, values, dy,
                                                        {.training = false, .reads_buffers = true});
  expect_numbers("batch_norm.evaluated", evaluated.y);
  expect_numbers("batch_norm.evaluated_dx", evaluated.dx);
}
TEST(ImageLayers, BatchNormIsThatOfPyTorch) {  // and its buffers
  expect_batch_norm<samples>();
  expect_batch_norm<0>();
}

}  // namespace image_oracle
