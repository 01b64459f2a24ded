// SPDX-License-Identifier: Apache-2.0
// The passes of a chunk as one operation and unit by unit: the same bits. Each stage of a pipeline
// is run by itself, on edges that the test fills.
#include "plait/run/stage_executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "plait/plait.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

constexpr std::size_t width = 8;
using block = residual<sequential<named<"ln", nn::layer_norm<width>>,
                                  named<"fc", nn::linear<width, width>>, nn::gelu<width>>>;
using model = objective<
    sequential<named<"wte", nn::embedding<small_gpt::vocabulary, width>>,
               named<"wpe", nn::positions<small_gpt::length, width>>, named<"h", repeat<4, block>>,
               named<"head", nn::linear<width, small_gpt::vocabulary>>>,
    nn::cross_entropy<small_gpt::vocabulary>>;
struct job : parallel<model, pipeline<2>, double> {};
using plan = job::plan_type;
static_assert(plan::chunks_of(0)[0].end >= 2 &&
              plan::code.unit_count() - plan::chunks_of(1)[0].begin >= 2);

constexpr int microbatches = 2;

double number(std::size_t i) { return (double(i * 37 % 101) - 50) / 64; }

/// The pieces in which a chunk is run; the backwards may follow all forwards if the stage has slots
/// for that.
struct manner {
  bool unit_by_unit = false;
  bool forwards_first = false;
};

struct outcome {
  std::vector<double> outputs;              // the outputs of both microbatches
  std::vector<double> gradients_of_inputs;  // the same, where the chunk is not the first
  std::vector<double> gradients;            // the gradients of the parameters
  double loss = 0;
  friend bool operator==(outcome const&, outcome const&) = default;
};

/// The place of the output of each unit of each microbatch.
using places = std::map<std::pair<int, int>, std::ptrdiff_t>;

template <class Rank>
class chunk_of_a_stage {
 public:
  explicit chunk_of_a_stage(Rank& rank)
      : rank_(rank),
        batches_(plait::batches(text_, global_batch<4>{}, rank, {.microbatches = microbatches})) {}

  outcome run(manner how, places* where = nullptr) {
    auto const& batch = batches_.at(0);
    int const stage = rank_.stage();
    workload const load{.rows = batch.rows(), .microbatches = microbatches};
    auto const planned = plan::passes_of(stage, load);
    bool const forwards_first = how.forwards_first && planned.slots.activations >= microbatches;
    auto const layout = plan::parameter_layout_for(stage, rank_.grid());
    std::vector<double> parameters(layout.kept_count());
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = number(i);
    outcome out;
    out.gradients.assign(layout.gradient_count(), 0.0);
    // The values before the first backward are not gradients; no unit owns padding.
    for (auto const& one : plan::blocks(stage, 0, rank_.grid()))
      std::fill_n(out.gradients.begin() + std::ptrdiff_t(one.offset), one.count, 1e30);
    auto const arena = rank_.device().allocate(plan::arena_for(stage, load).total_bytes);
    execution::stage_executor<job, Rank> passes(
        rank_, load, planned, {arena.data(), parameters.data(), out.gradients.data()});
    passes.take_over();
    double const scale = 0.25;
    auto frame =
        passes.frame_of(batch, {.seed = 3, .batch = batch.samples, .sequence = batch.sequence},
                        {.data = &out.loss, .scale = &scale}, 0);

    auto const units = plan::chunks_of(stage)[0];
    std::size_t const edge = batch.rows() * width;
    auto const message = [&](transfer_place place, bool sends) {
      return transfer{.place = place,
                      .from = layout_of(sends ? stage : 1 - stage),
                      .to = layout_of(sends ? 1 - stage : stage)};
    };
    auto const made = [&](int m) {
      return passes.edge(message(transfer_place::activation_edge, true),
                         {.chunk = 0, .microbatch = m});
    };
    auto const fill = [&](transfer_place place, int m, std::size_t seed) {
      auto* const to = passes.edge(message(place, false), {.chunk = 0, .microbatch = m});
      for (std::size_t i = 0; i < edge; ++i) to[i] = number(seed + std::size_t(m) * 17 + 3 * i);
    };
    auto const each = [&](program_operation now, bool backward, auto behind) {
      now.chunk = 0;
      if (!how.unit_by_unit) {
        now.units = units;
        passes.run(now, frame);
        return;
      }
      for (int i = units.begin; i < units.end; ++i) {
        int const unit = backward ? units.begin + units.end - 1 - i : i;
        now.units = {unit, unit + 1};
        passes.run(now, frame);
        behind(unit);
      }
    };
    auto const keep = [](std::vector<double>& in, double const* from, std::size_t count) {
      in.insert(in.end(), from, from + count);
    };
    auto const forward = [&](int m) {
      if (stage > 0) fill(transfer_place::activation_edge, m, 5);
      each({.what = operation_kind::forward, .microbatch = m}, false, [&](int unit) {
        if (where != nullptr)
          (*where)[{m, unit}] = reinterpret_cast<std::byte*>(made(m)) - arena.data();
      });
      if (stage == 0) keep(out.outputs, made(m), edge);
      else keep(out.outputs, passes.model_output(), batch.rows() * small_gpt::vocabulary);
    };
    auto const backward = [&](int m) {
      if (stage == 0) fill(transfer_place::gradient_edge, m, 11);
      each({.what = operation_kind::backward, .microbatch = m, .begins = m == 0}, true, [](int) {});
      if (stage > 0)
        keep(out.gradients_of_inputs, passes.edge(message(transfer_place::gradient_edge, true), {}),
             edge);
    };
    for (int m = 0; m < microbatches; ++m) {
      forward(m);
      if (!forwards_first) backward(m);
    }
    for (int m = 0; m < microbatches && forwards_first; ++m) backward(m);
    return out;
  }

 private:
  static plait::ext::placements layout_of(int stage) {
    return plait::ext::placements{}.on_stage(stage);
  }

  Rank& rank_;
  byte_text text_ = small_gpt::text();
  decltype(plait::batches(std::declval<byte_text&>(), global_batch<4>{}, std::declval<Rank&>(),
                          {})) batches_;
};

TEST(StageExecutor, HasTheSameBitsUnitByUnit) {
  launch<job>(threads{}, [](auto& rank) {
    chunk_of_a_stage chunk(rank);
    auto const whole = chunk.run({});
    EXPECT_EQ(chunk.run({.unit_by_unit = true}), whole) << rank.stage();
    EXPECT_EQ(whole, chunk.run({}));
    // It is about numbers that differ: of two microbatches, and from what was there.
    auto const half = std::ptrdiff_t(whole.outputs.size() / 2);
    EXPECT_FALSE(std::equal(whole.outputs.begin(), whole.outputs.begin() + half,
                            whole.outputs.begin() + half));
    for (double const gradient : whole.gradients) ASSERT_LT(gradient, 1e10);
    EXPECT_GT(std::ranges::max(whole.gradients), 0.0);
    EXPECT_EQ(whole.loss != 0, rank.stage() == 1);
    EXPECT_EQ(whole.gradients_of_inputs.empty(), rank.stage() == 0);
  });
}

TEST(StageExecutor, KeepsTheRecordsOfMicrobatchesApart) {
  launch<job>(threads{}, [](auto& rank) {
    if (rank.stage() != 0) return;
    ASSERT_EQ(plan::slots_for(0, microbatches).activations, microbatches);
    chunk_of_a_stage chunk(rank);
    auto const one_by_one = chunk.run({});
    for (bool const unit_by_unit : {false, true})
      EXPECT_EQ(chunk.run({.unit_by_unit = unit_by_unit, .forwards_first = true}), one_by_one);
  });
}

TEST(StageExecutor, HasRecordsOfUnitsThatDoNotOverlap) {
  launch<job>(threads{}, [](auto& rank) {
    chunk_of_a_stage chunk(rank);
    places where;
    chunk.run({.unit_by_unit = true, .forwards_first = true}, &where);
    int const stage = rank.stage();
    std::size_t const rows = 4 / microbatches * small_gpt::length;
    workload const load{.rows = rows, .microbatches = microbatches};
    auto const arena = plan::arena_for(stage, load);
    auto const& one = arena.chunks[0];
    auto const layout = plan::activation_layout_for(rows);
    std::vector<int> item_of;
    for (int item = 0; item < plan::code.items.size(); ++item)
      for (int copy = 0; copy < plan::code.items[item].count; ++copy) item_of.push_back(item);
    std::map<std::ptrdiff_t, std::ptrdiff_t> taken;  // from where to where, each slot once
    for (auto const& [which, begin] : where) {
      auto const bytes =
          layout.activation_stash_bytes[std::size_t(item_of[std::size_t(which.second)])];
      taken[begin] = begin + std::ptrdiff_t(bytes);
    }
    auto const slots = std::size_t(plan::slots_for(stage, microbatches).activations);
    EXPECT_EQ(taken.size(), slots * std::size_t(one.units.end - one.units.begin));
    auto const begins = arena.place<true>(plan::passes_of(stage, load), microbatches)
                            .of(planning::live_buffer::stash, 0, 0)
                            .offset;
    auto last = std::ptrdiff_t(begins);
    for (auto const& [begin, end] : taken) {
      EXPECT_GE(begin, last);
      last = end;
    }
    EXPECT_LE(last, std::ptrdiff_t(begins + slots * one.activation_stash_bytes));
  });
}

}  // namespace
