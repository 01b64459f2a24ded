// SPDX-License-Identifier: Apache-2.0
// Layers of three and four inputs, each with a placement of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

// y = a + b + c w; ranks that share the columns of y need all of c.
struct joined {
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<4, 8>, plait::normal(0.5)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::inputs<plait::features<8>, plait::features<8>, plait::features<4>>;
  using output = plait::features<8>;
  using forms =
      plait::forms<plait::whole, plait::by_sequence<>,
                   plait::form<"columns",
                               plait::each<plait::shard<plait::dim::features>,
                                           plait::shard<plait::dim::features>, plait::replicate>,
                               plait::shard<plait::dim::features>, plait::split<weight, 1>>>;
  using saved = plait::saved<plait::input_slot>;
  static void forward(auto& ops, auto l) {
    auto const& [a, b, c] = l.x;
    ops.matmul(c, l.p[weight{}], l.y);
    ops.add(a, l.y, l.y);
    ops.add(b, l.y, l.y);
  }
  static void backward_input(auto& ops, auto l) {
    auto const& [da, db, dc] = l.dx;
    ops.copy(l.dy, da);
    ops.copy(l.dy, db);
    ops.matmul(l.dy, plait::transposed(l.p[weight{}]), dc);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(plait::transposed(std::get<2>(l.saved[plait::input_slot{}])), l.dy,
                          l.dp[weight{}]);
  }
};

struct sum_of_four {
  using concept_tag = plait::layer_tag;
  using one = plait::features<8>;
  using input = plait::inputs<one, one, one, one>;
  using output = one;
  // A length as of pairs of features: four ranks divide 4, and eight do not.
  using forms = plait::forms<plait::whole,
                             plait::form<"pairs", plait::shard<plait::dim::features>,
                                         plait::shard<plait::dim::features>, plait::units_of<4>>>;
  static void forward(auto& ops, auto l) {
    auto const& [a, b, c, d] = l.x;
    ops.add(a, b, l.y);
    ops.add(c, l.y, l.y);
    ops.add(d, l.y, l.y);
  }
  static void backward_input(auto& ops, auto l) {
    auto const& [a, b, c, d] = l.dx;
    ops.copy(l.dy, a);
    ops.copy(l.dy, b);
    ops.copy(l.dy, c);
    ops.copy(l.dy, d);
  }
};

using to_8 = plait::nn::linear<16, 8>;
using to_4 = plait::nn::linear<16, 4>;
using model = plait::sequential<plait::fan_out<to_8, to_8, to_4>, joined, plait::nn::linear<8, 16>,
                                plait::fan_out<to_8, to_8, to_8, to_8>, sum_of_four>;
template <class Policy>
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<8>>, Policy, double> {
};

template <class Policy>
std::vector<double> losses() {
  auto const data = plait::in_memory<double>::random_classes(64, 16, 8);
  std::vector<double> out;
  plait::launch<job<Policy>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Policy>>(rank, plait::sgd{.learning_rate = 0.2}, {.seed = 3});
    for (auto const& batch :
         plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 4, .microbatches = 2})) {
      auto const report = trainer.step(batch);
      if (rank.is_root()) out.push_back(report.loss);
    }
  });
  return out;
}

TEST(SeveralInputs, LayersKeepTheLaws) {
  EXPECT_TRUE(plait::testing::check_layer<joined>().passed());
  EXPECT_TRUE(plait::testing::check_layer<sum_of_four>().passed());
}

TEST(SeveralInputs, EveryPlanTrainsAsOneRank) {
  auto const serial = losses<plait::serial>();
  ASSERT_EQ(serial.size(), 8u);
  auto const expect_same = [&](std::vector<double> const& other) {
    ASSERT_EQ(other.size(), serial.size());
    for (std::size_t i = 0; i < serial.size(); ++i) EXPECT_NEAR(other[i], serial[i], 1e-12) << i;
  };
  expect_same(losses<plait::data_parallel<2>>());
  expect_same(losses<plait::tensor_parallel<2>>());
  expect_same(losses<plait::tensor_parallel<4>>());
  expect_same(losses<plait::hybrid<plait::pipeline<2>, plait::tensor_parallel<2>>>());
}

TEST(SeveralInputs, EachBranchEndsAsTheLayerWantsIt) {
  auto const text = plait::explain(job<plait::tensor_parallel<2>>::plan(), {.rows = 4});
  EXPECT_NE(text.find("shard<features>, shard<features>, replicate"), std::string::npos) << text;
  EXPECT_NE(text.find("pairs"), std::string::npos) << text;
}

TEST(SeveralInputs, RanksDivideTheUnitsOfAForm) {
  constexpr auto& form = plait::ext::leaf_of<sum_of_four>.forms[1];
  static_assert(form.divides(2) && form.divides(4) && !form.divides(8));
}

}  // namespace
