// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plait/plan/parallel.hpp"
#include "plait/schedule/gpipe.hpp"
#include "plan/models.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::models;

constexpr std::size_t width = 16, length = 8, vocabulary = 32, blocks = 4;
using model = gpt_with_loss<blocks, width, 4, length, vocabulary>;
template <class Policy, class Element = float>
using planned = plan<model, Policy, Element>;

// --- memory, counted by hand --------------------------------------------------------------------

using dense = nn::linear<64, 32>;
constexpr std::size_t dense_held = 64 * 32 + 64;  // each parameter begins at a multiple of 64
using job = parallel<dense, serial>;
// Parameters, gradients and two states; the output; the gradients of input and output between
// layers, each as long as the longer of them; the batch. Then the numbers of a step, of two
// parameter tensors, and what the ranks compare.
constexpr std::size_t dense_numbers = 512 + 3 * 64 + 64 * 8;
static_assert(job::plan().bytes_per_rank({.rows = 8}) ==
              4 * dense_held * 4 + 8 * 32 * 4 + 2 * 8 * 64 * 4 + 8 * 64 * 4 + dense_numbers);
static_assert(job::plan().bytes_per_rank({.rows = 4096, .microbatches = 8}) < 80_GiB);
static_assert(parallel<dense, serial, double>::plan().bytes_per_rank({.rows = 8}) ==
              2 * job::plan().bytes_per_rank({.rows = 8}) - dense_numbers);
static_assert(job::plan().memory(0, {.rows = 8, .optimizer_states = 1}).optimizer ==
              dense_held * 4);
static_assert(job::plan().bytes_per_rank({.rows = 8, .averages = true}) ==
              job::plan().bytes_per_rank({.rows = 8}) + dense_held * 4);
static_assert(job::plan().memory(0, {.rows = 8, .microbatches = 3}).batches == 3 * 8 * 64 * 4);
struct three_states {
  static constexpr int states = 3;
};
static_assert(job::plan().bytes_per_rank<three_states>({.rows = 8}) ==
              job::plan().bytes_per_rank({.rows = 8, .optimizer_states = 3}));
static_assert(1_KiB == 1024 && 1_MiB == 1024 * 1024 && 1_GiB == 1024 * 1024 * 1024);

// --- parameters ---------------------------------------------------------------------------------

constexpr std::size_t block_count = 2 * (2 * width) + width * 3 * width + 3 * width +
                                    width * width + width + 2 * 4 * width * width + 5 * width;
static_assert(planned<serial>::parameter_count() == vocabulary * width + length * width +
                                                        blocks * block_count + 2 * width +
                                                        width * vocabulary);
static_assert(planned<serial>::parameter_tensor_count() == 2 + int(blocks) * 12 + 2 + 1);
static_assert(planned<hybrid<pipeline<2>, tensor_parallel<2>>>::parameter_count() ==
              planned<serial>::parameter_count());

// In the arena each parameter begins at a multiple of 64 elements, and each unit ends at one for
// each batch rank.
constexpr std::size_t held_elements(std::size_t batch_ranks) {
  auto const up = [](std::size_t n, std::size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
  };
  auto const unit = [&](auto... counts) { return up((up(counts, 64) + ...), 64 * batch_ranks); };
  constexpr std::size_t w = width;
  return unit(vocabulary * w) + unit(length * w) +
         blocks * unit(w, w, w * 3 * w, 3 * w, w * w, w, w, w, w * 4 * w, 4 * w, 4 * w * w, w) +
         unit(w, w) + unit(w * vocabulary);
}
static_assert(planned<serial>::memory(0, {}).parameters == held_elements(1) * 4);
static_assert(planned<data_parallel<3>>::memory(0, {}).parameters == held_elements(3) * 4);
static_assert(planned<data_parallel<>>::memory(0, {.data_ranks = 3}).optimizer ==
              2 * held_elements(3) * 4);
static_assert(planned<data_parallel<3, zero<1>>>::memory(0, {.averages = true}).averages ==
              held_elements(3) * 4 / 3);
static_assert(planned<serial>::sequence_length == length);

TEST(Plan, ParameterNumbersFollowTheLayers) {
  using gpt_plan = planned<serial>;
  auto const number = [](int entry, int copy) {
    return plait::planning::number_of_tensor(gpt_plan::code.items.view(), gpt_plan::entries.view(),
                                             plait::planning::one_if_owner, entry, copy);
  };
  // wte, wpe, then twelve parameters for each block.
  EXPECT_EQ(number(0, 0), 0);
  EXPECT_EQ(number(1, 0), 1);
  EXPECT_EQ(number(2, 0), 2);
  EXPECT_EQ(number(2, 1), 14);
  EXPECT_EQ(number(13, 3), 2 + 3 * 12 + 11);
  EXPECT_EQ(number(14, 0), 2 + 4 * 12);
}

// --- traffic ------------------------------------------------------------------------------------

constexpr workload load{.rows = 24, .microbatches = 6};
constexpr auto all_axes_set = axis::data | axis::tensor | axis_set(axis::stage);
constexpr std::int64_t activation = 24 * width * 4;

TEST(Plan, SerialSendsNothing) {
  for (unsigned bits = 0; bits < 8; ++bits) {
    axis_set over;
    over.bits = bits;
    EXPECT_EQ(planned<serial>::bytes_sent(over, load).total(), 0) << to_string(over);
  }
}

// 2 n (p - 1) / p for the gradients and for the 8 bytes of the count of labels, and of the loss.
static_assert([] {
  auto const n = static_cast<std::int64_t>(held_elements(4)) * 4;
  auto const bytes_sent = planned<data_parallel<4>>::bytes_sent(axis::data, load);
  return bytes_sent.step == 2 * n * 3 / 4 + 2 * 8 * 3 / 4 && bytes_sent.forward == 0 &&
         bytes_sent.backward == 0;
}());
static_assert(planned<data_parallel<4>>::bytes_sent(axis::data | axis::stage, load).step == 12);
static_assert(planned<data_parallel<4>>::bytes_sent(axis::tensor, load).total() == 0);
static_assert(planned<data_parallel<4>>::bytes_sent(axis::data, load).step ==
                  planned<data_parallel<4>>::bytes_sent(axis::data, {.rows = 1}).step,
              "once a step, whatever the microbatches");

TEST(Plan, TheDataAxisMayBeSizedAtLaunch) {
  workload sized = load;
  for (int const ranks : {1, 2, 4}) {
    sized.data_ranks = ranks;
    EXPECT_EQ(planned<data_parallel<>>::grid_for(sized).size(axis::data), ranks);
  }
  sized.data_ranks = 4;
  EXPECT_EQ(planned<data_parallel<>>::bytes_sent(axis::data, sized).total(),
            planned<data_parallel<4>>::bytes_sent(axis::data, load).total());
  // A size that the policy gives is not changed by the workload.
  EXPECT_EQ(planned<data_parallel<2>>::grid_for(sized).size(axis::data), 2);
}

TEST(Plan, StagesSendWhatCrossesTheCut) {
  using two = planned<pipeline<2>>;
  EXPECT_EQ(two::bytes_sent(axis::stage, 0, load).forward, 6 * activation);
  EXPECT_EQ(two::bytes_sent(axis::stage, 0, load).backward, 0);
  EXPECT_EQ(two::bytes_sent(axis::stage, 1, load).forward, 0);
  EXPECT_EQ(two::bytes_sent(axis::stage, 1, load).backward, 6 * activation);
  using three = planned<pipeline<3>, double>;
  EXPECT_EQ(three::bytes_sent(axis::stage, 1, load).total(), 2 * 6 * activation * 2);
  // On sequence shards each tensor rank sends its rows only.
  using sharded = planned<hybrid<pipeline<2>, tensor_parallel<2, sequence::sharded>>>;
  EXPECT_EQ(sharded::bytes_sent(axis::stage, 0, load).forward, 6 * activation / 2);
}

TEST(Plan, TensorTrafficGrowsWithTheMicrobatches) {
  using split = planned<tensor_parallel<2>>;
  auto const once = split::bytes_sent(axis::tensor, {.rows = 24});
  auto const six = split::bytes_sent(axis::tensor, load);
  EXPECT_EQ(six.forward, 6 * once.forward);
  EXPECT_EQ(six.backward, 6 * once.backward);
  EXPECT_GT(once.forward, 0);
}

TEST(Plan, StagesShareTheTensorTraffic) {
  using flat = planned<tensor_parallel<2>>;
  using staged = planned<hybrid<pipeline<3>, tensor_parallel<2>>>;
  std::int64_t forward = 0, backward = 0;
  for (int stage = 0; stage < staged::stages; ++stage) {
    forward += staged::bytes_sent(axis::tensor, stage, load).forward;
    backward += staged::bytes_sent(axis::tensor, stage, load).backward;
  }
  EXPECT_EQ(forward, flat::bytes_sent(axis::tensor, load).forward);
  EXPECT_EQ(backward, flat::bytes_sent(axis::tensor, load).backward);
}

TEST(Plan, TheNormOfTheGradientsIsOneSmallSumOverTheWorld) {
  using four = planned<hybrid<data_parallel<2>, tensor_parallel<2>>>;
  workload clipped = load;
  clipped.gradient_norm = true;
  EXPECT_EQ(four::bytes_sent(all_axes_set, load).total(), 0);
  EXPECT_EQ(four::bytes_sent(all_axes_set, clipped).step,
            2 * 8 * four::parameter_tensor_count() * 3 / 4);
}

// Norms work on sequence shards: their parameters' gradients, and no others, are summed over both
// axes at once.
TEST(Plan, OneReductionOverTwoAxes) {
  using sharded = planned<hybrid<data_parallel<2>, tensor_parallel<2, sequence::sharded>>>;
  // Each norm has two vectors, padded to units for two batch ranks: four in a block, two in the
  // last.
  constexpr std::int64_t norms = (blocks * 4 * 64 + 2 * 64) * 4;
  EXPECT_EQ(sharded::bytes_sent(axis::data | axis::tensor, load).step, 2 * norms * 3 / 4);
  using split = planned<hybrid<data_parallel<2>, tensor_parallel<2>>>;
  EXPECT_EQ(split::bytes_sent(axis::data | axis::tensor, load).step, 0);
}

// --- memory of plans ----------------------------------------------------------------------------

TEST(Plan, SplittingSavesMemory) {
  auto const of = []<class Plan>(Plan) { return Plan::memory(0, load); };
  auto const whole = of(planned<serial>{}), split = of(planned<tensor_parallel<2>>{});
  EXPECT_LT(split.parameters, whole.parameters);
  EXPECT_GT(2 * split.parameters, whole.parameters);
  EXPECT_LT(split.activations, whole.activations);
  auto const sharded = of(planned<tensor_parallel<2, sequence::sharded>>{});
  EXPECT_LT(sharded.activations, split.activations);
  auto const copied = of(planned<data_parallel<2>>{});
  EXPECT_EQ(copied.total() - copied.numbers, whole.total() - whole.numbers);
}

// 1F1B holds at most as many microbatches as there are stages, GPipe all of them.
TEST(Plan, ActivationsFollowTheSchedule) {
  using order = one_forward_one_backward;
  using f1b = planned<pipeline<2, order>>;
  using all = planned<pipeline<2, gpipe>>;
  EXPECT_EQ(f1b::slots_for(0, 6).activations, 2);
  EXPECT_EQ(f1b::slots_for(1, 6).activations, 1);
  EXPECT_EQ(all::slots_for(0, 6).activations, 6);
  EXPECT_EQ(f1b::memory(0, load).activations,
            f1b::memory(0, {.rows = 24, .microbatches = 9}).activations);
  EXPECT_LT(f1b::memory(0, load).activations, all::memory(0, load).activations);
}

TEST(Plan, TheWorstRankDecides) {
  using staged = planned<pipeline<3>>;
  std::size_t most = 0;
  for (int stage = 0; stage < 3; ++stage)
    most = std::max(most, staged::memory(stage, load).total());
  EXPECT_EQ(staged::bytes_per_rank(load), most);
}

// --- gradients that no layer reads ---------------------------------------------------------------

TEST(Plan, OutsideInputHasNoGradient) {
  using tokens_first = planned<tensor_parallel<2>>;
  constexpr auto& code = tokens_first::code;
  EXPECT_FALSE(tokens_first::needs_gradient[static_cast<std::size_t>(code.items[0].in)]);
  using features_first = plan<sequential<dense, nn::linear<32, 64>>, tensor_parallel<2>>;
  for (auto const& now : features_first::code.nodes) {
    if (now.kind != program_node_kind::move || now.in != features_first::code.items[0].in) continue;
    EXPECT_FALSE(features_first::needs_gradient[static_cast<std::size_t>(now.out)]);
  }
  EXPECT_EQ(features_first::bytes_sent(axis::tensor, {.rows = 8}).backward, 0);
  EXPECT_EQ(features_first::bytes_sent(axis::tensor, {.rows = 8}).forward, 8 * 64 * 4);
}

template <class Model, class Policy = serial>
constexpr std::vector<bool> inputs_with_a_gradient() {
  using of = plan<Model, Policy>;
  std::vector<bool> out;
  for (auto const& piece : of::code.items) out.push_back(of::needs_gradient[std::size_t(piece.in)]);
  return out;
}

TEST(Plan, OnlyWhatDependsOnATrainedParameterHasAGradient) {
  using bools = std::vector<bool>;
  using relu = nn::relu<32>;
  using square = nn::linear<32, 32>;
  EXPECT_EQ((inputs_with_a_gradient<sequential<relu, relu, square, relu>>()),
            (bools{false, false, false, true}));
  EXPECT_EQ((inputs_with_a_gradient<sequential<frozen<square>, square, frozen<square>, relu>>()),
            (bools{false, false, true, true}));
  // The copies of a repeat share their steps.
  EXPECT_EQ((inputs_with_a_gradient<sequential<repeat<2, square>, relu>>()), (bools{true, true}));
  EXPECT_EQ((inputs_with_a_gradient<sequential<repeat<1, square>, relu>>()), (bools{false, true}));
  EXPECT_EQ((inputs_with_a_gradient<sequential<frozen<repeat<2, square>>, square, relu>>()),
            (bools{false, false, true}));
}

// --- frozen parameters --------------------------------------------------------------------------

using first_frozen = frozen<gpt<blocks, width, 4, 8, vocabulary>, "w*", "h.*">;
template <class Policy>
using frozen_plan = plan<objective<first_frozen, nn::cross_entropy<vocabulary>>, Policy>;

TEST(Plan, FrozenParametersHaveNoGradientsOrStates) {
  using here = frozen_plan<data_parallel<2>>;
  EXPECT_EQ(here::parameter_count(), planned<serial>::parameter_count());
  EXPECT_EQ(here::trained_parameter_count(), std::size_t{2} * width + width * vocabulary);
  EXPECT_EQ(here::trained_tensor_count(), 3);
  EXPECT_EQ(here::first_square(int(here::entries.size()) - 1, 0), 2);
  EXPECT_EQ(here::norm_partial_count(), 3);
  auto const all = planned<data_parallel<2>>::memory(0, load), some = here::memory(0, load);
  std::size_t const trained = (2 * 64 + width * vocabulary) * sizeof(float);
  EXPECT_EQ(some.gradients, trained);
  EXPECT_EQ(some.optimizer, 2 * trained);
  EXPECT_LE(some.parameters, all.parameters);
  EXPECT_LT(some.numbers, all.numbers);
  // The ranks send only the gradients and the count of labels.
  EXPECT_EQ(here::bytes_sent(axis::data, load).step, std::int64_t(trained) + 8);
  workload const clipped{.gradient_norm = true};
  using both = frozen_plan<hybrid<data_parallel<2>, tensor_parallel<2>>>;
  EXPECT_EQ(both::bytes_sent(all_axes_set, clipped).step, 2 * 8 * 3 * 3 / 4);
}

TEST(Plan, AStageWithNothingToTrainIsSentNoGradients) {
  using here = frozen_plan<pipeline<2>>;
  EXPECT_FALSE(here::arena_for(0, load).chunks[0].receives_gradient);
  EXPECT_EQ(here::bytes_sent(axis::stage, 1, load).backward, 0);
  EXPECT_GT(here::bytes_sent(axis::stage, 0, load).forward, 0);
  EXPECT_EQ(here::memory(0, load).gradients, 0u);
  EXPECT_LT(here::memory(0, load).activations, planned<pipeline<2>>::memory(0, load).activations);
  using on_tensors = frozen_plan<tensor_parallel<2>>;
  EXPECT_LT(on_tensors::bytes_sent(axis::tensor, load).backward,
            planned<tensor_parallel<2>>::bytes_sent(axis::tensor, load).backward / 4);
}

TEST(Plan, WithoutALossThereAreNoTargets) {
  using gate = sequential<fan_out<dense, dense>, nn::product<32>>;
  static_assert(batch_bytes<plan<gate, serial>>({.rows = 8}) == 8 * 64 * 4);
  EXPECT_TRUE((batch_bytes<planned<serial>>({.rows = 16}) == 2 * 16 * sizeof(std::int32_t)));
}

// --- ties ---------------------------------------------------------------------------------------

TEST(Plan, ATiedUseHasAGradientOfItsOwn) {
  using head = nn::linear<width, vocabulary, head_options>;
  using table = named<"wte", nn::embedding<vocabulary, width>>;
  using tied_model = objective<sequential<table, tied<head, head::weight, "wte.weight">>,
                               nn::cross_entropy<vocabulary>>;
  using tied_plan = plan<tied_model, serial>;
  auto const need = tied_plan::memory(0, {.rows = 16});
  EXPECT_EQ(need.parameters, vocabulary * width * 4);
  EXPECT_EQ(need.gradients, 2 * vocabulary * width * 4);
  EXPECT_EQ(need.optimizer, 2 * vocabulary * width * 4);
}

}  // namespace
