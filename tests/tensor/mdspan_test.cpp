// SPDX-License-Identifier: Apache-2.0
#include "plait/tensor/mdspan.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "../examples/small_mdspan.hpp"
#include "plait/core/error.hpp"
#include "tensor/mdspan_testing.hpp"
#include "tensor/small_map.hpp"

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
  using padded = small::mdspan<float, small::extents<std::size_t, small::dynamic_extent, 4>,
                               small::padded_rows<4>>;
  auto data = numbers<float>(12);
  auto const array = plait::ext::as<padded>(plait::view<float>{data.data(), 3, 4});
  EXPECT_EQ(&array(2, 3), &data[11]);
  EXPECT_EQ(plait::ext::as_view(array).rows, 3u);
}

TEST(ArrayOfView, PromiseOfAnAlignment) {
  using plain = small::extents<std::size_t, small::dynamic_extent>;
  using aligned =
      small::mdspan<float, plain, small::layout_right, small::aligned_accessor<float, 32>>;
  alignas(32) std::array<float, 16> data{};
  auto const array = plait::ext::as<aligned>(plait::view<float>{data.data() + 8, 1, 8});
  EXPECT_EQ(array.data_handle(), data.data() + 8);
  EXPECT_EQ(text_of<plait::input_error>(
                [&] { (void)plait::ext::as<aligned>(plait::view<float>{data.data() + 3, 1, 8}); }),
            "as<Array>(view): Array promises an address that is a multiple of 32 bytes, and the "
            "view begins 12 bytes after one; write default_accessor, or Eigen::Unaligned");
}

TEST(ArrayOfView, MapOfOnesOwn) {
  auto data = numbers<float>(12);
  plait::view<float, plait::shard<1>> const v{data.data(), 3, 4};
  plait::view<float const, plait::shard<1>> const read = v;
  auto const map = plait::ext::as<small::Map<small::matrix<float, -1, -1>>>(v);
  EXPECT_EQ(map.data(), data.data());
  EXPECT_EQ(map.rows(), 3);
  EXPECT_EQ(map.cols(), 4);
  auto const read_map = plait::ext::as<small::Map<small::matrix<float, 3, -1> const>>(read);
  EXPECT_EQ(read_map.data(), data.data());
  auto const back = plait::ext::as_view<plait::shard<1>>(read_map);
  static_assert(std::is_same_v<decltype(back), decltype(read)>);
  EXPECT_EQ(back.data, data.data());
  EXPECT_EQ(back.rows, 3u);
  EXPECT_EQ(back.columns, 4u);

  // A vector of columns may be column-major, as Eigen::VectorXf.
  using vector = small::Map<small::matrix<float, -1, 1, false>>;
  auto const row = plait::ext::as<vector>(plait::view<float>{data.data(), 1, 12});
  EXPECT_EQ(row.rows(), 12);
  EXPECT_EQ(plait::ext::as_view(row).columns, 12u);
  using fixed = small::Map<small::matrix<float, 1, 5>>;
  EXPECT_EQ(
      text_of<plait::size_mismatch>(
          [&] { (void)plait::ext::as<fixed>(plait::view<float>{data.data(), 1, 12}); }),
      "as<Array>(view): extent 0 is 5 in the type of Array and 12 in the view; the view has 1 "
      "rows and 12 columns; write 12, or a dynamic extent if plans differ in this size");
}

TEST(ArrayOfView, KernelWithHeads) {
  namespace md = small;
  constexpr std::size_t any = md::dynamic_extent;
  using three_columns = md::mdspan<float const, md::extents<int, any, any, 3>>;
  using matrix = md::mdspan<float, md::extents<int, any, any>>;
  // example-begin as
  auto const add_sums_of_heads = [](auto const& /*queue*/, auto x, auto y) {
    auto const from = plait::ext::as<three_columns>(x);  // (rows, heads, 3)
    auto const to = plait::ext::as<matrix>(y);           // (rows, heads)
    for (int r = 0; r < from.extent(0); ++r)
      for (int h = 0; h < from.extent(1); ++h)
        for (int c = 0; c < 3; ++c) to(r, h) += from(r, h, c);
  };
  // example-end
  auto x = numbers<float>(12);
  std::vector<float> y(4);
  add_sums_of_heads(0, plait::view<float const>{x.data(), 2, 6},
                    plait::view<float>{y.data(), 2, 2});
  EXPECT_EQ(y, (std::vector<float>{3, 12, 21, 30}));
}

TEST(ArrayOfView, KernelIsCalledWithoutAJob) {
  // example-begin as_view
  std::vector<float> x{3, 4, 0, 5, 6, 8}, y(6);
  using matrix = small::mdspan<float, small::extents<int, small::dynamic_extent, 2>>;
  auto const doubled = [](auto from, auto to) {  // a kernel that takes views
    for (std::size_t i = 0; i < from.count(); ++i) to.data[i] = 2 * from.data[i];
  };
  matrix const input(x.data(), matrix::mapping_type(matrix::extents_type(3, 2)));
  matrix const output(y.data(), matrix::mapping_type(matrix::extents_type(3, 2)));
  doubled(plait::ext::as_view(input), plait::ext::as_view(output));
  // example-end
  EXPECT_EQ(y, (std::vector<float>{6, 8, 0, 10, 12, 16}));
}

// A padding is found for each length of a row that it changes.
template <std::size_t Padding, std::size_t... Sizes>
constexpr bool is_row_major =
    plait::detail::array_type<small::mdspan<float, small::extents<signed char, Sizes...>,
                                            small::padded_rows<Padding>>>::is_row_major();
static_assert(is_row_major<1, small::dynamic_extent, small::dynamic_extent>);
static_assert(!is_row_major<2, small::dynamic_extent, small::dynamic_extent>);
static_assert(!is_row_major<3, small::dynamic_extent, small::dynamic_extent>);
static_assert(!is_row_major<5, small::dynamic_extent, small::dynamic_extent>);
static_assert(is_row_major<5, small::dynamic_extent, 5>);
static_assert(!is_row_major<3, 2, 2, small::dynamic_extent>);
static_assert(!is_row_major<7, 2, 2, small::dynamic_extent>);

static_assert(plait::ext::mdspan_like<small::mdspan<int, small::extents<int, 3>>>);
static_assert(!plait::ext::mdspan_like<plait::view<float>>);
static_assert(!plait::ext::mdspan_like<float*>);
