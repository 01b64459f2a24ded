// SPDX-License-Identifier: Apache-2.0
// The index of an element in its whole parameter, under plans that cut parameters.
#include "plait/train/state/state_rounding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using execution::origins_of;
using planning::owned_block;

/// Compares the origins of a block with the rectangles of the parameters, which checkpoints and
/// start values use. Returns the number of compared elements.
template <class Plan>
std::size_t compare(lean_vector<parameter_block> const& parameters, owned_block const& block,
                    int tensor_rank) {
  auto const origins = origins_of<Plan>(parameters, block, tensor_rank);
  std::map<std::size_t, element_origin const*> at;  // by the offset in the block
  std::size_t end = 0;
  for (auto const& origin : origins) {
    EXPECT_GE(origin.offset, end);
    end = origin.offset + origin.count;
    for (std::size_t i = origin.offset; i < end; ++i) at[i] = &origin;
  }
  EXPECT_LE(end, block.elements.count);
  std::size_t compared = 0;
  for (auto const& parameter : parameters) {
    auto const& info = Plan::entries[parameter.entry].info;
    for (auto const& each : parameter.rectangles)
      planning::for_each_run(
          each, info.columns, [&](std::size_t global, std::size_t place, std::size_t length) {
            for (std::size_t i = 0; i < length; ++i) {
              if (place + i < block.elements.offset || place + i >= block.elements.end()) continue;
              std::size_t const offset = place + i - block.elements.offset;
              auto const found = at.find(offset);
              ASSERT_NE(found, at.end()) << parameter.name;
              auto const& origin = *found->second;
              EXPECT_EQ(origin.number, std::uint32_t(parameter.number));
              ASSERT_EQ(origin.index(offset), global + i) << parameter.name;
              // All elements of a run have consecutive indices, also across padding.
              std::size_t const run = origin.run(offset);
              EXPECT_GE(run, 1u);
              EXPECT_LE(offset + run, origin.offset + origin.count);
              EXPECT_EQ(origin.index(offset + run - 1), global + i + run - 1);
              ++compared;
            }
          });
  }
  return compared;
}

template <class Job>
std::size_t compare_all_ranks(std::size_t begin, std::size_t share) {
  using plan = typename Job::plan_type;
  std::size_t compared = 0;
  for (int stage = 0; stage < plan::stages; ++stage)
    for (int tensor_rank = 0; tensor_rank < plan::tensor_ranks; ++tensor_rank) {
      auto const parameters = plan::blocks(stage, tensor_rank, plan::grid);
      auto const count = plan::parameter_layout_for(stage, plan::grid).count();
      // Blocks that begin and end in the middle of parameters.
      for (std::size_t at = 0; at < count;) {
        std::size_t const next = std::min(count, at == 0 ? begin : at + share);
        owned_block block;
        block.elements = {at, next - at};
        compared += compare<plan>(parameters, block, tensor_rank);
        at = next;
      }
    }
  return compared;
}

template <class Policy>
void expect_all() {
  auto const whole = compare_all_ranks<small_gpt::job<serial, float>>(~std::size_t{0}, 1);
  EXPECT_EQ(whole, small_gpt::job<serial>::plan_type::parameter_count());
  for (auto const& [begin, share] :
       {std::pair<std::size_t, std::size_t>{~std::size_t{0}, 1}, {1, 77}, {37, 1000}})
    EXPECT_GE((compare_all_ranks<small_gpt::job<Policy, float>>(begin, share)), whole) << begin;
}

TEST(Origins, AreTheRectanglesOfParametersThatAreCut) {
  expect_all<serial>();
  expect_all<small_gpt::tp2>();
  expect_all<tensor_parallel<4>>();
  expect_all<hybrid<pipeline<2>, small_gpt::tp2_sharded>>();
}

// Rows of padding are on the last of the tensor ranks; elements in front of them keep their index.
TEST(Origins, DoNotDependOnPadding) {
  using whole = small_gpt::tied_job<serial, float>;
  using cut = small_gpt::tied_job<small_gpt::tp2, float>;
  std::size_t const count = whole::plan_type::parameter_count();
  EXPECT_GE(compare_all_ranks<whole>(100, 333), count);
  EXPECT_GE(compare_all_ranks<cut>(100, 333), count);
}

// Two parameters never share random numbers, nor does a parameter with a layer or a start value.
TEST(Origins, HaveKeysOfTheirOwn) {
  std::set<std::uint32_t> sites;
  using plan = small_gpt::job<serial>::plan_type;
  for (auto const& parameter : plan::blocks_of_model(plan::grid)) {
    auto const key = rounding_key(7, std::uint32_t(parameter.number), 9);
    EXPECT_EQ(key.seed, 7u);
    EXPECT_EQ(key.step, 9u);
    EXPECT_GE(key.site, std::uint32_t{1} << 31);
    EXPECT_TRUE(sites.insert(key.site).second);
  }
}

}  // namespace
