// SPDX-License-Identifier: Apache-2.0
#include "plait/data/dataset.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace {

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

static_assert(plait::token_dataset<minimal_tokens> && !plait::feature_dataset<minimal_tokens>);
static_assert(plait::feature_dataset<minimal_features> && !plait::token_dataset<minimal_features>);

// One broken model per rule.
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
static_assert(plait::dataset<with_other_element> && !plait::token_dataset<with_other_element>);
static_assert(!plait::feature_dataset<with_other_element>);
static_assert(plait::dataset<without_width> && !plait::feature_dataset<without_width>);

TEST(Dataset, RulesAreCheckedAtCompileTime) {}

}  // namespace
