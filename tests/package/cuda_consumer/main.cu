// SPDX-License-Identifier: Apache-2.0
// A program of another project that trains a layer of its own on GPUs. Without a GPU it prints the
// reason.
#include <plait/backend/cuda/cuda.hpp>
#include <plait/plait.hpp>

#include <cstdio>

namespace {

struct softsign_of {  // a named type, so that any device can run it
  PLAIT_HOST_DEVICE auto operator()(auto x) const { return x / (1 + (x < 0 ? -x : x)); }
};
struct softsign_derivative {
  PLAIT_HOST_DEVICE auto operator()(auto x, auto dy) const {
    auto const d = 1 + (x < 0 ? -x : x);
    return dy / (d * d);
  }
};

template <class T>
__global__ void softsign_kernel(T const* x, T* y, std::size_t count) {
  std::size_t const i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) y[i] = softsign_of{}(x[i]);
}

/// The forward as a kernel of this program's own, on the stream of the rank.
struct launch_softsign {
  template <class Queue, class Input, class Output>
  void operator()(Queue const& queue, Input x, Output y) const {
    if (x.count() == 0) return;
    auto const blocks = static_cast<unsigned>((x.count() + 255) / 256);
    softsign_kernel<<<blocks, 256, 0, queue.stream()>>>(x.data, y.data, x.count());
  }
};

template <std::size_t Width>
struct softsign {  // y = x / (1 + |x|)
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using forms = plait::forms<plait::whole, plait::by_features>;
  using saved = plait::saved<plait::input_slot>;

  static void forward(auto& ops, auto l) { ops.run(launch_softsign{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.map(softsign_derivative{}, l.saved[plait::input_slot{}], l.dy, l.dx);
  }
};

using model = plait::sequential<plait::nn::linear<16, 32>, softsign<32>, plait::nn::linear<32, 4>>;
using objective = plait::objective<model, plait::nn::cross_entropy<4>>;
struct job : plait::parallel<objective, plait::data_parallel<2>> {};

}  // namespace

int main() {
  auto const data = plait::in_memory<float>::random_classes(256, 16, 4);
  double first = 0, last = 0;
  try {
    plait::launch<job>(plait::cuda{.share_one_gpu = true}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
      for (auto const& batch :
           plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 4})) {
        auto const report = trainer.step(batch);
        if (!rank.is_root()) continue;
        if (report.step == 0) first = report.loss;
        last = report.loss;
      }
    });
  } catch (plait::cuda_error const& e) {
    int gpus = 0;
    std::printf("%s\n", e.what());
    return cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0 ? 1 : 0;
  }
  std::printf("loss %.4f -> %.4f\n", first, last);
  return last < 0.5 * first ? 0 : 1;
}
