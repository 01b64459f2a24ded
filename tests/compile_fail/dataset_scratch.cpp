// SPDX-License-Identifier: Apache-2.0
// expect: a data set with scratch_elements() needs `std::size_t scratch_elements() const` and `void
// expect: the description() of a data set must return a std::string
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "plait/data/dataset.hpp"
#include "plait/data/loader.hpp"

struct samples {
  using concept_tag = plait::dataset_tag;
  using element = float;
  std::size_t size() const { return 1; }
  std::size_t sequence_length() const { return 1; }
  std::size_t width() const { return 1; }
  std::size_t scratch_elements() const { return 8; }
#ifdef PLAIT_EXPECT_FAIL
  void inputs(std::size_t, std::int64_t, std::span<float> out) const { out[0] = 1; }
  char const* description() const { return "samples"; }
#else
  void inputs(std::size_t, std::int64_t, std::span<float> out, std::span<float>) const {
    out[0] = 1;
  }
  std::string description() const { return "samples"; }
#endif
  void targets(std::size_t, std::span<std::int32_t> out) const { out[0] = 0; }
};

void load(samples const& data) {
  (void)plait::ext::loader<samples>(data);
  (void)plait::ext::description_of(data);
}

int main() {}
