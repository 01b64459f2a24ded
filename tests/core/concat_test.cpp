// SPDX-License-Identifier: Apache-2.0
#include "plait/core/concat.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "plait/core/error.hpp"

namespace concat_test {

using plait::ext::concat;
using plait::ext::text_part;

TEST(Concat, PutsItsPartsInOrder) {
  int const world_size = 8;
  std::string const why = "no disk";
  // example-begin parts
  auto const sentence = plait::ext::concat({"rank ", 3, " of ", world_size, ": ", why});
  // example-end
  EXPECT_EQ(sentence, "rank 3 of 8: no disk");
  std::string const who = "rank";
  std::string_view const where = "node 7, rack 2";
  EXPECT_EQ(concat({who, ' ', 3, " of ", 8u, " on ", where.substr(0, 6)}), "rank 3 of 8 on node 7");
  EXPECT_EQ(concat({}), "");
  EXPECT_EQ(concat({"", std::string{}, std::string_view{}}), "");
  EXPECT_EQ(concat({std::string_view("a\0b", 3), std::string("\0c", 2)}),
            std::string("a\0b\0c", 5));
}

TEST(Concat, IntegersAreWhatToStringMakesOfThem) {
  for (long long const value :
       {0LL, 7LL, 10LL, -1LL, -10LL, 123456789012345LL, std::numeric_limits<long long>::max(),
        std::numeric_limits<long long>::min()})
    EXPECT_EQ(concat({value}), std::to_string(value));
  EXPECT_EQ(concat({std::numeric_limits<std::uint64_t>::max()}),
            std::to_string(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(concat({std::numeric_limits<std::int8_t>::min(), ' ', std::uint8_t{255}, ' ',
                    std::numeric_limits<short>::min(), ' ', 7L}),
            "-128 255 -32768 7");
}

TEST(Concat, ItTakesNothingElse) {
  static_assert(!std::is_constructible_v<text_part, bool>, "true is no part of a sentence");
  static_assert(!std::is_convertible_v<double, text_part>, "how many digits is for the caller");
  static_assert(!std::is_convertible_v<void*, text_part>);
}

TEST(Concat, AnErrorSaysTheSentenceOfItsParts) {
  std::string const file = "weights";
  EXPECT_STREQ(plait::error({"rank ", 1, " has no disk"}).what(), "rank 1 has no disk");
  EXPECT_STREQ(plait::input_error({file, ": ", std::size_t{3}, " tensors"}).what(),
               "weights: 3 tensors");
  // A list of two has been a range of characters to std::string.
  EXPECT_STREQ(plait::size_mismatch({"samples: ", 12}).what(), "samples: 12");
  EXPECT_STREQ(plait::error("no disk").what(), "no disk");
}

}  // namespace concat_test
