// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "plait/backend/window_shape.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/attention_operations.hpp"
#include "plait/run/carry_out.hpp"
#include "plait/run/convolution.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The convolutions, pooling and normalisations that a layer's body may call if each row of its
/// views is an image. If the columns are cut over the tensor ranks, each rank has whole channels.
/// \see operations
template <class Rank>
class image_operations : public attention_operations<Rank> {
  using base = attention_operations<Rank>;
  template <class T, placement At>
  using view_of = view<T, At, typename Rank::device_type::memory>;

 public:
  using base::base;
  using base::context;

  /// Computes y = w * x for each row, where * is the convolution. `in` describes the windows of the
  /// whole input, with the channels of all ranks. Each of the `groups` groups of channels is
  /// convolved separately.
  ///
  /// Shapes: x (rows, channels in.map()); w (outputs, channels / groups in.window()); y (rows,
  ///         outputs in.out_map()); room: a workspace of patch_block_of(in, outputs).room()
  ///         elements, computed for the whole layer; it may be empty if this number is 0.
  void convolve(window_shape const& in, std::size_t groups, auto x, auto w, auto y, auto room) {
    static_assert(base::template sound<operation::convolve, decltype(x), decltype(w), decltype(y)>);
    auto const made = convolution_of("convolve", in, groups, x, w, y, room);
    made.forward(x.rows, x.data, w.data, y.data, room.data);
  }
  void convolve_backward_input(window_shape const& in, std::size_t groups, auto dy, auto w, auto dx,
                               auto room) {
    static_assert(base::template sound<operation::convolve_backward_input, decltype(dy),
                                       decltype(w), decltype(dx)>);
    auto const made = convolution_of("convolve_backward_input", in, groups, dx, w, dy, room);
    made.backward_input(dx.rows, dy.data, w.data, dx.data, room.data);
  }
  void convolve_backward_weight(window_shape const& in, std::size_t groups, auto dy, auto x,
                                auto dw, auto room) {
    static_assert(base::template sound<operation::convolve_backward_weight, decltype(dy),
                                       decltype(x), decltype(dw)>);
    auto const made = convolution_of("convolve_backward_weight", in, groups, x, dw, dy, room);
    made.backward_weight(x.rows, dy.data, x.data, dw.data, room.data);
  }
  /// Adds bias[c] to all elements of channel c of y.
  ///
  /// Shapes: bias (1, channels); y (rows, channels map).
  void add_to_maps(auto bias, auto y, std::size_t map) {
    check_channels("add_to_maps", named("bias", bias), named("y", y), map);
    put(operation::add_to_maps{}, bias, y, map);
  }
  /// Adds to `sums` the sum of dy over the rows and the map of each channel, which is the gradient
  /// of add_to_maps with respect to its bias.
  void accumulate_map_sums(auto dy, auto sums, std::size_t map) {
    check_channels("accumulate_map_sums", named("sums", sums), named("dy", dy), map);
    put(operation::accumulate_map_sums{}, dy, sums, map);
  }

  /// Computes y = the largest element of each window of `in`. x may have a block of the channels
  /// that `in` describes. The padding, which is at most half a window wide, does not count. If a
  /// window contains a NaN, its result is a NaN.
  ///
  /// Shapes: x (rows, channels in.map()); y (rows, channels in.out_map()).
  void max_pool(window_shape const& in, auto x, auto y) {
    put(operation::max_pool{}, x, y, windows("max_pool", in, named("x", x), named("y", y)));
  }
  /// Computes the gradient of max_pool. If several elements of a window are equally large, the
  /// first receives the gradient.
  void max_pool_backward(window_shape const& in, auto dy, auto x, auto dx) {
    static_assert(typing::sound_gradient<x.at, dx.at>);
    constexpr auto name = "max_pool_backward";
    shapes_.equal(name, named("dx", dx), named("x", x));
    put(operation::max_pool_backward{}, dy, x, dx,
        windows(name, in, named("x", x), named("dy", dy)));
  }
  /// Computes y = the mean of each window of `in`, in which padding counts as zeros.
  void average_pool(window_shape const& in, auto x, auto y) {
    put(operation::average_pool{}, x, y, windows("average_pool", in, named("x", x), named("y", y)));
  }
  void average_pool_backward(window_shape const& in, auto dy, auto dx) {
    put(operation::average_pool_backward{}, dy, dx,
        windows("average_pool_backward", in, named("dx", dx), named("dy", dy)));
  }

  /// Computes y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with the mean and the
  /// variance of the normalization set that contains the element. Such a set is, for example, a
  /// channel of all samples in a batch norm, or a group of channels of one sample in a group norm.
  /// `statistics` keeps the mean and the inverse standard deviation of each set.
  ///
  /// Shapes: x, y (rows, channels map); gamma, beta (1, channels); statistics: at least 2 elements
  ///         for each set.
  void normalize_sets(norm_shape const& of, auto x, auto gamma, auto beta, auto y, auto statistics,
                      double epsilon) {
    static_assert(
        x.at == statistics.at,
        "ops.normalize_sets(...): the statistics are not placed like x; correct the form, "
        "or the use<...> of the slot");
    constexpr auto name = "normalize_sets";
    auto const sets = sets_of(name, of, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("beta", beta), named("gamma", gamma));
    shapes_.equal(name, named("y", y), named("x", x));
    carry_out(queue_, operation::set_statistics{}, as_operand<true>(x), kept(statistics, sets),
              sets, epsilon);
    put(operation::normalize_sets{}, x, read(statistics, sets), gamma, beta, y, sets);
  }
  /// Computes dx, the gradient of normalize_sets with respect to x. dx may be dy.
  void normalize_sets_backward_input(norm_shape const& of, auto dy, auto x, auto statistics,
                                     auto gamma, auto dx) {
    static_assert(typing::sound_gradient<x.at, dx.at>);
    constexpr auto name = "normalize_sets_backward_input";
    auto const sets = sets_of(name, of, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("dy", dy), named("x", x));
    shapes_.equal(name, named("dx", dx), named("x", x));
    put(operation::normalize_sets_backward{}, dy, x, read(statistics, sets), gamma, dx, sets);
  }
  void normalize_sets_backward_parameters(norm_shape const& of, auto dy, auto x, auto statistics,
                                          auto dgamma, auto dbeta) {
    constexpr auto name = "normalize_sets_backward_parameters";
    auto const sets = sets_of(name, of, named("x", x), named("dgamma", dgamma), statistics);
    shapes_.equal(name, named("dy", dy), named("x", x));
    shapes_.equal(name, named("dbeta", dbeta), named("dgamma", dgamma));
    put(operation::normalize_sets_parameters{}, dy, x, read(statistics, sets), dgamma, dbeta, sets);
  }
  /// Adds the means and the unbiased variances of a step's normalization sets, each of one channel,
  /// to the sums in two buffers. The weight of a set is the share of its samples in the global
  /// batch.
  ///
  /// Errors: size_mismatch for a set of one element, which has no variance.
  void accumulate_statistics(norm_shape of, auto statistics, auto means, auto variances,
                             double epsilon) {
    static_assert(statistics.at == means.at && means.at == variances.at,
                  "ops.accumulate_statistics(...): statistics, means and variances are not placed "
                  "alike; correct the form, or the use<...> of the slot");
    constexpr auto name = "accumulate_statistics";
    shapes_.equal(name, named("variances", variances), named("means", means));
    of.channels = means.columns;
    of.samples = context.batch;
    of.present = context.present();
    bool const is_whole = of.samples_together == all_together;
    if (is_whole) of = whole_sets(of);
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * of.sets());
    if (is_whole) {
      std::size_t const all = context.present_on_all_ranks();
      if (all * of.map == 1) shapes_.one_of_a_set(name, named("means", means), all, all);
    } else {
      std::size_t const last = of.present % of.samples_together;  // number of samples in the last
                                                                  // group, if it is not full
      if (of.map == 1 && (last == 1 || of.samples_together == 1))
        shapes_.one_of_a_set(name, named("means", means), of.samples_together, of.present);
    }
    put(operation::accumulate_statistics{}, read(statistics, of), means, variances, of,
        context.sample_share(), epsilon);
  }

  /// Computes the first part of the statistics of each channel over the samples of all ranks. The
  /// function writes this rank's own statistics to `statistics`. It writes the sum of this rank's
  /// elements of each channel to a part of `room`, and returns a view of this part. The caller then
  /// calls ops.sum_over_samples on this view, and after that squares_of_samples.
  ///
  /// Shapes: x (rows, channels map); statistics: at least 2 elements for each channel; room: at
  ///         least one element for each channel
  template <class X, class Kept, placement At, placement Sets>
  auto sums_of_samples(std::size_t map, view_of<X, At> x, view_of<Kept, Sets> statistics,
                       view_of<Kept, Sets> room) {
    static_assert(At == Sets && !is_partial(At));
    constexpr auto name = "sums_of_samples";
    auto const of = whole_sets(name, map, named("x", x), statistics);
    shapes_.room(name, named("room", room), room.count(), of.channels);
    carry_out(queue_, operation::set_statistics{}, as_operand<true>(x), kept(statistics, of), of,
              0.0);
    carry_out(queue_, operation::sums_of_sets{}, read(statistics, of),
              row_of(room.data, of.channels), of);
    return view_of<Kept, Sets>{room.data, 1, of.channels};
  }
  /// Computes the second part of the statistics, from the `sums` of sums_of_samples that
  /// ops.sum_over_samples has added over the ranks. Returns for each channel the sum of the squared
  /// differences between this rank's elements and the mean over all samples. The caller calls
  /// ops.sum_over_samples on the result, too, and then statistics_of_samples.
  template <class Kept, placement Sets>
  auto squares_of_samples(std::size_t map, view_of<Kept, Sets> statistics, view_of<Kept, Sets> sums,
                          view_of<Kept, Sets> room) {
    constexpr auto name = "squares_of_samples";
    auto const of = whole_sets(map, sums.columns);
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * of.channels);
    shapes_.room(name, named("room", room), room.count(), of.channels);
    carry_out(queue_, operation::squares_of_sets{}, read(statistics, of), as_operand<true>(sums),
              row_of(room.data, of.channels), of);
    return view_of<Kept, Sets>{room.data, 1, of.channels};
  }
  /// Computes the statistics from the sums and the squares, which have been added over the ranks:
  /// writes the mean and the inverse standard deviation of each channel to `statistics`.
  template <class Kept, placement Sets>
  void statistics_of_samples(std::size_t map, view_of<Kept, Sets> sums, view_of<Kept, Sets> squares,
                             view_of<Kept, Sets> statistics, double epsilon) {
    constexpr auto name = "statistics_of_samples";
    auto const of = whole_sets(map, sums.columns);
    shapes_.equal(name, named("squares", squares), named("sums", sums));
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * of.channels);
    carry_out(queue_, operation::whole_statistics{}, as_operand<true>(sums),
              as_operand<true>(squares), kept(statistics, of), of, epsilon);
  }
  /// Computes y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with the mean and the
  /// variance of each channel from `statistics`.
  void normalize_channels(std::size_t map, auto x, auto statistics, auto gamma, auto beta, auto y) {
    constexpr auto name = "normalize_channels";
    auto const sets = one_set(name, map, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("beta", beta), named("gamma", gamma));
    shapes_.equal(name, named("y", y), named("x", x));
    put(operation::normalize_sets{}, x, read(statistics, sets), gamma, beta, y, sets);
  }
  /// Computes this rank's summands of the gradients with respect to gamma and beta, and returns
  /// them in one view of `room`. The gradient with respect to x depends on the sums over the
  /// samples of all ranks, so the caller then calls ops.sum_over_samples on the view.
  ///
  /// Shapes: as for sums_of_samples; room: at least 2 elements for each channel
  template <class Dy, class X, class Kept, class S, placement Gradient, placement At,
            placement Sets>
  auto gradients_of_samples(std::size_t map, view_of<Dy, Gradient> dy, view_of<X, At> x,
                            view_of<Kept, Sets> statistics, view_of<S, Sets> room) {
    static_assert(At == Sets && typing::sound_gradient<At, Gradient>);
    constexpr auto name = "gradients_of_samples";
    auto const of = whole_sets(name, map, named("x", x), statistics);
    shapes_.equal(name, named("dy", dy), named("x", x));
    shapes_.room(name, named("room", room), room.count(), 2 * of.channels);
    queue_.fill(S{0}, room.data, 2 * of.channels);
    carry_out(queue_, operation::normalize_sets_parameters{}, as_operand<true>(dy),
              as_operand<true>(x), read(statistics, of), row_of(room.data, of.channels),
              row_of(room.data + of.channels, of.channels), of);
    return view_of<S, Sets>{room.data, 1, 2 * of.channels};
  }
  /// Computes dx from `sums`, the result of gradients_of_samples after ops.sum_over_samples has
  /// added it over the ranks. dx may be dy.
  void normalize_samples_backward_input(std::size_t map, auto dy, auto x, auto statistics,
                                        auto sums, auto gamma, auto dx) {
    static_assert(typing::sound_gradient<x.at, dx.at>);
    static_assert(sums.at == statistics.at,
                  "ops.normalize_samples_backward_input(...): the sums are not placed like the "
                  "statistics; pass the view that ops.sum_over_samples has summed");
    constexpr auto name = "normalize_samples_backward_input";
    auto const of = whole_sets(name, map, named("x", x), statistics);
    check_channels(name, named("gamma", gamma), named("x", x), map);
    shapes_.equal(name, named("dy", dy), named("x", x));
    shapes_.equal(name, named("dx", dx), named("x", x));
    auto const* const made = as_operand<true>(sums).data;
    put(operation::normalize_whole_backward{}, dy, x, read(statistics, of),
        row_of(made, of.channels), row_of(made + of.channels, of.channels), gamma, dx, of);
  }

  /// Computes y = gamma (x - mean) / sqrt(variance + epsilon) + beta. The mean and the variance of
  /// each channel are arguments and do not depend on x, for example running statistics.
  /// `statistics` keeps the numbers that the gradient needs.
  void normalize_by(std::size_t map, auto x, auto mean, auto variance, auto gamma, auto beta,
                    auto y, auto statistics, double epsilon) {
    constexpr auto name = "normalize_by";
    auto const sets = one_set(name, map, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("mean", mean), named("gamma", gamma));
    shapes_.equal(name, named("variance", variance), named("gamma", gamma));
    shapes_.equal(name, named("beta", beta), named("gamma", gamma));
    shapes_.equal(name, named("y", y), named("x", x));
    static_assert(mean.at == gamma.at && variance.at == gamma.at,
                  "ops.normalize_by(...): mean, variance and gamma are not placed alike; correct "
                  "the form");
    carry_out(queue_, operation::given_statistics{}, as_operand<true>(mean),
              as_operand<true>(variance), kept(statistics, sets), epsilon);
    put(operation::normalize_sets{}, x, read(statistics, sets), gamma, beta, y, sets);
  }
  /// Computes dx, the gradient of normalize_by with respect to x. dx may be dy.
  void normalize_by_backward_input(std::size_t map, auto dy, auto statistics, auto gamma, auto dx) {
    constexpr auto name = "normalize_by_backward_input";
    auto const sets = one_set(name, map, named("dy", dy), named("gamma", gamma), statistics);
    shapes_.equal(name, named("dx", dx), named("dy", dy));
    put(operation::scale_sets{}, dy, read(statistics, sets), gamma, dx, sets);
  }

 protected:
  using base::named, base::put, base::queue_, base::rank, base::shapes_;

 private:
  /// Returns the statistics of normalization sets (a mean and an inverse standard deviation for
  /// each set) as an operand that a kernel writes. read() returns the same statistics as an operand
  /// that a kernel reads.
  template <class Statistics>
  static auto kept(Statistics const& statistics, norm_shape const& of) {
    return row_of(statistics.data, 2 * std::max(of.sets(), of.sets_across()));
  }
  template <class Statistics>
  static auto read(Statistics const& statistics, norm_shape const& of) {
    return row_of(as_operand<true>(statistics).data, 2 * std::max(of.sets(), of.sets_across()));
  }

  /// Checks the shapes of the operands of a convolution, and returns this rank's part of the
  /// convolution.
  template <class X, class W, class Y, class Room>
  auto convolution_of(char const* name, window_shape const& in, std::size_t groups, X const& x,
                      W const& w, Y const& y, Room const& room) const {
    std::size_t const map = in.map(), channels = x.columns / map, outputs = w.rows;
    std::size_t const local_groups =
        groups == 1 ? 1 : std::max<std::size_t>(groups * channels / in.channels, 1);
    auto const local = in.of_channels(channels);
    named_shape const of_x = named("x", x);
    shapes_.expect(name, of_x, x.rows, channels * map, {"whole channels", 1, map});
    shapes_.expect(name, named("w", w), w.rows, local.patch() / local_groups, of_x);
    shapes_.expect(name, named("y", y), x.rows, outputs * in.out_map(), of_x);
    auto const block = patch_block_of(local, outputs);
    shapes_.room(name, named("room", room), room.count(), block.room());
    return convolution<std::remove_cvref_t<decltype(queue_)>>(queue_, local, outputs, local_groups,
                                                              block);
  }

  [[nodiscard]] window_shape windows(char const* name, window_shape const& in, named_shape x,
                                     named_shape y) const {
    auto const fits = [&](std::size_t length, std::size_t kernel) {
      return kernel > 0 && kernel <= length + 2 * in.padding && 2 * in.padding <= kernel;
    };
    shapes_.pooled(
        name, x, in.kernel_height, in.kernel_width,
        in.stride > 0 && fits(in.height, in.kernel_height) && fits(in.width, in.kernel_width));
    auto const local = in.of_channels(x.columns / in.map());
    shapes_.expect(name, x, x.rows, local.image(), {"whole channels", 1, in.map()});
    shapes_.expect(name, y, x.rows, local.channels * in.out_map(), x);
    return local;
  }

  void check_channels(char const* name, named_shape row, named_shape images,
                      std::size_t map) const {
    shapes_.expect(name, images, images.rows, row.columns * map, row);
    shapes_.expect(name, row, 1, row.columns, images);
  }

  /// Returns `of` with other normalization sets: each set is a channel of all samples of the
  /// microbatch, on all ranks.
  [[nodiscard]] norm_shape whole_sets(norm_shape of) const {
    of.samples_together = std::max<std::size_t>(of.samples, 1);
    of.everywhere = std::max<std::size_t>(context.present_on_all_ranks() * of.map, 1);
    return of;
  }
  [[nodiscard]] norm_shape whole_sets(std::size_t map, std::size_t channels) const {
    return whole_sets({context.batch, context.present(), channels, map});
  }
  template <class Statistics>
  norm_shape whole_sets(char const* name, std::size_t map, named_shape x,
                        Statistics const& statistics) const {
    std::size_t const channels = x.columns / map;
    shapes_.expect(name, x, context.batch, channels * map, {"whole channels", 1, map});
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * channels);
    return whole_sets(map, channels);
  }
  /// Returns a shape in which each normalization set is a channel of all samples of this rank.
  template <class Statistics>
  norm_shape one_set(char const* name, std::size_t map, named_shape x, named_shape row,
                     Statistics const& statistics) const {
    check_channels(name, row, x, map);
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * row.columns);
    return {x.rows, x.rows, row.columns, map, std::max<std::size_t>(x.rows, 1), 1};
  }
  template <class Statistics>
  norm_shape sets_of(char const* name, norm_shape of, named_shape x, named_shape row,
                     Statistics const& statistics) const {
    check_channels(name, row, x, of.map);
    of.channels = row.columns;
    of.samples = of.present = x.rows;
    if (of.samples_together != 1) {
      shapes_.expect(name, x, context.batch, x.columns, {"the batch", context.batch, x.columns});
      of.present = context.present();
    }
    if (of.samples_together == all_together) of = whole_sets(of);
    shapes_.whole_sets(name, x, of.samples_together, row, of.channels_together);
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * of.sets());
    return of;
  }
};

}  // namespace plait::execution
