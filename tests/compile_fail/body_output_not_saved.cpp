// SPDX-License-Identifier: Apache-2.0
// first: saved[output_slot{}]: the layer does not save its output; add output_slot to its
// saved<...>
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
#ifdef PLAIT_EXPECT_FAIL
  using saved = plait::saved<>;
#else
  using saved = plait::saved<plait::output_slot>;
#endif

  static void forward(auto& ops, auto const&, auto x, auto y, auto const&) { ops.copy(x, y); }
  static void backward_input(auto& ops, auto const&, auto const& saved, auto dy, auto dx) {
    ops.map(twice{}, saved[plait::output_slot{}], dy, dx);
  }
};

using model = plait::sequential<plait::nn::linear<8, 4>, scale>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>, plait::serial> {
};

void train(plait::threads::rank_type& rank, plait::device_batch<plait::host_memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
