// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

#include "plait/backend/element_place.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"

namespace own_rotary {

// example-begin rotary
template <std::size_t HeadWidth>
struct turned {  // rotates pairs, which are the two halves of each head
  static constexpr std::size_t block = HeadWidth;
  double direction;
  PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at, auto x) const {
    std::size_t const half = HeadWidth / 2, in_head = at.column % HeadWidth, pair = in_head % half;
    double const rate = std::pow(100.0, -2.0 * double(pair) / double(HeadWidth));
    double const angle = direction * double(at.position) * rate;
    double const a = x[at.column - in_head + pair], b = x[at.column - in_head + half + pair];
    return in_head < half ? a * std::cos(angle) - b * std::sin(angle)
                          : b * std::cos(angle) + a * std::sin(angle);
  }
};
template <std::size_t Heads, std::size_t HeadWidth, std::size_t Sequence>
struct rotary {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Heads * HeadWidth>;
  using output = input;
  using forms = plait::forms<plait::whole, plait::by_features, plait::by_sequence<>>;
  static constexpr std::size_t sequence = Sequence, units = Heads;
  static void forward(auto& ops, auto l) { ops.map_at(turned<HeadWidth>{1}, l.y, l.x); }
  static void backward_input(auto& ops, auto l) { ops.map_at(turned<HeadWidth>{-1}, l.dx, l.dy); }
};
// example-end

}  // namespace own_rotary
