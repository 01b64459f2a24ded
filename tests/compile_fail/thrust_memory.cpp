// SPDX-License-Identifier: Apache-2.0
// libs: thrust
// expect: thrust_scratch(view): the view is read-only; pass the view of a scratch slot
// expect: thrust_scratch.take<T>(count): no constructor runs in scratch memory
// expect: thrust_policy(queue): the queue belongs to a GPU, but Thrust is configured for the
// processor
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#include "plait/backend/cuda/thrust.hpp"

#include <string>

#ifdef PLAIT_EXPECT_FAIL
using element = float const;
using taken = std::string;
struct queue {
  int stream() const { return 0; }
};
#else
using element = float;
using taken = int;
struct queue {};
#endif

int main() {
  plait::ext::thrust_scratch memory(plait::view<element>{});
  (void)plait::ext::thrust_policy(queue{}, memory);
  return memory.take<taken>(0) != nullptr;
}
