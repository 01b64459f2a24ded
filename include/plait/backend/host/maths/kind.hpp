// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#if defined(PLAIT_USE_OPENBLAS)
extern "C" {
char* openblas_get_config(void);
}
#endif

namespace plait::host_maths {

/// What decides on the last bits of what the processor computes: what it can do, by which libraries
/// choose their code, and the library of matrix products with the code that it has chosen.
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
#if defined(PLAIT_USE_OPENBLAS)
  static std::string const config = ::openblas_get_config();  // it writes into one buffer for all
  out += ", " + config;
#elif defined(PLAIT_USE_CBLAS)
  out += ", a BLAS that does not say which";
#else
  out += ", products of plait's own";
#endif
  return out;
}

}  // namespace plait::host_maths
