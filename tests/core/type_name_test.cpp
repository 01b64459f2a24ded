// SPDX-License-Identifier: Apache-2.0
#include "plait/core/type_name.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace of_types {

template <class...>
struct outer {
  struct inner {};
};
struct plain {};

}  // namespace of_types

namespace {

using plait::detail::plain_name;
using plait::detail::type_text;

template <class T>
constexpr auto plain_name_of = plain_name(type_text<T>());

struct hidden {};

TEST(TypeName, IsWhatTheCompilerWrites) {
  EXPECT_EQ(plait::detail::type_name<int>(), "int");
  EXPECT_TRUE(type_text<of_types::plain>().ends_with("of_types::plain"));
}

TEST(TypeName, IsPlainWithoutNamespacesAndArguments) {
  using of_types::outer;
  struct local {};
  static_assert(plain_name_of<int> == "int");
  static_assert(plain_name_of<of_types::plain> == "plain");
  static_assert(plain_name_of<hidden> == "hidden");
  static_assert(plain_name_of<local> == "local");
  static_assert(plain_name_of<outer<int>> == "outer");
  static_assert(plain_name_of<outer<outer<int>, std::vector<int>>> == "outer");
  static_assert(plain_name_of<outer<hidden, local>::inner> == "inner");
  static_assert(plain_name("a::b<c::d(e::f)>::g<h>") == "g");
  static_assert(plain_name("").empty());
}

}  // namespace
