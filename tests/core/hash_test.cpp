// SPDX-License-Identifier: Apache-2.0
#include "plait/core/hash.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

using plait::detail::hash;

// The values are those that its authors publish.
TEST(Digest, IsFnv1aIn64Bits) {
  EXPECT_EQ(hash().value(), 0xcbf29ce484222325u);
  EXPECT_EQ(hash().add("a").value(), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash().add("foobar").value(), 0x85944171f73967e8u);
  EXPECT_EQ(hash().add("foo").add("bar").text(), "85944171f73967e8");
}

TEST(Digest, NumbersAreAddedFromTheLowestByteOn) {
  std::array<std::uint8_t, 8> const bytes{1, 2, 3, 4, 5, 6, 7, 0xff};
  EXPECT_EQ(hash().add(0xff07060504030201u).value(),
            hash().add(std::as_bytes(std::span(bytes))).value());
  EXPECT_EQ(hash().add(std::uint64_t{0x61}).value(),
            hash().add(std::string("a\0\0\0\0\0\0\0", 8)).value());
}
