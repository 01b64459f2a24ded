// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/device/cuda_launcher.hpp"
#include "plait/backend/cuda/device/cuda_state.hpp"
#include "plait/backend/cuda/kernels/set_norm.hpp"
#include "plait/backend/cuda/kernels/windows.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::ext {

/// The operations of a cuda_queue on images: windows, pooling and normalisation.
class cuda_image_queue {
 protected:
  template <class T>
  using of_rows = accumulate_t<T>;  // what belongs to a row: statistics, maxima, terms

 public:
  /// For kernels of the program's own, see cuda_queue::run().
  [[nodiscard]] cudaStream_t stream() const { return state_->on(on_); }
  [[nodiscard]] cuda_launcher launcher() const { return {state_->place, stream()}; }

  template <class T>
  void gather_patches(window_shape const& of, std::size_t samples, std::size_t first_row,
                      std::size_t rows, T const* x, T* patches) const {
    cuda_kernels::gather_patches(launcher(), of, samples, first_row, rows, x, patches);
  }
  template <class T>
  void add_patches(window_shape const& of, std::size_t samples, std::size_t first_row,
                   std::size_t rows, T const* patches, T* x) const {
    cuda_kernels::add_patches(launcher(), of, samples, first_row, rows, patches, x);
  }
  template <class T>
  void exchange_blocks(T const* from, T* to, std::size_t outer, std::size_t inner,
                       std::size_t block) const {
    cuda_kernels::exchange_blocks(launcher(), from, to, outer, inner, block);
  }
  template <class T>
  void add_to_maps(T const* bias, T* y, std::size_t samples, std::size_t channels,
                   std::size_t map) const {
    cuda_kernels::add_to_maps(launcher(), bias, y, samples, channels, map);
  }
  template <class T, class S>
  void accumulate_map_sums(T const* dy, S* sums, std::size_t samples, std::size_t channels,
                           std::size_t map) const {
    cuda_kernels::accumulate_map_sums(launcher(), dy, sums, samples, channels, map);
  }
  template <class T>
  void max_pool(window_shape const& of, std::size_t samples, T const* x, T* y) const {
    cuda_kernels::max_pool(launcher(), of, samples, x, y);
  }
  template <class T>
  void max_pool_backward(window_shape const& of, std::size_t samples, T const* dy, T const* x,
                         T* dx) const {
    cuda_kernels::max_pool_backward(launcher(), of, samples, dy, x, dx);
  }
  template <class T>
  void average_pool(window_shape const& of, std::size_t samples, T const* x, T* y) const {
    cuda_kernels::average_pool(launcher(), of, samples, x, y);
  }
  template <class T>
  void average_pool_backward(window_shape const& of, std::size_t samples, T const* dy,
                             T* dx) const {
    cuda_kernels::average_pool_backward(launcher(), of, samples, dy, dx);
  }
  template <class T>
  void set_statistics(norm_shape const& of, T const* x, of_rows<T>* statistics,
                      double epsilon) const {
    cuda_kernels::set_statistics(launcher(), of, x, statistics, epsilon);
  }
  template <class Kept, class S>
  void accumulate_statistics(norm_shape const& of, Kept const* statistics, S* means, S* variances,
                             double share, double epsilon) const {
    cuda_kernels::accumulate_statistics(launcher(), of, statistics, means, variances, share,
                                        epsilon);
  }
  template <class Kept>
  void sums_of_sets(norm_shape const& of, Kept const* statistics, Kept* sums) const {
    cuda_kernels::sums_of_sets(launcher(), of, statistics, sums);
  }
  template <class Kept>
  void squares_of_sets(norm_shape const& of, Kept const* statistics, Kept const* sums,
                       Kept* squares) const {
    cuda_kernels::squares_of_sets(launcher(), of, statistics, sums, squares);
  }
  template <class Kept>
  void whole_statistics(norm_shape const& of, Kept const* sums, Kept const* squares,
                        Kept* statistics, double epsilon) const {
    cuda_kernels::whole_statistics(launcher(), of, sums, squares, statistics, epsilon);
  }
  template <class T>
  void normalize_whole_backward(norm_shape const& of, T const* dy, T const* x,
                                of_rows<T> const* statistics, of_rows<T> const* dgamma,
                                of_rows<T> const* dbeta, T const* gamma, T* dx) const {
    cuda_kernels::normalize_whole_backward(launcher(), of, dy, x, statistics, dgamma, dbeta, gamma,
                                           dx);
  }
  template <class T>
  void given_statistics(T const* mean, T const* variance, of_rows<T>* statistics,
                        std::size_t channels, double epsilon) const {
    cuda_kernels::given_statistics(launcher(), mean, variance, statistics, channels, epsilon);
  }
  template <class T>
  void normalize_sets(norm_shape const& of, T const* x, of_rows<T> const* statistics,
                      T const* gamma, T const* beta, T* y) const {
    cuda_kernels::normalize_sets(launcher(), of, x, statistics, gamma, beta, y);
  }
  template <class T>
  void normalize_sets_backward(norm_shape const& of, T const* dy, T const* x,
                               of_rows<T> const* statistics, T const* gamma, T* dx) const {
    cuda_kernels::normalize_sets_backward(launcher(), of, dy, x, statistics, gamma, dx);
  }
  template <class T>
  void scale_sets(norm_shape const& of, T const* dy, of_rows<T> const* statistics, T const* gamma,
                  T* dx) const {
    cuda_kernels::scale_sets(launcher(), of, dy, statistics, gamma, dx);
  }
  template <class T, class S>
  void normalize_sets_parameters(norm_shape const& of, T const* dy, T const* x,
                                 of_rows<T> const* statistics, S* dgamma, S* dbeta) const {
    cuda_kernels::normalize_sets_parameters(launcher(), of, dy, x, statistics, dgamma, dbeta);
  }

 protected:
  cuda_image_queue(detail::cuda_state& state, plait::ext::stream on) : state_(&state), on_(on) {}

  detail::cuda_state* state_;
  plait::ext::stream on_;
};

}  // namespace plait::ext
