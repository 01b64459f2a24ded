// SPDX-License-Identifier: Apache-2.0
// test: seconds=2
//
// Runs all operations of a trainer in arenas that end at a page that is not writable.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/plait.hpp"
#include "testing/guarded_threads.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using plait_test::guarded_threads;

TEST(GuardedDeviceDeathTest, EndsAWriteBeforeOrAfterAnArena) {
  auto const write = [](std::ptrdiff_t at) {
    auto const room = plait_test::guarded_device{}.allocate(5000);
    room.data()[at] = std::byte{1};
  };
  write(4999);
  EXPECT_DEATH(write(5000), "beside an arena of 5000 bytes");
  EXPECT_DEATH(write(-1), "beside an arena of 5000 bytes");
  EXPECT_DEATH(write(5056), "");
  EXPECT_DEATH(write(-4096), "");  // writes to the page before; memory farther off may be in use
}

/// The output for a single sample, as a program that continues a text asks for it.
void predict_one(auto& trainer) {
  auto& device = trainer.rank().device();
  std::vector<std::int32_t> const tokens(small_gpt::length, 7);
  auto const room = device.allocate(tokens.size() * sizeof tokens[0]);
  device.upload(tokens.data(), room.data(), room.size());
  device_batch<host_memory> batch;
  batch.samples = 1;
  batch.sequence = small_gpt::length;
  batch.inputs = room.data();
  batch.input = {value_kind::tokens, 1};
  EXPECT_EQ(trainer.predict(batch).size(), small_gpt::length * small_gpt::vocabulary);
}

template <class Job>
void run_everything(int data_ranks = 0) {
  auto const text = small_gpt::text();
  launch<Job>(guarded_threads(data_ranks), [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{}, {.clip = 1, .average = 0.9});
    predict_one(trainer);
    auto from = batches(text, global_batch<16>{}, rank, {.epochs = 0});
    for (std::uint64_t step = 0; step < 2; ++step) trainer.step(from.at(step));
    trainer.evaluate(from.at(2));
    (void)trainer.predict(from.at(2));
    if (Job::plan_type::slices == 0 || data_ranks != 3)
      (void)trainer.predict(from.at(2), predicted::of_all);
    (void)trainer.evaluate(text, global_batch<16>{}, measures::mean_loss{}, measures::accuracy{});
    predict_one(trainer);
    auto const ignore = [](auto const&...) {};
    trainer.with_ema([&] { trainer.export_parameters(ignore); });
    trainer.gradients_of(from.at(3));
    trainer.export_gradients(ignore);
  });
}

TEST(GuardedMemory, IsEnoughForStagesOfSlices) {
  using job = small_gpt::job<hybrid<pipeline<2>, data_parallel<at_launch>, reproducible<4>>, float>;
  for (int const data_ranks : {1, 2, 3}) run_everything<job>(data_ranks);
}

TEST(GuardedMemory, IsEnoughForRecomputation) {
  run_everything<small_gpt::job<
      hybrid<pipeline<2>, small_gpt::tp2_sharded, recompute<granularity::all, units::on_stages<0>>>,
      precision<plait::bfloat16, float>>>();
}

TEST(GuardedMemory, IsEnoughForBlocksInOtherTypes) {
  run_everything<
      small_gpt::job<hybrid<pipeline<2>, data_parallel<2, zero<1>>, small_gpt::tp2_sharded>,
                     precision<plait::bfloat16, float>>>();
}

}  // namespace
