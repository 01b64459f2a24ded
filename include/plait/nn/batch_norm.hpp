// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/core/fraction.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Options of batch_norm.
struct batch_norm_options {
  /// The number of consecutive samples that are normalised by common statistics; 0: all samples of
  /// the microbatch.
  std::size_t group = 0;
  buffer_rule momentum =
      moving_average(0.1);  ///< weight of a step's statistics in the running averages
  ext::nano_fraction epsilon = fraction(1e-5);
};

/// Normalises each channel, over groups of samples, to mean 0 and variance 1, and then applies a
/// weight and a bias for each channel.
///
/// With `.group = 0` the statistics are computed from all samples of the microbatch, on all ranks
/// that have some of its samples, as in PyTorch's SyncBatchNorm. Results then depend on how a
/// global batch is divided into microbatches and among ranks. With `.group = N` the statistics are
/// computed from a group of samples: N consecutive samples of the global batch. A group is always
/// on one rank and in one microbatch, so every plan computes equal results. A microbatch consists
/// of whole groups; only in the last, partial batch of an epoch may the last group have fewer
/// samples. The buffers running_mean and running_var are moving averages of the mean and the
/// unbiased variance of each step. The mean and the variance of a step are averages over its groups
/// or microbatches, weighted by the numbers of samples. In evaluation, and in a frozen layer, x is
/// normalised by these buffers.
///
/// Shapes: x, y (samples, Image::size); weight, bias, running_mean, running_var (Image::channels).
/// Moves:  with groups nothing. Without groups, the ranks that have different samples all-reduce
///         two sums for each channel: the sum and the sum of squares in a forward, and two sums in
///         a backward. If the number of ranks divides the number of channels, ranks cut the
///         channels.
/// Errors: `batches` throws input_error if a microbatch does not consist of whole groups;
///         size_mismatch if a group has only one value for each channel.
/// Source: Ioffe, Szegedy, "Batch normalization", arXiv 1502.03167. Names as in PyTorch's
///         BatchNorm2d; there is no num_batches_tracked.
///
/// Example (tests/reference/names_in_use_test.cpp batch_norm):
///     using normalized = plait::nn::batch_norm<plait::nn::image<16, 32, 32>, {.group = 8}>;
template <class Image, batch_norm_options Options = batch_norm_options{}>
struct batch_norm {
  static_assert((detail::check_image<Image>(), true));
  static_assert(
      Options.epsilon.nano > 0,
      "batch_norm<Image, {.epsilon}>: epsilon must be positive, because a channel of equal values "
      "has the variance 0 and would be divided by zero; write .epsilon = plait::fraction(1e-5)");
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
  using by_groups =
      plait::forms<whole, form<"channels", shard<dim::features>, shard<dim::features>,
                               split<weight, 0>, split<bias, 0>, split<running_mean, 0>,
                               split<running_var, 0>, units_of<Image::channels>>>;
  static constexpr std::size_t channels = Image::channels;
  static constexpr auto backward_sums = ext::layer_body::backward_input;
  using by_microbatch =
      plait::forms<form<"whole", invariant, invariant, ext::batch_sum<invariant, channels>,
                        ext::batch_sum<invariant, channels>,
                        ext::batch_sum<invariant, 2 * channels, backward_sums>>,
                   form<"channels", shard<dim::features>, shard<dim::features>, split<weight, 0>,
                        split<bias, 0>, split<running_mean, 0>, split<running_var, 0>,
                        units_of<channels>, ext::batch_sum<shard<dim::features>, channels>,
                        ext::batch_sum<shard<dim::features>, channels>,
                        ext::batch_sum<shard<dim::features>, 2 * channels, backward_sums>>>;
  using forms = std::conditional_t<Options.group == 0, by_microbatch, by_groups>;
  // Two numbers for each group and channel, in the first rows of the slot. They are computed from
  // all samples of the group, so a unit that recomputes its forward does not recompute them.
  using statistics =
      slot<"statistics",
           Options.group == 0   ? 0
           : Options.group == 1 ? 2 * Image::channels
                                : Image::channels,
           2 * Image::channels, follows::features, slot_element::accumulate, slot_kept::always>;
  // Two sums for each channel, side by side. In a forward these are the sums of x and of x squared;
  // a backward has two sums of its own.
  using sums = slot<"sums", 0, 2 * Image::channels, follows::features, slot_element::accumulate>;
  using saved = plait::saved<input_slot, statistics>;
  using scratch = std::conditional_t<Options.group == 0, plait::scratch<sums>, plait::scratch<>>;
  static constexpr std::size_t sequence = 1;
  static constexpr std::size_t mixes_samples = Options.group;
  static constexpr double flops_per_row = operation::normalize_sets::is.flops * double(Image::size);
  static constexpr aliasing may_alias{.backward = true};

  static void forward(auto& ops, auto const& l) {
    if (l.context.reads_buffers)
      ops.normalize_by(Image::map, l.x, l.p[running_mean{}], l.p[running_var{}], l.p[weight{}],
                       l.p[bias{}], l.y, l.saved[statistics{}], epsilon);
    else if constexpr (Options.group > 0)
      ops.normalize_sets(sets, l.x, l.p[weight{}], l.p[bias{}], l.y, l.saved[statistics{}],
                         epsilon);
    else {
      if (!l.context.recomputes) find_statistics(ops, l);
      ops.normalize_channels(Image::map, l.x, l.saved[statistics{}], l.p[weight{}], l.p[bias{}],
                             l.y);
    }
  }
  static void backward_input(auto& ops, auto const& l) {
    if (l.context.reads_buffers)
      ops.normalize_by_backward_input(Image::map, l.dy, l.saved[statistics{}], l.p[weight{}], l.dx);
    else if constexpr (Options.group > 0)
      ops.normalize_sets_backward_input(sets, l.dy, l.saved[input_slot{}], l.saved[statistics{}],
                                        l.p[weight{}], l.dx);
    else {
      auto const of_all = ops.gradients_of_samples(Image::map, l.dy, l.saved[input_slot{}],
                                                   l.saved[statistics{}], l.scratch[sums{}]);
      ops.sum_over_samples(of_all);
      ops.normalize_samples_backward_input(Image::map, l.dy, l.saved[input_slot{}],
                                           l.saved[statistics{}], of_all, l.p[weight{}], l.dx);
    }
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.normalize_sets_backward_parameters(sets, l.dy, l.saved[input_slot{}], l.saved[statistics{}],
                                           l.dp[weight{}], l.dp[bias{}]);
    ops.accumulate_statistics(sets, l.saved[statistics{}], l.dp[running_mean{}],
                              l.dp[running_var{}], epsilon);
  }

 private:
  static void find_statistics(auto& ops, auto const& l) {
    auto const statistics = l.saved[batch_norm::statistics{}];
    auto const of_all = ops.sums_of_samples(Image::map, l.x, statistics, l.scratch[sums{}]);
    ops.sum_over_samples(of_all);
    auto const squares = ops.squares_of_samples(Image::map, statistics, of_all,
                                                rest_after(l.scratch[sums{}], of_all));
    ops.sum_over_samples(squares);
    ops.statistics_of_samples(Image::map, of_all, squares, statistics, epsilon);
  }
  // Returns the part of the buffer `room` that follows its first part, `taken`.
  static auto rest_after(auto room, auto const& taken) {
    room.data += taken.count();
    room.columns -= taken.count();
    return room;
  }

  static constexpr double epsilon = Options.epsilon.number();
  static constexpr plait::ext::norm_shape sets{.map = Image::map,
                                               .samples_together = Options.group};
};

}  // namespace plait::nn
