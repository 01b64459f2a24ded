// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/cuda/cuda_headers.hpp"
#include "plait/backend/cuda/matrix_products.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::detail {

// An epilogue as cuBLASLt knows it; CUBLASLT_EPILOGUE_DEFAULT if it has none of that kind.
struct library_epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  epilogue_operands operands{};
};

// The library's gelu is the tanh form in the accuracy of bfloat16, so it stands for ours only
// there. Its values before gelu have to be aligned, in rows of a multiple of 8.
template <class T, class Function>
library_epilogue library_epilogue_of(epilogue<T, Function> const& then, T* c, std::size_t columns) {
  if constexpr (std::is_same_v<T, double>) return {};
  bool const adds = then.row != nullptr;
  [[maybe_unused]] auto const is_aligned = [columns](T const* before) {
    return reinterpret_cast<std::uintptr_t>(before) % 16 == 0 && columns % 8 == 0;
  };
  if constexpr (std::is_same_v<Function, no_function>) {
    if (adds) return {CUBLASLT_EPILOGUE_BIAS, {.row = then.row}};
  } else if constexpr (std::is_same_v<Function, functions::relu>) {
    if (then.mapped == c)
      return {adds ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU, {.row = then.row}};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    if constexpr (std::is_same_v<Function, functions::gelu_tanh>)
      if (is_aligned(c))
        return {adds ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX,
                {.row = then.row, .before = c}};
    if constexpr (std::is_same_v<Function, functions::gelu_tanh_derivative>)
      if (!adds && is_aligned(then.kept)) return {CUBLASLT_EPILOGUE_DGELU, {.before = then.kept}};
  }
  return {};
}

}  // namespace plait::detail
