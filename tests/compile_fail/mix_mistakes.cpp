// SPDX-License-Identifier: Apache-2.0
// expect: mix(options, ...): after the options come the sources with their shares; write
// expect: mix(options, share(data, 0.7), ...): a source is not a data set; write
// expect: the sources have inputs of different types, such as tokens and features, or float and
// expect: the sources have targets of different types, such as classes and real numbers; give all
// expect: some sources have a target for each sample, and others for each position; give all data
// expect: the samples of a mixture differ between epochs, so a sample would be in both parts; split
// expect: the samples of a mixture continue from epoch to epoch, and the samples after n would be
#include <vector>

#include "plait/data/byte_text.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/mix.hpp"
#include "plait/data/split_data.hpp"
#include "plait/data/take.hpp"

struct one_target : plait::in_memory<float> {
  static constexpr bool targets_per_sample = true;
};

void mix(plait::in_memory<float> const& data, plait::in_memory<float, float> const& reals,
         plait::byte_text const& text, one_target const& last) {
#ifdef PLAIT_EXPECT_FAIL
  std::vector<float> const samples(data.size());
  (void)plait::mix({.seed = 1}, data, data);
  (void)plait::mix({.seed = 1}, plait::share(data, 1), plait::share(samples, 1));
  (void)plait::mix({.seed = 1}, plait::share(data, 1), plait::share(text, 1));
  (void)plait::mix({.seed = 1}, plait::share(data, 1), plait::share(reals, 1));
  (void)plait::mix({.seed = 1}, plait::share(data, 1), plait::share(last, 1));
  auto const mixed = plait::mix({.seed = 1}, plait::share(data, 1), plait::share(data, 1));
  (void)plait::split_data(mixed, 0.8);
  (void)(mixed | plait::take(10));
#else
  (void)plait::mix({.seed = 1}, plait::share(text, 1), plait::share(text, 1));
  (void)plait::mix({.seed = 1}, plait::share(reals, 1), plait::share(reals, 1));
  (void)plait::mix({.seed = 1}, plait::share(last, 1), plait::share(last, 1));
  auto const train = plait::split_data(data, 0.8).first;
  (void)plait::mix({.seed = 1, .samples = 10}, plait::share(train, 1), plait::share(data, 1));
#endif
}

int main() {}
