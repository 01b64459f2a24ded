// SPDX-License-Identifier: Apache-2.0
// Prints the time, and the arithmetic or memory throughput, of the operations of a step of GPT-2 on
// this GPU. Numbers are random, since products of equal numbers are faster. Calls rotate through
// several copies of their operands, so that these are read from memory as in a step, not from the
// L2 cache. scripts/gpu runs it; without a GPU it prints nothing.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/random_normal.hpp"
#include "plait/operation/rows.hpp"
#include "plait/tensor/functions.hpp"

namespace {

using plait::bfloat16;
using plait::ext::matrix;
using plait::ext::row_of;
using plait::ext::stream;
namespace operation = plait::operation;

constexpr std::size_t batch = 16, sequence = 1024, width = 768, heads = 12, classes = 50304;
constexpr std::size_t rows = batch * sequence, logit_rows = rows / 4;
constexpr std::size_t parameters = 124'475'904;

// Copies of an operand; the call of turn t uses the copy at [t].
template <class T>
struct copies {
  static constexpr std::size_t most = 4;
  std::vector<T*> data;
  T* operator[](std::size_t turn) const { return data[turn % data.size()]; }
};

class meter {
 public:
  meter() : queue_(device_.on(stream::compute)) {}

  // Returns normal numbers with the deviation 0.02. Operands above 256 MiB have one copy, as a
  // cache keeps nothing of them.
  template <class T>
  copies<T> room(std::size_t count) {
    constexpr std::size_t drawn = 1'000'003, large = std::size_t{256} << 20;
    std::vector<T> values(std::min(count, drawn));
    plait::ext::random_normals(plait::ext::random_key{1, 2, 3}, 0, 0.02, std::span<T>(values));
    copies<T> out;
    for (std::size_t copy = 0; copy < (count * sizeof(T) > large ? 1 : copies<T>::most); ++copy) {
      arenas_.push_back(device_.allocate(count * sizeof(T)));
      auto* const data = reinterpret_cast<T*>(arenas_.back().data());
      for (std::size_t done = 0; done < count; done += values.size())
        device_.upload(values.data(), data + done,
                       std::min(values.size(), count - done) * sizeof(T));
      out.data.push_back(data);
    }
    device_.synchronize();
    return out;
  }
  template <class T>
  T* given(std::vector<T> const& values) {
    arenas_.push_back(device_.allocate(values.size() * sizeof(T)));
    auto* const data = reinterpret_cast<T*>(arenas_.back().data());
    device_.upload(values.data(), data, values.size() * sizeof(T));
    device_.synchronize();
    return data;
  }

  // Prints the median of 5 measurements of `turns` calls, and `amount` (operations or bytes) for
  // each second.
  template <class Work>
  void line(std::string const& what, double amount, char const* unit, Work work) {
    constexpr std::size_t turns = 20;
    for (std::size_t turn = 0; turn < copies<char>::most; ++turn) work(queue_, turn);
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) {
      device_.synchronize();
      auto const begin = std::chrono::steady_clock::now();
      for (std::size_t turn = 0; turn < turns; ++turn) work(queue_, turn);
      device_.synchronize();
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / turns);
    }
    std::sort(seconds.begin(), seconds.end());
    std::printf("%-52s %9.1f us %9.2f %s\n", what.c_str(), 1e6 * seconds[2],
                amount / seconds[2] * 1e-12, unit);
    std::fflush(stdout);
  }

 private:
  plait::ext::cuda_device device_{{0, 0}};
  plait::ext::cuda_queue queue_;
  std::vector<plait::ext::cuda_device::arena> arenas_;
};

template <class T>
void measure_products(std::string const& type) {
  meter run;
  double const r = rows, c = width;
  auto const x = run.room<T>(rows * width), hidden = run.room<T>(rows * 4 * width),
             w = run.room<T>(4 * width * width), mapped = run.room<T>(rows * 4 * width),
             bias = run.room<T>(4 * width);
  auto const dw = run.room<float>(4 * width * width);
  auto const table = run.room<T>(classes * width), logits = run.room<T>(logit_rows * classes);
  auto const dtable = run.room<float>(classes * width);
  double const flops = 2 * r * c * 4 * c, head = 2 * double(logit_rows) * c * double(classes);
  using in = matrix<T const>;

  run.line(type + " product 16384 x 768 x 3072", flops, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(operation::matmul{}, in{x[t], rows, width}, in{w[t], width, 4 * width},
          matrix{hidden[t], rows, 4 * width}, plait::ext::transposes{}, false);
  });
  run.line(type + " the same with bias and gelu", flops, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(
        operation::matmul{}, in{x[t], rows, width}, in{w[t], width, 4 * width},
        matrix{hidden[t], rows, 4 * width}, plait::ext::transposes{},
        plait::ext::epilogue<T, plait::functions::gelu_tanh>{.row = bias[t], .mapped = mapped[t]});
  });
  run.line(type + " its dX", flops, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(operation::matmul{}, in{hidden[t], rows, 4 * width}, in{w[t], width, 4 * width},
          matrix{x[t], rows, width}, plait::ext::transposes{.b = true}, false);
  });
  run.line(type + " its dW, added in float", flops, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(operation::matmul{}, in{x[t], rows, width}, in{hidden[t], rows, 4 * width},
          matrix{dw[t], width, 4 * width}, plait::ext::transposes{.a = true}, true);
  });
  run.line(type + " head 4096 x 768 x 50304", head, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(operation::matmul{}, in{x[t], logit_rows, width}, in{table[t], classes, width},
          matrix{logits[t], logit_rows, classes}, plait::ext::transposes{.b = true}, false);
  });
  run.line(type + " its dW, added in float", head, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(operation::matmul{}, in{logits[t], logit_rows, classes}, in{x[t], logit_rows, width},
          matrix{dtable[t], classes, width}, plait::ext::transposes{.a = true}, true);
  });
}

template <class T>
void measure_rows(std::string const& type) {
  meter run;
  using kept = plait::accumulate_t<T>;
  double const r = rows, c = width, n = r * c * sizeof(T);
  auto const x = run.room<T>(rows * width), y = run.room<T>(rows * width),
             dy = run.room<T>(rows * width), wide = run.room<T>(rows * 4 * width),
             wide_out = run.room<T>(rows * 4 * width), gamma = run.room<T>(2 * width);
  auto const statistics = run.room<kept>(2 * rows), sums = run.room<float>(4 * width);
  auto const read = [](T const* of) { return matrix{of, rows, width}; };
  auto const row = [](T const* of) { return row_of(of, width); };
  auto const kept_of = [](kept const* of) { return matrix{of, rows, 2}; };

  run.line(type + " layer_norm", 2 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::layer_norm{}, read(x[t]), row(gamma[t]), row(gamma[t] + width),
          matrix{y[t], rows, width}, matrix{statistics[t], rows, 2}, 1e-5);
  });
  run.line(type + " layer_norm_backward_input", 3 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::layer_norm_backward_input{}, read(dy[t]), read(x[t]), kept_of(statistics[t]),
          row(gamma[t]), matrix{y[t], rows, width});
  });
  run.line(type + " layer_norm_backward_parameters", 2 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::layer_norm_backward_parameters{}, read(dy[t]), read(x[t]),
          kept_of(statistics[t]), row_of(sums[t], width), row_of(sums[t] + width, width));
  });
  run.line(type + " layer_norm_backward", 3 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::layer_norm_backward{}, read(dy[t]), read(x[t]), kept_of(statistics[t]),
          row(gamma[t]), matrix{y[t], rows, width}, row_of(sums[t], width),
          row_of(sums[t] + width, width), matrix<T const>{}, matrix<T>{});
  });
  run.line(type + " add", 3 * n, "TB/s",
           [&](auto& q, std::size_t t) { q.add(x[t], dy[t], y[t], rows * width); });
  run.line(type + " gelu", 8 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::map{}, plait::functions::gelu_tanh{}, matrix{wide_out[t], rows, 4 * width},
          matrix<T const>{wide[t], rows, 4 * width});
  });
  run.line(type + " accumulate_column_sums", 4 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.accumulate_column_sums(wide[t], sums[t], rows, 4 * width);
  });
}

template <class T>
void measure_attention(std::string const& type) {
  meter run;
  using kept = plait::accumulate_t<T>;
  auto const qkv = run.room<T>(3 * rows * width), dqkv = run.room<T>(3 * rows * width),
             out = run.room<T>(rows * width), dout = run.room<T>(rows * width);
  auto const log_sum = run.room<kept>(rows * heads);
  double const products =  // both products; half of each is masked
      2 * double(batch) * double(sequence) * double(sequence) * double(width);
  plait::ext::equal_heads const shape{sequence, batch, heads, width / heads};
  auto const in = [&](std::size_t t) { return matrix<T const>{qkv[t], rows, 3 * width}; };
  run.line(type + " attention", products, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(operation::attention_side_by_side{}, in(t), matrix{out[t], rows, width},
          matrix{log_sum[t], rows, heads}, shape);
  });
  run.line(type + " attention_backward", 2.5 * products, "TFLOP/s", [&](auto& q, std::size_t t) {
    q.run(operation::attention_side_by_side_backward{}, in(t), matrix<T const>{out[t], rows, width},
          matrix<kept const>{log_sum[t], rows, heads}, matrix<T const>{dout[t], rows, width},
          matrix{dqkv[t], rows, 3 * width}, shape);
  });
}

template <class T>
void measure_classifier(std::string const& type) {
  meter run;
  using kept = plait::accumulate_t<T>;
  auto const logits = run.room<T>(logit_rows * classes),
             dlogits = run.room<T>(logit_rows * classes);
  auto const max = run.room<kept>(logit_rows), terms = run.room<kept>(2 * logit_rows);
  std::vector<std::int32_t> ids(logit_rows);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(i * 7919 % classes);
  matrix<std::int32_t const> const labels{run.given(ids), logit_rows, 1};
  auto const scale = row_of<double const>(run.given(std::vector<double>{1e-4}));
  auto const loss = row_of(run.room<double>(1)[0]);
  double const n = double(logit_rows) * double(classes) * sizeof(T);
  plait::ext::one_hot_target const target{};
  auto const in = [&](std::size_t t) { return matrix<T const>{logits[t], logit_rows, classes}; };
  auto const max_at = [&](std::size_t t) { return matrix{max[t], logit_rows, 1}; };
  auto const terms_at = [&](std::size_t t) { return matrix{terms[t], logit_rows, target.terms}; };
  run.line(type + " row_max of 4096 x 50304", n, "TB/s",
           [&](auto& q, std::size_t t) { q.run(operation::row_max{}, in(t), max_at(t)); });
  run.line(type + " cross_entropy_terms", n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::cross_entropy_terms{}, in(t), labels,
          matrix<kept const>{max[t], logit_rows, 1}, terms_at(t), target, std::size_t{0});
  });
  run.line(type + " cross_entropy_statistics", n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::cross_entropy_statistics{}, in(t), labels, max_at(t), terms_at(t), target);
  });
  run.line(type + " cross_entropy_with_gradient", 2 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::cross_entropy_with_gradient{}, in(t), labels, scale, matrix<double const>{},
          terms_at(t), matrix{dlogits[t], logit_rows, classes}, loss, target, -1);
  });
  run.line(type + " cross_entropy_backward", 2 * n, "TB/s", [&](auto& q, std::size_t t) {
    q.run(operation::cross_entropy_backward{}, in(t), labels,
          matrix<kept const>{max[t], logit_rows, 1},
          matrix<kept const>{terms[t], logit_rows, target.terms}, scale, matrix<double const>{},
          matrix{dlogits[t], logit_rows, classes}, target, -1, std::size_t{0});
  });
}

void measure_update() {
  meter run;
  auto const p = run.room<float>(parameters), g = run.room<float>(parameters),
             state = copies<float>{{run.given(std::vector<float>(2 * parameters, 1e-4f))}};
  auto const copy = run.room<bfloat16>(parameters);
  std::vector<plait::ext::update_range> ranges;
  std::vector<plait::ext::squares_range> squares;
  for (std::size_t at = 0; at < parameters; at += std::size_t{1} << 20) {
    auto const count = std::min(std::size_t{1} << 20, parameters - at);
    squares.push_back({at, count, squares.size()});
    ranges.push_back({at, count, 1.0, double(ranges.size() % 2)});
  }
  plait::ext::optimizer_arena<float, float, bfloat16> const all{
      .parameters = p[0],
      .gradients = g[0],
      .states = state[0],
      .copies = copy[0],
      .count = parameters,
      .state_stride = parameters,
      .ranges = run.given(ranges),
      .range_count = static_cast<int>(ranges.size()),
      .gradient_scale = run.given(std::vector<double>{0.5})};
  auto const* const numbers = run.given(std::vector<plait::ext::adamw_numbers>{{}});
  auto const* const of_squares = run.given(squares);
  auto* const sums = run.given(std::vector<double>(squares.size()));
  double const n = parameters;
  run.line("AdamW of 124 M, copies in bfloat16", (4 * 4 + 3 * 4 + 2) * n, "TB/s",
           [&](auto& q, std::size_t) { q.adamw(all, {}, numbers); });
  run.line("sums of squares of 124 M", 4 * n, "TB/s", [&](auto& q, std::size_t) {
    q.sums_of_squares(g[0], of_squares, static_cast<int>(squares.size()), sums);
  });
  run.line("fill of 124 M", 4 * n, "TB/s",
           [&](auto& q, std::size_t) { q.fill(0.0f, p[0], parameters); });
}

template <class T>
void measure(std::string const& type) {
  measure_products<T>(type);
  measure_rows<T>(type);
  measure_attention<T>(type);
  measure_classifier<T>(type);
}

}  // namespace

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("no GPU: nothing is measured");
    return 0;
  }
  cudaDeviceProp about{};
  if (cudaGetDeviceProperties(&about, 0) == cudaSuccess) std::printf("%s, one rank\n", about.name);
  measure<bfloat16>("bfloat16");
  measure_update();
  measure<float>("float");
}
