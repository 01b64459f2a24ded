// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=60
//
// Several chunks on each stage train as the serial run does: in loops and in waves.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "schedule/waves.hpp"
#include "testing/event_orders.hpp"
#include "train/chunked.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using chunked::expect_near;
using chunked::job;
using chunked::train;

using serial_job = job<serial>;
using loop_of_2 = job<pipeline<2, interleaved<2>>>;
using loop_of_4 = job<pipeline<4, interleaved<2>>>;
using breadth_first = job<pipeline<2, looped_breadth_first<2>>>;
using eager = job<pipeline<4, eager_one_forward_one_backward>>;
using wave = job<pipeline<2, plait_test::wave_breadth_first>>;
using wave_halves = job<pipeline<2, plait_test::wave_of_halves>>;

// The last chunk of a wave is on the stage of its first chunk.
static_assert(wave::plan_type::chunks_of(0)[1].end == wave::plan_type::code.unit_count());
static_assert(wave::plan_type::chunks_of(1)[0].end == wave::plan_type::chunks_of(1)[1].begin);

class Interleaved : public ::testing::TestWithParam<int> {};

TEST_P(Interleaved, TrainsTheBitsOfTheSerialRun) {
  int const m = GetParam();
  auto const expected = train<serial_job>(threads{}, m);
  EXPECT_EQ(train<loop_of_2>(threads{}, m), expected);
  EXPECT_EQ(train<loop_of_4>(threads{}, m), expected);
  EXPECT_EQ(train<breadth_first>(threads{}, m), expected);
  EXPECT_EQ(train<eager>(threads{}, m), expected);
  EXPECT_EQ(train<wave>(threads{}, m), expected);
  EXPECT_EQ(train<wave_halves>(threads{}, m), expected);
}
INSTANTIATE_TEST_SUITE_P(Microbatches, Interleaved, ::testing::Values(1, 3, 4, 8));

template <class Policy>
class InterleavedBeside : public ::testing::Test {};
using hybrids = ::testing::Types<
    hybrid<pipeline<2, interleaved<2>>, data_parallel<2, buckets<1>>>,
    hybrid<pipeline<2, interleaved<2>>, small_gpt::tp2>,
    hybrid<pipeline<2, interleaved<2>>, small_gpt::tp2_sharded>,
    hybrid<pipeline<2, interleaved<2>>, data_parallel<2, zero<1>, buckets<1>>>,
    hybrid<pipeline<2, interleaved<2>>, data_parallel<2, zero<3>, buckets<1>>>,
    hybrid<pipeline<2, looped_breadth_first<2>>, data_parallel<2, zero<2>, buckets<1>>>,
    hybrid<pipeline<2, interleaved<2>>, small_gpt::tp2, recompute<granularity::all>>,
    hybrid<pipeline<2, plait_test::wave_breadth_first>, data_parallel<2, buckets<1>>,
           small_gpt::tp2>>;
TYPED_TEST_SUITE(InterleavedBeside, hybrids);

TYPED_TEST(InterleavedBeside, OtherAxesTrainsAsTheSerialRun) {
  expect_near(train<job<TypeParam>>(threads{}, 4), train<serial_job>(threads{}, 4));
}
TYPED_TEST(InterleavedBeside, OtherAxesMovesThePlannedBytes) {
  using here = job<TypeParam>;
  auto const text = small_gpt::text();
  launch<here>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<here>(rank, adamw{});
    auto batches = plait::batches(text, global_batch<>{24}, rank, {.epochs = 0, .microbatches = 4});
    trainer.step(batches.at(0));
    for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
    trainer.step(batches.at(1));
    workload const load{.rows = 6 * small_gpt::length / std::size_t(rank.grid().size(batch_axes)),
                        .microbatches = 4};
    plait_test::expect_planned_bytes<here>(rank, load);
  });
}

// Each chunk sums its slices along its own tree.
TEST(InterleavedSlices, HaveTheSameBitsOnAnyNumberOfRanks) {
  using sliced = job<hybrid<pipeline<2, interleaved<2>>, data_parallel<>, reproducible<12>>>;
  using in_line = job<hybrid<pipeline<2>, data_parallel<>, reproducible<12>>>;
  auto const expected = train<in_line>(threads{.data_ranks = 1}, 0);
  for (int const ranks : {1, 2, 3, 5}) {
    auto const got = train<sliced>(threads{.data_ranks = ranks}, 0);
    EXPECT_EQ(got.losses, expected.losses) << ranks;
    EXPECT_EQ(got.weights, expected.weights) << ranks;
    EXPECT_EQ(got.gradients, expected.gradients) << ranks;
  }
}

// Memory after its last use is undefined, and a write that is too early is a race.
template <class Policy>
void expect_all_waits_needed() {
  using small = small_gpt::job<Policy>;
  constexpr int microbatches = 4, steps = 1;
  constexpr std::size_t samples = 8;
  auto const expected = train<small>(threads{}, microbatches, steps, samples);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(5); ++seed)
    ASSERT_EQ(train<small>(simulated{.seed = seed, .statistics = &statistics}, microbatches, steps,
                           samples),
              expected)
        << seed;
  auto const is_found = [&](wait_site const& site) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) try {
        train<small>(simulated{.seed = seed, .without = site}, microbatches, steps, samples);
      } catch (race_error const&) {
        return true;
      }
    return false;
  };
  for (auto const& site : statistics.sites) EXPECT_TRUE(is_found(site)) << to_string(site);
}
TEST(InterleavedSimulated, HasNoRaceAndNoWaitTooMany) {
  expect_all_waits_needed<pipeline<2, interleaved<2>>>();
  expect_all_waits_needed<pipeline<2, plait_test::wave_breadth_first>>();
  expect_all_waits_needed<pipeline<2, plait_test::wave_of_halves>>();
}

}  // namespace
