// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: no chain of forms leads through the model
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

// The gradient of what one rank has made for all would be a sum on that rank.
struct of_first_rank {
  using concept_tag = plait::layer_tag;
  using input = plait::features<64>;
  using output = plait::features<64>;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<plait::form<"first", plait::invariant, plait::ext::only<0>>>;
#else
  using forms = plait::forms<plait::form<"first", plait::invariant, plait::invariant>>;
#endif
  static void forward(auto& ops, auto l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};
using followed =
    plait::sequential<of_first_rank, plait::use_form<"column", plait::nn::linear<64, 64>>>;

template <class Model>
using job = plait::parallel<Model, plait::tensor_parallel<2>>;

static_assert(job<followed>::plan().stages == 1);

int main() {}
