// SPDX-License-Identifier: Apache-2.0
// first: check_communicators: the backend's communicator lacks counted(), reset_counted(),
// log_calls()
#include "plait/backend/host/threads.hpp"
#include "plait/testing/communicator_suite.hpp"

struct mine : plait::ext::thread_communicator {
  using thread_communicator::thread_communicator;
#ifdef PLAIT_EXPECT_FAIL
  void reset_counted(int);
#endif
};

struct backend : plait::threads {
  using rank_type = plait::ext::rank_handle<plait::ext::host_device, mine>;
  void run(plait::ext::mesh_groups const&, std::function<void(rank_type&)> const&) const {}
};

int main() { return plait::testing::check_communicators(backend{}).passed() ? 0 : 1; }
