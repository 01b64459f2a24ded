// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "plait/backend/window_shape.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/run/attention_operations.hpp"
#include "plait/run/convolution.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The convolutions, pooling and normalisations of a layer's body whose rows are images. On ranks
/// that have blocks of the columns each has whole channels. \see operations
template <class Rank>
class image_operations : public attention_operations<Rank> {
  using base = attention_operations<Rank>;
  template <class T, placement At>
  using view_of = view<T, At, typename Rank::device_type::memory>;

 public:
  using base::base;
  using base::context;

  /// y = w * x for each row: `in` are the windows of the whole input, whose channels are in
  /// `groups` that are convolved by themselves.
  ///
  /// Shapes: x (rows, channels in.map()); w (outputs, channels / groups in.window());
  ///         y (rows, outputs in.out_map()); room: patch_block_of(in, outputs).room() elements of
  ///         the whole layer, or none if that is 0.
  template <class X, class W, class T, placement At, placement Weight, placement Out,
            placement Room>
  void convolve(window_shape const& in, std::size_t groups, view_of<X, At> x, view_of<W, Weight> w,
                view_of<T, Out> y, view_of<T, Room> room) {
    static_assert(typing::sound_convolution<At, Weight, Out>);
    auto const made = convolution_of("convolve", in, groups, x, w, y, room);
    made.forward(x.rows, x.data, w.data, y.data, room.data);
  }
  template <class Dy, class W, class T, placement Gradient, placement Weight, placement At,
            placement Room>
  void convolve_backward_input(window_shape const& in, std::size_t groups, view_of<Dy, Gradient> dy,
                               view_of<W, Weight> w, view_of<T, At> dx, view_of<T, Room> room) {
    static_assert(typing::sound_convolution_input<Gradient, Weight, At>);
    auto const made = convolution_of("convolve_backward_input", in, groups, dx, w, dy, room);
    made.backward_input(dx.rows, dy.data, w.data, dx.data, room.data);
  }
  template <class Dy, class X, class Sum, class T, placement Gradient, placement At, placement Sums,
            placement Room>
  void convolve_backward_weight(window_shape const& in, std::size_t groups,
                                view_of<Dy, Gradient> dy, view_of<X, At> x, view_of<Sum, Sums> dw,
                                view_of<T, Room> room) {
    static_assert(typing::sound_convolution_weight<Gradient, At, Sums>);
    auto const made = convolution_of("convolve_backward_weight", in, groups, x, dw, dy, room);
    made.backward_weight(x.rows, dy.data, x.data, dw.data, room.data);
  }
  /// y += the element of `bias` that belongs to the channel.
  ///
  /// Shapes: bias (1, channels); y (rows, channels map).
  template <class B, class T, placement Shared, placement At>
  void add_to_maps(view_of<B, Shared> bias, view_of<T, At> y, std::size_t map) {
    static_assert(typing::sound_add_row<At, Shared>);
    check_channels("add_to_maps", named("bias", bias), named("y", y), map);
    queue_.add_to_maps(bias.data, y.data, y.rows, bias.columns, map);
  }
  /// sums += the sum of dy over rows and maps: the gradient of add_to_maps by its bias.
  template <class Dy, class Sum, placement At, placement Sums>
  void accumulate_map_sums(view_of<Dy, At> dy, view_of<Sum, Sums> sums, std::size_t map) {
    static_assert(typing::sound_column_sums<At, Sums>);
    check_channels("accumulate_map_sums", named("sums", sums), named("dy", dy), map);
    queue_.accumulate_map_sums(dy.data, sums.data, dy.rows, sums.columns, map);
  }

  /// y = the largest of each window of `in`, of which x may have a block of the channels; the
  /// padding does not count, and a window with one that is not a number is none either. It is at
  /// most half a window.
  ///
  /// Shapes: x (rows, channels in.map()); y (rows, channels in.out_map()).
  template <class X, class T, placement At>
  void max_pool(window_shape const& in, view_of<X, At> x, view_of<T, At> y) {
    static_assert(typing::sound_pool<At, false>);
    queue_.max_pool(windows("max_pool", in, named("x", x), named("y", y)), x.rows, x.data, y.data);
  }
  /// Of equal elements of a window the first has the gradient.
  template <class Dy, class X, class T, placement Gradient, placement At>
  void max_pool_backward(window_shape const& in, view_of<Dy, Gradient> dy, view_of<X, At> x,
                         view_of<T, Gradient> dx) {
    static_assert(typing::sound_pool<At, false>);
    static_assert(typing::sound_gradient<At, Gradient>);
    constexpr auto name = "max_pool_backward";
    shapes_.equal(name, named("dx", dx), named("x", x));
    queue_.max_pool_backward(windows(name, in, named("x", x), named("dy", dy)), x.rows, dy.data,
                             x.data, dx.data);
  }
  /// y = the mean of each window of `in`, in which padding counts as zeros.
  template <class X, class T, placement At>
  void average_pool(window_shape const& in, view_of<X, At> x, view_of<T, At> y) {
    static_assert(typing::sound_pool<At, true>);
    queue_.average_pool(windows("average_pool", in, named("x", x), named("y", y)), x.rows, x.data,
                        y.data);
  }
  template <class Dy, class T, placement At>
  void average_pool_backward(window_shape const& in, view_of<Dy, At> dy, view_of<T, At> dx) {
    static_assert(typing::sound_pool<At, true>);
    queue_.average_pool_backward(
        windows("average_pool_backward", in, named("dx", dx), named("dy", dy)), dx.rows, dy.data,
        dx.data);
  }

  /// y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with the mean and the variance of the
  /// set of each element; `statistics` keeps the mean and the inverse deviation of each set.
  ///
  /// Shapes: x, y (rows, channels map); gamma, beta (1, channels); statistics: at least 2 elements
  ///         for each set.
  template <class X, class G, class B, class T, class Kept, placement At, placement Shared,
            placement Sets>
  void normalize_sets(norm_shape const& of, view_of<X, At> x, view_of<G, Shared> gamma,
                      view_of<B, Shared> beta, view_of<T, At> y, view_of<Kept, Sets> statistics,
                      double epsilon) {
    static_assert(typing::sound_set_norm<At, Shared>);
    static_assert(At == Sets);
    constexpr auto name = "normalize_sets";
    auto const sets = sets_of(name, of, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("beta", beta), named("gamma", gamma));
    shapes_.equal(name, named("y", y), named("x", x));
    queue_.set_statistics(sets, x.data, statistics.data, epsilon);
    queue_.normalize_sets(sets, x.data, statistics.data, gamma.data, beta.data, y.data);
  }
  /// dx may be dy.
  template <class Dy, class X, class Kept, class G, class T, placement Gradient, placement At,
            placement Sets, placement Shared>
  void normalize_sets_backward_input(norm_shape const& of, view_of<Dy, Gradient> dy,
                                     view_of<X, At> x, view_of<Kept, Sets> statistics,
                                     view_of<G, Shared> gamma, view_of<T, Gradient> dx) {
    static_assert(typing::sound_set_norm<At, Shared>);
    static_assert(typing::sound_gradient<At, Gradient>);
    constexpr auto name = "normalize_sets_backward_input";
    auto const sets = sets_of(name, of, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("dy", dy), named("x", x));
    shapes_.equal(name, named("dx", dx), named("x", x));
    queue_.normalize_sets_backward(sets, dy.data, x.data, statistics.data, gamma.data, dx.data);
  }
  template <class Dy, class X, class Kept, class Sum, placement Gradient, placement At,
            placement Sets, placement Sums>
  void normalize_sets_backward_parameters(norm_shape const& of, view_of<Dy, Gradient> dy,
                                          view_of<X, At> x, view_of<Kept, Sets> statistics,
                                          view_of<Sum, Sums> dgamma, view_of<Sum, Sums> dbeta) {
    static_assert(typing::sound_column_sums<Gradient, Sums>);
    constexpr auto name = "normalize_sets_backward_parameters";
    auto const sets = sets_of(name, of, named("x", x), named("dgamma", dgamma), statistics);
    shapes_.equal(name, named("dy", dy), named("x", x));
    shapes_.equal(name, named("dbeta", dbeta), named("dgamma", dgamma));
    queue_.normalize_sets_parameters(sets, dy.data, x.data, statistics.data, dgamma.data,
                                     dbeta.data);
  }

  /// Adds what a step finds to the sums of two buffers: the means of the sets, which are of one
  /// channel, and their unbiased variances, weighted by their shares of the global batch's samples.
  ///
  /// Errors: size_mismatch for a set of one element, which has no variance.
  template <class Kept, class Sum, placement Sets, placement Sums>
  void accumulate_statistics(norm_shape of, view_of<Kept, Sets> statistics,
                             view_of<Sum, Sums> means, view_of<Sum, Sums> variances,
                             double epsilon) {
    static_assert(Sets == Sums);
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
      std::size_t const last = of.present % of.samples_together;  // of the last group, if short
      if (of.map == 1 && (last == 1 || of.samples_together == 1))
        shapes_.one_of_a_set(name, named("means", means), of.samples_together, of.present);
    }
    queue_.accumulate_statistics(of, statistics.data, means.data, variances.data,
                                 context.sample_share(), epsilon);
  }

  /// The statistics of each channel over all samples of the microbatch, those of other ranks, too:
  /// what this rank knows of its own, in `statistics`, and the sums of its elements, in the view of
  /// `room` that it returns, which ops.sum_over_samples is to add up.
  ///
  /// Shapes: x (rows, channels map); statistics: at least 2 elements for each channel; room: at
  ///         least one
  template <class X, class Kept, placement At, placement Sets>
  auto sums_of_samples(std::size_t map, view_of<X, At> x, view_of<Kept, Sets> statistics,
                       view_of<Kept, Sets> room) {
    static_assert(At == Sets && !is_partial(At));
    constexpr auto name = "sums_of_samples";
    auto const of = whole_sets(name, map, named("x", x), statistics);
    shapes_.room(name, named("room", room), room.count(), of.channels);
    queue_.set_statistics(of, x.data, statistics.data, 0.0);
    queue_.sums_of_sets(of, statistics.data, room.data);
    return view_of<Kept, Sets>{room.data, 1, of.channels};
  }
  /// Behind that: the squares of this rank's elements around the mean of all samples, of which
  /// `sums` are the sums; to be added up, too.
  template <class Kept, placement Sets>
  auto squares_of_samples(std::size_t map, view_of<Kept, Sets> statistics, view_of<Kept, Sets> sums,
                          view_of<Kept, Sets> room) {
    constexpr auto name = "squares_of_samples";
    auto const of = whole_sets(map, sums.columns);
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * of.channels);
    shapes_.room(name, named("room", room), room.count(), of.channels);
    queue_.squares_of_sets(of, statistics.data, sums.data, room.data);
    return view_of<Kept, Sets>{room.data, 1, of.channels};
  }
  /// Behind both: the mean and the inverse deviation of each channel, in `statistics`.
  template <class Kept, placement Sets>
  void statistics_of_samples(std::size_t map, view_of<Kept, Sets> sums, view_of<Kept, Sets> squares,
                             view_of<Kept, Sets> statistics, double epsilon) {
    constexpr auto name = "statistics_of_samples";
    auto const of = whole_sets(map, sums.columns);
    shapes_.equal(name, named("squares", squares), named("sums", sums));
    shapes_.room(name, named("statistics", statistics), statistics.count(), 2 * of.channels);
    queue_.whole_statistics(of, sums.data, squares.data, statistics.data, epsilon);
  }
  /// y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with the statistics of each channel.
  template <class X, class G, class T, class Kept, placement At, placement Shared, placement Sets>
  void normalize_channels(std::size_t map, view_of<X, At> x, view_of<Kept, Sets> statistics,
                          view_of<G, Shared> gamma, view_of<G, Shared> beta, view_of<T, At> y) {
    static_assert(typing::sound_set_norm<At, Shared>);
    constexpr auto name = "normalize_channels";
    auto const sets = one_set(name, map, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("beta", beta), named("gamma", gamma));
    shapes_.equal(name, named("y", y), named("x", x));
    queue_.normalize_sets(sets, x.data, statistics.data, gamma.data, beta.data, y.data);
  }
  /// This rank's summands of the gradients by gamma and beta, side by side in the view of `room`
  /// that it returns: what the gradient by x needs of all samples.
  ///
  /// Shapes: as sums_of_samples; room: at least 2 elements for each channel
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
    queue_.normalize_sets_parameters(of, dy.data, x.data, statistics.data, room.data,
                                     room.data + of.channels);
    return view_of<S, Sets>{room.data, 1, 2 * of.channels};
  }
  /// Behind that, once they are added up: dx, which may be dy.
  template <class Dy, class X, class Kept, class S, class G, class T, placement Gradient,
            placement At, placement Sets, placement Shared>
  void normalize_samples_backward_input(std::size_t map, view_of<Dy, Gradient> dy, view_of<X, At> x,
                                        view_of<Kept, Sets> statistics, view_of<S, Sets> sums,
                                        view_of<G, Shared> gamma, view_of<T, Gradient> dx) {
    static_assert(typing::sound_set_norm<At, Shared>);
    static_assert(typing::sound_gradient<At, Gradient>);
    constexpr auto name = "normalize_samples_backward_input";
    auto const of = whole_sets(name, map, named("x", x), statistics);
    check_channels(name, named("gamma", gamma), named("x", x), map);
    shapes_.equal(name, named("dy", dy), named("x", x));
    shapes_.equal(name, named("dx", dx), named("x", x));
    queue_.normalize_whole_backward(of, dy.data, x.data, statistics.data, sums.data,
                                    sums.data + of.channels, gamma.data, dx.data);
  }

  /// y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with a mean and a variance for each
  /// channel that are no functions of x; `statistics` keeps what the gradient needs.
  template <class X, class M, class G, class T, class Kept, placement At, placement Shared,
            placement Sets>
  void normalize_by(std::size_t map, view_of<X, At> x, view_of<M, Shared> mean,
                    view_of<M, Shared> variance, view_of<G, Shared> gamma, view_of<G, Shared> beta,
                    view_of<T, At> y, view_of<Kept, Sets> statistics, double epsilon) {
    static_assert(typing::sound_set_norm<At, Shared>);
    constexpr auto name = "normalize_by";
    auto const sets = one_set(name, map, named("x", x), named("gamma", gamma), statistics);
    shapes_.equal(name, named("mean", mean), named("gamma", gamma));
    shapes_.equal(name, named("variance", variance), named("gamma", gamma));
    shapes_.equal(name, named("beta", beta), named("gamma", gamma));
    shapes_.equal(name, named("y", y), named("x", x));
    queue_.given_statistics(mean.data, variance.data, statistics.data, sets.channels, epsilon);
    queue_.normalize_sets(sets, x.data, statistics.data, gamma.data, beta.data, y.data);
  }
  /// dx may be dy.
  template <class Dy, class Kept, class G, class T, placement Gradient, placement Sets,
            placement Shared>
  void normalize_by_backward_input(std::size_t map, view_of<Dy, Gradient> dy,
                                   view_of<Kept, Sets> statistics, view_of<G, Shared> gamma,
                                   view_of<T, Gradient> dx) {
    static_assert(typing::sound_set_norm<Gradient, Shared>);
    constexpr auto name = "normalize_by_backward_input";
    auto const sets = one_set(name, map, named("dy", dy), named("gamma", gamma), statistics);
    shapes_.equal(name, named("dx", dx), named("dy", dy));
    queue_.scale_sets(sets, dy.data, statistics.data, gamma.data, dx.data);
  }

 protected:
  using base::named, base::queue_, base::rank, base::shapes_;

 private:
  /// This rank's part of a convolution, whose operands fit it.
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

  /// A channel of all samples of the microbatch, on all ranks.
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
  /// All samples as one set for each channel.
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
