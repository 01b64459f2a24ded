// SPDX-License-Identifier: Apache-2.0
// test: libs=thrust seconds=3
#include "plait/backend/cuda/thrust.hpp"

#include <gtest/gtest.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/system/cpp/execution_policy.h>
#include <thrust/transform.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "../examples/thrust_layer.hpp"
#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

TEST(ThrustScratch, HandsOutAlignedPiecesAndTakesTheLastOneBack) {
  alignas(64) std::array<double, 64> bytes{};  // 512
  plait::ext::thrust_scratch memory(plait::view<double>{bytes.data() + 1, 1, 63});
  auto* const first = memory.allocate(10);
  auto* const second = memory.take<std::int32_t>(25);
  EXPECT_EQ(first, reinterpret_cast<std::byte*>(bytes.data() + 8));
  EXPECT_EQ(reinterpret_cast<std::byte*>(second), first + 64);
  memory.deallocate(first, 10);  // it is not the last allocation, so its memory stays taken
  auto* const third = memory.allocate(64);
  EXPECT_EQ(third, first + 192);
  memory.deallocate(third, 64);
  EXPECT_EQ(memory.allocate(256), third);  // all remaining bytes
  EXPECT_EQ(memory.allocate(0), third + 256);
  memory.deallocate(third, 256);
  memory.deallocate(reinterpret_cast<std::byte*>(second), 100);
  EXPECT_EQ(memory.allocate(1), reinterpret_cast<std::byte*>(second));
}

TEST(ThrustScratch, SaysHowMuchIsNeededAndHowMuchIsLeft) {
  alignas(64) std::array<float, 64> bytes{};  // 256
  plait::ext::thrust_scratch memory(plait::view<float>{bytes.data(), 1, 64});
  memory.allocate(100);
  try {
    memory.take<double>(17);
    FAIL() << "nothing was thrown";
  } catch (plait::out_of_memory const& e) {
    EXPECT_EQ(std::string(e.what()),
              "thrust_scratch: 136 bytes are needed, 128 of 256 are left; make the slot larger: "
              "slot<Label, PerRow, Values>");
    EXPECT_EQ(e.bytes.asked, 136u);
    EXPECT_EQ(e.bytes.free, 128u);
    EXPECT_EQ(e.bytes.total, 256u);
  }
  EXPECT_NO_THROW(memory.take<double>(16));
  EXPECT_THROW(memory.allocate(1), plait::out_of_memory);
  EXPECT_THROW(memory.allocate(~std::size_t{0}), plait::out_of_memory);
}

TEST(ThrustScratch, IsAnAllocatorOfThrustsPolicies) {
  alignas(64) std::array<std::byte, 8192> bytes{};
  plait::ext::thrust_scratch memory(plait::view<std::byte>{bytes.data(), 1, bytes.size()});
  std::vector<int> keys;
  for (int i = 0; i < 500; ++i) keys.push_back(i * 7 % 500);
  std::vector<int> values = keys;
  for (int round = 0; round < 3; ++round)  // each round releases its memory
    thrust::stable_sort_by_key(thrust::cpp::par(memory), keys.begin(), keys.end(), values.begin(),
                               [round](int a, int b) { return round == 1 ? a > b : a < b; });
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_EQ(keys, values);
  plait::ext::thrust_scratch few(plait::view<std::byte>{bytes.data(), 1, 64});
  EXPECT_THROW(thrust::stable_sort_by_key(thrust::cpp::par(few), keys.begin(), keys.end(),
                                          values.begin(), std::greater<int>()),
               plait::out_of_memory);
}

TEST(ThrustViews, AreRangesOfTheirElements) {
  std::array<double, 6> numbers{1, 2, 3, 4, 5, 6};
  plait::view<double> const x{numbers.data(), 2, 3};
  plait::view<double const> const read = x;
  static_assert(std::is_same_v<decltype(begin(x)), double*>);
  static_assert(std::is_same_v<decltype(begin(read)), double const*>);
  auto const policy = thrust_policy(plait::ext::host_queue{});
  thrust::inclusive_scan(policy, begin(read), end(read), begin(x));
  EXPECT_EQ(numbers, (std::array<double, 6>{1, 3, 6, 10, 15, 21}));
  double sum = 0;
  for (double const each : read) sum += each;
  EXPECT_EQ(sum, 56);

  std::array<std::int32_t, 3> const ids{5, 6, 7};
  plait::token_view<> const tokens{ids.data(), 3};
  EXPECT_EQ(end(tokens) - begin(tokens), 3);
  EXPECT_EQ(*begin(tokens), 5);

  plait::view<double const, plait::invariant, plait::ext::simulated_memory> const there{
      numbers.data(), 2, 3};
  static_assert(std::is_same_v<decltype(begin(there)), double const*>);
  EXPECT_EQ(end(there) - begin(there), 6);
}

// ---- The layers of examples/thrust_layer.hpp ----------------------------------------------------

TEST(ThrustLayer, KeepsTheLawsOfLayers) {
  auto const linear = plait::testing::check_layer<thrust_layer::unit_linear<12, 24>>();
  EXPECT_TRUE(linear.passed()) << linear.text();
  auto const gate = plait::testing::check_layer<thrust_layer::top_k_gate<12, 5>>();
  EXPECT_TRUE(gate.passed()) << gate.text();
}

TEST(ThrustLayer, RunsInAnyOrderOfEvents) {
  using policy = plait::data_parallel<2>;
  auto const expected = thrust_layer::train<policy>(plait::threads{});
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    EXPECT_EQ(thrust_layer::train<policy>(plait::simulated{.seed = seed}), expected) << seed;
}

// The simulated device knows the accesses of the other operations from their arguments: without one
// of its waits it reports a race.
TEST(ThrustLayer, AWaitThatIsLeftOutIsFound) {
  using policy = plait::data_parallel<2>;
  plait::ext::simulated_statistics seen;
  thrust_layer::train<policy>(plait::simulated{.statistics = &seen});
  EXPECT_FALSE(seen.sites.empty());
  for (auto const& site : seen.sites)
    EXPECT_THROW(thrust_layer::train<policy>(plait::simulated{.without = site}),
                 plait::ext::race_error);
}

}  // namespace
