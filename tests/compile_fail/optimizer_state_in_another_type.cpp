// SPDX-License-Identifier: Apache-2.0
// Optimizers whose states have a type of their own, for which there is no rounding.
// expect: an optimizer's state_element is not plait::bfloat16; write `using state_element =
// expect: the optimizer rounds its states to bfloat16, but the job's parameters are
#include "plait/backend/host/threads.hpp"
#include "plait/core/precision.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/adamw_bfloat16.hpp"
#include "plait/train/trainer.hpp"

template <class Element>
struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::serial, Element> {};

#ifdef PLAIT_EXPECT_FAIL
using parameters = plait::precision<plait::bfloat16, plait::bfloat16, float>;
using state = float;
#else
using parameters = plait::precision<plait::bfloat16, float>;
using state = plait::bfloat16;
#endif

struct in_another_type : plait::ext::adamw_bfloat16 {
  using state_element = state;
};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
  plait::trainer<job<parameters>>(rank, plait::ext::adamw_bfloat16{}).step(next);
  plait::trainer<job<double>>(rank, in_another_type{}).step(next);
}

int main() {}
