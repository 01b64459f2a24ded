// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/cuda/attention/attention_engine.hpp"

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/backend/cuda/attention/cudnn_requirements.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/operation/rows.hpp"

namespace {

using namespace cuda_testing;
using plait::bfloat16;
using plait::ext::attention_shape;
using plait::ext::cuda_device;
using plait::ext::equal_heads;
using plait::ext::matrix;
using plait::ext::stream;
namespace operation = plait::operation;

struct {
  int engines = 0, prepared = 0, forward = 0, backward = 0;
  bool deterministic = true;
} calls;

struct negation {
  PLAIT_HOST_DEVICE auto operator()(auto x) const { return -x; }
};

// plait's own kernels, except that log_sum is stored with the opposite sign.
class negated_attention final : public plait::ext::prepared_attention {
 public:
  negated_attention(plait::ext::cuda_place at, attention_shape const& shape)
      : at_(at), of_(shape), sums_(shape.sequence * shape.batch * shape.heads) {}

  [[nodiscard]] std::size_t workspace_bytes() const override {
    return (sums_ +
            plait::cuda_kernels::attention_backward_scratch(of_.sequence, of_.batch, of_.heads)) *
           sizeof(float);
  }
  void forward(bfloat16 const* qkv, bfloat16* out, float* log_sum, std::byte*,
               cudaStream_t on) override {
    ++calls.forward;
    plait::ext::cuda_launcher const launch(at_, on);
    plait::cuda_kernels::attention(launch, qkv, out, log_sum, of_.sequence, of_.batch, of_.heads,
                                   of_.head_width);
    plait::cuda_kernels::map(launch, negation{}, sums_, log_sum, log_sum);
  }
  void backward(bfloat16 const* qkv, bfloat16 const* out, float const* log_sum,
                bfloat16 const* dout, bfloat16* dqkv, std::byte* workspace,
                cudaStream_t on) override {
    ++calls.backward;
    plait::ext::cuda_launcher const launch(at_, on);
    auto* const positive = reinterpret_cast<float*>(workspace);
    plait::cuda_kernels::map(launch, negation{}, sums_, log_sum, positive);
    plait::cuda_kernels::attention_backward(launch, qkv, out, positive, dout, dqkv,
                                            positive + sums_, of_.sequence, of_.batch, of_.heads,
                                            of_.head_width);
  }

 private:
  plait::ext::cuda_place at_;
  attention_shape of_;
  std::size_t sums_;
};

// An engine that accepts heads of width 8.
class negating_engine final : public plait::ext::attention_engine {
 public:
  explicit negating_engine(plait::ext::cuda_place at) : at_(at) { ++calls.engines; }
  [[nodiscard]] std::string name() const override { return "negation 1.2"; }
  [[nodiscard]] std::unique_ptr<plait::ext::prepared_attention> prepare(
      attention_shape const& shape) override {
    ++calls.prepared;
    if (shape.head_width != 8) return nullptr;
    return std::make_unique<negated_attention>(at_, shape);
  }

 private:
  plait::ext::cuda_place at_;
};

std::unique_ptr<plait::ext::attention_engine> negating(
    plait::ext::cuda_place at, plait::ext::attention_engine_options const& how) {
  calls.deterministic = how.deterministic;
  return std::make_unique<negating_engine>(at);
}

// Runs both passes on one device.
template <class T>
struct passes {
  std::size_t sums, elements;
  equal_heads of;
  on_device<T> qkv, dout, out, dqkv;
  on_device<plait::accumulate_t<T>> log_sum;

  passes(cuda_device& device, equal_heads const& shape)
      : sums(shape.sequence * shape.batch * shape.heads),
        elements(sums * shape.head_width),
        of(shape),
        qkv(device, waves(3 * elements, 1.0)),
        dout(device, waves(elements, 2.0)),
        out(device, std::vector<T>(elements)),
        dqkv(device, std::vector<T>(3 * elements)),
        log_sum(device, std::vector<plait::accumulate_t<T>>(sums)) {}

  void run(plait::ext::cuda_queue const& queue) const {
    std::size_t const rows = of.sequence * of.batch, width = of.heads * of.head_width;
    using kept = plait::accumulate_t<T>;
    matrix<T const> const in{qkv.data(), rows, 3 * width};
    queue.run(operation::attention_side_by_side{}, in, matrix<T>{out.data(), rows, width},
              matrix<kept>{log_sum.data(), rows, of.heads}, of);
    queue.run(
        operation::attention_side_by_side_backward{}, in, matrix<T const>{out.data(), rows, width},
        matrix<kept const>{log_sum.data(), rows, of.heads},
        matrix<T const>{dout.data(), rows, width}, matrix<T>{dqkv.data(), rows, 3 * width}, of);
  }

  static std::vector<T> waves(std::size_t count, double first) {
    std::vector<T> out;
    for (std::size_t i = 0; i < count; ++i)
      out.push_back(static_cast<T>(static_cast<float>(std::sin(first + double(i)))));
    return out;
  }
};

struct AttentionEngine : testing::Test {
  void SetUp() override { calls = {}; }
  cuda_device own{{0, 0}};
};

TEST_F(AttentionEngine, DoesBothPassesOfAShapeThatItTakes) {
  cuda_device device({0, 0}, {.attention = negating});
  equal_heads const shape{.sequence = 35, .batch = 2, .heads = 2, .head_width = 8};
  passes<bfloat16> const expected(own, shape), got(device, shape);
  expected.run(own.on(stream::compute));
  for (int round = 1; round <= 2; ++round) {
    got.run(device.on(stream::compute));
    EXPECT_EQ(got.out.get(), expected.out.get());
    EXPECT_EQ(got.dqkv.get(), expected.dqkv.get());
    EXPECT_EQ(calls.engines, 1);
    EXPECT_EQ(calls.prepared, 1);
    EXPECT_EQ(calls.forward, round);
    EXPECT_EQ(calls.backward, round);
  }
  auto const sums = expected.log_sum.get(), negated = got.log_sum.get();
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(negated[i], -sums[i]) << i;
}

TEST_F(AttentionEngine, LeavesTheOthersToTheKernels) {
  cuda_device device({0, 0}, {.attention = negating});
  equal_heads const shape{.sequence = 35, .batch = 2, .heads = 2, .head_width = 16};
  passes<bfloat16> const expected(own, shape), got(device, shape);
  expected.run(own.on(stream::compute));
  for (int round = 1; round <= 2; ++round) got.run(device.on(stream::compute));
  EXPECT_EQ(got.dqkv.get(), expected.dqkv.get());
  EXPECT_EQ(got.log_sum.get(), expected.log_sum.get());
  EXPECT_EQ(calls.prepared, 1);
  EXPECT_EQ(calls.forward + calls.backward, 0);
}

TEST_F(AttentionEngine, IsNotAskedForOtherElements) {
  cuda_device device({0, 0}, {.attention = negating});
  equal_heads const shape{.sequence = 9, .batch = 1, .heads = 2, .head_width = 8};
  passes<float> const expected(own, shape), got(device, shape);
  expected.run(own.on(stream::compute));
  got.run(device.on(stream::compute));
  EXPECT_EQ(got.dqkv.get(), expected.dqkv.get());
  EXPECT_EQ(calls.prepared, 0);
}

TEST_F(AttentionEngine, IsRecordedInAGraphButNotANewShape) {
  cuda_device device({0, 0}, {.graphs = true, .attention = negating});
  equal_heads const shape{.sequence = 35, .batch = 2, .heads = 2, .head_width = 8};
  passes<bfloat16> const expected(own, shape), got(device, shape);
  expected.run(own.on(stream::compute));
  cuda_device::graph graph;
  for (int round = 1; round <= 4; ++round) {
    device.on(stream::compute).fill(bfloat16{}, got.dqkv.data(), 3 * got.elements);
    device.replay(graph, [&] { got.run(device.on(stream::compute)); });
    EXPECT_EQ(got.dqkv.get(), expected.dqkv.get()) << round;
  }
  EXPECT_EQ(calls.forward, 2);  // once to run and once to record, as for all graphs of a device

  cuda_device::graph other;
  passes<bfloat16> const longer(device, {.sequence = 36, .batch = 2, .heads = 2, .head_width = 8});
  int round = 0;
  auto const grow = [&] { (++round == 1 ? got : longer).run(device.on(stream::compute)); };
  device.replay(other, grow);
  expect_text(message_of<plait::cuda_error>([&] { device.replay(other, grow); }),
              "attention has a new shape while a step is recorded as a graph");
}

TEST_F(AttentionEngine, IsThatOfTheProgramIfTheOptionsSayNothing) {
  equal_heads const shape{.sequence = 35, .batch = 2, .heads = 2, .head_width = 8};
  plait::detail::linked_engine() = negating;
  cuda_device device({0, 0}), undetermined({0, 0}, {.deterministic_attention = false});
  EXPECT_FALSE(calls.deterministic);
  plait::detail::linked_engine() = nullptr;
  passes<bfloat16>(device, shape).run(device.on(stream::compute));
  device.synchronize();
  EXPECT_EQ(calls.engines, 2);
  EXPECT_EQ(calls.forward, 1);
}

TEST_F(AttentionEngine, IsMadeReadyBeforeThePasses) {
  cuda_device device({0, 0}, {.workspace_bytes = 0, .attention = negating});
  equal_heads const shape{.sequence = 70, .batch = 2, .heads = 2, .head_width = 8};
  auto const before = device.workspace_bytes();
  device.on(stream::compute)
      .prepare(operation::attention_side_by_side{}, matrix<bfloat16 const>{}, shape);
  EXPECT_EQ(calls.prepared, 1);
  auto const ready = device.workspace_bytes();
  EXPECT_GE(ready, before + negated_attention({0, 0}, shape).workspace_bytes());
  passes<bfloat16>(device, shape).run(device.on(stream::compute));
  EXPECT_EQ(calls.prepared, 1);
  EXPECT_EQ(device.workspace_bytes(), ready);
}

TEST_F(AttentionEngine, RankZeroSaysOnceWhoDoesIt) {
  auto const said = [](int rank, plait::cuda_options const& how, std::size_t width) {
    cuda_device device({rank, 0}, how);
    testing::internal::CaptureStderr();
    for (std::size_t const batch : {1u, 2u, 1u})
      device.on(stream::compute)
          .prepare(operation::attention_side_by_side{}, matrix<bfloat16 const>{},
                   equal_heads{35, batch, 2, width});
    return testing::internal::GetCapturedStderr();
  };
  std::string const shape = "plait: attention in bfloat16 of 35 positions and 2 x ";
  EXPECT_EQ(said(0, {.attention = negating}, 8), shape + "8 columns is computed by negation 1.2\n");
  EXPECT_EQ(said(0, {.attention = negating}, 16),
            shape +
                "16 columns is computed by plait's own kernels, because negation 1.2 does not "
                "accept this shape\n");
  EXPECT_EQ(
      said(0, {.attention = nullptr}, 8),
      shape + "8 columns is computed by plait's own kernels, because the options select them\n");
  EXPECT_EQ(said(0, {}, 8), shape +
                                "8 columns is computed by plait's own kernels, because "
                                "plait::cudnn is not linked into the "
                                "program\n");
  EXPECT_EQ(said(1, {}, 8), "");
}

TEST_F(AttentionEngine, IsNotAskedWhereQueryKeyAndValueAreApart) {
  cuda_device device({0, 0}, {.attention = negating});
  auto const queue = device.on(stream::compute);
  attention_shape shape{35, 2, 4, 8, 2, {.window = 16}};
  testing::internal::CaptureStderr();
  for (std::size_t const batch : {1u, 2u, 1u}) {
    shape.batch = batch;
    queue.prepare(operation::attention{}, matrix<bfloat16 const>{}, shape);
  }
  shape.options = {.causal = false};
  queue.prepare(operation::attention{}, matrix<bfloat16 const>{}, shape);
  std::string const of =
      "plait: attention in bfloat16 of 35 positions and 4 x 8 columns with 2 "
      "key-value heads ";
  std::string const by =
      " is computed by plait's own kernels, because negation 1.2 accepts query, key and value only "
      "side by side\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            of + "in a window of 16" + by + of + "without mask" + by);
  EXPECT_EQ(calls.prepared, 0);
}

namespace needs = plait::cuda_requirements;

TEST(CudnnRequirements, CudnnIsNewEnoughAndOfTheMajorVersionOfTheHeader) {
  EXPECT_NO_THROW(needs::check_cudnn(91900, 91900));
  EXPECT_NO_THROW(needs::check_cudnn(91100, 91900));
  expect_text(message_of<plait::cuda_error>([] { needs::check_cudnn(91002, 91900); }),
              "runs with cuDNN 9.10.2 and was built with 9.19.0; cuDNN's attention needs at least "
              "9.11.0 of the same major version; correct the path of libcudnn.so.9 ");
  EXPECT_THROW(needs::check_cudnn(100000, 91900), plait::cuda_error);
}

TEST(CudnnRequirements, HeadsAreMultiplesOf8UpTo128) {
  EXPECT_TRUE(needs::cudnn_may_take({2, 1, 1, 8}));
  EXPECT_TRUE(needs::cudnn_may_take({64, 2, 2, 128}));
  for (attention_shape const shape : {attention_shape{64, 2, 2, 0},
                                      {64, 2, 2, 60},
                                      {64, 2, 2, 136},
                                      {64, 2, 0, 64},
                                      {64, 0, 2, 64},
                                      {1, 2, 2, 64},
                                      {64, 2, 2, 64, 2},
                                      {64, 2, 2, 64, 1, {.window = 8}},
                                      {64, 2, 2, 64, 1, {.causal = false}}})
    EXPECT_FALSE(needs::cudnn_may_take(shape)) << shape.sequence << ' ' << shape.head_width;
}

}  // namespace
