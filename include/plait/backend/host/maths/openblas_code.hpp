// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include "plait/core/concat.hpp"

namespace plait::host_maths {

/// The features of a processor that decide which of OpenBLAS's kernels it should run. A feature is
/// true only if the operating system supports it, too.
struct processor_features {
  bool has_avx2 = false;    ///< AVX2 and fused multiply-adds
  bool has_avx512 = false;  ///< AVX-512 F, DQ, BW and VL
  bool is_amd = false;
};

/// Returns the features of the processor on which the program runs; all are false on processors
/// other than x86-64.
[[nodiscard]] [[gnu::cold]] inline processor_features features_of_this_processor() {
  processor_features out;
#if defined(__x86_64__)
  __builtin_cpu_init();
  out.has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  out.has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  out.is_amd = __builtin_cpu_is("amd");
#endif
  return out;
}

namespace detail {

// Returns 0 for kernels older than AVX2, 1 for kernels made for AVX2, and 2 for kernels made for
// AVX-512. Unknown kernels also give 2, so that plait keeps them.
[[nodiscard]] [[gnu::cold]] inline int age_of_openblas_code(char const* code) {
  constexpr char const* old =
      " Katmai Coppermine Northwood Prescott Banias Atom Core2 Penryn Dunnington Nehalem Athlon "
      "Opteron Opteron_SSE3 Barcelona Nano Sandybridge Bobcat Bulldozer Piledriver Steamroller ";
  auto const word = concat({" ", code, " "});
  if (std::strstr(old, word.c_str()) != nullptr) return 0;
  return std::strstr(" Haswell Zen Excavator ", word.c_str()) != nullptr ? 1 : 2;
}

inline constexpr char const* openblas_variable = "OPENBLAS_CORETYPE";

}  // namespace detail

/// Returns the code that OpenBLAS should run instead of `code` on a processor with `features`, as a
/// value of the environment variable OPENBLAS_CORETYPE; "" if `code` is not too old for the
/// processor. Zen is not too old for any AMD processor, since OpenBLAS has no newer code for them.
[[nodiscard]] [[gnu::cold]] inline char const* newer_openblas_code(
    char const* code, processor_features const& features) {
  int const age = detail::age_of_openblas_code(code);
  if (features.has_avx512 && age < (features.is_amd ? 1 : 2)) return "SkylakeX";
  if (features.has_avx2 && age < 1) return features.is_amd ? "Zen" : "Haswell";
  return "";
}

/// The functions of an OpenBLAS library that return which code (kernels for one kind of processor)
/// it runs and make it choose again. A function that the library lacks is null.
struct openblas_functions {
  /// Returns the name of the code that runs; "" if the library has code for one processor only.
  char const* (*code)();
  void (*forget_code)();  ///< drops the chosen code; the next call must be choose_code
  /// Chooses the code that the environment variable OPENBLAS_CORETYPE names or, if it is not set,
  /// the code for the processor.
  void (*choose_code)();
  bool (*may_be_in_use)();  ///< returns true if other threads may use the library
  bool (*is_right)();       ///< returns true if products of some sizes are right
};

/// Makes OpenBLAS run newer code if it has chosen code for an older processor, which happens if the
/// library does not know this processor. The code is not changed if OPENBLAS_CORETYPE is set, if
/// the code is not too old, if other threads may be in a product, or if the newer code computes
/// wrong products.
///
/// The function sets OPENBLAS_CORETYPE and removes it at the end, so that programs which this
/// program starts do not inherit it. Returns a message for the user if the code is too old and is
/// kept, else "".
/// Threads: no other thread of the program may read the environment during the call.
[[nodiscard]] [[gnu::cold]] inline std::string choose_openblas_code(
    openblas_functions const& openblas, processor_features const& features) {
  if (std::getenv(detail::openblas_variable) != nullptr) return "";
  char const* const first = openblas.code();
  char const* const newer = newer_openblas_code(first, features);
  if (*newer == '\0') return "";
  char const *why = nullptr, *set = newer, *end = " before the program starts";
  if (openblas.forget_code == nullptr || openblas.choose_code == nullptr) {
    why = "this OpenBLAS cannot change its code while a program runs: set OPENBLAS_CORETYPE=";
  } else if (openblas.may_be_in_use()) {
    why =
        "other threads of the program may be using OpenBLAS, so plait cannot change its code: set "
        "OPENBLAS_CORETYPE=";
  } else {
    auto const choose = [&](char const* code) {
      ::setenv(detail::openblas_variable, code, 1);
      openblas.forget_code();
      openblas.choose_code();
      ::unsetenv(detail::openblas_variable);
    };
    choose(newer);
    // If OpenBLAS was built without the kernels for this processor, it uses the next older kernels.
    bool const is_newer =
        detail::age_of_openblas_code(openblas.code()) > detail::age_of_openblas_code(first);
    if (is_newer && openblas.is_right()) return "";
    choose(first);
    if (!is_newer) return "";
    why =
        "the faster code computes wrong products on this processor, so plait keeps the older code";
    set = end = "";
  }
  return concat({"plait: OpenBLAS runs its code for ", first,
                 " on a processor that could run its faster code for ", newer, "; ", why, set,
                 end});
}

}  // namespace plait::host_maths
