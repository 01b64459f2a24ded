// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "plait/formula/node.hpp"

/// Convolutions, pooling and their gradients, computed from their definitions, for one rank.
namespace plait::testing::tables {

struct image_call {
  std::string_view name;
  formula::window_numbers windows;
  formula::image_shape x, y;  ///< the shapes of the whole images
  std::size_t rows = 0;
  /// The numbers of channels of the input and of the output on this rank.
  std::size_t channels = 0, outputs = 0;
};

/// Computes the result of a call, without adding a bias, and writes it to `out`. `in(k)` returns
/// the numbers of operand k.
inline void make_on_images(image_call const& call, auto in, auto& out) {
  auto const kernel = std::size_t(call.windows.kernel), window = kernel * kernel;
  std::size_t const x_map = std::size_t(call.x.map()), y_map = std::size_t(call.y.map());
  auto const for_each_place = [&](auto use) {
    for (int i = 0; i < call.y.map(); ++i)
      for (std::size_t k = 0; k < window; ++k) {
        int const row =
            i / call.y.width * call.windows.stride + int(k / kernel) - call.windows.padding;
        int const column =
            i % call.y.width * call.windows.stride + int(k % kernel) - call.windows.padding;
        if (row < 0 || row >= call.x.height || column < 0 || column >= call.x.width) continue;
        use(std::size_t(i), k, std::size_t(row * call.x.width + column));
      }
  };
  if (call.name.substr(0, 8) == "convolve") {
    std::size_t groups = std::size_t(call.windows.groups);
    if (groups > 1) groups = groups * call.channels / std::size_t(call.x.channels);
    std::size_t const inputs = call.channels / groups, outputs = call.outputs / groups;
    for (std::size_t r = 0; r < call.rows; ++r)
      for (std::size_t o = 0; o < call.outputs; ++o)
        for (std::size_t c = 0; c < inputs; ++c)
          for_each_place([&](std::size_t to, std::size_t k, std::size_t from) {
            std::size_t const y = (r * call.outputs + o) * y_map + to;
            std::size_t const x = (r * call.channels + o / outputs * inputs + c) * x_map + from;
            std::size_t const w = (o * inputs + c) * window + k;
            if (call.name == "convolve") out[y] += in(0)[x] * in(1)[w];
            else if (call.name == "convolve_backward_input") out[x] += in(0)[y] * in(1)[w];
            else out[w] += in(0)[y] * in(1)[x];
          });
    return;
  }
  for (std::size_t map = 0; map < call.rows * call.channels; ++map) {
    std::size_t const x = map * x_map, y = map * y_map;
    if (call.name.substr(0, 7) == "average") {
      for_each_place([&](std::size_t to, std::size_t, std::size_t from) {
        if (call.name == "average_pool") out[y + to] += in(0)[x + from] / double(window);
        else out[x + from] += in(0)[y + to] / double(window);
      });
      continue;
    }
    bool const is_gradient = call.name == "max_pool_backward";
    std::vector<double> largest(y_map, -std::numeric_limits<double>::infinity());
    std::vector<std::size_t> place(y_map);
    for_each_place([&](std::size_t to, std::size_t, std::size_t from) {
      double const given = in(is_gradient ? 1 : 0)[x + from];
      if (given > largest[to]) largest[to] = given, place[to] = from;
    });
    for (std::size_t i = 0; i < y_map; ++i) {
      if (is_gradient) out[x + place[i]] += in(0)[y + i];
      else out[y + i] = largest[i];
    }
  }
}

}  // namespace plait::testing::tables
