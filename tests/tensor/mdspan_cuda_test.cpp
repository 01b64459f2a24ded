// SPDX-License-Identifier: Apache-2.0
// test: libs=thrust
// Conversions to cuda::std::mdspan, which is in the CUDA toolkit and needs no GPU.
#include "plait/tensor/mdspan.hpp"

#include <gtest/gtest.h>
#include <cuda/mdspan>
#include <cuda/std/mdspan>

#include <array>
#include <cstddef>

#include "tensor/mdspan_testing.hpp"

TEST(ArrayOfView, MdspanOfTheCudaToolkit) {
  namespace found = cuda::std;
  mdspan_testing::conversions<mdspan_testing::library<
      found::mdspan, found::extents, found::layout_right, found::layout_left, found::layout_stride,
      found::default_accessor>>::all();
}

// Its addresses are __restrict, so that compilers need not expect that arrays overlap.
TEST(ArrayOfView, RestrictMdspanOfTheCudaToolkit) {
  std::array<float, 6> data{};
  using array = cuda::restrict_mdspan<float, cuda::std::dextents<std::size_t, 2>>;
  auto const shown = plait::ext::as<array>(plait::view<float>{data.data(), 2, 3});
  EXPECT_EQ(shown.data_handle(), data.data());
  EXPECT_EQ(plait::ext::as_view(shown).data, data.data());
}
