// SPDX-License-Identifier: Apache-2.0
// Only the matrix products of a training step, on two threads that have half of the batch each, for
// scripts/benchmark: product_steps gpt|mlp. Each product has buffers of its own; attention is
// computed in full, without the savings of its mask.
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include <plait/backend/host/maths/matmul.hpp>

#include "steps/turns.hpp"

namespace {

using plait::host_maths::matmul;
using enum plait::host_maths::transpose;
using clock = std::chrono::steady_clock;

/// The products of y = x w and its gradients.
struct linear {
  std::size_t rows, in, out;
  bool first;  // in the model: no layer needs its input's gradient
  std::vector<float> x, w, y, dw, dx;

  linear(std::size_t r, std::size_t i, std::size_t o, bool is_first = false)
      : rows(r),
        in(i),
        out(o),
        first(is_first),
        x(r * i, 0.1f),
        w(i * o, 0.01f),
        y(r * o, 0.1f),
        dw(i * o),
        dx(r * i) {}

  void forward() {
    matmul<float>(no, no, rows, out, in, 1, x.data(), in, w.data(), out, 0, y.data(), out);
  }
  void backward() {
    matmul<float>(yes, no, in, out, rows, 1, x.data(), in, y.data(), out, 0, dw.data(), out);
    if (!first)
      matmul<float>(no, yes, rows, in, out, 1, y.data(), out, w.data(), out, 0, dx.data(), in);
  }
};

/// The products of attention, for all heads and samples, with all keys.
struct attention {
  std::size_t heads, sequence, width;
  std::vector<float> q, k, v, scores, dscores, out, dq, dk, dv;

  attention(std::size_t h, std::size_t s, std::size_t w)
      : heads(h),
        sequence(s),
        width(w),
        q(h * s * w, 0.1f),
        k(q),
        v(q),
        scores(h * s * s, 0.01f),
        dscores(scores),
        out(q),
        dq(q),
        dk(q),
        dv(q) {}

  void forward() {
    for (std::size_t h = 0; h < heads; ++h) {
      auto const at = h * sequence * width, square = h * sequence * sequence;
      product(no, yes, sequence, sequence, width, &q[at], &k[at], &scores[square]);
      product(no, no, sequence, width, sequence, &dscores[square], &v[at], &out[at]);
    }
  }
  void backward() {
    for (std::size_t h = 0; h < heads; ++h) {
      auto const at = h * sequence * width, square = h * sequence * sequence;
      product(no, yes, sequence, sequence, width, &q[at], &v[at], &scores[square]);
      product(yes, no, sequence, width, sequence, &dscores[square], &q[at], &dv[at]);
      product(no, no, sequence, width, sequence, &dscores[square], &k[at], &dq[at]);
      product(yes, no, sequence, width, sequence, &dscores[square], &q[at], &dk[at]);
    }
  }

 private:
  static void product(plait::host_maths::transpose a_is, plait::host_maths::transpose b_is,
                      std::size_t m, std::size_t n, std::size_t inner, float const* a,
                      float const* b, float* c) {
    matmul<float>(a_is, b_is, m, n, inner, 1, a, a_is == yes ? m : inner, b,
                  b_is == yes ? inner : n, 0, c, n);
  }
};

struct model {
  std::vector<linear> linears;
  std::vector<attention> attentions;

  explicit model(bool is_gpt) {
    if (is_gpt) {
      constexpr std::size_t tokens = 4 * 128;
      for (int layer = 0; layer < 4; ++layer) {
        linears.emplace_back(tokens, 256, 768);
        linears.emplace_back(tokens, 256, 256);
        linears.emplace_back(tokens, 256, 1024);
        linears.emplace_back(tokens, 1024, 256);
        attentions.emplace_back(4 * 8, 128, 32);
      }
      linears.emplace_back(tokens, 256, 256);
    } else {
      linears.emplace_back(128, 784, 1024, true);
      linears.emplace_back(128, 1024, 1024);
      linears.emplace_back(128, 1024, 10);
    }
  }

  void step() {
    for (auto& layer : linears) layer.forward();
    for (auto& layer : attentions) layer.forward();
    for (auto layer = linears.rbegin(); layer != linears.rend(); ++layer) layer->backward();
    for (auto& layer : attentions) layer.backward();
  }
};

}  // namespace

int main(int count, char** words) {
  std::string_view const which = count > 1 ? words[1] : "";
  if (which != "gpt" && which != "mlp") return std::fputs("product_steps: gpt or mlp\n", stderr), 2;
  plait::host_maths::single_threaded_maths const guard;
  int steps = 0;
  std::barrier<> all(2);
  auto const run = [&](bool is_first) {
    model mine(which == "gpt");
    mine.step();
    for (;;) {
      if (is_first) steps = turns::next();
      all.arrive_and_wait();
      if (steps == 0) return;
      for (int step = 0; step < steps; ++step) {
        all.arrive_and_wait();
        auto const begin = clock::now();
        mine.step();
        all.arrive_and_wait();
        if (is_first) turns::step_took(clock::now() - begin);
      }
      if (is_first) turns::end(0);
    }
  };
  std::thread second(run, false);
  run(true);
  second.join();
}
