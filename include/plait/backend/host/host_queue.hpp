// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/element_place.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/host/host_workspace.hpp"
#include "plait/backend/host/maths/attention.hpp"
#include "plait/backend/host/maths/cross_entropy.hpp"
#include "plait/backend/host/maths/dropout.hpp"
#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/embedding.hpp"
#include "plait/backend/host/maths/image_norm.hpp"
#include "plait/backend/host/maths/matmul.hpp"
#include "plait/backend/host/maths/optimizer.hpp"
#include "plait/backend/host/maths/rounded.hpp"
#include "plait/backend/host/maths/rowwise.hpp"
#include "plait/backend/host/maths/windows.hpp"
#include "plait/backend/in_passes.hpp"
#include "plait/backend/kernel_call.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/backend/queue_calls.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/rows.hpp"

namespace plait::ext {

/// The queue of a rank that computes on the processor: every operation runs at once, on the calling
/// thread.
///
/// The queue has a function run() for each operation of operation/rows.hpp, except fused operations
/// that are not faster on a processor, such as cross_entropy_with_gradient. These functions define
/// the results for all devices. The queue of another device may put the operation at the end of a
/// stream instead of running it at once.
/// Threads: one thread per device object.
class host_queue : public queue_calls<host_queue> {
  template <class T>
  using in = matrix<T const>;  // an operand that is only read

 public:
  /// Makes a queue without a device: each call allocates the scratch memory that it needs.
  host_queue() = default;
  explicit host_queue(host_workspace& workspace) : workspace_(&workspace) {}

  /// Does nothing. The call states that these bytes are not read before they are written again.
  void discard(void*, std::size_t) const {}

  // ---- Memory -----------------------------------------------------------------------------------

  void run(operation::copy_bytes, in<std::byte> from, matrix<std::byte> to) const {
    std::memcpy(to.data, from.data, from.columns);
  }
  template <class T>
  void run(operation::fill, matrix<T> y, T value) const {
    host_maths::fill(value, y.data, y.count());
  }
  template <class T>
  void run(operation::add, in<T> a, in<T> b, matrix<T> sum) const {
    host_maths::add(a.data, b.data, sum.data, sum.count());
  }
  template <class T>
  void run(operation::add_and_clear, matrix<T> sum, matrix<T> x) const {
    host_maths::add_and_clear(sum.data, x.data, x.count());
  }
  template <class T>
  void run(operation::swap, matrix<T> a, matrix<T> b) const {
    std::swap_ranges(a.data, a.data + a.count(), b.data);
  }
  template <class From, class To>
  void run(operation::convert, in<From> from, matrix<To> to) const {
    for (std::size_t i = 0; i < to.count(); ++i) to.data[i] = static_cast<To>(from.data[i]);
  }
  template <class T, class Of>
  void run(operation::round_blocks, in<T> from, matrix<rounded_block<Of>> to) const {
    host_maths::round_blocks(from.data, to.data, to.count());
  }
  template <class T, class Of>
  void run(operation::widen_blocks, in<rounded_block<Of>> from, matrix<T> to) const {
    host_maths::widen_blocks(from.data, to.data, from.count());
  }
  template <class T, class Of>
  void run(operation::add_blocks, in<rounded_block<Of>> from, matrix<T> sum) const {
    host_maths::add_blocks(from.data, sum.data, from.count());
  }
  template <class T>
  void run(operation::copy_blocks, in<T> from, matrix<T> to) const {
    for (std::size_t i = 0; i < to.rows; ++i)
      std::memcpy(to.data + i * to.stride, from.data + i * from.stride, to.columns * sizeof(T));
  }

  // ---- Products ---------------------------------------------------------------------------------

  /// c = op(a) op(b), or c += op(a) op(b) if `accumulate`, summed in accumulate_t<A>; op transposes
  /// the operands that `lie` marks as transposed.
  template <class A, class C>
  void run(operation::matmul, in<A> a, in<A> b, matrix<C> c, transposes lie,
           bool accumulate) const {
    host_maths::matmul<accumulate_t<A>>(static_cast<host_maths::transpose>(lie.a),
                                        static_cast<host_maths::transpose>(lie.b), c.rows,
                                        c.columns, lie.a ? a.rows : a.columns, 1, a.data, a.stride,
                                        b.data, b.stride, accumulate ? 1 : 0, c.data, c.stride);
  }
  template <class T, class Function>
  void run(operation::matmul, in<T> a, in<T> b, matrix<T> c, transposes lie,
           epilogue<T, Function> const& then) const {
    matmul_onto_row(*this, a, b, c, lie, then);
  }
  template <class A, class C, class S>
  void run(operation::matmul, in<A> a, in<A> b, matrix<C> c, transposes lie, bool accumulate,
           operand_sums<S> const& with) const {
    matmul_and_sums_in_passes(*this, a, b, c, lie, accumulate, with);
  }
  template <class T>
  void run(operation::add_row, in<T> row, matrix<T> y) const {
    host_maths::add_row(row.data, y.data, y.rows, y.columns);
  }
  template <class T, class Sum>
  void run(operation::accumulate_column_sums, in<T> dy, matrix<Sum> sums) const {
    host_maths::accumulate_column_sums(dy.data, sums.data, dy.rows, dy.columns);
  }

  // ---- Functions of users -----------------------------------------------------------------------

  /// y = f(x...), element by element. `f` has a named type (no lambda) with a PLAIT_HOST_DEVICE
  /// call operator for values of accumulate_t<T>. There are at most three operands x.
  template <class Function, class T, class... Operands>
  void run(operation::map, Function f, matrix<T> y, matrix<Operands>... x) const {
    host_maths::map(f, static_cast<T const*>(x.data)..., y.data, y.count());
  }
  template <class Function, class T, class... Views>
  void run(operation::map_at, Function f, element_block const& of, matrix<T> y,
           element_operand<Views>... views) const {
    host_maths::map_at(f, of, y.data, views...);
  }
  /// Calls f(columns, pointer to row r of each operand...) for each row r < count; an operand of
  /// stride 0 has the same row for each r.
  template <class Function, class... Rows>
  void run(operation::rows, Function f, std::size_t count, std::size_t columns,
           matrix<Rows>... operands) const {
    for (std::size_t r = 0; r < count; ++r) f(columns, operands.data + r * operands.stride...);
  }
  template <class Function, class A, class B, class Sum>
  void run(operation::accumulate_columns, in<A> a, in<B> b, matrix<Sum> sums, Function f) const {
    for (std::size_t r = 0; r < a.rows; ++r)
      for (std::size_t c = 0; c < a.columns; ++c)
        sums.data[c] += f(static_cast<accumulate_t<A>>(a.data[r * a.columns + c]),
                          static_cast<accumulate_t<B>>(b.data[r * a.columns + c]));
  }
  /// Calls kernel(*this, views...), a layer's own operation. The kernel reads views of const
  /// elements and writes the other views.
  template <class Kernel, class... Views>
    requires(!operation::is_row<Kernel>)
  void run(Kernel kernel, Views... views) const {
    call_kernel(kernel, *this, views...);
  }

  // ---- Norms of rows ----------------------------------------------------------------------------

  template <class T, class Kept>
  void run(operation::layer_norm, in<T> x, in<T> gamma, in<T> beta, matrix<T> y,
           matrix<Kept> statistics, double epsilon) const {
    host_maths::layer_norm_forward(x.data, gamma.data, beta.data, y.data, statistics.data, x.rows,
                                   x.columns, static_cast<Kept>(epsilon));
  }
  template <class T, class Kept>
  void run(operation::layer_norm_backward_input, in<T> dy, in<T> x, in<Kept> statistics,
           in<T> gamma, matrix<T> dx) const {
    host_maths::layer_norm_backward_input(dy.data, x.data, statistics.data, gamma.data, dx.data,
                                          x.rows, x.columns);
  }
  template <class T, class Kept, class Sum>
  void run(operation::layer_norm_backward_parameters, in<T> dy, in<T> x, in<Kept> statistics,
           matrix<Sum> dgamma, matrix<Sum> dbeta) const {
    host_maths::layer_norm_backward_parameters(dy.data, x.data, statistics.data, dgamma.data,
                                               dbeta.data, x.rows, x.columns);
  }
  /// Computes all gradients of layer_norm with separate operations; see
  /// layer_norm_backward_in_passes.
  template <class T, class Kept, class Sum>
  void run(operation::layer_norm_backward, in<T> dy, in<T> x, in<Kept> statistics, in<T> gamma,
           matrix<T> dx, matrix<Sum> dgamma, matrix<Sum> dbeta, in<T> added, matrix<T> sum) const {
    layer_norm_backward_in_passes(*this, dy, x, statistics, gamma, dx, dgamma, dbeta, added, sum);
  }
  template <class T, class Kept>
  void run(operation::rms_norm, in<T> x, in<T> gamma, matrix<T> y, matrix<Kept> inverse,
           double epsilon) const {
    host_maths::rms_norm_forward(x.data, gamma.data, y.data, inverse.data, x.rows, x.columns,
                                 static_cast<Kept>(epsilon));
  }
  template <class T, class Kept>
  void run(operation::rms_norm_backward_input, in<T> dy, in<T> x, in<Kept> inverse, in<T> gamma,
           matrix<T> dx) const {
    host_maths::rms_norm_backward_input(dy.data, x.data, inverse.data, gamma.data, dx.data, x.rows,
                                        x.columns);
  }
  template <class T, class Kept, class Sum>
  void run(operation::rms_norm_backward_parameters, in<T> dy, in<T> x, in<Kept> inverse,
           matrix<Sum> dgamma) const {
    host_maths::rms_norm_backward_parameters(dy.data, x.data, inverse.data, dgamma.data, x.rows,
                                             x.columns);
  }

  template <class T, class Kept>
  void run(operation::l2_normalise, in<T> x, matrix<T> y, matrix<Kept> inverse,
           double epsilon) const {
    host_maths::l2_normalise_forward(x.data, y.data, inverse.data, x.rows, x.columns,
                                     static_cast<Kept>(epsilon));
  }
  template <class T, class Kept>
  void run(operation::l2_normalise_backward, in<T> dy, in<T> x, in<Kept> inverse,
           matrix<T> dx) const {
    host_maths::l2_normalise_backward(dy.data, x.data, inverse.data, dx.data, x.rows, x.columns);
  }

  // ---- Tables -----------------------------------------------------------------------------------

  /// y[i] = row ids[i] of the whole table. `first`: the index in the whole table of the first row
  /// of `table`, this rank's shard.
  template <class T>
  void run(operation::gather_rows, in<std::int32_t> ids, in<T> table, matrix<T> y,
           std::size_t first) const {
    host_maths::gather_rows(ids.data, table.data, first, table.rows, y.data, y.rows, y.columns);
  }
  template <class T, class Sum>
  void run(operation::scatter_add_rows, in<std::int32_t> ids, in<T> dy, matrix<Sum> sums,
           std::size_t first) const {
    host_maths::scatter_add_rows(ids.data, dy.data, first, sums.rows, sums.data, dy.rows,
                                 dy.columns);
  }
  /// y = x + the table's row for each position: row r of the table is added to rows r * batch to (r
  /// + 1) * batch - 1 of x.
  template <class T>
  void run(operation::add_positions, in<T> x, in<T> table, matrix<T> y, std::size_t batch) const {
    host_maths::add_positions(x.data, table.data, y.data, 0, table.rows, batch, x.columns);
  }
  template <class T, class Sum>
  void run(operation::accumulate_positions, in<T> dy, matrix<Sum> sums, std::size_t batch) const {
    host_maths::accumulate_positions(dy.data, sums.data, 0, sums.rows, batch, dy.columns);
  }

  // ---- Attention --------------------------------------------------------------------------------

  /// Prepares attention of a shape: allocates the scratch memory of attention and of its gradient.
  template <class T>
  void prepare(operation::attention, in<T>, attention_shape const& shape) const {
    if (workspace_ != nullptr)
      (void)workspace_->room_for<accumulate_t<T>>(2 * attention_scratch(shape.sequence));
  }
  template <class T>
  void prepare(operation::attention_side_by_side, in<T> qkv, equal_heads const& shape) const {
    prepare(operation::attention{}, qkv, shape);
  }
  template <class T, class Kept>
  void run(operation::attention, in<T> q, in<T> k, in<T> v, matrix<T> y, matrix<Kept> log_sum,
           attention_shape const& shape) const {
    with_room<Kept>(attention_scratch(shape.sequence), [&](Kept* scratch) {
      host_maths::attention_forward(shape, operands_of(q, k, v), y.data, log_sum.data, scratch);
    });
  }
  template <class T, class Kept>
  void run(operation::attention_backward, in<T> q, in<T> k, in<T> v, in<T> y, in<Kept> log_sum,
           in<T> dy, matrix<T> dq, matrix<T> dk, matrix<T> dv, attention_shape const& shape) const {
    with_room<Kept>(2 * attention_scratch(shape.sequence), [&](Kept* scratch) {
      host_maths::attention_backward(shape, operands_of(q, k, v), y.data, log_sum.data, dy.data,
                                     operands_of(dq, dk, dv), scratch);
    });
  }
  template <class T, class Kept>
  void run(operation::attention_side_by_side, in<T> qkv, matrix<T> y, matrix<Kept> log_sum,
           equal_heads const& shape) const {
    auto const [q, k, v] = side_by_side(qkv);
    run(operation::attention{}, q, k, v, y, log_sum, shape);
  }
  template <class T, class Kept>
  void run(operation::attention_side_by_side_backward, in<T> qkv, in<T> y, in<Kept> log_sum,
           in<T> dy, matrix<T> dqkv, equal_heads const& shape) const {
    auto const [q, k, v] = side_by_side(qkv);
    auto const [dq, dk, dv] = side_by_side(dqkv);
    run(operation::attention_backward{}, q, k, v, y, log_sum, dy, dq, dk, dv, shape);
  }

  // ---- Losses and dropout -----------------------------------------------------------------------

  /// Computes the largest of the first x.columns elements of each row. The elements after them, up
  /// to x.stride elements, are padding.
  template <class T, class Kept>
  void run(operation::row_max, in<T> x, matrix<Kept> max) const {
    host_maths::row_max(x.data, max.data, x.rows, x.stride, x.columns);
  }
  template <class T, class Kept, class Target>
  void run(operation::cross_entropy_terms, in<T> logits, in<std::int32_t> labels, in<Kept> max,
           matrix<Kept> terms, Target, std::size_t first_class) const {
    host_maths::cross_entropy_terms<Target>(logits.data, labels.data, max.data, terms.data,
                                            first_class, logits.rows, logits.stride,
                                            logits.columns);
  }
  /// Computes the results of row_max and cross_entropy_terms by running these two operations; see
  /// cross_entropy_statistics_in_passes.
  template <class T, class Kept, class Target>
  void run(operation::cross_entropy_statistics, in<T> logits, in<std::int32_t> labels,
           matrix<Kept> max, matrix<Kept> terms, Target target) const {
    cross_entropy_statistics_in_passes(*this, logits, labels, max, terms, target);
  }
  /// *loss += *scale * the sum of the weighted losses of the rows. If `weights` has no data, all
  /// weights are 1.
  template <class T, class Target>
  void run(operation::cross_entropy_sum, in<T> terms, in<std::int32_t> labels, in<double> scale,
           in<double> weights, matrix<double> loss, Target target, std::int32_t ignored) const {
    *loss.data += *scale.data * host_maths::cross_entropy_sum(terms.data, labels.data, ignored,
                                                              terms.rows, weights.data, target);
  }
  template <class T, class Kept, class Target>
  void run(operation::cross_entropy_backward, in<T> logits, in<std::int32_t> labels, in<Kept> max,
           in<Kept> terms, in<double> scale, in<double> weights, matrix<T> dlogits, Target target,
           std::int32_t ignored, std::size_t first_class) const {
    host_maths::cross_entropy_backward(logits.data, labels.data, max.data, terms.data, *scale.data,
                                       dlogits.data, first_class, ignored, logits.rows,
                                       logits.stride, logits.columns, weights.data, target);
  }
  template <class T>
  void run(operation::dropout, in<T> x, matrix<T> y, dropout_key key, double probability,
           dropout_block const& block) const {
    host_maths::dropout(x.data, y.data, x.rows, x.columns,
                        random_key{key.seed, key.site, *key.step},
                        host_maths::dropout_threshold(probability),
                        static_cast<accumulate_t<T>>(1.0 / (1.0 - probability)), block);
  }

  // ---- Images -----------------------------------------------------------------------------------

  /// Copies windows of images to patches (im2col); see host_maths::gather_patches. The functions of
  /// host_maths with the names of the operations also describe the operations below.
  template <class T>
  void run(operation::gather_patches, in<T> x, matrix<T> patches, window_shape const& of,
           std::size_t first_row, std::size_t rows) const {
    host_maths::gather_patches(of, x.rows, first_row, rows, x.data, patches.data);
  }
  template <class T>
  void run(operation::add_patches, in<T> patches, matrix<T> x, window_shape const& of,
           std::size_t first_row, std::size_t rows) const {
    host_maths::add_patches(of, x.rows, first_row, rows, patches.data, x.data);
  }
  template <class T>
  void run(operation::exchange_blocks, in<T> from, matrix<T> to, std::size_t block) const {
    host_maths::exchange_blocks(from.data, to.data, from.rows, to.rows, block);
  }
  template <class T>
  void run(operation::add_to_maps, in<T> bias, matrix<T> y, std::size_t map) const {
    host_maths::add_to_maps(bias.data, y.data, y.rows, bias.columns, map);
  }
  template <class T, class Sum>
  void run(operation::accumulate_map_sums, in<T> dy, matrix<Sum> sums, std::size_t map) const {
    host_maths::accumulate_map_sums(dy.data, sums.data, dy.rows, sums.columns, map);
  }
  template <class T>
  void run(operation::max_pool, in<T> x, matrix<T> y, window_shape const& of) const {
    host_maths::max_pool(of, x.rows, x.data, y.data);
  }
  template <class T>
  void run(operation::max_pool_backward, in<T> dy, in<T> x, matrix<T> dx,
           window_shape const& of) const {
    host_maths::max_pool_backward(of, x.rows, dy.data, x.data, dx.data);
  }
  template <class T>
  void run(operation::average_pool, in<T> x, matrix<T> y, window_shape const& of) const {
    host_maths::average_pool(of, x.rows, x.data, y.data);
  }
  template <class T>
  void run(operation::average_pool_backward, in<T> dy, matrix<T> dx, window_shape const& of) const {
    host_maths::average_pool_backward(of, dx.rows, dy.data, dx.data);
  }

  // ---- Norms of images --------------------------------------------------------------------------

  /// Computes the mean and the inverse deviation of each set; see host_maths::set_statistics. The
  /// functions of host_maths with the names of the operations also describe the operations below.
  template <class T, class Kept>
  void run(operation::set_statistics, in<T> x, matrix<Kept> statistics, norm_shape const& of,
           double epsilon) const {
    host_maths::set_statistics(of, x.data, statistics.data, static_cast<Kept>(epsilon));
  }
  template <class Kept, class Sum>
  void run(operation::accumulate_statistics, in<Kept> statistics, matrix<Sum> means,
           matrix<Sum> variances, norm_shape const& of, double share, double epsilon) const {
    host_maths::accumulate_statistics(of, statistics.data, means.data, variances.data, share,
                                      epsilon);
  }
  template <class Kept>
  void run(operation::sums_of_sets, in<Kept> statistics, matrix<Kept> sums,
           norm_shape const& of) const {
    host_maths::sums_of_sets(of, statistics.data, sums.data);
  }
  template <class Kept>
  void run(operation::squares_of_sets, in<Kept> statistics, in<Kept> sums, matrix<Kept> squares,
           norm_shape const& of) const {
    host_maths::squares_of_sets(of, statistics.data, sums.data, squares.data);
  }
  template <class Kept>
  void run(operation::whole_statistics, in<Kept> sums, in<Kept> squares, matrix<Kept> statistics,
           norm_shape const& of, double epsilon) const {
    host_maths::whole_statistics(of, sums.data, squares.data, statistics.data,
                                 static_cast<Kept>(epsilon));
  }
  template <class T, class Kept>
  void run(operation::given_statistics, in<T> mean, in<T> variance, matrix<Kept> statistics,
           double epsilon) const {
    host_maths::given_statistics(mean.data, variance.data, statistics.data, mean.columns, epsilon);
  }
  template <class T, class Kept>
  void run(operation::normalize_sets, in<T> x, in<Kept> statistics, in<T> gamma, in<T> beta,
           matrix<T> y, norm_shape const& of) const {
    host_maths::normalize_sets(of, x.data, statistics.data, gamma.data, beta.data, y.data);
  }
  template <class T, class Kept>
  void run(operation::normalize_sets_backward, in<T> dy, in<T> x, in<Kept> statistics, in<T> gamma,
           matrix<T> dx, norm_shape const& of) const {
    host_maths::normalize_sets_backward(of, dy.data, x.data, statistics.data, gamma.data, dx.data);
  }
  template <class T, class Kept>
  void run(operation::normalize_whole_backward, in<T> dy, in<T> x, in<Kept> statistics,
           in<Kept> dgamma, in<Kept> dbeta, in<T> gamma, matrix<T> dx, norm_shape const& of) const {
    host_maths::normalize_whole_backward(of, dy.data, x.data, statistics.data, dgamma.data,
                                         dbeta.data, gamma.data, dx.data);
  }
  template <class T, class Kept>
  void run(operation::scale_sets, in<T> dy, in<Kept> statistics, in<T> gamma, matrix<T> dx,
           norm_shape const& of) const {
    host_maths::scale_sets(of, dy.data, statistics.data, gamma.data, dx.data);
  }
  template <class T, class Kept, class Sum>
  void run(operation::normalize_sets_parameters, in<T> dy, in<T> x, in<Kept> statistics,
           matrix<Sum> dgamma, matrix<Sum> dbeta, norm_shape const& of) const {
    host_maths::normalize_sets_parameters(of, dy.data, x.data, statistics.data, dgamma.data,
                                          dbeta.data);
  }

  // ---- Steps of an optimizer --------------------------------------------------------------------

  template <class Arena>
  void run(operation::adamw, in<adamw_numbers> numbers, Arena const& of,
           adamw_constants const& fixed) const {
    auto const& now = *numbers.data;
    for_each_range(of, [&](update_range const& at) {
      host_maths::adamw_step const step{now.learning_rate * at.rate,
                                        fixed.beta1,
                                        fixed.beta2,
                                        fixed.epsilon,
                                        fixed.weight_decay * at.decay,
                                        now.bias_correction1,
                                        now.bias_correction2,
                                        *of.gradient_scale};
      if constexpr (requires { of.origins; }) adamw_update(of, at, step);
      else
        host_maths::adamw_update(of.parameters + at.offset, of.gradients + at.offset,
                                 of.states + at.offset, of.states + of.state_stride + at.offset,
                                 at.count, step);
    });
  }
  template <class Arena>
  void run(operation::sgd, in<sgd_numbers> numbers, Arena const& of,
           sgd_constants const& fixed) const {
    for_each_range(of, [&](update_range const& at) {
      host_maths::sgd_update(of.parameters + at.offset, of.gradients + at.offset,
                             of.states + at.offset, at.count,
                             {numbers.data->learning_rate * at.rate, fixed.momentum,
                              fixed.weight_decay * at.decay, *of.gradient_scale});
    });
  }
  template <class T>
  void run(operation::average, in<double> scale, in<T> x, matrix<T> average, double decay) const {
    if (!std::isnan(*scale.data)) host_maths::average(x.data, average.data, x.columns, decay);
  }
  template <class T>
  void run(operation::sums_of_squares, T const* x, in<squares_range> ranges, double* sums) const {
    for (std::size_t i = 0; i < ranges.columns; ++i) {
      auto const& at = ranges.data[i];
      sums[at.index] = host_maths::sum_of_squares(x + at.offset, at.count);
    }
  }
  void run(operation::divide, in<double> count, matrix<double> quotient, double number) const {
    *quotient.data = *count.data == 0 ? 0.0 : number / *count.data;
  }
  void run(operation::clip, in<double> squares, matrix<double> norm, matrix<double> factor,
           double limit) const;
  void run(operation::check_finite, in<double> loss, in<double> norm, matrix<double> factor) const;

 private:
  /// Calls update(range) for each range of an arena and then converts the new parameters to
  /// `copies`; does nothing if the gradient scale is NaN, which means that the step is skipped.
  template <class Arena, class Update>
  void for_each_range(Arena const& of, Update update) const {
    if (std::isnan(*of.gradient_scale)) return;
    for (int i = 0; i < of.range_count; ++i) update(of.ranges[i]);
    if (of.copies != nullptr) convert(of.parameters, of.copies, of.count);
  }
  template <class Number, class Work>
  void with_room(std::size_t count, Work work) const {
    host_workspace for_this_call;
    work((workspace_ != nullptr ? *workspace_ : for_this_call).room_for<Number>(count));
  }

  host_workspace* workspace_ = nullptr;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/host_queue.ipp"
#endif
