// SPDX-License-Identifier: Apache-2.0
// Jobs for which there is no trainer, and batches that trainers do not take.
// expect: a host buffer was given where a batch on the rank's device is needed
// expect: trainer: the batch is in the memory of another device than this rank's
// expect: trainer<Job>: the job's model has no loss
// expect: trainer.evaluate(data, size, measures...): this type is not a measure
// expect: trainer.evaluate(data, size, measures...): this measure has no add for the targets
// expect: trainer.evaluate(data, size, measures...): the measure top<Most> counts rows whose class
#include "plait/backend/host/threads.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

using model = plait::nn::linear<8, 4>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>, plait::serial> {
};
struct other_memory {
  using concept_tag = plait::ext::memory_tag;
};

using batch = plait::device_batch<plait::ext::host_memory>;
#ifdef PLAIT_EXPECT_FAIL
using buffer = std::vector<float>;
using elsewhere = plait::device_batch<other_memory>;
struct without_loss : plait::parallel<model, plait::serial> {};
using no_measure = model;
using other_measure = plait::measures::mean_absolute_error;
using always_1 = plait::measures::top<10>;
#else
using buffer = batch;
using elsewhere = batch;
using without_loss = job;
using no_measure = plait::measures::mean_loss;
using other_measure = plait::measures::accuracy;
using always_1 = plait::measures::top<3>;
#endif

void train(plait::threads::rank_type& rank, buffer const& in_no_memory,
           elsewhere const& in_other_memory, batch const& next) {
  auto trainer = plait::trainer<job>(rank, plait::adamw{});
  trainer.step(in_no_memory);
  trainer.evaluate(in_no_memory);
  trainer.predict(in_no_memory);
  trainer.step(in_other_memory);
  plait::in_memory<float> const data({1, 2, 3, 4, 5, 6, 7, 8}, {0}, 8);
  (void)trainer.evaluate(data, plait::global_batch<1>{}, no_measure{});
  (void)trainer.evaluate(data, plait::global_batch<1>{}, other_measure{});
  (void)trainer.evaluate(data, plait::global_batch<1>{}, always_1{});
  plait::trainer<without_loss>(rank, plait::adamw{}).step(next);
}

int main() {}
