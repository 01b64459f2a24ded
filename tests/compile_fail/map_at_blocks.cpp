// SPDX-License-Identifier: Apache-2.0
// expect: ops.map_at(f, y, views...): the form lets ranks cut the features into pieces of Piece
// columns
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct swapped {  // the two features of each pair
  static constexpr std::size_t block = 2;
  double operator()(plait::ext::element_place const& at, auto x) const {
    return x[at.column % 2 == 0 ? at.column + 1 : at.column - 1];
  }
};

struct swap_pairs {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  using forms = plait::forms<plait::by_features>;
#ifndef PLAIT_EXPECT_FAIL
  static constexpr std::size_t units = 2;  // else four ranks could cut through a pair
#endif

  static void forward(auto& ops, auto l) { ops.map_at(swapped{}, l.y, l.x); }
  static void backward_input(auto& ops, auto l) { ops.map_at(swapped{}, l.dx, l.dy); }
};

using model = plait::sequential<plait::nn::linear<8, 4>, swap_pairs>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>,
                             plait::tensor_parallel<2>> {};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
