// SPDX-License-Identifier: Apache-2.0
// Implements cuBLASLt for pretended devices.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "backend/cuda/pretended_device.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/tensor/functions.hpp"

namespace pretended {

struct product_description {
  std::int32_t transposed[2] = {0, 0};
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* row = nullptr;  // a row that is read, or that the sums of an operand are written to
  std::int32_t row_type = -1;
  void* before = nullptr;
  std::int64_t before_stride = 0;
};
constexpr int offers = 3;

/// The alignments and the workspace that the caller promised before the library offered an
/// algorithm; its kernels rely on them.
struct preference {
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // the alignments of a, b, c and d, in bytes
  std::uint64_t workspace_bytes = 0;
};
/// An offer: a number, and the preference that it relies on.
struct offered_algorithm {
  std::uint64_t number = 0;
  preference relies_on{};
};
inline bool sums_an_operand(product_description const& about) {
  return about.epilogue == CUBLASLT_EPILOGUE_BGRADA || about.epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

struct matrix_layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t stride;
};
template <class To, class Opaque>
To& inside(Opaque* opaque) {
  static_assert(sizeof(To) <= sizeof(opaque->data));
  return *reinterpret_cast<To*>(opaque->data);
}

inline double element(matrix_layout const& of, void const* data, std::size_t row,
                      std::size_t column) {
  auto const at = row + column * static_cast<std::size_t>(of.stride);
  if (of.type == CUDA_R_64F) return static_cast<double const*>(data)[at];
  if (of.type == CUDA_R_32F) return static_cast<double>(static_cast<float const*>(data)[at]);
  return static_cast<double>(static_cast<float>(static_cast<plait::bfloat16 const*>(data)[at]));
}
inline void set_element(matrix_layout const& of, void* data, std::size_t row, std::size_t column,
                        double value) {
  auto const at = row + column * static_cast<std::size_t>(of.stride);
  if (of.type == CUDA_R_64F) static_cast<double*>(data)[at] = value;
  else if (of.type == CUDA_R_32F) static_cast<float*>(data)[at] = static_cast<float>(value);
  else static_cast<plait::bfloat16*>(data)[at] = static_cast<plait::bfloat16>(value);
}

// Applies the epilogue to one element of the product, as the library does.
inline double apply_epilogue(product_description const& about, matrix_layout const& of,
                             std::size_t row, std::size_t column, double value) {
  auto before = of;
  before.stride = about.before_stride;
  if (about.row != nullptr && !sums_an_operand(about)) value += element(of, about.row, row, 0);
  switch (about.epilogue) {
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      set_element(before, about.before, row, column, value);
      return plait::functions::gelu_tanh{}(value);
    case CUBLASLT_EPILOGUE_DGELU:
      return plait::functions::gelu_tanh_derivative{}(element(before, about.before, row, column),
                                                      value);
    default: return value;
  }
}

}  // namespace pretended

extern "C" {

std::size_t cublasLtGetVersion(void) { return 0; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return *handle = reinterpret_cast<cublasLtHandle_t>(new int), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return delete reinterpret_cast<int*>(handle), CUBLAS_STATUS_SUCCESS;
}
char const* cublasLtGetStatusString(cublasStatus_t) { return "a pretended status"; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t,
                                        cudaDataType_t) {
  return *out = new cublasLtMatmulDescOpaque_t{}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t what) {
  return delete what, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t what,
                                              cublasLtMatmulDescAttributes_t which,
                                              void const* value, std::size_t bytes) {
  auto* const about = &pretended::inside<pretended::product_description>(what);
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: std::memcpy(&about->transposed[0], value, bytes); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: std::memcpy(&about->transposed[1], value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: std::memcpy(&about->epilogue, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: std::memcpy(&about->row, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: std::memcpy(&about->row_type, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      std::memcpy(&about->before, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      std::memcpy(&about->before_stride, value, bytes);
      break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  if (stride < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *out = new cublasLtMatrixLayoutOpaque_t{};
  pretended::inside<pretended::matrix_layout>(*out) = {type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t what) {
  return delete what, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  *out = new cublasLtMatmulPreferenceOpaque_t{};
  pretended::inside<pretended::preference>(*out) = {};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t what) {
  return delete what, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t what,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    void const* value, std::size_t bytes) {
  auto& about = pretended::inside<pretended::preference>(what);
  void* to = nullptr;
  std::size_t size = sizeof(std::uint32_t);
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: to = &about.alignment[0]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: to = &about.alignment[1]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: to = &about.alignment[2]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: to = &about.alignment[3]; break;
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      to = &about.workspace_bytes;
      size = sizeof about.workspace_bytes;
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return CUBLAS_STATUS_SUCCESS;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t what,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t of_d,
                                              cublasLtMatmulPreference_t preferred, int most,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  auto const& about = pretended::inside<pretended::product_description>(what);
  bool const plain = about.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (pretended::sums_an_operand(about) &&
      (about.row == nullptr || !pretended::knows_sums ||
       about.row_type != pretended::inside<pretended::matrix_layout>(of_d).type))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool const takes = pretended::takes_products && (plain || pretended::knows_epilogues);
  *found = takes ? std::min(most, pretended::offers) : 0;
  for (int i = 0; i < *found; ++i)
    pretended::inside<pretended::offered_algorithm>(&results[i].algo) = {
        static_cast<std::uint64_t>(i), pretended::inside<pretended::preference>(preferred)};
  return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
static std::size_t bytes_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t what, void const* alpha,
                              void const* a, cublasLtMatrixLayout_t of_a, void const* b,
                              cublasLtMatrixLayout_t of_b, void const* beta, void const* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t of_d,
                              cublasLtMatmulAlgo_t const* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  using namespace pretended;
  auto const by_which = inside<offered_algorithm const>(algorithm);
  if (by_which.number < static_cast<std::uint64_t>(refuses.load()))
    return CUBLAS_STATUS_INTERNAL_ERROR;
  last_algorithm = static_cast<int>(by_which.number);
  ms_of_products = ms_of_products + (last_algorithm == fastest ? 1.0f : 2.0f);
  auto const about = inside<product_description>(what);
  auto const la = inside<matrix_layout>(of_a), lb = inside<matrix_layout>(of_b),
             ld = inside<matrix_layout>(of_d);
  bool const wide = la.type == CUDA_R_64F;
  auto const scalar = [wide](void const* at) {
    return wide ? *static_cast<double const*>(at)
                : static_cast<double>(*static_cast<float const*>(at));
  };
  double const by = scalar(alpha), add = scalar(beta);
  std::size_t const m = about.transposed[0] ? la.columns : la.rows,
                    k = about.transposed[0] ? la.rows : la.columns,
                    n = about.transposed[1] ? lb.rows : lb.columns,
                    kb = about.transposed[1] ? lb.columns : lb.rows;
  if (m != ld.rows || n != ld.columns || k != kb) return CUBLAS_STATUS_INVALID_VALUE;
  void const* const operands[] = {a, b, c, d};
  for (std::size_t i = 0; i < std::size(operands); ++i)
    if (reinterpret_cast<std::uintptr_t>(operands[i]) % by_which.relies_on.alignment[i] != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes < by_which.relies_on.workspace_bytes ||
      (workspace_bytes > 0 && reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  // Values before gelu are stored in whole packs of eight, at least as long as the result's
  // columns.
  if (about.before != nullptr &&
      (about.before_stride % 8 != 0 || about.before_stride < static_cast<std::int64_t>(m) ||
       reinterpret_cast<std::uintptr_t>(about.before) % 16 != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool const gelu = about.epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
                    about.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if ((about.row != nullptr && reinterpret_cast<std::uintptr_t>(about.row) % 16 != 0) ||
      (gelu && about.before == d))
    return CUBLAS_STATUS_EXECUTION_FAILED;  // a device would read or write outside of the operands
  added_matrices += add != 0 && c != d;
  epilogues += about.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  lock const hold(machine::get().mutex);
  std::size_t const of_result = bytes_of(ld.type) * m * n;
  counted_work const what_is_done{
      nullptr,
      "product",
      {m, n, k, bytes_of(la.type) * (m * k + k * n), of_result,
       (add == 0 ? 0 : of_result) + (about.before == nullptr ? 0 : of_result),
       static_cast<std::size_t>(about.epilogue)}};
  auto const code = enqueue(stream, what_is_done, [=] {
    auto const element_of_a = [&](std::size_t i, std::size_t p) {
      return about.transposed[0] ? element(la, a, p, i) : element(la, a, i, p);
    };
    auto const element_of_b = [&](std::size_t p, std::size_t j) {
      return about.transposed[1] ? element(lb, b, j, p) : element(lb, b, p, j);
    };
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = 0; i < m; ++i) {
        double sum = 0;
        for (std::size_t p = 0; p < k; ++p) sum += element_of_a(i, p) * element_of_b(p, j);
        double const value = by * sum + (add == 0 ? 0.0 : add * element(ld, c, i, j));
        set_element(ld, d, i, j, apply_epilogue(about, ld, i, j, value));
      }
    bool const rows = about.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (std::size_t i = 0; sums_an_operand(about) && i < (rows ? m : n); ++i) {
      double sum = 0;
      for (std::size_t p = 0; p < k; ++p) sum += rows ? element_of_a(i, p) : element_of_b(p, i);
      static_cast<float*>(about.row)[i] = static_cast<float>(sum);  // overwrites the earlier value
    }
    // The library uses its workspace.
    std::memset(workspace, 0xff, std::min(workspace_bytes, std::size_t{1} << 10));
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
