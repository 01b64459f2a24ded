// SPDX-License-Identifier: Apache-2.0
#include "plait/data/split_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/data/byte_text.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/loader.hpp"

namespace {

using plait::split_data;

/// Samples whose only input is their number; targets of two numbers, of each sample, and weights.
struct numbered {
  using concept_tag = plait::dataset_tag;
  using element = double;
  using target = float;
  static constexpr bool targets_per_sample = true;
  std::size_t samples = 0;
  double factor = 1;
  [[nodiscard]] std::size_t size() const { return samples; }
  [[nodiscard]] std::size_t sequence_length() const { return 3; }
  [[nodiscard]] std::size_t width() const { return 1; }
  [[nodiscard]] std::size_t target_width() const { return 2; }
  void inputs(std::size_t sample, std::span<double> out) const {
    std::ranges::fill(out, factor * double(sample));
  }
  void targets(std::size_t sample, std::span<float> out) const {
    out[0] = 2 * float(sample), out[1] = 3 * float(sample);
  }
  [[nodiscard]] double weight(std::size_t sample) const { return 4 * double(sample); }
};

template <class Part>
std::vector<std::size_t> numbers_of(Part const& part) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    std::vector<double> input(3);
    std::vector<float> target(2);
    part.inputs(i, input);
    part.targets(i, target);
    out.push_back(std::size_t(input[2]));
    EXPECT_EQ(target, (std::vector{2 * float(out.back()), 3 * float(out.back())}));
    EXPECT_EQ(part.weight(i), 4 * double(out.back()));
  }
  return out;
}

TEST(SplitData, PartsHaveEachSampleOnce) {
  for (std::size_t const size : {3u, 4u, 10u, 29u, 100u, 1000u})
    for (double const fraction : {0.29, 0.5, 0.8}) {
      numbered const data{size};
      auto const [train, rest] = split_data(data, fraction);
      EXPECT_EQ(train.size(), std::size_t(std::lround(fraction * double(size))));
      std::set<std::size_t> seen;
      for (auto const& part : {train, rest})
        for (auto const number : numbers_of(part)) EXPECT_TRUE(seen.insert(number).second);
      EXPECT_EQ(numbers_of(rest)[0], rest.number_of(0));
      EXPECT_EQ(seen.size(), size);
      EXPECT_EQ(*seen.rbegin(), size - 1);
    }
}

TEST(SplitData, SamplesAreDrawnByTheSeedUnlessTheirOrderIsKept) {
  numbered const data{100};
  auto const first = [&](plait::ext::split_options const& options) {
    return numbers_of(split_data(data, 0.5, options).first);
  };
  EXPECT_EQ(first({.seed = 1}), first({.seed = 1}));
  EXPECT_NE(first({.seed = 1}), first({.seed = 2}));
  auto drawn = first({});
  std::ranges::sort(drawn);
  EXPECT_GT(std::ranges::count_if(drawn, [](std::size_t n) { return n >= 50; }), 10);
  auto const [train, rest] = split_data(data, 0.5, {.how = plait::sample_order::sequential});
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(train.number_of(i), i);
    EXPECT_EQ(rest.number_of(i), 50 + i);
  }
}

TEST(SplitData, APartIsADataSetOfTheSameKind) {
  numbered const data{10};
  using part = decltype(split_data(data, 0.5).first);
  static_assert(plait::ext::feature_dataset<part> && plait::ext::weighted_dataset<part>);
  static_assert(plait::ext::has_targets_per_sample<part>);
  static_assert(std::same_as<plait::ext::target_of<part>, float>);
  EXPECT_EQ(plait::ext::target_width_of(split_data(data, 0.5).second), 2u);
  using of_text = decltype(split_data(std::declval<plait::byte_text const&>(), 0.5).first);
  static_assert(plait::ext::token_dataset<of_text> && !plait::ext::weighted_dataset<of_text>);
  // One that is made in the call is held; a part can be split again.
  auto const [half, other] = split_data(split_data(numbered{40}, 0.5).second, 0.5);
  EXPECT_EQ(numbers_of(half).size() + numbers_of(other).size(), 20u);
}

// Ranks and checkpoints tell parts apart, also of data whose samples are all the same.
TEST(SplitData, FingerprintsAreOfTheDataAndOfTheSplit) {
  std::set<std::uint64_t> seen;
  auto const add = [&](numbered const& data, double fraction,
                       plait::ext::split_options const& how) {
    auto const [train, rest] = split_data(data, fraction, how);
    seen.insert(plait::ext::loader(train).fingerprint());
    seen.insert(plait::ext::loader(rest).fingerprint());
  };
  numbered const data{100, 0}, others{100, 1};
  add(data, 0.5, {});
  add(data, 0.5, {});
  EXPECT_EQ(seen.size(), 2u);
  add(data, 0.5, {.seed = 1});
  add(data, 0.5, {.how = plait::sample_order::sequential});
  add(data, 0.25, {});
  add(others, 0.5, {});
  EXPECT_EQ(seen.size(), 10u);
}

template <class Error = plait::input_error, class Run>
std::string message_of(Run run) {
  try {
    run();
  } catch (Error const& problem) {
    return problem.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(SplitData, AnEmptyPartIsRefusedWithBothNumbers) {
  auto const says = [](std::size_t samples, double fraction, std::string const& words) {
    numbered const data{samples};
    auto const text = message_of([&] { (void)split_data(data, fraction); });
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  for (double const fraction : {0.0, 1.0, -0.5, 1.5, std::nan(""), HUGE_VAL})
    says(10, fraction, "above 0 and below 1");
  says(10, 80, "split_data: the fraction is 80.000000; it must be above 0 and below 1");
  says(3, 0.1,
       "split_data: a fraction of 0.100000 of 3 samples gives parts of 0 and 3; each part needs");
  says(3, 0.9, "of 3 samples gives parts of 3 and 0;");
  says(1, 0.5, "of 1 samples gives parts of 1 and 0;");
  says(0, 0.5, "of 0 samples gives parts of 0 and 0;");
  numbered const data{10};
  auto const [train, rest] = split_data(data, 0.8);
  EXPECT_EQ(message_of<plait::size_mismatch>([&] { (void)rest.number_of(2); }),
            "split_data: sample 2 of a part of 2 samples");
}

}  // namespace
