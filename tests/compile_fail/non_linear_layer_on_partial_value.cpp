// SPDX-License-Identifier: Apache-2.0
// first: ops.map(f, x, y): f is not linear and x is partial (a sum still to be made)
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct activation {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<plait::form<"late", plait::partial, plait::partial>>;
#else
  using forms = plait::forms<plait::whole>;
#endif
  using saved = plait::saved<plait::output_slot>;

  static void forward(auto& ops, auto l) { ops.map(plait::functions::relu{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.map(plait::functions::relu_derivative{}, l.saved[plait::output_slot{}], l.dy, l.dx);
  }
};

using model = plait::sequential<plait::nn::linear<8, 4>, activation>;

struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>,
                             plait::tensor_parallel<2>> {};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
