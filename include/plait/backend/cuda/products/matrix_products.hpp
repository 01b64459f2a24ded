// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/cuda/cuda_options.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_handles.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/stable_sort.hpp"

namespace plait::detail {

template <class T>
constexpr cudaDataType_t cuda_data_type() {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, bfloat16>,
      "matmul on a CUDA device: the elements must be float, double or plait::bfloat16");
  if constexpr (std::is_same_v<T, double>) return CUDA_R_64F;
  else if constexpr (std::is_same_v<T, bfloat16>) return CUDA_R_16BF;
  else return CUDA_R_32F;
}

// The description of one matrix product, with row-major matrices: c = a b, optionally plus the old
// c or plus another matrix with the layout of c.
struct matrix_product {
  std::size_t m = 0, n = 0, k = 0;
  std::size_t lda = 0, ldb = 0, ldc = 0;
  bool a_transposed = false, b_transposed = false, accumulate = false;
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  std::array<unsigned, 3> alignment{};  // alignments of a, b and c, in bytes
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;

  friend auto operator<=>(matrix_product const&, matrix_product const&) = default;

  // Returns the greatest power of two up to 16 that divides an address. No kernel needs a larger
  // alignment, and the choice of a kernel, which affects the last bits of results, should not
  // depend on larger powers.
  static unsigned alignment_of(void const* data) {
    auto const address = reinterpret_cast<std::uintptr_t>(data) | 16u;
    return static_cast<unsigned>(address & (~address + 1));
  }

  // Lowers the alignment of c to the alignment of `added`, the matrix that is added to the product
  // in place of the old c. If `added` is null, changes nothing.
  void align_to(void const* added) {
    if (added != nullptr) alignment[2] = std::min(alignment[2], alignment_of(added));
  }

  // Returns the size of the part of the workspace, at its beginning, in which the library writes
  // the sums over an operand; 0 if the epilogue has no sums. It is rounded up, so that the rest of
  // the workspace stays aligned.
  std::size_t sums_bytes() const {
    std::size_t const count = epilogue == CUBLASLT_EPILOGUE_BGRADA   ? n
                              : epilogue == CUBLASLT_EPILOGUE_BGRADB ? m
                                                                     : 0;
    return (count * sizeof(float) + 255) / 256 * 256;
  }

  std::string text() const {
    return concat({"cublasLtMatmul (", m, ", ", k, ") x (", k, ", ", n, ")"});
  }
};

template <class A, class C>
matrix_product product_of(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n,
                          std::size_t k, A const* a, std::size_t lda, A const* b, std::size_t ldb,
                          bool accumulate, C* c, std::size_t ldc) {
  auto const aligned = matrix_product::alignment_of;
  return {.m = m,
          .n = n,
          .k = k,
          .lda = lda,
          .ldb = ldb,
          .ldc = ldc,
          .a_transposed = a_transposed,
          .b_transposed = b_transposed,
          .accumulate = accumulate,
          .in = cuda_data_type<A>(),
          .out = cuda_data_type<C>(),
          .alignment = {aligned(a), aligned(b), aligned(c)}};
}

// The operands of an epilogue in addition to c. `added`: the matrix that is added in place of the
// old c. `row`: the row that is added to each row. `before`: the values before a function or its
// derivative, in the layout of c. `sums`: the sums over an operand, at the beginning of the
// workspace.
struct epilogue_operands {
  void const* added = nullptr;
  void const* row = nullptr;
  void const* before = nullptr;
  float* sums = nullptr;
};

// Computes the matrix products of one rank with cuBLASLt. For each shape it requests the library's
// algorithms once and keeps the first that runs, or the fastest if the options say so; therefore
// equal products are always computed by the same algorithm. The library is column-major, so it gets
// the transposed problem: c^T = b^T a^T.
class matrix_products {
 public:
  matrix_products(cuda_place at, cuda_options const& how)
      : at_(at),
        tf32_(how.tf32),
        times_(how.time_products),
        fuses_sums_(how.fused_bias_gradient),
        fuses_residuals_(how.fused_residual),
        workspace_bytes_(how.workspace_bytes) {
    cublasLtHandle_t handle = nullptr;
    check(cublasLtCreate(&handle), "cublasLtCreate", at_);
    handle_.reset(handle);
    cudaDeviceProp about{};
    check(cudaGetDeviceProperties(&about, at_.device), "cudaGetDeviceProperties", at_);
    // On GPUs other than Hopper, measurements showed that the library's gelu is a separate pass,
    // slower than plait's gelu (pull request 653 of llm.c, which now turns it off everywhere).
    fuses_gelu_ = how.fused_gelu && about.major == 9;
  }

  // Returns true if the library computes gelu and its derivative in bfloat16.
  [[nodiscard]] bool fuses_gelu() const { return fuses_gelu_; }

  // Returns true if the library adds the skip connection of a residual.
  [[nodiscard]] bool fuses_residuals() const { return fuses_residuals_; }

  // Returns true if the library computes the sums over an operand. The workspace must have space
  // for them.
  [[nodiscard]] bool fuses_sums(matrix_product const& what) const {
    return fuses_sums_ && what.sums_bytes() < workspace_bytes_;
  }

  [[nodiscard]] bool knows(matrix_product const& what) const { return plans_.contains(what); }

  // Computes a product. Returns false, with nothing written, if the library cannot compute it with
  // this epilogue.
  [[nodiscard]] bool run(matrix_product const& what, void const* a, void const* b, void* c,
                         epilogue_operands const& more, std::byte* workspace, cudaStream_t stream) {
    // Checks for an error of an earlier kernel, which would otherwise look like a refusal by the
    // library.
    if (auto const earlier = cudaPeekAtLastError(); earlier != cudaSuccess)
      check(earlier, concat({"a kernel launched before ", what.text()}).c_str(), at_);
    auto found = plans_.find(what);
    bool const is_new = found == plans_.end();
    if (is_new) found = plans_.emplace(what, make(what, more)).first;
    auto& plan = found->second;
    set_operands(plan.operation.get(), what, more);
    auto const call = [&](algorithm const& by, void* result) {
      bool const wide = what.in == CUDA_R_64F;
      float const one = 1, beta = what.accumulate ? 1.0f : 0.0f;
      double const wide_one = 1, wide_beta = what.accumulate ? 1 : 0;
      return cublasLtMatmul(
          handle_.get(), plan.operation.get(), wide ? static_cast<void const*>(&wide_one) : &one, b,
          plan.b.get(), a, plan.a.get(), wide ? static_cast<void const*>(&wide_beta) : &beta,
          more.added == nullptr ? result : more.added, plan.c.get(), result, plan.c.get(), &by.how,
          workspace + what.sums_bytes(), workspace_bytes_ - what.sums_bytes(), stream);
    };
    if (is_new && times_) put_fastest_first(plan.algorithms, what, call, stream);
    // The library may offer an algorithm and then refuse to run it. In that case the next algorithm
    // replaces it.
    while (!plan.algorithms.empty()) {
      auto const code = call(plan.algorithms.front(), c);
      if (code == CUBLAS_STATUS_SUCCESS) return true;
      (void)cudaGetLastError();
      plan.algorithms.erase(plan.algorithms.begin());
      if (plan.algorithms.empty() && what.epilogue == CUBLASLT_EPILOGUE_DEFAULT &&
          code != CUBLAS_STATUS_NOT_SUPPORTED)
        check(code, what.text(), at_);
    }
    return false;
  }

 private:
  static constexpr int most_algorithms = 8;

  struct algorithm {  // has a name, since nvcc 13 crashes on a vector of an unnamed type
    cublasLtMatmulAlgo_t how;
  };
  struct prepared {
    product_handle operation;
    layout_handle a, b, c;
    std::vector<algorithm> algorithms;  // best first; empty if the library has none
  };

  // Times the algorithms, with a temporary matrix as the result, and sorts them; algorithms that
  // cannot run are last. If there is no memory for the temporary matrix, the order does not change.
  template <class Call>
  [[gnu::cold]] void put_fastest_first(std::vector<algorithm>& algorithms,
                                       matrix_product const& what, Call call,
                                       cudaStream_t stream) const {
    if (algorithms.size() < 2) return;
    std::size_t const element = what.out == CUDA_R_64F ? 8 : what.out == CUDA_R_32F ? 4 : 2;
    void* room = nullptr;
    if (cudaMallocAsync(&room, what.m * what.ldc * element, stream) != cudaSuccess) {
      (void)cudaGetLastError();
      return;
    }
    auto const give_back = [stream](void* data) { (void)cudaFreeAsync(data, stream); };
    std::unique_ptr<void, decltype(give_back)> const owner(room, give_back);
    auto const begin = make_event_handle(at_, cudaEventDefault),
               end = make_event_handle(at_, cudaEventDefault);
    std::vector<std::pair<float, algorithm>> timed;
    for (auto const& each : algorithms) {
      constexpr int turns = 5;
      float ms = std::numeric_limits<float>::infinity();
      bool runs = call(each, room) == CUBLAS_STATUS_SUCCESS;
      check(cudaEventRecord(begin.get(), stream), "cudaEventRecord", at_);
      for (int i = 0; i < turns && runs; ++i) runs = call(each, room) == CUBLAS_STATUS_SUCCESS;
      check(cudaEventRecord(end.get(), stream), "cudaEventRecord", at_);
      check(cudaEventSynchronize(end.get()), "cudaEventSynchronize", at_);
      if (runs)
        check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime", at_);
      else (void)cudaGetLastError();
      timed.emplace_back(ms, each);
    }
    detail::stable_sort(timed, [](auto const& a, auto const& b) { return a.first < b.first; });
    std::ranges::transform(timed, algorithms.begin(), [](auto const& each) { return each.second; });
  }

  [[gnu::cold]] prepared make(matrix_product const& what, epilogue_operands const& more) const {
    bool const wide = what.in == CUDA_R_64F;
    auto const compute = wide                             ? CUBLAS_COMPUTE_64F
                         : tf32_ && what.in == CUDA_R_32F ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                          : CUBLAS_COMPUTE_32F;
    prepared out{};
    cublasLtMatmulDesc_t operation = nullptr;
    check(cublasLtMatmulDescCreate(&operation, compute, wide ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate", at_);
    out.operation.reset(operation);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, what.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, what.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, what.epilogue);
    if (more.sums != nullptr)
      set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{CUDA_R_32F});
    set_operands(operation, what, more);
    // A row-major (rows, columns) matrix is a column-major (columns, rows) matrix.
    out.a = layout(what.in, what.a_transposed ? what.m : what.k,
                   what.a_transposed ? what.k : what.m, what.lda);
    out.b = layout(what.in, what.b_transposed ? what.k : what.n,
                   what.b_transposed ? what.n : what.k, what.ldb);
    out.c = layout(what.out, what.n, what.m, what.ldc);

    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate", at_);
    preference_handle const owner(preference);
    auto const prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute", at_);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes_ - what.sums_bytes());
    // Partial sums of a long product must not be rounded to the type of the result.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{what.alignment[1]});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{what.alignment[0]});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t{what.alignment[2]});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t{what.alignment[2]});

    std::array<cublasLtMatmulHeuristicResult_t, most_algorithms> offers{};
    int found = 0;
    auto const code = cublasLtMatmulAlgoGetHeuristic(
        handle_.get(), operation, out.b.get(), out.a.get(), out.c.get(), out.c.get(), preference,
        most_algorithms, offers.data(), &found);
    for (int i = 0; code == CUBLAS_STATUS_SUCCESS && i < found; ++i)
      if (auto const& offer = offers[static_cast<std::size_t>(i)];
          offer.state == CUBLAS_STATUS_SUCCESS)
        out.algorithms.push_back({offer.algo});
    // If the library lacks an epilogue for these types, it may also report it as an invalid value.
    bool const refuses =
        code == CUBLAS_STATUS_NOT_SUPPORTED ||
        (code == CUBLAS_STATUS_INVALID_VALUE && what.epilogue != CUBLASLT_EPILOGUE_DEFAULT);
    if (!refuses) check(code, concat({"cublasLtMatmulAlgoGetHeuristic for ", what.text()}), at_);
    return out;
  }

  template <class Value>
  void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
           Value const& value) const {
    check(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", at_);
  }
  void set_operands(cublasLtMatmulDesc_t operation, matrix_product const& what,
                    epilogue_operands const& more) const {
    if (more.row != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, more.row);
    if (more.sums != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, more.sums);
    if (more.before == nullptr) return;
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, more.before);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(what.ldc));
  }

  layout_handle layout(cudaDataType_t type, std::size_t rows, std::size_t columns,
                       std::size_t stride) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(stride)),
          "cublasLtMatrixLayoutCreate", at_);
    return layout_handle(made);
  }

  cuda_place at_;
  bool fuses_gelu_ = false;
  bool tf32_, times_, fuses_sums_, fuses_residuals_;
  std::size_t workspace_bytes_;
  products_handle handle_;
  std::map<matrix_product, prepared> plans_;
};

}  // namespace plait::detail
