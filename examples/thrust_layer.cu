// SPDX-License-Identifier: Apache-2.0
// Trains the layers of thrust_layer.hpp on a GPU. The losses must equal the losses on the processor,
// even if the steps are recorded as a graph. An algorithm that cannot be recorded must throw an
// error.
#include "thrust_layer.hpp"

#include <plait/backend/cuda/cuda.hpp>

#include <thrust/reduce.h>

#include <cmath>
#include <cstdio>
#include <cstring>

namespace {

// An algorithm that returns a value: the host would have to wait for it in the middle of a step.
struct sum_on_the_host {
  template <class X>
  void operator()(plait::ext::cuda_queue const& queue, X x) const {
    plait::ext::thrust_scratch memory(x);
    (void)thrust::reduce(plait::ext::thrust_policy(queue, memory), thrust_layer::counter(0),
                         thrust_layer::counter(1000));
  }
};

// Calls the algorithm with Thrust's own policy, which does not know that a graph is being recorded.
struct sum_of_a_guest {
  template <class X>
  void operator()(plait::ext::cuda_queue const& queue, X x) const {
    plait::ext::thrust_scratch memory(x);
    (void)thrust::reduce(thrust::cuda::par_nosync(memory).on(queue.stream()),
                         thrust_layer::counter(0), thrust_layer::counter(1000));
  }
};

template <class Kernel>
bool is_refused(Kernel kernel) {
  constexpr std::size_t bytes = 1 << 20;
  plait::ext::cuda_device device({0, 0}, {.graphs = true});
  auto const memory = device.allocate(bytes);
  plait::view<std::byte, plait::invariant, plait::ext::cuda_memory> const all{memory.data(), 1,
                                                                              bytes};
  plait::ext::cuda_device::graph graph;
  auto const step = [&] { device.on(plait::ext::stream::compute).run(kernel, all); };
  try {
    device.replay(graph, step);  // runs the step without recording
    device.replay(graph, step);  // recorded
  } catch (plait::cuda_error const& e) {
    std::printf("%s\n", e.what());
    return std::strstr(e.what(), "cannot be part of a recorded step") != nullptr;
  }
  return false;
}

}  // namespace

int main() {
  int gpus = 0;
  if (auto const code = cudaGetDeviceCount(&gpus); code != cudaSuccess || gpus == 0) {
    std::printf("no GPU: %s\n", code != cudaSuccess ? cudaGetErrorString(code) : "none found");
    return 0;
  }
  using thrust_layer::train;
  auto const expected = train<plait::serial>(plait::threads{});
  auto const got = train<plait::serial>(plait::cuda{});
  auto const recorded = train<plait::serial>(plait::cuda{.options = {.graphs = true}}, true);
  double worst = 0;  // or not a number
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (double const d = std::abs(got.at(i) - expected[i]); !(d <= worst)) worst = d;
  std::printf("loss %.3f -> %.3f on a GPU, at most %.1e from the processor's; recorded: %s\n",
              got.front(), got.back(), worst, recorded == got ? "the same bits" : "other bits");
  bool const refused = is_refused(sum_on_the_host{}) && is_refused(sum_of_a_guest{});
  return worst < 1e-3 && recorded == got && refused ? 0 : 1;
}
