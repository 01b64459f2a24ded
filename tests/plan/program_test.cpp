// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/model/program.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "plan/models.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::models;

/// Checks the rules of every program: it has no branches, each value is made once before it is
/// used, and each item begins with the result of the item before it.
template <class Plan>
void expect_well_formed() {
  constexpr auto& code = Plan::code;
  std::set<int> made;
  int next_leaf = 0, next_step = 0;
  double flops = 0;
  for (int i = 0; i < code.items.size(); ++i) {
    auto const& piece = code.items[i];
    EXPECT_EQ(piece.first_node, next_step);
    EXPECT_EQ(piece.first_leaf, next_leaf);
    next_step = piece.end_node;
    EXPECT_TRUE(made.insert(piece.in).second);
    auto const& in = code.values[piece.in];
    auto const& out = code.values[piece.out];
    if (i == 0) {
      EXPECT_EQ(in.at, invariant);
      EXPECT_EQ(in.info, Plan::tree.leaves[0].input());
    } else {
      auto const& before = code.values[code.items[i - 1].out];
      EXPECT_EQ(in.at, before.at);
      EXPECT_EQ(in.info, before.info);
    }
    if (piece.count > 1) {
      EXPECT_EQ(in.at, out.at);
      EXPECT_EQ(in.info, out.info);
    }
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      auto const& now = code.nodes[s];
      EXPECT_TRUE(made.contains(now.in)) << "step " << s;
      EXPECT_EQ(code.values[now.in].item, i);
      EXPECT_EQ(code.values[now.out].item, i);
      EXPECT_TRUE(made.insert(now.out).second) << "step " << s << " makes a value again";
      auto const& from = code.values[now.in];
      auto const& to = code.values[now.out];
      switch (now.kind) {
        case program_node_kind::leaf: {
          EXPECT_EQ(now.leaf, next_leaf++);
          auto const& form = code.form(now.leaf);
          EXPECT_EQ(from.at, form.input());
          EXPECT_EQ(to.at, form.output);
          EXPECT_EQ(to.info, Plan::tree.leaves[now.leaf].output);
          for (int k = 0; k < now.more.size(); ++k) {
            auto const input = std::size_t(k) + 1;
            EXPECT_TRUE(made.contains(now.more[k]));
            EXPECT_EQ(code.values[now.more[k]].at, form.inputs[input]);
            EXPECT_EQ(code.values[now.more[k]].info, Plan::tree.leaves[now.leaf].inputs[input]);
          }
          break;
        }
        case program_node_kind::move:
          EXPECT_NE(from.at, to.at) << "a move that moves nothing";
          EXPECT_EQ(from.info, to.info);
          break;
        case program_node_kind::branch:
        case program_node_kind::add:
          EXPECT_EQ(from.at, to.at);
          EXPECT_EQ(from.info, to.info);
          if (now.kind == program_node_kind::add) {
            EXPECT_TRUE(made.contains(now.skip));
            EXPECT_EQ(code.values[now.skip].at, to.at);
          }
          break;
        case program_node_kind::fan_out:
          EXPECT_TRUE(made.insert(now.skip).second);
          EXPECT_EQ(from.at, to.at);
          EXPECT_EQ(code.values[now.skip].at, to.at);
          break;
      }
    }
    EXPECT_TRUE(made.contains(piece.out));
    EXPECT_EQ(piece.end_leaf, next_leaf);
    flops += piece.flops_per_row * piece.count;
  }
  EXPECT_EQ(next_step, code.nodes.size());
  EXPECT_EQ(next_leaf, Plan::leaf_count);
  EXPECT_EQ(static_cast<int>(made.size()), code.values.size());
  EXPECT_NEAR(flops, Plan::chosen.cost.flops, 1e-9 * flops);
}

using dense = nn::linear<16, 16>;
using norm = nn::layer_norm<16>;
using gate = sequential<fan_out<sequential<dense, nn::gelu<16>>, dense>, nn::product<16>>;
using model = gpt_with_loss<3, 16, 4, 8, 32>;

template <class Plan>
struct Program : ::testing::Test {};
using Plans = ::testing::Types<
    plan<dense, serial>, plan<model, serial>, plan<model, tensor_parallel<2>>,
    plan<model, tensor_parallel<4, sequence::sharded>>, plan<model, pipeline<5>>,
    plan<residual<sequential<norm, residual<dense>, dense>>, tensor_parallel<2>>,
    plan<sequential<dense, repeat<4, sequential<dense, dense>>, norm>, tensor_parallel<2>>,
    plan<sequential<norm, gate, dense>, serial>,
    plan<sequential<norm, gate, dense>, tensor_parallel<2>>,
    plan<residual<sequential<norm, gate>>, tensor_parallel<2>>>;
TYPED_TEST_SUITE(Program, Plans);

TYPED_TEST(Program, IsWellFormed) { expect_well_formed<TypeParam>(); }

TEST(Program, SerialNeedsNoMoves) {
  for (auto const& now : plan<model, serial>::code.nodes)
    EXPECT_NE(now.kind, program_node_kind::move);
}

TEST(Program, UnitsAreLayersResidualsAndCopies) {
  static_assert(plan<model, serial>::code.unit_count() == 2 + 3 + 2 + 1);
  static_assert(
      plan<sequential<dense, residual<sequential<dense, dense>>>, serial>::code.unit_count() == 2);
  static_assert(plan<repeat<7, dense>, serial>::code.unit_count() == 7);
  EXPECT_TRUE((plan<sequential<dense, gate, dense>, serial>::code.unit_count() == 3))
      << "the two values of a fan_out do not cross to another stage";
}

TEST(Program, ALossEndsTheModel) {
  static_assert(plan<model, serial>::code.has_loss);
  EXPECT_TRUE((!plan<dense, serial>::code.has_loss));
}

}  // namespace
