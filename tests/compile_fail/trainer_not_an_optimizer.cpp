// SPDX-License-Identifier: Apache-2.0
// first: trainer<Job>(rank, optimizer): the second argument is not an optimizer
// expect: optimizer: `numbers` has a member that is not a number, so ranks cannot
// expect: optimizer: `numbers`, the values that change from step to step, must be
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::serial> {};

struct with_a_name : plait::sgd {
  struct numbers {
    double learning_rate;
#ifdef PLAIT_EXPECT_FAIL
    char const* name;
#endif
  };
  numbers numbers_of(std::int64_t, double) const { return {}; }
  void update(auto, auto const&, numbers const*) const {}
};

struct with_many_numbers : plait::sgd {
  struct numbers {
    double learning_rate, b, c, d, e, f, g, h;
#ifdef PLAIT_EXPECT_FAIL
    double i;
#endif
  };
  numbers numbers_of(std::int64_t, double) const { return {}; }
  void update(auto, auto const&, numbers const*) const {}
};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
#ifdef PLAIT_EXPECT_FAIL
  plait::trainer<job>(rank, plait::trainer_options{.seed = 3}).step(next);
#else
  plait::trainer<job>(rank, plait::adamw{}, plait::trainer_options{.seed = 3}).step(next);
#endif
  plait::trainer<job>(rank, with_a_name{}).step(next);
  plait::trainer<job>(rank, with_many_numbers{}).step(next);
}

int main() {}
