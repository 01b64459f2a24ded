// SPDX-License-Identifier: Apache-2.0
// A layer whose body is an operation of its own, given to ops.run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"

namespace {

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

/// y = x^3 by a kernel: on the processor a loop.
struct cube_kernel {
  template <class Queue, class Input, class Output>
  void operator()(Queue const&, Input x, Output y) const {
    for (std::size_t i = 0; i < x.count(); ++i) y.data[i] = cube{}(x.data[i]);
  }
};

enum class how { by_map, by_kernel, forgetful };

template <std::size_t Width, how How>
struct cubic {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using forms = plait::forms<plait::whole, plait::by_features>;
  using kept = plait::slot<"kept", Width, plait::follows::features>;
  using saved = plait::saved<plait::input_slot, kept>;

  static void forward(auto& ops, auto l) {
    if constexpr (How == how::by_map) ops.map(cube{}, l.x, l.y);
    else ops.run(cube_kernel{}, l.x, l.y);
    if constexpr (How != how::forgetful) ops.map(cube{}, l.x, l.saved[kept{}]);
  }
  static void backward_input(auto& ops, auto l) {
    ops.map(cube_derivative{}, l.saved[plait::input_slot{}], l.dy, l.dx);
    if constexpr (How == how::forgetful) ops.add(l.saved[kept{}], l.dx, l.dx);
  }
};

template <how How>
using net = plait::sequential<plait::nn::linear<6, 8>, cubic<8, How>, plait::nn::linear<8, 4>>;
template <how How>
struct job
    : plait::parallel<plait::objective<net<How>, plait::nn::cross_entropy<4>>,
                      plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>>, double> {};

template <how How, class Backend>
std::vector<double> train(Backend const& backend) {
  auto const data = plait::in_memory<double>::random_classes(32, 6, 4);
  std::vector<double> losses;
  plait::launch<job<How>>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job<How>>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(data, plait::global_batch<8>{}, rank)) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

TEST(OwnOperation, IsTheSameAsTheBuiltInOne) {
  auto const expected = train<how::by_map>(plait::threads{});
  ASSERT_EQ(expected.size(), 4u);
  EXPECT_EQ(train<how::by_kernel>(plait::threads{}), expected);
}

TEST(OwnOperation, RunsInAnyOrderOfEvents) {
  auto const expected = train<how::by_map>(plait::threads{});
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(train<how::by_kernel>(plait::simulated{.seed = seed}), expected) << seed;
}

TEST(OwnOperation, ASlotThatForwardForgotIsFound) {
  EXPECT_THROW(train<how::forgetful>(plait::simulated{}), plait::ext::race_error);
}

}  // namespace
