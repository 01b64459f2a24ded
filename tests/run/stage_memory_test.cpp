// SPDX-License-Identifier: Apache-2.0
// The places of parameters, gradients and kept values of the units of a stage: each has a place of
// its own in its arena, further uses have their owner's, and a rank that does not count sees zeros.
#include "plait/run/stage_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "plait/plait.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

/// Ranges of elements or bytes that must not touch each other.
class taken_ranges {
 public:
  void take(std::ptrdiff_t begin, std::size_t count) {
    all_.push_back({begin, begin + std::ptrdiff_t(count)});
  }
  void expect_apart_within(std::ptrdiff_t begin, std::size_t count) {
    std::ranges::sort(all_);
    for (auto const& [first, end] : all_) {
      EXPECT_LE(begin, first);
      begin = end;
    }
    EXPECT_LE(begin, std::ptrdiff_t(count));
    EXPECT_FALSE(all_.empty());
  }

 private:
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> all_{};
};

/// The arenas of one rank, and their layouts.
template <class Job, class Rank>
struct rank_memory {
  using plan = typename Job::plan_type;
  using memory_type = execution::stage_memory_of<Job, host_memory>;
  workload load{.rows = small_gpt::length};
  parameter_layout layout;
  std::vector<std::byte> activations;
  std::vector<double> parameters, gradients;
  memory_type memory;

  explicit rank_memory(Rank& rank)
      : layout(plan::parameter_layout_for(rank.stage(), rank.grid())),
        activations(plan::arena_for(rank.stage(), load).total_bytes),
        parameters(layout.kept_count()),
        gradients(layout.gradient_count()),
        memory(execution::stage_memory_for<Job>(
            rank, load, {activations.data(), parameters.data(), gradients.data()})) {}

  /// The value of a parameter of a unit, and the gradient accumulator of that use.
  [[nodiscard]] double const* parameter(int entry, int unit) const {
    return memory.buffers().parameters + memory.place_of(entry, unit)->parameter;
  }
  [[nodiscard]] double* gradient(int entry, int unit) const {
    return memory.buffers().gradients + memory.place_of(entry, unit)->gradient;
  }
};

/// Calls each(entry number, unit) for the parameters of all units of a stage.
template <class Plan, class Each>
void for_each_parameter(int stage, Each each) {
  int unit = 0;
  for (int item = 0; item < Plan::code.items.size(); ++item)
    for (int copy = 0; copy < Plan::code.items[item].count; ++copy, ++unit) {
      bool is_here = false;
      for (auto const& chunk : Plan::chunks_of(stage))
        is_here = is_here || (chunk.begin <= unit && unit < chunk.end);
      if (!is_here) continue;
      for (int e = 0; e < Plan::entries.size(); ++e)
        if (Plan::entries[e].item == item) each(e, unit);
    }
}
template <class Plan>
int unit_of(int entry) {
  int unit = 0;
  for (int item = 0; item < Plan::entries[entry].item; ++item) unit += Plan::code.items[item].count;
  return unit;
}

template <class Job>
void expect_places() {
  using plan = typename Job::plan_type;
  launch<Job>(threads{}, [](auto& rank) {
    rank_memory<Job, std::remove_cvref_t<decltype(rank)>> here(rank);
    taken_ranges parameters, gradients;
    std::vector<std::pair<std::size_t, std::size_t>> found, blocks;
    int uses = 0;
    for_each_parameter<plan>(rank.stage(), [&](int e, int unit) {
      auto const& entry = plan::entries[e];
      auto const at = here.parameter(e, unit) - here.parameters.data();
      auto const of_gradient = here.gradient(e, unit) - here.gradients.data();
      gradients.take(of_gradient, entry.local_count());  // each use adds up by itself
      EXPECT_EQ(at % std::ptrdiff_t(parameter_alignment), 0);
      if (entry.owner >= 0) {
        ++uses;
        EXPECT_EQ(here.parameter(e, unit), here.parameter(entry.owner, unit_of<plan>(entry.owner)));
        EXPECT_GE(of_gradient, std::ptrdiff_t(here.layout.tied().offset));
        EXPECT_LE(std::size_t(of_gradient) + entry.local_count(), here.layout.tied().end());
        return;
      }
      EXPECT_EQ(of_gradient, at);
      parameters.take(at, entry.local_count());
      found.push_back({std::size_t(at), entry.local_count()});
    });
    parameters.expect_apart_within(0, here.parameters.size());
    gradients.expect_apart_within(0, here.gradients.size());
    // Exports and imports see the same values; they find their places by copies.
    for (auto const& one : plan::blocks(rank.stage(), rank.tensor_rank(), rank.grid()))
      blocks.push_back({one.offset, one.count});
    std::ranges::sort(found);
    std::ranges::sort(blocks);
    EXPECT_EQ(found, blocks);
    EXPECT_EQ(uses > 0, here.layout.tied_count > 0);
  });
}

TEST(StageMemory, HasAPlaceForEachParameterOfEachUnit) {
  expect_places<small_gpt::job<small_gpt::three_axes_sharded>>();
}

TEST(StageMemory, HasOneParameterAndTwoGradientsOfATiedOne) {
  static_assert(std::ranges::any_of(small_gpt::tied_job<small_gpt::tp2>::plan_type::entries,
                                    [](auto const& entry) { return entry.owner >= 0; }));
  expect_places<small_gpt::tied_job<small_gpt::tp2>>();
}

// --- masked parameters ---------------------------------------------------------------------------

using body = objective<
    sequential<named<"up", use_form<"column", nn::linear<8, 16>>>, nn::gelu<16>,
               named<"down", use_form<"row", nn::linear<16, 8>>>, named<"head", nn::linear<8, 8>>>,
    nn::cross_entropy<8>>;
struct masked_job : parallel<body, small_gpt::tp2, double> {};

TEST(StageMemory, ShowsZerosToWhoDoesNotCount) {
  using plan = masked_job::plan_type;
  constexpr int leaf = 2, bias = plan::listed.first_entry[leaf] + 1;
  using layer = std::tuple_element_t<std::size_t(leaf), plan::leaf_types>;
  using weight_key = typename nn::linear<16, 8>::weight;
  using bias_key = typename nn::linear<16, 8>::bias;
  static_assert(plan::entries[bias].masked() && !plan::entries[bias - 1].masked());
  launch<masked_job>(threads{}, [](auto& rank) {
    rank_memory<masked_job, std::remove_cvref_t<decltype(rank)>> here(rank);
    using memory_type = typename decltype(here)::memory_type;
    int const unit = unit_of<plan>(bias);
    using setting = typename memory_type::setting;
    using formed = execution::formed_layer<layer, plan::chosen.form[leaf]>;
    auto const& buffers = here.memory.buffers();
    auto const* const places = here.memory.place_of(bias - 1, unit);
    execution::parameter_access<setting, formed, false> const seen{buffers, places};
    execution::parameter_access<setting, formed, true> const sums{buffers, places};
    EXPECT_EQ(seen[weight_key{}].data, here.parameter(bias - 1, unit));
    if (rank.tensor_rank() == 0) {
      EXPECT_EQ(seen[bias_key{}].data, here.parameter(bias, unit));
    } else {
      auto const& arena = here.memory.arena();
      EXPECT_EQ(static_cast<void const*>(seen[bias_key{}].data),
                here.activations.data() + arena.zeros_offset);
      EXPECT_LE(arena.zeros_offset + plan::entries[bias].local_count() * sizeof(double),
                arena.total_bytes);
    }
    // The gradient is everybody's.
    EXPECT_EQ(sums[bias_key{}].data, here.gradient(bias, unit));
  });
}

// --- what a unit keeps ---------------------------------------------------------------------------

template <class Job>
void expect_records() {
  using plan = typename Job::plan_type;
  launch<Job>(threads{}, [](auto& rank) {
    rank_memory<Job, std::remove_cvref_t<decltype(rank)>> here(rank);
    auto const& memory = here.memory;
    auto const& layout = memory.layout();
    std::byte* const record = here.activations.data();
    for (int item = 0; item < plan::code.items.size(); ++item) {
      auto const& piece = plan::code.items[item];
      execution::unit_frame<typename std::remove_cvref_t<decltype(memory)>::setting> const frame{
          .output = record};
      taken_ranges kept;
      kept.take(0, layout.output_bytes[std::size_t(item)]);
      for (int v = 0; v < plan::code.values.size(); ++v) {
        auto const& storage_of = plan::storage.values[std::size_t(v)];
        if (plan::code.values[v].item != item || storage_of.where != storage_kind::kept ||
            storage_of.root != v)
          continue;
        bool const is_tokens = plan::code.values[v].info.kind == value_kind::tokens;
        kept.take(memory.value_data(v, frame) - record,
                  memory.block(v).count() * (is_tokens ? sizeof(std::int32_t) : sizeof(double)));
      }
      for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf)
        for (int k = 0; k < plan::tree.leaves[leaf].saved.own.size(); ++k) {
          auto const at = std::size_t(k);
          kept.take(std::ptrdiff_t(layout.saved_offset[std::size_t(leaf)][at]),
                    sizeof(double) * slot_count(plan::tree.leaves[leaf].saved.own[k],
                                                plan::code.form(leaf), memory.rows(),
                                                plan::tensor_ranks));
        }
      kept.expect_apart_within(0, layout.activation_stash_bytes[std::size_t(item)]);
    }
  });
}

TEST(StageMemory, KeepsWhatAUnitKeepsApart) {
  expect_records<small_gpt::job<small_gpt::three_axes_sharded>>();
  expect_records<masked_job>();
}

}  // namespace
