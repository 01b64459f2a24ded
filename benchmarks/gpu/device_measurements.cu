// SPDX-License-Identifier: Apache-2.0
#include "device_measurements.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/cuda/device/requirements.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/random_normal.hpp"
#include "plait/operation/rows.hpp"

namespace device_measurements {

machine machine_here() {
  machine out;
  int count = 0;
  auto const code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) {
    cudaDeviceProp about{};
    if (cudaGetDeviceProperties(&about, 0) == cudaSuccess) out.gpu = about.name;
  } else {
    out.problem = code == cudaSuccess ? "none found" : cudaGetErrorString(code);
  }
  (void)cudaGetLastError();
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess)
    out.cuda = plait::cuda_requirements::cuda_version_text(version);
  return out;
}

memory memory_here() {
  std::size_t free = 0, total = 0;
  (void)cudaMemGetInfo(&free, &total);
  return {total, total - free};
}

double matrix_product_roof() {
  using plait::bfloat16;
  using clock = std::chrono::steady_clock;
  constexpr std::size_t longest = 16384;
  plait::ext::cuda_device device({0, 0});
  auto const queue = device.on(plait::ext::stream::compute);
  std::vector<bfloat16> values(longest * 8192);  // random: products of zeros are faster
  constexpr std::size_t drawn = 1'000'003;       // the other values repeat these
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i < drawn ? static_cast<bfloat16>(float(plait::ext::random_normal({1, 2, 3}, i)))
                          : values[i - drawn];
  auto const room = [&] { return device.allocate(values.size() * sizeof(bfloat16)); };
  auto const data = [](auto const& arena) { return reinterpret_cast<bfloat16*>(arena.data()); };
  auto const a = room(), b = room(), c = device.allocate(longest * longest * sizeof(bfloat16));
  device.upload(values.data(), data(a), values.size() * sizeof(bfloat16));
  device.upload(values.data(), data(b), values.size() * sizeof(bfloat16));
  device.synchronize();
  double best = 0;
  struct shape {
    std::size_t m, n, k;
  };
  for (auto const& [m, n, k] : {shape{4096, 4096, 4096}, shape{8192, 8192, 8192},
                                shape{16384, 8192, 4096}, shape{16384, 16384, 8192}}) {
    auto const seconds = [&](int turns) {
      auto const begin = clock::now();
      for (int turn = 0; turn < turns; ++turn)
        queue.run(plait::operation::matmul{}, plait::ext::matrix<bfloat16 const>{data(a), m, k},
                  plait::ext::matrix<bfloat16 const>{data(b), n, k},
                  plait::ext::matrix<bfloat16>{data(c), m, n}, plait::ext::transposes{.b = true},
                  false);
      device.synchronize();
      return std::chrono::duration<double>(clock::now() - begin).count();
    };
    seconds(3);
    int const turns = 20;
    for (int round = 0; round < 3; ++round)
      best = std::max(best, 2.0 * double(m) * double(n) * double(k) * turns / seconds(turns));
  }
  return best;
}

}  // namespace device_measurements
