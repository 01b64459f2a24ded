// SPDX-License-Identifier: Apache-2.0
// Prints what the operations of a GPT-2 take on this GPU: time, and arithmetic or memory speed.
// Run by scripts/gpu; says nothing without a GPU.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/tensor/functions.hpp"

namespace {

using plait::bfloat16;
using plait::stream;

class meter {
 public:
  meter() : queue_(device_.on(stream::compute)) {}

  template <class T>
  T* room(std::size_t count) {
    arenas_.push_back(device_.allocate(count * sizeof(T)));
    auto* const data = reinterpret_cast<T*>(arenas_.back().data());
    queue_.fill(static_cast<T>(0.01f), data, count);
    return data;
  }

  // The median of 5 times of `turns` calls, and `amount` of them in a second.
  template <class Work>
  void line(char const* what, double amount, char const* unit, Work work) {
    constexpr int turns = 20;
    for (int i = 0; i < 3; ++i) work(queue_);
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) {
      device_.synchronize();
      auto const begin = std::chrono::steady_clock::now();
      for (int turn = 0; turn < turns; ++turn) work(queue_);
      device_.synchronize();
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / turns);
    }
    std::sort(seconds.begin(), seconds.end());
    std::printf("%-44s %9.1f us %9.1f %s\n", what, 1e6 * seconds[2], amount / seconds[2] * 1e-12,
                unit);
  }

 private:
  plait::cuda_device device_{{0, 0}};
  plait::cuda_queue queue_;
  std::vector<plait::cuda_device::arena> arenas_;
};

template <class T>
void measure(char const* type) {
  meter run;
  constexpr std::size_t batch = 16, sequence = 1024, width = 768, heads = 12, classes = 50304;
  constexpr std::size_t rows = batch * sequence;
  using kept = plait::accumulate_t<T>;
  auto const name = [type](char const* what) { return std::string(type) + " " + what; };
  auto const bytes = [](double values) { return values * sizeof(T); };
  auto* const x = run.room<T>(rows * width * 4);
  auto* const y = run.room<T>(rows * width * 4);
  auto* const w = run.room<T>(width * classes);
  auto* const statistics = run.room<kept>(rows * heads);
  auto* const logits = run.room<T>(rows / 4 * classes);
  double const r = rows, c = width;

  run.line(name("matmul 16384 x 768 x 3072").c_str(), 2 * r * c * 4 * c, "TFLOP/s", [&](auto& q) {
    q.matmul(false, false, rows, 4 * width, width, x, width, w, 4 * width, false, y, 4 * width);
  });
  run.line(name("matmul 4096 x 768 x 50304, b transposed").c_str(), 2 * r / 4 * c * classes,
           "TFLOP/s", [&](auto& q) {
             q.matmul(false, true, rows / 4, classes, width, x, width, w, width, false, logits,
                      classes);
           });
  run.line(name("layer_norm").c_str(), bytes(2 * r * c), "TB/s",
           [&](auto& q) { q.layer_norm(x, w, w + width, y, statistics, rows, width, 1e-5); });
  run.line(name("gelu").c_str(), bytes(8 * r * c), "TB/s",
           [&](auto& q) { q.map(plait::functions::gelu_tanh{}, 4 * rows * width, x, y); });
  run.line(name("accumulate_column_sums").c_str(), bytes(4 * r * c), "TB/s",
           [&](auto& q) { q.accumulate_column_sums(x, statistics, rows, 4 * width); });
  double const products = 2 * double{batch} * sequence * sequence * c;  // both, half of them masked
  run.line(name("attention").c_str(), products, "TFLOP/s", [&](auto& q) {
    q.attention(x, y, statistics, static_cast<kept*>(nullptr), sequence, batch, heads,
                width / heads);
  });
  run.line(name("attention_backward").c_str(), 2.5 * products, "TFLOP/s", [&](auto& q) {
    q.attention_backward(x, y, statistics, y + rows * width, x, static_cast<kept*>(nullptr),
                         sequence, batch, heads, width / heads);
  });
  run.line(name("row_max of 4096 x 50304").c_str(), bytes(r / 4 * classes), "TB/s",
           [&](auto& q) { q.row_max(logits, statistics, rows / 4, classes, classes); });
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
  measure<float>("float");
  measure<bfloat16>("bfloat16");
}
