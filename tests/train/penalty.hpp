// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/plait.hpp"

namespace plait_test {

/// y = x; adds the mean of the squares of x to the loss.
template <std::size_t Width>
struct penalty {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using saved = plait::saved<plait::input_slot>;
  using terms = plait::slot<"terms", 1, plait::slot_element::accumulate>;
  using scratch = plait::scratch<terms>;
  static constexpr bool adds_to_loss = true;

  struct mean_square {
    template <class X, class Sum>
    PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, X* y, Sum* term) const {
      Sum sum = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        sum += static_cast<Sum>(x[c]) * static_cast<Sum>(x[c]);
        y[c] = x[c];
      }
      *term = sum / static_cast<Sum>(columns);
    }
  };
  struct differentiate {
    static constexpr bool takes_row = true;
    plait::loss_seed seed;
    template <class X>
    PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t columns, X const* x, X const* dy,
                                      X* dx) const {
      auto const factor = static_cast<X>(2 * seed.at(row) / static_cast<double>(columns));
      for (std::size_t c = 0; c < columns; ++c) dx[c] = dy[c] + factor * x[c];
    }
  };

  static void forward(auto& ops, auto const& l) {
    ops.rows(mean_square{}, l.x, l.y, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.rows(differentiate{ops.loss_seed()}, l.saved[plait::input_slot{}], l.dy, l.dx);
  }
};

}  // namespace plait_test
