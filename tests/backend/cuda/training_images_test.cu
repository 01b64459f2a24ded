// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=10
//
// Trains a small residual net of images with batch_norm, and compares losses and running statistics
// with the processor's.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/formula.hpp"
#include "plait/plait.hpp"

namespace {

namespace nn = plait::nn;
using plait::named;
using plait::residual;
using plait::sequential;

constexpr std::size_t classes = 3, batch_size = 8, samples = 20;
constexpr double tolerance = 1e-9;
using picture = nn::image<2, 6, 5>;
// Covers several samples at a time, several groups of channels, and 1 x 1 kernels with a stride.
using first = nn::conv2d<picture, 4, nn::conv_options{.padding = 1}>;
using second = nn::conv2d<first::output, 4, nn::conv_options{.padding = 1, .groups = 2, .bias = false}>;
using third = nn::conv2d<first::output, 6, nn::conv_options{.kernel = 1, .stride = 2}>;
// Normalises with statistics of groups, or of all samples.
template <class Image, std::size_t Group>
using norm = nn::batch_norm<Image, nn::batch_norm_options{.group = Group}>;
using pooled = nn::max_pool<third::output, nn::pool_options{.kernel = 3, .stride = 2, .padding = 1}>;
using net = sequential<first, named<"bn", norm<first::output, 4>>, nn::relu<first::output::size>,
                       residual<sequential<second, nn::group_norm<second::output, 2>>>,
                       named<"bn2", norm<second::output, 0>>, third, pooled,
                       nn::global_average_pool<pooled::output>, nn::linear<6, classes>>;

/// A layer with formulas of images: a convolution across maps and a convolution of each map, both
/// kinds of pooling, and maps times functions of their means.
namespace words = plait::formula;
// nvcc names equal extents of a file by the first name that it meets, which may be a name within
// conv2d. No weight of `net` has these extents.
struct separable {
  static constexpr plait::parameter<"first", plait::extents<6, 18>, plait::normal(0.2)> first{};
  static constexpr plait::parameter<"bias", plait::extents<6>> bias{};
  static constexpr plait::parameter<"second", plait::extents<6, 9>, plait::normal(0.2)> second{};
  using input = picture;
  using output = nn::image<12, 2, 2>;
  static constexpr auto formula(auto x) {
    auto const y = tanh(convolve<words::convolution_options{.padding = 1}>(x, first, bias));
    auto const z =
        convolve<words::convolution_options{.stride = 2, .padding = 1, .groups = 6}>(y, second);
    auto const most = max_pool<words::pool_options{.kernel = 3, .stride = 2, .padding = 1}>(y);
    return average_pool<words::pool_options{.stride = 1}>(concat(most, z));
  }
};
struct excited {
  static constexpr plait::parameter<"down", plait::extents<12, 4>, plait::normal(0.2)> down{};
  static constexpr plait::parameter<"up", plait::extents<4, 12>, plait::normal(0.2)> up{};
  static constexpr plait::parameter<"gain", plait::extents<12>, plait::constant(1.0)> gain{};
  using input = separable::output;
  using output = input;
  static constexpr auto formula(auto x) {
    auto const maps = words::heads<12>(x);
    auto const hidden = relu(matmul(side_by_side(mean(maps)), down));
    return maps * words::heads<12>(sigmoid(matmul(hidden, up))) * words::heads<12>(gain);
  }
};
using net_of_formulas =
    sequential<named<"first", separable>, named<"second", excited>, nn::linear<48, classes>>;

template <class Policy, class Net = net>
struct job : plait::parallel<plait::objective<Net, nn::cross_entropy<classes>>, Policy, double> {};

struct outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> buffers;
};

template <class Job, class Backend>
outcome train(Backend const& backend) {
  outcome out;
  auto const data = plait::in_memory<double>::random_classes(samples, picture::size, classes, 3);
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::sgd{.learning_rate = 0.05, .momentum = 0.9},
                                       {.seed = 5, .replay = cuda_testing::records(backend)});
    auto batches =
        plait::batches(data, plait::global_batch<batch_size>{}, rank,
                                {.last = plait::last_batch::keep, .epochs = 0});
    for (std::uint64_t step = 0; step < 4; ++step) {  // the third step has 4 samples
      auto const report = trainer.step(batches.at(step));
      if (rank.is_root()) out.losses.push_back(report.loss);
    }
    double const evaluated = trainer.evaluate(batches.at(0));
    if (rank.is_root()) out.losses.push_back(evaluated);
    trainer.export_parameters([&](std::string const& name, auto const& info, auto values) {
      if (info.is_buffer()) out.buffers[name].assign(values.begin(), values.end());
    });
  });
  return out;
}

template <class Policy, class Net = net>
void expect_as_host(plait::cuda const& backend = {}) {
  auto const expected = train<job<plait::serial, Net>>(plait::threads{});
  auto const got = train<job<Policy, Net>>(backend);
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], tolerance) << i;
  ASSERT_EQ(got.buffers.size(), expected.buffers.size());
  for (auto const& [name, values] : expected.buffers)
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(got.buffers.at(name)[i], values[i],
                  tolerance)
          << name << " " << i;
}

TEST(CudaTrainingOfImages, InDouble) { expect_as_host<plait::serial>(); }
TEST(CudaTrainingOfImages, Replayed) {
#if !defined(__CUDACC__)
  int const before = pretended::graph_launches;
#endif
  expect_as_host<plait::serial>({.options = {.graphs = true}});
#if !defined(__CUDACC__)
  EXPECT_EQ(pretended::graph_launches - before, 2);  // the second and the last step are replayed
#endif
}
TEST(CudaTrainingOfImages, OnTwoTensorRanks) {
  expect_as_host<plait::tensor_parallel<2>>({.share_one_gpu = true});
}
TEST(CudaTrainingOfImages, LayersThatAreFormulas) {
  expect_as_host<plait::serial, net_of_formulas>();
  expect_as_host<plait::tensor_parallel<2>, net_of_formulas>({.share_one_gpu = true});
}
TEST(CudaTrainingOfImages, OnTwoDataRanks) {
  expect_as_host<plait::data_parallel<2>>({.share_one_gpu = true});
}
}  // namespace
