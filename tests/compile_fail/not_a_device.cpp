// SPDX-License-Identifier: Apache-2.0
// first: check_device(device): this type is not a device. The concept ext::device in
#include "plait/backend/host/host_device.hpp"
#include "plait/testing/check_device.hpp"

struct queue_of_mine : plait::ext::queue_calls<queue_of_mine> {
#ifndef PLAIT_EXPECT_FAIL
  void discard(void*, std::size_t) const {}
#endif
  template <plait::operation::is_row Row, class... Arguments>
  void run(Row, Arguments...) const {}
};

struct device_of_mine : plait::ext::host_device {
  using queue = queue_of_mine;
  queue on(plait::ext::stream) const { return {}; }
};

// The right way is not run: all kernels would be compiled.
#ifdef PLAIT_EXPECT_FAIL
int main() { return plait::testing::check_device(device_of_mine{}).passed() ? 0 : 1; }
#else
static_assert(plait::ext::device<device_of_mine>);
int main() {}
#endif
