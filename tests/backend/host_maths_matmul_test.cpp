// SPDX-License-Identifier: Apache-2.0
// test: own_macros
// This program tests the portable kernel, also if the build uses a library.
#undef PLAIT_USE_CBLAS
#undef PLAIT_USE_OPENBLAS
#include "plait/backend/host/maths/matmul.hpp"

#if defined(CBLAS_H)
#error "this program is about the portable kernel, but the header has been read with CBLAS before"
#endif

#include "backend/host_maths_matmul_cases.hpp"

// The portable kernel sums every element of C in the same order, wherever the element is. The
// product of some rows of A therefore has the bits that the product of all rows has.
TYPED_TEST(MatmulTest, RowsDoNotDependOnEachOther) {
  std::size_t const m = 61, n = 37, k = 150, first = 13, rows = 20;
  auto const a = values<TypeParam>(m * k, 1), b = values<TypeParam>(k * n, 2);
  std::vector<TypeParam> whole(m * n), part(rows * n);
  matmul<TypeParam>(transpose::no, transpose::no, m, n, k, 1, a.data(), k, b.data(), n, 0,
                    whole.data(), n);
  matmul<TypeParam>(transpose::no, transpose::no, rows, n, k, 1, a.data() + first * k, k, b.data(),
                    n, 0, part.data(), n);
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[first * n + i]);
}
