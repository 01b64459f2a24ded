// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/fraction.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Options of group_norm.
struct group_norm_options {
  ext::nano_fraction epsilon = fraction(1e-5);
};

namespace detail {

template <std::size_t Channels, std::size_t Groups>
consteval void check_norm_groups() {
  static_assert(Groups > 0 && Channels % Groups == 0,
                "group_norm<Image, Groups>: Groups does not divide Channels, the number of "
                "channels of the image; write a number of groups that divides it");
}

}  // namespace detail

/// Normalises each group of channels of each sample to mean 0 and variance 1, and then applies a
/// weight and a bias for each channel.
///
/// Shapes: x, y (rows, Image::size); weight, bias (Image::channels).
/// Moves:  nothing; if the number of ranks divides Groups, ranks cut the channels.
/// Source: Wu, He, "Group normalization", arXiv 1803.08494.
template <class Image, std::size_t Groups, group_norm_options Options = group_norm_options{}>
struct group_norm {
  static_assert((detail::check_image<Image>(), true));
  static_assert((detail::check_norm_groups<Image::channels, Groups>(), true));
  static_assert(Options.epsilon.nano > 0,
                "group_norm<Image, Groups, {.epsilon}>: epsilon must be positive, because a group "
                "of equal values has the variance 0 and would be divided by zero; write .epsilon = "
                "plait::fraction(1e-5)");
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<Image::channels>, constant(1.0)>;
  using bias = parameter<"bias", extents<Image::channels>>;
  using parameters = parameter_list<weight, bias>;
  using input = Image;
  using output = Image;
  using forms = plait::forms<whole,
                             form<"channels", shard<dim::features>, shard<dim::features>,
                                  split<weight, 0>, split<bias, 0>, units_of<Groups>>,
                             by_sequence<>>;
  using statistics = slot<"statistics", 2 * Groups, follows::features, slot_element::accumulate>;
  using saved = plait::saved<input_slot, statistics>;
  static constexpr double flops_per_row = operation::normalize_sets::is.flops * double(Image::size);
  static constexpr aliasing may_alias{.backward = true};

  static void forward(auto& ops, auto const& l) {
    ops.normalize_sets(sets, l.x, l.p[weight{}], l.p[bias{}], l.y, l.saved[statistics{}],
                       Options.epsilon.number());
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.normalize_sets_backward_input(sets, l.dy, l.saved[input_slot{}], l.saved[statistics{}],
                                      l.p[weight{}], l.dx);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.normalize_sets_backward_parameters(sets, l.dy, l.saved[input_slot{}], l.saved[statistics{}],
                                           l.dp[weight{}], l.dp[bias{}]);
  }

 private:
  static constexpr plait::ext::norm_shape sets{.map = Image::map,
                                               .channels_together = Image::channels / Groups};
};

}  // namespace plait::nn
