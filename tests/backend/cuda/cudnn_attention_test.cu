// SPDX-License-Identifier: Apache-2.0
// test: libs=cudnn
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/operation/rows.hpp"

namespace {

using namespace cuda_testing;
using plait::bfloat16;
using plait::ext::cuda_device;
using plait::ext::equal_heads;
using plait::ext::matrix;
using plait::ext::stream;
namespace operation = plait::operation;

std::vector<bfloat16> values(std::size_t count, float largest, unsigned seed) {
  std::mt19937 bits(seed);
  std::uniform_real_distribution<float> draw(-largest, largest);
  std::vector<bfloat16> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<bfloat16>(draw(bits)));
  return out;
}

std::vector<double> wide(std::vector<bfloat16> const& x) {
  std::vector<double> out;
  for (auto const each : x) out.push_back(static_cast<double>(static_cast<float>(each)));
  return out;
}

// Probabilities, their gradients and the results are rounded to bfloat16 (a relative error of 2^-9
// each). The errors of a sum do not all have one sign, so 2^-6 of the largest value is a sufficient
// bound. `part` of `parts` selects, for example, dq of dqkv.
void expect_close(std::vector<double> const& got, std::vector<double> const& expected,
                  std::size_t width, std::size_t part, std::size_t parts) {
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i / width % parts != part) continue;
    largest = std::max(largest, std::abs(expected[i]));
    double const difference = std::abs(got[i] - expected[i]);
    error = difference <= error ? error : difference;  // a NaN is kept, too
  }
  EXPECT_LE(error, largest / 64) << "part " << part;
}

// Runs both passes of attention on `queue`.
template <class T, class Kept>
void attend(auto const& queue, equal_heads const& of, T const* qkv, T* out, Kept* log_sum,
            T const* dout, T* dqkv) {
  std::size_t const rows = of.sequence * of.batch, width = of.heads * of.head_width;
  matrix const in{qkv, rows, 3 * width};
  queue.run(operation::attention_side_by_side{}, in, matrix{out, rows, width},
            matrix{log_sum, rows, of.heads}, of);
  queue.run(operation::attention_side_by_side_backward{}, in, matrix<T const>{out, rows, width},
            matrix<Kept const>{log_sum, rows, of.heads}, matrix{dout, rows, width},
            matrix{dqkv, rows, 3 * width}, of);
}

struct CudnnAttention : testing::TestWithParam<equal_heads> {
  equal_heads of = GetParam();
  std::size_t width = of.heads * of.head_width, elements = of.sequence * of.batch * width,
              sums = of.sequence * of.batch * of.heads;
  std::vector<bfloat16> qkv_values = values(3 * elements, 2, 1),
                        dout_values = values(elements, 1, 2);

  cuda_device device{{0, 0}, {.graphs = true, .attention = plait::cudnn_attention()}};
  on_device<bfloat16> qkv{device, qkv_values}, dout{device, dout_values},
      out{device, std::vector<bfloat16>(elements)},
      dqkv{device, std::vector<bfloat16>(3 * elements)};
  on_device<float> log_sum{device, std::vector<float>(sums)};

  void run() {
    attend(device.on(stream::compute), of, qkv.data(), out.data(), log_sum.data(), dout.data(),
           dqkv.data());
  }
};

TEST_P(CudnnAttention, EqualsTheHost) {
  // Without it the test would compare plait's own kernels.
  ASSERT_NE(plait::cudnn_attention()({0, 0}, {})->prepare(of), nullptr);
  run();

  auto const wide_qkv = wide(qkv_values), wide_dout = wide(dout_values);
  std::vector<double> expected(elements), expected_sums(sums), gradient(3 * elements);
  attend(plait::ext::host_queue{}, of, wide_qkv.data(), expected.data(), expected_sums.data(),
         wide_dout.data(), gradient.data());
  expect_close(wide(out.get()), expected, width, 0, 1);
  for (std::size_t part = 0; part < 3; ++part)
    expect_close(wide(dqkv.get()), gradient, width, part, 3);
}

TEST_P(CudnnAttention, HasTheSameBitsEveryTimeAlsoInAGraph) {
  run();
  auto const first = out.get(), first_gradient = dqkv.get();
  cuda_device::graph graph;
  for (int round = 1; round <= 4; ++round) {
    device.on(stream::compute).fill(bfloat16{}, dqkv.data(), 3 * elements);
    device.replay(graph, [&] { run(); });
    EXPECT_EQ(out.get(), first) << round;
    EXPECT_EQ(dqkv.get(), first_gradient) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttention,
                         testing::Values(equal_heads{64, 2, 3, 64}, equal_heads{256, 3, 2, 128},
                                         equal_heads{100, 2, 2, 32}, equal_heads{1024, 1, 4, 64}));

TEST(CudnnAttentionErrors, NameTheRankTheDeviceAndTheReason) {
  equal_heads const shape{64, 1, 1, 64};
  cuda_device device({3, 0}, {.attention = plait::cudnn_attention()});
  on_device<bfloat16> const qkv(device, std::vector<bfloat16>(3 * 64 * 64 + 1)),
      out(device, std::vector<bfloat16>(64 * 64));
  on_device<float> const log_sum(device, std::vector<float>(64));
  auto const text = message_of<plait::cuda_error>([&] {
    device.on(stream::compute)
        .run(operation::attention_side_by_side{},
             matrix<bfloat16 const>{qkv.data() + 1, 64, 3 * 64},
             matrix<bfloat16>{out.data(), 64, 64}, matrix<float>{log_sum.data(), 64, 1}, shape);
  });
  expect_text(text, "rank 3, CUDA device 0: attention by cuDNN: running failed: ");
  expect_text(text, "aligned");
}

}  // namespace
