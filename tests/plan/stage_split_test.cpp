// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/model/stage_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/core/random.hpp"
#include "plait/nn/batch_norm.hpp"
#include "plait/nn/sum.hpp"
#include "plait/plan/explain.hpp"
#include "plait/schedule/interleaved.hpp"
#include "plan/models.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::models;

double greatest_stage(std::vector<double> const& costs, std::vector<int> begins) {
  begins.push_back(static_cast<int>(costs.size()));
  double most = 0;
  for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
    double sum = 0;
    for (int u = begins[s]; u < begins[s + 1]; ++u) sum += costs[static_cast<std::size_t>(u)];
    most = std::max(most, sum);
  }
  return most;
}

/// Returns the cost of the greatest stage in the best of all cuts.
double best_of_all(std::vector<double> const& costs, int stages, std::vector<int> begins = {0}) {
  if (static_cast<int>(begins.size()) == stages) return greatest_stage(costs, begins);
  double best = 1e300;
  for (int next = begins.back() + 1; next < static_cast<int>(costs.size()); ++next) {
    auto longer = begins;
    longer.push_back(next);
    best = std::min(best, best_of_all(costs, stages, longer));
  }
  return best;
}

TEST(StageSplit, NoOtherCutHasASmallerGreatestStage) {
  std::uint64_t draw = 0;
  random_key const key{11, 0, 0};
  for (int units = 1; units <= 9; ++units)
    for (int stages = 1; stages <= units; ++stages)
      for (int round = 0; round < 20; ++round) {
        std::vector<double> costs;
        for (int i = 0; i < units; ++i) costs.push_back(random_word(key, draw++) % 10);
        auto const begins = balance(costs, stages);
        ASSERT_EQ(static_cast<int>(begins.size()), stages);
        EXPECT_EQ(begins[0], 0);
        for (std::size_t s = 1; s < begins.size(); ++s) EXPECT_LT(begins[s - 1], begins[s]);
        EXPECT_LT(begins.back(), units);
        EXPECT_EQ(greatest_stage(costs, begins), best_of_all(costs, stages));
      }
}

// 1F1B keeps more microbatches on the earlier stages.
TEST(StageSplit, AmongEqualsTheEarlierStagesGetLess) {
  EXPECT_EQ(balance({1, 1, 1}, 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(balance({1, 1, 1, 1, 1}, 2), (std::vector<int>{0, 2}));
}

using model = sequential<nn::linear<16, 16>, repeat<6, nn::linear<16, 16>>, nn::linear<16, 16>>;

template <class Policy>
std::vector<int> begins() {
  std::vector<int> out;
  for (auto const& units : plan<model, Policy>::chunk_units) out.push_back(units.begin);
  return out;
}

TEST(StageSplit, EqualLayersAreSharedEvenly) {
  EXPECT_EQ(begins<serial>(), (std::vector<int>{0}));
  EXPECT_EQ(begins<pipeline<2>>(), (std::vector<int>{0, 4}));
  EXPECT_EQ(begins<pipeline<4>>(), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(begins<pipeline<8>>(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(StageSplit, TheUserMaySayWhere) {
  using order = one_forward_one_backward;
  EXPECT_EQ((begins<pipeline<2, order, cut_at<1>>>()), (std::vector<int>{0, 1}));
  EXPECT_EQ((begins<pipeline<3, order, cut_at<3, 7>>>()), (std::vector<int>{0, 3, 7}));
}

TEST(StageSplit, CutsThatMakeNoStagesAreRefused) {
  constexpr auto& code = plan<model, serial>::code;
  EXPECT_EQ((split_stages<cut_at<3, 7>>(code, 3, {}).size()), 3u);
  EXPECT_TRUE((split_stages<cut_at<3, 7>>(code, 2, {}).empty()));
  EXPECT_TRUE((split_stages<cut_at<7, 3>>(code, 3, {}).empty()));
  EXPECT_TRUE((split_stages<cut_at<3, 3>>(code, 3, {}).empty()));
  EXPECT_TRUE((split_stages<cut_at<0>>(code, 2, {}).empty()));
  EXPECT_TRUE((split_stages<cut_at<8>>(code, 2, {}).empty()));
  EXPECT_TRUE((split_stages<cut_at<-1>>(code, 2, {}).empty()));
}

/// Returns the greatest sum of a stage that has several chunks.
double greatest_of_stages(std::vector<double> const& costs, std::vector<int> begins, int stages,
                          chunk_placement how) {
  begins.push_back(static_cast<int>(costs.size()));
  std::vector<double> sums(std::size_t(stages), 0.0);
  for (std::size_t c = 0; c + 1 < begins.size(); ++c)
    for (int u = begins[c]; u < begins[c + 1]; ++u)
      sums[std::size_t(place_of_chunk(int(c), stages, how).stage)] += costs[std::size_t(u)];
  return *std::max_element(sums.begin(), sums.end());
}
double best_of_chunks(std::vector<double> const& costs, int stages, int chunks, chunk_placement how,
                      std::vector<int> begins = {0}) {
  if (static_cast<int>(begins.size()) == stages * chunks)
    return greatest_of_stages(costs, begins, stages, how);
  double best = 1e300;
  for (int next = begins.back() + 1; next < static_cast<int>(costs.size()); ++next) {
    auto longer = begins;
    longer.push_back(next);
    best = std::min(best, best_of_chunks(costs, stages, chunks, how, longer));
  }
  return best;
}
constexpr double greatest_stage_of(std::vector<double> const& costs, int stages, int chunks) {
  auto const begins =
      balance_stages(costs, balance(costs, stages * chunks), stages, chunk_placement::loop);
  double sums[8]{}, most = 0;
  for (std::size_t c = 0; c < begins.size(); ++c) {
    int const end = c + 1 < begins.size() ? begins[c + 1] : static_cast<int>(costs.size());
    for (int u = begins[c]; u < end; ++u) sums[c % std::size_t(stages)] += costs[std::size_t(u)];
  }
  for (double const one : sums) most = std::max(most, one);
  return most;
}
// Twelve equal blocks between small ends; and eight blocks before a head of the same cost.
static_assert(greatest_stage_of({.001, .001, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, .001, .01, .001},
                                4, 2) < 3.02);
static_assert(greatest_stage_of({.001, .001, 1, 1, 1, 1, 1, 1, 1, 1, .001, 8, .001}, 2, 2) < 8.01);

TEST(StageSplit, ChunksAreCutForTheirStages) {
  std::uint64_t draw = 0;
  random_key const key{12, 0, 0};
  double sum = 0, worst = 0;
  int count = 0;
  for (int round = 0; round < 120; ++round) {
    int const stages = 2 + round % 2, units = 8 + int(random_word(key, draw++) % 5);
    auto const how = round % 4 < 2 ? chunk_placement::loop : chunk_placement::wave;
    std::vector<double> costs;
    for (int i = 0; i < units; ++i) costs.push_back(1 + random_word(key, draw++) % 10);
    auto const begins = balance_stages(costs, balance(costs, 2 * stages), stages, how);
    for (std::size_t c = 1; c < begins.size(); ++c) EXPECT_LT(begins[c - 1], begins[c]);
    EXPECT_LT(begins.back(), units);
    double const ratio =
        greatest_of_stages(costs, begins, stages, how) / best_of_chunks(costs, stages, 2, how);
    sum += ratio, worst = std::max(worst, ratio), ++count;
  }
  EXPECT_LE(sum / count, 1.03);
  EXPECT_LE(worst, 1.35);
}

TEST(StageSplit, TheUserMaySayWhereChunksBegin) {
  EXPECT_EQ((begins<pipeline<2, interleaved<2>, cut_at<1, 4, 6>>>()),
            (std::vector<int>{0, 4, 1, 6}));
}

// --- what explain says of stages that mostly wait, and of microbatches ---------------------------

template <class Model, class Policy>
std::string explained(int microbatches) {
  using of = plan<objective<Model, nn::cross_entropy<16>>, Policy>;
  return explain(of{}, {.rows = 8, .microbatches = microbatches});
}
bool says(std::string const& text, std::string const& what) { return text.find(what) != text.npos; }
using square = nn::linear<16, 16>;

TEST(StageSplit, ExplainNamesAFanOutThatIsTheWholeModel) {
  using body = fan_out<sequential<square, nn::relu<16>, square>, nn::relu<16>>;
  auto const text = explained<sequential<body, nn::sum<16, 2>>, pipeline<2>>(2);
  EXPECT_TRUE(
      says(text,
           " of the step\n"
           "  stage 1 (loss) has 0 % of the layers' flops, so that it waits for the others "
           "most of the time:\n"
           "  layers 0 to 4 have 100 % and are one unit, as a fan_out is with the layer that "
           "takes its outputs;\n"
           "  put layers before or after it, write several fan_outs one after the other, "
           "or fewer stages\n\n"))
      << text;
  EXPECT_FALSE(says(text, "microbatch:")) << text;
}

TEST(StageSplit, ExplainNamesACopyOfARepeatThatIsOneUnit) {
  using copies = named<"h", repeat<2, sequential<square, nn::relu<16>, square>>>;
  auto const text = explained<copies, pipeline<3>>(3);
  EXPECT_TRUE(
      says(text, "are one unit, as a copy of a repeat is; write more copies of a smaller layer"))
      << text;
}

TEST(StageSplit, ExplainSaysWhereToCutAndWhatMicrobatchesChange) {
  using pixels = nn::image<16, 1, 1>;
  using normed = sequential<square, nn::batch_norm<pixels>, square>;
  using last = pipeline<2, one_forward_one_backward, cut_at<3>>;
  auto const text = explained<normed, last>(3);
  EXPECT_TRUE(says(text,
                   "  stage 1 (loss) has 0 % of the layers' flops, so that it waits for the others "
                   "most of the time:\n  write cut_at<2>, or leave cut_at out\n\n"))
      << text;
  EXPECT_TRUE(says(text,
                   "1 layer sums over the samples of a microbatch: another number of microbatches "
                   "than 3, or of data ranks, gives other results\n\n"))
      << text;
  auto const whole = explained<normed, serial>(1);
  EXPECT_FALSE(says(whole, "microbatches") || says(whole, "flops")) << whole;
}

TEST(StageSplit, EveryCopyIsOnOneStage) {
  using jobs = plan<gpt_with_loss<5, 16, 4, 8, 32>, pipeline<4>>;
  for (int i = 0; i < jobs::code.items.size(); ++i) {
    auto const& item = jobs::code.items[i];
    int next = item.first_unit;
    for (auto const& units : jobs::chunk_units) {
      auto const here = overlap(item.units(), units);
      if (here.count() == 0) continue;
      EXPECT_EQ(here.begin, next);
      next = here.end;
    }
    EXPECT_EQ(next, item.units().end);
  }
}

}  // namespace
