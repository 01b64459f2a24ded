// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"

namespace plait_test {

/// The squared distance of each output to an integer of its own; negative ones do not count.
template <std::size_t Width>
struct integer_distance {
  using concept_tag = plait::layer_tag;
  using input = plait::inputs<plait::features<Width>, plait::integers<Width>>;
  using output = plait::loss_value;
  using saved = plait::saved<plait::input_slot>;
  using terms = plait::slot<"terms", 1, plait::slot_element::accumulate>;
  using scratch = plait::scratch<terms>;
  static constexpr bool takes_weights = true;

  static std::int64_t count(std::span<std::int32_t const> targets) {
    std::int64_t out = 0;
    for (auto const target : targets) out += target >= 0;
    return out;
  }

  struct add_up {
    template <class X, class Sum>
    PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, std::int32_t const* targets,
                                      Sum* term) const {
      *term = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        Sum const error = static_cast<Sum>(x[c]) - static_cast<Sum>(targets[c]);
        if (targets[c] >= 0) *term += error * error;
      }
    }
  };
  template <class Seed>
  struct differentiate {
    static constexpr bool takes_row = true;
    Seed seed;
    template <class X>
    PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t columns, X const* x,
                                      std::int32_t const* targets, X* dx) const {
      for (std::size_t c = 0; c < columns; ++c)
        dx[c] = targets[c] < 0
                    ? X{0}
                    : static_cast<X>(2 * seed.at(row) * (static_cast<double>(x[c]) - targets[c]));
    }
  };

  static void forward(auto& ops, auto const& l) {
    auto const& [x, targets] = l.x;
    ops.rows(add_up{}, x, targets, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [x, targets] = l.saved[plait::input_slot{}];
    ops.rows(differentiate<decltype(ops.loss_seed())>{ops.loss_seed()}, x, targets, l.dx);
  }
};

}  // namespace plait_test
