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
#include "plait/backend/host/maths/matmul.hpp"
#include "plait/backend/host/maths/optimizer.hpp"
#include "plait/backend/host/maths/rowwise.hpp"
#include "plait/backend/host/maths/set_norm.hpp"
#include "plait/backend/host/maths/windows.hpp"
#include "plait/backend/in_passes.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"

namespace plait::ext {

/// The queue of a rank that computes on the processor: every operation runs at once, on the calling
/// thread.
///
/// The members are what `operations` and the run half need of a device's queue; they take plain
/// pointers to its memory. A queue of another device puts the operation at the end of a stream.
/// Threads: one thread per device object.
class host_queue {
 public:
  /// A queue of no device, which takes what kernels work in for each call.
  host_queue() = default;
  explicit host_queue(host_workspace& workspace) : workspace_(&workspace) {}

  /// Copies bytes within the device's memory.
  void copy_bytes(void const* from, void* to, std::size_t bytes) const {
    if (bytes != 0 && from != to) std::memcpy(to, from, bytes);
  }
  /// Says that nobody reads these bytes any more before they are written.
  void discard(void*, std::size_t) const {}

  template <class T>
  void fill(T value, T* y, std::size_t count) const {
    host_maths::fill(value, y, count);
  }
  template <class T>
  void add(T const* a, T const* b, T* out, std::size_t count) const {
    host_maths::add(a, b, out, count);
  }

  /// sum += x; x = 0. They do not overlap.
  template <class T>
  void add_and_clear(T* sum, T* x, std::size_t count) const {
    host_maths::add_and_clear(sum, x, count);
  }

  /// a and b, which do not overlap, have each other's values from now on.
  template <class T>
  void swap(T* a, T* b, std::size_t count) const {
    std::swap_ranges(a, a + count, b);
  }

  /// to[i] = from[i] in another type.
  template <class From, class To>
  void convert(From const* from, To* to, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  }

  /// Copies `count` blocks of `block` elements with strides between them.
  template <class T>
  void copy_blocks(T const* from, std::size_t from_stride, T* to, std::size_t to_stride,
                   std::size_t count, std::size_t block) const {
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(to + i * to_stride, from + i * from_stride, block * sizeof(T));
  }

  /// c = op(a) op(b), or c += op(a) op(b), added up in accumulate_t<A>.
  template <class A, class C>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              A const* a, std::size_t lda, A const* b, std::size_t ldb, bool accumulate, C* c,
              std::size_t ldc) const {
    host_maths::matmul<accumulate_t<A>>(static_cast<host_maths::transpose>(a_transposed),
                                        static_cast<host_maths::transpose>(b_transposed), m, n, k,
                                        1, a, lda, b, ldb, accumulate ? 1 : 0, c, ldc);
  }
  /// c (m, n) = op(a) op(b) and what follows it.
  template <class T, class Function>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              T const* a, std::size_t lda, T const* b, std::size_t ldb, T* c,
              epilogue<T, Function> const& then) const {
    matmul_onto_row(*this, a_transposed, b_transposed, m, n, k, a, lda, b, ldb, c, then);
  }
  /// c (m, n) is op(a) op(b), or is added to it, and the sums of an operand are added to.
  template <class A, class C, class S>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              A const* a, std::size_t lda, A const* b, std::size_t ldb, bool accumulate, C* c,
              operand_sums<S> const& with) const {
    matmul_and_sums_in_passes(*this, a_transposed, b_transposed, m, n, k, a, lda, b, ldb,
                              accumulate, c, with);
  }

  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T* out) const {
    host_maths::map(f, a, out, count);
  }
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T const* b, T* out) const {
    host_maths::map(f, a, b, out, count);
  }
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T const* b, T const* c, T* out) const {
    host_maths::map(f, a, b, c, out, count);
  }
  /// y[r][c] = f(its place, row of each view...) for the elements of a block.
  template <class Function, class T, class... Views>
  void map_at(Function f, element_block const& of, T* y, element_operand<Views>... views) const {
    host_maths::map_at(f, of, y, views...);
  }

  /// Calls f(columns, row of each operand...) for every row; a stride of 0 repeats a row.
  template <class Function, class... Rows>
  void rows(Function f, std::size_t count, std::size_t columns, Rows... operands) const {
    for (std::size_t r = 0; r < count; ++r) f(columns, operands.data + r * operands.stride...);
  }

  /// sums[c] += the sum over the rows of f(operands[r][c]...), in row order.
  template <class Function, class Sum, class A, class B>
  void accumulate_columns(Function f, std::size_t rows, std::size_t columns, Sum* sums, A const* a,
                          B const* b) const {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        sums[c] += f(static_cast<accumulate_t<A>>(a[r * columns + c]),
                     static_cast<accumulate_t<B>>(b[r * columns + c]));
  }

  template <class T>
  void add_row(T const* row, T* y, std::size_t rows, std::size_t columns) const {
    host_maths::add_row(row, y, rows, columns);
  }
  template <class T, class Sum>
  void accumulate_column_sums(T const* dy, Sum* sums, std::size_t rows, std::size_t columns) const {
    host_maths::accumulate_column_sums(dy, sums, rows, columns);
  }

  template <class T, class Kept>
  void layer_norm(T const* x, T const* gamma, T const* beta, T* y, Kept* statistics,
                  std::size_t rows, std::size_t columns, double epsilon) const {
    host_maths::layer_norm_forward(x, gamma, beta, y, statistics, rows, columns,
                                   static_cast<Kept>(epsilon));
  }
  template <class T, class Kept>
  void layer_norm_backward_input(T const* dy, T const* x, Kept const* statistics, T const* gamma,
                                 T* dx, std::size_t rows, std::size_t columns) const {
    host_maths::layer_norm_backward_input(dy, x, statistics, gamma, dx, rows, columns);
  }
  template <class T, class Kept, class Sum>
  void layer_norm_backward_parameters(T const* dy, T const* x, Kept const* statistics, Sum* dgamma,
                                      Sum* dbeta, std::size_t rows, std::size_t columns) const {
    host_maths::layer_norm_backward_parameters(dy, x, statistics, dgamma, dbeta, rows, columns);
  }
  /// \see layer_norm_backward_in_passes
  template <class T, class Kept, class Sum>
  void layer_norm_backward(T const* dy, T const* x, Kept const* statistics, T const* gamma, T* dx,
                           Sum* dgamma, Sum* dbeta, std::size_t rows, std::size_t columns,
                           T const* added = nullptr, T* sum = nullptr) const {
    layer_norm_backward_in_passes(*this, dy, x, statistics, gamma, dx, dgamma, dbeta, rows, columns,
                                  added, sum);
  }

  /// \see host_maths::rms_norm_forward
  template <class T, class Kept>
  void rms_norm(T const* x, T const* gamma, T* y, Kept* inverse, std::size_t rows,
                std::size_t columns, double epsilon) const {
    host_maths::rms_norm_forward(x, gamma, y, inverse, rows, columns, static_cast<Kept>(epsilon));
  }
  template <class T, class Kept>
  void rms_norm_backward_input(T const* dy, T const* x, Kept const* inverse, T const* gamma, T* dx,
                               std::size_t rows, std::size_t columns) const {
    host_maths::rms_norm_backward_input(dy, x, inverse, gamma, dx, rows, columns);
  }
  template <class T, class Kept, class Sum>
  void rms_norm_backward_parameters(T const* dy, T const* x, Kept const* inverse, Sum* dgamma,
                                    std::size_t rows, std::size_t columns) const {
    host_maths::rms_norm_backward_parameters(dy, x, inverse, dgamma, rows, columns);
  }

  /// \see host_maths::gather_patches
  template <class T>
  void gather_patches(window_shape const& of, std::size_t samples, std::size_t first_row,
                      std::size_t rows, T const* x, T* patches) const {
    host_maths::gather_patches(of, samples, first_row, rows, x, patches);
  }
  template <class T>
  void add_patches(window_shape const& of, std::size_t samples, std::size_t first_row,
                   std::size_t rows, T const* patches, T* x) const {
    host_maths::add_patches(of, samples, first_row, rows, patches, x);
  }
  /// to[b][a] = from[a][b], of `outer` times `inner` blocks.
  template <class T>
  void exchange_blocks(T const* from, T* to, std::size_t outer, std::size_t inner,
                       std::size_t block) const {
    host_maths::exchange_blocks(from, to, outer, inner, block);
  }
  template <class T>
  void add_to_maps(T const* bias, T* y, std::size_t samples, std::size_t channels,
                   std::size_t map) const {
    host_maths::add_to_maps(bias, y, samples, channels, map);
  }
  template <class T, class Sum>
  void accumulate_map_sums(T const* dy, Sum* sums, std::size_t samples, std::size_t channels,
                           std::size_t map) const {
    host_maths::accumulate_map_sums(dy, sums, samples, channels, map);
  }
  /// \see host_maths::max_pool
  template <class T>
  void max_pool(window_shape const& of, std::size_t samples, T const* x, T* y) const {
    host_maths::max_pool(of, samples, x, y);
  }
  template <class T>
  void max_pool_backward(window_shape const& of, std::size_t samples, T const* dy, T const* x,
                         T* dx) const {
    host_maths::max_pool_backward(of, samples, dy, x, dx);
  }
  template <class T>
  void average_pool(window_shape const& of, std::size_t samples, T const* x, T* y) const {
    host_maths::average_pool(of, samples, x, y);
  }
  template <class T>
  void average_pool_backward(window_shape const& of, std::size_t samples, T const* dy,
                             T* dx) const {
    host_maths::average_pool_backward(of, samples, dy, dx);
  }
  /// \see host_maths::set_statistics
  template <class T, class Kept>
  void set_statistics(norm_shape const& of, T const* x, Kept* statistics, double epsilon) const {
    host_maths::set_statistics(of, x, statistics, static_cast<Kept>(epsilon));
  }
  template <class Kept, class Sum>
  void accumulate_statistics(norm_shape const& of, Kept const* statistics, Sum* means,
                             Sum* variances, double share, double epsilon) const {
    host_maths::accumulate_statistics(of, statistics, means, variances, share, epsilon);
  }
  /// \see host_maths::sums_of_sets
  template <class Kept>
  void sums_of_sets(norm_shape const& of, Kept const* statistics, Kept* sums) const {
    host_maths::sums_of_sets(of, statistics, sums);
  }
  template <class Kept>
  void squares_of_sets(norm_shape const& of, Kept const* statistics, Kept const* sums,
                       Kept* squares) const {
    host_maths::squares_of_sets(of, statistics, sums, squares);
  }
  template <class Kept>
  void whole_statistics(norm_shape const& of, Kept const* sums, Kept const* squares,
                        Kept* statistics, double epsilon) const {
    host_maths::whole_statistics(of, sums, squares, statistics, static_cast<Kept>(epsilon));
  }
  template <class T, class Kept>
  void normalize_whole_backward(norm_shape const& of, T const* dy, T const* x,
                                Kept const* statistics, Kept const* dgamma, Kept const* dbeta,
                                T const* gamma, T* dx) const {
    host_maths::normalize_whole_backward(of, dy, x, statistics, dgamma, dbeta, gamma, dx);
  }
  template <class T, class Kept>
  void given_statistics(T const* mean, T const* variance, Kept* statistics, std::size_t channels,
                        double epsilon) const {
    host_maths::given_statistics(mean, variance, statistics, channels, epsilon);
  }
  template <class T, class Kept>
  void normalize_sets(norm_shape const& of, T const* x, Kept const* statistics, T const* gamma,
                      T const* beta, T* y) const {
    host_maths::normalize_sets(of, x, statistics, gamma, beta, y);
  }
  template <class T, class Kept>
  void normalize_sets_backward(norm_shape const& of, T const* dy, T const* x,
                               Kept const* statistics, T const* gamma, T* dx) const {
    host_maths::normalize_sets_backward(of, dy, x, statistics, gamma, dx);
  }
  template <class T, class Kept>
  void scale_sets(norm_shape const& of, T const* dy, Kept const* statistics, T const* gamma,
                  T* dx) const {
    host_maths::scale_sets(of, dy, statistics, gamma, dx);
  }
  template <class T, class Kept, class Sum>
  void normalize_sets_parameters(norm_shape const& of, T const* dy, T const* x,
                                 Kept const* statistics, Sum* dgamma, Sum* dbeta) const {
    host_maths::normalize_sets_parameters(of, dy, x, statistics, dgamma, dbeta);
  }

  /// Gets ready what attention of a shape needs once: its scratch memory.
  template <class T>
  void prepare_attention(attention_shape const& shape) const {
    if (workspace_ != nullptr)
      (void)workspace_->room_for<accumulate_t<T>>(2 * attention_scratch(shape.sequence));
  }
  /// Attention of any shape.
  template <class T, class Kept>
  void attention(attention_shape const& shape, attention_operands<T const> const& in, T* out,
                 Kept* log_sum) const {
    with_room<Kept>(attention_scratch(shape.sequence), [&](Kept* scratch) {
      host_maths::attention_forward(shape, in, out, log_sum, scratch);
    });
  }
  template <class T, class Kept>
  void attention_backward(attention_shape const& shape, attention_operands<T const> const& in,
                          T const* out, Kept const* log_sum, T const* dout,
                          attention_operands<T> const& gradient) const {
    with_room<Kept>(2 * attention_scratch(shape.sequence), [&](Kept* scratch) {
      host_maths::attention_backward(shape, in, out, log_sum, dout, gradient, scratch);
    });
  }
  /// Causal attention of equal heads, whose query, key and value lie side by side.
  template <class T>
  void prepare_attention(std::size_t sequence, std::size_t batch, std::size_t heads,
                         std::size_t head_width) const {
    prepare_attention<T>(attention_shape{sequence, batch, heads, head_width});
  }
  template <class T, class Kept>
  void attention(T const* qkv, T* out, Kept* log_sum, std::size_t sequence, std::size_t batch,
                 std::size_t heads, std::size_t head_width) const {
    attention(attention_shape{sequence, batch, heads, head_width},
              side_by_side(qkv, heads, head_width), out, log_sum);
  }
  template <class T, class Kept>
  void attention_backward(T const* qkv, T const* out, Kept const* log_sum, T const* dout, T* dqkv,
                          std::size_t sequence, std::size_t batch, std::size_t heads,
                          std::size_t head_width) const {
    attention_backward(attention_shape{sequence, batch, heads, head_width},
                       side_by_side(qkv, heads, head_width), out, log_sum, dout,
                       side_by_side(dqkv, heads, head_width));
  }

  template <class T>
  void gather_rows(std::int32_t const* ids, T const* table, std::size_t first_row,
                   std::size_t table_rows, T* out, std::size_t count, std::size_t columns) const {
    host_maths::gather_rows(ids, table, first_row, table_rows, out, count, columns);
  }
  template <class T, class Sum>
  void scatter_add_rows(std::int32_t const* ids, T const* dy, std::size_t first_row,
                        std::size_t table_rows, Sum* sums, std::size_t count,
                        std::size_t columns) const {
    host_maths::scatter_add_rows(ids, dy, first_row, table_rows, sums, count, columns);
  }
  template <class T>
  void add_positions(T const* x, T const* table, T* y, std::size_t first, std::size_t positions,
                     std::size_t batch, std::size_t columns) const {
    host_maths::add_positions(x, table, y, first, positions, batch, columns);
  }
  template <class T, class Sum>
  void accumulate_positions(T const* dy, Sum* sums, std::size_t first, std::size_t positions,
                            std::size_t batch, std::size_t columns) const {
    host_maths::accumulate_positions(dy, sums, first, positions, batch, columns);
  }

  /// Of the `columns` of a row only the first `valid` are classes; the rest is padding.
  template <class T, class Kept>
  void row_max(T const* x, Kept* max, std::size_t rows, std::size_t columns,
               std::size_t valid) const {
    host_maths::row_max(x, max, rows, columns, valid);
  }
  template <class Target, class T, class Kept>
  void cross_entropy_terms(Target, T const* logits, std::int32_t const* labels, Kept const* max,
                           Kept* terms, std::size_t first_class, std::size_t rows,
                           std::size_t columns, std::size_t valid) const {
    host_maths::cross_entropy_terms<Target>(logits, labels, max, terms, first_class, rows, columns,
                                            valid);
  }
  /// \see cross_entropy_statistics_in_passes
  template <class Target, class T, class Kept>
  void cross_entropy_statistics(Target target, T const* logits, std::int32_t const* labels,
                                Kept* max, Kept* terms, std::size_t rows, std::size_t columns,
                                std::size_t valid) const {
    cross_entropy_statistics_in_passes(*this, target, logits, labels, max, terms, rows, columns,
                                       valid);
  }
  /// Adds *scale times the loss of all rows to *loss. `weights` are those of the rows; null: 1.
  template <class Target, class T>
  void cross_entropy_sum(Target target, T const* terms, std::int32_t const* labels,
                         std::int32_t ignored, std::size_t rows, double const* scale,
                         double const* weights, double* loss) const {
    *loss += *scale * host_maths::cross_entropy_sum(terms, labels, ignored, rows, weights, target);
  }
  template <class Target, class T, class Kept>
  void cross_entropy_backward(Target target, T const* logits, std::int32_t const* labels,
                              Kept const* max, Kept const* terms, double const* scale,
                              double const* weights, T* dlogits, std::size_t first_class,
                              std::int32_t ignored, std::size_t rows, std::size_t columns,
                              std::size_t valid) const {
    host_maths::cross_entropy_backward(logits, labels, max, terms, *scale, dlogits, first_class,
                                       ignored, rows, columns, valid, weights, target);
  }

  template <class T>
  void dropout(T const* x, T* y, std::size_t rows, std::size_t columns, dropout_key key,
               double probability, dropout_block const& block) const {
    host_maths::dropout(x, y, rows, columns, random_key{key.seed, key.site, *key.step},
                        host_maths::dropout_threshold(probability),
                        static_cast<accumulate_t<T>>(1.0 / (1.0 - probability)), block);
  }

  /// One step of all parameters of an arena.
  template <class T, class Gradient, class Copy>
  void adamw(optimizer_arena<T, Gradient, Copy> const& of, adamw_constants const& fixed,
             adamw_numbers const* now) const {
    if (std::isnan(*of.gradient_scale)) return;
    for (int i = 0; i < of.range_count; ++i) {
      auto const& [offset, count, rate, decay] = of.ranges[i];
      host_maths::adamw_update(of.parameters + offset, of.gradients + offset, of.states + offset,
                               of.states + of.state_stride + offset, count,
                               {now->learning_rate * rate, fixed.beta1, fixed.beta2, fixed.epsilon,
                                fixed.weight_decay * decay, now->bias_correction1,
                                now->bias_correction2, *of.gradient_scale});
    }
    if (of.copies != nullptr) convert(of.parameters, of.copies, of.count);
  }
  template <class T, class Gradient, class Copy>
  void sgd(optimizer_arena<T, Gradient, Copy> const& of, sgd_constants const& fixed,
           sgd_numbers const* now) const {
    if (std::isnan(*of.gradient_scale)) return;
    for (int i = 0; i < of.range_count; ++i) {
      auto const& [offset, count, rate, decay] = of.ranges[i];
      host_maths::sgd_update(of.parameters + offset, of.gradients + offset, of.states + offset,
                             count,
                             {now->learning_rate * rate, fixed.momentum, fixed.weight_decay * decay,
                              *of.gradient_scale});
    }
    if (of.copies != nullptr) convert(of.parameters, of.copies, of.count);
  }

  /// average = decay * average + (1 - decay) * x; nothing is done if `*gradient_scale` is not a
  /// number.
  template <class T>
  void average(T const* x, T* average, std::size_t count, double decay,
               double const* gradient_scale) const {
    if (!std::isnan(*gradient_scale)) host_maths::average(x, average, count, decay);
  }

  /// out[index] = the sum of squares of each of `range_count` blocks of x.
  template <class T>
  void sums_of_squares(T const* x, squares_range const* ranges, int range_count,
                       double* out) const {
    for (int i = 0; i < range_count; ++i)
      out[ranges[i].index] = host_maths::sum_of_squares(x + ranges[i].offset, ranges[i].count);
  }
  /// *out = 1 / *x, or 0 if *x is 0.
  void divide(double number, double const* count, double* out) const {
    *out = *count == 0 ? 0.0 : number / *count;
  }
  /// *norm = the root of the sum of `squares`, added up in their order. *factor = the number that
  /// scales a vector of that norm to at most `limit`; it is nan if the norm is not finite.
  void clip(double const* squares, std::size_t count, double limit, double* norm,
            double* factor) const;

  /// *factor is no number from now on if *loss or *norm is not finite.
  void check_finite(double const* loss, double const* norm, double* factor) const;

  /// Calls kernel(*this, views...): a layer's own operation. What it reads are views of const
  /// elements, what it writes views of others.
  template <class Kernel, class... Views>
  void run(Kernel kernel, Views... views) const {
    constexpr bool can_be_called = std::is_invocable_v<Kernel&, host_queue const&, Views...>;
    static_assert(typing::sound_kernel<Kernel, can_be_called>);
    if constexpr (can_be_called) kernel(*this, views...);
  }

 private:
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
