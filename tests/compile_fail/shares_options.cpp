// SPDX-License-Identifier: Apache-2.0
// Shares that data_parallel cannot give its ranks.
// first: shares<Shares...>: a share is less than 1
// first: shares<Shares...>: the sum of the shares is above 65536
// first: data_parallel<Ranks, shares<...>>: the number of shares is not Ranks
// first: data_parallel<Ranks, Options...>: two options set the shares of the data ranks
// first: data_parallel<at_launch, shares<...>>: the number of ranks is chosen at launch
#include "plait/policy/policies.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
constexpr int none = 0, many = 65536, ranks = at_launch;
using three = shares<3, 1, 1>;
using more = shares<1, 1>;
#else
constexpr int none = 1, many = 65535, ranks = 2;
using three = shares<3, 1>;
using more = unsharded;
#endif

int main() {
  return sizeof(shares<3, none>) + sizeof(shares<1, many>) + sizeof(data_parallel<2, three>) +
             sizeof(data_parallel<2, shares<3, 1>, more>) +
             sizeof(data_parallel<ranks, shares<1, 2>>) ==
         0;
}
