// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/system_files.hpp"

namespace plait::ext {

/// The library of matrix products (BLAS) of a program.
struct blas_facts {
  reading<std::string> version{};  ///< such as "OpenBLAS 0.3.21 DYNAMIC_ARCH"
  /// The processor for which the running kernels were written, by its name in OpenBLAS, such as
  /// "SkylakeX".
  reading<std::string> code{};
  reading<std::uint64_t> threads{};  ///< number of threads that a matrix product may use

  /// Asks the library that is loaded in this process, if it is OpenBLAS.
  ///
  /// Errors:  none; if the library is not OpenBLAS, or is linked statically, the facts are unknown,
  ///          and the caller may set them.
  /// Threads: any, but not while another thread changes OpenBLAS's settings.
  [[nodiscard]] [[gnu::cold]] static blas_facts of_program();
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/blas_facts.ipp"
#endif
