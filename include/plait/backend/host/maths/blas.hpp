// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

// Chooses the library that multiplies matrices. The CMake component plait::blas defines
// PLAIT_USE_CBLAS and one of PLAIT_USE_OPENBLAS, PLAIT_USE_MKL and PLAIT_USE_BLIS, or none of these
// three for another library with the CBLAS interface. All translation units of a program must have
// the same definitions.
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
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "plait/backend/host/maths/openblas_code.hpp"
extern "C" {
int openblas_get_num_threads(void);
void openblas_set_num_threads(int);
char* openblas_get_config(void);
// Some builds of OpenBLAS lack these functions.
[[gnu::weak]] char* openblas_get_corename(void);
[[gnu::weak]] int openblas_get_parallel(void);
[[gnu::weak]] void gotoblas_dynamic_quit(void);
[[gnu::weak]] void gotoblas_dynamic_init(void);
}
#elif defined(PLAIT_USE_BLIS)
extern "C" {
long bli_thread_get_num_threads(void);
void bli_thread_set_num_threads(long);
char const* bli_info_get_version_str(void);
}
#endif

namespace plait::host_maths {

#if defined(PLAIT_USE_OPENBLAS)
namespace detail {

/// Returns true if OpenBLAS computes correct products of n x n matrices, and of a matrix and a
/// vector, in float and in double, for all combinations of transposed operands. Elements are small
/// integers, whose sums are exact in any order.
[[nodiscard]] [[gnu::cold]] inline bool openblas_is_right_for(int n) {
  constexpr int most = 109 * 109;
  static float a[most], b[most], c[most];
  static double a_double[most], b_double[most], c_double[most];
  std::uint32_t state = 1;
  for (int i = 0; i < n * n; ++i) {
    state = state * 1664525u + 1013904223u;
    a_double[i] = a[i] = static_cast<float>(state >> 29) - 4;
    b_double[i] = b[i] = static_cast<float>(state >> 26 & 7) - 4;
  }
  for (int way = 0; way < 8; ++way) {
    auto const a_is = (way & 1) != 0 ? CblasTrans : CblasNoTrans;
    auto const b_is = (way & 2) != 0 ? CblasTrans : CblasNoTrans;
    bool const by_vector = way >= 4;
    // 0: C is overwritten; 1: the product is added to C.
    float const beta = static_cast<float>(way & 1);
    for (int i = 0; i < n * n; ++i) c_double[i] = c[i] = 5;
    if (by_vector) {
      cblas_sgemv(CblasRowMajor, a_is, n, n, 1, a, n, b, 1, beta, c, 1);
      cblas_dgemv(CblasRowMajor, a_is, n, n, 1, a_double, n, b_double, 1, beta, c_double, 1);
    } else {
      cblas_sgemm(CblasRowMajor, a_is, b_is, n, n, n, 1, a, n, b, n, beta, c, n);
      cblas_dgemm(CblasRowMajor, a_is, b_is, n, n, n, 1, a_double, n, b_double, n, beta, c_double,
                  n);
    }
    // Checks every seventh element of a matrix. Kernels compute blocks of elements, and each
    // position within a block is checked in at least one block.
    for (int at = 0; at < (by_vector ? n : n * n); at += by_vector ? 1 : 7) {
      int const row = by_vector ? at : at / n, column = by_vector ? 0 : at % n;
      int const a_first = (way & 1) != 0 ? row : row * n, a_step = (way & 1) != 0 ? n : 1;
      bool const b_is_along = by_vector || (way & 2) != 0;
      int const b_first = b_is_along ? column * n : column, b_step = b_is_along ? 1 : n;
      float sum = 5 * beta;
      for (int p = 0; p < n; ++p) sum += a[a_first + p * a_step] * b[b_first + p * b_step];
      if (c[at] != sum || c_double[at] != static_cast<double>(sum)) return false;
    }
  }
  return true;
}

/// Returns true if products of two sizes are correct: OpenBLAS has different kernels for small and
/// for large matrices.
[[nodiscard]] [[gnu::cold]] inline bool openblas_is_right() {
  int const threads = openblas_get_num_threads();
  openblas_set_num_threads(1);
  bool const is_right = openblas_is_right_for(37) && openblas_is_right_for(109);
  openblas_set_num_threads(threads);
  return is_right;
}

/// Returns true if another thread of the process may be calling OpenBLAS: if the process has
/// threads other than the calling thread and OpenBLAS's own threads, which are idle between
/// products, or if the number of threads is unknown.
[[nodiscard]] [[gnu::cold]] inline bool openblas_may_be_in_use() {
  struct stat threads{};  // status of a folder with one subfolder for each thread
  if (::stat("/proc/self/task", &threads) != 0) return true;
  bool const starts_threads = openblas_get_parallel != nullptr && openblas_get_parallel() == 1;
  auto const are_known = [&](long count) {
    return count == 1 || (starts_threads && count == openblas_get_num_threads());
  };
  long const count = static_cast<long>(threads.st_nlink) - 2;
#if defined(__SANITIZE_THREAD__)
  if (are_known(count - 1)) return false;  // ThreadSanitizer has a thread of its own
#endif
  return !are_known(count);
}

/// Returns the functions of the OpenBLAS library to which the program is linked.
[[nodiscard]] [[gnu::cold]] inline openblas_functions openblas_of_program() {
  openblas_functions out;
  out.code = [] {
    bool const has_several = openblas_get_corename != nullptr &&
                             std::strstr(openblas_get_config(), "DYNAMIC_ARCH") != nullptr;
    return static_cast<char const*>(has_several ? openblas_get_corename() : "");
  };
  if (gotoblas_dynamic_quit != nullptr)
    out.forget_code = [] {
      // The first product initialises OpenBLAS. Without this product, a thread of OpenBLAS might
      // initialise it between forget_code and choose_code and choose kernels, too.
      float const one = 1;
      float product = 0;
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1, &one, 1, &one, 1, 0,
                  &product, 1);
      gotoblas_dynamic_quit();
    };
  out.choose_code = gotoblas_dynamic_init;
  out.may_be_in_use = openblas_may_be_in_use;
  out.is_right = openblas_is_right;
  return out;
}

/// Calls choose_openblas_code, once in a process, and returns its message for the user.
[[nodiscard]] [[gnu::cold]] inline std::string const& openblas_problem() {
  static std::string const problem =
      choose_openblas_code(openblas_of_program(), features_of_this_processor());
  return problem;
}

// The choice is made before main(), when the program has no threads yet that could be in a product
// or read the environment. An OpenBLAS that is linked statically may not be initialised by then; in
// this case the choice is made when the first job starts.
inline bool const openblas_chose_early = openblas_get_corename != nullptr &&
                                         std::strcmp(openblas_get_corename(), "Unknown") != 0 &&
                                         (static_cast<void>(openblas_problem()), true);

}  // namespace detail
#endif

/// Makes the BLAS library use the kernels that suit this processor, once in a process; see
/// choose_openblas_code. Only OpenBLAS needs this.
[[gnu::cold]] inline void choose_code_of_products() {
#if defined(PLAIT_USE_OPENBLAS)
  static_cast<void>(detail::openblas_problem());
#endif
}

/// Prints a message to standard error, once in a process, if OpenBLAS uses kernels for an older
/// processor, with advice for the user. A backend calls this once for a job.
[[gnu::cold]] inline void say_if_products_are_slow() {
#if defined(PLAIT_USE_OPENBLAS)
  static bool const is_said = [] {
    auto const& problem = detail::openblas_problem();
    return !problem.empty() && std::fprintf(stderr, "%s\n", problem.c_str()) > 0;
  }();
  static_cast<void>(is_said);
#endif
}

/// Limits the BLAS library to one thread per caller while the object exists; the destructor
/// restores the previous setting. The setting of a library other than OpenBLAS, MKL and BLIS is not
/// changed. The constructor also calls choose_code_of_products.
///
/// Threads: the setting applies to the whole process, so create one guard before the ranks' threads
///          start and destroy it after they have ended.
class single_threaded_maths {
 public:
  single_threaded_maths() : threads_before_(get()) {
    choose_code_of_products();
    set(1);
  }
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

/// Returns the name and version of the BLAS library and, if the library reports it, the processor
/// for which its kernels are made.
[[nodiscard]] [[gnu::cold]] inline std::string kind_of_products() {
  choose_code_of_products();
#if defined(PLAIT_USE_OPENBLAS)
  // The function writes into a buffer that all threads share, so it is called only once.
  static std::string const config = ::openblas_get_config();
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
