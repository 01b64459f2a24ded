// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/model/outline.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "plan/models.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::models;

using dense = nn::linear<8, 8>;

template <class Model>
std::vector<std::string> names() {
  static constexpr auto tree = make_outline<Model>();
  return leaf_names(tree);
}

using strings = std::vector<std::string>;

TEST(Outline, LayersAreNumberedInDepthFirstOrder) {
  EXPECT_EQ((names<sequential<dense, nn::relu<8>, dense>>()), (strings{"0.", "1.", "2."}));
  EXPECT_EQ((names<sequential<dense, sequential<dense, residual<dense>>, dense>>()),
            (strings{"0.", "1.", "2.", "3."}));
  EXPECT_EQ((names<sequential<fan_out<dense, dense>, nn::product<8>>>()),
            (strings{"0.", "1.", "2."}));
}

TEST(Outline, ALayerAloneInItsScopeHasNoNumber) {
  EXPECT_EQ(names<dense>(), strings{""});
  EXPECT_EQ((names<named<"head", dense>>()), strings{"head."});
  EXPECT_EQ((names<residual<sequential<dense>>>()), strings{""});
  EXPECT_EQ((names<sequential<dense, named<"x", residual<dense>>>>()), (strings{"0.", "x."}));
}

TEST(Outline, NamesAndRepeatsOpenScopes) {
  EXPECT_EQ((names<sequential<dense, named<"x", sequential<dense, dense>>, dense>>()),
            (strings{"0.", "x.0.", "x.1.", "2."}));
  EXPECT_EQ((names<named<"h", repeat<3, dense>>>()), strings{"h.*."});
  EXPECT_EQ((names<named<"q", sequential<named<"", dense>, named<"a", dense>, dense>>>()),
            (strings{"q.", "q.a.", "q.2."}));
  EXPECT_EQ((names<sequential<dense, repeat<3, sequential<dense, dense>>>>()),
            (strings{"0.", "1.*.0.", "1.*.1."}));
}

// Named types of each kind, for which compilers print `block` instead of its contents.
struct head : nn::linear<8, 8> {};
struct block : residual<head> {};
struct blocks : repeat<3, block> {};
struct stack : named<"h", blocks> {};
struct column_head : use_form<"column", head> {};
struct shared_head : tied<head, head::weight, "h.0.weight"> {};
struct pair : fan_out<dense, dense> {};
struct body : sequential<stack, pair, nn::product<8>, column_head, shared_head> {};
struct body_again : body {};
struct task : objective<body_again, nn::cross_entropy<8>> {};

TEST(Outline, ATypeThatDerivesFromACombinationIsThatCombination) {
  using plain = objective<
      sequential<named<"h", repeat<3, residual<head>>>, fan_out<dense, dense>, nn::product<8>,
                 use_form<"column", head>, tied<head, head::weight, "h.0.weight">>,
      nn::cross_entropy<8>>;
  static_assert(std::is_same_v<leaves_of<task>, leaves_of<plain>>);
  EXPECT_EQ(names<task>(), names<plain>());
  static constexpr auto tree = make_outline<task>(), expected = make_outline<plain>();
  ASSERT_EQ(tree.nodes.size(), expected.nodes.size());
  for (int i = 0; i < tree.nodes.size(); ++i) {
    EXPECT_EQ(tree.nodes[i].kind, expected.nodes[i].kind);
    EXPECT_EQ(tree.nodes[i].count, expected.nodes[i].count);
    EXPECT_EQ(tree.nodes[i].end, expected.nodes[i].end);
    EXPECT_EQ(tree.nodes[i].label, expected.nodes[i].label);
  }
  for (int i = 0; i < tree.leaves.size(); ++i) EXPECT_EQ(tree.pins[i], expected.pins[i]);
  ASSERT_EQ(tree.ties.size(), 1);
  EXPECT_EQ(tree.ties[0].owner, name("h.0.weight"));
}

TEST(Outline, NumbersHaveAsManyDigitsAsTheyNeed) {
  using five = sequential<dense, dense, dense, dense, dense>;
  auto const all = names<sequential<five, five, dense>>();
  EXPECT_EQ(all[9], "9.");
  EXPECT_EQ(all[10], "10.");
}

TEST(Outline, NamesOfGptAreThoseOfItsFiles) {
  EXPECT_EQ((names<gpt_with_loss<12, 16, 4, 8, 32>>()),
            (strings{"wte.", "wpe.", "h.*.ln_1.", "h.*.attn.c_attn.", "h.*.attn.1.",
                     "h.*.attn.c_proj.", "h.*.ln_2.", "h.*.mlp.c_fc.", "h.*.mlp.1.",
                     "h.*.mlp.c_proj.", "ln_f.", "lm_head.", "loss."}));
}

TEST(Outline, NamesCanBeMadeAtCompileTime) {
  static constexpr auto tree = make_outline<gpt<2, 16, 4, 8, 32>>();
  constexpr bool right = [] {
    auto const leaves = leaf_characters(tree);
    return leaves[3] == joined({}, name("h.*.attn.c_attn."));
  }();
  static_assert(right);
}

TEST(Outline, TheTreeIsInDepthFirstOrder) {
  static constexpr auto tree =
      make_outline<sequential<dense, residual<sequential<dense, dense>>, repeat<5, dense>>>();
  ASSERT_EQ(tree.nodes.size(), 8);
  EXPECT_EQ(tree.leaves.size(), 4);
  EXPECT_EQ(tree.nodes[0].kind, node_kind::sequential);
  EXPECT_EQ(tree.nodes[0].end, 8);
  EXPECT_EQ(tree.nodes[2].kind, node_kind::residual);
  EXPECT_EQ(tree.nodes[2].end, 6);
  EXPECT_EQ(tree.nodes[6].kind, node_kind::repeat);
  EXPECT_EQ(tree.nodes[6].count, 5);
  int leaf = 0;
  for (auto const& each : tree.nodes)
    EXPECT_EQ(each.leaf, each.kind == node_kind::leaf ? leaf++ : -1);
}

TEST(Outline, PinsReachTheLeavesBelow) {
  static constexpr auto tree = make_outline<
      sequential<dense, use_form<"whole", sequential<dense, use_form<"row", dense>>>, dense>>();
  EXPECT_TRUE(tree.pins[0].empty());
  EXPECT_EQ(tree.pins[1], name("whole"));
  EXPECT_EQ(tree.pins[2], name("row"));
  EXPECT_TRUE(tree.pins[3].empty());
}

TEST(Outline, TiesNameTheirOwner) {
  static constexpr auto tree =
      make_outline<sequential<named<"a", dense>, tied<dense, dense::bias, "a.bias">>>();
  ASSERT_EQ(tree.ties.size(), 1);
  EXPECT_EQ(tree.ties[0].leaf, 1);
  EXPECT_EQ(tree.ties[0].parameter, 1);
  EXPECT_EQ(tree.ties[0].owner, name("a.bias"));
}

static_assert(std::is_same_v<leaves_of<sequential<dense, residual<nn::relu<8>>>>,
                             std::tuple<dense, nn::relu<8>>>);
static_assert(leaf_count<gpt_with_loss<12, 16, 4, 8, 32>> == 13, "a repeat counts once");

// --- frozen layers ------------------------------------------------------------------------------

template <class Model>
std::vector<int> frozen_leaves() {
  std::vector<int> out;
  auto const tree = make_outline<Model>();
  EXPECT_EQ(tree.frozen.what, frozen_error::none);
  for (int leaf = 0; leaf < tree.leaves.size(); ++leaf)
    if (tree.leaves[leaf].is_frozen) out.push_back(leaf);
  return out;
}

TEST(Outline, PatternsFreezeTheLayersTheyMatch) {
  using ints = std::vector<int>;
  using model = sequential<named<"a", dense>, dense, named<"h", repeat<2, named<"b", dense>>>>;
  EXPECT_EQ((frozen_leaves<frozen<model>>()), (ints{0, 1, 2}));
  EXPECT_EQ((frozen_leaves<frozen<model, "a.*">>()), ints{0});
  EXPECT_EQ((frozen_leaves<frozen<model, "h.*.b.*", "a.weight", "a.bias">>()), (ints{0, 2}));
  EXPECT_EQ((frozen_leaves<frozen<model, "*.b.*s*", "h*weight">>()), ints{2});
  // The names that the layers would have alone, without the layers around them.
  EXPECT_EQ(
      (frozen_leaves<sequential<dense, named<"x", frozen<sequential<dense, dense>, "0.*">>>>()),
      ints{1});
  EXPECT_EQ((frozen_leaves<sequential<frozen<dense, "weight", "bias">, model>>()), ints{0});
}

TEST(Outline, SaysWhatIsWrongWithAPattern) {
  using model = sequential<named<"a", dense>, named<"h", repeat<12, named<"b", dense>>>>;
  auto const problem = []<class Model>(Model) { return make_outline<Model>().frozen.what; };
  EXPECT_EQ((problem(frozen<model, "a", "h.*">{})), frozen_error::matches_nothing);
  EXPECT_EQ((problem(frozen<nn::relu<8>>{})), frozen_error::matches_nothing);
  EXPECT_EQ((problem(frozen<model, "h.11.*">{})), frozen_error::one_copy);
  EXPECT_EQ((problem(frozen<model, "h.1x.*">{})), frozen_error::matches_nothing);
  EXPECT_EQ((problem(frozen<model, "*.weight">{})), frozen_error::part_of_a_layer);
}

}  // namespace
