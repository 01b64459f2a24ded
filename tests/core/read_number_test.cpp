// SPDX-License-Identifier: Apache-2.0
#include "plait/core/read_number.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using plait::detail::number_of_text;

// The numbers have the bits of strtod in the locale "C", which reads too small numbers as 0 and too
// large ones as infinity.
void expect_as_in_c(std::string const& text) {
  auto const found = number_of_text(text);
  ASSERT_TRUE(found) << text;
  EXPECT_EQ(std::bit_cast<std::uint64_t>(*found),
            std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)))
      << text;
}

TEST(ReadNumber, HasTheBitsOfC) {
  for (char const* const text : {"0",
                                 "-0",
                                 "1",
                                 "0.1",
                                 ".5",
                                 "5.",
                                 "1e5",
                                 "1E+05",
                                 "4.9e-324",
                                 "2.5e-324",
                                 "2.4e-324",
                                 "2e-324",
                                 "1e-310",
                                 "-1e-310",
                                 "1e-400",
                                 "-1e-400",
                                 "0.001e-330",
                                 "1e400",
                                 "-1e400",
                                 "1000E400",
                                 "1.7976931348623157e308",
                                 "1.7976931348623159e308",
                                 "0e999999",
                                 "-0e-999999",
                                 "1e-99999999999999999999",
                                 "1e99999999999999999999",
                                 "1e+99999999999",
                                 "inf",
                                 "-infinity",
                                 "123456789012345678901234567890e-400"})
    expect_as_in_c(text);
  std::string const zeros(400, '0');
  expect_as_in_c("0." + zeros + "1");
  expect_as_in_c("0." + zeros + "1e400");
  expect_as_in_c("-0." + zeros + "123e50");
  expect_as_in_c("1" + zeros);
  expect_as_in_c("1" + zeros + "e-750");
  expect_as_in_c("1" + zeros + "e-50");
  expect_as_in_c("1" + zeros + ".5E-400");
}

TEST(ReadNumber, ReadsNothingElse) {
  for (char const* const text : {"", " ", "x", "1x", "1e", "1e+", " 1", "1 ", "+1", "--1", "0x10",
                                 "1,5", "1_000", "1e-400x", "1e400 ", "e5", ".", "-"})
    EXPECT_FALSE(number_of_text(text)) << text;
}

}  // namespace
