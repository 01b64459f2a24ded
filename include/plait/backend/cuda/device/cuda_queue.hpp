// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/cuda_image_queue.hpp"
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
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/layer_norm.hpp"
#include "plait/backend/cuda/kernels/optimizer.hpp"
#include "plait/backend/cuda/kernels/product.hpp"
#include "plait/backend/cuda/kernels/rms_norm.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"
#include "plait/backend/cuda/products/library_epilogue.hpp"
#include "plait/backend/cuda/products/matrix_products.hpp"
#include "plait/backend/element_place.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/host/maths/dropout.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/in_passes.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::ext {

/// One stream of a CUDA device. Every operation is put at its end and the call returns at once;
/// pointers are to the device's memory.
///
/// The members are those of `host_queue` with the same meaning. Besides float and double the
/// elements may be bfloat16: then statistics, logarithms of sums, maxima and terms are float, and
/// sums of gradients may be.
/// Cost:   no allocation once every shape has been seen.
/// Errors: cuda_error, for what can be seen when the operation is put into the stream; the rest
///         comes from the device's synchronize().
/// Threads: that of the rank.
class cuda_queue : public cuda_image_queue {
 public:
  cuda_queue(detail::cuda_state& state, plait::ext::stream on) : cuda_image_queue(state, on) {}

  void copy_bytes(void const* from, void* to, std::size_t bytes) const {
    if (bytes == 0 || from == to) return;
    device_scope const scope(state_->place);
    detail::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()),
                  "cudaMemcpyAsync", state_->place);
  }
  void discard(void*, std::size_t) const {}

  template <class T>
  void fill(T value, T* y, std::size_t count) const {
    cuda_kernels::fill(launcher(), value, y, count);
  }
  template <class T>
  void add(T const* a, T const* b, T* out, std::size_t count) const {
    cuda_kernels::add(launcher(), a, b, out, count);
  }
  template <class T>
  void add_and_clear(T* sum, T* x, std::size_t count) const {
    cuda_kernels::add_and_clear(launcher(), sum, x, count);
  }
  template <class T>
  void swap(T* a, T* b, std::size_t count) const {
    cuda_kernels::swap(launcher(), a, b, count);
  }
  template <class From, class To>
  void convert(From const* from, To* to, std::size_t count) const {
    cuda_kernels::convert(launcher(), from, to, count);
  }
  template <class T>
  void copy_blocks(T const* from, std::size_t from_stride, T* to, std::size_t to_stride,
                   std::size_t count, std::size_t block) const {
    cuda_kernels::copy_blocks(launcher(), from, from_stride, to, to_stride, count, block);
  }

  /// The result may be float where the operands are bfloat16. A shape that the library does not
  /// take is multiplied by a kernel of plait's own, slowly.
  template <class A, class C>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              A const* a, std::size_t lda, A const* b, std::size_t ldb, bool accumulate, C* c,
              std::size_t ldc) const {
    static_assert(std::is_same_v<A, C> || (std::is_same_v<A, bfloat16> && std::is_same_v<C, float>),
                  "matmul on a CUDA device: the result must have the type of the operands, or be "
                  "float where they are bfloat16");
    if (m == 0 || n == 0) return;
    device_scope const scope(state_->place);
    if (k == 0) {
      if (!accumulate)
        detail::check(cudaMemset2DAsync(c, ldc * sizeof(C), 0, n * sizeof(C), m, stream()),
                      "cudaMemset2DAsync", state_->place);
      return;
    }
    auto const what = detail::product_of<A, C>(a_transposed, b_transposed, m, n, k, a, lda, b, ldb,
                                               accumulate, c, ldc);
    if (!run_product(what, a, b, c, {}))
      cuda_kernels::product(
          launcher(), cuda_kernels::product_operands<A, C>{a_transposed, b_transposed, accumulate,
                                                           m, n, k, a, lda, b, ldb, c, ldc});
  }
  /// cuBLASLt does the epilogue where it can: it adds a row and a matrix, and in bfloat16 applies
  /// gelu and its derivative.
  template <class T, class Function>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              T const* a, std::size_t lda, T const* b, std::size_t ldb, T* c,
              epilogue<T, Function> const& then) const {
    if (m * n * k != 0) {
      device_scope const scope(state_->place);
      auto const run = [&](detail::library_epilogue const& with, T* result) {
        auto const* const added = static_cast<T const*>(with.operands.added);
        if (with.kind == CUBLASLT_EPILOGUE_DEFAULT && added == nullptr) return false;
        auto what = detail::product_of<T, T>(a_transposed, b_transposed, m, n, k, a, lda, b, ldb,
                                             added != nullptr, result, n);
        what.epilogue = with.kind;
        what.align_to(added);
        return run_product(what, a, b, result, with.operands);
      };
      bool const fuses_gelu = state_->products.fuses_gelu();
      if constexpr (epilogue<T, Function>::maps)
        if (then.added == nullptr &&
            run(detail::library_epilogue_of(then, c, n, fuses_gelu), then.mapped))
          return;
      auto with_row = detail::library_epilogue_of(epilogue<T>{.row = then.row}, c, n, fuses_gelu);
      bool const takes_row = then.row == nullptr || with_row.kind != CUBLASLT_EPILOGUE_DEFAULT;
      if (takes_row && state_->products.fuses_residuals()) with_row.operands.added = then.added;
      if (run(with_row, c)) {
        auto left = then;
        if (with_row.operands.added != nullptr) left.added = nullptr;
        run_epilogue(*this, m * n, c, left);
        return;
      }
    }
    matmul_in_passes(*this, a_transposed, b_transposed, m, n, k, a, lda, b, ldb, c, then);
  }
  /// With cuda_options::fused_bias_gradient the library sums operands in bfloat16 up in float while
  /// it makes the product. A small kernel adds its sums to those that are there.
  template <class A, class C, class S>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              A const* a, std::size_t lda, A const* b, std::size_t ldb, bool accumulate, C* c,
              operand_sums<S> const& with) const {
    if constexpr (std::is_same_v<A, bfloat16> && std::is_same_v<C, float> &&
                  std::is_same_v<S, float>) {
      auto what = detail::product_of<A, C>(a_transposed, b_transposed, m, n, k, a, lda, b, ldb,
                                           accumulate, c, n);
      what.epilogue = with.of_a ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
      if (m * n * k != 0 && state_->products.fuses_sums(what)) {
        device_scope const scope(state_->place);
        auto* const made = reinterpret_cast<float*>(state_->workspace(on_));
        if (run_product(what, a, b, c, {.sums = made})) {
          cuda_kernels::add(launcher(), with.sums, made, with.sums, with.of_a ? m : n);
          return;
        }
      }
    }
    matmul_and_sums_in_passes(*this, a_transposed, b_transposed, m, n, k, a, lda, b, ldb,
                              accumulate, c, with);
  }

  /// `f` is a named type with a PLAIT_HOST_DEVICE call operator, called with values of
  /// accumulate_t<T>.
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T* out) const {
    cuda_kernels::map(launcher(), f, count, a, out);
  }
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T const* b, T* out) const {
    cuda_kernels::map(launcher(), f, count, a, b, out);
  }
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T const* b, T const* c, T* out) const {
    cuda_kernels::map(launcher(), f, count, a, b, c, out);
  }
  template <class Function, class T, class... Views>
  void map_at(Function f, element_block const& of, T* y, element_operand<Views>... views) const {
    cuda_kernels::map_at(launcher(), f, of, y, views...);
  }
  template <class Function, class... Rows>
  void rows(Function f, std::size_t count, std::size_t columns, Rows... operands) const {
    cuda_kernels::rows(launcher(), f, count, columns,
                       cuda_kernels::row_operand<std::remove_pointer_t<decltype(operands.data)>>{
                           operands.data, operands.stride}...);
  }
  template <class Function, class S, class... Operands>
  void accumulate_columns(Function f, std::size_t rows, std::size_t columns, S* sums,
                          Operands const*... operands) const {
    cuda_kernels::accumulate_columns(launcher(), f, rows, columns, sums,
                                     column_sums_scratch<S>(rows, columns, 1), operands...);
  }

  template <class T>
  void add_row(T const* row, T* y, std::size_t rows, std::size_t columns) const {
    cuda_kernels::add_row(launcher(), row, y, rows, columns);
  }
  template <class T, class S>
  void accumulate_column_sums(T const* dy, S* sums, std::size_t rows, std::size_t columns) const {
    cuda_kernels::accumulate_column_sums(launcher(), dy, sums,
                                         column_sums_scratch<S>(rows, columns, 1), rows, columns);
  }

  template <class T>
  void layer_norm(T const* x, T const* gamma, T const* beta, T* y, of_rows<T>* statistics,
                  std::size_t rows, std::size_t columns, double epsilon) const {
    cuda_kernels::layer_norm(launcher(), x, gamma, beta, y, statistics, rows, columns, epsilon);
  }
  template <class T>
  void layer_norm_backward_input(T const* dy, T const* x, of_rows<T> const* statistics,
                                 T const* gamma, T* dx, std::size_t rows,
                                 std::size_t columns) const {
    cuda_kernels::layer_norm_backward_input(launcher(), dy, x, statistics, gamma, dx, rows,
                                            columns);
  }
  template <class T, class S>
  void layer_norm_backward_parameters(T const* dy, T const* x, of_rows<T> const* statistics,
                                      S* dgamma, S* dbeta, std::size_t rows,
                                      std::size_t columns) const {
    cuda_kernels::layer_norm_backward_parameters(launcher(), dy, x, statistics, dgamma, dbeta,
                                                 column_sums_scratch<S>(rows, columns, 2), rows,
                                                 columns);
  }

  /// One kernel that reads dy and x once, if cuda_options::one_pass_layer_norm says so and the
  /// shape fits. If there is a sum it writes that and leaves dx as it is.
  template <class T, class S>
  void layer_norm_backward(T const* dy, T const* x, of_rows<T> const* statistics, T const* gamma,
                           T* dx, S* dgamma, S* dbeta, std::size_t rows, std::size_t columns,
                           T const* added = nullptr, T* sum = nullptr) const {
    if (state_->options.one_pass_layer_norm &&
        cuda_kernels::layer_norm_backward(launcher(), dy, x, statistics, gamma, added,
                                          sum != nullptr ? sum : dx, dgamma, dbeta,
                                          column_sums_scratch<S>(rows, columns, 2), rows, columns))
      return;
    layer_norm_backward_in_passes(*this, dy, x, statistics, gamma, dx, dgamma, dbeta, rows, columns,
                                  added, sum);
  }

  template <class T>
  void rms_norm(T const* x, T const* gamma, T* y, of_rows<T>* inverse, std::size_t rows,
                std::size_t columns, double epsilon) const {
    cuda_kernels::rms_norm(launcher(), x, gamma, y, inverse, rows, columns, epsilon);
  }
  template <class T>
  void rms_norm_backward_input(T const* dy, T const* x, of_rows<T> const* inverse, T const* gamma,
                               T* dx, std::size_t rows, std::size_t columns) const {
    cuda_kernels::rms_norm_backward_input(launcher(), dy, x, inverse, gamma, dx, rows, columns);
  }
  template <class T, class S>
  void rms_norm_backward_parameters(T const* dy, T const* x, of_rows<T> const* inverse, S* dgamma,
                                    std::size_t rows, std::size_t columns) const {
    cuda_kernels::rms_norm_backward_parameters(launcher(), dy, x, inverse, dgamma,
                                               column_sums_scratch<S>(rows, columns, 1), rows,
                                               columns);
  }

  /// Gets ready what attention of a shape needs once, its scratch memory with it.
  template <class T>
  void prepare_attention(std::size_t sequence, std::size_t batch, std::size_t heads,
                         std::size_t head_width) const {
    if constexpr (std::is_same_v<T, bfloat16>)
      if (auto* const engine = state_->attention({sequence, batch, heads, head_width})) {
        (void)scratch<std::byte>(engine->workspace_bytes());
        return;
      }
    (void)scratch<of_rows<T>>(cuda_kernels::attention_backward_scratch(sequence, batch, heads));
  }
  /// In bfloat16 the engine of cuda_options::attention does both passes of the shapes that it
  /// takes.
  template <class T>
  void attention(T const* qkv, T* out, of_rows<T>* log_sum, std::size_t sequence, std::size_t batch,
                 std::size_t heads, std::size_t head_width) const {
    if constexpr (std::is_same_v<T, bfloat16>)
      if (auto* const engine = state_->attention({sequence, batch, heads, head_width})) {
        device_scope const scope(state_->place);
        return engine->forward(qkv, out, log_sum, scratch<std::byte>(engine->workspace_bytes()),
                               stream());
      }
    cuda_kernels::attention(launcher(), qkv, out, log_sum, sequence, batch, heads, head_width);
  }
  template <class T>
  void attention_backward(T const* qkv, T const* out, of_rows<T> const* log_sum, T const* dout,
                          T* dqkv, std::size_t sequence, std::size_t batch, std::size_t heads,
                          std::size_t head_width) const {
    if constexpr (std::is_same_v<T, bfloat16>)
      if (auto* const engine = state_->attention({sequence, batch, heads, head_width})) {
        device_scope const scope(state_->place);
        return engine->backward(qkv, out, log_sum, dout, dqkv,
                                scratch<std::byte>(engine->workspace_bytes()), stream());
      }
    cuda_kernels::attention_backward(
        launcher(), qkv, out, log_sum, dout, dqkv,
        scratch<of_rows<T>>(cuda_kernels::attention_backward_scratch(sequence, batch, heads)),
        sequence, batch, heads, head_width);
  }

  /// The same for any attention, always by plait's own kernels.
  template <class T>
  void prepare_attention(attention_shape const& shape) const {
    if constexpr (std::is_same_v<T, bfloat16>) state_->attend_by_own_kernels(shape);
    (void)attention_products<T>(shape);
  }
  template <class T>
  void attention(attention_shape const& shape, attention_operands<T const> const& in, T* out,
                 of_rows<T>* log_sum) const {
    cuda_kernels::attention(launcher(), shape, in, out, log_sum);
  }
  template <class T>
  void attention_backward(attention_shape const& shape, attention_operands<T const> const& in,
                          T const* out, of_rows<T> const* log_sum, T const* dout,
                          attention_operands<T> const& gradient) const {
    cuda_kernels::attention_backward(launcher(), shape, in, out, log_sum, dout, gradient,
                                     attention_products<T>(shape));
  }

  template <class T>
  void gather_rows(std::int32_t const* ids, T const* table, std::size_t first_row,
                   std::size_t table_rows, T* out, std::size_t count, std::size_t columns) const {
    cuda_kernels::gather_rows(launcher(), ids, table, first_row, table_rows, out, count, columns);
  }
  template <class T, class S>
  void scatter_add_rows(std::int32_t const* ids, T const* dy, std::size_t first_row,
                        std::size_t table_rows, S* sums, std::size_t count,
                        std::size_t columns) const {
    cuda_kernels::scatter_add_rows(launcher(), ids, dy, first_row, table_rows, sums,
                                   scratch<std::uint32_t>(cuda_kernels::scatter_add_rows_workspace(
                                       launcher(), count, table_rows)),
                                   count, columns);
  }
  template <class T>
  void add_positions(T const* x, T const* table, T* y, std::size_t first, std::size_t positions,
                     std::size_t batch, std::size_t columns) const {
    cuda_kernels::add_positions(launcher(), x, table, y, first, positions, batch, columns);
  }
  template <class T, class S>
  void accumulate_positions(T const* dy, S* sums, std::size_t first, std::size_t positions,
                            std::size_t batch, std::size_t columns) const {
    cuda_kernels::accumulate_positions(launcher(), dy, sums, first, positions, batch, columns);
  }

  template <class T>
  void row_max(T const* x, of_rows<T>* max, std::size_t rows, std::size_t columns,
               std::size_t valid) const {
    cuda_kernels::row_max(launcher(), x, max, rows, columns, valid);
  }
  template <class Target, class T>
  void cross_entropy_terms(Target, T const* logits, std::int32_t const* labels,
                           of_rows<T> const* max, of_rows<T>* terms, std::size_t first_class,
                           std::size_t rows, std::size_t columns, std::size_t valid) const {
    cuda_kernels::cross_entropy_terms<Target>(launcher(), logits, labels, max, terms, first_class,
                                              rows, columns, valid);
  }
  /// One kernel that reads the logits once, if cuda_options::one_pass_cross_entropy says so.
  template <class Target, class T>
  void cross_entropy_statistics(Target target, T const* logits, std::int32_t const* labels,
                                of_rows<T>* max, of_rows<T>* terms, std::size_t rows,
                                std::size_t columns, std::size_t valid) const {
    if (state_->options.one_pass_cross_entropy)
      return cuda_kernels::cross_entropy_statistics<Target>(launcher(), logits, labels, max, terms,
                                                            rows, columns, valid);
    cross_entropy_statistics_in_passes(*this, target, logits, labels, max, terms, rows, columns,
                                       valid);
  }
  template <class Target, class A>
  void cross_entropy_sum(Target target, A const* terms, std::int32_t const* labels,
                         std::int32_t ignored, std::size_t rows, double const* scale,
                         double const* weights, double* loss) const {
    cuda_kernels::cross_entropy_sum(launcher(), terms, labels, ignored, rows, scale, loss, weights,
                                    target);
  }
  template <class Target, class T>
  void cross_entropy_backward(Target target, T const* logits, std::int32_t const* labels,
                              of_rows<T> const* max, of_rows<T> const* terms, double const* scale,
                              double const* weights, T* dlogits, std::size_t first_class,
                              std::int32_t ignored, std::size_t rows, std::size_t columns,
                              std::size_t valid) const {
    cuda_kernels::cross_entropy_backward(launcher(), logits, labels, max, terms, scale, dlogits,
                                         first_class, ignored, rows, columns, valid, weights,
                                         target);
  }

  /// True if a loss is made together with its gradient.
  [[nodiscard]] bool loss_with_gradient() const { return state_->options.loss_with_gradient; }
  template <class Target, class T>
  void cross_entropy_with_gradient(Target target, T const* logits, std::int32_t const* labels,
                                   of_rows<T>* terms, double const* scale, double const* weights,
                                   double* loss, T* dlogits, std::int32_t ignored, std::size_t rows,
                                   std::size_t columns, std::size_t valid) const {
    cuda_kernels::cross_entropy_with_gradient(launcher(), logits, labels, terms, scale, dlogits,
                                              ignored, rows, columns, valid, weights, target);
    cross_entropy_sum(target, terms, labels, ignored, rows, scale, weights, loss);
  }

  template <class T>
  void dropout(T const* x, T* y, std::size_t rows, std::size_t columns, dropout_key key,
               double probability, dropout_block const& block) const {
    cuda_kernels::dropout(launcher(), x, y, rows, columns, key,
                          host_maths::dropout_threshold(probability), 1.0 / (1.0 - probability),
                          block);
  }

  template <class T, class Gradient, class Copy>
  void adamw(optimizer_arena<T, Gradient, Copy> const& of, adamw_constants const& fixed,
             adamw_numbers const* now) const {
    cuda_kernels::adamw(launcher(), of.parameters, of.gradients, of.states,
                        of.states + of.state_stride, of.count, of.ranges, of.range_count, fixed,
                        now, of.gradient_scale, of.copies);
  }
  template <class T, class Gradient, class Copy>
  void sgd(optimizer_arena<T, Gradient, Copy> const& of, sgd_constants const& fixed,
           sgd_numbers const* now) const {
    cuda_kernels::sgd(launcher(), of.parameters, of.gradients, of.states, of.count, of.ranges,
                      of.range_count, fixed, now, of.gradient_scale, of.copies);
  }

  template <class T>
  void average(T const* x, T* average, std::size_t count, double decay,
               double const* gradient_scale) const {
    cuda_kernels::average(launcher(), x, average, count, decay, gradient_scale);
  }

  template <class T>
  void sums_of_squares(T const* x, squares_range const* ranges, int range_count,
                       double* out) const {
    auto const count = static_cast<std::size_t>(range_count);
    cuda_kernels::sum_of_squares(launcher(), x, ranges, count,
                                 scratch<double>(cuda_kernels::squares_workspace(count)), out);
  }
  void divide(double number, double const* count, double* out) const {
    cuda_kernels::divide(launcher(), number, count, out);
  }
  void clip(double const* squares, std::size_t count, double limit, double* norm,
            double* factor) const {
    cuda_kernels::clip_factor(launcher(), squares, count, limit, norm, factor);
  }
  void check_finite(double const* loss, double const* norm, double* factor) const {
    cuda_kernels::check_finite(launcher(), loss, norm, factor);
  }

  /// Until the stream is empty: for a kernel given to run() that needs a value on the host.
  ///
  /// Errors: cuda_error while a step is recorded as a graph; those of the device's synchronize().
  void wait() const {
    state_->require_no_value();
    state_->wait_for_stream(on_);
  }

  /// Calls kernel(*this, views...), which may launch kernels of its own on stream().
  ///
  /// Errors: cuda_error that says why, if the kernel did what a recorded step cannot contain.
  template <class Kernel, class... Views>
  void run(Kernel kernel, Views... views) const {
    constexpr bool can_be_called = std::is_invocable_v<Kernel&, cuda_queue const&, Views...>;
    static_assert(typing::sound_kernel<Kernel, can_be_called>);
    device_scope const scope(state_->place);
    try {
      if constexpr (can_be_called) kernel(*this, views...);
    } catch (std::exception const&) {
      state_->require_capture_goes_on(on_);  // libraries have names of their own for that
      throw;
    }
    state_->require_capture_goes_on(on_);
    detail::check(cudaGetLastError(), "a launch in ops.run", state_->place);
  }

 private:
  bool run_product(detail::matrix_product const& what, void const* a, void const* b, void* c,
                   detail::epilogue_operands const& more) const {
    if (!state_->products.knows(what))
      state_->require_no_capture("a matrix product of a new shape was asked for");
    return state_->products.run(what, a, b, c, more, state_->workspace(on_), stream());
  }
  template <class T>
  of_rows<T>* attention_products(attention_shape const& shape) const {
    return scratch<of_rows<T>>(
        cuda_kernels::attention_backward_scratch(shape.sequence, shape.batch, shape.heads));
  }
  template <class U>
  U* scratch(std::size_t count) const {
    return reinterpret_cast<U*>(state_->scratch(on_, count * sizeof(U)));
  }
  template <class S>
  S* column_sums_scratch(std::size_t rows, std::size_t columns, int sums) const {
    if (columns == 0) return nullptr;
    std::size_t const count = cuda_kernels::column_sums_workspace(rows, columns, sums);
    return count == 0 ? nullptr : scratch<S>(count);
  }
};

}  // namespace plait::ext
