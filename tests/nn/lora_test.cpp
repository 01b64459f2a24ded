// SPDX-License-Identifier: Apache-2.0
#include "plait/nn/lora.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"

namespace lora_test {

using namespace plait;

constexpr nn::linear_options stored{.bias = false, .order = nn::weight_order::output_input};
using base = named<"q_proj", nn::linear<24, 48, stored>>;
using adapted = named<"q_proj", nn::lora<nn::linear<24, 48, stored>, 4, 8>>;

template <class L, class Policy>
struct job : parallel<objective<sequential<L, nn::linear<48, 12>>, nn::cross_entropy<12>>, Policy> {
};

template <class Plan>
std::vector<std::string> names() {
  std::vector<std::string> out;
  for (auto const& block : Plan::blocks(0, 0, Plan::grid)) out.push_back(block.name);
  return out;
}

TEST(Lora, NamesOfTheLayerStayAndTwoAreAdded) {
  EXPECT_EQ((names<job<adapted, serial>::plan_type>()),
            (std::vector<std::string>{"q_proj.weight", "q_proj.lora_A.weight",
                                      "q_proj.lora_B.weight", "1.weight", "1.bias"}));
}

/// Elements that are reduced over the data ranks.
template <class Plan>
std::size_t reduced(workload const& load) {
  std::size_t out = 0;
  for (auto const& row : planning::transfers_of<Plan>(0, load, planning::job_part::training))
    if (row.place == planning::transfer_place::gradients) out += row.count;
  return out;
}

TEST(Lora, GradientsOptimizerAndDataAxisHaveTheTwoMatricesAlone) {
  constexpr workload load{.rows = 8};
  using two = sequential<nn::linear<24, 4, stored>, nn::linear<4, 48, stored>>;
  using plan = job<adapted, data_parallel<2>>::plan_type;
  using alone = job<two, data_parallel<2>>::plan_type;
  auto const need = plan::memory(0, load), of_two = alone::memory(0, load);
  EXPECT_EQ(need.gradients, of_two.gradients);
  EXPECT_EQ(need.optimizer, of_two.optimizer);
  EXPECT_EQ(need.parameters, of_two.parameters + 24 * 48 * sizeof(float));
  EXPECT_EQ(reduced<plan>(load), reduced<alone>(load));
}

TEST(Lora, AllFormsAreSound) {
  auto const report = plait::testing::check_layer<nn::lora<nn::linear<24, 48, stored>, 4, 8>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

}  // namespace lora_test
