// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/element_place.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"

namespace plait::nn {

namespace detail {

template <std::size_t Factor>
consteval void check_factor() {
  static_assert(Factor > 0,
                "upsample<Image, Factor>: Factor is 0, so the output would be empty; set Factor to "
                "the number of times that each row and column is repeated, at least 1");
}

}  // namespace detail

/// Repeats each element of an image `Factor` times in each direction, as PyTorch's Upsample with
/// mode="nearest". The gradient of an element is the sum of the gradients of its copies.
///
/// Shapes: x (rows, Image::size); y an image of the same channels, Factor times as high and wide.
/// Moves:  nothing; channels are cut like features, and a partial input stays partial.
///
/// Example (tests/reference/names_in_use_test.cpp upsample):
///     using twice_as_large =
///         plait::nn::upsample<plait::nn::image<8, 4, 4>, 2>;  // 8 maps of 8 x 8
template <class Image, std::size_t Factor>
struct upsample {
  static_assert((detail::check_image<Image>(), true));
  static_assert((detail::check_factor<Factor>(), true));
  using concept_tag = layer_tag;
  using input = Image;
  using output = image<Image::channels, Factor * Image::height, Factor * Image::width>;
  using forms = plait::forms<whole, form<"channels", shard<dim::features>, shard<dim::features>>,
                             by_sequence<>, form<"summands", partial, partial>>;
  static constexpr std::size_t units = Image::channels;
  // The layer takes time only to read and write memory. With 0 FLOPs the planner does not cut a
  // value for this layer that a neighbouring layer needs whole.
  static constexpr double flops_per_row = 0;

  struct nearest {
    static constexpr std::size_t block = output::map, read_block = Image::map;
    static constexpr bool is_linear = true;
    PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at,
                                                     auto const& x) const {
      std::size_t const place = at.column % block;
      std::size_t const row = place / output::width / Factor,
                        column = place % output::width / Factor;
      return x[at.column / block * read_block + row * Image::width + column];
    }
  };
  struct sum_of_copies {
    static constexpr std::size_t block = Image::map, read_block = output::map;
    static constexpr bool is_linear = true;
    PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at,
                                                     auto const& dy) const {
      std::size_t const place = at.column % block;
      std::size_t const row = place / Image::width * Factor, column = place % Image::width * Factor;
      std::size_t const first = at.column / block * read_block + row * output::width + column;
      auto sum = dy[first];
      for (std::size_t i = 1; i < Factor * Factor; ++i)
        sum += dy[first + i / Factor * output::width + i % Factor];
      return sum;
    }
  };

  static void forward(auto& ops, auto const& l) { ops.map_at(nearest{}, l.y, l.x); }
  static void backward_input(auto& ops, auto const& l) { ops.map_at(sum_of_copies{}, l.dx, l.dy); }
};

}  // namespace plait::nn
