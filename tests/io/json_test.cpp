// SPDX-License-Identifier: Apache-2.0
// test: libs=safetensors
#include "plait/io/json.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using plait::detail::file_name;
using plait::detail::json_value;
using plait::detail::list_in;
using plait::detail::object_in;
using plait::detail::read_json;
using plait::detail::take;

std::string refusal(std::string const& text, std::string const& part = {}) {
  try {
    (void)read_json(text, 1'000'000, file_name("index", "i"), part);
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no input_error";
}

json_value value_of(std::string const& text) {
  return read_json(text, 1'000'000, file_name("index", "i"));
}

TEST(Json, MembersAreAllThereInTheirOrder) {
  auto const value = value_of(R"({"b": 1, "a": {"x": 2}, "b": [3], "\u0062": "4"})");
  auto const* const members = object_in(value);
  ASSERT_NE(members, nullptr);
  std::string keys, kinds;
  for (auto const& [key, one] : *members) {
    keys += key;
    kinds += std::string(one.type_name()) + " ";
  }
  EXPECT_EQ(keys, "babb");
  EXPECT_EQ(kinds, "number object array string ");
  EXPECT_EQ(object_in(value_of("[]")), nullptr);
  EXPECT_EQ(object_in(value_of("null")), nullptr);
  EXPECT_EQ(list_in(value_of("{}")), nullptr);
}

TEST(Json, OtherTextsAreRefusedAtTheirByte) {
  EXPECT_EQ(refusal("{}"), "no input_error");
  EXPECT_EQ(refusal(" 1 "), "no input_error");
  EXPECT_EQ(refusal(""), "index 'i' is not JSON (at its byte 1)");
  EXPECT_EQ(refusal("{} x"), "index 'i' is not JSON (at its byte 4)");
  EXPECT_EQ(refusal("{}{}"), "index 'i' is not JSON (at its byte 3)");
  EXPECT_EQ(refusal("[1,]"), "index 'i' is not JSON (at its byte 4)");
  EXPECT_EQ(refusal("{\"a\"}"), "index 'i' is not JSON (at its byte 5)");
  EXPECT_EQ(refusal("[\"\xff\"]"), "index 'i' is not JSON (at its byte 3)");
  EXPECT_EQ(refusal("[] // or"), "index 'i' is not JSON (at its byte 4)");
  EXPECT_EQ(refusal("[NaN]"), "index 'i' is not JSON (at its byte 2)");
  // For the library a 0 would be the end.
  EXPECT_EQ(refusal(std::string("{}\0", 3)), "index 'i' is not JSON (at its byte 3)");
  EXPECT_EQ(refusal("[1e400]"), "index 'i' is not JSON (it has a number that is too large)");
  EXPECT_EQ(refusal("[", "its part"), "index 'i': its part is not JSON (at its byte 2)");
}

TEST(Json, BytesAreLimited) {
  std::string text(1'000'000, ' ');
  text[0] = '1';
  EXPECT_EQ(refusal(text), "no input_error");
  text += ' ';
  EXPECT_EQ(refusal(text), "index 'i' has 1000001 bytes; at most 1000000 are allowed");
  EXPECT_EQ(refusal(text, "its part"),
            "index 'i': its part has 1000001 bytes; at most 1000000 are allowed");
}

// Neither the parser nor the end of a tree calls itself for what is within.
TEST(Json, DepthTakesNoStack) {
  std::string const lists(400'000, '[');
  EXPECT_EQ(refusal(lists), "index 'i' is not JSON (at its byte 400001)");
  EXPECT_EQ(refusal(lists + std::string(400'000, ']')), "no input_error");
  std::string objects, ends;
  for (int i = 0; i < 100'000; ++i) {
    objects += "{\"\":";
    ends += '}';
  }
  EXPECT_EQ(refusal(objects), "index 'i' is not JSON (at its byte 400001)");
  EXPECT_EQ(refusal(objects + "1" + ends), "no input_error");
}

template <class T>
bool takes(std::string const& text, T const& expected) {
  T out{};
  return take(value_of(text), out) && out == expected;
}

template <class T>
void expect_refused(std::vector<std::string> const& texts) {
  for (auto const& text : texts) {
    T out{};
    EXPECT_FALSE(take(value_of(text), out)) << text;
  }
}

TEST(Json, ValuesAreTakenAsTheirKindOnly) {
  using sizes = std::vector<std::size_t>;
  EXPECT_TRUE(takes<std::string>(R"("a\n")", "a\n"));
  EXPECT_TRUE(takes<std::uint64_t>("18446744073709551615", 18446744073709551615u));
  EXPECT_TRUE(takes<std::int64_t>("9223372036854775807", 9223372036854775807));
  EXPECT_TRUE(takes<sizes>("[3, 0]", {3, 0}));
  EXPECT_TRUE(takes<sizes>("[]", {}));
  expect_refused<std::string>({"1", "null", "true", "[\"a\"]", "{}"});
  std::vector<std::string> const others{"-1",   "-0",   "1.0", "1e2", "\"1\"",
                                        "null", "true", "[1]", "{}",  "18446744073709551616"};
  expect_refused<std::uint64_t>(others);
  expect_refused<std::int64_t>(others);
  expect_refused<std::int64_t>({"9223372036854775808"});
  expect_refused<sizes>({"1", "{}", "[-1]", "[1.5]", "[[1]]", "[\"1\"]", "[null]", "[1, {}]"});
  std::string many = "0";
  for (int i = 1; i < 64; ++i) many += ",0";
  EXPECT_TRUE(takes("[" + many + "]", sizes(64, 0)));
  expect_refused<sizes>({"[" + many + ",0]"});
}

}  // namespace
