// SPDX-License-Identifier: Apache-2.0
// libs: gloo
// first: gloo_options::redis: ranks can no longer meet in Redis; set .rendezvous to a folder
// expect: or let the ranks meet in etcd (plait::elastic), or by MPI (plait::mpi())
#include "plait/backend/gloo/gloo.hpp"

int main() {
#ifdef PLAIT_EXPECT_FAIL
  auto const engine = plait::gloo({.redis = "host:6379"});
#else
  auto const engine = plait::gloo({.rendezvous = "/shared/job7"});
#endif
  (void)engine;
}
