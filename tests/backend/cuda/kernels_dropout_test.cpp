// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include "plait/backend/cuda/kernels/dropout.hpp"
#include "plait/backend/host/maths/dropout.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;

namespace {

template <class T>
struct Dropout : testing::Test {};
TYPED_TEST_SUITE(Dropout, elements);

}  // namespace

TYPED_TEST(Dropout, DropsWhatTheHostDrops) {
  using T = TypeParam;
  struct block {
    std::size_t rows, columns;
    plait::ext::dropout_block at;
  };
  block const blocks[] = {{0, 4, {}},
                          {1, 1, {1, 0, 0, 0, 1, 1}},
                          {6, 13, {2, 0, 0, 0, 3, 13}},
                          {6, 5, {3, 4, 2, 3, 11, 17}},
                          {8, 40, {4, 1, 3, 8, 9, 64}},
                          {2, 600, {1, 0, 0, 2, 2, 1202}}};
  auto const threshold = maths::dropout_threshold(0.3);
  std::uint32_t const step = 12;
  auto step_in_memory = one(step);
  for (auto const& [rows, columns, at] : blocks)
    for (std::size_t const shift : shifts) {
      auto const x = values<T>(rows * columns, 1);
      std::vector<double> expected(rows * columns);
      maths::dropout(wide(x).data(), expected.data(), rows, columns,
                     {.seed = 9, .site = 4, .step = step}, threshold, 1.25, at);
      memory<T> in(x, shift), out(rows * columns);
      plait::ext::dropout_key const key{9, 4, step_in_memory.data()};
      kernels::dropout(launcher{}, in.data(), out.data(), rows, columns, key, threshold, 1.25, at);
      auto const y = out.wide();
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i] == 0, expected[i] == 0) << i;
      expect_near(y, expected, 1.25 * rounding<T>);
      kernels::dropout(launcher{}, in.data(), in.data(), rows, columns, key, threshold, 1.25, at);
      EXPECT_EQ(in.wide(), y);
    }
}
