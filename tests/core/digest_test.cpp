// SPDX-License-Identifier: Apache-2.0
#include "plait/core/digest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

using plait::detail::digest;

// The values are those that its authors publish.
TEST(Digest, IsFnv1aIn64Bits) {
  EXPECT_EQ(digest().value(), 0xcbf29ce484222325u);
  EXPECT_EQ(digest().add("a").value(), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(digest().add("foobar").value(), 0x85944171f73967e8u);
  EXPECT_EQ(digest().add("foo").add("bar").text(), "85944171f73967e8");
}

TEST(Digest, NumbersAreAddedFromTheLowestByteOn) {
  std::array<std::uint8_t, 8> const bytes{1, 2, 3, 4, 5, 6, 7, 0xff};
  EXPECT_EQ(digest().add(0xff07060504030201u).value(),
            digest().add(std::as_bytes(std::span(bytes))).value());
  EXPECT_EQ(digest().add(std::uint64_t{0x61}).value(),
            digest().add(std::string("a\0\0\0\0\0\0\0", 8)).value());
}
