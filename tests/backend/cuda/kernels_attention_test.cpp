// SPDX-License-Identifier: Apache-2.0
// test: optimise
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include <algorithm>
#include <vector>

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
// Tiles have 16 to 64 positions and 64, 128 or 256 columns. The first shape has several tiles and
// is small, so that a race is found soon.
constexpr packed_shape shapes[] = {{70, 2, 2, 8},  {0, 1, 1, 8},   {1, 1, 1, 1},
                                   {17, 2, 3, 5},  {64, 1, 1, 64}, {133, 1, 1, 24},
                                   {66, 1, 2, 72}, {35, 1, 1, 136}};

template <class T>
struct Attention : testing::Test {};
TYPED_TEST_SUITE(Attention, elements);

}  // namespace

TYPED_TEST(Attention, ForwardAndBackwardEqualTheHost) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (auto const& [sequence, batch, heads, head_width] : shapes)
    for (std::size_t const shift : shifts) {
      // The shift only changes vector loads to loads of single elements.
      if (shift > 0 && sequence > 70) continue;
      std::size_t const rows = sequence * batch, sums = rows * heads, count = sums * head_width;
      auto qkv = values<T>(3 * count, 1);
      for (T& value : qkv) value = static_cast<T>(static_cast<A>(value) * 2);
      auto const dout = values<T>(count, 2);
      std::vector<double> out(count), log_sum(sums), dqkv(3 * count),
          scratch(2 * plait::ext::attention_scratch(sequence));
      plait::ext::attention_shape const shape{sequence, batch, heads, head_width};
      auto const wide_qkv = wide(qkv);
      auto const host_in = side_by_side(wide_qkv.data(), rows, heads * head_width);
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
          side_by_side(dqkv.data(), rows, heads * head_width), scratch.data());
      memory<T> from(dout);
      kernels::attention_backward(launcher{}, in.data(), result.data(), result_sums.data(),
                                  from.data(), gradient.data(), products.data(), sequence, batch,
                                  heads, head_width);
      double largest = 1;
      for (double const value : dqkv) largest = std::max(largest, std::abs(value));
      expect_near(gradient.wide(), dqkv, largest * (rounding<T> + 20 * score_error));
    }
}

namespace {

using plait::ext::attention_options;
using plait::ext::attention_shape;

/// Every mask with every number of query heads for a key, and windows that begin within tiles, at
/// their edges and in others.
std::vector<attention_shape> general_shapes() {
  std::vector<attention_shape> out = {
      {1, 1, 2, 8, 2},
      {17, 2, 3, 5, 3, {.window = 1}},
      {133, 1, 2, 24, 2, {.window = 20}},
      {150, 1, 2, 8, 1, {.window = 65}},
      {66, 1, 2, 72, 1, {.window = 3}},
      {66, 1, 2, 72, 2, {.causal = false}},
      {35, 1, 4, 136, 2, {.causal = false}},
      {40, 1, 2, 136, 2, {.window = 5}},
  };
  for (std::size_t const group : {1u, 2u, 4u})
    for (attention_options const how :
         {attention_options{}, attention_options{.causal = false}, attention_options{.window = 16}})
      out.push_back({70, 1, 4, 8, group, how});
  return out;
}

}  // namespace

// The keys and values are stored in wider rows, of which the kernel reads the middle.
TYPED_TEST(Attention, OfAnyHeadsAndMaskEqualsTheHost) {
  using T = TypeParam;
  using A = accumulate_t<T>;
  for (auto const& shape : general_shapes())
    for (std::size_t const shift : shifts) {
      if (shift > 0 && shape.sequence > 66) continue;
      std::size_t const rows = shape.sequence * shape.batch, width = shape.heads * shape.head_width;
      std::size_t const key_width = shape.key_value_heads() * shape.head_width;
      std::size_t const key_row = 3 * key_width, sums = rows * shape.heads;
      auto const doubled = [](std::vector<T> all) {
        for (T& value : all) value = static_cast<T>(static_cast<A>(value) * 2);
        return all;
      };
      auto const q = doubled(values<T>(rows * width, 1)), k = doubled(values<T>(rows * key_row, 2)),
                 v = doubled(values<T>(rows * key_row, 3)), dout = values<T>(rows * width, 4);
      auto const wide_q = wide(q), wide_k = wide(k), wide_v = wide(v);
      plait::ext::attention_operands<double const> const host_in{
          wide_q.data(), wide_k.data() + key_width, wide_v.data() + key_width, width, key_row};
      std::vector<double> out(rows * width), log_sum(sums), dq(q.size()), dk(k.size(), 7.0),
          dv(v.size(), 7.0), scratch(2 * plait::ext::attention_scratch(shape.sequence));
      maths::attention_forward(shape, host_in, out.data(), log_sum.data(), scratch.data());

      memory<T> of_q(q, shift), of_k(k, shift), of_v(v, shift), result(rows * width, shift);
      memory<T> for_q(q.size(), shift), for_k(k.size(), shift), for_v(v.size(), shift);
      memory<A> result_sums(sums),
          products(kernels::attention_backward_scratch(shape.sequence, shape.batch, shape.heads));
      plait::ext::attention_operands<T const> const in{of_q.data(), of_k.data() + key_width,
                                                       of_v.data() + key_width, width, key_row};
      kernels::attention(launcher{}, shape, in, result.data(), result_sums.data());
      double const score_error =
          10 * rounding<A> * 4 * std::sqrt(static_cast<double>(shape.head_width));
      expect_near(result_sums.wide(), log_sum, 2 * score_error);
      expect_near(result.wide(), out, 2 * (rounding<T> + 4 * score_error));

      auto const rounded = result.wide(), rounded_sums = result_sums.wide();
      maths::attention_backward(
          shape, host_in, rounded.data(), rounded_sums.data(), wide(dout).data(),
          {dq.data(), dk.data() + key_width, dv.data() + key_width, width, key_row},
          scratch.data());
      memory<T> from(dout);
      kernels::attention_backward(
          launcher{}, shape, in, result.data(), result_sums.data(), from.data(),
          plait::ext::attention_operands<T>{for_q.data(), for_k.data() + key_width,
                                            for_v.data() + key_width, width, key_row},
          products.data());
      double largest = 1;
      for (auto const* of : {&dq, &dk, &dv})
        for (double const value : *of) largest = std::max(largest, std::abs(value));
      double const bound = largest * (rounding<T> + 20 * score_error);
      expect_near(for_q.wide(), dq, bound);
      expect_near(for_k.wide(), dk, bound);
      expect_near(for_v.wide(), dv, bound);
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
