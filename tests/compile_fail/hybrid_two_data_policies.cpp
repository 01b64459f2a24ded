// SPDX-License-Identifier: Apache-2.0
// first: hybrid<Policies...>: two policies of one kind
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using chosen =
    plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>, plait::data_parallel<2>>;
#else
using chosen = plait::hybrid<plait::data_parallel<4>, plait::tensor_parallel<2>>;
#endif

int main() { return plait::ext::mesh_of<chosen>.world_size() == 0; }
