// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/cuda_launcher.hpp"
#include "plait/backend/cuda/device/cuda_state.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/cuda/kernels/product.hpp"
#include "plait/backend/cuda/products/library_epilogue.hpp"
#include "plait/backend/cuda/products/matrix_products.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"

namespace plait::ext {

/// The part of cuda_queue that computes matrix products, with its stream and scratch memory.
template <class Queue>
class cuda_products {
  template <class T>
  using in = matrix<T const>;  // an operand that is only read

 public:
  /// Returns the stream, and the launcher, for kernels of users; see cuda_queue::run().
  [[nodiscard]] cudaStream_t stream() const { return state_->on(on_); }
  [[nodiscard]] cuda_launcher launcher() const { return {state_->place, stream()}; }

  /// Computes a matrix product, whose result may be float if the operands are bfloat16. For shapes
  /// that cuBLASLt refuses, plait uses its own kernel, which is slow.
  template <class A, class C>
  void run(operation::matmul, in<A> a, in<A> b, matrix<C> c, transposes lie,
           bool accumulate) const {
    static_assert(std::is_same_v<A, C> || (std::is_same_v<A, bfloat16> && std::is_same_v<C, float>),
                  "matmul on a CUDA device: the result must have the type of the operands, or "
                  "float if the operands are bfloat16");
    std::size_t const m = c.rows, n = c.columns, k = inner_of(a, lie);
    if (m == 0 || n == 0) return;
    device_scope const scope(state_->place);
    if (k == 0) {
      if (!accumulate)
        detail::check(
            cudaMemset2DAsync(c.data, c.stride * sizeof(C), 0, n * sizeof(C), m, stream()),
            "cudaMemset2DAsync", state_->place);
      return;
    }
    if (!run_product(product_of(a, b, c, lie, accumulate), a.data, b.data, c.data, {}))
      cuda_kernels::product(launcher(), cuda_kernels::product_operands<A, C>{
                                            lie.a, lie.b, accumulate, m, n, k, a.data, a.stride,
                                            b.data, b.stride, c.data, c.stride});
  }
  /// Computes a matrix product and an epilogue. cuBLASLt computes the epilogue if it can: it adds a
  /// row and a matrix, and in bfloat16 it applies gelu or its derivative. Otherwise kernels of
  /// plait compute it after the product.
  template <class T, class Function>
  void run(operation::matmul, in<T> a, in<T> b, matrix<T> c, transposes lie,
           epilogue<T, Function> const& then) const {
    std::size_t const n = c.columns;
    if (c.count() * inner_of(a, lie) != 0) {
      device_scope const scope(state_->place);
      auto const try_library = [&](detail::library_epilogue const& with, T* result) {
        auto const* const added = static_cast<T const*>(with.operands.added);
        if (with.kind == CUBLASLT_EPILOGUE_DEFAULT && added == nullptr) return false;
        auto what = product_of(a, b, matrix<T>{result, c.rows, n}, lie, added != nullptr);
        what.epilogue = with.kind;
        what.align_to(added);
        return run_product(what, a.data, b.data, result, with.operands);
      };
      bool const fuses_gelu = state_->products.fuses_gelu();
      if constexpr (epilogue<T, Function>::maps)
        if (then.added == nullptr &&
            try_library(detail::library_epilogue_of(then, c.data, n, fuses_gelu), then.mapped))
          return;
      auto with_row =
          detail::library_epilogue_of(epilogue<T>{.row = then.row}, c.data, n, fuses_gelu);
      bool const takes_row = then.row == nullptr || with_row.kind != CUBLASLT_EPILOGUE_DEFAULT;
      if (takes_row && state_->products.fuses_residuals()) with_row.operands.added = then.added;
      if (try_library(with_row, c.data)) {
        auto left = then;
        if (with_row.operands.added != nullptr) left.added = nullptr;
        run_epilogue(queue(), c.count(), c.data, left);
        return;
      }
    }
    matmul_in_passes(queue(), a, b, c, lie, then);
  }
  /// Computes a matrix product and sums over an operand, which are the gradient of a bias. With
  /// cuda_options::fused_bias_gradient, and operands in bfloat16, cuBLASLt computes the sums in
  /// float together with the product, and a small kernel adds them to the existing sums.
  template <class A, class C, class S>
  void run(operation::matmul, in<A> a, in<A> b, matrix<C> c, transposes lie, bool accumulate,
           operand_sums<S> const& with) const {
    if constexpr (std::is_same_v<A, bfloat16> && std::is_same_v<C, float> &&
                  std::is_same_v<S, float>) {
      auto what = product_of(a, b, c, lie, accumulate);
      what.epilogue = with.of_a ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
      if (c.count() * inner_of(a, lie) != 0 && state_->products.fuses_sums(what)) {
        device_scope const scope(state_->place);
        auto* const made = reinterpret_cast<float*>(state_->workspace(on_));
        if (run_product(what, a.data, b.data, c.data, {.sums = made})) {
          cuda_kernels::add(launcher(), with.sums, made, with.sums, with.of_a ? c.rows : c.columns);
          return;
        }
      }
    }
    matmul_and_sums_in_passes(queue(), a, b, c, lie, accumulate, with);
  }

 protected:
  cuda_products(detail::cuda_state& state, plait::ext::stream on) : state_(&state), on_(on) {}

  template <class U>
  U* scratch(std::size_t count) const {
    return reinterpret_cast<U*>(state_->scratch(on_, count * sizeof(U)));
  }

  detail::cuda_state* state_;
  plait::ext::stream on_;

 private:
  [[nodiscard]] Queue const& queue() const { return static_cast<Queue const&>(*this); }
  template <class A>
  static std::size_t inner_of(in<A> a, transposes lie) {
    return lie.a ? a.rows : a.columns;
  }
  template <class A, class C>
  static detail::matrix_product product_of(in<A> a, in<A> b, matrix<C> c, transposes lie,
                                           bool accumulate) {
    return detail::product_of<A, C>(lie.a, lie.b, c.rows, c.columns, inner_of(a, lie), a.data,
                                    a.stride, b.data, b.stride, accumulate, c.data, c.stride);
  }
  bool run_product(detail::matrix_product const& what, void const* a, void const* b, void* c,
                   detail::epilogue_operands const& more) const {
    if (!state_->products.knows(what))
      state_->require_no_capture("a matrix product of a new shape was asked for");
    return state_->products.run(what, a, b, c, more, state_->workspace(on_), stream());
  }
};

}  // namespace plait::ext
