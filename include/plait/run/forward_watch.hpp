// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/core/namespaces.hpp"

namespace plait::execution {

/// Finds the first layer in a forward whose output is not finite. The passes of the forward call
/// look() with the output of each layer.
///
/// Cost:   look() waits for the device and copies the output to the host.
struct forward_watch {
  bool found = false;
  int microbatch = 0;
  std::uint32_t site = 0;  ///< layer_context::site of the layer; greater for a later layer
  int leaf = 0, copy = 0;

  template <class Device, class T>
  [[gnu::cold]] void look(Device& device, T const* made, std::size_t count) {
    std::vector<T> values(count);
    device.download(made, values.data(), count * sizeof(T));
    device.synchronize();
    found = !std::all_of(values.begin(), values.end(),
                         [](T x) { return std::isfinite(static_cast<double>(x)); });
  }
};

}  // namespace plait::execution
