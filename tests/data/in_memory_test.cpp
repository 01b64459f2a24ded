// SPDX-License-Identifier: Apache-2.0
#include "plait/data/in_memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

// ---- the concepts: a minimal model of each, and a broken one for each rule

struct minimal_tokens {
  using concept_tag = plait::dataset_tag;
  using element = std::int32_t;
  [[nodiscard]] std::size_t size() const { return 1; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  void inputs(std::size_t, std::span<std::int32_t>) const {}
  void targets(std::size_t, std::span<std::int32_t>) const {}
};

struct minimal_features {
  using concept_tag = plait::dataset_tag;
  using element = double;
  [[nodiscard]] std::size_t size() const { return 1; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return 1; }
  void inputs(std::size_t, std::span<double>) const {}
  void targets(std::size_t, std::span<std::int32_t>) const {}
};

static_assert(plait::ext::token_dataset<minimal_tokens> &&
              !plait::ext::feature_dataset<minimal_tokens>);
static_assert(plait::ext::feature_dataset<minimal_features> &&
              !plait::ext::token_dataset<minimal_features>);

struct without_tag : minimal_tokens {
  using concept_tag = int;
};
struct without_size : minimal_tokens {
  void size() const {}
};
struct without_sequence : minimal_tokens {
  void sequence_length() const {}
};
struct with_other_inputs : minimal_tokens {
  void inputs(std::size_t, std::span<float>) const {}
};
struct with_changing_targets : minimal_tokens {
  void targets(std::size_t, std::span<std::int32_t>) {}
};
struct with_other_element : minimal_tokens {
  using element = std::int64_t;
  void inputs(std::size_t, std::span<std::int64_t>) const {}
};
struct without_width : minimal_features {
  void width() const {}
};
static_assert(!plait::dataset<without_tag> && !plait::dataset<without_size>);
static_assert(!plait::dataset<without_sequence> && !plait::dataset<with_other_inputs>);
static_assert(!plait::dataset<with_changing_targets> && !plait::dataset<int>);
static_assert(plait::dataset<with_other_element> && !plait::ext::token_dataset<with_other_element>);
static_assert(!plait::ext::feature_dataset<with_other_element>);
static_assert(plait::dataset<without_width> && !plait::ext::feature_dataset<without_width>);

// ---- in_memory

TEST(InMemory, SamplesAreRows) {
  plait::in_memory<float> const data({1, 2, 3, 4, 5, 6}, {7, 8, 9}, 2);
  EXPECT_EQ(data.size(), 3u);
  std::array<float, 2> row{};
  std::array<std::int32_t, 1> label{};
  for (std::size_t i = 0; i < 3; ++i) {
    data.inputs(i, row);
    data.targets(i, label);
    EXPECT_EQ(row, (std::array{static_cast<float>(2 * i + 1), static_cast<float>(2 * i + 2)}));
    EXPECT_EQ(label[0], static_cast<std::int32_t>(i + 7));
  }
}

TEST(InMemory, SamplesAreSequences) {
  std::vector<float> const features{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  plait::in_memory<float> const of_positions(features, {1, 2, 3, 4, 5, 6},
                                             {.length = 3, .width = 2});
  plait::in_memory<float, float> const of_samples(
      features, {1, 2, 3, 4},
      {.length = 3, .width = 2, .target_width = 2, .targets_per_sample = true});
  EXPECT_EQ(of_positions.size(), 2u);
  EXPECT_EQ(of_samples.size(), 2u);
  EXPECT_EQ(of_positions.sequence_length(), 3u);
  std::array<float, 6> rows{}, numbers{};
  std::array<std::int32_t, 3> labels{};
  of_positions.inputs(1, rows);
  EXPECT_EQ(rows, (std::array<float, 6>{7, 8, 9, 10, 11, 12}));
  of_positions.targets(1, labels);
  EXPECT_EQ(labels, (std::array<std::int32_t, 3>{4, 5, 6}));
  of_samples.targets(1, numbers);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(numbers[i]));
  EXPECT_EQ(numbers[4], 3);
  EXPECT_EQ(numbers[5], 4);
  plait::in_memory<float> const classes(features, {8, 9},
                                        {.length = 3, .width = 2, .targets_per_sample = true});
  classes.targets(0, labels);
  EXPECT_EQ(labels, (std::array<std::int32_t, 3>{-100, -100, 8}));

  using data = plait::in_memory<float>;
  EXPECT_THROW(data(features, {1, 2}, {.length = 3, .width = 2}), plait::size_mismatch);
  EXPECT_THROW(data(features, {1}, {.length = 0}), plait::input_error);
  // Products of these numbers are 0 in std::size_t.
  std::size_t const half = std::size_t{1} << 63;
  EXPECT_THROW(data({}, {1}, {.length = half, .target_width = 2}), plait::input_error);
  EXPECT_THROW(data({}, {1}, {.length = half, .width = 2, .targets_per_sample = true}),
               plait::input_error);
  try {
    data(features, {1, 2, 3}, {.length = 3, .width = 2, .targets_per_sample = true});
    FAIL();
  } catch (plait::size_mismatch const& error) {
    EXPECT_STREQ(
        error.what(),
        "in_memory: 12 features are not as many as rows of width 2 for 3 targets of width 1 in "
        "sequences of 3 positions, with targets for each sample");
  }
}

TEST(InMemory, SizesMustFit) {
  using data = plait::in_memory<double>;
  EXPECT_THROW(data({}, {}, 2), plait::input_error);
  EXPECT_THROW(data({}, {1}, 0), plait::input_error);
  EXPECT_THROW(data({1, 2, 3}, {1}, 2), plait::size_mismatch);
  EXPECT_THROW(data({1, 2, 3, 4}, {1}, 2), plait::size_mismatch);
  data const good({1, 2}, {1}, 2);
  std::array<double, 2> row{};
  EXPECT_THROW(good.inputs(1, row), plait::size_mismatch);
  EXPECT_THROW(good.inputs(0, std::span(row).first(1)), plait::size_mismatch);
}

}  // namespace
