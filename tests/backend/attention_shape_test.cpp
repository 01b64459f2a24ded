// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/attention_shape.hpp"

#include <gtest/gtest.h>

namespace {

using plait::ext::attention_options;

TEST(AttentionShape, VisibleKeysAreThoseOfTheMask) {
  for (std::size_t const sequence : {1u, 2u, 7u})
    for (attention_options const how :
         {attention_options{}, attention_options{.causal = false}, attention_options{.window = 1},
          attention_options{.window = 3}, attention_options{.window = 7}}) {
      std::size_t first_of_last = 0, last_of_last = 0;
      for (std::size_t query = 0; query < sequence; ++query) {
        auto const seen = visible_keys(how, query, sequence);
        for (std::size_t key = 0; key < sequence; ++key) {
          bool const expected =
              (!how.causal || key <= query) && (how.window == 0 || query < key + how.window);
          EXPECT_EQ(seen.first <= key && key <= seen.last, expected) << query << " sees " << key;
          if (expected) {
            EXPECT_LE(first_query_of(how, key), query);
          }
          if (key == query) {
            EXPECT_TRUE(expected && (first_query_of(how, key) == query || !how.causal));
          }
        }
        EXPECT_GE(seen.first, first_of_last);
        EXPECT_GE(seen.last, last_of_last);
        first_of_last = seen.first;
        last_of_last = seen.last;
      }
    }
}

TEST(AttentionShape, ScratchIsABlockOfQueries) {
  static_assert(plait::ext::attention_scratch(12) == 12 * 12);
  static_assert(plait::ext::attention_scratch(64) == 64 * 64);
  static_assert(plait::ext::attention_scratch(32768) == 64 * 32768);
}

}  // namespace
