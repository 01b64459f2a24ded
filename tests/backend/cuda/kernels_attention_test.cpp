// SPDX-License-Identifier: Apache-2.0
// test: optimise
#include "backend/cuda/kernel_testing.hpp"  // first: the words of kernels

#include <algorithm>

#include "plait/backend/cuda/kernels/attention.hpp"
#include "plait/backend/cuda/kernels/attention_backward.hpp"
#include "plait/backend/host/maths/attention.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;

namespace {

struct packed_shape {
  std::size_t sequence, batch, heads, head_width;
};
// Tiles are of 16 to 64 positions and of 64, 128 or 256 columns.
constexpr packed_shape shapes[] = {{0, 1, 1, 8},  {1, 1, 1, 1},    {17, 2, 3, 5},  {64, 1, 1, 64},
                                   {70, 2, 2, 8}, {133, 1, 1, 24}, {66, 1, 2, 72}, {35, 1, 1, 136}};

template <class T>
struct Attention : testing::Test {};
TYPED_TEST_SUITE(Attention, elements);

}  // namespace

TYPED_TEST(Attention, ForwardAndBackwardEqualTheHost) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (auto const& [sequence, batch, heads, head_width] : shapes)
    for (std::size_t const shift : shifts) {
      if (shift > 0 && sequence > 70) continue;  // the same with loads of single elements
      std::size_t const rows = sequence * batch, sums = rows * heads, count = sums * head_width;
      auto qkv = values<T>(3 * count, 1);
      for (T& value : qkv) value = static_cast<T>(static_cast<A>(value) * 2);
      auto const dout = values<T>(count, 2);
      std::vector<double> out(count), log_sum(sums), dqkv(3 * count),
          scratch(2 * plait::ext::attention_scratch(sequence));
      plait::ext::attention_shape const shape{sequence, batch, heads, head_width};
      auto const wide_qkv = wide(qkv);
      auto const host_in = plait::ext::side_by_side(wide_qkv.data(), heads, head_width);
      maths::attention_forward(shape, host_in, out.data(), log_sum.data(), scratch.data());

      memory<T> in(qkv, shift), result(count, shift), gradient(3 * count, shift);
      memory<A> result_sums(sums),
          products(kernels::attention_backward_scratch(sequence, batch, heads));
      kernels::attention(launcher{}, in.data(), result.data(), result_sums.data(), sequence, batch,
                         heads, head_width);
      // Values are at most 2, and scores, sums of head_width products, at most 4 sqrt(head_width).
      double const score_error = 10 * rounding<A> * 4 * std::sqrt(static_cast<double>(head_width));
      expect_near(result_sums.wide(), log_sum, 2 * score_error);
      expect_near(result.wide(), out, 2 * (rounding<T> + 4 * score_error));

      // Backward starts from the rounded results of the kernel.
      auto const rounded = result.wide(), rounded_sums = result_sums.wide();
      maths::attention_backward(
          shape, host_in, rounded.data(), rounded_sums.data(), wide(dout).data(),
          plait::ext::side_by_side(dqkv.data(), heads, head_width), scratch.data());
      memory<T> from(dout);
      kernels::attention_backward(launcher{}, in.data(), result.data(), result_sums.data(),
                                  from.data(), gradient.data(), products.data(), sequence, batch,
                                  heads, head_width);
      double largest = 1;
      for (double const value : dqkv) largest = std::max(largest, std::abs(value));
      expect_near(gradient.wide(), dqkv, largest * (rounding<T> + 20 * score_error));
    }
}

TEST(Attention, RefusesHeadsAboveTheLimit) {
  float* const none = nullptr;
  try {
    kernels::attention(launcher{}, none, none, none, 1, 1, 1, 257);
    FAIL() << "no error";
  } catch (plait::error const& problem) {
    EXPECT_STREQ(problem.what(),
                 "attention: head width 257 is above the limit 256 of the CUDA kernels");
  }
}
