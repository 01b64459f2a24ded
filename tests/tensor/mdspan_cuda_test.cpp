// SPDX-License-Identifier: Apache-2.0
// test: libs=thrust
// Conversions to cuda::std::mdspan, which is in the CUDA toolkit and needs no GPU.
#include "plait/tensor/mdspan.hpp"

#include <cuda/std/mdspan>
#include <gtest/gtest.h>

#include "tensor/mdspan_testing.hpp"

TEST(ArrayOfView, MdspanOfTheCudaToolkit) {
  namespace found = cuda::std;
  mdspan_testing::conversions<
      mdspan_testing::library<found::mdspan, found::extents, found::layout_right,
                              found::layout_left, found::layout_stride,
                              found::default_accessor>>::all();
}
