// SPDX-License-Identifier: Apache-2.0
#include "plait/data/batch_size.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace {

using plait::global_batch;
using plait::per_rank_batch;

static_assert(global_batch<64>{}.samples == 64);
static_assert(global_batch<64>{}.per_rank(4) == 16);
static_assert(global_batch<>{12}.per_rank(3) == 4);
static_assert(per_rank_batch<16>{}.over(4).samples == 64);
static_assert(per_rank_batch<>{5}.over(3).samples == 15);

// The point of two types: neither becomes the other, nor a bare number one of them, by itself.
static_assert(!std::is_convertible_v<per_rank_batch<>, global_batch<>>);
static_assert(!std::is_convertible_v<global_batch<>, per_rank_batch<>>);
static_assert(!std::is_convertible_v<std::size_t, global_batch<>>);
static_assert(!plait::ext::global_batch_size<per_rank_batch<>> &&
              !plait::ext::global_batch_size<int>);

TEST(BatchSize, SplitNamesBothNumbers) {
  try {
    (void)global_batch<10>{}.per_rank(3);
    FAIL() << "10 samples were split over 3 ranks";
  } catch (plait::input_error const& problem) {
    std::string const text = problem.what();
    EXPECT_NE(text.find("10 samples"), std::string::npos) << text;
    EXPECT_NE(text.find("3 data ranks"), std::string::npos) << text;
  }
  EXPECT_THROW((void)global_batch<>{10}.per_rank(4), plait::input_error);
  EXPECT_THROW((void)global_batch<>{10}.per_rank(0), plait::input_error);
  EXPECT_THROW((void)global_batch<>{10}.per_rank(-5), plait::input_error);
}

TEST(BatchSize, EmptyBatchesAreRefused) {
  EXPECT_THROW((void)global_batch<>{0}, plait::input_error);
  EXPECT_THROW((void)per_rank_batch<>{0}, plait::input_error);
  EXPECT_THROW((void)per_rank_batch<4>{}.over(0), plait::input_error);
  EXPECT_THROW((void)per_rank_batch<>{4}.over(-1), plait::input_error);
}

static_assert((plait::ext::require_global_batch<global_batch<12>>(), true));
static_assert((plait::ext::require_global_batch<global_batch<>>(), true));

}  // namespace
