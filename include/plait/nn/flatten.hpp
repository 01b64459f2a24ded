// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"

namespace plait::nn {

/// Passes the values of an image on as features, for layers that take rows. It is optional: a layer
/// that takes rows may also follow a layer that outputs an image.
///
/// Shapes: x, y (rows, Image::size).
/// Cost:   nothing; input and output share one buffer.
template <class Image>
struct flatten {
  static_assert((detail::check_image<Image>(), true));
  using concept_tag = layer_tag;
  using input = Image;
  using output = features<Image::size>;
  using forms = plait::forms<whole, by_features, by_sequence<>, form<"summands", partial, partial>>;
  static constexpr double flops_per_row = 0;
  static constexpr aliasing may_alias{.forward = true, .backward = true};

  static void forward(auto& ops, auto const& l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) { ops.copy(l.dy, l.dx); }
};

}  // namespace plait::nn
