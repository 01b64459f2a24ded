// SPDX-License-Identifier: Apache-2.0
#include "plait/core/function_reference.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace {

using plait::ext::function_reference;

int call(function_reference<int(int)> of, int with) { return of(with); }

TEST(FunctionReference, CallsWhatItRefersTo) {
  int calls = 0;
  auto const adds = [&](int by) { return calls += by; };
  EXPECT_EQ(call(adds, 2), 2);
  EXPECT_EQ(call([&](int by) { return calls *= by; }, 5), 10);
  EXPECT_EQ(calls, 10);
}

TEST(FunctionReference, ChangesWhatIsNotConst) {
  int const four = 4;
  auto counts = [count = 0](int by) mutable { return count += by; };
  EXPECT_EQ(call(counts, four), 4);
  EXPECT_EQ(call(counts, four), 8);
  EXPECT_EQ(counts(0), 8);  // the object itself, no copy
}

TEST(FunctionReference, CallsAsConstWhatIsConst) {
  struct {
    int operator()(int) const { return 1; }
    int operator()(int) { return 2; }
  } either;
  EXPECT_EQ(call(either, 0), 2);
  EXPECT_EQ(call(std::as_const(either), 0), 1);
}

TEST(FunctionReference, ACopyRefersToTheSame) {
  int calls = 0;
  auto const count = [&](int) { return ++calls; };
  function_reference<int(int)> const first = count;
  function_reference<int(int)> second = first;
  function_reference<int(int)> const third = second;
  EXPECT_EQ(first(0) + second(0) + third(0), 6);
}

TEST(FunctionReference, HandsOnWhatCannotBeCopied) {
  auto const take = [](std::unique_ptr<int> what, int& to) { to = *what; };
  int to = 0;
  function_reference<void(std::unique_ptr<int>, int&)> const of = take;
  of(std::make_unique<int>(7), to);
  EXPECT_EQ(to, 7);
}

int doubled(int of) { return 2 * of; }
int* nobody(char const*) noexcept { return nullptr; }

TEST(FunctionReference, RefersToFunctions) {
  EXPECT_EQ(call(doubled, 4), 8);
  EXPECT_EQ(call(&doubled, 4), 8);
  auto* const pointer = doubled;
  EXPECT_EQ(call(pointer, 5), 10);
  function_reference<int const*(char const*)> const of = nobody;
  EXPECT_EQ(of(""), nullptr);
}

TEST(FunctionReference, DropsAnUnusedResult) {
  int calls = 0;
  auto const count = [&] { return ++calls; };
  function_reference<void()> const of = count;
  of();
  EXPECT_EQ(calls, 1);
  function_reference<void(int)> const other = doubled;
  other(1);
}

template <class From>
constexpr bool is_called_as_int = std::is_convertible_v<From, function_reference<int(int)>>;
static_assert(is_called_as_int<decltype(doubled)&> && !is_called_as_int<int>);
static_assert(!is_called_as_int<decltype(nobody)&> && !is_called_as_int<int (*)()>);
static_assert(!std::is_default_constructible_v<function_reference<int(int)>>);

}  // namespace
