// SPDX-License-Identifier: Apache-2.0
// Compares the memory of a plan with the list of the data that is moved through it, for every part
// of a job, every stage, and ranks that have more and fewer microbatches than others.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/plait.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

/// Rows of a list whose memory is too small for their data.
struct too_small {
  std::vector<std::string> said{};
  void expect(transfer_place place, std::size_t needed, std::size_t room) {
    if (needed > room)
      said.push_back(std::string(to_string(place)) + ": " + std::to_string(needed) + " bytes in " +
                     std::to_string(room));
  }
};

template <class Plan>
constexpr std::size_t bytes_of(transfer const& made) {
  return made.count * sizes_of<Plan>.of(made.element);
}

/// Checks that the outputs of a rank of `stage` fit into `outputs` bytes.
template <class Plan>
void check_outputs(too_small& found, int stage, workload const& load, job_part part,
                   std::size_t outputs) {
  for (auto const& made : values_of<Plan>(stage, load, part)) switch (made.place) {
      case transfer_place::output:  // after all microbatches, or next to the microbatch of which it
                                    // is made
      case transfer_place::rank_outputs:
      case transfer_place::outputs:
      case transfer_place::measures: found.expect(made.place, bytes_of<Plan>(made), outputs); break;
      default: break;
    }
}

/// Checks all other memory of a rank of `stage`.
template <class Plan>
void check_rooms(too_small& found, int stage, workload const& load) {
  auto const grid = Plan::grid_for(load);
  auto const numbers = lay_out_numbers<Plan>(stage, grid);
  auto const arena = Plan::arena_for(stage, load);
  auto const& chunk = arena.chunks[0];
  auto const parameters = Plan::parameter_layout_for(stage, grid);
  auto const gradients = Plan::gradient_arena_for(parameters, grid);
  auto const need = Plan::memory(stage, load);
  std::size_t const staging = arena.staging_bytes;
  std::size_t state = 0, in_rooms = 0;
  // The losses of slices follow their labels; without slices both are numbers of a step.
  std::size_t const of_loss =
      Plan::slices > 0 ? numbers.norm_partials_at - numbers.slices_at : number_tables::step_bytes;
  std::size_t labels = 0;
  for (int part = 0; part < job_parts; ++part)
    for (auto const& made : transfers_of<Plan>(stage, load, job_part(part))) {
      auto const bytes = bytes_of<Plan>(made);
      auto const expect = [&](std::size_t room) { found.expect(made.place, bytes, room); };
      // A region has one block for each of the ranks along the axes that the row does not involve.
      axis_set cut;
      for (axis const which : all_axes)
        if (made.from.at(which) == shard<dim::elements> && !made.row().over.contains(which))
          cut = cut | which;
      auto const expect_in = [&](std::size_t elements) {
        found.expect(made.place, made.offset + made.count * std::size_t(grid.size(cut)), elements);
      };
      switch (made.place) {
        case transfer_place::consistency: expect(numbers.total - numbers.compared_at); break;
        case transfer_place::labels:
          expect(of_loss);
          labels = bytes;
          break;
        case transfer_place::loss: expect(of_loss - labels); break;
        case transfer_place::norm_partials:
          expect(numbers.updated_at - numbers.norm_partials_at);
          break;
        case transfer_place::forward:
        case transfer_place::backward:  // columns are packed
          if (made.row().moves == collective::all_gather ||
              made.row().moves == collective::reduce_scatter)
            expect(staging);
          if (made.row().moves == collective::all_to_all)
            found.expect(made.place, bytes / std::size_t(grid.size(made.row().over)), staging);
          break;
        case transfer_place::activation_edge:
          expect(made.from.stage() == stage ? chunk.output_bytes : chunk.input_bytes);
          break;
        case transfer_place::gradient_edge:
          expect(made.from.stage() == stage ? chunk.input_bytes : chunk.output_bytes);
          break;
        case transfer_place::slices:
          if (made.row().moves == collective::all_to_all) {
            auto const ranks = std::size_t(grid.size(made.row().over));
            auto const roots = std::size_t(gradients.roots);
            auto const range = made.count / (ranks * roots);
            EXPECT_EQ(range * ranks * roots, made.count);
            found.expect(made.place, made.offset + range, gradients.stride);
            if (ranks > 1) in_rooms = std::max(in_rooms, ranks * roots * made.piece);
          } else {
            found.expect(made.place, made.offset + made.count, gradients.stride);
          }
          break;
        case transfer_place::replica_numbers: expect(numbers.total - numbers.compared_at); break;
        case transfer_place::differences:
        case transfer_place::gradients:
          if (made.element == transfer_element::word) {
            auto const ranks = std::size_t(grid.size(made.row().over));
            in_rooms = std::max(
                in_rooms, (ranks * sent_count(Plan::rules.sent, made.piece) * sizeof(wire_word) +
                           Plan::gradient_bytes - 1) /
                              Plan::gradient_bytes);
            found.expect(made.place, made.offset + made.elements() * std::size_t(grid.size(cut)),
                         gradients.stride);
            break;
          }
          [[fallthrough]];
        case transfer_place::ties: expect_in(gradients.stride); break;
        case transfer_place::gather_parameters:
        case transfer_place::blocks: expect_in(parameters.count()); break;
        case transfer_place::state: state += bytes; break;
        default: break;
      }
    }
  found.expect(transfer_place::gradients, in_rooms, gradients.received_at - gradients.sent_at);
  found.expect(transfer_place::gradients, in_rooms, gradients.total - gradients.received_at);
  if (state > 0) {
    EXPECT_EQ(state, need.parameters + need.optimizer + need.averages);
  }
  // An evaluation fits into the training's arena.
  for (int few = 1; few <= load.microbatches; ++few) {
    auto const used = evaluation_timetable(Plan::stages, few).stages[std::size_t(stage)];
    EXPECT_LE(arena.template place<true>(used, few).bytes, arena.passes_bytes);
  }
}

/// Calls body(stage, workload) for ranks with more and fewer microbatches than others.
template <class Plan, class Body>
void for_each_load(Body body) {
  auto const sizes = Plan::grid.is_complete() ? std::vector{1} : std::vector{1, 2, 3};
  for (int const data_ranks : sizes)
    for (int const microbatches : {1, 2, 4})
      for (auto const which : {predicted::of_data_rank, predicted::of_all})
        for (int stage = 0; stage < Plan::stages; ++stage)
          body(stage, workload{.rows = 2 * small_gpt::length,
                               .microbatches = microbatches,
                               .data_ranks = data_ranks,
                               .averages = true,
                               .gradient_norm = true,
                               .stops = true,
                               .prediction = which,
                               .measured_numbers = 300});
}

template <class Policy>
struct Rooms : ::testing::Test {};
using replicated = data_parallel<at_launch>;
using owned = data_parallel<at_launch, zero<1>>;
using policies =
    ::testing::Types<serial, data_parallel<2>, small_gpt::tp2, pipeline<2>, pipeline<4>,
                     hybrid<pipeline<2>, data_parallel<2, zero<1>>, small_gpt::tp2_sharded>,
                     data_parallel<4, within<2>, compressed<float8>, buckets<1>>,
                     data_parallel<1, local_steps<2>>,
                     data_parallel<4, within<2>, zero<2>, compressed<float8>, local_steps<2>>,
                     hybrid<data_parallel<at_launch, compressed<plait::bfloat16>>, small_gpt::tp2>,
                     hybrid<replicated, reproducible<4>>, hybrid<owned, reproducible<4>>,
                     hybrid<replicated, small_gpt::tp2, reproducible<4>>,
                     hybrid<pipeline<2>, replicated, reproducible<4>>,
                     hybrid<pipeline<2, gpipe>, owned, reproducible<4>>>;
TYPED_TEST_SUITE(Rooms, policies);

TYPED_TEST(Rooms, HoldWhatTheListMoves) {
  auto const check = [](auto job) {
    using plan = typename decltype(job)::plan_type;
    for_each_load<plan>([](int stage, workload const& load) {
      too_small found;
      check_rooms<plan>(found, stage, load);
      for (auto const part : {job_part::prediction, job_part::evaluation}) {
        auto const where = lay_out_outputs<plan>(stage, load, part);
        check_outputs<plan>(found, stage, load, part, where.total);
        EXPECT_LE(where.total, plan::memory(stage, load).outputs);
      }
      EXPECT_EQ(found.said, std::vector<std::string>{});
    });
  };
  check(small_gpt::job<TypeParam, float>{});
  check(small_gpt::job<TypeParam, precision<plait::bfloat16, float>>{});
}

// By hand: the last stage holds a whole microbatch in addition to the outputs that all stages
// receive.
TEST(RoomsOfOutputs, AreThoseOfTheRank) {
  using plan = small_gpt::job<hybrid<pipeline<2>, replicated, reproducible<4>>, float>::plan_type;
  constexpr std::size_t each = 8 * small_gpt::vocabulary, bytes = each * sizeof(float);
  workload load{.rows = 8, .microbatches = 1, .data_ranks = 2};
  auto const of_rank = [&](int stage, predicted which) {
    load.prediction = which;
    return lay_out_outputs<plan>(stage, load, job_part::prediction).total;
  };
  EXPECT_EQ(of_rank(0, predicted::of_data_rank), bytes);
  EXPECT_EQ(of_rank(1, predicted::of_data_rank), 2 * bytes);
  EXPECT_EQ(of_rank(0, predicted::of_all), 2 * bytes);
  EXPECT_EQ(of_rank(1, predicted::of_all), 3 * bytes);
  // The plan describes the rank with the most slices, two on each of two ranks.
  EXPECT_EQ(plan::memory(1, load).outputs, 5 * bytes);
  load.prediction = predicted::nothing;
  load.measured_numbers = 2;
  EXPECT_EQ(plan::memory(0, load).outputs, 2 * sizeof(double));
  EXPECT_EQ(plan::memory(1, load).outputs, 2 * bytes + 2 * sizeof(double));
}

// An earlier fault: the memory was computed for the microbatches of the rank, and the list for the
// rank with the most slices.
TEST(RoomsOfOutputs, OfAnotherFormulaAreFound) {
  using plan = small_gpt::job<hybrid<pipeline<2>, replicated, reproducible<4>>, float>::plan_type;
  workload const load{.rows = 8, .microbatches = 1, .prediction = predicted::of_data_rank};
  std::size_t const each = 8 * small_gpt::vocabulary * sizeof(float);
  std::size_t const another = each * std::size_t(load.microbatches) + each;
  too_small found;
  check_outputs<plan>(found, 0, plan::completed(load), job_part::prediction, another);
  EXPECT_EQ(found.said, std::vector<std::string>{"rank_outputs: 32768 bytes in 16384"});
}

// A copy of a rank's state on the host: half of the frozen parameters, which ranks keep in blocks
// within a group, and a quarter of the others, with two states.
constexpr nn::linear_options no_bias{.bias = false};
using partly_frozen =
    objective<sequential<frozen<nn::linear<63, 256>>, nn::linear<256, 256, no_bias>>,
              nn::cross_entropy<256>>;
using in_groups = plan<partly_frozen, data_parallel<4, within<2>, zero<3>>>;
static_assert(in_groups::host_bytes(0, {.optimizer_states = 2}) ==
              (64 * 256 / 2 + 256 * 256 / 4) * 3 * sizeof(float));

}  // namespace
