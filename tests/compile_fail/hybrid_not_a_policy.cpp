// SPDX-License-Identifier: Apache-2.0
// first: hybrid<Policies...>: an argument is not a policy
#include "plait/policy/policies.hpp"
#include "plait/schedule/gpipe.hpp"

#ifdef PLAIT_EXPECT_FAIL
using chosen = plait::hybrid<plait::data_parallel<2>, plait::gpipe>;
#else
using chosen = plait::hybrid<plait::data_parallel<2>, plait::pipeline<2, plait::gpipe>>;
#endif

int main() { return plait::ext::mesh_of<chosen>.world_size() == 0; }
