// SPDX-License-Identifier: Apache-2.0
// first: a body of this layer cannot be called: write `static void forward(auto& ops, auto l)`
#include "plait/run/body.hpp"

struct twice {
#ifdef PLAIT_EXPECT_FAIL
  void forward(auto&, auto) {}
#else
  static void forward(auto&, auto) {}
#endif
};

struct no_slots {
  no_slots and_scratch() const { return {}; }
};

void run(int& ops, plait::layer_context const& context) {
  plait::execution::call_forward<twice>(
      ops, plait::execution::forward_body{0, 0, 0, no_slots{}, 0, context});
}

int main() {}
