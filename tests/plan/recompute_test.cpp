// SPDX-License-Identifier: Apache-2.0
// test: seconds=5
//
// Tests which operations of a model are recomputed, the memory that this saves and the work that it
// costs.
#include "plait/plan/memory/recompute.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "plait/plait.hpp"
#include "plait/train/checks/set_up_checks.hpp"
#include "plan/gpt2.hpp"

namespace recompute_plans {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

// --- GPT-2 with 124 million parameters

using plan_gpt2::block, plan_gpt2::gpt2, plan_gpt2::length, plan_gpt2::width;

template <class Policy, granularity What, class Where = units::everywhere,
          granularity Others = granularity::nothing>
using recompute_plan_of = plan<gpt2, hybrid<Policy, recompute<What, Where, Others>>>;
using sharded = tensor_parallel<2, sequence::sharded>;
constexpr int of_blocks = 2;  // the number of the item of the blocks
constexpr workload one{.rows = 8 * length};

/// Returns the bytes of the records of the blocks, and of the record into which one block is
/// recomputed.
template <class Plan>
constexpr std::size_t bytes_of_blocks(int slots = 1) {
  auto const layout = Plan::activation_layout_for(one.rows);
  auto const& ends = layout.stash_end[of_blocks];
  std::size_t sum = Plan::arena_for(0, one).working_bytes;
  for (int copy = 0; copy < 12; ++copy)
    sum += std::size_t(slots) *
           ends[std::size_t(Plan::recomputes.of(Plan::code.items[of_blocks].first_unit + copy))];
  return sum;
}
static_assert(bytes_of_blocks<plan<gpt2, serial>>() == 4'838'129'664);
static_assert(bytes_of_blocks<recompute_plan_of<serial, granularity::cheap>>() == 3'175'743'488);
static_assert(bytes_of_blocks<recompute_plan_of<serial, granularity::all>>() == 680'001'536);
constexpr std::size_t output = 25'165'824;
static_assert(bytes_of_blocks<recompute_plan_of<serial, granularity::all>>() - 12 * output <
              16 * output);

// Microbatches in flight cost only their outputs.
using on_stages = objective<sequential<nn::embedding<512, width>, repeat<12, block>,
                                       nn::layer_norm<width>, nn::linear<width, 512>>,
                            nn::cross_entropy<512>>;
constexpr std::size_t stashes_of(int microbatches) {
  using staged = plan<on_stages, hybrid<pipeline<2, gpipe>, recompute<granularity::all>>>;
  auto const arena = staged::arena_for(0, {.rows = length, .microbatches = microbatches});
  return arena.chunks[0].activation_stash_bytes *
         std::size_t(staged::slots_for(0, microbatches).activations);
}
static_assert(stashes_of(8) == 8 * stashes_of(1));
static_assert(stashes_of(1) ==
              std::size_t(plan<on_stages, pipeline<2>>::chunks_of(0)[0].count()) * output / 8);

/// Returns the steps of a block that run again, as leaves or by their kinds.
template <class Plan>
std::vector<std::string> names_of_recomputed(granularity what, int item = of_blocks) {
  auto const names = leaf_names(Plan::tree);
  std::vector<std::string> out;
  auto const& piece = Plan::code.items[item];
  for (int s = piece.first_node; s < piece.end_node; ++s) {
    auto const& now = Plan::code.nodes[s];
    if ((Plan::recomputes.nodes[s] & bit_of(int(what))) == 0) continue;
    if (now.kind == program_node_kind::leaf) {
      out.push_back(names[std::size_t(now.leaf)]);
    } else if (now.kind == program_node_kind::add) {
      out.emplace_back("add");
    } else if (now.kind == program_node_kind::move) {
      auto const row = row_of_move(Plan::code.values, now, direction::forward);
      if (communicates(row.moves)) out.emplace_back(to_string(row.moves));
    }
  }
  return out;
}
using names = std::vector<std::string>;

TEST(RecomputePlans, MakeAgainWhatTheBackwardOfABlockReads) {
  EXPECT_EQ(
      (names_of_recomputed<recompute_plan_of<serial, granularity::cheap>>(granularity::cheap)),
      (names{"h.*.ln_1.", "h.*.ln_2.", "h.*.mlp.1."}));
  // All steps except the last product and its addition.
  names const all{"h.*.ln_1.", "h.*.attn.c_attn.", "h.*.attn.1.",   "h.*.attn.c_proj.",
                  "add",       "h.*.ln_2.",        "h.*.mlp.c_fc.", "h.*.mlp.1."};
  EXPECT_EQ((names_of_recomputed<recompute_plan_of<serial, granularity::all>>(granularity::all)),
            all);
  EXPECT_EQ((names_of_recomputed<recompute_plan_of<tensor_parallel<2>, granularity::all>>(
                granularity::all)),
            (names{"h.*.ln_1.", "h.*.attn.c_attn.", "h.*.attn.1.", "h.*.attn.c_proj.", "all_reduce",
                   "add", "h.*.ln_2.", "h.*.mlp.c_fc.", "h.*.mlp.1."}));
  EXPECT_EQ(
      (names_of_recomputed<recompute_plan_of<sharded, granularity::all>>(granularity::all)),
      (names{"h.*.ln_1.", "all_gather", "h.*.attn.c_attn.", "h.*.attn.1.", "h.*.attn.c_proj.",
             "reduce_scatter", "add", "h.*.ln_2.", "all_gather", "h.*.mlp.c_fc.", "h.*.mlp.1."}));
  // The norm's result on a shard is gathered, and no other operation reads it.
  EXPECT_EQ(
      (names_of_recomputed<recompute_plan_of<sharded, granularity::cheap>>(granularity::cheap)),
      names{"h.*.mlp.1."});
  EXPECT_EQ(
      (names_of_recomputed<recompute_plan_of<sharded, granularity::moves>>(granularity::moves)),
      (names{"h.*.ln_1.", "all_gather", "h.*.ln_2.", "all_gather", "h.*.mlp.1."}));
}

TEST(RecomputePlans, DoOfABlockAgainThreeQuarters) {
  using all = recompute_plan_of<serial, granularity::all>;
  double const once = all::code.items[of_blocks].flops_per_row;
  EXPECT_NEAR(recompute_flops_per_row<all>(of_blocks, granularity::all) / once, 0.728, 0.001);
  // The record still holds the last block when the backward begins.
  double const of_model = all::recompute_work(0, one);
  double model = 0;
  for (auto const& piece : all::code.items) model += piece.flops_per_row * piece.count;
  EXPECT_NEAR(of_model, 11 * 0.728 * once / model, 0.001);
  EXPECT_EQ((plan<gpt2, serial>::recompute_work(0, one)), 0);
}

// Ranks compare the hash: with other recomputations they would make other calls.
TEST(RecomputePlans, AreCompared) {
  auto const hash = []<class Plan>(Plan) {
    return plait::execution::numbers_to_compare<Plan>(Plan::grid).recomputed;
  };
  auto const cheap = hash(recompute_plan_of<serial, granularity::cheap>{});
  auto const first = hash(recompute_plan_of<serial, granularity::cheap, units::first<2>>{});
  auto const all = hash(recompute_plan_of<serial, granularity::all>{});
  EXPECT_EQ(hash(plan<gpt2, serial>{}), 0u);
  EXPECT_NE(cheap, 0u);
  EXPECT_NE(cheap, first);
  EXPECT_NE(cheap, all);
}

// --- how much is needed

// example-begin choice
constexpr workload training{.rows = 8 * 1024, .optimizer_states = 2};
constexpr auto tight = plan<gpt2, serial>::least_recompute(training, 9'000'000'000);
static_assert(tight.fits && tight.what == granularity::all && tight.all_of_first == 10);
static_assert(tight.work < 0.36);  // a part of the work of the step's forwards
// The choice is written as recompute<granularity::all, units::first<10>, granularity::cheap>.
// example-end choice
constexpr auto roomy = plan<gpt2, serial>::least_recompute(training, 24'000'000'000);
static_assert(roomy.fits && roomy.what == granularity::nothing && roomy.work == 0);
// The choice has the bytes of the plan, and with one unit less it would not fit.
using tight_plan =
    recompute_plan_of<serial, granularity::all, units::first<10>, granularity::cheap>;
static_assert(tight_plan::bytes_per_rank(training) == tight.bytes);
static_assert(recompute_plan_of<serial, granularity::all, units::first<9>,
                                granularity::cheap>::bytes_per_rank(training) > 9'000'000'000);
static_assert(recompute_plan_of<serial, granularity::cheap>::bytes_per_rank(training) >
              9'000'000'000);
constexpr auto hopeless = plan<gpt2, serial>::least_recompute(training, 1'000'000'000);
static_assert(!hopeless.fits && hopeless.bytes > 2'000'000'000);
constexpr workload small{.rows = length, .microbatches = 8, .optimizer_states = 2};
constexpr auto nothing_needed = plan<on_stages, pipeline<2>>::least_recompute(small, 4'000'000'000);
static_assert(nothing_needed.fits);

// --- a user's own layers, worked out by hand

struct bodies {
  static void forward(auto&&...) {}
  static void backward_input(auto&&...) {}
  static void backward_parameters(auto&&...) {}
};
struct saves_output : bodies {
  using concept_tag = layer_tag;
  using input = features<8>;
  using output = features<8>;
  using saved = plait::saved<output_slot>;
};
struct saves_nothing : bodies {
  using concept_tag = layer_tag;
  using input = features<8>;
  using output = features<8>;
};
struct saves_its_own : bodies {
  using concept_tag = layer_tag;
  using input = features<8>;
  using output = features<8>;
  using saved = plait::saved<slot<"hidden", 8>, slot<"route", 1, slot_kept::always>>;
};
using dense = nn::linear<8, 8>;
template <class Model>
using all_of = plan<Model, hybrid<serial, recompute<granularity::all>>>;
template <class Model>
using cheap_of = plan<Model, hybrid<serial, recompute<>>>;

template <class Plan>
constexpr std::size_t working() {
  return Plan::arena_for(0, {.rows = 16}).working_bytes;
}
constexpr std::size_t tensor = 16 * 8 * sizeof(float);

/// Returns the steps of the units of an item that run again.
template <class Model>
names of_all(int item = 0) {
  return names_of_recomputed<all_of<Model>>(granularity::all, item);
}
template <class Model>
names of_cheap(int item = 0) {
  return names_of_recomputed<cheap_of<Model>>(granularity::cheap, item);
}

TEST(RecomputePlans, OfLayersOfOnesOwn) {
  // The output of a unit is kept; an output within a unit is recomputed.
  EXPECT_EQ(working<all_of<saves_output>>(), 0u);
  using inside = residual<sequential<saves_output, dense>>;
  EXPECT_EQ(of_all<inside>(), names{"0."});
  EXPECT_EQ(of_cheap<inside>(), names{"0."});
  EXPECT_EQ(working<all_of<inside>>(), tensor);
  // After a product it is kept, since the product's output is not.
  using behind = residual<sequential<dense, saves_output, dense>>;
  EXPECT_EQ(of_cheap<behind>(), names{});
  EXPECT_EQ(of_all<behind>(), (names{"0.", "1."}));
  // No operation reads its output.
  EXPECT_EQ(of_all<residual<saves_nothing>>(), names{});
  // It runs only for the values that it saves; values that are always kept stay in the stash.
  using own = sequential<dense, residual<saves_its_own>>;
  EXPECT_EQ(of_all<own>(1), names{"1."});
  EXPECT_EQ(working<all_of<own>>(), tensor);
  EXPECT_EQ(all_of<own>::activation_layout_for(16).stash_end[1][3], tensor + 64);
}
TEST(RecomputePlans, OfSeveralInputs) {
  using gated =
      residual<sequential<fan_out<sequential<dense, nn::gelu<8>>, dense>, nn::product<8>, dense>>;
  EXPECT_EQ(of_all<gated>(), (names{"0.", "1.", "2.", "3."}));
  EXPECT_EQ(of_cheap<gated>(), (names{"1.", "3."}));
}
TEST(RecomputePlans, OfTiedUsesAndSumsOfLosses) {
  using head = nn::linear<8, 8, nn::linear_options{.bias = false}>;
  using model = objective<
      sequential<named<"a", head>,
                 residual<sequential<tied<head, head::weight, "a.weight">, nn::gelu<8>, dense>>>,
      sum_of<nn::cross_entropy<8>, times<fraction(0.5), nn::cross_entropy<8>>>>;
  EXPECT_EQ(of_all<model>(1).size(), 2u);
  EXPECT_EQ(of_all<model>(2), names{});  // losses never run again
}
TEST(RecomputePlans, OfWhatAModelSays) {
  using model =
      residual<sequential<dense, recomputed<granularity::all, sequential<nn::gelu<8>, dense>>,
                          kept<sequential<nn::gelu<8>, nn::gelu<8>>>, dense>>;
  using says_nothing = plan<model, serial>;
  EXPECT_EQ(names_of_recomputed<says_nothing>(granularity::nothing, 0), (names{"1.", "2."}));
  EXPECT_EQ(of_all<model>(), (names{"0.", "1.", "2."}));
  using keeps = plan<residual<kept<dense>>, serial>;
  EXPECT_FALSE(keeps::has_recompute);
}
// A frozen unit before the first trained unit has no backward, so no operation runs again for it.
TEST(RecomputePlans, OfFrozenLayers) {
  using body = residual<sequential<nn::layer_norm<8>, dense, nn::gelu<8>, dense>>;
  using model = sequential<frozen<body>, body>;
  EXPECT_EQ(of_all<model>(), names{});
  EXPECT_EQ(of_all<model>(1), (names{"4.", "5.", "6."}));
}

}  // namespace recompute_plans
