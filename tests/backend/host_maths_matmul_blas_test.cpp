// SPDX-License-Identifier: Apache-2.0
// test: libs=blas
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

#if defined(PLAIT_USE_OPENBLAS)
TEST(MatmulBlas, GuardSetsOneThreadAndRestores) {
  openblas_set_num_threads(2);
  {
    plait::host_maths::single_threaded_maths guard;
    EXPECT_EQ(openblas_get_num_threads(), 1);
  }
  EXPECT_EQ(openblas_get_num_threads(), 2);
}
#endif
