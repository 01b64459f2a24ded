// SPDX-License-Identifier: Apache-2.0
#include "plait/data/reads_ahead.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using plait::detail::reads_ahead;

/// A source that calls the functions of an object.
template <class Object>
reads_ahead::source calls(Object& of) {
  return {[&of](int reader, std::size_t buffer, std::uint64_t step, std::size_t place) {
            of.fill(reader, buffer, step, place);
          },
          [&of](std::uint64_t step) { return of.is_past_end(step); }};
}

/// Buffers of ten places, into which readers write the step.
struct buffers {
  static constexpr std::size_t places = 10;
  reads_ahead::shape how;
  std::uint64_t end = 1'000'000;
  std::vector<std::vector<std::uint64_t>> of =
      std::vector<std::vector<std::uint64_t>>(how.ahead + 1, std::vector<std::uint64_t>(places));
  std::atomic<std::uint64_t> fills{0}, furthest{0};
  std::atomic<std::int64_t> fails_at{-1};
  std::atomic<bool> is_slow{false};
  reads_ahead ahead{how, calls(*this)};

  explicit buffers(std::size_t ahead_of, int readers)
      : how{.ahead = ahead_of, .places = places, .readers = readers} {}

  [[nodiscard]] bool is_past_end(std::uint64_t step) const { return step >= end; }
  void fill(int, std::size_t buffer, std::uint64_t step, std::size_t place) {
    if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    auto const number = std::int64_t(step * places + place);
    if (number >= fails_at && fails_at >= 0)
      throw std::runtime_error("place " + std::to_string(number));
    of[buffer][place] = step;
    ++fills;
    for (auto before = furthest.load();
         before < step && !furthest.compare_exchange_weak(before, step);) {
    }
  }
  void expect(std::uint64_t step) {
    auto const buffer = ahead.take(step);
    // Readers do not write a batch that the program holds; a sanitizer would also see an early
    // reader.
    for (int look = 0; look < 3; ++look) {
      for (auto const found : of[buffer]) ASSERT_EQ(found, step);
      std::this_thread::yield();
    }
  }
};

class ReadsAhead : public testing::TestWithParam<std::pair<std::size_t, int>> {
 protected:
  buffers all{GetParam().first, GetParam().second};
};
INSTANTIATE_TEST_SUITE_P(OfAll, ReadsAhead,
                         testing::Values(std::pair{1u, 1}, std::pair{1u, 4}, std::pair{2u, 1},
                                         std::pair{3u, 4}, std::pair{7u, 2}, std::pair{2u, 16}));

TEST_P(ReadsAhead, FillsEachPlaceOfEachStepOnce) {
  EXPECT_EQ(all.fills, 0u);  // no call has said where to begin
  for (std::uint64_t step = 0; step < 200; ++step) all.expect(step);
  EXPECT_GE(all.fills, 2000u);
  EXPECT_LE(all.furthest, 199 + all.how.ahead);
  EXPECT_LE(all.fills, 2000 + all.how.ahead * buffers::places);
}

TEST_P(ReadsAhead, StartsAgainAtAGivenStep) {
  for (std::uint64_t const step : {0u, 1u, 2u, 50u, 51u, 7u, 7u, 7u, 8u, 0u, 1u}) all.expect(step);
}

TEST_P(ReadsAhead, EndsWithTheLastStep) {
  all.end = 20;
  for (std::uint64_t step = 15; step < 20; ++step) all.expect(step);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(all.furthest, 19u);
  EXPECT_EQ(all.fills, 50u);
}

TEST_P(ReadsAhead, ThrowsWhatTheFirstPlaceThatFailsThrowsAtItsStep) {
  for (int again = 0; again < 20; ++again) {
    all.fails_at = 53;  // and all places after it
    for (std::uint64_t step = 3; step < 5; ++step) all.expect(step);
    for (int twice = 0; twice < 2; ++twice) try {
        (void)all.ahead.take(5);
        ADD_FAILURE();
      } catch (std::runtime_error const& problem) {
        EXPECT_STREQ(problem.what(), "place 53");
      }
    all.fails_at = -1;
    all.expect(5);
    all.expect(6);
  }
}

TEST_P(ReadsAhead, WaitsForOnePlaceAtMostWhenItEnds) {
  auto const begin = std::chrono::steady_clock::now();
  {
    buffers slow(GetParam().first, GetParam().second);
    slow.expect(0);
    slow.is_slow = true;
    (void)slow.ahead.take(1);
    (void)slow.ahead.take(2);
  }
  // All that could still be read would take a second at the least.
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 1.0);
}

/// Counts what each of three readers fills.
struct counts {
  std::mutex lock{};
  std::vector<int> seen = std::vector<int>(3);
  [[nodiscard]] static bool is_past_end(std::uint64_t) { return false; }
  void fill(int reader, std::size_t, std::uint64_t, std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::scoped_lock const hold(lock);
    ++seen[std::size_t(reader)];
  }
};

TEST(ReadsAheadReaders, AreAsManyAsAreAskedFor) {
  counts of;
  {
    reads_ahead ahead({.ahead = 4, .places = 30, .readers = 3}, calls(of));
    (void)ahead.take(0);
  }
  for (int const count : of.seen) EXPECT_GT(count, 0);
}

}  // namespace
