// SPDX-License-Identifier: Apache-2.0
// first: p[Parameter{}]: the layer has no such parameter; list it in parameter_list
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  using shift = plait::parameter<"shift", plait::extents<4>>;
#ifdef PLAIT_EXPECT_FAIL
  using parameters = plait::parameter_list<>;
#else
  using parameters = plait::parameter_list<shift>;
#endif

  static void forward(auto& ops, auto const& p, auto x, auto y, auto const&) {
    ops.copy(x, y);
    ops.add_row(p[shift{}], y);
  }
  static void backward_input(auto& ops, auto const&, auto const&, auto dy, auto dx) {
    ops.copy(dy, dx);
  }
  static void backward_parameters(auto& ops, auto const&, auto const&, auto dy, auto const& dp) {
    ops.accumulate_column_sums(dy, dp[shift{}]);
  }
};

struct job : plait::parallel<plait::objective<scale, plait::nn::cross_entropy<4>>, plait::serial> {
};

void train(plait::threads::rank_type& rank, plait::device_batch<plait::host_memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
