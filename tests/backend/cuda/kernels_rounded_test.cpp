// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include <algorithm>
#include <cmath>
#include <limits>

#include "plait/backend/cuda/kernels/rounded.hpp"
#include "plait/backend/host/maths/rounded.hpp"
#include "plait/core/rounded_block.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;

namespace {

template <class T>
struct Rounded : testing::Test {};
using gradients = testing::Types<float, double>;
TYPED_TEST_SUITE(Rounded, gradients);

/// Compares the kernels with the host's functions, for `count` blocks. A shift of one word leaves
/// blocks aligned for float only.
template <class Of, class T>
void expect_the_blocks_of_the_host(std::size_t count, std::size_t shift) {
  using block = plait::ext::rounded_block<Of>;
  using plait::ext::wire_word;
  constexpr std::size_t words = sizeof(block) / sizeof(wire_word),
                        each = plait::ext::rounded_elements;
  auto x = values<T>(count * each, 1);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<T>(std::ldexp(static_cast<double>(x[i]), int(i * 7 % 31) - 15));
  if (count > 2) {
    std::fill_n(x.begin() + each, each, T{0});
    x[2 * each + 5] = std::numeric_limits<T>::infinity();
    x[2 * each + 40] = 0;
  }
  std::vector<block> expected(count);
  maths::round_blocks(x.data(), expected.data(), count);
  memory<T> from(x, shift), to(count * each, shift), sum(x, shift);
  memory<wire_word> sent(count * words, shift);
  auto* const blocks = reinterpret_cast<block*>(sent.data());
  kernels::round_blocks(few_blocks, static_cast<T const*>(from.data()), blocks, count);
  std::vector<wire_word> expected_words(count * words);
  if (count > 0)
    std::memcpy(expected_words.data(), static_cast<void const*>(expected.data()),
                count * sizeof(block));
  EXPECT_EQ(sent.get(), expected_words);
  std::vector<T> wide_on_host(count * each), sum_on_host = x;
  maths::widen_blocks(static_cast<block const*>(expected.data()), wide_on_host.data(), count);
  maths::add_blocks(static_cast<block const*>(expected.data()), sum_on_host.data(), count);
  kernels::widen_blocks(few_blocks, static_cast<block const*>(blocks), to.data(), count);
  kernels::add_blocks(few_blocks, static_cast<block const*>(blocks), sum.data(), count);
  auto const expect_equal = [](std::vector<T> const& got, std::vector<T> const& right) {
    for (std::size_t i = 0; i < right.size(); ++i)
      EXPECT_TRUE(got[i] == right[i] || (std::isnan(got[i]) && std::isnan(right[i]))) << i;
  };
  expect_equal(to.get(), wide_on_host);
  expect_equal(sum.get(), sum_on_host);
}

}  // namespace

TYPED_TEST(Rounded, GivesTheBlocksOfTheHost) {
  for (std::size_t const count : {0u, 1u, 3u, 40u})
    for (std::size_t const shift : shifts) {
      expect_the_blocks_of_the_host<plait::bfloat16, TypeParam>(count, shift);
      expect_the_blocks_of_the_host<plait::float8, TypeParam>(count, shift);
    }
}
