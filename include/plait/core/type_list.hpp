// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "plait/core/namespaces.hpp"

// Functions and types for long lists of types. The standard library's tuple_cat instantiates the
// tuples, and its tuple_element steps through the list: for both, the number of instantiations
// grows as the square of the length. Here a list is a std::tuple<...> that is never instantiated.
// Fold expressions are avoided, because clang nests them and stops at a depth of 256.
namespace plait::detail {

template <std::size_t Index, class T>
struct indexed_type {
  using type = T;
};

template <class Indices, class... Types>
struct indexed_types;
template <std::size_t... Index, class... Types>
struct indexed_types<std::index_sequence<Index...>, Types...> : indexed_type<Index, Types>... {};

template <class List>
struct type_table;
template <class... Types>
struct type_table<std::tuple<Types...>>
    : indexed_types<std::index_sequence_for<Types...>, Types...> {};

template <std::size_t Index, class T>
indexed_type<Index, T> find_type(indexed_type<Index, T> const*);

// Call this function by its qualified name: for an unqualified call, argument-dependent lookup
// would make compilers instantiate the tuple.
template <class List, std::size_t Index>
struct type_at_index {
  using type = typename decltype(detail::find_type<Index>(
      static_cast<type_table<List> const*>(nullptr)))::type;
};

/// The type at index `Index` of a std::tuple<...>.
template <class List, std::size_t Index>
using type_at = typename type_at_index<List, Index>::type;

template <class... Lists>
struct joined_lists;
template <>
struct joined_lists<> {
  using type = std::tuple<>;
};
template <class... A>
struct joined_lists<std::tuple<A...>> {
  using type = std::tuple<A...>;
};
template <class... A, class... B, class... More>
struct joined_lists<std::tuple<A...>, std::tuple<B...>, More...>
    : joined_lists<std::tuple<A..., B...>, More...> {};
/// Joins eight lists in one instantiation, so that long sequences of lists need few instantiations.
template <class... A, class... B, class... C, class... D, class... E, class... F, class... G,
          class... H, class... More>
struct joined_lists<std::tuple<A...>, std::tuple<B...>, std::tuple<C...>, std::tuple<D...>,
                    std::tuple<E...>, std::tuple<F...>, std::tuple<G...>, std::tuple<H...>, More...>
    : joined_lists<std::tuple<A..., B..., C..., D..., E..., F..., G..., H...>, More...> {};

/// A std::tuple<...> with the types of several lists, concatenated.
template <class... Lists>
using join_lists = typename joined_lists<Lists...>::type;

/// Evaluates the expressions of a long pack in order: `in_order{(f<T>(), 0)...}`.
struct in_order {
  constexpr in_order(std::initializer_list<int>) {}
};

constexpr int sum_of_numbers(std::initializer_list<int> numbers) {
  int sum = 0;
  for (int const each : numbers) sum += each;
  return sum;
}

/// Returns the index of the first true value; -1 if none is true.
constexpr int place_of_first(std::initializer_list<bool> of) {
  int place = 0;
  for (bool const is : of) {
    if (is) return place;
    ++place;
  }
  return -1;
}

}  // namespace plait::detail
