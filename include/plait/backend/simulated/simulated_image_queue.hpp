// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/simulated/simulated_operation.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::ext {

/// The operations on images of a `simulated_queue`.
class simulated_image_queue {
  using operation = detail::simulated_operation;

 public:
  template <class T>
  void gather_patches(window_shape const& of, std::size_t samples, std::size_t first_row,
                      std::size_t rows, T const* x, T* patches) const {
    put("gather_patches", [=](operation& now) {
      now.reads(x, samples * of.image());
      now.writes(patches, of.patch() * samples * rows * of.out_width());
      now.run([&] { host_queue{}.gather_patches(of, samples, first_row, rows, x, patches); });
    });
  }
  template <class T>
  void add_patches(window_shape const& of, std::size_t samples, std::size_t first_row,
                   std::size_t rows, T const* patches, T* x) const {
    put("add_patches", [=](operation& now) {
      now.reads(patches, of.patch() * samples * rows * of.out_width());
      now.updates(x, samples * of.image());
      now.run([&] { host_queue{}.add_patches(of, samples, first_row, rows, patches, x); });
    });
  }
  template <class T>
  void exchange_blocks(T const* from, T* to, std::size_t outer, std::size_t inner,
                       std::size_t block) const {
    put("exchange_blocks", [=](operation& now) {
      now.reads(from, outer * inner * block);
      now.writes(to, outer * inner * block);
      now.run([&] { host_queue{}.exchange_blocks(from, to, outer, inner, block); });
    });
  }
  template <class T>
  void add_to_maps(T const* bias, T* y, std::size_t samples, std::size_t channels,
                   std::size_t map) const {
    put("add_to_maps", [=](operation& now) {
      now.reads(bias, channels);
      now.updates(y, samples * channels * map);
      now.run([&] { host_queue{}.add_to_maps(bias, y, samples, channels, map); });
    });
  }
  template <class T, class Sum>
  void accumulate_map_sums(T const* dy, Sum* sums, std::size_t samples, std::size_t channels,
                           std::size_t map) const {
    put("accumulate_map_sums", [=](operation& now) {
      now.reads(dy, samples * channels * map);
      now.updates(sums, channels);
      now.run([&] { host_queue{}.accumulate_map_sums(dy, sums, samples, channels, map); });
    });
  }

  template <class T>
  void max_pool(window_shape const& of, std::size_t samples, T const* x, T* y) const {
    put("max_pool", [=](operation& now) {
      now.reads(x, samples * of.image());
      now.writes(y, samples * of.channels * of.out_map());
      now.run([&] { host_queue{}.max_pool(of, samples, x, y); });
    });
  }
  template <class T>
  void max_pool_backward(window_shape const& of, std::size_t samples, T const* dy, T const* x,
                         T* dx) const {
    put("max_pool_backward", [=](operation& now) {
      now.reads(dy, samples * of.channels * of.out_map());
      now.reads(x, samples * of.image());
      now.writes(dx, samples * of.image());
      now.run([&] { host_queue{}.max_pool_backward(of, samples, dy, x, dx); });
    });
  }
  template <class T>
  void average_pool(window_shape const& of, std::size_t samples, T const* x, T* y) const {
    put("average_pool", [=](operation& now) {
      now.reads(x, samples * of.image());
      now.writes(y, samples * of.channels * of.out_map());
      now.run([&] { host_queue{}.average_pool(of, samples, x, y); });
    });
  }
  template <class T>
  void average_pool_backward(window_shape const& of, std::size_t samples, T const* dy,
                             T* dx) const {
    put("average_pool_backward", [=](operation& now) {
      now.reads(dy, samples * of.channels * of.out_map());
      now.writes(dx, samples * of.image());
      now.run([&] { host_queue{}.average_pool_backward(of, samples, dy, dx); });
    });
  }

  template <class T, class Kept>
  void set_statistics(norm_shape const& of, T const* x, Kept* statistics, double epsilon) const {
    put("set_statistics", [=](operation& now) {
      now.reads(x, of.samples * of.image());
      now.writes(statistics, 2 * of.sets());
      now.run([&] { host_queue{}.set_statistics(of, x, statistics, epsilon); });
    });
  }
  template <class Kept, class Sum>
  void accumulate_statistics(norm_shape const& of, Kept const* statistics, Sum* means,
                             Sum* variances, double share, double epsilon) const {
    put("accumulate_statistics", [=](operation& now) {
      now.reads(statistics, 2 * of.sets());
      now.updates(means, of.channels);
      now.updates(variances, of.channels);
      now.run([&] {
        host_queue{}.accumulate_statistics(of, statistics, means, variances, share, epsilon);
      });
    });
  }
  template <class Kept>
  void sums_of_sets(norm_shape const& of, Kept const* statistics, Kept* sums) const {
    put("sums_of_sets", [=](operation& now) {
      now.reads(statistics, 2 * of.channels);
      now.writes(sums, of.channels);
      now.run([&] { host_queue{}.sums_of_sets(of, statistics, sums); });
    });
  }
  template <class Kept>
  void squares_of_sets(norm_shape const& of, Kept const* statistics, Kept const* sums,
                       Kept* squares) const {
    put("squares_of_sets", [=](operation& now) {
      now.reads(statistics, 2 * of.channels);
      now.reads(sums, of.channels);
      now.writes(squares, of.channels);
      now.run([&] { host_queue{}.squares_of_sets(of, statistics, sums, squares); });
    });
  }
  template <class Kept>
  void whole_statistics(norm_shape const& of, Kept const* sums, Kept const* squares,
                        Kept* statistics, double epsilon) const {
    put("whole_statistics", [=](operation& now) {
      now.reads(sums, of.channels);
      now.reads(squares, of.channels);
      now.writes(statistics, 2 * of.channels);
      now.run([&] { host_queue{}.whole_statistics(of, sums, squares, statistics, epsilon); });
    });
  }
  template <class T, class Kept>
  void normalize_whole_backward(norm_shape const& of, T const* dy, T const* x,
                                Kept const* statistics, Kept const* dgamma, Kept const* dbeta,
                                T const* gamma, T* dx) const {
    put("normalize_whole_backward", [=](operation& now) {
      now.reads(dy, of.samples * of.image());
      now.reads(x, of.samples * of.image());
      now.reads(statistics, 2 * of.channels);
      now.reads(dgamma, of.channels);
      now.reads(dbeta, of.channels);
      now.reads(gamma, of.channels);
      now.writes(dx, of.samples * of.image());
      now.run([&] {
        host_queue{}.normalize_whole_backward(of, dy, x, statistics, dgamma, dbeta, gamma, dx);
      });
    });
  }
  template <class T, class Kept>
  void given_statistics(T const* mean, T const* variance, Kept* statistics, std::size_t channels,
                        double epsilon) const {
    put("given_statistics", [=](operation& now) {
      now.reads(mean, channels);
      now.reads(variance, channels);
      now.writes(statistics, 2 * channels);
      now.run(
          [&] { host_queue{}.given_statistics(mean, variance, statistics, channels, epsilon); });
    });
  }
  template <class T, class Kept>
  void normalize_sets(norm_shape const& of, T const* x, Kept const* statistics, T const* gamma,
                      T const* beta, T* y) const {
    put("normalize_sets", [=](operation& now) {
      now.reads(x, of.samples * of.image());
      now.reads(statistics, 2 * of.sets());
      now.reads(gamma, of.channels);
      now.reads(beta, of.channels);
      now.writes(y, of.samples * of.image());
      now.run([&] { host_queue{}.normalize_sets(of, x, statistics, gamma, beta, y); });
    });
  }
  template <class T, class Kept>
  void normalize_sets_backward(norm_shape const& of, T const* dy, T const* x,
                               Kept const* statistics, T const* gamma, T* dx) const {
    put("normalize_sets_backward", [=](operation& now) {
      now.reads(dy, of.samples * of.image());
      now.reads(x, of.samples * of.image());
      now.reads(statistics, 2 * of.sets());
      now.reads(gamma, of.channels);
      now.writes(dx, of.samples * of.image());
      now.run([&] { host_queue{}.normalize_sets_backward(of, dy, x, statistics, gamma, dx); });
    });
  }
  template <class T, class Kept>
  void scale_sets(norm_shape const& of, T const* dy, Kept const* statistics, T const* gamma,
                  T* dx) const {
    put("scale_sets", [=](operation& now) {
      now.reads(dy, of.samples * of.image());
      now.reads(statistics, 2 * of.sets());
      now.reads(gamma, of.channels);
      now.writes(dx, of.samples * of.image());
      now.run([&] { host_queue{}.scale_sets(of, dy, statistics, gamma, dx); });
    });
  }
  template <class T, class Kept, class Sum>
  void normalize_sets_parameters(norm_shape const& of, T const* dy, T const* x,
                                 Kept const* statistics, Sum* dgamma, Sum* dbeta) const {
    put("normalize_sets_parameters", [=](operation& now) {
      now.reads(dy, of.samples * of.image());
      now.reads(x, of.samples * of.image());
      now.reads(statistics, 2 * of.sets());
      now.updates(dgamma, of.channels);
      now.updates(dbeta, of.channels);
      now.run(
          [&] { host_queue{}.normalize_sets_parameters(of, dy, x, statistics, dgamma, dbeta); });
    });
  }

 protected:
  simulated_image_queue(detail::simulated_rank& rank, stream on) : rank_(&rank), on_(on) {}

  template <class Work>
  void put(std::string_view name, Work work) const {
    rank_->enqueue(on_, name, std::move(work));
  }

  detail::simulated_rank* rank_;
  stream on_;
};

}  // namespace plait::ext
