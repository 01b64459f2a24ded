// SPDX-License-Identifier: Apache-2.0
// first: split_data(data, fraction): the first argument is not a data set; write
#include <vector>

#include "plait/data/in_memory.hpp"
#include "plait/data/split_data.hpp"

void divide(plait::in_memory<float> const& data) {
#ifdef PLAIT_EXPECT_FAIL
  std::vector<float> const samples(data.size());
#else
  auto const& samples = data;
#endif
  (void)plait::split_data(samples, 0.8);
}

int main() {}
