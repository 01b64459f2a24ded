// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/sharding/arena_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "plan/models.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::models;

struct range {
  std::string what;
  std::size_t begin = 0, end = 0;
};

void expect_no_overlap(std::vector<range> ranges, std::size_t limit) {
  std::sort(ranges.begin(), ranges.end(),
            [](range const& a, range const& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].begin % alignment_bytes, 0u) << ranges[i].what;
    EXPECT_LE(ranges[i].end, limit) << ranges[i].what;
    if (i == 0) continue;
    auto const& before = ranges[i - 1];
    EXPECT_LE(before.end, ranges[i].begin) << before.what << " and " << ranges[i].what;
  }
}

template <class Plan>
void expect_sound_activations(std::size_t rows) {
  constexpr auto& code = Plan::code;
  auto const layout = Plan::activation_layout_for(rows);
  auto const bytes_of = [&](int v) {
    auto const& what = code.values[v];
    return local_block(what, rows, Plan::tensor_ranks).count() *
           (what.info.kind == value_kind::tokens ? sizeof(std::int32_t) : Plan::element_bytes);
  };
  for (int i = 0; i < code.items.size(); ++i) {
    auto const& piece = code.items[i];
    auto const at = static_cast<std::size_t>(i);
    EXPECT_GE(layout.input_bytes[at], bytes_of(piece.in));
    std::vector<range> record{{"output", 0, bytes_of(piece.out)}}, forward, backward;
    for (int v = 0; v < code.values.size(); ++v) {
      if (code.values[v].item != i) continue;
      auto const index = static_cast<std::size_t>(v);
      auto const place = [&](residence const& where, std::size_t offset, auto& transient) {
        if (where.root != v) return;
        range const mine{"value " + std::to_string(v), offset, offset + bytes_of(v)};
        if (where.where == storage_kind::kept) record.push_back(mine);
        if (where.where == storage_kind::transient) transient.push_back(mine);
      };
      place(Plan::storage.values[index], layout.value_offset[index], forward);
      place(Plan::storage.gradients[index], layout.gradient_offset[index], backward);
    }
    for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf) {
      auto const& info = Plan::tree.leaves[leaf];
      auto const each = [&](slots_info const& slots, auto const& offsets, auto&& add) {
        for (int k = 0; k < slots.own.size(); ++k) {
          auto const index = static_cast<std::size_t>(k);
          std::size_t const bytes =
              slot_count(slots.own[k], code.form(leaf), rows, Plan::tensor_ranks) *
              Plan::element_bytes;
          add(range{"slot " + slots.own[k].label.text() + " of leaf " + std::to_string(leaf),
                    offsets[index], offsets[index] + bytes});
        }
      };
      each(info.saved, layout.saved_offset[static_cast<std::size_t>(leaf)],
           [&](range const& slot) { record.push_back(slot); });
      // A leaf's scratch is used in its forward and in its backward.
      each(info.scratch, layout.scratch_offset[static_cast<std::size_t>(leaf)],
           [&](range const& slot) { forward.push_back(slot), backward.push_back(slot); });
    }
    expect_no_overlap(record, layout.activation_stash_bytes[at]);
    expect_no_overlap(forward, layout.transient_bytes[at]);
    expect_no_overlap(backward, layout.transient_bytes[at]);
    EXPECT_EQ(layout.activation_stash_bytes[at] % alignment_bytes, 0u);
    for (int s = piece.first_node; s < piece.end_node; ++s)
      if (code.nodes[s].kind == program_node_kind::move) {
        EXPECT_GE(layout.staging_bytes[at], bytes_of(code.nodes[s].in));
        EXPECT_GE(layout.staging_bytes[at], bytes_of(code.nodes[s].out));
      }
  }
}

/// Checks the arena of a stage: its regions are contiguous, each as long as its slots need.
template <class Plan>
void expect_sound_arena(workload const& load) {
  for (int stage = 0; stage < Plan::stages; ++stage) {
    auto const arena = Plan::arena_for(stage, load);
    ASSERT_EQ(arena.chunks.size(), 1u);
    auto const& chunk = arena.chunks[0];
    EXPECT_EQ(chunk.begins_model, stage == 0);
    EXPECT_EQ(chunk.ends_model, stage == Plan::stages - 1);
    int const microbatches = Plan::completed(load).microbatches;
    auto const slots = Plan::slots_for(stage, microbatches);
    auto const places = arena.template place<true>(Plan::passes_of(stage, load), microbatches);
    auto const region = [&](plait::planning::live_buffer what, char const* name, int count,
                            std::size_t bytes) {
      auto const& turns = places.turns[static_cast<std::size_t>(what)];
      EXPECT_EQ(turns.count, bytes == 0 ? 0 : count) << name;
      EXPECT_EQ(turns.bytes, bytes) << name;
      std::size_t const begin =
          turns.count == 0 ? places.bytes : turns.first.offset;  // the region is empty
      return range{name, begin, begin + bytes * static_cast<std::size_t>(turns.count)};
    };
    using plait::planning::live_buffer;
    expect_no_overlap(
        {region(live_buffer::stash, "records", slots.activations, chunk.activation_stash_bytes),
         region(live_buffer::input, "inputs", slots.inputs,
                chunk.begins_model ? 0 : chunk.input_bytes),
         region(live_buffer::gradient, "gradients", slots.gradients,
                chunk.ends_model ? 0 : chunk.output_bytes),
         {"edges", arena.edges_offset, arena.edges_offset + 2 * arena.edge_bytes},
         {"transient", arena.transient_offset, arena.transient_offset + arena.transient_bytes},
         {"staging", arena.staging_offset, arena.staging_offset + arena.staging_bytes},
         {"zeros", arena.zeros_offset,
          arena.zeros_offset + plait::planning::longest_masked(
                                   Plan::code.items.view(), Plan::entries, Plan::chunks_of(stage)) *
                                   Plan::element_bytes}},
        arena.total_bytes);
    EXPECT_EQ(arena.total_bytes, Plan::memory(stage, load).activations);
  }
}

/// Checks that every parameter of a stage has its place, and that parameters fill the arena.
/// Parameters that are reduced over the same axes are contiguous.
template <class Plan>
void expect_sound_parameters() {
  std::set<int> numbers;
  auto const number = [](int entry, int copy) {
    return plait::planning::number_of_tensor(Plan::code.items.view(), Plan::entries.view(),
                                             plait::planning::one_if_owner, entry, copy);
  };
  for (int stage = 0; stage < Plan::stages; ++stage) {
    auto const layout = Plan::parameter_layout_for(stage, Plan::grid);
    std::vector<bool> taken(layout.kept_count() + layout.tied_count, false);
    std::size_t filled = 0, padding = 0;
    auto const take = [&](std::size_t offset, std::size_t count, std::size_t begin,
                          std::size_t end) {
      ASSERT_LE(begin, offset);
      ASSERT_LE(offset + count, end);
      EXPECT_EQ(offset % plait::planning::parameter_alignment, 0u);
      for (std::size_t k = offset; k < offset + count; ++k) {
        EXPECT_FALSE(taken[k]) << "element " << k << " belongs to two parameters";
        taken[k] = true;
      }
      filled += count;
      padding += plait::planning::rounded_up(count, plait::planning::parameter_alignment) - count;
    };
    for (int e = 0; e < Plan::entries.size(); ++e) {
      auto const& entry = Plan::entries[e];
      auto const here = overlap(Plan::code.items[entry.item].units(), Plan::chunks_of(stage)[0]);
      for (int unit = here.begin; unit < here.end; ++unit) {
        if (entry.owner >= 0) {
          auto const& owner = Plan::entries[entry.owner];
          EXPECT_EQ(layout.offset(e, unit),
                    layout.offset(entry.owner, Plan::code.items[owner.item].first_unit));
          // Accumulators follow the regions of the gradients, which do not include frozen
          // parameters.
          if (!entry.is_frozen)
            take(layout.frozen_count + layout.gradient_offset(e, unit), entry.local_count(),
                 layout.kept_count(), taken.size());
          continue;
        }
        EXPECT_TRUE(
            numbers.insert(number(e, unit - Plan::code.items[entry.item].first_unit)).second);
        EXPECT_EQ(layout.gradient_offset(e, unit), layout.offset(e, unit));
        auto const region = entry.is_frozen ? element_range{layout.count(), layout.frozen_count}
                                            : layout.regions[entry.reduced_over_tensor() ? 1 : 0];
        take(layout.offset(e, unit), entry.local_count(), region.offset, region.end());
      }
    }
    // All other elements are padding of a parameter, or of a unit.
    auto const batch = static_cast<std::size_t>(Plan::grid.size(plait::ext::batch_axes));
    for (auto const& region : layout.regions)
      EXPECT_EQ(region.count % (plait::planning::parameter_alignment * batch), 0u);
    if (batch == 1) {
      EXPECT_EQ(filled + padding, taken.size());
    }
  }
  EXPECT_EQ(static_cast<int>(numbers.size()), Plan::parameter_tensor_count());
  EXPECT_EQ(*numbers.begin(), 0);
  EXPECT_EQ(*numbers.rbegin(), Plan::parameter_tensor_count() - 1);
}

template <class Plan>
void expect_sound() {
  for (std::size_t const rows : {std::size_t{8}, std::size_t{24}, std::size_t{40}})
    expect_sound_activations<Plan>(rows);
  for (int const microbatches : {1, 3, 8})
    expect_sound_arena<Plan>({.rows = 24, .microbatches = microbatches});
  expect_sound_parameters<Plan>();
}

using model = gpt_with_loss<5, 16, 4, 8, 32>;
using narrow_model = gpt_with_loss<3, 12, 2, 8, 14>;  // no buffer is a multiple of 64 bytes
using table = nn::embedding<32, 16>;
using head = nn::linear<16, 32, head_options>;
using tied_model = objective<sequential<named<"wte", use_form<"vocabulary", table>>,
                                        residual<sequential<nn::layer_norm<16>, mlp<16>>>,
                                        use_form<"column", tied<head, head::weight, "wte.weight">>>,
                             nn::cross_entropy<32>>;

template <class Plan>
struct Layout : ::testing::Test {};
using Plans = ::testing::Types<
    plan<model, serial>, plan<model, serial, double>, plan<model, pipeline<3>>,
    plan<model, tensor_parallel<2>>, plan<model, tensor_parallel<2, sequence::sharded>>,
    plan<model, hybrid<pipeline<2>, tensor_parallel<4, sequence::sharded>>, double>,
    plan<narrow_model, serial>, plan<narrow_model, tensor_parallel<2, sequence::sharded>>,
    plan<narrow_model, pipeline<7>>, plan<tied_model, serial>, plan<tied_model, tensor_parallel<2>>,
    plan<frozen<tied_model>, tensor_parallel<2>>,
    plan<frozen<model, "wpe.*", "h.*.attn.*", "h.*.ln_1.*">,
         hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2, sequence::sharded>>>>;
TYPED_TEST_SUITE(Layout, Plans);

TYPED_TEST(Layout, NothingOverlaps) { expect_sound<TypeParam>(); }

TEST(Layout, ABlockIsCutByRowsOrByColumns) {
  value what{{value_kind::features, 24}, invariant};
  EXPECT_EQ(local_block(what, 10, 2).count(), 240u);
  what.at = shard<dim::sequence>;
  EXPECT_EQ(local_block(what, 10, 2).rows, 5u);
  EXPECT_EQ(local_block(what, 10, 2).columns, 24u);
  what.at = shard<dim::features, 3>;
  EXPECT_EQ(local_block(what, 10, 2).rows, 10u);
  EXPECT_EQ(local_block(what, 10, 2).columns, 12u);
  what.at = partial;
  EXPECT_EQ(local_block(what, 10, 2).count(), 240u);
}

TEST(Layout, ASlotFollowsTheRowsAndIfItSaysSoTheFeatures) {
  slot_info const per_row{.per_row = 6}, per_head{.per_row = 6, .follows_features = true};
  slot_info const table_of{.fixed = 100};
  form_info const all{"whole", invariant, invariant};
  form_info const heads{"heads", shard<dim::features, 3>, shard<dim::features>};
  form_info const cut{"sequence", shard<dim::sequence>, shard<dim::sequence>};
  EXPECT_EQ(slot_count(per_row, all, 10, 2), 60u);
  EXPECT_EQ(slot_count(per_row, heads, 10, 2), 60u);
  EXPECT_EQ(slot_count(per_head, heads, 10, 2), 30u);
  EXPECT_EQ(slot_count(per_row, cut, 10, 2), 30u);
  EXPECT_EQ(slot_count(per_head, cut, 10, 2), 30u);
  EXPECT_EQ(slot_count(table_of, heads, 10, 2), 100u);
  EXPECT_EQ(slot_count(table_of, cut, 10, 2), 100u);
}

TEST(Layout, SizesAreRoundedUpToTheAlignment) {
  EXPECT_TRUE((aligned(0) == 0 && aligned(1) == 64 && aligned(64) == 64 && aligned(65) == 128));
}

// A layer that is wide on one stage takes no memory on another.
TEST(Layout, AStageHasRoomForItsOwnItems) {
  using dense = nn::linear<8, 8>;
  using two = pipeline<2, one_forward_one_backward, cut_at<1>>;
  auto const planned = []<std::size_t Wide>(std::integral_constant<std::size_t, Wide>) {
    using block = residual<sequential<nn::linear<8, Wide>, nn::gelu<Wide>, nn::linear<Wide, 8>>>;
    return plan<objective<sequential<block, dense>, nn::cross_entropy<8>>, two>{};
  };
  constexpr auto wide = planned(std::integral_constant<std::size_t, 1024>{});
  constexpr auto narrow = planned(std::integral_constant<std::size_t, 8>{});
  constexpr workload load{.rows = 8, .microbatches = 2};
  EXPECT_EQ(wide.memory(1, load).activations, narrow.memory(1, load).activations);
  EXPECT_GT(wide.memory(0, load).activations, 8 * narrow.memory(0, load).activations);
  EXPECT_GE(wide.arena_for(0, load).transient_bytes, std::size_t{8 * 1024 * 4});
}

// Every rank of a stage holds its block of each cut parameter and all of the others.
TEST(Layout, TheBlocksOfAllRanksAreTheModel) {
  using cut = plan<model, hybrid<pipeline<2>, tensor_parallel<2>>>;
  std::size_t held = 0;
  for (int stage = 0; stage < cut::stages; ++stage)
    for (auto const& parameter : cut::blocks(stage, 0, cut::grid)) held += 2 * parameter.count;
  std::size_t repeated = 0;
  for (auto const& entry : cut::entries)
    if (!is_shard(entry.stored))
      repeated += entry.info.count() * static_cast<std::size_t>(cut::code.items[entry.item].count);
  EXPECT_EQ(held - repeated, cut::parameter_count());
}

}  // namespace
