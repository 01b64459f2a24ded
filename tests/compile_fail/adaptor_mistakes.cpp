// SPDX-License-Identifier: Apache-2.0
// expect: data | adaptor: the left side of | is not a data set; write plait::in_memory<float>
// expect: the samples of the data set are not pictures; define
// expect: data | map(f): f must take one element of the inputs and return the new element
// expect: data | random(f): f must take (std::span<element> inputs of a sample
// expect: data | normalize(mean, deviation): the data set has tokens
// expect: normalize::from(data): the argument is not a data set of features; pass a data set
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plait/data/byte_text.hpp"
#include "plait/data/crop.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/map.hpp"
#include "plait/data/normalize.hpp"
#include "plait/data/random.hpp"
#include "plait/data/random_flip.hpp"
#include "plait/data/take.hpp"

struct pictures : plait::in_memory<float> {
  plait::picture_shape picture_shape() const { return {3, 2, 2}; }
};

void adapt(pictures const& data, plait::byte_text const& text) {
#ifdef PLAIT_EXPECT_FAIL
  std::vector<float> const samples(data.size());
  (void)(samples | plait::take(3));
  plait::in_memory<float> const& flat = data;
  (void)(flat | plait::random_flip());
  (void)(data | plait::map([](std::string const&) { return 1; }));
  (void)(data | plait::random([](std::span<float>) {}));
  (void)(text | plait::normalize(0, 1));
  (void)plait::normalize::from(text);
#else
  (void)(data | plait::take(3));
  (void)(data | plait::random_flip() | plait::crop<1, 1>);
  (void)(data | plait::map([](float number) { return number + 1; }));
  (void)(data | plait::random([](std::span<float>, plait::sample_random&) {}));
  (void)(data | plait::normalize(0, 1));
  (void)(data | plait::normalize::from(data));
  (void)text;
#endif
}

int main() {}
