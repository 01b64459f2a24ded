// SPDX-License-Identifier: Apache-2.0
// first: a body of this layer cannot be called: write `static void forward(auto& ops, auto l)`
// first: a body of this layer cannot be called: write `static void forward(auto& ops, auto l)`
#include "plait/run/body.hpp"

struct twice {
#ifdef PLAIT_EXPECT_FAIL
  void forward(auto&, auto) {}
#else
  static void forward(auto&, auto) {}
#endif
};
struct of_members {
#ifdef PLAIT_EXPECT_FAIL
  static void forward(auto&, auto const&, auto, auto, auto const&) {}
#else
  static void forward(auto&, auto) {}
#endif
};

template <class L>
void run(int& ops, plait::ext::layer_context const& context) {
  plait::execution::call_forward<L>(ops, plait::execution::forward_body{0, 0, 0, 0, 0, context});
}
template void run<twice>(int&, plait::ext::layer_context const&);
template void run<of_members>(int&, plait::ext::layer_context const&);

int main() {}
