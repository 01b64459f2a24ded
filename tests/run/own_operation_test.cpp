// SPDX-License-Identifier: Apache-2.0
// A layer whose body is its own operation, passed to ops.run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"

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

/// The product of two matrices, either of them read transposed, by a kernel; adds the product to
/// `out` if it accumulates.
template <bool TransposesA, bool TransposesB, bool Accumulates = false>
struct multiply {
  template <class A, class B, class Out>
  void operator()(auto const&, A a, B b, Out out) const {
    std::size_t const inner = TransposesA ? a.rows : a.columns;
    for (std::size_t r = 0; r < out.rows; ++r)
      for (std::size_t c = 0; c < out.columns; ++c) {
        typename Out::element sum = 0;
        for (std::size_t i = 0; i < inner; ++i)
          sum += a.data[TransposesA ? i * a.columns + r : r * a.columns + i] *
                 b.data[TransposesB ? c * b.columns + i : i * b.columns + c];
        auto& to = out.data[r * out.columns + c];
        to = Accumulates ? to + sum : sum;
      }
  }
};

using product = multiply<false, false>;

/// y = x w. Its operations declare their indices, and no kernel mentions placements.
template <std::size_t In, std::size_t Out>
struct own_product {
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.1)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<In>;
  using output = plait::features<Out>;
  using saved = plait::saved<plait::input_slot>;
  using forms =
      plait::forms<plait::whole,
                   plait::form<"column", plait::replicate, plait::shard<plait::dim::features>,
                               plait::use<weight, plait::shard<1>>>,
                   plait::form<"row", plait::shard<plait::dim::features>, plait::partial,
                               plait::use<weight, plait::shard<0>>>,
                   plait::by_sequence<>>;

  static void forward(auto& ops, auto l) {
    // example-begin product
    ops.template run<"r i, i j -> r j; linear each">(product{}, l.x, l.p[weight{}], l.y);
    // example-end product
  }
  static void backward_input(auto& ops, auto l) {
    ops.template run<"r j, i j -> r i; linear each">(multiply<false, true>{}, l.dy, l.p[weight{}],
                                                     l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.template run<"r i, r j -> i j; linear each">(
        multiply<true, false, true>{}, l.saved[plait::input_slot{}], l.dy, l.dp[weight{}]);
  }
};

TEST(OwnOperation, WithIndicesIsRightInEveryForm) {
  auto const report = plait::testing::check_layer<own_product<12, 24>>();
  EXPECT_TRUE(report.passed()) << report.text();
  // For 1, 2 and 4 ranks, batches and precisions of each form.
  EXPECT_EQ(report.checked.size(), 15u);
}

using no_rank = plait::ext::operations<plait::threads::rank_type>;

template <class Work>
std::string mismatch_of(Work work) {
  std::string text = "nothing was thrown";
  plait::threads{}.run(plait::ext::mesh_groups(plait::ext::mesh{}), [&](auto& rank) {
    plait::ext::layer_context const context;
    no_rank ops(rank, context, 3, "own forward");
    try {
      work(ops);
    } catch (plait::size_mismatch const& e) {
      text = e.what();
    }
  });
  return text;
}

TEST(OwnOperation, WhoseIndicesHaveTwoLengthsNamesBoth) {
  using matrix = plait::view<double>;
  double numbers[64] = {};
  matrix const x{numbers, 4, 3}, w{numbers, 2, 5}, y{numbers, 4, 5}, row{numbers, 2, 3};
  auto const kernel = product{};
  EXPECT_EQ(mismatch_of([&](auto& ops) {
              ops.template run<"r i, i j -> r j; linear each">(kernel, x, w, y);
            }),
            "ops.run in layer own forward: view 1 is 4 x 3, view 2 is 2 x 5: index i is 3 long in "
            "view 1 and 2 in view 2");
  EXPECT_EQ(mismatch_of([&](auto& ops) { ops.template run<"r c, 1 c -> r c">(kernel, x, row, x); }),
            "ops.run in layer own forward: view 2 is 2 x 3: by the indices, its number of rows "
            "must be 1, because the index is 1");
  EXPECT_EQ(mismatch_of([&](auto& ops) { ops.template run<"r 3h, r h -> r h">(kernel, y, x, x); }),
            "ops.run in layer own forward: view 1 is 4 x 5: by the indices, its number of columns "
            "must be 3 times a whole number");
}

}  // namespace
