// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/attention.hpp"

#include <limits>
#include <utility>

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

using plait::ext::attention_operands;
using plait::ext::attention_options;
using plait::ext::attention_shape;

bool sees(attention_options const& how, std::size_t query, std::size_t key) {
  return (!how.causal || key <= query) && (how.window == 0 || query < key + how.window);
}

// Calculates attention by the definition of softmax, in double.
void reference(attention_shape const& e, attention_operands<double const> const& in,
               std::vector<double>& out, std::vector<double>& log_sum) {
  auto const row = [&](double const* from, std::size_t stride, std::size_t position,
                       std::size_t sample, std::size_t head) {
    return from + (position * e.batch + sample) * stride + head * e.head_width;
  };
  for (std::size_t sample = 0; sample < e.batch; ++sample)
    for (std::size_t head = 0; head < e.heads; ++head)
      for (std::size_t query = 0; query < e.sequence; ++query) {
        double sum = 0;
        std::vector<double> mean(e.head_width);
        auto const* const q = row(in.q, in.query_stride, query, sample, head);
        for (std::size_t key = 0; key < e.sequence; ++key) {
          if (!sees(e.options, query, key)) continue;
          auto const* const k = row(in.k, in.key_stride, key, sample, head / e.queries_per_key);
          auto const* const v = row(in.v, in.key_stride, key, sample, head / e.queries_per_key);
          double score = 0;
          for (std::size_t c = 0; c < e.head_width; ++c) score += q[c] * k[c];
          double const weight = std::exp(score / std::sqrt(static_cast<double>(e.head_width)));
          sum += weight;
          for (std::size_t c = 0; c < e.head_width; ++c) mean[c] += weight * v[c];
        }
        std::size_t const place = (query * e.batch + sample) * e.heads + head;
        log_sum[place] = std::log(sum);
        for (std::size_t c = 0; c < e.head_width; ++c)
          out[place * e.head_width + c] = mean[c] / sum;
      }
}

template <class T>
struct attention {
  attention_shape e;
  std::vector<T> qkv, out, log_sum, dout, dqkv;  // query, key and value one after the other

  explicit attention(attention_shape const& sizes)
      : e(sizes),
        qkv(values<T>(rows() * (width() + 2 * key_width()), 1)),
        out(rows() * width()),
        log_sum(rows() * e.heads),
        dout(values<T>(rows() * width(), 2)),
        dqkv(qkv.size(), std::numeric_limits<T>::quiet_NaN()) {}

  std::size_t rows() const { return e.sequence * e.batch; }
  std::size_t width() const { return e.heads * e.head_width; }
  std::size_t key_width() const { return e.key_value_heads() * e.head_width; }
  template <class U>
  attention_operands<U> operands(U* of) const {
    return {of, of + rows() * width(), of + rows() * (width() + key_width()), width(), key_width()};
  }

  void forward() {
    // The scratch is NaN: no element of it may be read before it is written.
    std::vector<T> scratch(plait::ext::attention_scratch(e.sequence),
                           std::numeric_limits<T>::quiet_NaN());
    maths::attention_forward(e, operands<T const>(qkv.data()), out.data(), log_sum.data(),
                             scratch.data());
  }
  void backward() {
    std::vector<T> scratch(2 * plait::ext::attention_scratch(e.sequence),
                           std::numeric_limits<T>::quiet_NaN());
    maths::attention_backward(e, operands<T const>(qkv.data()), out.data(), log_sum.data(),
                              dout.data(), operands<T>(dqkv.data()), scratch.data());
  }
};

// 64 queries are one block.
std::vector<attention_shape> const shapes = {
    {0, 2, 2, 4},
    {3, 0, 2, 4},
    {1, 1, 1, 1},
    {2, 3, 1, 5},
    {5, 2, 3, 4},
    {64, 1, 2, 3},
    {65, 2, 1, 3},
    {150, 1, 1, 7},
    {5, 2, 6, 2, 3},
    {65, 1, 3, 1, 3},
    {5, 2, 2, 4, 1, {.causal = false}},
    {66, 1, 2, 1, 2, {.causal = false}},
    {5, 2, 4, 2, 2, {.window = 1}},
    {66, 1, 1, 2, 1, {.window = 3}},
    {66, 1, 2, 1, 2, {.window = 64}},
    {70, 1, 4, 3, 2, {.window = 65}},
    {150, 1, 2, 3, 2, {.window = 20}},
    {200, 1, 2, 3, 1, {.window = 130}},
};

template <class T>
void forward_equals_the_definition(double bound) {
  for (auto const& e : shapes) {
    attention<T> run{e};
    run.forward();
    std::vector<double> const qkv(run.qkv.begin(), run.qkv.end());
    std::vector<double> out(run.out.size()), log_sum(run.log_sum.size());
    reference(e, run.template operands<double const>(qkv.data()), out, log_sum);
    expect_near(run.out, out, bound);
    expect_near(run.log_sum, log_sum, bound * 4);  // log-sum-exps are up to log(150) + 1
  }
}

}  // namespace

TEST(Attention, ForwardEqualsTheDefinition) {
  forward_equals_the_definition<double>(2e-15);
  forward_equals_the_definition<float>(1e-6);
}

TEST(Attention, BackwardEqualsDifferences) {
  for (auto const& e : shapes) {
    if (e.sequence > 66) continue;  // 65 positions already are two blocks
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
  for (attention_shape const e :
       {attention_shape{150, 2, 2, 16}, attention_shape{150, 1, 4, 16, 4, {.window = 70}}}) {
    attention<double> exact{e};
    attention<float> run{e};
    exact.qkv.assign(run.qkv.begin(), run.qkv.end());
    exact.dout.assign(run.dout.begin(), run.dout.end());
    exact.forward();
    exact.backward();
    run.forward();
    run.backward();
    expect_near(run.dqkv, exact.dqkv, 2e-5);
  }
}

// Scores of several thousand: without the subtraction of the largest, e^score would overflow.
TEST(Attention, LargeScores) {
  for (attention_options const how : {attention_options{}, attention_options{.window = 2}}) {
    attention<float> run{{70, 1, 1, 4, 1, how}};
    for (float& value : run.qkv) value *= 100;
    run.forward();
    run.backward();
    for (float value : run.out) ASSERT_TRUE(std::isfinite(value));
    for (float value : run.dqkv) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(Attention, MaskedPositionsDoNotMatter) {
  for (attention_options const how : {attention_options{}, attention_options{.window = 3}}) {
    attention<double> run{{70, 2, 2, 4, 1, how}};
    run.forward();
    auto const before = run.out;
    std::size_t const row = run.width() * run.e.batch;  // the elements of one position
    std::size_t const changed = 66;
    auto* const v = run.qkv.data() + 2 * run.rows() * run.width();
    for (std::size_t i = changed * row; i < (changed + 1) * row; ++i) v[i] += 1;
    run.forward();
    for (std::size_t query = 0; query < run.e.sequence; ++query)
      for (std::size_t i = query * row; i < (query + 1) * row; ++i)
        ASSERT_EQ(run.out[i] != before[i], sees(how, query, changed)) << query;
  }
}

// The fused layout gives the bits of three separate arrays.
TEST(Attention, SideBySideHasTheSameBits) {
  attention<double> run{{70, 2, 3, 4}};
  run.forward();
  run.backward();
  std::size_t const width = run.width(), rows = run.rows();
  std::vector<double> qkv(run.qkv.size()), out(run.out.size()), log_sum(run.log_sum.size()),
      dqkv(qkv.size()), scratch(2 * plait::ext::attention_scratch(70));
  auto const packed = [&](std::size_t i) {  // the place of element i of query, key and value
    std::size_t const which = i / (rows * width), r = i / width % rows;
    return (r * 3 + which) * width + i % width;
  };
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[packed(i)] = run.qkv[i];
  auto const in = side_by_side(std::as_const(qkv).data(), rows, width);
  maths::attention_forward(run.e, in, out.data(), log_sum.data(), scratch.data());
  maths::attention_backward(run.e, in, out.data(), log_sum.data(), run.dout.data(),
                            side_by_side(dqkv.data(), rows, width), scratch.data());
  EXPECT_EQ(out, run.out);
  EXPECT_EQ(log_sum, run.log_sum);
  for (std::size_t i = 0; i < qkv.size(); ++i) ASSERT_EQ(dqkv[packed(i)], run.dqkv[i]);
}
