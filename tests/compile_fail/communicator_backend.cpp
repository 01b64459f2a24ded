// SPDX-License-Identifier: Apache-2.0
// first: check_communicators: the backend has no rank_type, or its rank_type is not a rank_handle
#include "plait/backend/host/threads.hpp"
#include "plait/testing/communicator_suite.hpp"

struct backend {
#ifndef PLAIT_EXPECT_FAIL
  using rank_type = plait::threads::rank_type;
#endif
  void run(plait::ext::mesh_groups const&,
           std::function<void(plait::threads::rank_type&)> const&) const {}
};

int main() { return plait::testing::check_communicators(backend{}).passed() ? 0 : 1; }
