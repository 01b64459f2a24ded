// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=15
//
// Ranks that own whole parameters: equal training, and layouts in which no block cuts a matrix.
#include "plait/plan/zero_of_matrices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "train/levels.hpp"

namespace {

using namespace levels;

template <int Level, auto Buckets>
using dealt = data_parallel<at_launch, zero_of_matrices<Level>, buckets<Buckets>>;

void expect_near(tensors const& expected, tensors const& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (auto const& [name, values] : expected)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.at(name)[i], values[i], 1e-10) << name << " at " << i;
}
template <template <class, class> class Job, class Policy>
void expect_serial(auto const& backend) {
  constexpr settings with{.microbatches = 2, .clip = 0.5, .steps = 3};
  static auto const expected = train<Job<serial, double>>(threads{}, with);
  auto const got = train<Job<Policy, double>>(backend, with);  // compares the memory with the plan
  ASSERT_EQ(expected.numbers.size(), got.numbers.size());
  for (std::size_t i = 0; i < expected.numbers.size(); ++i)
    ASSERT_NEAR(got.numbers[i], expected.numbers[i], 1e-10) << i;
  expect_near(expected.weights, got.weights);
  expect_near(expected.gradients, got.gradients);
}

TEST(ZeroOfMatrices, TrainsAsOneRank) {
  expect_serial<job, dealt<1, at_end>>(threads{.data_ranks = 1});
  for (int const ranks : {2, 3}) {
    threads const backend{.data_ranks = ranks};
    expect_serial<job, dealt<1, at_end>>(backend);
    expect_serial<tied_job, dealt<2, 65536>>(backend);
    expect_serial<tied_job, dealt<3, 8192>>(backend);
  }
}

TEST(ZeroOfMatrices, TrainsOnSeveralAxesAsOneRank) {
  threads const two{.data_ranks = 2};
  expect_serial<job, hybrid<pipeline<2>, dealt<1, at_end>, small_gpt::tp2_sharded>>(two);
  expect_serial<job, hybrid<pipeline<2, interleaved<2>>, dealt<1, 8192>>>(two);
  expect_serial<tied_job, data_parallel<4, within<2>, zero_of_matrices<3>, buckets<8192>>>(
      threads{});
}

TEST(ZeroOfMatrices, TrainsOnASimulatedDevice) {
  expect_serial<tied_job, dealt<3, 8192>>(simulated{.data_ranks = 2});
}

struct found {
  int cut = 0;  ///< number of trained parameters that belong to several blocks
  std::size_t elements = 0;
};

/// Checks that parameters are within their regions and do not overlap.
template <class Plan>
found check_layout(int stage, int ranks) {
  auto const grid = Plan::grid_for({.data_ranks = ranks});
  auto const layout = Plan::parameter_layout_for(stage, grid);
  auto parameters = Plan::blocks(stage, 0, grid);
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](auto const& a, auto const& b) { return a.offset < b.offset; });
  found out{.elements = layout.count()};
  std::size_t end = 0;
  for (auto const& parameter : parameters) {
    EXPECT_GE(parameter.offset, end) << parameter.name;
    EXPECT_EQ(parameter.offset % parameter_alignment, 0u) << parameter.name;
    end = parameter.offset + parameter.count;
    if (Plan::entries[parameter.entry].is_frozen) {
      EXPECT_GE(parameter.offset, layout.count()) << parameter.name;
      continue;
    }
    int buckets = 0;
    for (auto const& bucket : layout.buckets) {
      if (overlap(bucket.elements, parameter).count == 0) continue;
      EXPECT_EQ(overlap(bucket.elements, parameter).count, parameter.count) << parameter.name;
      ++buckets;
      std::size_t const block = bucket.elements.count / std::size_t(ranks);
      std::size_t const first = parameter.offset - bucket.elements.offset;
      if (first / block != (first + parameter.count - 1) / block) ++out.cut;
    }
    EXPECT_EQ(buckets, 1) << parameter.name;
  }
  EXPECT_LE(end, layout.kept_count());
  std::size_t next = 0;
  for (auto const& bucket : layout.buckets) {
    EXPECT_EQ(bucket.elements.offset, next);
    EXPECT_EQ(bucket.elements.count % (parameter_alignment * std::size_t(ranks)), 0u);
    next = bucket.elements.end();
  }
  EXPECT_EQ(next, layout.count());
  return out;
}

TEST(ZeroOfMatrices, LaysOutWholeParametersWithLittlePadding) {
  using plan = job<dealt<1, at_end>>::plan_type;
  using usual = job<data_parallel<at_launch, zero<1>, buckets<at_end>>>::plan_type;
  int cut = 0;
  for (int const ranks : {2, 3, 4}) {
    auto const got = check_layout<plan>(0, ranks), by_elements = check_layout<usual>(0, ranks);
    EXPECT_EQ(got.cut, 0);
    EXPECT_LT(got.elements, 2 * by_elements.elements);
    cut += by_elements.cut;
  }
  EXPECT_GT(cut, 0);
  // The embedding and the head have 4096 elements of 12992, more than twice an eighth.
  EXPECT_GT(check_layout<plan>(0, 16).cut, 0);
  EXPECT_EQ(check_layout<plan>(0, 16).elements, check_layout<usual>(0, 16).elements);
  check_layout<tied_job<dealt<1, at_end>>::plan_type>(0, 2);
  check_layout<tied_job<dealt<3, 8192>>::plan_type>(0, 3);
}

TEST(ZeroOfMatrices, PutsTheLargestFirst) {
  lean_vector<dealt_parameter> parameters{{0, 0, 300}, {1, 0, 100}, {2, 0, 400}, {3, 0, 400}};
  EXPECT_EQ(deal(parameters, 2, 1), 700u);
  EXPECT_EQ(parameters[2].owner, 0u);
  EXPECT_EQ(parameters[3].owner, 1u);
  EXPECT_EQ(parameters[0].owner, 0u);
  EXPECT_EQ(parameters[1].owner, 1u);
  EXPECT_EQ(deal(parameters, 2, 64), 704u);
  EXPECT_EQ(deal(parameters, 5, 1), 400u);
}

}  // namespace
