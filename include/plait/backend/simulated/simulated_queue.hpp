// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/element_place.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/in_passes.hpp"
#include "plait/backend/simulated/simulated_image_queue.hpp"
#include "plait/backend/simulated/simulated_operation.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::ext {

/// The end of one stream of a simulated device: has the members of `host_queue`; each puts its
/// operation there, and that of the host computes when it is executed.
///
/// Errors:  race_error, thrown where the rank synchronises.
/// Threads: used by the one thread that runs the rank.
class simulated_queue : public simulated_image_queue {
  using operation = detail::simulated_operation;

 public:
  simulated_queue(detail::simulated_rank& rank, stream on) : simulated_image_queue(rank, on) {}

  void copy_bytes(void const* from, void* to, std::size_t bytes) const;
  /// \see host_queue::discard
  void discard(void* data, std::size_t bytes) const {
    if (bytes != 0) put("discard", [=](operation& now) { now.discard_bytes(data, bytes); });
  }

  template <class T>
  void fill(T value, T* y, std::size_t count) const {
    put("fill", [=](operation& now) {
      now.writes(y, count);
      now.run([&] { host_queue{}.fill(value, y, count); });
    });
  }
  template <class T>
  void add(T const* a, T const* b, T* out, std::size_t count) const {
    put("add", [=](operation& now) {
      now.reads(a, count);
      now.reads(b, count);
      now.writes(out, count);
      now.run([&] { host_queue{}.add(a, b, out, count); });
    });
  }
  template <class T>
  void add_and_clear(T* sum, T* x, std::size_t count) const {
    put("add_and_clear", [=](operation& now) {
      now.updates(sum, count);
      now.updates(x, count);
      now.run([&] { host_queue{}.add_and_clear(sum, x, count); });
    });
  }
  template <class T>
  void swap(T* a, T* b, std::size_t count) const {
    put("swap", [=](operation& now) {
      now.updates(a, count);
      now.updates(b, count);
      now.run([&] { host_queue{}.swap(a, b, count); });
    });
  }
  template <class From, class To>
  void convert(From const* from, To* to, std::size_t count) const {
    put("convert", [=](operation& now) {
      now.reads(from, count);
      now.writes(to, count);
      now.run([&] { host_queue{}.convert(from, to, count); });
    });
  }
  template <class T>
  void copy_blocks(T const* from, std::size_t from_stride, T* to, std::size_t to_stride,
                   std::size_t count, std::size_t block) const {
    put("copy_blocks", [=](operation& now) {
      now.reads_rows(from, from_stride, count, block);
      now.writes_rows(to, to_stride, count, block);
      now.run([&] { host_queue{}.copy_blocks(from, from_stride, to, to_stride, count, block); });
    });
  }

  template <class A, class C>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              A const* a, std::size_t lda, A const* b, std::size_t ldb, bool accumulate, C* c,
              std::size_t ldc) const {
    put("matmul", [=](operation& now) {
      if (m == 0 || n == 0) return;
      if (a_transposed) now.reads_rows(a, lda, k, m);
      else now.reads_rows(a, lda, m, k);
      if (b_transposed) now.reads_rows(b, ldb, n, k);
      else now.reads_rows(b, ldb, k, n);
      if (accumulate) now.reads_rows(c, ldc, m, n);
      now.writes_rows(c, ldc, m, n);
      now.run([&] {
        host_queue{}.matmul(a_transposed, b_transposed, m, n, k, a, lda, b, ldb, accumulate, c,
                            ldc);
      });
    });
  }
  template <class T, class Function>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              T const* a, std::size_t lda, T const* b, std::size_t ldb, T* c,
              epilogue<T, Function> const& then) const {
    matmul_onto_row(*this, a_transposed, b_transposed, m, n, k, a, lda, b, ldb, c, then);
  }
  template <class A, class C, class S>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              A const* a, std::size_t lda, A const* b, std::size_t ldb, bool accumulate, C* c,
              operand_sums<S> const& with) const {
    matmul_and_sums_in_passes(*this, a_transposed, b_transposed, m, n, k, a, lda, b, ldb,
                              accumulate, c, with);
  }

  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T* out) const {
    put("map", [=](operation& now) {
      now.reads(a, count);
      now.writes(out, count);
      now.run([&] { host_queue{}.map(f, count, a, out); });
    });
  }
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T const* b, T* out) const {
    put("map", [=](operation& now) {
      now.reads(a, count);
      now.reads(b, count);
      now.writes(out, count);
      now.run([&] { host_queue{}.map(f, count, a, b, out); });
    });
  }
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T const* b, T const* c, T* out) const {
    put("map", [=](operation& now) {
      now.reads(a, count);
      now.reads(b, count);
      now.reads(c, count);
      now.writes(out, count);
      now.run([&] { host_queue{}.map(f, count, a, b, c, out); });
    });
  }
  template <class Function, class T, class... Views>
  void map_at(Function f, element_block const& of, T* y, element_operand<Views>... views) const {
    put("map_at", [=](operation& now) {
      (now.reads(views.data, views.count), ...);
      now.writes(y, of.rows * of.columns);
      now.run([&] { host_queue{}.map_at(f, of, y, views...); });
    });
  }
  /// Rows of other than const elements count as written; they may be read after that.
  template <class Function, class... Rows>
  void rows(Function f, std::size_t count, std::size_t columns, Rows... operands) const {
    put("rows", [=](operation& now) {
      (touch_rows<true>(now, count, operands), ...);
      (touch_rows<false>(now, count, operands), ...);
      now.run([&] { host_queue{}.rows(f, count, columns, operands...); });
    });
  }
  template <class Function, class Sum, class A, class B>
  void accumulate_columns(Function f, std::size_t rows, std::size_t columns, Sum* sums, A const* a,
                          B const* b) const {
    put("accumulate_columns", [=](operation& now) {
      now.reads(a, rows * columns);
      now.reads(b, rows * columns);
      now.updates(sums, columns);
      now.run([&] { host_queue{}.accumulate_columns(f, rows, columns, sums, a, b); });
    });
  }

  template <class T>
  void add_row(T const* row, T* y, std::size_t rows, std::size_t columns) const {
    put("add_row", [=](operation& now) {
      now.reads(row, columns);
      now.updates(y, rows * columns);
      now.run([&] { host_queue{}.add_row(row, y, rows, columns); });
    });
  }
  template <class T, class Sum>
  void accumulate_column_sums(T const* dy, Sum* sums, std::size_t rows, std::size_t columns) const {
    put("accumulate_column_sums", [=](operation& now) {
      now.reads(dy, rows * columns);
      now.updates(sums, columns);
      now.run([&] { host_queue{}.accumulate_column_sums(dy, sums, rows, columns); });
    });
  }

  template <class T, class Kept>
  void layer_norm(T const* x, T const* gamma, T const* beta, T* y, Kept* statistics,
                  std::size_t rows, std::size_t columns, double epsilon) const {
    put("layer_norm", [=](operation& now) {
      now.reads(x, rows * columns);
      now.reads(gamma, columns);
      now.reads(beta, columns);
      now.writes(y, rows * columns);
      now.writes(statistics, rows * 2);
      now.run(
          [&] { host_queue{}.layer_norm(x, gamma, beta, y, statistics, rows, columns, epsilon); });
    });
  }
  template <class T, class Kept>
  void layer_norm_backward_input(T const* dy, T const* x, Kept const* statistics, T const* gamma,
                                 T* dx, std::size_t rows, std::size_t columns) const {
    put("layer_norm_backward_input", [=](operation& now) {
      now.reads(dy, rows * columns);
      now.reads(x, rows * columns);
      now.reads(statistics, rows * 2);
      now.reads(gamma, columns);
      now.writes(dx, rows * columns);
      now.run([&] {
        host_queue{}.layer_norm_backward_input(dy, x, statistics, gamma, dx, rows, columns);
      });
    });
  }
  template <class T, class Kept, class Sum>
  void layer_norm_backward_parameters(T const* dy, T const* x, Kept const* statistics, Sum* dgamma,
                                      Sum* dbeta, std::size_t rows, std::size_t columns) const {
    put("layer_norm_backward_parameters", [=](operation& now) {
      now.reads(dy, rows * columns);
      now.reads(x, rows * columns);
      now.reads(statistics, rows * 2);
      now.updates(dgamma, columns);
      now.updates(dbeta, columns);
      now.run([&] {
        host_queue{}.layer_norm_backward_parameters(dy, x, statistics, dgamma, dbeta, rows,
                                                    columns);
      });
    });
  }

  template <class T, class Kept, class Sum>
  void layer_norm_backward(T const* dy, T const* x, Kept const* statistics, T const* gamma, T* dx,
                           Sum* dgamma, Sum* dbeta, std::size_t rows, std::size_t columns,
                           T const* added = nullptr, T* sum = nullptr) const {
    layer_norm_backward_in_passes(*this, dy, x, statistics, gamma, dx, dgamma, dbeta, rows, columns,
                                  added, sum);
  }

  template <class T, class Kept>
  void rms_norm(T const* x, T const* gamma, T* y, Kept* inverse, std::size_t rows,
                std::size_t columns, double epsilon) const {
    put("rms_norm", [=](operation& now) {
      now.reads(x, rows * columns);
      now.reads(gamma, columns);
      now.writes(y, rows * columns);
      now.writes(inverse, rows);
      now.run([&] { host_queue{}.rms_norm(x, gamma, y, inverse, rows, columns, epsilon); });
    });
  }
  template <class T, class Kept>
  void rms_norm_backward_input(T const* dy, T const* x, Kept const* inverse, T const* gamma, T* dx,
                               std::size_t rows, std::size_t columns) const {
    put("rms_norm_backward_input", [=](operation& now) {
      now.reads(dy, rows * columns);
      now.reads(x, rows * columns);
      now.reads(inverse, rows);
      now.reads(gamma, columns);
      now.writes(dx, rows * columns);
      now.run(
          [&] { host_queue{}.rms_norm_backward_input(dy, x, inverse, gamma, dx, rows, columns); });
    });
  }
  template <class T, class Kept, class Sum>
  void rms_norm_backward_parameters(T const* dy, T const* x, Kept const* inverse, Sum* dgamma,
                                    std::size_t rows, std::size_t columns) const {
    put("rms_norm_backward_parameters", [=](operation& now) {
      now.reads(dy, rows * columns);
      now.reads(x, rows * columns);
      now.reads(inverse, rows);
      now.updates(dgamma, columns);
      now.run([&] {
        host_queue{}.rms_norm_backward_parameters(dy, x, inverse, dgamma, rows, columns);
      });
    });
  }

  template <class T>
  void prepare_attention(attention_shape const& shape) const {
    host_queue(rank_->workspace()).template prepare_attention<T>(shape);
  }
  template <class T, class Kept>
  void attention(attention_shape const& shape, attention_operands<T const> const& in, T* out,
                 Kept* log_sum) const {
    put("attention", [=](operation& now) {
      std::size_t const rows = shape.sequence * shape.batch;
      for_each_operand(shape, in, [&](T const* data, std::size_t stride, std::size_t width) {
        now.reads_rows(data, stride, rows, width);
      });
      now.writes(out, rows * shape.heads * shape.head_width);
      now.writes(log_sum, rows * shape.heads);
      now.run([&] { host_queue(now.workspace()).attention(shape, in, out, log_sum); });
    });
  }
  template <class T, class Kept>
  void attention_backward(attention_shape const& shape, attention_operands<T const> const& in,
                          T const* out, Kept const* log_sum, T const* dout,
                          attention_operands<T> const& gradient) const {
    put("attention_backward", [=](operation& now) {
      std::size_t const rows = shape.sequence * shape.batch;
      for_each_operand(shape, in, [&](T const* data, std::size_t stride, std::size_t width) {
        now.reads_rows(data, stride, rows, width);
      });
      now.reads(out, rows * shape.heads * shape.head_width);
      now.reads(log_sum, rows * shape.heads);
      now.reads(dout, rows * shape.heads * shape.head_width);
      for_each_operand(shape, gradient, [&](T* data, std::size_t stride, std::size_t width) {
        now.writes_rows(data, stride, rows, width);
      });
      now.run([&] {
        host_queue(now.workspace()).attention_backward(shape, in, out, log_sum, dout, gradient);
      });
    });
  }
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
    put("gather_rows", [=](operation& now) {
      now.reads(ids, count);
      now.reads(table, table_rows * columns);
      now.writes(out, count * columns);
      now.run([&] {
        host_queue{}.gather_rows(ids, table, first_row, table_rows, out, count, columns);
      });
    });
  }
  template <class T, class Sum>
  void scatter_add_rows(std::int32_t const* ids, T const* dy, std::size_t first_row,
                        std::size_t table_rows, Sum* sums, std::size_t count,
                        std::size_t columns) const {
    put("scatter_add_rows", [=](operation& now) {
      now.reads(ids, count);
      now.reads(dy, count * columns);
      now.updates(sums, table_rows * columns);
      now.run([&] {
        host_queue{}.scatter_add_rows(ids, dy, first_row, table_rows, sums, count, columns);
      });
    });
  }
  template <class T>
  void add_positions(T const* x, T const* table, T* y, std::size_t first, std::size_t positions,
                     std::size_t batch, std::size_t columns) const {
    put("add_positions", [=](operation& now) {
      now.reads(x, positions * batch * columns);
      now.reads(table + first * columns, positions * columns);
      now.writes(y, positions * batch * columns);
      now.run([&] { host_queue{}.add_positions(x, table, y, first, positions, batch, columns); });
    });
  }
  template <class T, class Sum>
  void accumulate_positions(T const* dy, Sum* sums, std::size_t first, std::size_t positions,
                            std::size_t batch, std::size_t columns) const {
    put("accumulate_positions", [=](operation& now) {
      now.reads(dy, positions * batch * columns);
      now.updates(sums + first * columns, positions * columns);
      now.run(
          [&] { host_queue{}.accumulate_positions(dy, sums, first, positions, batch, columns); });
    });
  }

  template <class T, class Kept>
  void row_max(T const* x, Kept* max, std::size_t rows, std::size_t columns,
               std::size_t valid) const {
    put("row_max", [=](operation& now) {
      now.reads_rows(x, columns, rows, valid);
      now.writes(max, rows);
      now.run([&] { host_queue{}.row_max(x, max, rows, columns, valid); });
    });
  }
  template <class Target, class T, class Kept>
  void cross_entropy_terms(Target target, T const* logits, std::int32_t const* labels,
                           Kept const* max, Kept* terms, std::size_t first_class, std::size_t rows,
                           std::size_t columns, std::size_t valid) const {
    put("cross_entropy_terms", [=](operation& now) {
      now.reads_rows(logits, columns, rows, valid);
      now.reads(labels, rows);
      now.reads(max, rows);
      now.writes(terms, rows * Target::terms);
      now.run([&] {
        host_queue{}.cross_entropy_terms(target, logits, labels, max, terms, first_class, rows,
                                         columns, valid);
      });
    });
  }
  template <class Target, class T, class Kept>
  void cross_entropy_statistics(Target target, T const* logits, std::int32_t const* labels,
                                Kept* max, Kept* terms, std::size_t rows, std::size_t columns,
                                std::size_t valid) const {
    cross_entropy_statistics_in_passes(*this, target, logits, labels, max, terms, rows, columns,
                                       valid);
  }
  template <class Target, class T>
  void cross_entropy_sum(Target target, T const* terms, std::int32_t const* labels,
                         std::int32_t ignored, std::size_t rows, double const* scale,
                         double const* weights, double* loss) const {
    put("cross_entropy_sum", [=](operation& now) {
      now.reads(terms, rows * Target::terms);
      now.reads(labels, rows);
      now.reads(scale, 1);
      if (weights != nullptr) now.reads(weights, rows);
      now.updates(loss, 1);
      now.run([&] {
        host_queue{}.cross_entropy_sum(target, terms, labels, ignored, rows, scale, weights, loss);
      });
    });
  }
  template <class Target, class T, class Kept>
  void cross_entropy_backward(Target target, T const* logits, std::int32_t const* labels,
                              Kept const* max, Kept const* terms, double const* scale,
                              double const* weights, T* dlogits, std::size_t first_class,
                              std::int32_t ignored, std::size_t rows, std::size_t columns,
                              std::size_t valid) const {
    put("cross_entropy_backward", [=](operation& now) {
      now.reads_rows(logits, columns, rows, valid);
      now.reads(labels, rows);
      now.reads(max, rows);
      now.reads(terms, rows * Target::terms);
      now.reads(scale, 1);
      if (weights != nullptr) now.reads(weights, rows);
      now.writes(dlogits, rows * columns);
      now.run([&] {
        host_queue{}.cross_entropy_backward(target, logits, labels, max, terms, scale, weights,
                                            dlogits, first_class, ignored, rows, columns, valid);
      });
    });
  }

  template <class T>
  void dropout(T const* x, T* y, std::size_t rows, std::size_t columns, dropout_key key,
               double probability, dropout_block const& block) const {
    put("dropout", [=](operation& now) {
      now.reads(x, rows * columns);
      now.reads(key.step, 1);
      now.writes(y, rows * columns);
      now.run([&] { host_queue{}.dropout(x, y, rows, columns, key, probability, block); });
    });
  }

  template <class T, class Gradient, class Copy>
  void adamw(optimizer_arena<T, Gradient, Copy> const& of, adamw_constants const& fixed,
             adamw_numbers const* numbers) const {
    put("adamw", [=](operation& now) {
      now.reads(numbers, 1);
      touch_arena(now, of, 2);
      now.run([&] { host_queue{}.adamw(of, fixed, numbers); });
    });
  }
  template <class T, class Gradient, class Copy>
  void sgd(optimizer_arena<T, Gradient, Copy> const& of, sgd_constants const& fixed,
           sgd_numbers const* numbers) const {
    put("sgd", [=](operation& now) {
      now.reads(numbers, 1);
      touch_arena(now, of, fixed.momentum != 0 ? 1 : 0);
      now.run([&] { host_queue{}.sgd(of, fixed, numbers); });
    });
  }

  template <class T>
  void average(T const* x, T* average, std::size_t count, double decay,
               double const* gradient_scale) const {
    put("average", [=](operation& now) {
      now.reads(gradient_scale, 1);
      now.reads(x, count);
      now.updates(average, count);
      now.run([&] { host_queue{}.average(x, average, count, decay, gradient_scale); });
    });
  }

  template <class T>
  void sums_of_squares(T const* x, squares_range const* ranges, int range_count,
                       double* out) const {
    put("sums_of_squares", [=](operation& now) {
      now.reads(ranges, static_cast<std::size_t>(range_count));
      if (!now.is_defined()) return;  // the ranges cannot be looked at
      for (int i = 0; i < range_count; ++i) now.reads(x + ranges[i].offset, ranges[i].count);
      for (int i = 0; i < range_count; ++i) now.writes(out + ranges[i].index, 1);
      now.run([&] { host_queue{}.sums_of_squares(x, ranges, range_count, out); });
    });
  }
  void divide(double number, double const* count, double* out) const;
  void clip(double const* squares, std::size_t count, double limit, double* norm,
            double* factor) const;

  void check_finite(double const* loss, double const* norm, double* factor) const;

  /// Calls kernel(queue of the host, views...) when the operation is executed. Views of other than
  /// const elements count as written; they may be read after that.
  template <class Kernel, class... Views>
  void run(Kernel kernel, Views... views) const {
    put("run", [=](operation& now) mutable {
      (touch_view<true>(now, views), ...);
      (touch_view<false>(now, views), ...);
      now.run([&] { host_queue{}.run(kernel, views...); });
    });
  }

 private:
  template <bool IsRead, class T>
  static void touch(operation& now, T* data, std::size_t count) {
    if constexpr (IsRead && std::is_const_v<T>) now.reads(data, count);
    else if constexpr (!IsRead && !std::is_const_v<T>) now.writes(data, count);
  }

  template <bool IsRead, class Rows>
  static void touch_rows(operation& now, std::size_t count, Rows const& operand) {
    if (count == 0) return;
    std::size_t const stride = operand.stride;
    touch<IsRead>(now, operand.data, stride == 0 ? operand.width : count * stride);
  }

  template <bool IsRead, class View>
  static void touch_view(operation& now, View const& of) {
    if constexpr (requires { of.count(); }) touch<IsRead>(now, of.data, of.count());
    else touch<IsRead>(now, of.data, of.rows);
  }

  // Calls use(data, elements between rows, width of a row) for query, key and value.
  template <class T, class Use>
  static void for_each_operand(attention_shape const& shape, attention_operands<T> const& of,
                               Use use) {
    use(of.q, of.query_stride, shape.heads * shape.head_width);
    use(of.k, of.key_stride, shape.key_value_heads() * shape.head_width);
    use(of.v, of.key_stride, shape.key_value_heads() * shape.head_width);
  }

  // What an optimizer touches; the list of ranges can be looked at only if it is defined. Gaps
  // between ranges mean nothing, so nobody has to write them before they are converted.
  template <class Arena>
  static void touch_arena(operation& now, Arena const& of, std::size_t states) {
    now.reads(of.gradient_scale, 1);
    now.reads(of.ranges, static_cast<std::size_t>(of.range_count));
    if (!now.is_defined()) return;
    for (int i = 0; i < of.range_count; ++i) {
      std::size_t const offset = of.ranges[i].offset, count = of.ranges[i].count;
      now.reads(of.gradients + offset, count);
      now.updates(of.parameters + offset, count);
      for (std::size_t s = 0; s < states; ++s)
        now.updates(of.states + s * of.state_stride + offset, count);
      if (of.copies != nullptr) now.writes(of.copies + offset, count);
    }
  }
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated_queue.ipp"
#endif
