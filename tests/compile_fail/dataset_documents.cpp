// SPDX-License-Identifier: Apache-2.0
// first: loader<Data>: a data set of features has documents(), but only samples of tokens
#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/data/loader.hpp"

#ifdef PLAIT_EXPECT_FAIL
using number = float;
#else
using number = std::int32_t;
#endif

struct samples {
  using concept_tag = plait::dataset_tag;
  using element = number;

  std::size_t size() const { return 1; }
  std::size_t sequence_length() const { return 2; }
  std::size_t width() const { return 1; }
  void inputs(std::size_t, std::span<element>) const {}
  void targets(std::size_t, std::span<std::int32_t>) const {}
  void documents(std::size_t, std::span<std::int32_t>) const {}
};

void read(samples const& data) { (void)plait::ext::loader<samples>(data); }

int main() {}
