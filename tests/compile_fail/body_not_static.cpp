// SPDX-License-Identifier: Apache-2.0
// first: a body of this layer cannot be called: write `static void forward(auto& ops, auto l)`
// first: a body of this layer cannot be called: write `static void forward(auto& ops, auto l)`
#include "plait/backend/host/threads.hpp"
#include "plait/run/layer_invoker.hpp"

struct copies {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  static void backward_input(auto&, auto) {}
};
struct twice : copies {
#ifdef PLAIT_EXPECT_FAIL
  void forward(auto&, auto) {}
#else
  static void forward(auto&, auto) {}
#endif
};
struct of_members : copies {
#ifdef PLAIT_EXPECT_FAIL
  static void forward(auto&, auto const&, auto, auto, auto const&) {}
#else
  static void forward(auto&, auto) {}
#endif
};

template <class L>
using invoker = plait::execution::layer_invoker<
    plait::execution::leaf_setting<plait::threads::rank_type::device_type::memory, float, float, 1>,
    plait::threads::rank_type, plait::execution::formed_layer<L, 0>>;
template <class L>
void run(typename invoker<L>::operations_type const& ops, typename invoker<L>::place const& at) {
  invoker<L>::template forward<plait::execution::no_epilogue>(ops, at, nullptr);
}
template void run<twice>(typename invoker<twice>::operations_type const&,
                         typename invoker<twice>::place const&);
template void run<of_members>(typename invoker<of_members>::operations_type const&,
                              typename invoker<of_members>::place const&);

int main() {}
