// SPDX-License-Identifier: Apache-2.0
// Updates that cannot be delayed.
// first: delayed<Steps>: Steps is not 1
// first: data_parallel<Ranks, Options...>: two options delay the update
// first: data_parallel<Ranks, zero<3>, delayed<1>>: zero<3> gathers parameters
#include "plait/policy/policies.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
using of_two_steps = delayed<2>;
using twice = data_parallel<2, delayed<1>, delayed<1>>;
using with_parameters = data_parallel<2, delayed<1>, zero<3>>;
#else
using of_two_steps = delayed<1>;
using twice = data_parallel<2, delayed<1>>;
using with_parameters = data_parallel<2, delayed<1>, zero<2>>;
#endif

int main() { return of_two_steps::delayed_steps + twice::ranks + with_parameters::ranks == 0; }
