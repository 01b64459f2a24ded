// SPDX-License-Identifier: Apache-2.0
// test: libs=blas
// Also compiled with each other library that is there: tests/CMakeLists.txt.
#include "backend/host_maths_matmul_cases.hpp"
#include "plait/core/error.hpp"

#if !defined(PLAIT_USE_CBLAS)
#error "this program is about CBLAS and must be compiled with PLAIT_USE_CBLAS"
#endif

namespace {
// Like the ranks of a job. Thread sanitizers do not see how OpenBLAS's own threads synchronise.
[[maybe_unused]] plait::host_maths::single_threaded_maths const one_thread;
}  // namespace

TEST(MatmulBlas, ExtentAboveIntIsAnError) {
  float element = 0;
  std::size_t const above = std::size_t{1} << 31;
  EXPECT_THROW(matmul<float>(transpose::no, transpose::no, 1, 1, above, 1, &element, above,
                             &element, 1, 0, &element, 1),
               plait::error);
}

#if defined(PLAIT_USE_OPENBLAS) || defined(PLAIT_USE_MKL) || defined(PLAIT_USE_BLIS)
namespace {
#if defined(PLAIT_USE_OPENBLAS)
long threads() { return openblas_get_num_threads(); }
void set_threads(int count) { openblas_set_num_threads(count); }
constexpr char const* name = "OpenBLAS";
#elif defined(PLAIT_USE_MKL)
long threads() { return MKL_Get_Max_Threads(); }
void set_threads(int count) { MKL_Set_Num_Threads(count); }
constexpr char const* name = "Math Kernel Library";
#else
long threads() { return bli_thread_get_num_threads(); }
void set_threads(int count) { bli_thread_set_num_threads(count); }
constexpr char const* name = "BLIS";
#endif
}  // namespace

TEST(MatmulBlas, GuardSetsOneThreadAndRestores) {
  set_threads(2);
  {
    plait::host_maths::single_threaded_maths guard;
    EXPECT_EQ(threads(), 1);
  }
  EXPECT_EQ(threads(), 2);
}

TEST(MatmulBlas, KindNamesTheLibrary) {
  auto const kind = plait::host_maths::kind_of_products();
  EXPECT_NE(kind.find(name), std::string::npos) << kind;
}
#endif
