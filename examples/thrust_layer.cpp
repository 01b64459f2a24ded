// SPDX-License-Identifier: Apache-2.0
// ctest:
// libs: thrust
// Layers of Thrust's algorithms, trained on two host threads. thrust_layer.cu trains the same
// layers on a GPU.
#include "thrust_layer.hpp"

#include <cstdio>

int main() {
  auto const losses = thrust_layer::train<plait::data_parallel<2>>(plait::threads{});
  std::printf("loss %.3f -> %.3f in %zu steps on two threads\n", losses.front(), losses.back(),
              losses.size());
  return losses.back() < losses.front() / 2 ? 0 : 1;
}
