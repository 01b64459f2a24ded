// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/host/maths/blas.hpp"
#include "plait/core/concat.hpp"

namespace plait::host_maths {

/// Returns a text with all properties on which the last bits of results on the processor depend:
/// the processor's features, by which libraries choose their code, the features for which this
/// program was compiled, and the BLAS library with the kernels that it has chosen.
[[nodiscard]] [[gnu::cold]] inline std::string kind() {
#if defined(__x86_64__)
  std::string out = "x86-64";
  if (__builtin_cpu_supports("avx2")) out += " avx2";
  if (__builtin_cpu_supports("fma")) out += " fma";
  if (__builtin_cpu_supports("avx512f")) out += " avx512f";
#elif defined(__aarch64__)
  std::string out = "aarch64";
#else
  std::string out = "another processor";
#endif
#if !defined(__FMA__) && !defined(__ARM_FEATURE_FMA)
  out += ", compiled without fused multiply-adds";
#endif
  out += concat({", ", kind_of_products()});
  return out;
}

}  // namespace plait::host_maths
