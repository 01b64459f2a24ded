// SPDX-License-Identifier: Apache-2.0
#include "plait/core/quote.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using plait::detail::escaped;
using plait::detail::in_quotes;
using plait::detail::path_in_quotes;

TEST(Quote, ControlSequencesAreEscaped) {
  EXPECT_EQ(escaped("a\nb\tc"), "a\\nb\\x09c");
  EXPECT_EQ(escaped("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(escaped("\x7f"), "\\x7f");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(escaped("\u009b31m"), "\\xc2\\x9b31m");                          // C1: as ESC [
  EXPECT_EQ(escaped("a\u2028b"), "a\\xe2\\x80\\xa8b");                       // a line separator
  EXPECT_EQ(escaped("\u202egnp.exe"), "\\xe2\\x80\\xaegnp.exe");             // from right to left
  EXPECT_EQ(escaped("a\u200bb\ufeff"), "a\\xe2\\x80\\x8bb\\xef\\xbb\\xbf");  // without width
  EXPECT_EQ(escaped("a\\nb"), "a\\\\nb");                                    // is not a new line
}

TEST(Quote, TextOfAnyLanguageStays) {
  for (std::string const text : {"plain", "Grüße", "日本語", "\U0001f9f6", "\u00a0", ""})
    EXPECT_EQ(escaped(text), text);
}

TEST(Quote, BytesThatAreNotTextAreEscaped) {
  EXPECT_EQ(escaped("\x9b"), "\\x9b");
  EXPECT_EQ(escaped("a\xff"), "a\\xff");
  EXPECT_EQ(escaped("\xc3"), "\\xc3");           // cut
  EXPECT_EQ(escaped("\xc0\xaf"), "\\xc0\\xaf");  // longer than needed
  EXPECT_EQ(escaped("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(escaped("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond the last
}

TEST(Quote, TextsAreShortenedBetweenCharacters) {
  EXPECT_EQ(in_quotes("a\nb"), "'a\\nb'");
  EXPECT_EQ(in_quotes(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(in_quotes(std::string(79, 'x') + "üx"), "'" + std::string(79, 'x') + "...'");
}

TEST(Quote, SentencesOfOthersAreEscapedOnce) {
  using plait::detail::sentence_of_another;
  EXPECT_EQ(sentence_of_another("a\x1b[2J\n"), "a\\x1b[2J\\n");
  EXPECT_EQ(sentence_of_another("log 'a\\x1b[2J' is full"), "log 'a\\x1b[2J' is full");
  EXPECT_EQ(sentence_of_another(std::string(1001, 'x')), std::string(1000, 'x') + "...");
  EXPECT_EQ(sentence_of_another(""), "");
}

TEST(Quote, PathsAreWhole) {
  std::string const folder(500, 'd');
  EXPECT_EQ(path_in_quotes(folder + "/name"), "'" + folder + "/name'");
  EXPECT_EQ(path_in_quotes("a\nb"), "'a\\nb'");
}

}  // namespace
