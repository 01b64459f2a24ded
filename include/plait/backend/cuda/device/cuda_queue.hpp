// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/cuda_launcher.hpp"
#include "plait/backend/cuda/device/cuda_state.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/kernels/attention.hpp"
#include "plait/backend/cuda/kernels/attention_backward.hpp"
#include "plait/backend/cuda/kernels/convert.hpp"
#include "plait/backend/cuda/kernels/cross_entropy.hpp"
#include "plait/backend/cuda/kernels/dropout.hpp"
#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/cuda/kernels/embedding.hpp"
#include "plait/backend/cuda/kernels/image_norm.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/layer_norm.hpp"
#include "plait/backend/cuda/kernels/optimizer.hpp"
#include "plait/backend/cuda/kernels/rms_norm.hpp"
#include "plait/backend/cuda/kernels/rounded.hpp"
#include "plait/backend/cuda/kernels/rounded_adamw.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"
#include "plait/backend/cuda/kernels/windows.hpp"
#include "plait/backend/cuda/products/cuda_products.hpp"
#include "plait/backend/element_place.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/host/maths/dropout.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/in_passes.hpp"
#include "plait/backend/kernel_call.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/backend/queue_calls.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"

namespace plait::ext {

/// One stream of a CUDA device. Each call puts an operation at the end of the stream and returns at
/// once; the operands are in the device's memory.
///
/// Its functions run() implement the operations of operation/rows.hpp, except l2_normalise, with
/// the meaning that they have in host_queue. Elements may be float, double or bfloat16. With
/// bfloat16, values of which a row has one, such as statistics, maxima and logarithms of sums, are
/// float; sums of gradients may be float, too.
///
/// Cost:   no allocation once every shape has been used.
/// Errors: cuda_error for errors that are known when the operation is put into the stream;
///         synchronize() of the device throws the others.
/// Threads: the rank's thread.
class cuda_queue : public cuda_products<cuda_queue>, public queue_calls<cuda_queue> {
  template <class T>
  using in = matrix<T const>;  // an operand that is only read
  template <class T>
  using kept = accumulate_t<T>;  // values of which each row has one or a few, such as its maximum

 public:
  cuda_queue(detail::cuda_state& state, plait::ext::stream on)
      : cuda_products<cuda_queue>(state, on) {}

  using cuda_products<cuda_queue>::run;

  void discard(void*, std::size_t) const {}

  // ---- Memory -----------------------------------------------------------------------------------

  void run(operation::copy_bytes, in<std::byte> from, matrix<std::byte> to) const {
    device_scope const scope(state_->place);
    detail::check(
        cudaMemcpyAsync(to.data, from.data, from.columns, cudaMemcpyDeviceToDevice, stream()),
        "cudaMemcpyAsync", state_->place);
  }
  template <class T>
  void run(operation::fill, matrix<T> y, T value) const {
    cuda_kernels::fill(launcher(), value, y.data, y.count());
  }
  template <class T>
  void run(operation::add, in<T> a, in<T> b, matrix<T> sum) const {
    cuda_kernels::add(launcher(), a.data, b.data, sum.data, sum.count());
  }
  template <class T>
  void run(operation::add_and_clear, matrix<T> sum, matrix<T> x) const {
    cuda_kernels::add_and_clear(launcher(), sum.data, x.data, x.count());
  }
  template <class T>
  void run(operation::swap, matrix<T> a, matrix<T> b) const {
    cuda_kernels::swap(launcher(), a.data, b.data, a.count());
  }
  template <class From, class To>
  void run(operation::convert, in<From> from, matrix<To> to) const {
    cuda_kernels::convert(launcher(), from.data, to.data, to.count());
  }
  template <class T, class Of>
  void run(operation::round_blocks, in<T> from, matrix<rounded_block<Of>> to) const {
    cuda_kernels::round_blocks(launcher(), from.data, to.data, to.count());
  }
  template <class T, class Of>
  void run(operation::widen_blocks, in<rounded_block<Of>> from, matrix<T> to) const {
    cuda_kernels::widen_blocks(launcher(), from.data, to.data, from.count());
  }
  template <class T, class Of>
  void run(operation::add_blocks, in<rounded_block<Of>> from, matrix<T> sum) const {
    cuda_kernels::add_blocks(launcher(), from.data, sum.data, from.count());
  }
  template <class T>
  void run(operation::copy_blocks, in<T> from, matrix<T> to) const {
    cuda_kernels::copy_blocks(launcher(), from.data, from.stride, to.data, to.stride, to.rows,
                              to.columns);
  }

  template <class T>
  void run(operation::add_row, in<T> row, matrix<T> y) const {
    cuda_kernels::add_row(launcher(), row.data, y.data, y.rows, y.columns);
  }
  template <class T, class S>
  void run(operation::accumulate_column_sums, in<T> dy, matrix<S> sums) const {
    cuda_kernels::accumulate_column_sums(launcher(), dy.data, sums.data, scratch_of_sums<S>(dy, 1),
                                         dy.rows, dy.columns);
  }

  // ---- Functions of users -----------------------------------------------------------------------

  /// Applies `f` to each element. `f` is a named type with a PLAIT_HOST_DEVICE call operator, which
  /// gets values of accumulate_t<T>.
  template <class Function, class T, class... Operands>
  void run(operation::map, Function f, matrix<T> y, matrix<Operands>... x) const {
    cuda_kernels::map(launcher(), f, y.count(), static_cast<T const*>(x.data)..., y.data);
  }
  template <class Function, class T, class... Views>
  void run(operation::map_at, Function f, element_block const& of, matrix<T> y,
           element_operand<Views>... views) const {
    cuda_kernels::map_at(launcher(), f, of, y.data, views...);
  }
  template <class Function, class... Rows>
  void run(operation::rows, Function f, std::size_t count, std::size_t columns,
           matrix<Rows>... operands) const {
    cuda_kernels::rows(launcher(), f, count, columns,
                       cuda_kernels::row_operand<Rows>{operands.data, operands.stride}...);
  }
  template <class Function, class A, class B, class S>
  void run(operation::accumulate_columns, in<A> a, in<B> b, matrix<S> sums, Function f) const {
    cuda_kernels::accumulate_columns(launcher(), f, a.rows, a.columns, sums.data,
                                     scratch_of_sums<S>(a, 1), a.data, b.data);
  }
  /// Calls kernel(*this, views...), a function of a user's layer, which may launch its own kernels
  /// on stream().
  ///
  /// Errors: cuda_error with the reason, if a step is being recorded as a graph and the kernel does
  ///         something that a graph cannot contain.
  template <class Kernel, class... Views>
    requires(!operation::is_row<Kernel>)
  void run(Kernel kernel, Views... views) const {
    device_scope const scope(state_->place);
    try {
      call_kernel(kernel, *this, views...);
    } catch (std::exception const&) {
      // The recording is checked first, because a library may report an invalid recording as
      // another error.
      state_->require_capture_goes_on(on_);
      throw;
    }
    state_->require_capture_goes_on(on_);
    detail::check(cudaGetLastError(), "a launch in ops.run", state_->place);
  }
  /// Waits until all work of the stream has ended. It is for a kernel passed to run() that needs a
  /// value on the host.
  ///
  /// Errors: cuda_error if a step is being recorded as a graph; the errors of the device's
  ///         synchronize().
  void wait() const {
    state_->require_no_value();
    state_->wait_for_stream(on_);
  }

  // ---- Norms of rows ----------------------------------------------------------------------------

  template <class T>
  void run(operation::layer_norm, in<T> x, in<T> gamma, in<T> beta, matrix<T> y,
           matrix<kept<T>> statistics, double epsilon) const {
    cuda_kernels::layer_norm(launcher(), x.data, gamma.data, beta.data, y.data, statistics.data,
                             x.rows, x.columns, epsilon);
  }
  template <class T>
  void run(operation::layer_norm_backward_input, in<T> dy, in<T> x, in<kept<T>> statistics,
           in<T> gamma, matrix<T> dx) const {
    cuda_kernels::layer_norm_backward_input(launcher(), dy.data, x.data, statistics.data,
                                            gamma.data, dx.data, x.rows, x.columns);
  }
  template <class T, class S>
  void run(operation::layer_norm_backward_parameters, in<T> dy, in<T> x, in<kept<T>> statistics,
           matrix<S> dgamma, matrix<S> dbeta) const {
    cuda_kernels::layer_norm_backward_parameters(launcher(), dy.data, x.data, statistics.data,
                                                 dgamma.data, dbeta.data, scratch_of_sums<S>(x, 2),
                                                 x.rows, x.columns);
  }
  /// Computes the gradients of a layer norm. If cuda_options::one_pass_layer_norm is set and the
  /// shape allows it, one kernel computes them and reads dy and x only once. If `sum` is given,
  /// writes dx + added to `sum` and leaves dx unchanged.
  template <class T, class S>
  void run(operation::layer_norm_backward, in<T> dy, in<T> x, in<kept<T>> statistics, in<T> gamma,
           matrix<T> dx, matrix<S> dgamma, matrix<S> dbeta, in<T> added, matrix<T> sum) const {
    if (state_->options.one_pass_layer_norm &&
        cuda_kernels::layer_norm_backward(launcher(), dy.data, x.data, statistics.data, gamma.data,
                                          added.data, sum.data != nullptr ? sum.data : dx.data,
                                          dgamma.data, dbeta.data, scratch_of_sums<S>(x, 2), x.rows,
                                          x.columns))
      return;
    layer_norm_backward_in_passes(*this, dy, x, statistics, gamma, dx, dgamma, dbeta, added, sum);
  }
  template <class T>
  void run(operation::rms_norm, in<T> x, in<T> gamma, matrix<T> y, matrix<kept<T>> inverse,
           double epsilon) const {
    cuda_kernels::rms_norm(launcher(), x.data, gamma.data, y.data, inverse.data, x.rows, x.columns,
                           epsilon);
  }
  template <class T>
  void run(operation::rms_norm_backward_input, in<T> dy, in<T> x, in<kept<T>> inverse, in<T> gamma,
           matrix<T> dx) const {
    cuda_kernels::rms_norm_backward_input(launcher(), dy.data, x.data, inverse.data, gamma.data,
                                          dx.data, x.rows, x.columns);
  }
  template <class T, class S>
  void run(operation::rms_norm_backward_parameters, in<T> dy, in<T> x, in<kept<T>> inverse,
           matrix<S> dgamma) const {
    cuda_kernels::rms_norm_backward_parameters(launcher(), dy.data, x.data, inverse.data,
                                               dgamma.data, scratch_of_sums<S>(x, 1), x.rows,
                                               x.columns);
  }

  // ---- Tables -----------------------------------------------------------------------------------

  template <class T>
  void run(operation::gather_rows, in<std::int32_t> ids, in<T> table, matrix<T> y,
           std::size_t first) const {
    cuda_kernels::gather_rows(launcher(), ids.data, table.data, first, table.rows, y.data, y.rows,
                              y.columns);
  }
  template <class T, class S>
  void run(operation::scatter_add_rows, in<std::int32_t> ids, in<T> dy, matrix<S> sums,
           std::size_t first) const {
    auto* const sorted = scratch<std::uint32_t>(
        cuda_kernels::scatter_add_rows_workspace(launcher(), dy.rows, sums.rows));
    cuda_kernels::scatter_add_rows(launcher(), ids.data, dy.data, first, sums.rows, sums.data,
                                   sorted, dy.rows, dy.columns);
  }
  template <class T>
  void run(operation::add_positions, in<T> x, in<T> table, matrix<T> y, std::size_t batch) const {
    cuda_kernels::add_positions(launcher(), x.data, table.data, y.data, 0, table.rows, batch,
                                x.columns);
  }
  template <class T, class S>
  void run(operation::accumulate_positions, in<T> dy, matrix<S> sums, std::size_t batch) const {
    cuda_kernels::accumulate_positions(launcher(), dy.data, sums.data, 0, sums.rows, batch,
                                       dy.columns);
  }

  // ---- Attention --------------------------------------------------------------------------------

  /// Prepares attention of a shape and its scratch memory; called once, before the shape is
  /// computed.
  template <class T>
  void prepare(operation::attention_side_by_side, in<T>, equal_heads const& of) const {
    if constexpr (std::is_same_v<T, bfloat16>)
      if (auto* const engine = engine_of(of)) {
        (void)scratch<std::byte>(engine->workspace_bytes());
        return;
      }
    (void)scratch_of_products<T>(of);
  }
  /// Computes attention whose query, key and value are adjacent in memory. In bfloat16, the engine
  /// of cuda_options::attention computes forward and backward of the shapes that it accepts.
  template <class T>
  void run(operation::attention_side_by_side, in<T> qkv, matrix<T> y, matrix<kept<T>> log_sum,
           equal_heads const& of) const {
    if constexpr (std::is_same_v<T, bfloat16>)
      if (auto* const engine = engine_of(of)) {
        device_scope const scope(state_->place);
        return engine->forward(qkv.data, y.data, log_sum.data,
                               scratch<std::byte>(engine->workspace_bytes()), stream());
      }
    cuda_kernels::attention(launcher(), qkv.data, y.data, log_sum.data, of.sequence, of.batch,
                            of.heads, of.head_width);
  }
  template <class T>
  void run(operation::attention_side_by_side_backward, in<T> qkv, in<T> y, in<kept<T>> log_sum,
           in<T> dy, matrix<T> dqkv, equal_heads const& of) const {
    if constexpr (std::is_same_v<T, bfloat16>)
      if (auto* const engine = engine_of(of)) {
        device_scope const scope(state_->place);
        return engine->backward(qkv.data, y.data, log_sum.data, dy.data, dqkv.data,
                                scratch<std::byte>(engine->workspace_bytes()), stream());
      }
    cuda_kernels::attention_backward(launcher(), qkv.data, y.data, log_sum.data, dy.data, dqkv.data,
                                     scratch_of_products<T>(of), of.sequence, of.batch, of.heads,
                                     of.head_width);
  }
  /// Prepares attention with separate query, key and value, which plait's own kernels always
  /// compute.
  template <class T>
  void prepare(operation::attention, in<T>, attention_shape const& of) const {
    if constexpr (std::is_same_v<T, bfloat16>) state_->attend_by_own_kernels(of);
    (void)scratch_of_products<T>(of);
  }
  template <class T>
  void run(operation::attention, in<T> q, in<T> k, in<T> v, matrix<T> y, matrix<kept<T>> log_sum,
           attention_shape const& of) const {
    cuda_kernels::attention(launcher(), of, operands_of(q, k, v), y.data, log_sum.data);
  }
  template <class T>
  void run(operation::attention_backward, in<T> q, in<T> k, in<T> v, in<T> y, in<kept<T>> log_sum,
           in<T> dy, matrix<T> dq, matrix<T> dk, matrix<T> dv, attention_shape const& of) const {
    cuda_kernels::attention_backward(launcher(), of, operands_of(q, k, v), y.data, log_sum.data,
                                     dy.data, operands_of(dq, dk, dv), scratch_of_products<T>(of));
  }

  // ---- Losses and dropout -----------------------------------------------------------------------

  template <class T>
  void run(operation::row_max, in<T> x, matrix<kept<T>> max) const {
    cuda_kernels::row_max(launcher(), x.data, max.data, x.rows, x.stride, x.columns);
  }
  template <class T, class Target>
  void run(operation::cross_entropy_terms, in<T> logits, in<std::int32_t> labels, in<kept<T>> max,
           matrix<kept<T>> terms, Target, std::size_t first_class) const {
    cuda_kernels::cross_entropy_terms<Target>(launcher(), logits.data, labels.data, max.data,
                                              terms.data, first_class, logits.rows, logits.stride,
                                              logits.columns);
  }
  /// Computes the maximum and the terms of each row for a cross-entropy. If
  /// cuda_options::one_pass_cross_entropy is set, one kernel computes them and reads the logits
  /// only once.
  template <class T, class Target>
  void run(operation::cross_entropy_statistics, in<T> logits, in<std::int32_t> labels,
           matrix<kept<T>> max, matrix<kept<T>> terms, Target target) const {
    if (!state_->options.one_pass_cross_entropy)
      return cross_entropy_statistics_in_passes(*this, logits, labels, max, terms, target);
    cuda_kernels::cross_entropy_statistics<Target>(launcher(), logits.data, labels.data, max.data,
                                                   terms.data, logits.rows, logits.stride,
                                                   logits.columns);
  }
  template <class A, class Target>
  void run(operation::cross_entropy_sum, in<A> terms, in<std::int32_t> labels, in<double> scale,
           in<double> weights, matrix<double> loss, Target target, std::int32_t ignored) const {
    cuda_kernels::cross_entropy_sum(launcher(), terms.data, labels.data, ignored, terms.rows,
                                    scale.data, loss.data, weights.data, target);
  }
  template <class T, class Target>
  void run(operation::cross_entropy_backward, in<T> logits, in<std::int32_t> labels,
           in<kept<T>> max, in<kept<T>> terms, in<double> scale, in<double> weights,
           matrix<T> dlogits, Target target, std::int32_t ignored, std::size_t first_class) const {
    cuda_kernels::cross_entropy_backward(
        launcher(), logits.data, labels.data, max.data, terms.data, scale.data, dlogits.data,
        first_class, ignored, logits.rows, logits.stride, logits.columns, weights.data, target);
  }
  /// Returns true if a cross-entropy is computed together with its gradient.
  [[nodiscard]] bool loss_with_gradient() const { return state_->options.loss_with_gradient; }
  template <class T, class Target>
  void run(operation::cross_entropy_with_gradient, in<T> logits, in<std::int32_t> labels,
           in<double> scale, in<double> weights, matrix<kept<T>> terms, matrix<T> dlogits,
           matrix<double> loss, Target target, std::int32_t ignored) const {
    cuda_kernels::cross_entropy_with_gradient(launcher(), logits.data, labels.data, terms.data,
                                              scale.data, dlogits.data, ignored, logits.rows,
                                              logits.stride, logits.columns, weights.data, target);
    run(operation::cross_entropy_sum{}, in<kept<T>>{terms.data, terms.rows, terms.columns}, labels,
        scale, weights, loss, target, ignored);
  }
  template <class T>
  void run(operation::dropout, in<T> x, matrix<T> y, dropout_key key, double probability,
           dropout_block const& block) const {
    cuda_kernels::dropout(launcher(), x.data, y.data, x.rows, x.columns, key,
                          host_maths::dropout_threshold(probability), 1.0 / (1.0 - probability),
                          block);
  }

  // ---- Images -----------------------------------------------------------------------------------

  template <class T>
  void run(operation::gather_patches, in<T> x, matrix<T> patches, window_shape const& of,
           std::size_t first_row, std::size_t rows) const {
    cuda_kernels::gather_patches(launcher(), of, x.rows, first_row, rows, x.data, patches.data);
  }
  template <class T>
  void run(operation::add_patches, in<T> patches, matrix<T> x, window_shape const& of,
           std::size_t first_row, std::size_t rows) const {
    cuda_kernels::add_patches(launcher(), of, x.rows, first_row, rows, patches.data, x.data);
  }
  template <class T>
  void run(operation::exchange_blocks, in<T> from, matrix<T> to, std::size_t block) const {
    cuda_kernels::exchange_blocks(launcher(), from.data, to.data, from.rows, to.rows, block);
  }
  template <class T>
  void run(operation::add_to_maps, in<T> bias, matrix<T> y, std::size_t map) const {
    cuda_kernels::add_to_maps(launcher(), bias.data, y.data, y.rows, bias.columns, map);
  }
  template <class T, class S>
  void run(operation::accumulate_map_sums, in<T> dy, matrix<S> sums, std::size_t map) const {
    cuda_kernels::accumulate_map_sums(launcher(), dy.data, sums.data, dy.rows, sums.columns, map);
  }
  template <class T>
  void run(operation::max_pool, in<T> x, matrix<T> y, window_shape const& of) const {
    cuda_kernels::max_pool(launcher(), of, x.rows, x.data, y.data);
  }
  template <class T>
  void run(operation::max_pool_backward, in<T> dy, in<T> x, matrix<T> dx,
           window_shape const& of) const {
    cuda_kernels::max_pool_backward(launcher(), of, x.rows, dy.data, x.data, dx.data);
  }
  template <class T>
  void run(operation::average_pool, in<T> x, matrix<T> y, window_shape const& of) const {
    cuda_kernels::average_pool(launcher(), of, x.rows, x.data, y.data);
  }
  template <class T>
  void run(operation::average_pool_backward, in<T> dy, matrix<T> dx, window_shape const& of) const {
    cuda_kernels::average_pool_backward(launcher(), of, dx.rows, dy.data, dx.data);
  }

  // ---- Norms of images --------------------------------------------------------------------------

  template <class T>
  void run(operation::set_statistics, in<T> x, matrix<kept<T>> statistics, norm_shape const& of,
           double epsilon) const {
    cuda_kernels::set_statistics(launcher(), of, x.data, statistics.data, epsilon);
  }
  template <class Kept, class S>
  void run(operation::accumulate_statistics, in<Kept> statistics, matrix<S> means,
           matrix<S> variances, norm_shape const& of, double share, double epsilon) const {
    cuda_kernels::accumulate_statistics(launcher(), of, statistics.data, means.data, variances.data,
                                        share, epsilon);
  }
  template <class Kept>
  void run(operation::sums_of_sets, in<Kept> statistics, matrix<Kept> sums,
           norm_shape const& of) const {
    cuda_kernels::sums_of_sets(launcher(), of, statistics.data, sums.data);
  }
  template <class Kept>
  void run(operation::squares_of_sets, in<Kept> statistics, in<Kept> sums, matrix<Kept> squares,
           norm_shape const& of) const {
    cuda_kernels::squares_of_sets(launcher(), of, statistics.data, sums.data, squares.data);
  }
  template <class Kept>
  void run(operation::whole_statistics, in<Kept> sums, in<Kept> squares, matrix<Kept> statistics,
           norm_shape const& of, double epsilon) const {
    cuda_kernels::whole_statistics(launcher(), of, sums.data, squares.data, statistics.data,
                                   epsilon);
  }
  template <class T>
  void run(operation::given_statistics, in<T> mean, in<T> variance, matrix<kept<T>> statistics,
           double epsilon) const {
    cuda_kernels::given_statistics(launcher(), mean.data, variance.data, statistics.data,
                                   mean.columns, epsilon);
  }
  template <class T>
  void run(operation::normalize_sets, in<T> x, in<kept<T>> statistics, in<T> gamma, in<T> beta,
           matrix<T> y, norm_shape const& of) const {
    cuda_kernels::normalize_sets(launcher(), of, x.data, statistics.data, gamma.data, beta.data,
                                 y.data);
  }
  template <class T>
  void run(operation::normalize_sets_backward, in<T> dy, in<T> x, in<kept<T>> statistics,
           in<T> gamma, matrix<T> dx, norm_shape const& of) const {
    cuda_kernels::normalize_sets_backward(launcher(), of, dy.data, x.data, statistics.data,
                                          gamma.data, dx.data);
  }
  template <class T>
  void run(operation::normalize_whole_backward, in<T> dy, in<T> x, in<kept<T>> statistics,
           in<kept<T>> dgamma, in<kept<T>> dbeta, in<T> gamma, matrix<T> dx,
           norm_shape const& of) const {
    cuda_kernels::normalize_whole_backward(launcher(), of, dy.data, x.data, statistics.data,
                                           dgamma.data, dbeta.data, gamma.data, dx.data);
  }
  template <class T>
  void run(operation::scale_sets, in<T> dy, in<kept<T>> statistics, in<T> gamma, matrix<T> dx,
           norm_shape const& of) const {
    cuda_kernels::scale_sets(launcher(), of, dy.data, statistics.data, gamma.data, dx.data);
  }
  template <class T, class S>
  void run(operation::normalize_sets_parameters, in<T> dy, in<T> x, in<kept<T>> statistics,
           matrix<S> dgamma, matrix<S> dbeta, norm_shape const& of) const {
    cuda_kernels::normalize_sets_parameters(launcher(), of, dy.data, x.data, statistics.data,
                                            dgamma.data, dbeta.data);
  }

  // ---- Steps of an optimizer --------------------------------------------------------------------

  template <class Arena>
  void run(operation::adamw, in<adamw_numbers> now, Arena const& of,
           adamw_constants const& fixed) const {
    if constexpr (requires { of.origins; })
      cuda_kernels::rounded_adamw(launcher(), of, fixed, now.data);
    else
      cuda_kernels::adamw(launcher(), of.parameters, of.gradients, of.states,
                          of.states + of.state_stride, of.count, of.ranges, of.range_count, fixed,
                          now.data, of.gradient_scale, of.copies);
  }
  template <class Arena>
  void run(operation::sgd, in<sgd_numbers> now, Arena const& of, sgd_constants const& fixed) const {
    cuda_kernels::sgd(launcher(), of.parameters, of.gradients, of.states, of.count, of.ranges,
                      of.range_count, fixed, now.data, of.gradient_scale, of.copies);
  }
  template <class T>
  void run(operation::average, in<double> scale, in<T> x, matrix<T> average, double decay) const {
    cuda_kernels::average(launcher(), x.data, average.data, x.columns, decay, scale.data);
  }
  template <class T>
  void run(operation::sums_of_squares, T const* x, in<squares_range> ranges, double* sums) const {
    auto* const room = scratch<double>(cuda_kernels::squares_workspace(ranges.columns));
    cuda_kernels::sum_of_squares(launcher(), x, ranges.data, ranges.columns, room, sums);
  }
  void run(operation::divide, in<double> count, matrix<double> quotient, double number) const {
    cuda_kernels::divide(launcher(), number, count.data, quotient.data);
  }
  void run(operation::clip, in<double> squares, matrix<double> norm, matrix<double> factor,
           double limit) const {
    cuda_kernels::clip_factor(launcher(), squares.data, squares.columns, limit, norm.data,
                              factor.data);
  }
  void run(operation::check_finite, in<double> loss, in<double> norm, matrix<double> factor) const {
    cuda_kernels::check_finite(launcher(), loss.data, norm.data, factor.data);
  }

 private:
  [[nodiscard]] prepared_attention* engine_of(equal_heads const& of) const {
    return state_->attention(of);
  }
  template <class T>
  kept<T>* scratch_of_products(attention_shape const& of) const {
    return scratch<kept<T>>(
        cuda_kernels::attention_backward_scratch(of.sequence, of.batch, of.heads));
  }
  /// Returns scratch memory for `sums` sums over the rows of a matrix, or null if the matrix has no
  /// columns.
  template <class S, class T>
  S* scratch_of_sums(matrix<T> of, int sums) const {
    if (of.columns == 0) return nullptr;
    std::size_t const count = cuda_kernels::column_sums_workspace(of.rows, of.columns, sums);
    return count == 0 ? nullptr : scratch<S>(count);
  }
};

}  // namespace plait::ext
