// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "plait/backend/host/maths/attention.hpp"
#include "plait/backend/host/maths/cross_entropy.hpp"
#include "plait/backend/host/maths/dropout.hpp"
#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/embedding.hpp"
#include "plait/backend/host/maths/matmul.hpp"
#include "plait/backend/host/maths/optimizer.hpp"
#include "plait/backend/host/maths/rowwise.hpp"
#include "plait/tensor/functions.hpp"
#include "plait/tensor/view.hpp"

namespace plait {

/// A rank's share of the processor: every operation runs at once, on the calling thread.
///
/// The members are what `operations` needs of a device; they take plain pointers to its memory.
/// Threads: one thread per device object.
struct host_device {
  using memory = host_memory;
  using dropout_block = host_maths::dropout_block;
  using adamw_step = host_maths::adamw_step;
  using sgd_step = host_maths::sgd_step;

  /// Bytes of the device's memory, aligned to 64, freed with the object; zeros at first.
  class arena {
   public:
    explicit arena(std::size_t bytes = 0) : bytes_(bytes) {
      if (bytes == 0) return;
      data_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64})));
      std::memset(data_.get(), 0, bytes);
    }
    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] std::size_t size() const { return bytes_; }

   private:
    struct release {
      void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t{64}); }
    };
    std::unique_ptr<std::byte, release> data_;
    std::size_t bytes_ = 0;
  };

  /// Copies host memory to device memory, or back; here both are the same.
  void copy_bytes(void const* from, void* to, std::size_t bytes) const {
    if (bytes != 0 && from != to) std::memcpy(to, from, bytes);
  }
  /// Returns when all that was asked for is done.
  void synchronize() const {}

  template <class T>
  void fill(T value, T* y, std::size_t count) const {
    host_maths::fill(value, y, count);
  }
  template <class T>
  void add(T const* a, T const* b, T* out, std::size_t count) const {
    host_maths::add(a, b, out, count);
  }

  /// Copies `count` blocks of `block` elements with strides between them.
  template <class T>
  void copy_blocks(T const* from, std::size_t from_stride, T* to, std::size_t to_stride,
                   std::size_t count, std::size_t block) const {
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(to + i * to_stride, from + i * from_stride, block * sizeof(T));
  }

  template <class T>
  void matmul(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
              T const* a, std::size_t lda, T const* b, std::size_t ldb, bool accumulate, T* c,
              std::size_t ldc) const {
    host_maths::matmul<T>(static_cast<host_maths::transpose>(a_transposed),
                          static_cast<host_maths::transpose>(b_transposed), m, n, k, T{1}, a, lda,
                          b, ldb, accumulate ? T{1} : T{0}, c, ldc);
  }

  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T* out) const {
    host_maths::map(f, a, out, count);
  }
  template <class Function, class T>
  void map(Function f, std::size_t count, T const* a, T const* b, T* out) const {
    host_maths::map(f, a, b, out, count);
  }

  /// Calls f(columns, row of each operand...) for every row; a stride of 0 repeats a row.
  template <class Function, class... Rows>
  void rows(Function f, std::size_t count, std::size_t columns, Rows... operands) const {
    for (std::size_t r = 0; r < count; ++r) f(columns, operands.data + r * operands.stride...);
  }

  /// sums[c] += the sum over the rows of f(operands[r][c]...), in row order.
  template <class Function, class T, class... Operands>
  void accumulate_columns(Function f, std::size_t rows, std::size_t columns, T* sums,
                          Operands const*... operands) const {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) sums[c] += f(operands[r * columns + c]...);
  }

  template <class T>
  void add_row(T const* row, T* y, std::size_t rows, std::size_t columns) const {
    host_maths::add_row(row, y, rows, columns);
  }
  template <class T>
  void accumulate_column_sums(T const* dy, T* sums, std::size_t rows, std::size_t columns) const {
    host_maths::accumulate_column_sums(dy, sums, rows, columns);
  }

  template <class T>
  void layer_norm(T const* x, T const* gamma, T const* beta, T* y, T* statistics, std::size_t rows,
                  std::size_t columns, double epsilon) const {
    host_maths::layer_norm_forward(x, gamma, beta, y, statistics, rows, columns,
                                   static_cast<T>(epsilon));
  }
  template <class T>
  void layer_norm_backward_input(T const* dy, T const* x, T const* statistics, T const* gamma,
                                 T* dx, std::size_t rows, std::size_t columns) const {
    host_maths::layer_norm_backward_input(dy, x, statistics, gamma, dx, rows, columns);
  }
  template <class T>
  void layer_norm_backward_parameters(T const* dy, T const* x, T const* statistics, T* dgamma,
                                      T* dbeta, std::size_t rows, std::size_t columns) const {
    host_maths::layer_norm_backward_parameters(dy, x, statistics, dgamma, dbeta, rows, columns);
  }

  template <class T>
  void attention(T const* qkv, T* out, T* log_sum, T* scratch, std::size_t sequence,
                 std::size_t batch, std::size_t heads, std::size_t head_width) const {
    host_maths::attention_forward(qkv, out, log_sum, scratch, sequence, batch, heads, head_width);
  }
  template <class T>
  void attention_backward(T const* qkv, T const* out, T const* log_sum, T const* dout, T* dqkv,
                          T* scratch, std::size_t sequence, std::size_t batch, std::size_t heads,
                          std::size_t head_width) const {
    host_maths::attention_backward(qkv, out, log_sum, dout, dqkv, scratch, sequence, batch, heads,
                                   head_width);
  }

  template <class T>
  void gather_rows(std::int32_t const* ids, T const* table, std::size_t first_row,
                   std::size_t table_rows, T* out, std::size_t count, std::size_t columns) const {
    host_maths::gather_rows(ids, table, first_row, table_rows, out, count, columns);
  }
  template <class T>
  void scatter_add_rows(std::int32_t const* ids, T const* dy, std::size_t first_row,
                        std::size_t table_rows, T* sums, std::size_t count,
                        std::size_t columns) const {
    host_maths::scatter_add_rows(ids, dy, first_row, table_rows, sums, count, columns);
  }
  template <class T>
  void add_positions(T const* x, T const* table, T* y, std::size_t first, std::size_t positions,
                     std::size_t batch, std::size_t columns) const {
    host_maths::add_positions(x, table, y, first, positions, batch, columns);
  }
  template <class T>
  void accumulate_positions(T const* dy, T* sums, std::size_t first, std::size_t positions,
                            std::size_t batch, std::size_t columns) const {
    host_maths::accumulate_positions(dy, sums, first, positions, batch, columns);
  }

  template <class T>
  void row_max(T const* x, T* max, std::size_t rows, std::size_t columns) const {
    host_maths::row_max(x, max, rows, columns);
  }
  template <class T>
  void cross_entropy_terms(T const* logits, std::int32_t const* labels, T const* max, T* terms,
                           std::size_t first_class, std::size_t rows, std::size_t columns) const {
    host_maths::cross_entropy_terms(logits, labels, max, terms, first_class, rows, columns);
  }
  /// Adds scale times the loss of all rows to *loss.
  template <class T>
  void cross_entropy_sum(T const* terms, std::int32_t const* labels, std::int32_t ignored,
                         std::size_t rows, double scale, double* loss) const {
    *loss += scale * host_maths::cross_entropy_sum(terms, labels, ignored, rows);
  }
  template <class T>
  void cross_entropy_backward(T const* logits, std::int32_t const* labels, T const* max,
                              T const* terms, double scale, T* dlogits, std::size_t first_class,
                              std::int32_t ignored, std::size_t rows, std::size_t columns) const {
    host_maths::cross_entropy_backward(logits, labels, max, terms, static_cast<T>(scale), dlogits,
                                       first_class, ignored, rows, columns);
  }

  template <class T>
  void dropout(T const* x, T* y, std::size_t rows, std::size_t columns, random_key key,
               double probability, host_maths::dropout_block const& block) const {
    host_maths::dropout(x, y, rows, columns, key, host_maths::dropout_threshold(probability),
                        static_cast<T>(1.0 / (1.0 - probability)), block);
  }

  template <class T>
  void adamw(T* parameter, T const* gradient, T* first, T* second, std::size_t count,
             host_maths::adamw_step const& step) const {
    host_maths::adamw_update(parameter, gradient, first, second, count, step);
  }
  template <class T>
  void sgd(T* parameter, T const* gradient, T* momentum, std::size_t count,
           host_maths::sgd_step const& step) const {
    host_maths::sgd_update(parameter, gradient, momentum, count, step);
  }
  /// Sets *out to the sum of squares.
  template <class T>
  void sum_of_squares(T const* x, std::size_t count, double* out) const {
    *out = host_maths::sum_of_squares(x, count);
  }
};

}  // namespace plait
