// SPDX-License-Identifier: Apache-2.0
#include "plait/tensor/mdspan.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>

#include "plait/core/error.hpp"
#include "tensor/mdspan_testing.hpp"
#include "tensor/small_mdspan.hpp"

using mdspan_testing::numbers;
using mdspan_testing::text_of;

namespace {

using small_library =
    mdspan_testing::library<small::mdspan, small::extents, small::layout_right, small::layout_left,
                            small::layout_stride, small::default_accessor>;

}  // namespace

TEST(ArrayOfView, TypeOfOnesOwn) { mdspan_testing::conversions<small_library>::all(); }

TEST(ArrayOfView, PaddedRowsThatAreRowMajorInEachShape) {
  // A padded layout is row-major if the extent in the type is a multiple of the padding.
  using padded = small::mdspan<float, small::extents<std::size_t, small::dynamic, 4>,
                               small::padded_rows<4>>;
  auto data = numbers<float>(12);
  auto const array = plait::as<padded>(plait::view<float>{data.data(), 3, 4});
  EXPECT_EQ(&array(2, 3), &data[11]);
  EXPECT_EQ(plait::as_view(array).rows, 3u);
}

TEST(ArrayOfView, PromiseOfAnAlignment) {
  using plain = small::extents<std::size_t, small::dynamic>;
  using aligned =
      small::mdspan<float, plain, small::layout_right, small::aligned_accessor<float, 32>>;
  alignas(32) std::array<float, 16> data{};
  auto const array = plait::as<aligned>(plait::view<float>{data.data() + 8, 1, 8});
  EXPECT_EQ(array.data_handle(), data.data() + 8);
  EXPECT_EQ(text_of<plait::input_error>([&] {
              (void)plait::as<aligned>(plait::view<float>{data.data() + 3, 1, 8});
            }),
            "as<Array>(view): Array promises an address that is a multiple of 32 bytes, and the "
            "view begins 12 bytes after one; write default_accessor, or Eigen::Unaligned");
}

static_assert(plait::ext::mdspan_like<small::mdspan<int, small::extents<int, 3>>>);
static_assert(!plait::ext::mdspan_like<plait::view<float>>);
static_assert(!plait::ext::mdspan_like<float*>);
