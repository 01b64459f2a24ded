// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/model/form_planner.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "plait/nn/batch_norm.hpp"
#include "plait/nn/conv2d.hpp"
#include "plait/nn/group_norm.hpp"
#include "plan/models.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::models;

/// Returns the labels of the forms that a plan chose.
template <class Plan>
std::vector<std::string> labels() {
  std::vector<std::string> out;
  for (auto const* form : Plan::code.forms) out.push_back(form->label.text());
  return out;
}

/// Returns how many moves of this kind the forward or the backward makes.
template <class Plan>
constexpr int count_moves(row_operation kind, bool backward = false) {
  int count = 0;
  for (auto const& now : Plan::code.nodes) {
    if (now.kind != program_node_kind::move) continue;
    if (backward && !Plan::needs_gradient[static_cast<std::size_t>(now.in)]) continue;
    auto const row =
        transition_between(Plan::code.values[now.in].at, Plan::code.values[now.out].at);
    count += (backward ? adjoint(row) : row).moves == kind;
  }
  return count;
}
template <class Plan>
constexpr int count_messages(bool backward = false) {
  int count = 0;
  for (int kind = 0; kind < plait::ext::collective_count; ++kind)
    count += count_moves<Plan>(static_cast<collective>(kind), backward);
  return count + count_moves<Plan>(plait::ext::all_reduce_max, backward);
}

constexpr std::size_t width = 32, length = 16, rows = 64;
constexpr std::int64_t activation_bytes = rows * width * 4;

template <std::size_t Leaf, class Plan>
constexpr bool chose(name label) {
  return Plan::code.form(static_cast<int>(Leaf)).label == label;
}

// --- the shape of Megatron comes out by itself --------------------------------------------------

using norm_mlp = sequential<nn::layer_norm<width>, nn::linear<width, 4 * width>,
                            nn::gelu<4 * width>, nn::linear<4 * width, width>>;
using split_mlp = plan<norm_mlp, tensor_parallel<2>>;
static_assert(chose<0, split_mlp>("whole") && chose<1, split_mlp>("column") &&
              chose<2, split_mlp>("features") && chose<3, split_mlp>("row"));
static_assert(count_moves<split_mlp>(collective::all_reduce) == 1 &&
              count_messages<split_mlp>() == 1);
static_assert(count_moves<split_mlp>(collective::all_reduce, true) == 1 &&
              count_messages<split_mlp>(true) == 1);
// An all_reduce of n bytes sends 2 n (p - 1) / p.
static_assert(split_mlp::bytes_sent(axis::tensor, {.rows = rows}).forward == activation_bytes);
static_assert(split_mlp::bytes_sent(axis::tensor, {.rows = rows}).backward == activation_bytes);
static_assert(plan<norm_mlp, tensor_parallel<4>>::bytes_sent(axis::tensor, {.rows = rows})
                  .total() == 2 * 2 * activation_bytes * 3 / 4);

using attention_block =
    residual<sequential<nn::layer_norm<width>, nn::causal_self_attention<width, 4, length>>>;
using split_attention = plan<attention_block, tensor_parallel<2>>;
static_assert(chose<0, split_attention>("whole") && chose<1, split_attention>("column") &&
              chose<2, split_attention>("heads") && chose<3, split_attention>("row"));
static_assert(split_attention::code.form(1).uses[0] == shard<1, 3>, "query, key and value");
static_assert(split_attention::code.form(1).uses[1] == shard<0, 3>, "their biases");
static_assert(split_attention::code.form(3).uses[0] == shard<0>);
static_assert(split_attention::code.form(3).uses[1] == partial, "the bias enters once");
static_assert(count_messages<split_attention>() == 1 && count_messages<split_attention>(true) == 1);
static_assert(split_attention::bytes_sent(axis::tensor, {.rows = rows}).forward ==
              activation_bytes);
static_assert(split_attention::bytes_sent(axis::tensor, {.rows = rows}).backward ==
              activation_bytes);

// --- with the sequence switch -------------------------------------------------------------------

using sharded_attention = plan<attention_block, tensor_parallel<2, sequence::sharded>>;
static_assert(chose<0, sharded_attention>("sequence") && chose<1, sharded_attention>("column") &&
              chose<2, sharded_attention>("heads") && chose<3, sharded_attention>("row"));
static_assert(count_moves<sharded_attention>(collective::all_gather) == 1 &&
              count_moves<sharded_attention>(collective::reduce_scatter) == 1 &&
              count_messages<sharded_attention>() == 2);
static_assert(count_moves<sharded_attention>(collective::all_gather, true) == 1 &&
              count_moves<sharded_attention>(collective::reduce_scatter, true) == 1);
static_assert(sharded_attention::bytes_sent(axis::tensor, {.rows = rows}).forward ==
                      split_attention::bytes_sent(axis::tensor, {.rows = rows}).forward &&
                  sharded_attention::bytes_sent(axis::tensor, {.rows = rows}).backward ==
                      split_attention::bytes_sent(axis::tensor, {.rows = rows}).backward,
              "the same bytes");
static_assert(sharded_attention::chosen.cost.flops < split_attention::chosen.cost.flops,
              "no rank repeats the norm");
static_assert(sharded_attention::chosen.cost.held == split_attention::chosen.cost.held);
static_assert(sharded_attention::chosen.output == shard<dim::sequence>);

// The residual stream, the norm's input and output and the sum are cut as sequence shards.
static_assert([] {
  auto const& code = sharded_attention::code;
  for (auto const& now : code.nodes) {
    bool const on_shards = now.kind == program_node_kind::branch ||
                           now.kind == program_node_kind::add ||
                           (now.kind == program_node_kind::leaf && now.leaf == 0);
    if (on_shards && (code.values[now.in].at != shard<dim::sequence> ||
                      code.values[now.out].at != shard<dim::sequence>))
      return false;
  }
  return true;
}());
// Each rank has other rows of the norm, so its parameters' gradients are also summed over the
// tensor axis. Omitting this sum is a classic bug.
static_assert(sharded_attention::code.form(0).uses[0] == replicate &&
              sharded_attention::code.form(0).uses[1] == replicate);
static_assert(sharded_attention::entries[0].reduced_over_tensor() &&
              sharded_attention::entries[1].reduced_over_tensor());
static_assert(!split_attention::entries[0].reduced_over_tensor());
static_assert(sharded_attention::bytes_sent(axis::data | axis::tensor, {.rows = rows}).step ==
              2 * rounded_up(width, parameter_alignment) * 4);

// --- a GPT of 12 blocks -------------------------------------------------------------------------

using model = gpt_with_loss<12, width, 4, length, 64>;
using split_gpt = plan<model, tensor_parallel<2>>;
using sharded_gpt = plan<model, tensor_parallel<2, sequence::sharded>>;

TEST(FormPlanner, AGptOfTwelveBlocks) {
  EXPECT_EQ(
      labels<split_gpt>(),
      (std::vector<std::string>{"features", "features", "whole", "column", "heads", "row", "whole",
                                "column", "features", "row", "whole", "column", "classes"}));
  EXPECT_EQ(labels<sharded_gpt>(),
            (std::vector<std::string>{"features", "features", "sequence", "column", "heads", "row",
                                      "sequence", "column", "features", "row", "sequence", "column",
                                      "classes"}));
}

// Two all_reduces forward in each block, an all_gather of the embeddings, and the loss's maximum
// and two sums for each row; backward two in each block and one for the head's input.
static_assert(split_gpt::bytes_sent(axis::tensor, {.rows = rows}).forward ==
              12 * 2 * activation_bytes + activation_bytes / 2 + 3 * rows * 4);
static_assert(split_gpt::bytes_sent(axis::tensor, {.rows = rows}).backward ==
              12 * 2 * activation_bytes + activation_bytes);
// The blocks send equal bytes; the plan has an all_to_all after the embeddings, and an all_gather
// for the head.
static_assert(sharded_gpt::bytes_sent(axis::tensor, {.rows = rows}).forward ==
              12 * 2 * activation_bytes + activation_bytes / 4 + activation_bytes / 2 +
                  3 * rows * 4);
static_assert(sharded_gpt::bytes_sent(axis::tensor, {.rows = rows}).backward ==
              12 * 2 * activation_bytes + activation_bytes / 4 + activation_bytes / 2);
static_assert(sharded_gpt::chosen.cost.flops < split_gpt::chosen.cost.flops);

TEST(FormPlanner, EveryMoveIsARowThatMayBeDerived) {
  auto const check = [](auto const& code) {
    for (auto const& now : code.nodes) {
      if (now.kind != program_node_kind::move) continue;
      auto const row = transition_between(code.values[now.in].at, code.values[now.out].at);
      EXPECT_EQ(row.status, derivation::automatic)
          << to_string(row.from) << " to " << to_string(row.to);
    }
  };
  check(split_gpt::code);
  check(sharded_gpt::code);
}

// --- pins ---------------------------------------------------------------------------------------

using dense = nn::linear<width, width>;

TEST(FormPlanner, APinIsKept) {
  using strings = std::vector<std::string>;
  EXPECT_EQ((labels<plan<sequential<dense, dense>, tensor_parallel<2>>>()),
            (strings{"column", "row"}));
  EXPECT_EQ((labels<plan<sequential<use_form<"row", dense>, dense>, tensor_parallel<2>>>())[0],
            "row");
  EXPECT_EQ((labels<plan<sequential<dense, use_form<"whole", dense>>, tensor_parallel<2>>>())[1],
            "whole");
  EXPECT_EQ((labels<plan<use_form<"whole", sequential<dense, dense>>, tensor_parallel<2>>>()),
            (strings{"whole", "whole"}));
}

TEST(FormPlanner, PinnedToWholeNothingIsSent) {
  using lonely = plan<use_form<"whole", norm_mlp>, tensor_parallel<2>>;
  EXPECT_EQ(lonely::bytes_sent(axis::tensor, {.rows = rows}).total(), 0);
  EXPECT_EQ(lonely::chosen.cost.flops, (plan<norm_mlp, serial>::chosen.cost.flops));
}

TEST(FormPlanner, OneRankHasNothingToSend) {
  EXPECT_EQ((plan<model, tensor_parallel<1>>::bytes_sent(axis::tensor, {.rows = rows}).total()), 0);
  EXPECT_EQ(
      (plan<model, tensor_parallel<1, sequence::sharded>>::bytes_sent(axis::tensor, {.rows = rows})
           .total()),
      0);
}

// --- what cannot be planned is said -------------------------------------------------------------

template <class Model>
constexpr auto chosen_for(int ranks, bool shard_sequence = false) {
  return choose_forms(make_outline<Model>(), ranks, {.sequence = shard_sequence});
}

TEST(FormPlanner, SaysWhichLayerAndWhichLengthDoNotDivide) {
  constexpr auto odd = chosen_for<sequential<dense, nn::linear<width, 9>, nn::linear<9, 7>>>(2);
  static_assert(odd.error == planning_error::nothing_divides && odd.error_leaf == 2);
  EXPECT_TRUE(odd.error_length == 9 || odd.error_length == 7);
  constexpr auto heads = chosen_for<nn::causal_self_attention<48, 6, 16>>(4);
  static_assert(heads.error == planning_error::nothing_divides && heads.error_leaf == 1 &&
                heads.error_length == 6);
  constexpr auto parts =
      chosen_for<use_form<"column", nn::linear<8, 24, linear_options{.parts = 3}>>>(16);
  static_assert(parts.error == planning_error::form_not_divisible);
  EXPECT_EQ(parts.error_length, 24u) << "24 divides by 8 but not in 3 parts by 16";
}

// One width that the number of ranks divides is enough, in any dimension of the layer.
TEST(FormPlanner, OneWidthThatDividesIsEnough) {
  constexpr auto takes = []<class L>(L, int ranks) {
    return chosen_for<L>(ranks).error == planning_error::none;
  };
  static_assert(takes(nn::embedding<6, 4>{}, 3) && takes(nn::embedding<4, 6>{}, 3));
  static_assert(takes(nn::linear<6, 4>{}, 3) && takes(nn::linear<4, 6>{}, 3));
  static_assert(takes(nn::positions<4, 6>{}, 3) &&
                takes(nn::group_norm<nn::image<6, 4, 4>, 6>{}, 3));
  static_assert(takes(nn::conv2d<nn::image<6, 4, 4>, 4>{}, 3) &&
                takes(nn::conv2d<nn::image<4, 4, 4>, 6>{}, 3));
  static_assert(takes(nn::batch_norm<nn::image<6, 4, 4>>{}, 3));
  using table = nn::embedding<6, 4>;
  constexpr auto by_rows = chosen_for<table>(3);
  EXPECT_EQ(leaf_of<table>.forms[by_rows.form[0]].label, name("vocabulary"));
  constexpr auto none = chosen_for<nn::embedding<5, 4>>(3);
  EXPECT_TRUE(none.error == planning_error::nothing_divides);
  constexpr auto pinned = chosen_for<use_form<"vocabulary", nn::embedding<7, 6>>>(3);
  EXPECT_TRUE(pinned.error == planning_error::form_not_divisible && pinned.error_length == 7);
  constexpr auto no_parameters = chosen_for<use_form<"features", nn::relu<7>>>(3);
  EXPECT_TRUE(no_parameters.error == planning_error::form_not_divisible);
}

/// A layer whose inputs may be cut into many numbers of parts.
template <int... Parts>
struct in_parts {
  using concept_tag = layer_tag;
  static constexpr std::size_t width = 360360;  // a multiple of 1 to 15
  using input = inputs<features<width>, features<width>>;
  using output = features<width>;
  template <int Part>
  using one = form<name{std::uint64_t('a') + Part, 0, 0, 0},
                   each<shard<dim::features, Part>, shard<dim::features, Part + 7>>,
                   shard<dim::features, Part>>;
  using forms = plait::forms<whole, one<Parts>...>;
};
TEST(FormPlanner, HasRoomForAllPlacements) {
  using layer = in_parts<1, 2, 3, 4, 5, 6, 7>;
  using branch = nn::relu<layer::width>;
  constexpr auto chosen = chosen_for<sequential<fan_out<branch, branch>, layer>>(1);
  EXPECT_TRUE(chosen.error == planning_error::none);
}

TEST(FormPlanner, SaysWhichPinIsWrong) {
  constexpr auto unknown = chosen_for<sequential<dense, use_form<"rows", dense>>>(2);
  static_assert(unknown.error == planning_error::unknown_form && unknown.error_leaf == 1);
  constexpr auto no_way = chosen_for<repeat<2, use_form<"row", dense>>>(2);
  static_assert(no_way.error == planning_error::no_chain);
  constexpr auto fine = chosen_for<sequential<dense, use_form<"row", dense>>>(2);
  EXPECT_TRUE((fine.error == planning_error::none));
}

// --- against all chains there are ---------------------------------------------------------------

struct way {
  placement in, out;
  double flops = 0, held = 0, bytes_sent = 0;
  int calls = 0;
};

/// Every way to run a part of a model, found without any pruning.
template <class Tree>
struct all_ways {
  Tree const& tree;
  int ranks;
  bool shard_sequence;

  bool cross(way& of, placement from, placement to, std::size_t value_width,
             bool differentiable) const {
    auto const row = transition_between(from, to);
    if (row.status != derivation::automatic) return false;
    auto const add = [&](row_operation moves) {
      double const n = static_cast<double>(value_width), p = ranks;
      switch (moves.sent) {
        case collective::all_reduce: of.bytes_sent += 2 * n * (p - 1) / p; break;
        case collective::all_gather:
        case collective::reduce_scatter: of.bytes_sent += n * (p - 1) / p; break;
        case collective::all_to_all: of.bytes_sent += n * (p - 1) / (p * p); break;
        default: EXPECT_FALSE(communicates(moves)); break;
      }
      of.calls += communicates(moves);
    };
    add(row.moves);
    if (differentiable) add(transition_between(dual(to), dual(from)).moves);
    return true;
  }
  static bool differentiable(value_info info) { return info.kind == value_kind::features; }
  static std::size_t width_of(value_info info) { return differentiable(info) ? info.width : 0; }

  value_info output(int at) const {
    auto const& here = tree.nodes[at];
    if (here.kind == node_kind::leaf) return tree.leaves[here.leaf].output;
    int last = at + 1;
    while (tree.nodes[last].end < here.end) last = tree.nodes[last].end;
    return output(last);
  }

  std::vector<way> of_leaf(int leaf_index) const {
    std::vector<way> out;
    auto const& leaf = tree.leaves[leaf_index];
    for (int i = 0; i < leaf.forms.size(); ++i) {
      auto const& form = leaf.forms[i];
      auto const by_sequence = [](placement at) {
        return is_shard(at) && at.index == dim::sequence;
      };
      if ((by_sequence(form.input()) || by_sequence(form.output)) && !shard_sequence) continue;
      auto const pin = tree.pins[leaf_index];
      if (!pin.empty() && form.label != pin) continue;
      way mine{form.input(), form.output};
      mine.flops =
          leaf.flops_per_row / (is_shard(form.input()) || is_shard(form.output) ? ranks : 1);
      for (int k = 0; k < leaf.parameters.size(); ++k) {
        auto const& parameter = leaf.parameters[k];
        if (parameter.rank == 2)
          mine.held += static_cast<double>(parameter.count()) /
                       (is_shard(form.uses[static_cast<std::size_t>(k)]) ? ranks : 1);
      }
      out.push_back(mine);
    }
    return out;
  }

  static void add(way& to, way const& more, int times = 1) {
    to.flops += more.flops * times, to.held += more.held * times;
    to.bytes_sent += more.bytes_sent * times, to.calls += more.calls * times;
  }

  std::vector<way> of(int at) const {
    auto const& here = tree.nodes[at];
    switch (here.kind) {
      case node_kind::leaf: return of_leaf(here.leaf);
      case node_kind::named: return of(at + 1);
      case node_kind::repeat: {
        std::vector<way> out;
        for (auto const& once : of(at + 1)) {
          if (once.in != once.out) continue;
          way all{once.in, once.out};
          add(all, once, here.count);
          out.push_back(all);
        }
        return out;
      }
      case node_kind::residual: {
        std::vector<way> out;
        auto const info = output(at + 1);
        for (auto const edge : {invariant, shard<dim::sequence>}) {
          if (edge != invariant && !shard_sequence) continue;
          for (auto const& branch : of(at + 1)) {
            way closed{edge, edge};
            add(closed, branch);
            if (cross(closed, edge, branch.in, width_of(info), true) &&
                cross(closed, branch.out, edge, width_of(info), true))
              out.push_back(closed);
          }
        }
        return out;
      }
      case node_kind::fan_out:
      case node_kind::sum_of: return {};  // these tests have no such node
      case node_kind::sequential:
      case node_kind::objective: break;
    }
    auto chains = of(at + 1);
    int before = at + 1;
    for (int child = tree.nodes[at + 1].end; child < here.end; child = tree.nodes[child].end) {
      std::vector<way> longer;
      auto const info = output(before);
      for (auto const& first : chains)
        for (auto const& second : of(child)) {
          way both{first.in, second.out};
          add(both, first), add(both, second);
          if (cross(both, first.out, second.in, width_of(info), differentiable(info)))
            longer.push_back(both);
        }
      chains = longer, before = child;
    }
    return chains;
  }

  /// Returns the cheapest way through the whole model.
  way best() const {
    std::vector<way> all;
    for (auto const& through : of(0))
      for (auto const end : {invariant, shard<dim::sequence>}) {
        if (end != invariant && !shard_sequence) continue;
        way whole = through;
        auto const info = tree.leaves[0].input();
        if (cross(whole, invariant, through.in, width_of(info), false) &&
            cross(whole, through.out, end, width_of(output(0)), true))
          all.push_back(whole);
      }
    EXPECT_FALSE(all.empty());
    way cheapest = all.front();
    for (auto const& each : all)
      if (less(each, cheapest)) cheapest = each;
    return cheapest;
  }

  static bool less(way const& a, way const& b) {
    auto const differ = [](double x, double y) { return std::abs(x - y) > 1e-6 * (x + y); };
    if (differ(a.flops, b.flops)) return a.flops < b.flops;
    if (differ(a.held, b.held)) return a.held < b.held;
    if (differ(a.bytes_sent, b.bytes_sent)) return a.bytes_sent < b.bytes_sent;
    return a.calls < b.calls;
  }
};

template <class Model>
void expect_best(int ranks) {
  static constexpr auto tree = make_outline<Model>();
  for (bool const shard_sequence : {false, true}) {
    auto const expected =
        all_ways<std::remove_const_t<decltype(tree)>>{tree, ranks, shard_sequence}.best();
    auto const chosen = choose_forms(tree, ranks, {.sequence = shard_sequence});
    EXPECT_EQ(chosen.error, planning_error::none);
    auto const near = [](double x, double y) { return std::abs(x - y) <= 1e-6 * (x + y); };
    EXPECT_TRUE(near(chosen.cost.flops, expected.flops));
    EXPECT_TRUE(near(chosen.cost.held, expected.held));
    EXPECT_TRUE(near(chosen.cost.bytes_sent, expected.bytes_sent))
        << chosen.cost.bytes_sent << " instead of " << expected.bytes_sent;
    EXPECT_EQ(chosen.cost.calls, expected.calls);
  }
}

TEST(FormPlanner, NoOtherChainIsCheaper) {
  using wide = nn::linear<width, 4 * width>;
  using narrow = nn::linear<4 * width, width>;
  for (int const ranks : {2, 4}) {
    expect_best<dense>(ranks);
    expect_best<nn::layer_norm<width>>(ranks);
    expect_best<norm_mlp>(ranks);
    expect_best<attention_block>(ranks);
    expect_best<residual<norm_mlp>>(ranks);
    expect_best<sequential<dense, dense, dense, dense>>(ranks);
    expect_best<sequential<wide, nn::relu<4 * width>, narrow, nn::dropout<width, 100>, dense>>(
        ranks);
    expect_best<
        sequential<use_form<"row", dense>, nn::relu<width>, use_form<"column", dense>, dense>>(
        ranks);
    expect_best<sequential<use_form<"whole", dense>, residual<sequential<wide, narrow>>>>(ranks);
    expect_best<repeat<3, sequential<dense, dense>>>(ranks);
    expect_best<repeat<3, residual<sequential<nn::layer_norm<width>, wide, narrow>>>>(ranks);
    expect_best<residual<sequential<dense, residual<sequential<nn::layer_norm<width>, dense>>>>>(
        ranks);
    expect_best<sequential<nn::embedding<64, width>, nn::positions<length, width>,
                           nn::layer_norm<width>, nn::linear<width, 64>>>(ranks);
  }
}

}  // namespace
