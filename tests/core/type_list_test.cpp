// SPDX-License-Identifier: Apache-2.0
#include "plait/core/type_list.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using plait::detail::in_order;
using plait::detail::join_lists;
using plait::detail::sum_of_numbers;
using plait::detail::type_at;

template <std::size_t Number>
struct numbered {
  static constexpr std::size_t number = Number;
};

// Lists are not instantiated, so that they may have types without a definition.
struct declared_only;

/// numbered<First>, numbered<First + 1> and so on.
template <std::size_t First, class Indices>
struct counted_list;
template <std::size_t First, std::size_t... I>
struct counted_list<First, std::index_sequence<I...>> {
  using type = std::tuple<numbered<First + I>...>;
};
template <std::size_t First, std::size_t Count>
using counted = typename counted_list<First, std::make_index_sequence<Count>>::type;

TEST(TypeList, HasTheTypeAtAPlace) {
  using list = std::tuple<int, declared_only, int, void, double&>;
  EXPECT_TRUE((std::is_same_v<type_at<list, 0>, int>));
  EXPECT_TRUE((std::is_same_v<type_at<list, 1>, declared_only>));
  EXPECT_TRUE((std::is_same_v<type_at<list, 2>, int>));  // a list may contain a type twice
  EXPECT_TRUE((std::is_same_v<type_at<list, 3>, void>));
  EXPECT_TRUE((std::is_same_v<type_at<list, 4>, double&>));
}

template <std::size_t... I>
constexpr bool has_all(std::index_sequence<I...>) {
  bool found = true;
  in_order{(found = found && type_at<counted<7, sizeof...(I)>, I>::number == I + 7, 0)...};
  return found;
}

TEST(TypeList, HasTheTypesOfALongList) {
  // More than compilers nest, and than clang folds.
  EXPECT_TRUE((has_all(std::make_index_sequence<1500>{})));
}

// From none to more than twice eight, which are joined at once.
template <std::size_t Count>
constexpr bool joins() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    using joined = join_lists<counted<2 * I, 2>...>;
    return std::is_same_v<joined, counted<0, 2 * Count>>;
  }(std::make_index_sequence<Count>{});
}

TEST(TypeList, JoinsListsInTheirOrder) {
  EXPECT_TRUE((std::is_same_v<join_lists<>, std::tuple<>>));
  std::vector<bool> const all = []<std::size_t... Count>(std::index_sequence<Count...>) {
    return std::vector<bool>{joins<Count>()...};
  }(std::make_index_sequence<20>{});
  EXPECT_EQ(all, std::vector<bool>(20, true));
}

TEST(TypeList, JoinsEmptyListsAndSingleOnes) {
  using none = std::tuple<>;
  EXPECT_TRUE((std::is_same_v<join_lists<none, none>, none>));
  EXPECT_TRUE((std::is_same_v<join_lists<none, std::tuple<int>, none, std::tuple<char, int>>,
                              std::tuple<int, char, int>>));
  EXPECT_TRUE((std::is_same_v<join_lists<none, none, none, none, none, none, none, none, none,
                                         std::tuple<declared_only>>,
                              std::tuple<declared_only>>));
}

TEST(TypeList, JoinsAsManyListsAsAModelHasLayers) { EXPECT_TRUE(joins<1024>()); }

TEST(TypeList, GoesThroughAPackInItsOrder) {
  std::vector<std::size_t> met;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    in_order{(met.push_back(I), 0)...};
  }(std::make_index_sequence<300>{});
  ASSERT_EQ(met.size(), 300u);
  for (std::size_t i = 0; i < met.size(); ++i) EXPECT_EQ(met[i], i);
}

TEST(TypeList, AddsUpNumbers) {
  EXPECT_EQ(sum_of_numbers({}), 0);
  EXPECT_EQ(sum_of_numbers({3}), 3);
  EXPECT_EQ(sum_of_numbers({3, -5, 4}), 2);
  constexpr int all = []<std::size_t... I>(std::index_sequence<I...>) {
    return sum_of_numbers({int(I)...});
  }(std::make_index_sequence<600>{});
  EXPECT_EQ(all, 600 * 599 / 2);
}

}  // namespace
