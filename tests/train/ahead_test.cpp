// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=15
//
// Samples that threads of each rank read ahead. The bits of a training depend neither on the
// numbers of these steps and threads, nor on the plan. An exception of a data set ends all ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

namespace {

using namespace plait;

/// Pictures of 2 x 6 x 6.
struct pictures {
  using concept_tag = dataset_tag;
  using element = float;
  [[nodiscard]] std::size_t size() const { return 100; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return 72; }
  [[nodiscard]] plait::picture_shape picture_shape() const { return {2, 6, 6}; }
  void inputs(std::size_t sample, std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = float((sample * 31 + i * i * 7 + i * sample) % 97) / 50 - 1;
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    out[0] = std::int32_t(sample % 5);
  }
};

auto augmented() {
  return pictures{} | random_crop<6, 6>(2) | random_flip() |
         plait::random([](std::span<float> all, sample_random& numbers) {
           all[numbers.below(72)] += float(numbers.uniform(-1, 1));
         });
}

using model = objective<sequential<nn::linear<72, 16>, nn::gelu<16>, nn::linear<16, 5>>,
                        nn::cross_entropy<5>>;
template <class... Policies>
struct job : parallel<model, hybrid<Policies..., reproducible<12>>> {};
template <class Policy>
struct plain_job : parallel<model, Policy> {};

constexpr std::uint64_t steps = 20;

/// Returns the losses of 20 steps and the weights after them. `resumed_at`: a step, in the middle
/// of an epoch, before which a new batches object takes over.
template <class Job, class Data = decltype(augmented())>
std::vector<double> train(batch_options options, std::uint64_t resumed_at = steps,
                          Data const& data = augmented()) {
  std::vector<double> out;
  options.seed = 3;
  options.last = last_batch::keep;
  options.epochs = 0;
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.01}, {.seed = 1});
    auto const step = [&](auto const& batch) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) out.push_back(loss);
    };
    {
      auto all = batches(data, global_batch<24>{}, rank, options);
      for (std::uint64_t i = 0; i < resumed_at; ++i) step(all.at(i));
      if (resumed_at < steps) (void)all.at(resumed_at + 1);  // samples that were ready are dropped
    }
    if (resumed_at < steps) {
      auto all = batches(data, global_batch<24>{}, rank, options);
      for (auto const& batch : all.from(resumed_at)) {
        step(batch);
        if (std::uint64_t(trainer.step_number()) == steps) break;
      }
    }
    trainer.export_parameters([&](std::string const&, auto const&, std::span<float const> values) {
      out.insert(out.end(), values.begin(), values.end());
    });
  });
  return out;
}

template <class Job>
void expect_bits(std::vector<double> const& expected) {
  for (auto const& [ahead, readers] : {std::pair{0, 1}, {1, 1}, {3, 1}, {1, 4}, {3, 4}}) {
    batch_options const options{.ahead = ahead, .readers = readers};
    EXPECT_EQ(train<Job>(options), expected) << ahead << " ahead by " << readers;
    EXPECT_EQ(train<Job>(options, 7), expected) << ahead << " ahead by " << readers << ", resumed";
  }
}

TEST(Ahead, ChangesNoBitUnderAnyPlan) {
  auto const expected = train<job<>>({});
  ASSERT_NE(train<job<>>({}, steps, pictures{}), expected);
  expect_bits<job<>>(expected);
  expect_bits<job<data_parallel<2>>>(expected);
  expect_bits<job<pipeline<2>, data_parallel<3>>>(expected);
}

TEST(Ahead, ChangesNoBitWithoutSlices) {
  expect_bits<plain_job<data_parallel<2>>>(train<plain_job<data_parallel<2>>>({}));
  using dp3_pp2 = hybrid<pipeline<2>, data_parallel<3>>;
  expect_bits<plain_job<dp3_pp2>>(train<plain_job<dp3_pp2>>({}));
}

/// Returns a sample after a pause, and fails at a chosen sample.
struct slow {
  using concept_tag = dataset_tag;
  using element = float;
  std::chrono::microseconds pause{};
  std::ptrdiff_t fails_at = -1;
  [[nodiscard]] std::size_t size() const { return 400; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return 72; }
  [[nodiscard]] std::uint64_t fingerprint() const { return 1; }
  void inputs(std::size_t sample, std::span<float> out) const {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    if (std::ptrdiff_t(sample) == fails_at) throw input_error("sample 17 cannot be read");
    for (auto& value : out) value = float(sample);
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    out[0] = std::int32_t(sample % 5);
  }
};

double seconds_of_a_step(int ahead, double* waited) {
  double out = 0;
  launch<plain_job<data_parallel<2>>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<plain_job<data_parallel<2>>>(rank, adamw{});
    slow const data{.pause = std::chrono::milliseconds(5)};
    auto all = batches(data, global_batch<8>{}, rank, {.epochs = 0, .ahead = ahead});
    constexpr std::uint64_t count = 20;
    trainer.step(all.at(0));
    auto const begin = std::chrono::steady_clock::now();
    double sum = 0;
    for (std::uint64_t step = 1; step <= count; ++step) {
      sum += trainer.step(all.at(step)).waited;
      std::this_thread::sleep_for(std::chrono::milliseconds(22));  // represents the time of a step
    }
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    if (rank.is_root()) out = took.count() / double(count), *waited = sum / double(count);
  });
  return out;
}

TEST(Ahead, HidesTheTimeOfAReader) {
  double waited_before = 0, waited_ahead = 0;
  double const before = seconds_of_a_step(0, &waited_before);
  double const ahead = seconds_of_a_step(2, &waited_ahead);
  RecordProperty("seconds_per_step", std::to_string(before) + " " + std::to_string(ahead));
  EXPECT_LT(ahead, 0.75 * before);  // it is a half on an idle machine
  EXPECT_GT(waited_before, 0.019);
  EXPECT_LT(waited_ahead, 0.5 * waited_before);
}

TEST(Ahead, EndsAllRanksWithWhatAReaderThrows) {
  for (int run = 0; run < 100; ++run) {
    int const ahead = run % 4;
    try {
      launch<plain_job<data_parallel<2>>>(threads{}, [&](auto& rank) {
        auto trainer = plait::trainer<plain_job<data_parallel<2>>>(rank, adamw{});
        slow const data{.fails_at = rank.world_rank() == 1 ? 17 : -1};
        for (auto const& batch :
             batches(data, global_batch<40>{}, rank,
                     {.epochs = 0, .ahead = ahead, .readers = ahead > 0 ? 1 + run % 3 : 1}))
          trainer.step(batch);
      });
      ADD_FAILURE() << "it trains on";
    } catch (std::exception const& problem) {
      EXPECT_NE(std::string(problem.what()).find("sample 17 cannot be read"), std::string::npos)
          << problem.what();
    }
  }
}

TEST(Ahead, SaysTheMemoryOfTheHost) {
  launch<plain_job<serial>>(threads{}, [&](auto& rank) {
    slow const data{};
    auto const bytes = [&](batch_options const& options) {
      return batches(data, global_batch<8>{}, rank, options).host_bytes();
    };
    std::size_t const buffer =
        8 * (72 * sizeof(float) + sizeof(std::int32_t) + sizeof(std::size_t));
    std::size_t const loader = 72 * sizeof(float) + sizeof(std::int32_t);
    EXPECT_EQ(bytes({}), buffer + loader);
    EXPECT_EQ(bytes({.ahead = 2, .readers = 3}), 3 * buffer + 3 * loader);
  });
}

std::string message_of(std::function<void()> const& body) {
  try {
    body();
  } catch (std::exception const& problem) {
    return problem.what();
  }
  return "no error";
}

TEST(Ahead, RefusesNumbersThatMeanNothing) {
  launch<plain_job<serial>>(threads{}, [&](auto& rank) {
    slow const data{};
    auto const said = [&](batch_options const& options) {
      return message_of([&] { batches(data, global_batch<8>{}, rank, options); });
    };
    EXPECT_EQ(said({.ahead = -1}), "batch_options::ahead is -1; it must be from 0 to 1024");
    EXPECT_EQ(said({.ahead = 1, .readers = 0}),
              "batch_options::readers is 0; it must be from 1 to 1024");
    EXPECT_EQ(said({.readers = 4}),
              "batch_options: .readers is 4 but .ahead is 0, so the readers would have nothing to "
              "read; set .ahead to a number such as 2, or leave .readers out");
  });
}

TEST(Evaluation, HasNoRandomnessAndTrainersSeeToIt) {
  launch<plain_job<data_parallel<2>>>(threads{}, [&](auto& rank) {
    using this_job = plain_job<data_parallel<2>>;
    auto trainer = plait::trainer<this_job>(rank, adamw{}, {.seed = 1});
    auto const data = augmented();
    pictures const plain{};
    auto const [loss] = trainer.evaluate(data, global_batch<20>{}, measures::mean_loss{});
    auto const [expected] = trainer.evaluate(plain, global_batch<20>{}, measures::mean_loss{});
    EXPECT_EQ(loss, expected);
    auto random = batches(data, global_batch<20>{}, rank);
    auto still = batches(data, global_batch<20>{}, rank, {.for_evaluation = true});
    EXPECT_TRUE(random.description().is_random);
    EXPECT_FALSE(still.description().is_random);
    EXPECT_EQ(message_of([&] { trainer.evaluate(random.at(0)); }),
              "trainer 1: evaluate got a batch with random samples, as the data set declares "
              "(data | random_crop<6, 6>(2, seed 0) | random_flip(0.5, seed 0) | random(f, seed "
              "0)); set batch_options::for_evaluation = true, or call trainer.evaluate(data, size, "
              "measures...)");
    EXPECT_NE(
        message_of([&] { trainer.predict(random.at(0)); }).find("got a batch with random samples"),
        std::string::npos);
    EXPECT_EQ(
        message_of([&] { trainer.step(still.at(0)); }),
        "trainer 1: step got a batch for evaluation (batch_options::for_evaluation is true), whose "
        "samples have no random changes; leave .for_evaluation out for batches to train on");
    trainer.evaluate(still.at(0));
    trainer.step(random.at(0));
  });
}

TEST(Ranks, CompareWhatTheDataSetSaysThatItIs) {
  auto const said = message_of([] {
    launch<plain_job<data_parallel<2>>>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<plain_job<data_parallel<2>>>(rank, adamw{});
      // Without random changes, which evaluations do not have, the samples would be equal.
      auto const data = pictures{} | random_flip(0.5, std::uint64_t(rank.world_rank()));
      auto all = batches(data, global_batch<20>{}, rank);
      trainer.step(all.at(0));
    });
  });
  EXPECT_NE(said.find("batches 1: the ranks differ in what the data set says that it is: 'data | "
                      "random_flip(0.5, seed 0)' on rank 0, 'data | random_flip(0.5, seed 1)' on "
                      "rank 1"),
            std::string::npos)
      << said;
}

}  // namespace
