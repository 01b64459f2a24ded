// SPDX-License-Identifier: Apache-2.0
// first: trainer: the features of the batch have another type than the job computes with; write
// expect: plait::batches<typename job::element>(dataset, batch size, rank)
// first: trainer: the batch has tokens and the model takes features, or the other way round
#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/token_shards.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

#ifdef PLAIT_EXPECT_FAIL
using samples = plait::in_memory<double>;
using other_samples = plait::token_shards;
#else
using samples = plait::in_memory<float>;
using other_samples = samples;
#endif

using model = plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>;
struct job : plait::parallel<model, plait::serial> {};

void train(plait::threads::rank_type& rank, samples const& data, other_samples const& others) {
  auto trainer = plait::trainer<job>(rank, plait::adamw{});
  for (auto const& batch : plait::batches(data, plait::global_batch<64>{}, rank))
    trainer.step(batch);
  for (auto const& batch : plait::batches(others, plait::global_batch<64>{}, rank))
    (void)trainer.predict(batch);
}

int main() {}
