// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include "plait/nn/dropout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/run/launch.hpp"
#include "plait/run/stage_executor.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::execution;

TEST(Dropout, KeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::dropout<12, 300>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 3 + 5 + 5);
}

// --- the mask is a function of the global index alone
// ---------------------------------------------

constexpr std::size_t width = 12, length = 12, samples = 4;
constexpr int per_mille = 300;

template <name Form, class Policy>
struct job : parallel<sequential<plait::testing::relay<length, width>,
                                 use_form<Form, nn::dropout<width, per_mille>>,
                                 plait::testing::relay<length, width>>,
                      Policy, double> {};

/// The result for ones: (samples, positions, features), put together from all ranks and
/// microbatches.
template <name Form, class Policy>
std::vector<double> mask(std::size_t microbatches, std::uint64_t seed = 3, std::uint32_t step = 2) {
  using job_type = job<Form, Policy>;
  using plan = typename job_type::plan_type;
  std::vector<double> out(samples * length * width, -1.0);
  launch<job_type>(threads{}, [&](auto& rank) {
    using rank_type = std::remove_reference_t<decltype(rank)>;
    auto const here = samples / static_cast<std::size_t>(rank.grid().size(axis::data));
    auto const each = here / microbatches;
    workload const load{.rows = each * length};
    auto const activations = rank.device().allocate(plan::arena_for(0, load).total_bytes);
    stage_items<job_type, rank_type> stage(rank, load, {activations.data(), nullptr, nullptr});
    std::vector<double> ones(each * length * width, 1.0);
    for (std::size_t m = 0; m < microbatches; ++m) {
      auto const first =
          here * static_cast<std::size_t>(rank.coordinates().along(plait::axis::data)) + each * m;
      layer_context context{.seed = seed,
                            .step = &step,
                            .microbatch = static_cast<int>(m),
                            .batch = each,
                            .first_sample = first,
                            .sequence = length,
                            .tensor_rank = rank.tensor_rank(),
                            .tensor_ranks = plan::tensor_ranks};
      auto pass = stage.pass_of(context);
      pass.input = reinterpret_cast<std::byte*>(ones.data());
      auto const* made = reinterpret_cast<double const*>(stage.forward(pass));
      if (rank.tensor_rank() != 0) continue;
      for (std::size_t p = 0; p < length; ++p)
        for (std::size_t s = 0; s < each; ++s)
          std::memcpy(&out[((first + s) * length + p) * width], made + (p * each + s) * width,
                      width * sizeof(double));
    }
  });
  return out;
}

std::vector<double> serial_mask() { return mask<"whole", serial>(1); }

TEST(DropoutMask, IsTheSerialOneUnderEverySplit) {
  auto const right = serial_mask();
  EXPECT_EQ((mask<"whole", serial>(2)), right);
  EXPECT_EQ((mask<"whole", serial>(4)), right);
  EXPECT_EQ((mask<"whole", data_parallel<2>>(1)), right);
  EXPECT_EQ((mask<"whole", data_parallel<4>>(1)), right);
  EXPECT_EQ((mask<"features", tensor_parallel<3>>(2)), right);
  EXPECT_EQ((mask<"sequence", tensor_parallel<3, sequence::sharded>>(2)), right);
  using both = hybrid<data_parallel<2>, tensor_parallel<2>>;
  EXPECT_EQ((mask<"features", both>(2)), right);
  using all = hybrid<data_parallel<2>, tensor_parallel<2, sequence::sharded>>;
  EXPECT_EQ((mask<"sequence", all>(2)), right);
}

TEST(DropoutMask, DropsTheRightShareAndScalesTheRest) {
  auto const right = serial_mask();
  for (double const value : right) EXPECT_TRUE(value == 0.0 || value == 1 / 0.7) << value;
  auto const dropped = std::ranges::count(right, 0.0);
  // 576 elements: 172.8 expected, the deviation is 11.
  EXPECT_NEAR(static_cast<double>(dropped), 172.8, 44.0);
}

TEST(DropoutMask, DiffersBetweenSamplesStepsAndSeeds) {
  auto const right = serial_mask();
  EXPECT_NE((mask<"whole", serial>(1, 3, 3)), right);
  EXPECT_NE((mask<"whole", serial>(1, 4, 2)), right);
  auto const block = static_cast<std::ptrdiff_t>(length * width);
  for (std::ptrdiff_t s = 1; s < static_cast<std::ptrdiff_t>(samples); ++s)
    EXPECT_FALSE(std::equal(right.begin(), right.begin() + block, right.begin() + s * block)) << s;
}

}  // namespace
