// SPDX-License-Identifier: Apache-2.0
// first: sum_of<...>: the losses take features of different widths
// expect: sum_of<...>: the losses take different targets
// expect: sum_of<...>: one of these layers is not a loss
// expect: times<Weight, L>: Weight is 0
// expect: times<Weight, L>: nothing in L adds to the loss
#include "plait/nn/activation.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/plan/model/outline.hpp"

namespace nn = plait::nn;

#ifdef PLAIT_EXPECT_FAIL
using widths = plait::sum_of<nn::mse<3>, nn::mse<4>>;
using targets = plait::sum_of<nn::mse<3>, nn::cross_entropy<3>>;
using no_loss = plait::sum_of<nn::mse<3>, nn::relu<3>>;
using nothing = plait::times<plait::fraction(0), nn::mse<3>>;
using no_term = plait::times<plait::fraction(0.5), nn::relu<3>>;
#else
using widths = plait::sum_of<nn::mse<3>, nn::huber<3>>;
using targets = plait::sum_of<nn::mse<3>, nn::binary_cross_entropy<3>>;
using no_loss = plait::sum_of<nn::mse<3>>;
using nothing = plait::times<plait::fraction(-1.5), nn::mse<3>>;
using no_term = plait::times<plait::fraction(0.5), nn::mse<3>>;
#endif

int main() {
  return sizeof(widths) + sizeof(targets) + sizeof(no_loss) + sizeof(nothing) == 0 ||
         plait::planning::make_outline<no_term>().leaves.size() == 0;
}
