// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/tensor/mdspan.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/error.hpp"

// Tests of conversions between views and the arrays of a library that has std::mdspan under any
// name.
namespace mdspan_testing {

template <class Exception>
std::string text_of(std::function<void()> const& call) {
  try {
    call();
  } catch (Exception const& problem) {
    return problem.what();
  }
  return "nothing was thrown";
}

template <class T>
std::vector<T> numbers(std::size_t count) {
  std::vector<T> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(T(float(i)));
  return out;
}

/// The types of a library, by the names with which the tests call them.
template <template <class, class, class, class> class Mdspan,
          template <class, std::size_t...> class Extents, class Right, class Left, class Stride,
          template <class> class Accessor>
struct library {
  static constexpr std::size_t dynamic = std::size_t(-1);
  template <class T, class Index, std::size_t... Sizes>
  using right = Mdspan<T, Extents<Index, Sizes...>, Right, Accessor<T>>;
  template <class T, class Index, std::size_t... Sizes>
  using left = Mdspan<T, Extents<Index, Sizes...>, Left, Accessor<T>>;
  template <class T, class Index, std::size_t... Sizes>
  using strided = Mdspan<T, Extents<Index, Sizes...>, Stride, Accessor<T>>;

  static auto& element(auto const& array, auto... at) {
    if constexpr (requires { array(at...); }) return array(at...);
    else return array[std::array{std::size_t(at)...}];
  }
  /// Makes an array of two dimensions with any strides.
  static auto strided_array(float* data, std::size_t rows, std::size_t columns, std::size_t step,
                            std::size_t next) {
    using array = strided<float, std::size_t, dynamic, dynamic>;
    using mapping = typename array::mapping_type;
    using strides = std::remove_cvref_t<decltype(std::declval<mapping const&>().strides())>;
    return array(data, mapping(typename array::extents_type(rows, columns), strides{step, next}));
  }
};

// Each place of the array must be the element of the view in that place.
template <class Library, class Array, class View>
void expect_same_elements(Array const& array, View const& of) {
  EXPECT_EQ(static_cast<std::size_t>(array.extent(0)), of.rows);
  EXPECT_EQ(static_cast<std::size_t>(array.extent(1)), of.columns);
  for (std::size_t r = 0; r < of.rows; ++r)
    for (std::size_t c = 0; c < of.columns; ++c)
      EXPECT_EQ(&Library::element(array, r, c), of.data + r * of.columns + c);
}

template <class Library>
struct conversions {
  static constexpr std::size_t dynamic = Library::dynamic;
  template <class T>
  using matrix = typename Library::template right<T, std::size_t, dynamic, dynamic>;
  template <class T>
  using strided_matrix = typename Library::template strided<T, std::size_t, dynamic, dynamic>;
  template <class T>
  using vector = typename Library::template right<T, std::size_t, dynamic>;

  template <class T>
  static void elements() {
    auto data = numbers<T>(12);
    plait::view<T> const v{data.data(), 3, 4};
    auto const array = plait::ext::as<matrix<T>>(v);
    expect_same_elements<Library>(array, v);
    expect_same_elements<Library>(plait::ext::as<strided_matrix<T>>(v), v);
    Library::element(array, 1, 2) = T(70.0f);  // is written through
    EXPECT_EQ(float(data[6]), 70.0f);

    plait::view<T const> const read = v;
    expect_same_elements<Library>(plait::ext::as<matrix<T const>>(read), v);
    expect_same_elements<Library>(plait::ext::as<matrix<T const>>(v), v);
    static_assert(std::is_const_v<std::remove_reference_t<decltype(Library::element(
                      plait::ext::as<matrix<T const>>(v), 0, 0))>>);
  }

  // A rank's block of 3 x 8 features, of which two ranks have four columns each.
  static void blocks() {
    auto data = numbers<double>(24);
    using block = plait::view<double, plait::shard<1>>;
    block const second{data.data() + 12, 3, 4};
    expect_same_elements<Library>(plait::ext::as<matrix<double>>(second), second);
    using whole = typename Library::template right<double, std::size_t, dynamic, 8>;
    EXPECT_EQ(text_of<plait::size_mismatch>([&] { (void)plait::ext::as<whole>(second); }),
              "as<Array>(view): extent 1 is 8 in the type of Array and 4 in the view; the view has "
              "3 rows and 4 columns (one rank's block, shard<1>); write 4, or a dynamic extent if "
              "plans differ in this size");
    auto const back = plait::ext::as_view<plait::shard<1>>(plait::ext::as<matrix<double>>(second));
    static_assert(std::is_same_v<decltype(back), block const>);
    EXPECT_EQ(back.data, second.data);
  }

  static void extents_and_strides() {
    auto data = numbers<float>(12);
    plait::view<float> const v{data.data(), 3, 4};
    auto const strided = plait::ext::as<strided_matrix<float>>(v);
    EXPECT_EQ(strided.stride(0), 4u);
    EXPECT_EQ(strided.stride(1), 1u);

    using fixed = typename Library::template right<float, int, 3, 4>;
    expect_same_elements<Library>(plait::ext::as<fixed>(v), v);
    EXPECT_EQ(text_of<plait::size_mismatch>(
                  [&] { (void)plait::ext::as<fixed>(plait::view<float>{data.data(), 4, 3}); }),
              "as<Array>(view): extent 0 is 3 in the type of Array and 4 in the view; the view has "
              "4 rows and 3 columns; write 4, or a dynamic extent if plans differ in this size");

    // In one column or one row the layouts are alike.
    using column = typename Library::template left<float, std::size_t, dynamic, 1>;
    EXPECT_EQ(
        &Library::element(plait::ext::as<column>(plait::view<float>{data.data(), 5, 1}), 4, 0),
        &data[4]);
  }

  static void vectors() {
    auto data = numbers<float>(6);
    for (auto const& v : {plait::view<float>{data.data(), 1, 6}, {data.data(), 6, 1}}) {
      auto const array = plait::ext::as<vector<float>>(v);
      EXPECT_EQ(array.extent(0), 6u);
      EXPECT_EQ(&Library::element(array, 5), &data[5]);
    }
    EXPECT_EQ(text_of<plait::size_mismatch>([&] {
                (void)plait::ext::as<vector<float>>(plait::view<float>{data.data(), 2, 3});
              }),
              "as<Array>(view): Array is a vector, which needs one row or one column; the view has "
              "2 rows and 3 columns; write an Array of rank 2");

    std::array<std::int32_t, 3> const tokens{5, 6, 7};
    auto const labels = plait::ext::as<vector<std::int32_t const>>(
        plait::token_view<>{tokens.data(), tokens.size()});
    EXPECT_EQ(labels.extent(0), 3u);
    EXPECT_EQ(&Library::element(labels, 2), &tokens[2]);
  }

  static void heads() {
    auto data = numbers<float>(24);
    plait::view<float const, plait::shard<1>> const v{data.data(), 2, 12};
    using any =
        typename Library::template right<float const, std::size_t, dynamic, dynamic, dynamic>;
    using three = typename Library::template right<float const, std::size_t, dynamic, 3, dynamic>;
    using of_four = typename Library::template right<float const, std::size_t, dynamic, dynamic, 4>;
    auto const expect = [&](auto const& array) {
      EXPECT_EQ(array.extent(0), 2u);
      EXPECT_EQ(array.extent(1), 3u);
      EXPECT_EQ(array.extent(2), 4u);
      EXPECT_EQ(&Library::element(array, 1, 2, 3), &data[23]);
      EXPECT_EQ(&Library::element(array, 1, 0, 2), &data[14]);
      auto const back = plait::ext::as_view<plait::shard<1>>(array);
      EXPECT_EQ(back.data, v.data);
      EXPECT_EQ(back.rows, v.rows);
      EXPECT_EQ(back.columns, v.columns);
    };
    expect(plait::ext::as<any>(v, 3));
    expect(plait::ext::as<three>(v));
    expect(plait::ext::as<of_four>(v));
    expect(plait::ext::as<three>(v, 3));
    using strided = typename Library::template strided<float const, int, dynamic, dynamic, 4>;
    EXPECT_EQ(&Library::element(plait::ext::as<strided>(v), 1, 0, 2), &data[14]);

    using of_five = typename Library::template right<float const, std::size_t, dynamic, dynamic, 5>;
    std::string const view = "; the view has 2 rows and 12 columns (one rank's block, shard<1>); ";
    std::string const divide = view + "write sizes that do, for the heads of this rank";
    using mismatch = plait::size_mismatch;
    EXPECT_EQ(text_of<mismatch>([&] { (void)plait::ext::as<any>(v, 5); }),
              "as<Array>(view): 5 heads do not divide the columns" + divide);
    EXPECT_EQ(text_of<mismatch>([&] { (void)plait::ext::as<any>(v, 0); }),
              "as<Array>(view): 0 heads do not divide the columns" + divide);
    EXPECT_EQ(text_of<mismatch>([&] { (void)plait::ext::as<of_five>(v); }),
              "as<Array>(view): heads of 5 columns do not divide the columns" + divide);
    EXPECT_EQ(text_of<mismatch>([&] { (void)plait::ext::as<three>(v, 4); }),
              "as<Array>(view): extent 1 is 3 in the type of Array and 4 in the view" + view +
                  "write 4, or a dynamic extent if plans differ in this size");
  }

  static void index_types() {
    auto data = numbers<float>(200);
    using small = typename Library::template right<float, signed char, dynamic, dynamic>;
    plait::view<float> const fits{data.data(), 1, 127};
    EXPECT_EQ(&Library::element(plait::ext::as<small>(fits), 0, 126), &data[126]);
    for (auto const& [rows, columns] : {std::array<std::size_t, 2>{2, 64}, {128, 1}, {0, 128}})
      EXPECT_EQ(text_of<plait::size_mismatch>([&] {
                  (void)plait::ext::as<small>(plait::view<float>{data.data(), rows, columns});
                }),
                plait::ext::concat({"as<Array>(view): the index type of Array ends at 127, and the "
                                    "view has ",
                                    rows, " rows and ", columns, " columns; write std::size_t"}));
  }

  static void empty_views() {
    for (auto const& v : {plait::view<float>{nullptr, 0, 4}, {nullptr, 4, 0}, {}}) {
      auto const back = plait::ext::as_view(plait::ext::as<strided_matrix<float>>(v));
      EXPECT_EQ(back.rows, v.rows);
      EXPECT_EQ(back.columns, v.columns);
      EXPECT_EQ(plait::ext::as<matrix<float>>(v).extent(1), v.columns);
    }
  }

  static void there_and_back() {
    auto data = numbers<float>(12);
    plait::view<float> const v{data.data(), 3, 4};
    auto const expect = [](auto const& back, auto const& of) {
      static_assert(std::is_same_v<decltype(back), decltype(of)>);
      EXPECT_EQ(back.data, of.data);
      EXPECT_EQ(back.rows, of.rows);
      EXPECT_EQ(back.columns, of.columns);
    };
    expect(plait::ext::as_view(plait::ext::as<matrix<float>>(v)), v);
    expect(plait::ext::as_view(plait::ext::as<strided_matrix<float>>(v)), v);
    plait::view<float const> const read = v;
    expect(plait::ext::as_view(plait::ext::as<matrix<float const>>(read)), read);
    plait::view<float> const row{data.data(), 1, 12};
    expect(plait::ext::as_view(plait::ext::as<vector<float>>(row)), row);
  }

  static void gaps() {
    auto data = numbers<float>(12);
    auto const text = [&](std::size_t rows, std::size_t columns, std::size_t step,
                          std::size_t next) {
      return text_of<plait::size_mismatch>([&] {
        auto const v =
            plait::ext::as_view(Library::strided_array(data.data(), rows, columns, step, next));
        EXPECT_EQ(v.data, data.data());
        EXPECT_EQ(v.rows, rows);
        EXPECT_EQ(v.columns, columns);
      });
    };
    std::string const end =
        ", because it is row-major without gaps; copy the array to one with "
        "layout_right";
    EXPECT_EQ(text(3, 2, 4, 1),
              "as_view(array): the stride of dimension 0 is 4, and a view needs 2" + end);
    EXPECT_EQ(text(3, 4, 1, 3),
              "as_view(array): the stride of dimension 0 is 1, and a view needs 4" + end);
    EXPECT_EQ(text(1, 3, 12, 2),
              "as_view(array): the stride of dimension 1 is 2, and a view needs 1" + end);
    EXPECT_EQ(text(1, 3, 7, 1), "nothing was thrown");  // a single row has no gap
    EXPECT_EQ(text(3, 1, 1, 9), "nothing was thrown");
    EXPECT_EQ(text(0, 3, 9, 9), "nothing was thrown");
  }

  static void all() {
    elements<float>();
    elements<double>();
    elements<plait::bfloat16>();
    blocks();
    extents_and_strides();
    vectors();
    heads();
    index_types();
    empty_views();
    there_and_back();
    gaps();
  }
};

}  // namespace mdspan_testing
