// SPDX-License-Identifier: Apache-2.0
// test: alone
#include "plait/data/loader.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "plait/data/byte_text.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/sampler.hpp"
#include "testing/count_allocations.hpp"

namespace {

// Features whose value says which sample, position and column they are.
struct numbered {
  using concept_tag = plait::dataset_tag;
  using element = double;
  [[nodiscard]] std::size_t size() const { return 100; }
  [[nodiscard]] std::size_t sequence_length() const { return 3; }
  [[nodiscard]] std::size_t width() const { return 2; }
  void inputs(std::size_t sample, std::span<double> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>(100 * (sample + 1) + 10 * (i / 2) + i % 2);
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>(10 * (sample + 1) + i);
  }
};

using ints = std::vector<std::int32_t>;

TEST(Loader, TokensArePositionMajor) {
  auto const text = plait::byte_text::from_text("abcdefghijklm", 3);
  plait::ext::loader load(text);
  std::array<std::size_t, 2> const samples{3, 1};
  ints inputs(6), targets(6);
  load.fill(samples, 1, {inputs, targets});
  EXPECT_EQ(inputs, (ints{'j', 'd', 'k', 'e', 'l', 'f'}));
  EXPECT_EQ(targets, (ints{'k', 'e', 'l', 'f', 'm', 'g'}));
}

TEST(Loader, FeaturesKeepTheirWidthContiguous) {
  numbered const data;
  plait::ext::loader load(data);
  EXPECT_EQ(load.inputs_per_sample(), 6u);
  EXPECT_EQ(load.targets_per_sample(), 3u);
  std::array<std::size_t, 2> const samples{4, 0};
  std::vector<double> inputs(12);
  ints targets(6);
  load.fill(samples, 1, {inputs, targets});
  EXPECT_EQ(inputs,
            (std::vector<double>{500, 501, 100, 101, 510, 511, 110, 111, 520, 521, 120, 121}));
  EXPECT_EQ(targets, (ints{50, 10, 51, 11, 52, 12}));
}

TEST(Loader, MicrobatchesFollowEachOther) {
  numbered const data;
  plait::ext::loader load(data);
  std::vector<std::size_t> samples(6);
  std::iota(samples.begin(), samples.end(), std::size_t{20});
  std::vector<double> inputs(36);
  ints targets(18);
  load.fill(samples, 3, {inputs, targets});
  for (std::size_t m = 0; m < 3; ++m) {
    std::vector<double> expected_inputs(12);
    ints expected_targets(6);
    load.fill(std::span(samples).subspan(2 * m, 2), 1, {expected_inputs, expected_targets});
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(inputs[12 * m + i], expected_inputs[i]);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(targets[6 * m + i], expected_targets[i]);
  }
}

// 3 samples into 2 microbatches of 2, and of 4: what is left over counts nowhere.
TEST(Loader, PartialBatchesAreFilledUpWithIgnoredTargets) {
  plait::in_memory<float> const data({1, 2, 3}, {4, 5, 6}, 1);
  plait::ext::loader load(data);
  std::array<std::size_t, 3> const samples{0, 1, 2};
  std::vector<float> inputs(4, 99), many(8, 99);
  ints targets(4, 99), more(8, 99);
  constexpr auto none = plait::ext::ignored_target;
  load.fill(samples, 2, {inputs, targets});
  EXPECT_EQ(inputs, (std::vector<float>{1, 2, 3, 0}));
  EXPECT_EQ(targets, (ints{4, 5, 6, none}));
  load.fill(samples, 2, {many, more});
  EXPECT_EQ(more, (ints{4, 5, 6, none, none, none, none, none}));
  load.fill({}, 1, {inputs, targets});
  EXPECT_EQ(inputs, (std::vector<float>(4, 0)));
  EXPECT_EQ(targets, (ints(4, none)));
}

TEST(Loader, SizesAreCheckedBeforeAnythingIsWritten) {
  numbered const data;
  plait::ext::loader load(data);
  std::array<std::size_t, 3> const samples{0, 1, 2};
  std::vector<double> inputs(12, -1);
  ints targets(6, -1);
  EXPECT_THROW(load.fill(samples, 1, {inputs, targets}), plait::size_mismatch);
  auto const two = std::span(samples).first(2);
  EXPECT_THROW(load.fill(two, 1, {std::span(inputs).first(11), targets}), plait::size_mismatch);
  EXPECT_THROW(load.fill(two, 1, {inputs, std::span(targets).first(5)}), plait::size_mismatch);
  EXPECT_THROW(load.fill(two, 0, {inputs, targets}), plait::size_mismatch);
  EXPECT_THROW(load.fill(two, 4, {inputs, targets}), plait::size_mismatch);
  EXPECT_THROW(load.fill(samples, 2, {inputs, targets}), plait::size_mismatch);
  EXPECT_EQ(inputs, std::vector<double>(12, -1));
  EXPECT_EQ(targets, ints(6, -1));
}

// With the order of the text, sample i of step s starts at byte (s * batch + i) * sequence.
// Ranks read 64 of 100 samples, or no sample if a data set has a fingerprint of its own.
TEST(Loader, FingerprintsAreOthersForOtherData) {
  auto const of = [](auto const& data) { return plait::ext::loader(data).fingerprint(); };
  struct signed_by : numbered {
    explicit signed_by(std::uint64_t number) : number_(number) {}
    [[nodiscard]] std::uint64_t fingerprint() const { return number_; }
    void inputs(std::size_t, std::span<double>) const { ADD_FAILURE() << "a sample is read"; }

   private:
    std::uint64_t number_;
  };
  EXPECT_EQ(of(numbered{}), of(numbered{}));
  EXPECT_EQ(of(signed_by(1)), of(signed_by(1)));
  EXPECT_NE(of(signed_by(1)), of(signed_by(2)));
  EXPECT_NE(of(signed_by(1)), of(numbered{}));
}

TEST(Loader, SequentialStepsReadTheTextInOrder) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += static_cast<char>(i);
  auto const text = plait::byte_text::from_text(bytes, 5);
  plait::ext::sampler const order(text.size(), {.order = plait::sample_order::sequential});
  plait::ext::loader load(text);
  ints inputs(10), targets(10);
  std::array<std::size_t, 2> mine{};
  for (std::size_t step = 0; step < 9; ++step)
    for (int rank = 0; rank < 2; ++rank) {
      auto const at = order.position(plait::global_batch<4>{}, step);
      order.fill(at.epoch, order.slice(plait::global_batch<4>{}, at.batch, rank, 2), mine);
      load.fill(mine, 1, {inputs, targets});
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_EQ(inputs[i],
                  static_cast<int>((step * 4 + static_cast<std::size_t>(rank) * 2 + i) * 5));
    }
}

TEST(Loader, FillingAllocatesNothing) {
  auto const text = plait::byte_text::from_text(std::string(1000, 'x'), 10);
  plait::ext::sampler const order(text.size());
  plait::ext::loader load(text);
  ints inputs(80), targets(80);
  std::array<std::size_t, 8> mine{};
  long const before = plait_test::allocations.load();
  for (std::size_t step = 0; step < 30; ++step) {
    auto const at = order.position(plait::global_batch<16>{}, step);
    auto const slice = order.slice(plait::global_batch<16>{}, at.batch, 1, 2);
    order.fill(at.epoch, slice, mine);
    load.fill(std::span(mine).first(slice.count), 2, {inputs, targets});
  }
  EXPECT_EQ(plait_test::allocations.load(), before);
}

}  // namespace
