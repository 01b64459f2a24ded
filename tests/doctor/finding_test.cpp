// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/finding.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using plait::ext::finding;
using plait::ext::finding_severity;

TEST(Finding, IsASentence) {
  // example-begin sentence
  plait::ext::finding found;
  found.ranks = {5};
  found.host = "b";
  found.measured = "2 MiB are in swap";
  found.expected = "0";
  found.what_to_do = "end other programs";
  // rank 5 (host b): 2 MiB are in swap; expected: 0; end other programs
  std::string const sentence = found.text();
  // example-end
  EXPECT_EQ(sentence, "rank 5 (host b): 2 MiB are in swap; expected: 0; end other programs");
}

TEST(Finding, NamesNoHostIfThereAreSeveral) {
  finding found{.id = "x", .ranks = {0, 1, 2, 7}, .measured = "slow"};
  EXPECT_EQ(found.text(), "ranks 0-2 and 7: slow");
  found.ranks.clear();
  EXPECT_EQ(found.text(), "all ranks: slow");
  found.what_to_do = "wait";
  EXPECT_EQ(found.text(), "all ranks: slow; wait");
}

TEST(Finding, IsAJsonObject) {
  finding const found{.id = "x-y",
                      .severity = finding_severity::fails,
                      .ranks = {3, 4},
                      .host = "a \"b\"",
                      .measured = "c:\\d",
                      .expected = "1\n2"};
  EXPECT_EQ(found.json(),
            "{\"id\": \"x-y\", \"severity\": \"fails\", \"ranks\": [3, 4], \"host\": \"a "
            "\\\"b\\\"\", \"measured\": \"c:\\\\d\", \"expected\": \"1\\\\n2\", \"what_to_do\": "
            "\"\"}");
  EXPECT_EQ(finding{}.json(),
            "{\"id\": \"\", \"severity\": \"note\", \"ranks\": [], \"host\": \"\", \"measured\": "
            "\"\", \"expected\": \"\", \"what_to_do\": \"\"}");
}

TEST(Finding, HasNoBytesThatChangeATerminal) {
  finding const found{.id = "x",
                      .host = "\x1b[31m",
                      .measured = std::string("a\0b\xff\xc2\x85", 6),
                      .what_to_do = "\xe2\x80\xae"};
  for (auto const& text : {found.text(), found.json()})
    for (char const each : text) {
      EXPECT_GE(static_cast<unsigned char>(each), 0x20) << text;
      EXPECT_LT(static_cast<unsigned char>(each), 0x7f) << text;
    }
  EXPECT_NE(found.json().find("\\\\xff"), std::string::npos) << found.json();
}

TEST(Finding, SeveritiesHaveNames) {
  EXPECT_EQ(to_string(finding_severity::note), "note");
  EXPECT_EQ(to_string(finding_severity::slow), "slow");
  EXPECT_EQ(to_string(finding_severity::fails), "fails");
  EXPECT_EQ(to_string(static_cast<finding_severity>(9)), "unknown");
}

}  // namespace
