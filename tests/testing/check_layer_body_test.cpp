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

TEST(CheckLayer, SeesAGradientThatIsRightForOneSign) {
  auto const report = check_layer<broken::positive_weight>();
  expect_reported(report, "gradient of weight[1]: must be the central finite difference");
  expect_only(report, {"must be the central finite difference"});
}

TEST(CheckLayer, SeesNumbersThatOnlyOneBatchHas) {
  using enum broken::numbered::by;
  auto const report_of = [](broken::numbered::by fault) {
    broken::numbered::fault = fault;
    return check_layer<broken::numbered>();
  };
  EXPECT_TRUE(report_of(nothing).passed()) << report_of(nothing).text();
  std::string const text =
      "must be the same when the samples come in batches of 1 and of 2 samples: a body may use "
      "numbers of the global batch";
  for (auto const fault : {local_row, batch, microbatch}) {
    auto const report = report_of(fault);
    expect_reported(report, "form whole on 2 tensor ranks: output[");
    expect_reported(report, "form whole on 2 tensor ranks: gradient of the input[");
    expect_only(report, {text});
  }
}

TEST(CheckLayer, SeesPlacesWithoutASampleThatCount) {
  using enum broken::centred_pairs::places;
  auto const report_of = [](broken::centred_pairs::places fault) {
    broken::centred_pairs::fault = fault;
    return check_layer<broken::centred_pairs>();
  };
  EXPECT_TRUE(report_of(left_out).passed()) << report_of(left_out).text();
  auto const report = report_of(counted);
  expect_reported(
      report,
      "with a group that lacks a sample: output[2, 0]: must not depend on the contents of places "
      "without a sample (these are the last l.context.missing of the l.context.batch places)");
  expect_only(report, {"places without a sample", "place without a sample"});
  expect_reported(report_of(given_a_gradient),
                  "gradient of the input[0]: must be 0 in a place without a sample");
  expect_only(report_of(given_a_gradient), {"must be 0 in a place without a sample"});
}

TEST(CheckLayer, SeesALossThatDoesNotHeedItsLabels) {
  using enum broken::square_of_label::labels;
  auto const report_of = [](broken::square_of_label::labels fault) {
    broken::square_of_label::fault = fault;
    return check_layer<broken::square_of_label>();
  };
  EXPECT_TRUE(report_of(right).passed()) << report_of(right).text();
  expect_reported(
      report_of(counted_once),
      "count of the loss: it returned 1 of 36 rows together, but 36 for the same rows one by one, "
      "and 2 for the first third and the rest; ranks and microbatches count their own rows, so the "
      "counts of parts must add up: count each target independently of the others");
  expect_reported(report_of(left_unwritten),
                  "with rows without a target: gradient of the input[0, 0]: must be 0 in a row "
                  "whose targets do not count: write zeros to this row of l.dx");
  expect_reported(report_of(read_where_ignored),
                  "with rows without a target: loss[0]: must be finite if some rows have no "
                  "target: leave out rows whose label is ext::ignored_target, -100");
  expect_only(report_of(read_past_rows),
              {"loss[0]: must not depend on another row when a label is 5 or -1: the loss reads "
               "past its row; let count throw an input_error"});
}

TEST(CheckLayer, SeesALossThatDoesNotHeedTargetsThatAreNan) {
  using enum broken::squares::gradient;
  auto const report_of = [](broken::squares::gradient fault) {
    broken::squares::fault = fault;
    return check_layer<broken::squares>();
  };
  EXPECT_TRUE(report_of(right).passed()) << report_of(right).text();
  expect_only(report_of(nan_where_ignored), {"must be 0 in a row whose targets do not count"});
  expect_only(
      report_of(same_without_sample),
      {"gradient of the input[0]: must be 0 in a place without a sample (these are the last "
       "l.context.missing of the l.context.batch places): in a loss, multiply by l.dy.at(row)"});
}

TEST(CheckLayer, ComparesDataRanksOfALossThatSumsOverSamples) {
  broken::square_of_sum::fault = false;
  EXPECT_TRUE(check_layer<broken::square_of_sum>().passed())
      << check_layer<broken::square_of_sum>().text();
  broken::square_of_sum::fault = true;
  expect_reported(check_layer<broken::square_of_sum>(),
                  "on 2 data ranks: loss[0]: must equal the result of one rank");
}

TEST(CheckLayer, ChecksAllLawsInEveryPrecision) {
  auto const in_double = check_layer<broken::wrong_derivative, plait::precision<double, double>>();
  EXPECT_EQ(in_double.text(), check_layer<broken::wrong_derivative>().text());
  auto const in_float = check_layer<broken::wrong_derivative, plait::precision<float, float>>();
  expect_reported(in_float, "must be the central finite difference");
  EXPECT_EQ(in_float.checked.back(), "form whole on 2 tensor ranks, in float");
  EXPECT_THROW((void)check_layer<broken::wrong_derivative>({.differences = 0}), plait::input_error);
}

// The check of may_alias means something only if the plan does share the buffers of the layer.
template <class L, name Form, bool Forward, bool Backward>
constexpr bool shares() {
  using plan = typename plait::testing::detail::layer_job<L, Form, 2, false>::plan_type;
  for (auto const& now : plan::code.nodes) {
    if (now.kind != program_node_kind::leaf || now.leaf != 1) continue;
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
