// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/products/matrix_products.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::detail {

// An epilogue (a computation on the result of a product) in cuBLASLt's terms;
// CUBLASLT_EPILOGUE_DEFAULT if the library has no suitable epilogue.
struct library_epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  epilogue_operands operands{};
};

// Translates an epilogue. A row, and values before gelu, must be aligned to 16 bytes; cuBLASLt's
// heuristic does not check this. The library's gelu is the tanh form with the accuracy of bfloat16,
// so it is used only for bfloat16. The library's relu is not used: its result for NaN is not
// documented, and relu of plait keeps NaN.
template <class T, class Function>
library_epilogue library_epilogue_of(epilogue<T, Function> const& then, T* c, std::size_t columns,
                                     bool fuses_gelu) {
  auto const is_aligned = [](T const* data) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  };
  bool const adds = then.row != nullptr;
  if (std::is_same_v<T, double> || !is_aligned(then.row)) return {};
  if constexpr (std::is_same_v<Function, no_function>) {
    if (adds) return {CUBLASLT_EPILOGUE_BIAS, {.row = then.row}};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    bool const fits = fuses_gelu && columns % 8 == 0;
    if constexpr (std::is_same_v<Function, functions::gelu_tanh>)
      if (fits && is_aligned(c) && then.mapped != c)  // cuBLASLt writes both c and mapped
        return {adds ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX,
                {.row = then.row, .before = c}};
    if constexpr (std::is_same_v<Function, functions::gelu_tanh_derivative>)
      if (fits && !adds && is_aligned(then.kept))
        return {CUBLASLT_EPILOGUE_DGELU, {.before = then.kept}};
  }
  return {};
}

}  // namespace plait::detail
