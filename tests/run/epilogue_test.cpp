// SPDX-License-Identifier: Apache-2.0
// Element-wise functions and sums that are fused with the product before them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"

namespace {

namespace nn = plait::nn;
using plait::residual;
using plait::sequential;
using plait::planning::direction;

struct cube {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {
    return x * x * x;
  }
};
struct cube_derivative {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x, T dy) const {
    return 3 * x * x * dy;
  }
};
template <std::size_t Width>
struct cubic : nn::elementwise<Width, cube, cube_derivative, plait::input_slot> {};

std::atomic<int> mapped_outputs = 0, mapped_gradients = 0, summed_outputs = 0;

/// A linear layer that accepts epilogues if Takes is true, and counts the epilogues that it gets.
template <std::size_t In, std::size_t Out, bool Takes>
struct dense : nn::linear<In, Out> {
  using base = nn::linear<In, Out>;
  static constexpr bool takes_epilogue = Takes;

  static void forward(auto& ops, auto const& l) {
    mapped_outputs += requires { l.y.mapped; };
    summed_outputs += requires { l.y.sum; };
    base::forward(ops, l);
  }
  static void backward_input(auto& ops, auto const& l) {
    mapped_gradients += requires { l.dx.mapped; };
    base::backward_input(ops, l);
  }
};

std::atomic<int> summed_gradients = 0;

/// A layer norm that accepts sums if Takes is true, and counts the sums that it gets.
template <std::size_t Width, bool Takes>
struct norm : nn::layer_norm<Width> {
  static constexpr bool takes_sum = Takes;

  static void backward(auto& ops, auto const& l) {
    summed_gradients += requires { l.dx.sum; };
    nn::layer_norm<Width>::backward(ops, l);
  }
};

template <bool Takes>
using net = sequential<
    residual<sequential<nn::layer_norm<8>, dense<8, 16, Takes>, nn::gelu<16>, dense<16, 8, Takes>>>,
    residual<sequential<dense<8, 16, Takes>, nn::relu<16>, dense<16, 8, Takes>, cubic<8>,
                        dense<8, 8, Takes>>>,
    residual<sequential<norm<8, Takes>, dense<8, 8, Takes>>>, dense<8, 4, Takes>>;
template <bool Takes, class Policy>
struct job : plait::parallel<plait::objective<net<Takes>, nn::cross_entropy<4>>, Policy> {};

template <class Job, class Backend>
std::vector<double> train(Backend const& backend) {
  auto const data = plait::in_memory<float>::random_classes(64, 8, 4);
  std::vector<double> losses;
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(data, plait::global_batch<16>{}, rank)) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

template <class Policy>
void expect_same() {
  auto const expected = train<job<false, Policy>>(plait::threads{});
  EXPECT_GT(expected.front(), expected.back());
  EXPECT_EQ(mapped_outputs, 0);
  EXPECT_EQ(mapped_gradients, 0);
  EXPECT_EQ(summed_gradients, 0);
  EXPECT_EQ(summed_outputs, 0);
  EXPECT_EQ((train<job<true, Policy>>(plait::threads{})), expected);
  EXPECT_GT(mapped_outputs.exchange(0), 0);
  EXPECT_GT(mapped_gradients.exchange(0), 0);
  EXPECT_GT(summed_gradients.exchange(0), 0);
  // Over a tensor axis the ends of these residuals are moved before the sum.
  using planned = plait::ext::plan<net<true>, Policy>;
  EXPECT_EQ(summed_outputs.exchange(0) > 0, planned::tensor_ranks == 1);
  EXPECT_EQ((train<job<true, Policy>>(plait::simulated{.seed = 3})), expected);
  mapped_outputs = mapped_gradients = summed_gradients = summed_outputs = 0;
}

TEST(Epilogue, ChangesNoBit) {
  expect_same<plait::serial>();
  expect_same<plait::tensor_parallel<2>>();
  expect_same<plait::tensor_parallel<2, plait::sequence::unsharded>>();
  expect_same<plait::hybrid<plait::data_parallel<2>, plait::pipeline<2>>>();
}

// Steps: branch, layer_norm, linear, gelu, linear, add.
using serial = plait::ext::plan<sequential<residual<sequential<nn::layer_norm<8>, nn::linear<8, 16>,
                                                               nn::gelu<16>, nn::linear<16, 8>>>>,
                                plait::serial>;
static_assert(serial::is_epilogue(3, direction::forward));
static_assert(serial::is_epilogue(3, direction::backward));
static_assert(!serial::is_epilogue(2, direction::forward));
static_assert(!serial::is_epilogue(4, direction::backward));
// The sum that ends a residual is stored where the product before it is written.
static_assert(serial::is_epilogue(5, direction::forward));
static_assert(!serial::is_epilogue(5, direction::backward));
static_assert(!serial::is_epilogue(4, direction::forward));

// An element-wise layer after a layer that takes no epilogue.
using behind_norm = plait::ext::plan<
    sequential<residual<sequential<nn::layer_norm<8>, nn::gelu<8>, nn::layer_norm<8>>>>,
    plait::serial>;
static_assert(!behind_norm::is_epilogue(2, direction::forward));
static_assert(!behind_norm::is_epilogue(2, direction::backward));

// A layer that keeps its output needs separate memory for it.
struct kept_output : nn::linear<8, 8> {
  using saved = plait::saved<plait::input_slot, plait::output_slot>;
};
using keeps = plait::ext::plan<sequential<residual<kept_output>>, plait::serial>;
static_assert(keeps::code.nodes[2].kind == plait::planning::program_node_kind::add);
static_assert(!keeps::is_epilogue(2, direction::forward));

// A residual begins before a layer norm: the gradient of the skip path is added there, if a layer
// reads it.
using sums = plait::ext::plan<
    sequential<nn::linear<8, 8>, residual<sequential<nn::layer_norm<8>, nn::linear<8, 8>>>>,
    plait::serial>;
static_assert(sums::is_epilogue(1, direction::backward));
static_assert(!sums::is_epilogue(1, direction::forward));
static_assert(!serial::is_epilogue(0, direction::backward));
using frozen_sums = plait::ext::plan<
    sequential<nn::linear<8, 8>,
               residual<sequential<plait::frozen<nn::layer_norm<8>>, nn::linear<8, 8>>>>,
    plait::serial>;
static_assert(!frozen_sums::is_epilogue(1, direction::backward));

// A partial result is moved before a function that is not linear reads it: the steps are branch,
// move?, linear (row), move, gelu. No step there is an epilogue in the forward.
using across_move = plait::ext::plan<
    sequential<residual<
        sequential<nn::linear<8, 16>, plait::use_form<"row", nn::linear<16, 8>>, nn::gelu<8>>>>,
    plait::tensor_parallel<2>>;
static_assert([] {
  for (int step = 0; step < across_move::code.nodes.size(); ++step)
    if (across_move::is_epilogue(step, direction::forward)) return false;
  return true;
}());

// The gradient of the model's input is not computed, so there is no sum to fuse.
using from_outside =
    plait::ext::plan<sequential<sequential<nn::gelu<8>>, nn::linear<8, 8>>, plait::serial>;
static_assert(!from_outside::is_epilogue(0, direction::backward));

}  // namespace
