// SPDX-License-Identifier: Apache-2.0
// test: libs=safetensors
#include "plait/io/sharding_info.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "plait/core/error.hpp"

namespace {

using plait::ext::make_sharding_metadata;
using plait::ext::parse_sharding_metadata;
using plait::ext::sharding_info;

std::string refusal(std::string const& text, std::string const& version = "1.0") {
  try {
    (void)parse_sharding_metadata({{"DCP_SHARDING_INFO", text}, {"DCP_VERSION", version}}, "f");
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no input_error";
}

TEST(ShardingInfo, IsWhatPyTorchWrites) {
  sharding_info const info{{"a \"b\"", {4, 0}}, {"scalar", {}}};
  auto const metadata = make_sharding_metadata(info);
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{
                          {"DCP_SHARDING_INFO",
                           R"({"a \"b\"":{"saved_offsets":[4,0]},"scalar":{"saved_offsets":[]}})"},
                          {"DCP_VERSION", "1.0"},
                          {"format", "pt"}}));
  EXPECT_EQ(parse_sharding_metadata(metadata, "f"), info);
  EXPECT_EQ(parse_sharding_metadata(make_sharding_metadata({}), "f"), sharding_info{});
  EXPECT_EQ(parse_sharding_metadata({{"format", "pt"}}, "f"), std::nullopt);
  // With the spaces of Python's json.dumps.
  EXPECT_EQ(parse_sharding_metadata({{"DCP_SHARDING_INFO", R"({"w": {"saved_offsets": [128, 0]}})"},
                                     {"DCP_VERSION", "1.0"}},
                                    "f"),
            (sharding_info{{"w", {128, 0}}}));
  EXPECT_THROW((void)make_sharding_metadata({{"\xff", {}}}), plait::input_error);
}

// Unknown members of a tensor, from later versions, are ignored; offsets are still read.
TEST(ShardingInfo, MayHaveOtherKeys) {
  for (std::string const other :
       {"1", "-1", "1.5", "true", "null", R"("v")", "[]", "{}", "[1,[2]]", R"({"a":1,"a":2})",
        R"({"saved_offsets":[7],"a":[{"b":"]"},[]]})"})
    for (std::string const& entry : {R"({"saved_offsets":[4,0],"logical_fqn":)" + other + "}",
                                     R"({"logical_fqn":)" + other + R"(,"saved_offsets":[4,0]})"})
      EXPECT_EQ(parse_sharding_metadata(
                    {{"DCP_SHARDING_INFO", R"({"w":)" + entry + R"(,"v":{"saved_offsets":[3]}})"},
                     {"DCP_VERSION", "1.0"}},
                    "f"),
                (sharding_info{{"v", {3}}, {"w", {4, 0}}}))
          << entry;
}

TEST(ShardingInfo, OtherTextsAreRefused) {
  std::string const start = "safetensors file 'f': DCP_SHARDING_INFO ";
  EXPECT_EQ(refusal("{}"), "no input_error");
  EXPECT_EQ(refusal("{}", "2.0"), "safetensors file 'f' has the DCP_VERSION '2.0', not '1.0'");
  EXPECT_EQ(refusal(""), start + "is not JSON (at its byte 1)");
  EXPECT_EQ(refusal("{"), start + "is not JSON (at its byte 2)");
  EXPECT_EQ(refusal(std::string("{}\0", 3)), start + "is not JSON (at its byte 3)");
  EXPECT_EQ(refusal("[]"), start + "is not an object");
  EXPECT_EQ(refusal("1"), start + "is not an object");
  EXPECT_EQ(refusal("{} {}"), start + "is not JSON (at its byte 4)");
  EXPECT_EQ(refusal(R"({"w":{"saved_offsets":[1],"a":1e400}})"),
            start + "is not JSON (it has a number that is too large)");
  EXPECT_EQ(refusal("{}" + std::string(50'000'000, ' ')),
            start + "has 50000002 bytes; at most 50000000 are allowed");
  std::string const fields =
      start + "must list 'w' with saved_offsets exactly once, as a list of up to 64 positions";
  for (std::string const value :
       {"1", "[1]", "{}", R"({"saved_offsets":1})", R"({"saved_offsets":{}})",
        R"({"saved_offsets":[-1]})", R"({"saved_offsets":[1.5]})", R"({"saved_offsets":[[1]]})",
        R"({"saved_offsets":["1"]})", R"({"saved_offsets":[1],"saved_offsets":[1]})",
        R"({"saved_offsets":[1],"a":[1],"saved_offsets":[1]})", R"({"saved_offset":[1]})",
        R"({"saved_offsets":null})", R"({"saved_offsets":[{"a":1}]})", "{\"a\":{\"b\":1}}",
        R"({"a":{"saved_offsets":[1]}})"})
    EXPECT_EQ(refusal("{\"w\":" + value + "}"), fields) << value;
  std::string many = "0";
  for (int i = 0; i < 64; ++i) many += ",0";
  EXPECT_EQ(refusal(R"({"w":{"saved_offsets":[)" + many + "]}}"), fields);
  EXPECT_EQ(refusal(R"({"w":{"saved_offsets":[]},"w":{"saved_offsets":[]}})"),
            start + "names 'w' twice");
  EXPECT_EQ(refusal(R"({"w":{"saved_offsets":[]},"\u0077":{"saved_offsets":[]}})"),
            start + "names 'w' twice");
  EXPECT_EQ(refusal(R"({"w":{"saved_offsets":[18446744073709551616]}})"), fields);
  std::string deep, ends;
  for (int i = 0; i < 300000; ++i) {
    deep += "{\"a\":";
    ends += '}';
  }
  EXPECT_NE(refusal(deep), "no input_error");
  EXPECT_EQ(
      refusal(deep + "1" + ends),
      start + "must list 'a' with saved_offsets exactly once, as a list of up to 64 positions");
  EXPECT_EQ(refusal(R"({"w":{"saved_offsets":[],"a":)" + deep + "1" + ends + "}}"),
            "no input_error");
}

}  // namespace
