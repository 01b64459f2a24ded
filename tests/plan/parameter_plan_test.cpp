// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/sharding/parameter_plan.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "plan/models.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::models;

using model = gpt_with_loss<12, 16, 4, 8, 32>;
template <class Policy>
using planned = plan<model, Policy>;

template <class Plan>
std::vector<std::string> names() {
  return parameter_names(Plan::tree, Plan::entries);
}

TEST(ParameterPlan, NamesAreThoseOfGptFiles) {
  EXPECT_EQ(names<planned<serial>>(),
            (std::vector<std::string>{
                "wte.weight", "wpe.weight", "h.*.ln_1.weight", "h.*.ln_1.bias",
                "h.*.attn.c_attn.weight", "h.*.attn.c_attn.bias", "h.*.attn.c_proj.weight",
                "h.*.attn.c_proj.bias", "h.*.ln_2.weight", "h.*.ln_2.bias", "h.*.mlp.c_fc.weight",
                "h.*.mlp.c_fc.bias", "h.*.mlp.c_proj.weight", "h.*.mlp.c_proj.bias", "ln_f.weight",
                "ln_f.bias", "lm_head.weight"}));
}

TEST(ParameterPlan, ABlockOfAShardHasItsPartOfTheElements) {
  auto const& entries = planned<tensor_parallel<2>>::entries;
  for (auto const& entry : entries) {
    std::size_t const ranks = is_shard(entry.stored) ? 2 : 1;
    EXPECT_EQ(entry.local_count() * ranks, entry.info.count()) << entry.info.label.text();
  }
  // c_attn: columns of the weight in three parts; c_proj: rows, its bias whole.
  EXPECT_EQ(entries[4].local_rows, 16u);
  EXPECT_EQ(entries[4].local_columns, 24u);
  EXPECT_EQ(entries[6].local_rows, 8u);
  EXPECT_EQ(entries[6].local_columns, 16u);
  EXPECT_EQ(entries[7].local_count(), 16u);
}

TEST(ParameterPlan, StoredParametersCanBeUsedAndTheirGradientsReturn) {
  auto const check = [](auto const& entries) {
    for (auto const& entry : entries) {
      auto const row = transition_between(entry.stored, entry.used);
      ASSERT_TRUE(row.allowed());
      EXPECT_EQ(entry.masked(), entry.used == partial);
      EXPECT_EQ(entry.reduced_over_tensor(), entry.used == replicate);
      // The use of a parameter sends no message; its gradient needs at most one all_reduce.
      EXPECT_FALSE(communicates(row.moves));
      auto const back = adjoint(row).moves;
      EXPECT_TRUE(back == local_move::none || back == collective::all_reduce) << to_string(back);
    }
  };
  check(planned<serial>::entries);
  check(planned<tensor_parallel<2>>::entries);
  check(planned<tensor_parallel<2, sequence::sharded>>::entries);
}

TEST(ParameterPlan, OnlyReplicatedUsesAreReducedOverTheTensorAxis) {
  auto const reduced = []<class Plan>(Plan) {
    std::set<std::string> out;
    auto const all = names<Plan>();
    for (int e = 0; e < Plan::entries.size(); ++e)
      if (Plan::entries[e].reduced_over_tensor()) out.insert(all[static_cast<std::size_t>(e)]);
    return out;
  };
  EXPECT_TRUE(reduced(planned<serial>{}).empty());
  EXPECT_TRUE(reduced(planned<tensor_parallel<2>>{}).empty());
  EXPECT_EQ(reduced(planned<tensor_parallel<2, sequence::sharded>>{}),
            (std::set<std::string>{"h.*.ln_1.weight", "h.*.ln_1.bias", "h.*.ln_2.weight",
                                   "h.*.ln_2.bias", "ln_f.weight", "ln_f.bias"}));
}

// --- as many clauses as there may be ------------------------------------------------------------

template <name Label>
using row = parameter<Label, extents<8>>;
template <name Label>
using room = slot<Label, 8>;
template <class Key>
using cut = use<Key, shard<dim::features>>;

struct full {
  using concept_tag = layer_tag;
  using input = features<8>;
  using output = features<8>;
  using parameters = parameter_list<row<"0">, row<"1">, row<"2">, row<"3">, row<"4">, row<"5">,
                                    row<"6">, row<"7">>;
  using saved = plait::saved<room<"a">, room<"b">, room<"c">, room<"d">, room<"s">>;
  using scratch = plait::scratch<room<"e">, room<"f">, room<"g">, room<"h">, room<"t">>;
  using forms = plait::forms<
      whole, form<"features", shard<dim::features>, shard<dim::features>, split<row<"0">, 0>,
                  split<row<"1">, 0>, split<row<"2">, 0>, split<row<"3">, 0>, split<row<"4">, 0>,
                  split<row<"5">, 0>, split<row<"6">, 0>, split<row<"7">, 0>, cut<room<"a">>,
                  cut<room<"b">>, cut<room<"c">>, cut<room<"d">>, cut<room<"e">>, cut<room<"f">>,
                  cut<room<"g">>, cut<room<"h">>>>;
  static void forward(auto&, auto const&) {}
  static void backward_input(auto&, auto const&) {}
  static void backward_parameters(auto&, auto const&) {}
};

TEST(ParameterPlan, AFormHasSixteenClauses) {
  using whole_plan = plan<use_form<"whole", full>, serial>;
  using split_plan = plan<use_form<"features", full>, tensor_parallel<2>>;
  static_assert(split_plan::entries.size() == 8 && split_plan::entries.capacity == 8);
  for (auto const& entry : split_plan::entries) EXPECT_EQ(entry.local_count(), 4u);
  EXPECT_EQ(split_plan::code.form(0).slot_count, 8);
  // Eight of ten slots are cut, and one slot of each list is whole.
  constexpr std::size_t rows = 16, bytes = rows * 8 * sizeof(float);
  auto const layout = split_plan::activation_layout_for(rows);
  auto const whole = whole_plan::activation_layout_for(rows);
  EXPECT_EQ(whole.saved_offset[0][4] - whole.saved_offset[0][0], 4 * bytes);
  EXPECT_EQ(layout.saved_offset[0][4] - layout.saved_offset[0][0], 2 * bytes);
  EXPECT_EQ(layout.activation_stash_bytes[0] - layout.saved_offset[0][4], bytes);
  EXPECT_EQ(layout.scratch_offset[0][4] - layout.scratch_offset[0][0], 2 * bytes);
}

// --- ties ---------------------------------------------------------------------------------------

using table = nn::embedding<32, 16>;
using head = nn::linear<16, 32, head_options>;
template <name Owner, class Layer = head>
using tied_model = sequential<named<"wte", table>, nn::layer_norm<16>,
                              named<"head", tied<Layer, typename Layer::weight, Owner>>>;

template <class Model, int Ranks = 1>
constexpr auto listed() {
  auto const tree = make_outline<Model>();
  auto const code = write_program(tree, choose_forms(tree, Ranks, {}), Ranks);
  return list_parameters<parameter_uses<Model>>(tree, code, Ranks);
}

TEST(ParameterPlan, ATiedParameterHasAnOwner) {
  constexpr auto list = listed<tied_model<"wte.weight">>();
  static_assert(list.problem == tie_error::none);
  static_assert(list.entries.size() == 4);
  static_assert(list.entries[0].owner == -1 && list.entries[3].owner == 0);
  using tied_plan = plan<tied_model<"wte.weight">, serial>;
  EXPECT_EQ(tied_plan::parameter_tensor_count(), 3);
  EXPECT_EQ(tied_plan::parameter_count(), 32u * 16 + 16 + 16);
}

TEST(ParameterPlan, SaysWhatIsWrongWithATie) {
  static_assert(listed<tied_model<"wte">>().problem == tie_error::unknown_owner);
  static_assert(listed<tied_model<"head.weight">>().problem == tie_error::unknown_owner, "itself");
  static_assert(listed<tied_model<"wte.weight", nn::linear<16, 32>>>().problem ==
                tie_error::other_shape);
  using dense = nn::linear<16, 16>;
  using repeated =
      sequential<named<"first", dense>, repeat<2, tied<dense, dense::weight, "first.weight">>>;
  static_assert(listed<repeated>().problem == tie_error::other_item);
  using crossed = sequential<named<"wte", use_form<"features", table>>,
                             use_form<"column", tied<head, head::weight, "wte.weight">>>;
  static_assert(listed<crossed, 2>().problem == tie_error::other_placement);
  using alike = sequential<named<"wte", use_form<"vocabulary", table>>,
                           use_form<"column", tied<head, head::weight, "wte.weight">>>;
  EXPECT_TRUE((listed<alike, 2>().problem == tie_error::none));
}

}  // namespace
