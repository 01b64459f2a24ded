// SPDX-License-Identifier: Apache-2.0
// test: seconds=60
//
// Several chunks on each stage train what the serial run trains: in loops and in waves.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "schedule/waves.hpp"
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

// The last chunk of a wave is on the stage of the first.
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

}  // namespace
