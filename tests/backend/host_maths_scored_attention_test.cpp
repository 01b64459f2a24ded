// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/scored_attention.hpp"

#include <limits>
#include <type_traits>

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

using plait::ext::attention_operands;
using plait::ext::attention_options;
using plait::ext::attention_shape;
constexpr double masked = -std::numeric_limits<double>::infinity();

struct alibi {
  auto operator()(auto score, std::size_t query, std::size_t key, std::size_t head) const {
    double const slope = 0.5 / double(1 + head);
    return score - slope * (double(query) - double(key));
  }
};
struct soft_cap {
  auto operator()(auto score, std::size_t, std::size_t, std::size_t) const {
    using std::tanh;
    return 0.5 * tanh(score / 0.5);
  }
};
template <std::size_t Window, std::size_t Sinks = 0>
struct window {
  template <class T>
  T operator()(T score, std::size_t query, std::size_t key, std::size_t) const {
    return key < Sinks || query < key + Window ? score : T(masked);
  }
};
/// Masks every key of every third query.
struct some_without_keys {
  template <class T>
  T operator()(T score, std::size_t query, std::size_t, std::size_t) const {
    return query % 3 == 1 ? T(masked) : score;
  }
};

/// An attention whose samples consist of documents that begin where `begins` is true.
template <class Score>
struct run_of {
  attention_shape e;
  std::size_t first_head = 0;
  std::vector<std::int32_t> positions{};
  std::vector<double> qkv = values<double>(rows() * (width() + 2 * key_width()), 1);
  std::vector<double> out = std::vector<double>(rows() * width());
  std::vector<double> log_sum = std::vector<double>(rows() * e.heads);
  std::vector<double> dout = values<double>(rows() * width(), 2);
  std::vector<double> dqkv = std::vector<double>(qkv.size());
  maths::score_blocks done{};

  std::size_t rows() const { return e.sequence * e.batch; }
  std::size_t width() const { return e.heads * e.head_width; }
  std::size_t key_width() const { return e.key_value_heads() * e.head_width; }
  template <class U>
  attention_operands<U> operands(U* of) const {
    return {of, of + rows() * width(), of + rows() * (width() + key_width()), width(), key_width()};
  }
  maths::scored_attention_shape shape() const {
    return {e, first_head, positions.empty() ? nullptr : positions.data()};
  }
  static std::vector<double> scratch(std::size_t count) {
    return std::vector<double>(count, std::numeric_limits<double>::quiet_NaN());
  }
  void forward() {
    auto room = scratch(maths::scored_attention_scratch(e.sequence));
    done = maths::scored_attention_forward(shape(), operands<double const>(qkv.data()), out.data(),
                                           log_sum.data(), room.data(), Score{});
  }
  void backward() {
    auto room = scratch(2 * maths::scored_attention_scratch(e.sequence));
    dqkv.assign(dqkv.size(), 0);
    auto const gradient = operands<double>(dqkv.data());
    std::fill(dqkv.data(), gradient.k, std::numeric_limits<double>::quiet_NaN());
    done = maths::scored_attention_backward(shape(), operands<double const>(qkv.data()), out.data(),
                                            log_sum.data(), dout.data(), gradient, room.data(),
                                            Score{});
  }
  std::size_t position(std::size_t at, std::size_t sample) const {
    return positions.empty() ? at : std::size_t(positions[at * e.batch + sample]);
  }
  bool sees(std::size_t query, std::size_t key, std::size_t sample) const {
    return (!e.options.causal || key <= query) &&
           (e.options.window == 0 || query < key + e.options.window) &&
           query - position(query, sample) == key - position(key, sample);
  }

  /// Returns the outputs by the definition of softmax.
  std::vector<double> written_out() const {
    std::vector<double> expected(out.size());
    auto const in = operands<double const>(qkv.data());
    for (std::size_t sample = 0; sample < e.batch; ++sample)
      for (std::size_t head = 0; head < e.heads; ++head)
        for (std::size_t query = 0; query < e.sequence; ++query) {
          std::size_t const of_key = head / e.queries_per_key * e.head_width;
          std::size_t const row = query * e.batch + sample;
          double sum = 0;
          std::vector<double> mean(e.head_width);
          for (std::size_t key = 0; key < e.sequence; ++key) {
            if (!sees(query, key, sample)) continue;
            std::size_t const from = (key * e.batch + sample) * in.key_stride + of_key;
            double score = 0;
            for (std::size_t c = 0; c < e.head_width; ++c)
              score += in.q[row * in.query_stride + head * e.head_width + c] * in.k[from + c];
            double const changed =
                Score{}(score / std::sqrt(double(e.head_width)), position(query, sample),
                        position(key, sample), first_head + head);
            if (changed == masked) continue;
            sum += std::exp(changed);
            for (std::size_t c = 0; c < e.head_width; ++c)
              mean[c] += std::exp(changed) * in.v[from + c];
          }
          for (std::size_t c = 0; c < e.head_width && sum > 0; ++c)
            expected[row * width() + head * e.head_width + c] = mean[c] / sum;
        }
    return expected;
  }
};

/// Returns the positions of documents whose lengths repeat 3, 1, 40, 7, 90; each sample begins at
/// another of these lengths.
std::vector<std::int32_t> documents(attention_shape const& e) {
  std::size_t const lengths[]{3, 1, 40, 7, 90};
  std::vector<std::int32_t> out(e.sequence * e.batch);
  for (std::size_t sample = 0; sample < e.batch; ++sample) {
    std::size_t number = sample, within = 0;
    for (std::size_t at = 0; at < e.sequence; ++at) {
      out[at * e.batch + sample] = std::int32_t(within++);
      if (within == lengths[number % 5]) within = 0, ++number;
    }
  }
  return out;
}

// 64 queries are one block.
std::vector<attention_shape> const shapes = {
    {0, 2, 2, 4},
    {1, 1, 1, 1},
    {5, 2, 3, 4},
    {65, 2, 1, 3},
    {66, 1, 4, 2, 2},
    {150, 1, 1, 7},
    {66, 1, 1, 1, 1, {.causal = false}},
    {150, 2, 2, 3, 2, {.window = 20}},
};

template <class Score>
void equals_the_definition() {
  for (auto const& e : shapes)
    for (bool const has_documents : {false, true}) {
      run_of<Score> run{e, 2};
      if (has_documents) run.positions = documents(e);
      run.forward();
      expect_near(run.out, run.written_out(), 4e-15);
      if (e.sequence > 5 && e.head_width > 1) continue;  // differences take long
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

TEST(ScoredAttention, EqualsTheDefinition) {
  equals_the_definition<maths::same_score>();
  equals_the_definition<alibi>();
  equals_the_definition<soft_cap>();
  equals_the_definition<window<5>>();
  equals_the_definition<window<5, 2>>();
  equals_the_definition<some_without_keys>();
}

TEST(ScoredAttention, WithoutAFunctionEqualsAttention) {
  run_of<maths::same_score> run{{150, 2, 4, 3, 2, {.window = 70}}};
  run.forward();
  run.backward();
  auto const out = run.out, log_sum = run.log_sum, dqkv = run.dqkv;
  auto room = run.scratch(2 * plait::ext::attention_scratch(150));
  maths::attention_forward(run.e, run.operands<double const>(run.qkv.data()), run.out.data(),
                           run.log_sum.data(), room.data());
  maths::attention_backward(run.e, run.operands<double const>(run.qkv.data()), run.out.data(),
                            run.log_sum.data(), run.dout.data(),
                            run.operands<double>(run.dqkv.data()), room.data());
  expect_near(out, run.out, 1e-14);
  expect_near(log_sum, run.log_sum, 1e-14);
  expect_near(dqkv, run.dqkv, 1e-13);
}

template <class Score>
void expect_blocks(run_of<Score> run, std::size_t computed, std::size_t all) {
  run.forward();
  EXPECT_EQ(run.done.computed, computed);
  EXPECT_EQ(run.done.skipped, all - computed);
  run.backward();
  EXPECT_EQ(run.done.computed, computed);
  EXPECT_EQ(run.done.skipped, all - computed);
}

// 320 positions are 5 blocks of queries and 5 of keys.
TEST(ScoredAttention, SkipsMaskedBlocks) {
  attention_shape const e{320, 1, 2, 2};
  expect_blocks(run_of<alibi>{e}, 2 * 15, 2 * 25);       // the causal half
  expect_blocks(run_of<window<64>>{e}, 2 * 9, 2 * 25);   // the diagonal and its neighbours
  expect_blocks(run_of<window<66>>{e}, 2 * 12, 2 * 25);  // one more key reaches a third block
  expect_blocks(run_of<window<65>>{e}, 2 * 9, 2 * 25);
  expect_blocks(run_of<window<64, 1>>{e}, 2 * 12, 2 * 25);  // and the first block of keys
  expect_blocks(run_of<alibi>{{320, 1, 2, 2, 1, {.causal = false}}}, 2 * 25, 2 * 25);
}

// Two documents of 128 positions: each has 3 blocks, and there are none between them.
TEST(ScoredAttention, SkipsBlocksBetweenDocuments) {
  run_of<maths::same_score> run{{256, 1, 1, 2}};
  for (std::int32_t i = 0; i < 256; ++i) run.positions.push_back(i % 128);
  expect_blocks(run, 6, 16);
  run.e.options.causal = false;
  expect_blocks(run, 8, 16);
}

// Scores of several thousand: without the subtraction of the largest, e^score would overflow.
TEST(ScoredAttention, LargeScores) {
  run_of<alibi> run{{70, 1, 1, 4}};
  for (double& value : run.qkv) value *= 1e4;
  run.forward();
  run.backward();
  for (double const value : run.out) ASSERT_TRUE(std::isfinite(value));
  for (double const value : run.dqkv) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
