// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// The conformance check must report what is wrong, and nothing that is not.
#include "plait/testing/check_layer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plait/nn/activation.hpp"
#include "testing/broken_layers.hpp"
#include "testing/expect_reports.hpp"

namespace {

using plait::testing::check_layer;
using plait::testing::layer_options;

TEST(CheckLayer, SeesAGradientThatIsNotAddedUpOverRanks) {
  auto const good = check_layer<broken::scale_rows<plait::replicate>>();
  EXPECT_TRUE(good.passed()) << good.text();
  auto const report = check_layer<broken::missing_all_reduce>();
  for (char const* ranks : {"2", "3", "4"})
    expect_reported(report,
                    std::string("form sequence on ") + ranks +
                        " tensor ranks: gradient of weight[0]: must equal the result of the whole "
                        "form on one rank: expected ");
  expect_reported(report, "ranks that keep the same elements have different bits");
  expect_only(report, {"form sequence on 2 ", "form sequence on 3 ", "form sequence on 4 "});
}

TEST(CheckLayer, SeesABiasThatIsAddedOnEveryRank) {
  auto const report = check_layer<broken::bias_on_every_rank>();
  expect_reported(
      report, "form row on 2 tensor ranks: output[0, 0]: must equal the result of the whole form");
  expect_only(report, {"form row on 2 ", "form row on 3 ", "form row on 4 "});
}

TEST(CheckLayer, SeesAGradientThatIsOverwritten) {
  auto const report = check_layer<broken::overwritten_gradient>();
  expect_reported(report, "gradient of weight[0, 0]: two backwards must add up");
  expect_only(report, {"two backwards must add up to twice the gradient"});
}

TEST(CheckLayer, SeesMemoryThatIsReadBeforeItIsWritten) {
  auto const report = check_layer<broken::unwritten_output>();
  expect_reported(report, "nan");
}

TEST(CheckLayer, SeesMovesThatTheFormDoesNotList) {
  using enum broken::moving_row::moves;
  auto const report_of = [](broken::moving_row::moves fault) {
    broken::moving_row::fault = fault;
    return check_layer<broken::moving_row>();
  };
  auto const good = report_of(as_listed);
  EXPECT_TRUE(good.passed()) << good.text();
  for (auto const& [fault, text] :
       {std::pair{once_more, "move 3 of the body is partial_max -> replicate"},
        std::pair{once_less, "the body ends without move 2"},
        std::pair{wider, "move 2 of the body is partial_max -> replicate of 72 values in 36 rows"},
        std::pair{elsewhere, "move 1 of the body is partial_max -> replicate"}})
    expect_only(report_of(fault), {text});
}

TEST(CheckLayer, SeesSumsOverSamplesThatAreNotThoseOfAllRanks) {
  using enum broken::summing_row::sums;
  auto const report_of = [](broken::summing_row::sums fault) {
    broken::summing_row::fault = fault;
    return check_layer<broken::summing_row>();
  };
  EXPECT_TRUE(report_of(as_listed).passed()) << report_of(as_listed).text();
  auto const report = report_of(shared_by_one_rank);
  expect_reported(report, "form row on 2 data ranks: output");
  expect_reported(report, "form row on 2 data ranks: gradient of the input");
  expect_only(report, {"must equal the result of one rank that has the samples of both"});
  expect_only(report_of(once_less),
              {"the body ends without sum 1, but the form lists 12 values for it"});
}

TEST(CheckLayer, SeesBytesThatThePlanDoesNotCount) {
  plait::testing::detail::trial got;
  got.ranks.resize(2);
  got.ranks[1].moved = {{"tensor", 8, 16}, {"data", 8, 8}};
  plait::testing::check_report report;
  plait::testing::detail::check_bytes(report, "form row", got);
  EXPECT_EQ(report.failures,
            std::vector<std::string>{
                "form row: rank 1 moved 16 bytes over the tensor group, but the plan lists 8"});
}

TEST(CheckLayer, SaysWhichOfSeveralInputsAGradientIsOf) {
  plait::testing::detail::trial one, three;
  auto const add = [](auto& to, char const* name) {
    to.parameters.push_back({});
    to.parameters.back().name = name;
  };
  for (auto const* name : {"input.values", "layer.weight"}) add(one, name);
  for (auto const* name : {"input.values", "input_2.values", "input_3.values"}) add(three, name);
  using plait::testing::detail::tensor_name;
  EXPECT_EQ(tensor_name(one, "input.values"), "gradient of the input");
  EXPECT_EQ(tensor_name(one, "layer.weight"), "gradient of weight");
  EXPECT_EQ(tensor_name(three, "input.values"), "gradient of input 1 of 3");
  EXPECT_EQ(tensor_name(three, "input_2.values"), "gradient of input 2 of 3");
}

TEST(CheckLayer, SeesTokensThatDoNotFit) {
  layer_options options;
  options.tokens = {1, 2, 3};
  auto const report = check_layer<broken::unscaled_gradient>(options);
  expect_only(report, {"options.tokens has 3 elements; the number needed is 36"});
  EXPECT_THROW((void)check_layer<broken::unscaled_gradient>({.token_count = -1}),
               plait::input_error);
}

// A gradient that has another factor than its loss.
TEST(CheckLayer, SeesALossWhoseGradientIsNotScaled) {
  auto const report = check_layer<broken::unscaled_gradient>();
  expect_reported(report, "gradient of the input");
  expect_only(report, {"must be the central finite difference"});
}

TEST(CheckLayer, SeesALossWhoseGradientHasNoWeights) {
  auto const honest = check_layer<broken::squared_distance<true>>();
  EXPECT_TRUE(honest.passed()) << honest.text();
  auto const report = check_layer<broken::squared_distance<false>>();
  expect_reported(report, "must equal the gradient without weights times the weight of its row");
  expect_only(report, {"must be the central finite difference", "times the weight of its row",
                       "must be 0 in a place without a sample"});
}

TEST(CheckLayer, SaysWhatItDidNotCheck) {
  auto const report = check_layer<plait::nn::relu<5>>();
  expect_reported(
      report,
      "form features: the dimensions that this form cuts cannot be divided by 2, 3 or 4 ranks");
  expect_only(report, {"was not checked"});
}

}  // namespace
