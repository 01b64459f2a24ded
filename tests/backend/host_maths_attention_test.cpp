// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/attention.hpp"

#include <limits>

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

struct extents {
  std::size_t sequence, batch, heads, head_width;
};

// softmax by its definition, in double.
void reference(std::vector<double> const& qkv, std::vector<double>& out,
               std::vector<double>& log_sum, extents const& e) {
  auto const at = [&](std::size_t position, std::size_t sample, std::size_t which,
                      std::size_t head) {
    return (((position * e.batch + sample) * 3 + which) * e.heads + head) * e.head_width;
  };
  for (std::size_t sample = 0; sample < e.batch; ++sample)
    for (std::size_t head = 0; head < e.heads; ++head)
      for (std::size_t query = 0; query < e.sequence; ++query) {
        double sum = 0;
        std::vector<double> row(e.head_width);
        for (std::size_t key = 0; key <= query; ++key) {
          double score = 0;
          for (std::size_t c = 0; c < e.head_width; ++c)
            score += qkv[at(query, sample, 0, head) + c] * qkv[at(key, sample, 1, head) + c];
          double const weight = std::exp(score / std::sqrt(static_cast<double>(e.head_width)));
          sum += weight;
          for (std::size_t c = 0; c < e.head_width; ++c)
            row[c] += weight * qkv[at(key, sample, 2, head) + c];
        }
        std::size_t const place = (query * e.batch + sample) * e.heads + head;
        log_sum[place] = std::log(sum);
        for (std::size_t c = 0; c < e.head_width; ++c) out[place * e.head_width + c] = row[c] / sum;
      }
}

template <class T>
struct attention {
  extents e;
  std::vector<T> qkv, out, log_sum, dout, dqkv;

  explicit attention(extents const& sizes)
      : e(sizes),
        qkv(values<T>(rows() * 3 * width(), 1)),
        out(rows() * width()),
        log_sum(rows() * e.heads),
        dout(values<T>(rows() * width(), 2)),
        dqkv(qkv.size(), std::numeric_limits<T>::quiet_NaN()) {}

  std::size_t rows() const { return e.sequence * e.batch; }
  std::size_t width() const { return e.heads * e.head_width; }

  void forward() {
    // NaN in the scratch: nothing may be read from it before it is written.
    std::vector<T> scratch(maths::attention_forward_scratch(e.sequence, e.head_width),
                           std::numeric_limits<T>::quiet_NaN());
    maths::attention_forward(qkv.data(), out.data(), log_sum.data(), scratch.data(), e.sequence,
                             e.batch, e.heads, e.head_width);
  }
  void backward() {
    std::vector<T> scratch(maths::attention_backward_scratch(e.sequence, e.head_width),
                           std::numeric_limits<T>::quiet_NaN());
    maths::attention_backward(qkv.data(), out.data(), log_sum.data(), dout.data(), dqkv.data(),
                              scratch.data(), e.sequence, e.batch, e.heads, e.head_width);
  }
};

// 64 queries are one block.
std::vector<extents> const shapes = {{0, 2, 2, 4}, {3, 0, 2, 4},  {1, 1, 1, 1},  {2, 3, 1, 5},
                                     {5, 2, 3, 4}, {64, 1, 2, 3}, {65, 2, 1, 8}, {150, 1, 1, 7}};

template <class T>
void forward_equals_the_definition(double bound) {
  for (auto const& e : shapes) {
    attention<T> run{e};
    run.forward();
    std::vector<double> const qkv(run.qkv.begin(), run.qkv.end());
    std::vector<double> out(run.out.size()), log_sum(run.log_sum.size());
    reference(qkv, out, log_sum, e);
    expect_near(run.out, out, bound);
    expect_near(run.log_sum, log_sum, bound * 4);  // its values are up to log(150) + 1
  }
}

}  // namespace

TEST(Attention, ForwardEqualsTheDefinition) {
  forward_equals_the_definition<double>(2e-15);
  forward_equals_the_definition<float>(1e-6);
}

TEST(Attention, BackwardEqualsDifferences) {
  for (auto const& e : shapes) {
    if (e.sequence > 100) continue;  // 65 positions already are two blocks
    attention<double> run{e};
    run.forward();
    run.backward();
    auto const gradient = run.dqkv;
    expect_gradient(
        [&] {
          run.forward();
          return dot(run.out, run.dout);
        },
        run.qkv, gradient);
  }
}

TEST(Attention, BackwardInFloatEqualsDouble) {
  attention<double> exact{{150, 2, 2, 16}};
  attention<float> run{exact.e};
  exact.qkv.assign(run.qkv.begin(), run.qkv.end());
  exact.dout.assign(run.dout.begin(), run.dout.end());
  exact.forward();
  exact.backward();
  run.forward();
  run.backward();
  expect_near(run.dqkv, exact.dqkv, 1e-5);
}

// Scores of several thousand: without the subtraction of the largest, e^score would overflow.
TEST(Attention, LargeScores) {
  attention<float> run{{70, 1, 1, 4}};
  for (float& value : run.qkv) value *= 100;
  run.forward();
  run.backward();
  for (float value : run.out) ASSERT_TRUE(std::isfinite(value));
  for (float value : run.dqkv) ASSERT_TRUE(std::isfinite(value));
}

TEST(Attention, LaterPositionsDoNotMatter) {
  attention<double> run{{70, 2, 2, 4}};
  run.forward();
  auto const before = run.out;
  std::size_t const row = run.rows() - run.e.batch;  // the last position
  for (std::size_t i = row * 3 * run.width(); i < run.qkv.size(); ++i) run.qkv[i] += 1;
  run.forward();
  for (std::size_t i = 0; i < row * run.width(); ++i) ASSERT_EQ(run.out[i], before[i]);
  EXPECT_NE(run.out.back(), before.back());
}
