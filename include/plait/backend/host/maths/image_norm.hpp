// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "plait/backend/host/maths/lanes.hpp"
#include "plait/backend/window_shape.hpp"

// Normalization of images with the mean and the variance of normalization sets, see norm_shape: a
// set is a group of channels of one sample (group norm) or a channel of several samples (batch
// norm). `statistics` has two elements for each set: its mean and 1 / sqrt(variance + epsilon).
namespace plait::host_maths {

using plait::ext::norm_shape;

namespace detail {

// Returns the sum of term(sample, channel) over the channels and samples of a set, in order and
// without padding.
template <class A, class Term>
A sum_of_set(norm_shape const& of, std::size_t set, Term term) {
  std::size_t const first_sample = set / of.sets_across() * of.samples_together;
  std::size_t const first_channel = set % of.sets_across() * of.channels_together;
  A sum = 0;
  for (std::size_t s = 0; s < of.samples_of(set); ++s)
    for (std::size_t c = 0; c < of.channels_together; ++c)
      sum += term(first_sample + s, first_channel + c);
  return sum;
}

}  // namespace detail

/// Computes the statistics of each set: its mean and 1 / sqrt(variance + epsilon), with the
/// variance as the average of (x - mean)^2. Both are 0 for a set without a sample.
///
/// Shapes: x (samples, channels, map); statistics (sets, 2)
template <class T, class A>
[[gnu::noinline]] void set_statistics(norm_shape const& of, T const* x, A* statistics,
                                      std::type_identity_t<A> epsilon) {
  for (std::size_t set = 0; set < of.sets(); ++set, statistics += 2) {
    statistics[0] = statistics[1] = 0;
    if (of.count_of(set) == 0) continue;
    auto const count = static_cast<A>(of.count_of(set));
    auto const map_of = [=, &of](std::size_t s, std::size_t c) {
      return x + s * of.image() + c * of.map;
    };
    A const mean =
        detail::sum_of_set<A>(
            of, set,
            [&](std::size_t s, std::size_t c) {
              T const* const map = map_of(s, c);
              return lane_sum<A>(of.map, [=](std::size_t i) PLAIT_INLINED -> A { return map[i]; });
            }) /
        count;
    A const squares = detail::sum_of_set<A>(of, set, [&](std::size_t s, std::size_t c) {
      T const* const map = map_of(s, c);
      auto const centred = [=](std::size_t i) PLAIT_INLINED -> A { return map[i] - mean; };
      return lane_sum_of_products<A>(of.map, centred, centred);
    });
    statistics[0] = mean;
    statistics[1] = 1 / std::sqrt(squares / count + epsilon);
  }
}

/// y = gamma * (x - mean) * inverse_deviation + beta, where mean and inverse_deviation are the
/// statistics of the element's set. y may be x.
///
/// Shapes: x, y (samples, channels, map); gamma, beta (channels); statistics (sets, 2)
template <class T, class A>
[[gnu::noinline]] void normalize_sets(norm_shape const& of, T const* x, A const* statistics,
                                      T const* gamma, T const* beta, T* y) {
  for (std::size_t s = 0; s < of.samples; ++s)
    for (std::size_t c = 0; c < of.channels; ++c, x += of.map, y += of.map) {
      A const* const set = statistics + 2 * of.set_of(s, c);
      A const mean = set[0], factor = set[1] * A(gamma[c]), shift = A(beta[c]);
      generate<A>(of.map, y, [=](std::size_t i) PLAIT_INLINED {
        return multiply_add(A(x[i]) - mean, factor, shift);
      });
    }
}

/// Computes the gradient of normalize_sets with respect to x, including the dependence of the
/// statistics on x; dx may be dy. The gradient is 0 for padding.
///
/// Shapes: dy, x, dx (samples, channels, map); gamma (channels); statistics (sets, 2)
template <class T, class A>
[[gnu::noinline]] void normalize_sets_backward(norm_shape const& of, T const* dy, T const* x,
                                               A const* statistics, T const* gamma, T* dx) {
  for (std::size_t set = 0; set < of.sets(); ++set) {
    A const mean = statistics[2 * set], inverse = statistics[2 * set + 1];
    auto const count = static_cast<A>(of.count_of(set) == 0 ? 1 : of.count_of(set));
    // With g = dy * gamma and h = (x - mean) * inverse:
    // dx = inverse * (g - average(g) - h * average(g * h))
    auto const at = [&of](std::size_t s, std::size_t c) { return s * of.image() + c * of.map; };
    A const average_g =
        detail::sum_of_set<A>(
            of, set,
            [&](std::size_t s, std::size_t c) {
              T const* const map = dy + at(s, c);
              return A(gamma[c]) *
                     lane_sum<A>(of.map, [=](std::size_t i) PLAIT_INLINED -> A { return map[i]; });
            }) /
        count;
    A const average_gh =
        detail::sum_of_set<A>(
            of, set,
            [&](std::size_t s, std::size_t c) {
              T const *const map = dy + at(s, c), *const values = x + at(s, c);
              return A(gamma[c]) *
                     lane_sum_of_products<A>(
                         of.map, [=](std::size_t i) PLAIT_INLINED -> A { return map[i]; },
                         [=](std::size_t i)
                             PLAIT_INLINED -> A { return (values[i] - mean) * inverse; });
            }) /
        count;
    std::size_t const first_sample = set / of.sets_across() * of.samples_together;
    std::size_t const first_channel = set % of.sets_across() * of.channels_together;
    for (std::size_t s = 0; s < of.samples_together; ++s)
      for (std::size_t c = 0; c < of.channels_together; ++c) {
        std::size_t const begin = at(first_sample + s, first_channel + c);
        T const *const map = dy + begin, *const values = x + begin;
        A const weight = gamma[first_channel + c];
        if (s >= of.samples_of(set)) {
          for (std::size_t i = 0; i < of.map; ++i) dx[begin + i] = T(0);
          continue;
        }
        generate<A>(of.map, dx + begin, [=](std::size_t i) PLAIT_INLINED {
          A const h = (values[i] - mean) * inverse;
          return inverse * multiply_add(-h, average_gh, A(map[i]) * weight - average_g);
        });
      }
  }
}

/// dx = dy * gamma * inverse_deviation: the gradient of normalize_sets with respect to x if the
/// statistics do not depend on x. dx may be dy.
template <class T, class A>
[[gnu::noinline]] void scale_sets(norm_shape const& of, T const* dy, A const* statistics,
                                  T const* gamma, T* dx) {
  for (std::size_t s = 0; s < of.samples; ++s)
    for (std::size_t c = 0; c < of.channels; ++c, dy += of.map, dx += of.map) {
      A const factor = statistics[2 * of.set_of(s, c) + 1] * A(gamma[c]);
      generate<A>(of.map, dx, [=](std::size_t i) PLAIT_INLINED { return A(dy[i]) * factor; });
    }
}

/// Adds the gradients of normalize_sets with respect to gamma and beta to dgamma and dbeta, in the
/// order of the samples.
///
/// Shapes: dy, x (samples, channels, map); statistics (sets, 2); dgamma, dbeta (channels)
template <class T, class A, class Sum>
[[gnu::noinline]] void normalize_sets_parameters(norm_shape const& of, T const* dy, T const* x,
                                                 A const* statistics, Sum* dgamma, Sum* dbeta) {
  for (std::size_t s = 0; s < of.present; ++s)
    for (std::size_t c = 0; c < of.channels; ++c) {
      std::size_t const begin = s * of.image() + c * of.map;
      T const *const map = dy + begin, *const values = x + begin;
      A const mean = statistics[2 * of.set_of(s, c)], inverse = statistics[2 * of.set_of(s, c) + 1];
      auto const gradient = [=](std::size_t i) PLAIT_INLINED -> A { return map[i]; };
      dgamma[c] += static_cast<Sum>(lane_sum_of_products<A>(
          of.map, gradient,
          [=](std::size_t i) PLAIT_INLINED -> A { return (values[i] - mean) * inverse; }));
      dbeta[c] += static_cast<Sum>(lane_sum<A>(of.map, gradient));
    }
}

/// Adds the statistics of all sets of a channel to the channel's `means` and `variances`. Each set
/// has the weight w = `share` * its number of samples; w * mean and w * unbiased variance (the sum
/// of squares divided by the number of elements less 1) are added.
///
/// Shapes: statistics (sets, 2); means, variances (channels); each set has one channel
template <class A, class Sum>
[[gnu::noinline]] void accumulate_statistics(norm_shape const& of, A const* statistics, Sum* means,
                                             Sum* variances, double share, double epsilon) {
  for (std::size_t set = 0; set < of.sets(); ++set, statistics += 2) {
    if (of.count_of(set) == 0) continue;
    double const weight = share * static_cast<double>(of.samples_of(set));
    auto const inverse = static_cast<double>(statistics[1]);
    double const variance = 1 / (inverse * inverse) - epsilon;
    std::size_t const c = set % of.sets_across();
    means[c] += static_cast<Sum>(weight * static_cast<double>(statistics[0]));
    auto const whole = static_cast<double>(of.whole_count_of(set));
    variances[c] +=
        static_cast<Sum>(weight * (variance < 0 ? 0 : variance) * (whole / (whole - 1)));
  }
}

// The functions below are for sets that each consist of one channel of all samples of all ranks
// (synchronized batch norm). `statistics` are first computed from the local samples. Five steps
// then replace them by the statistics over all ranks: sums_of_sets, a sum over ranks,
// squares_of_sets, another sum over ranks, and whole_statistics.

/// Writes to `sums` the sum of each set's elements on this rank: the mean of these elements times
/// their number.
///
/// Shapes: statistics (channels, 2), computed with epsilon 0; sums (channels)
template <class A>
void sums_of_sets(norm_shape const& of, A const* statistics, A* sums) {
  for (std::size_t c = 0; c < of.channels; ++c)
    sums[c] = static_cast<A>(of.count_of(c)) * statistics[2 * c];
}

/// Computes for each set the sum of (x - mean)^2 over its elements on this rank, where mean is the
/// set's mean over all ranks, and writes it to `squares`. `sums` has the sums over all ranks.
///
/// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", Amer. Statist. 37
///         (1983): the sums of squares around the local and the global mean differ by the count
///         times the squared distance of the means.
/// Shapes: as for sums_of_sets; squares (channels)
template <class A>
void squares_of_sets(norm_shape const& of, A const* statistics, A const* sums, A* squares) {
  for (std::size_t c = 0; c < of.channels; ++c) {
    A const distance = statistics[2 * c] - sums[c] / static_cast<A>(of.whole_count_of(c));
    A const inverse = statistics[2 * c + 1];
    squares[c] = of.count_of(c) == 0 ? A(0)
                                     : static_cast<A>(of.count_of(c)) *
                                           (1 / (inverse * inverse) + distance * distance);
  }
}

/// Computes the statistics over all ranks, from `sums` and `squares`, which have been summed over
/// all ranks, and writes them to `statistics`.
///
/// Shapes: as for squares_of_sets
template <class A>
void whole_statistics(norm_shape const& of, A const* sums, A const* squares, A* statistics,
                      std::type_identity_t<A> epsilon) {
  for (std::size_t c = 0; c < of.channels; ++c) {
    auto const count = static_cast<A>(of.whole_count_of(c));
    statistics[2 * c] = sums[c] / count;
    statistics[2 * c + 1] = 1 / std::sqrt(squares[c] / count + epsilon);
  }
}

/// Computes the gradient of normalize_sets with respect to x if a set has elements on other ranks,
/// too. `dgamma` and `dbeta` are the gradients of gamma and beta, summed over all ranks. dx may be
/// dy. The gradient is 0 for padding.
///
/// Shapes: dy, x, dx (samples, channels, map); gamma, dgamma, dbeta (channels); statistics
///         (channels, 2)
template <class T, class A>
[[gnu::noinline]] void normalize_whole_backward(norm_shape const& of, T const* dy, T const* x,
                                                A const* statistics, A const* dgamma,
                                                A const* dbeta, T const* gamma, T* dx) {
  auto const count = static_cast<A>(of.everywhere == 0 ? 1 : of.everywhere);
  for (std::size_t s = 0; s < of.samples; ++s)
    for (std::size_t c = 0; c < of.channels; ++c, dy += of.map, x += of.map, dx += of.map) {
      A const mean = statistics[2 * c], inverse = statistics[2 * c + 1];
      A const factor = s < of.present ? inverse * A(gamma[c]) : A(0);
      A const average = dbeta[c] / count, slope = dgamma[c] / count;
      generate<A>(of.map, dx, [=](std::size_t i) PLAIT_INLINED {
        A const h = (x[i] - mean) * inverse;
        return factor * multiply_add(-h, slope, A(dy[i]) - average);
      });
    }
}

/// Computes for each channel the statistics that normalisation uses, mean and 1 / sqrt(variance +
/// epsilon), from a given mean and variance, such as the running averages of batch norm.
///
/// Shapes: mean, variance (channels); statistics (channels, 2)
template <class T, class A>
void given_statistics(T const* mean, T const* variance, A* statistics, std::size_t channels,
                      double epsilon) {
  for (std::size_t c = 0; c < channels; ++c) {
    statistics[2 * c] = static_cast<A>(mean[c]);
    statistics[2 * c + 1] = 1 / std::sqrt(static_cast<A>(variance[c]) + static_cast<A>(epsilon));
  }
}

/// Adds the gradient of add_to_maps with respect to the bias to `sums`: for each channel the sum of
/// dy over all samples (in order) and all elements of the map.
///
/// Shapes: dy (samples, channels, map); sums (channels)
template <class T, class Sum>
[[gnu::noinline]] void accumulate_map_sums(T const* dy, Sum* sums, std::size_t samples,
                                           std::size_t channels, std::size_t map) {
  for (std::size_t s = 0; s < samples; ++s)
    for (std::size_t c = 0; c < channels; ++c, dy += map)
      sums[c] += lane_sum<Sum>(map, [=](std::size_t i) PLAIT_INLINED -> Sum { return dy[i]; });
}

}  // namespace plait::host_maths
