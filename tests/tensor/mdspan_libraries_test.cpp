// SPDX-License-Identifier: Apache-2.0
// test: alone
// Conversions to the arrays of libraries, as far as this machine has them.
// tests/tensor/mdspan_test.cpp needs no library.
#include "plait/tensor/mdspan.hpp"

#include <gtest/gtest.h>

#include <version>
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#elif __has_include(<mdspan/mdspan.hpp>)
#include <mdspan/mdspan.hpp>
#endif
#if __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#endif

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/error.hpp"
#include "tensor/mdspan_testing.hpp"

using mdspan_testing::numbers;
using mdspan_testing::text_of;

#if defined(__cpp_lib_mdspan)
namespace found = std;
#elif __has_include(<mdspan/mdspan.hpp>)
namespace found = Kokkos;
#endif

TEST(ArrayOfView, MdspanOfTheStandardLibraryOrOfKokkos) {
#if defined(__cpp_lib_mdspan) || __has_include(<mdspan/mdspan.hpp>)
  mdspan_testing::conversions<mdspan_testing::library<
      found::mdspan, found::extents, found::layout_right, found::layout_left, found::layout_stride,
      found::default_accessor>>::all();
#else
  GTEST_SKIP()
      << "the standard library has no mdspan, and <mdspan/mdspan.hpp> of Kokkos was not found";
#endif
}

#if !__has_include(<eigen3/Eigen/Core>)
TEST(ArrayOfView, EigenMap) { GTEST_SKIP() << "<eigen3/Eigen/Core> was not found"; }
#else

namespace {

constexpr int any = Eigen::Dynamic;
template <class T, int Rows = any, int Columns = any>
using matrix = Eigen::Matrix<T, Rows, Columns, Eigen::RowMajor>;

template <class View>
void expect_same_elements(auto const& map, View const& of) {
  EXPECT_EQ(std::size_t(map.rows()), of.rows);
  EXPECT_EQ(std::size_t(map.cols()), of.columns);
  for (std::size_t r = 0; r < of.rows; ++r)
    for (std::size_t c = 0; c < of.columns; ++c)
      EXPECT_EQ(&map.coeffRef(Eigen::Index(r), Eigen::Index(c)), of.data + r * of.columns + c);
}

template <class T>
void expect_elements() {
  auto data = numbers<T>(12);
  plait::view<T> const v{data.data(), 3, 4};
  auto map = plait::ext::as<Eigen::Map<matrix<T>>>(v);
  expect_same_elements(map, v);
  map(1, 2) = T(70.0f);
  EXPECT_EQ(float(data[6]), 70.0f);
  plait::view<T const> const read = v;
  expect_same_elements(plait::ext::as<Eigen::Map<matrix<T> const>>(read), v);
  expect_same_elements(plait::ext::as<Eigen::Map<matrix<T> const>>(v), v);

  auto const back = plait::ext::as_view(map);
  static_assert(std::is_same_v<decltype(back), plait::view<T> const>);
  EXPECT_EQ(back.data, v.data);
  EXPECT_EQ(back.rows, v.rows);
  EXPECT_EQ(back.columns, v.columns);
  auto const read_back =
      plait::ext::as_view<plait::shard<1>>(plait::ext::as<Eigen::Map<matrix<T> const>>(read));
  static_assert(std::is_same_v<decltype(read_back), plait::view<T const, plait::shard<1>> const>);
  EXPECT_EQ(read_back.data, v.data);
}

}  // namespace

TEST(ArrayOfView, EigenMap) {
  expect_elements<float>();
  expect_elements<double>();
  expect_elements<plait::bfloat16>();
}

TEST(ArrayOfView, EigenMapWithSizesInItsType) {
  auto data = numbers<float>(12);
  plait::view<float, plait::shard<1>> const v{data.data(), 3, 4};
  expect_same_elements(plait::ext::as<Eigen::Map<matrix<float, 3, 4>>>(v), v);
  using whole = Eigen::Map<matrix<float, any, 8>>;
  EXPECT_EQ(text_of<plait::size_mismatch>([&] { (void)plait::ext::as<whole>(v); }),
            "as<Array>(view): extent 1 is 8 in the type of Array and 4 in the view; the view has "
            "3 rows and 4 columns (one rank's block, shard<1>); write 4, or a dynamic extent if "
            "plans differ in this size");
}

TEST(ArrayOfView, EigenVectors) {
  auto data = numbers<float>(6);
  for (auto const& v : {plait::view<float>{data.data(), 1, 6}, {data.data(), 6, 1}}) {
    auto const column = plait::ext::as<Eigen::Map<Eigen::VectorXf>>(v);
    EXPECT_EQ(column.data(), data.data());
    EXPECT_EQ(column.rows(), 6);
    EXPECT_EQ(plait::ext::as_view(column).columns, 6u);
    auto const row = plait::ext::as<Eigen::Map<Eigen::RowVectorXf>>(v);
    EXPECT_EQ(row.cols(), 6);
    EXPECT_EQ(row(5), 5.0f);
  }
  auto const tokens = numbers<std::int32_t>(6);
  auto const labels = plait::ext::as<Eigen::Map<Eigen::VectorXi const>>(
      plait::token_view<>{tokens.data(), tokens.size()});
  EXPECT_EQ(labels.data(), tokens.data());
  EXPECT_EQ(labels.sum(), 15);
}

TEST(ArrayOfView, EigenMapOfAlignedElements) {
  alignas(32) float data[16] = {};
  using aligned = Eigen::Map<Eigen::VectorXf, Eigen::Aligned32>;
  EXPECT_EQ(plait::ext::as<aligned>(plait::view<float>{data + 8, 1, 8}).data(), data + 8);
  EXPECT_EQ(text_of<plait::input_error>(
                [&] { (void)plait::ext::as<aligned>(plait::view<float>{data + 1, 1, 8}); }),
            "as<Array>(view): Array promises an address that is a multiple of 32 bytes, and the "
            "view begins 4 bytes after one; write default_accessor, or Eigen::Unaligned");
}

TEST(ArrayOfView, EigenMapWithGapsIsNoView) {
  float data[12] = {};
  Eigen::Map<matrix<float>, 0, Eigen::OuterStride<>> const gaps(data, 3, 2,
                                                                Eigen::OuterStride<>(4));
  EXPECT_EQ(text_of<plait::size_mismatch>([&] { (void)plait::ext::as_view(gaps); }),
            "as_view(array): the stride of dimension 0 is 4, and a view needs 2, because it is "
            "row-major without gaps; copy the array to one with layout_right");
}

namespace {

// example-begin eigen
template <class View>
using matrix_of = Eigen::Matrix<std::remove_const_t<typename View::element>, Eigen::Dynamic,
                                Eigen::Dynamic, Eigen::RowMajor>;

// y = x / |x| for each row.
struct rows_to_length_one {
  void operator()(auto const&, auto x_view, auto y_view) const {
    auto const x = plait::ext::as<Eigen::Map<matrix_of<decltype(x_view)> const>>(x_view);
    auto y = plait::ext::as<Eigen::Map<matrix_of<decltype(y_view)>>>(y_view);
    y = x.rowwise().normalized();
  }
};
// example-end

}  // namespace

TEST(ArrayOfView, EigenComputesThroughTheMaps) {
  std::vector<double> x{3, 4, 0, -5, 8, 6}, y(6);
  rows_to_length_one{}(0, plait::view<double const>{x.data(), 3, 2},
                       plait::view<double>{y.data(), 3, 2});
  std::vector<double> const expected{0.6, 0.8, 0, -1, 0.8, 0.6};
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-15) << i;
}
#endif
