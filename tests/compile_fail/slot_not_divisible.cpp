// SPDX-License-Identifier: Apache-2.0
// expect: slot<Label, PerRow, follows::features>: the layer's form cuts the features
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct twice {
  static constexpr bool is_linear = true;
  float operator()(float, float x) const { return 2 * x; }
};

struct scale {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  using forms = plait::forms<plait::by_features>;
#ifdef PLAIT_EXPECT_FAIL
  using mask = plait::slot<"mask", 5, plait::follows::features>;
#else
  using mask = plait::slot<"mask", 4, plait::follows::features>;
#endif
  using saved = plait::saved<mask>;

  static void forward(auto& ops, auto l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto l) { ops.map(twice{}, l.saved[mask{}], l.dy, l.dx); }
};

using model = plait::sequential<plait::nn::linear<8, 4>, scale>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>,
                             plait::tensor_parallel<2>> {};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
