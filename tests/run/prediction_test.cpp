// SPDX-License-Identifier: Apache-2.0
// test: seconds=3
//
// The outputs that a prediction copies to the host are the outputs of the serial run, sample by
// sample: for one data rank and for all, for a last batch that is not full, for an output that is
// cut, and for an output of another stage.
#include "plait/run/prediction.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "plait/plait.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

constexpr std::size_t width = 8, vocabulary = small_gpt::vocabulary, length = small_gpt::length;
using model = objective<sequential<named<"wte", nn::embedding<vocabulary, width, normal(0.5)>>,
                                   named<"wpe", nn::positions<length, width, normal(0.5)>>,
                                   named<"up", nn::linear<width, 2 * width>>, nn::gelu<2 * width>,
                                   named<"down", nn::linear<2 * width, width>>,
                                   named<"head", nn::linear<width, vocabulary>>>,
                        nn::cross_entropy<vocabulary>>;
template <class Policy>
struct job : parallel<model, Policy, double> {};

constexpr std::size_t batch = 16;
using numbers = std::vector<double>;

/// 75 samples: the last batch of 16 has 11 of them, which two ranks cannot share equally.
byte_text text_of_75() {
  std::string bytes;
  for (unsigned i = 0; i < 75 * length + 1; ++i)
    bytes.push_back(static_cast<char>('a' + i * i % 23));
  return byte_text::from_text(bytes, length);
}
constexpr std::size_t last = 75 % batch, longer = 6;

/// Predictions of a full batch and of the last batch.
struct outcome {
  numbers full, last;
};

/// Returns the outputs that each rank gets.
template <class Job>
std::vector<outcome> predict(predicted which, int microbatches) {
  using plan = typename Job::plan_type;
  auto const text = text_of_75();
  std::vector<outcome> out(std::size_t(plan::grid.world_size()));
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{}, {.seed = 5});
    auto all = batches(
        text, global_batch<batch>{}, rank,
        {.how = sample_order::sequential, .last = last_batch::keep, .microbatches = microbatches});
    auto& mine = out[std::size_t(rank.world_rank())];
    std::size_t rows = 0;
    for (auto const& now : all) {
      auto const got = trainer.predict(now, which);
      auto& to = now.missing_samples > 0 ? mine.last : mine.full;
      to.assign(got.begin(), got.end());
      rows = now.rows();
    }
    workload load{.rows = rows, .microbatches = microbatches, .prediction = which};
    EXPECT_EQ(trainer.allocated().outputs, plan::memory(rank.stage(), load).outputs);
  });
  return out;
}

constexpr std::size_t of_sample = length * vocabulary;

numbers slice(numbers const& of, std::size_t first, std::size_t count) {
  auto const begin = of.begin() + std::ptrdiff_t(first * of_sample);
  return {begin, begin + std::ptrdiff_t(count * of_sample)};
}

/// Returns the outputs of the serial run.
outcome const& serial_run() {
  static outcome const out = predict<job<serial>>(predicted::of_data_rank, 1).front();
  return out;
}

TEST(Prediction, OfTheSerialRunHasEachSampleOnce) {
  EXPECT_EQ(serial_run().full.size(), batch * of_sample);
  EXPECT_EQ(serial_run().last.size(), last * of_sample);
  for (int const microbatches : {2, 4})
    for (auto const which : {predicted::of_data_rank, predicted::of_all}) {
      auto const got = predict<job<serial>>(which, microbatches).front();
      EXPECT_EQ(got.full, serial_run().full);
      EXPECT_EQ(got.last, serial_run().last);
    }
  EXPECT_NE(slice(serial_run().full, 0, 1), slice(serial_run().full, 1, 1));
}

TEST(Prediction, OfStagesAndDataRanksHasTheBitsOfTheSerialRun) {
  using split = job<hybrid<pipeline<2>, data_parallel<2>>>;
  for (int const microbatches : {1, 2}) {
    auto const all = predict<split>(predicted::of_all, microbatches);
    auto const own = predict<split>(predicted::of_data_rank, microbatches);
    for (std::size_t rank = 0; rank < 4; ++rank) {  // the data rank varies fastest
      EXPECT_EQ(all[rank].full, serial_run().full) << rank;
      EXPECT_EQ(all[rank].last, serial_run().last) << rank;
      bool const second = rank % 2 == 1;
      EXPECT_EQ(own[rank].full, slice(serial_run().full, second ? batch / 2 : 0, batch / 2));
      EXPECT_EQ(own[rank].last,
                slice(serial_run().last, second ? longer : 0, second ? last - longer : longer));
    }
  }
}

void expect_near(numbers const& got, numbers const& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12) << i;
}

// Sums over features are made in two parts, which is rounding.
TEST(Prediction, OfACutOutputIsWhole) {
  using cut = job<small_gpt::tp2>;
  constexpr auto& code = cut::plan_type::code;
  static_assert(is_shard(code.values[code.items[code.items.size() - 1].in].at));
  for (auto const which : {predicted::of_data_rank, predicted::of_all})
    for (auto const& rank : predict<cut>(which, 2)) {
      expect_near(rank.full, serial_run().full);
      expect_near(rank.last, serial_run().last);
    }
}

}  // namespace
