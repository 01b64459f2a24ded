// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Which library multiplies matrices, and what depends on it. The component plait::blas defines
// PLAIT_USE_CBLAS and one of PLAIT_USE_OPENBLAS, PLAIT_USE_MKL and PLAIT_USE_BLIS, or none of these
// for another library with the CBLAS interface. Every unit of a program must see the same.
#if defined(PLAIT_USE_MKL)
#include <mkl_cblas.h>
extern "C" {
int MKL_Get_Max_Threads(void);
void MKL_Set_Num_Threads(int);
void MKL_Get_Version_String(char*, int);
}
#elif defined(PLAIT_USE_CBLAS)
#include <cblas.h>
#endif
#if defined(PLAIT_USE_OPENBLAS)
extern "C" {
int openblas_get_num_threads(void);
void openblas_set_num_threads(int);
char* openblas_get_config(void);
}
#elif defined(PLAIT_USE_BLIS)
extern "C" {
long bli_thread_get_num_threads(void);
void bli_thread_set_num_threads(long);
char const* bli_info_get_version_str(void);
}
#endif

namespace plait::host_maths {

/// Keeps the library of matrix products at one thread per caller while it lives and then restores
/// what was set before; a library that is none of OpenBLAS, MKL and BLIS is left alone.
///
/// Threads: the setting is the whole process's, so make one guard before the rank threads start and
///          let it outlive them.
class single_threaded_maths {
 public:
  single_threaded_maths() : threads_before_(get()) { set(1); }
  ~single_threaded_maths() { set(threads_before_); }
  single_threaded_maths(single_threaded_maths const&) = delete;
  single_threaded_maths& operator=(single_threaded_maths const&) = delete;

 private:
#if defined(PLAIT_USE_OPENBLAS)
  static long get() { return openblas_get_num_threads(); }
  static void set(long threads) { openblas_set_num_threads(static_cast<int>(threads)); }
#elif defined(PLAIT_USE_MKL)
  static long get() { return MKL_Get_Max_Threads(); }
  static void set(long threads) { MKL_Set_Num_Threads(static_cast<int>(threads)); }
#elif defined(PLAIT_USE_BLIS)
  static long get() { return bli_thread_get_num_threads(); }
  static void set(long threads) { bli_thread_set_num_threads(threads); }
#else
  static long get() { return 0; }
  static void set(long) {}
#endif

  long threads_before_;
};

/// The library of matrix products with its version and, where it says so, the code that it has
/// chosen for this processor.
[[nodiscard]] [[gnu::cold]] inline std::string kind_of_products() {
#if defined(PLAIT_USE_OPENBLAS)
  static std::string const config = ::openblas_get_config();  // it writes into one buffer for all
  return config;
#elif defined(PLAIT_USE_MKL)
  char version[256] = {};
  ::MKL_Get_Version_String(version, sizeof version - 1);
  return version;
#elif defined(PLAIT_USE_BLIS)
  return std::string("BLIS ") + ::bli_info_get_version_str();
#elif defined(PLAIT_USE_CBLAS)
  return "a BLAS that does not say which";
#else
  return "products of plait's own";
#endif
}

}  // namespace plait::host_maths
