// SPDX-License-Identifier: Apache-2.0
// first: hybrid<Policies...>: data_parallel<..., buckets<...>> is combined with
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using data = plait::data_parallel<2, plait::buckets<1024>>;
#else
using data = plait::data_parallel<2>;
#endif

int main() { return sizeof(plait::hybrid<data, plait::reproducible<4>>) == 0; }
