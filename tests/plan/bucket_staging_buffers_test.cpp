// SPDX-License-Identifier: Apache-2.0
// test: seconds=5
//
// Plans in which ranks hold blocks of parameters and gradients: bytes, memory, and when each bucket
// is gathered.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/plait.hpp"
#include "plait/plan/sharding/bucket_staging_buffers.hpp"
#include "plan/gpt2.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

// --- GPT-2 with 124 million parameters, its head tied to its table

using plan_gpt2::gpt2, plan_gpt2::width;
constexpr std::size_t sequence = plan_gpt2::length;

template <class... Options>
using plan_of = plan<gpt2, data_parallel<8, Options...>>;
constexpr workload one_batch{.rows = 4 * sequence, .optimizer_states = 2};
constexpr workload four{.rows = 4 * sequence, .microbatches = 4, .optimizer_states = 2};

/// Returns the bytes that a rank sends over the data axis in a step, without the count of labels.
template <class Plan>
constexpr std::int64_t sent(workload const& load) {
  return Plan::bytes_sent(axis::data, 0, load).total() - 14;
}
constexpr std::int64_t n = 435'676'416;  // a reduce_scatter or an all_gather of all parameters
static_assert(sent<plan_of<>>(one_batch) == 2 * n && sent<plan_of<>>(four) == 2 * n);
static_assert(sent<plan_of<zero<1>>>(one_batch) == 2 * n && sent<plan_of<zero<1>>>(four) == 2 * n);
static_assert(sent<plan_of<zero<2>>>(one_batch) == 2 * n && sent<plan_of<zero<2>>>(four) == 5 * n);
// The last two buckets are already gathered when the backward begins, and the table is not needed
// at its end.
constexpr std::int64_t per_microbatch = 1'282'215'424;
static_assert(per_microbatch == 3 * n - 24'813'824);
static_assert(sent<plan_of<zero<3>>>(one_batch) == per_microbatch);
// Positions, which are gathered last for the backward, are still there for the next forward.
constexpr std::int64_t positions = 4 * sequence * width * 7 / 8;
static_assert(sent<plan_of<zero<3>>>(four) == 4 * per_microbatch - 3 * positions);

template <class Plan>
constexpr memory_need need = Plan::memory(0, one_batch);
static_assert(plan_of<zero<3>>::parameter_layout_for(0, plan_of<>::grid).buckets.size() == 14);
static_assert(need<plan_of<>>.optimizer == 995'831'808);
static_assert(need<plan_of<zero<1>>>.optimizer == 124'478'976);
static_assert(need<plan_of<zero<2>>>.optimizer == 124'478'976);
static_assert(need<plan_of<zero<3>>>.optimizer == 124'478'976);
static_assert(need<plan_of<zero<1>>>.parameters == 497'915'904);
static_assert(need<plan_of<zero<2>>>.parameters == 497'915'904);
static_assert(need<plan_of<zero<3>>>.parameters == 4 * (15'559'872 + 45'723'136));
static_assert(need<plan_of<zero<3>, buckets<1>>>.parameters == 219'919'104);
static_assert(need<plan_of<zero<1>>>.gradients == 652'449'792);
static_assert(need<plan_of<zero<2>>>.gradients == 374'452'992);
static_assert(need<plan_of<zero<3>>>.gradients == 374'452'992);

// Groups of 8 among 32 ranks: between groups each sum is sent once, as a block, at every level.
template <int Level>
using grouped = plan<gpt2, data_parallel<32, within<8>, zero<Level>>>;
static_assert(grouped<3>::bytes_sent(axis::replica, 0, one_batch).total() ==
              grouped<3>::bytes_sent(axis::replica, 0, four).total());
static_assert(grouped<1>::bytes_sent(axis::replica, 0, one_batch).total() ==
              grouped<3>::bytes_sent(axis::replica, 0, one_batch).total());
static_assert(4 * need<grouped<3>>.optimizer < need<plan_of<zero<3>>>.optimizer + 4096);

// --- when each bucket is gathered

parameter_layout with_buckets(std::vector<std::size_t> const& counts) {
  parameter_layout out;
  std::size_t next = 0;
  for (std::size_t const count : counts) {
    out.buckets.push_back({0, {}, {next, count}});
    next += count;
  }
  return out;
}
/// Returns two of each piece, as the plan has them.
lean_vector<int> in_pairs(std::vector<std::vector<int>> const& uses) {
  lean_vector<int> out;
  for (auto const& one : uses)
    for (std::size_t i = 0; i < 2; ++i) out.push_back(i < one.size() ? one[i] : -1);
  return out;
}
gather_plan gathers_of(parameter_layout const& layout, std::size_t room,
                       std::vector<std::vector<int>> const& uses, lean_vector<int> const& order) {
  gather_plan out;
  out.ends.resize(order.size());
  out.releases.resize(order.size());
  add_gathers(out, layout, {0, room}, in_pairs(uses), order, 0);
  return out;
}

/// A plan gathers each bucket before an operation uses it, and never over a bucket in use: two
/// buckets fill the beginning and the end of the memory. After the last operation that uses a
/// bucket before it is gathered again, the plan releases it.
void expect_sound(parameter_layout const& layout, std::size_t room,
                  std::vector<std::vector<int>> const& uses, lean_vector<int> const& order) {
  auto const all = gathers_of(layout, room, uses, order);
  std::vector<int> at_element(room, -1);  // the bucket at each element
  auto const lie = [&](int bucket, bool at_end) {
    std::size_t const count = layout.buckets[std::size_t(bucket)].elements.count;
    return element_range{at_end ? room - count : 0, count};
  };
  std::vector<bool> end_of(layout.buckets.size());
  std::array<int, 2> inside{-1, -1};
  std::size_t next = 0;
  ASSERT_EQ(all.ends.size(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (; next < all.gathers.size() && all.gathers[next].before == int(i); ++next) {
      auto const& [before, bucket, at] = all.gathers[next];
      auto const range = lie(bucket, at.at_end);
      EXPECT_EQ(inside[at.at_end ? 1 : 0], -1);
      // A gather that takes all the memory waits for the users of the other end.
      EXPECT_TRUE(!at.takes_all || inside[at.at_end ? 0 : 1] == -1);
      inside[at.at_end ? 1 : 0] = bucket;
      for (std::size_t e = range.offset; e < range.end(); ++e)
        EXPECT_EQ(std::exchange(at_element[e], bucket), -1);
      end_of[std::size_t(bucket)] = at.at_end;
    }
    int ends = 0;
    for (int const bucket : uses[std::size_t(order[i])]) {
      auto const range = lie(bucket, end_of[std::size_t(bucket)]);
      for (std::size_t e = range.offset; e < range.end(); ++e) ASSERT_EQ(at_element[e], bucket);
      ends |= end_of[std::size_t(bucket)] ? 2 : 1;
    }
    EXPECT_EQ(all.ends[i], ends);
    for (int const end : {0, 1})
      if ((all.releases[i] >> end & 1) != 0) {
        int const gone = std::exchange(inside[std::size_t(end)], -1);
        ASSERT_GE(gone, 0);
        auto const range = lie(gone, end == 1);
        for (std::size_t e = range.offset; e < range.end(); ++e) at_element[e] = -1;
        ASSERT_TRUE(std::ranges::count(uses[std::size_t(order[i])], gone) > 0);
      }
  }
  EXPECT_EQ(std::ranges::count(at_element, -1), std::ptrdiff_t(room));
  EXPECT_EQ(next, all.gathers.size());
}

TEST(GatherPlan, HasWhatIsUsedAtAnyTime) {
  std::uint64_t state = 1;
  auto const random = [&](std::size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return std::size_t(state >> 33) % below;
  };
  for (int run = 0; run < 2000; ++run) {
    std::vector<std::size_t> counts(2 + random(6));
    for (auto& count : counts) count = 1 + random(9);
    std::vector<std::vector<int>> uses;
    std::size_t room = 0;
    for (std::size_t i = 0; i < 2 + random(6); ++i) {
      std::vector<int> used;
      std::size_t sum = 0;
      for (std::size_t k = random(3); k > 0; --k) {
        int const one_more = int(random(counts.size()));
        if (!used.empty() && used[0] == one_more) continue;
        used.push_back(one_more);
        sum += counts[std::size_t(one_more)];
      }
      room = std::max(room, sum);
      uses.push_back(used);
    }
    room = std::max<std::size_t>(1, room + random(5));
    lean_vector<int> order;
    for (int i = 0; i < 30; ++i) order.push_back(int(random(uses.size())));
    expect_sound(with_buckets(counts), room, uses, order);
  }
}

TEST(GatherPlan, UsesResidentBucketsAndGathersOneAhead) {
  auto const layout = with_buckets({4, 4, 4});
  std::vector<std::vector<int>> const uses{{0}, {1}, {2}};
  // A pass forward and back.
  auto const all = gathers_of(layout, 8, uses, {0, 1, 2, 2, 1, 0});
  std::vector<std::pair<int, int>> made;
  for (auto const& one : all.gathers) made.emplace_back(one.before, one.bucket);
  EXPECT_EQ(made, (std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 2}, {4, 0}}));
}

}  // namespace
