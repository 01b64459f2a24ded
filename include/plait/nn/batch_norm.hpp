// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/fraction.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"

namespace plait::nn {

/// Options of batch_norm.
struct batch_norm_options {
  std::size_t group = 0;                       ///< samples whose statistics are made together
  buffer_rule momentum = moving_average(0.1);  ///< of the running statistics
  nano_fraction epsilon = fraction(1e-5);
};

/// Channels of groups of samples with mean 0 and variance 1, times a weight plus a bias for each.
///
/// A group of samples is `.group` consecutive ones of the global batch. They stay on one rank and
/// in one microbatch, so that nothing is sent and every plan gives the same numbers; a microbatch
/// has whole groups, of which the last may have fewer samples in the last partial batch. The
/// buffers running_mean and running_var follow a step's mean over its groups, of which each counts
/// as it has samples, the variance unbiased. In evaluation, and in a frozen layer, they are what x
/// is normalised by.
///
/// Shapes: x, y (samples, Image::size); weight, bias, running_mean, running_var (Image::channels).
/// Moves:  nothing; ranks that divide the channels cut them.
/// Errors: input_error of `batches` if groups do not divide a microbatch; size_mismatch if a group
///         has one value for each channel.
/// Source: Ioffe, Szegedy, "Batch normalization", arXiv 1502.03167; names as in PyTorch's
///         BatchNorm2d, whose num_batches_tracked is not there.
///
/// Example (tests/reference/names_in_use_test.cpp batch_norm):
///     using normalized = plait::nn::batch_norm<plait::nn::image<16, 32, 32>, {.group = 8}>;
template <class Image, batch_norm_options Options>
struct batch_norm {
  static_assert((detail::check_image<Image>(), true));
  static_assert(Options.group > 0,
                "batch_norm<Image, {.group}>: write the number of consecutive samples of the "
                "global batch whose mean and variance are made together, such as .group = 8");
  static_assert(Options.epsilon.nano > 0,
                "batch_norm<Image, {.epsilon}>: epsilon must be positive, as equal values would be "
                "divided by zero; write .epsilon = plait::fraction(1e-5)");
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<Image::channels>, constant(1.0)>;
  using bias = parameter<"bias", extents<Image::channels>>;
  using running_mean =
      buffer<"running_mean", extents<Image::channels>, constant(0.0), Options.momentum>;
  using running_var =
      buffer<"running_var", extents<Image::channels>, constant(1.0), Options.momentum>;
  using parameters = parameter_list<weight, bias, running_mean, running_var>;
  using input = Image;
  using output = Image;
  using forms = plait::forms<whole, form<"channels", shard<dim::features>, shard<dim::features>,
                                         split<weight, 0>, split<bias, 0>, split<running_mean, 0>,
                                         split<running_var, 0>, units_of<Image::channels>>>;
  // Two numbers of each group and channel, in the first rows; made of all samples of the group, and
  // so not found anew.
  using statistics =
      slot<"statistics", (Options.group == 1 ? 2 : 1) * Image::channels, 2 * Image::channels,
           follows::features, slot_element::accumulate, slot_kept::always>;
  using saved = plait::saved<input_slot, statistics>;
  static constexpr std::size_t sequence = 1;
  static constexpr std::size_t mixes_samples = Options.group;
  static constexpr double flops_per_row = 8.0 * double(Image::size);
  static constexpr aliasing may_alias{.backward = true};

  static void forward(auto& ops, auto const& l) {
    if (l.context.reads_buffers)
      ops.normalize_by(Image::map, l.x, l.p[running_mean{}], l.p[running_var{}], l.p[weight{}],
                       l.p[bias{}], l.y, l.saved[statistics{}], epsilon);
    else
      ops.normalize_sets(sets, l.x, l.p[weight{}], l.p[bias{}], l.y, l.saved[statistics{}],
                         epsilon);
  }
  static void backward_input(auto& ops, auto const& l) {
    if (l.context.reads_buffers)
      ops.normalize_by_backward_input(Image::map, l.dy, l.saved[statistics{}], l.p[weight{}], l.dx);
    else
      ops.normalize_sets_backward_input(sets, l.dy, l.saved[input_slot{}], l.saved[statistics{}],
                                        l.p[weight{}], l.dx);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.normalize_sets_backward_parameters(sets, l.dy, l.saved[input_slot{}], l.saved[statistics{}],
                                           l.dp[weight{}], l.dp[bias{}]);
    ops.accumulate_statistics(sets, l.saved[statistics{}], l.dp[running_mean{}],
                              l.dp[running_var{}], epsilon);
  }

 private:
  static constexpr double epsilon = Options.epsilon.number();
  static constexpr plait::ext::norm_shape sets{.map = Image::map,
                                               .samples_together = Options.group};
};

}  // namespace plait::nn
