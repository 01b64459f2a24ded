// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// Mistakes in a layer's body that have nothing to do with ranks, as the conformance check reports
// them.
#include <gtest/gtest.h>

#include "plait/nn/activation.hpp"
#include "plait/testing/check_layer.hpp"
#include "testing/broken_layers.hpp"
#include "testing/expect_reports.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using plait::testing::check_layer;

TEST(CheckLayer, SeesASampleThatDependsOnAnother) {
  auto const report = check_layer<broken::batch_sum>();
  expect_reported(report, "output[0, 0]: must not change when another sample of the batch changes");
  expect_only(report, {"must not change when another sample of the batch changes"});
}

TEST(CheckLayer, SeesASampleThatDependsOnAnotherGroup) {
  auto const report = check_layer<broken::batch_sum_of_three>();
  expect_reported(report, "output[0, 0]: must not change when a sample of another group changes");
  expect_only(report, {"must not change when a sample of another group changes"});
}

TEST(CheckLayer, SeesAWrongDerivative) {
  auto const report = check_layer<broken::wrong_derivative>();
  expect_reported(report, "gradient of the input");
  expect_only(report, {"must be the central finite difference"});
}

TEST(CheckLayer, SeesAnOutputThatMayNotShareItsInput) {
  auto const honest = check_layer<broken::three_times<false, false>>();
  EXPECT_TRUE(honest.passed()) << honest.text();
  auto const report = check_layer<broken::three_times<true, false>>();
  expect_reported(report, "output[0, 0]: must not change when buffers are shared: may_alias");
}

TEST(CheckLayer, SeesAGradientThatMayNotShareItsOutputGradient) {
  auto const report = check_layer<broken::three_times<false, true>>();
  expect_reported(
      report, "gradient of the input[0, 0]: must not change when buffers are shared: may_alias");
}

// The check of may_alias means something only if the plan does share the buffers of the layer.
template <class L, name Form, bool Forward, bool Backward>
constexpr bool shares() {
  using plan = typename plait::testing::detail::layer_job<L, Form, 2, false>::plan_type;
  for (auto const& now : plan::code.steps) {
    if (now.kind != step_kind::leaf || now.leaf != 1) continue;
    auto const in = static_cast<std::size_t>(now.in), out = static_cast<std::size_t>(now.out);
    auto const& values = plan::storage.values;
    auto const& gradients = plan::storage.gradients;
    return (values[in].root == values[out].root) == Forward &&
           (gradients[in].root == gradients[out].root) == Backward;
  }
  return false;
}
static_assert(shares<nn::relu<12>, "whole", true, true>());
static_assert(shares<nn::relu<12>, "features", true, true>());
static_assert(shares<nn::gelu<12>, "features", false, true>());
static_assert(shares<plait::testing::without_aliasing<nn::relu<12>>, "whole", false, false>());

}  // namespace
