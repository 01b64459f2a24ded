// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=10
//
// Data ranks with different shares of a batch train as one rank does, each in its own memory and
// with its own calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plan/expected_calls.hpp"
#include "testing/event_orders.hpp"
#include "train/expect_planned.hpp"
#include "train/penalty.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using planning::job_part;
using tensors = std::map<std::string, std::vector<double>>;

// The loss has two terms. Dropout depends on the number of a sample in its global batch.
using model = objective<
    sequential<named<"wte", nn::embedding<small_gpt::vocabulary, small_gpt::width>>,
               named<"wpe", nn::positions<small_gpt::length, small_gpt::width>>,
               nn::dropout<small_gpt::width, 100>, named<"h", repeat<3, small_gpt::block>>,
               named<"small", plait_test::penalty<small_gpt::width>>,
               named<"ln_f", nn::layer_norm<small_gpt::width>>,
               named<"lm_head", nn::linear<small_gpt::width, small_gpt::vocabulary>>>,
    nn::cross_entropy<small_gpt::vocabulary>>;
template <class Policy>
struct job : parallel<model, Policy, double> {};

using three_to_one = job<data_parallel<2, shares<3, 1>>>;

/// Mistakes that the tests must find.
enum class fault { none, first_sample_one_late };

struct settings {
  int microbatches = 2;
  double clip = 0.05;
  int steps = 5;
  fault made = fault::none;
  bool counts = true;  ///< the first step is compared with the plan
};

struct outcome {
  std::vector<double> numbers;  ///< the loss, its terms and the norm of each step
  tensors weights, gradients;
  std::vector<std::vector<std::size_t>> samples;  ///< samples of each step, on all data ranks
};

constexpr std::size_t samples_of_batch = 24;
constexpr std::size_t samples_of_text = 74;  // the fourth batch of an epoch has 2 samples

/// The samples of a batch on this rank.
template <class Batch, class Rank>
std::vector<std::size_t> samples_in(Batch const& batch, Rank const& rank) {
  std::vector<std::size_t> out;
  auto const ranks = rank.grid().size(batch_axes);
  auto const mine = rank.grid().place_in_group(rank.coordinates(), batch_axes);
  for (int m = 0; m < batch.microbatches; ++m)
    for (std::size_t s = 0; s < batch.samples_in(m, mine, ranks); ++s)
      out.push_back(batch.sample_numbers[std::size_t(m) * batch.samples + s]);
  return out;
}

/// Replaces each sample of a batch in host memory by the sample after it.
template <class Batch>
void begin_one_late(Batch& batch, byte_text const& text) {
  std::vector<std::int32_t> inputs(batch.sequence), targets(batch.sequence);
  for (int m = 0; m < batch.microbatches; ++m)
    for (std::size_t s = 0; s < batch.samples; ++s) {
      std::size_t const number =
          (batch.sample_numbers[std::size_t(m) * batch.samples + s] + 1) % text.size();
      text.inputs(number, inputs);
      text.targets(number, targets);
      for (std::size_t p = 0; p < batch.sequence; ++p) {
        reinterpret_cast<std::int32_t*>(batch.input_of(m))[p * batch.samples + s] = inputs[p];
        reinterpret_cast<std::int32_t*>(batch.targets_of(m))[p * batch.samples + s] = targets[p];
      }
    }
}

template <class Job>
outcome train(auto const& backend, settings const& with) {
  using plan = typename Job::plan_type;
  auto const text = small_gpt::text();
  outcome out;
  out.samples.resize(std::size_t(with.steps));
  std::mutex mutex;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{.learning_rate = 0.5, .momentum = 0.9},
                                       {.seed = 7, .clip = with.clip});
    auto all = batches(text, global_batch<samples_of_batch>{}, rank,
                       {.seed = 3,
                        .how = sample_order::sequential,
                        .last = last_batch::keep,
                        .epochs = 0,
                        .microbatches = with.microbatches});
    auto const block = block_of(plan::samples, rank.grid(), rank.coordinates()).number;
    auto const load = plan::of_block(block, {.rows = all.rows(),
                                             .microbatches = with.microbatches,
                                             .optimizer_states = 1,
                                             .gradient_norm = with.clip > 0});
    EXPECT_EQ(all.microbatches(), load.microbatches);
    trainer.evaluate(all.at(0));  // data that is sent once has been sent
    std::vector<plait::detail::logged_call> log;
    for (auto const over : rank.groups().sets()) {
      rank.group(over).reset_counted();
      if (with.counts) rank.group(over).log_calls(&log, static_cast<int>(over.bits));
    }
    for (int step = 0; step < with.steps; ++step) {
      auto batch = all.at(std::uint64_t(step));
      if (with.made == fault::first_sample_one_late && block == 1) begin_one_late(batch, text);
      auto const report = trainer.step(batch);
      if (step == 0 && with.counts) {
        plait_test::expect_planned_bytes<Job>(rank, load);
        EXPECT_EQ(expected_calls::expansion<Job>(rank.grid(), rank.coordinates(), load,
                                                 job_part::training)
                      .lines(),
                  expected_calls::lines_of(log))
            << "on rank " << rank.world_rank();
        for (auto const over : rank.groups().sets()) rank.group(over).log_calls(nullptr, 0);
      }
      std::scoped_lock const lock{mutex};
      auto const mine = samples_in(batch, rank);
      auto& seen = out.samples[std::size_t(step)];
      if (rank.stage() == 0 && holds_the_one_copy(plan::samples, rank.coordinates()))
        seen.insert(seen.end(), mine.begin(), mine.end());
      if (!rank.is_root()) continue;
      out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm});
      out.numbers.insert(out.numbers.end(), report.terms.begin(), report.terms.end());
    }
    plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
    auto const into = [](tensors& to) {
      return [&to](std::string const& name, parameter_info const&, std::span<double const> values) {
        to[name].assign(values.begin(), values.end());
      };
    };
    trainer.export_parameters(into(out.weights));
    trainer.export_gradients(into(out.gradients));
  });
  for (auto& of_step : out.samples) std::ranges::sort(of_step);
  return out;
}

/// The greatest difference between two runs, in a number of a step, a weight or a gradient.
double difference(outcome const& a, outcome const& b) {
  double most = 0;
  auto const compare = [&](std::vector<double> const& x, std::vector<double> const& y) {
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  };
  compare(a.numbers, b.numbers);
  EXPECT_EQ(a.weights.size(), b.weights.size());
  for (auto const& [name, values] : a.weights) compare(values, b.weights.at(name));
  for (auto const& [name, values] : a.gradients) compare(values, b.gradients.at(name));
  return most;
}

/// Returns the outcome of one rank, which the test computes once for each clip.
outcome const& expected(double clip) {
  static std::map<double, outcome> made;
  if (!made.contains(clip))
    made[clip] = train<job<serial>>(threads{}, {.microbatches = 1, .clip = clip, .counts = false});
  return made.at(clip);
}

template <class Policy>
class Shares : public ::testing::Test {};
using policies = ::testing::Types<
    data_parallel<2, shares<3, 1>>, data_parallel<2, shares<1, 2>, zero<1>, buckets<1>>,
    data_parallel<3, shares<2, 3, 1>>, hybrid<pipeline<2>, data_parallel<2, shares<3, 1>>>,
    hybrid<pipeline<2, interleaved<2>>, data_parallel<4, within<2>, shares<1, 2, 2, 1>>,
           small_gpt::tp2>,
    hybrid<data_parallel<2, shares<3, 1>>, small_gpt::tp2_sharded>>;
TYPED_TEST_SUITE(Shares, policies);

TYPED_TEST(Shares, TrainAsOneRankDoes) {
  for (double const clip : {0.05, 0.0}) {
    auto const got = train<job<TypeParam>>(threads{}, {.clip = clip});
    EXPECT_LT(difference(expected(clip), got), 1e-12);
    EXPECT_EQ(got.samples, expected(clip).samples);
  }
}

// Norms are clipped, and the batches are from two epochs.
TEST(SharesOfOneRank, SeeEachSampleOnceInAnEpoch) {
  auto const& all = expected(0.05);
  ASSERT_EQ(all.weights.size(), all.gradients.size());
  for (std::size_t step = 0; step < 5; ++step) EXPECT_GT(all.numbers[4 * step + 1], 0.05);
  std::vector<std::size_t> epoch;
  for (std::size_t step = 0; step < 4; ++step)
    epoch.insert(epoch.end(), all.samples[step].begin(), all.samples[step].end());
  ASSERT_EQ(epoch.size(), samples_of_text);
  for (std::size_t i = 0; i < epoch.size(); ++i) EXPECT_EQ(epoch[i], i);
}

TEST(SharesFaults, AreFound) {
  std::map<std::string, fault> const faults{
      {"the first sample of a share is one late", fault::first_sample_one_late}};
  for (auto const& [name, made] : faults)
    EXPECT_GT(difference(expected(0.05), train<three_to_one>(threads{}, {.made = made})), 1e-6)
        << name;
}

TEST(SharesSimulated, HaveNoRace) {
  using here = job<hybrid<pipeline<2>, data_parallel<2, shares<3, 1>>>>;
  settings const with{.steps = 1, .counts = false};
  auto const right = train<here>(threads{}, with);
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(20); ++seed)
    ASSERT_EQ(train<here>(simulated{.seed = seed}, with).weights, right.weights) << seed;
}

// ---- The plan -----------------------------------------------------------------------------------

using plan_of_shares = three_to_one::plan_type;
constexpr workload asked{.rows = 16, .microbatches = 2};
static_assert(plan_of_shares::microbatches_of(0, asked) == 6 &&
              plan_of_shares::microbatches_of(1, asked) == 2);
static_assert(job<serial>::plan_type::microbatches_of(0, asked) == 2);
static_assert(job<hybrid<data_parallel<2>, reproducible<5>>>::plan_type::microbatches_of(1,
                                                                                         asked) ==
              3);

TEST(SharesPlan, CountsForTheGreatestShareUnlessABlockIsSaid) {
  using plan = plan_of_shares;
  auto const first = plan::of_block(0, asked), second = plan::of_block(1, asked);
  EXPECT_LT(plan::memory(0, second).total(), plan::memory(0, first).total());
  EXPECT_EQ(plan::memory(0, asked).total(), plan::memory(0, first).total());
  for (auto const& load : {asked, first, second})
    EXPECT_EQ(plan::bytes_per_rank(load), plan::memory(0, first).total());
  using staged = job<hybrid<data_parallel<2, shares<3, 1>>, small_gpt::tp2>>::plan_type;
  auto const sent = [](workload const& load) {
    return staged::bytes_sent(axis::tensor, 0, load).forward;
  };
  EXPECT_EQ(sent(asked), sent(staged::of_block(0, asked)));
  EXPECT_EQ(sent(asked), 3 * sent(staged::of_block(1, asked)));
  EXPECT_EQ(staged::bytes_sent(axis::tensor, staged::of_block(1, asked)).forward, sent(asked));
  EXPECT_THROW((void)plan::bytes_per_rank({.microbatches = 4, .block = 0}), input_error);
}

TEST(SharesPlan, IsExplained) {
  auto const text = explain(plan_of_shares{}, asked);
  EXPECT_EQ(text, explain(plan_of_shares{}, plan_of_shares::of_block(1, asked)));
  auto const bytes = [](int block) {
    return plait::detail::with_unit(
        plan_of_shares::memory(0, plan_of_shares::of_block(block, asked)).total());
  };
  for (auto const& line :
       {std::string("data ranks have different shares of each global batch: shares<3, 1>\n"),
        "\n  0          12                  6             " + bytes(0) + "\n",
        "\n  1          4                   2             " + bytes(1) + "\n",
        std::string("with data_parallel<2, zero<1>, shares<3, 1>> a rank would hold")})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

// ---- A layer that sleeps ------------------------------------------------------------------------

/// The time that the layer below takes for a sample on this rank, in one pass.
thread_local std::chrono::milliseconds time_of_sample{0};

/// y = x, slowly.
template <std::size_t Width>
struct slow {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  static void forward(auto& ops, auto l) { ops.copy(l.x, l.y), sleep(l); }
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx), sleep(l); }
  static void sleep(auto& l) {
    std::this_thread::sleep_for(time_of_sample * std::int64_t(l.context.batch));
  }
};

template <class Policy>
struct slow_job
    : parallel<
          objective<sequential<nn::linear<4, 4>, slow<4>, nn::linear<4, 4>>, nn::cross_entropy<4>>,
          Policy> {};
using balanced = slow_job<data_parallel<2, shares<3, 1>>>;
using equal = slow_job<data_parallel<2, shares<1, 1>>>;

// ---- Mistakes -----------------------------------------------------------------------------------

void expect_refused(std::string const& words, auto const& work) {
  try {
    work();
    ADD_FAILURE() << "no error: " << words;
  } catch (error const& problem) {
    EXPECT_NE(std::string(problem.what()).find(words), std::string::npos) << problem.what();
  }
}

TEST(SharesMistakes, RefuseWhatDoesNotFit) {
  auto const text = small_gpt::text();
  expect_refused(
      "global_batch: 20 samples are not a multiple of 8, the sum of shares<3, 1> (4) times "
      ".microbatches (2); choose a multiple of 8, or another .microbatches",
      [&] {
        launch<three_to_one>(threads{}, [&](auto& rank) {
          batches(text, global_batch<20>{}, rank, {.microbatches = 2});
        });
      });
  expect_refused(
      "trainer 1: the ranks differ in the options of data_parallel: 'shares<3, 1>' on rank 0, "
      "'shares<1, 1>' on rank 1",
      [&] {
        launch<balanced>(threads{}, [&](auto& rank) {
          if (rank.is_root()) trainer<balanced>(rank, sgd{});
          else trainer<equal>(rank, sgd{});
        });
      });
  expect_refused(
      "got a batch of 1 microbatches, beginning with slice 0 of 0; the job has shares<1, 1>, and "
      "this rank must compute 1 slices, beginning with slice ",
      [&] {
        launch<slow_job<data_parallel<2>>>(threads{}, [&](auto& rank) {
          auto all = batches(in_memory<float>::random_classes(16, 4, 4), global_batch<16>{}, rank);
          trainer<equal>(rank, sgd{}).step(all.at(0));
        });
      });
}

TEST(SharesUse, PredictAndEvaluate) {
  auto const text = small_gpt::text();
  auto const loss_of = [&]<class Job>(Job) {
    double loss = 0;
    launch<Job>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<Job>(rank, sgd{});
      auto const [mean] =
          trainer.evaluate(text, global_batch<samples_of_batch>{}, measures::mean_loss{});
      if (rank.is_root()) loss = mean;
    });
    return loss;
  };
  EXPECT_NEAR(loss_of(three_to_one{}), loss_of(job<serial>{}), 1e-12);
  expect_refused("predict: the data ranks have different shares of a batch, shares<3, 1>", [&] {
    launch<three_to_one>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<three_to_one>(rank, sgd{});
      auto all = batches(text, global_batch<samples_of_batch>{}, rank, {.microbatches = 2});
      EXPECT_EQ(trainer.planned_bytes(all), three_to_one::plan_type::bytes_per_rank<sgd>(
                                                {.rows = all.rows(), .microbatches = 2}));
      EXPECT_EQ(trainer.predict(all.at(0)).size(),
                (rank.is_root() ? 18 : 6) * small_gpt::length * small_gpt::vocabulary);
      trainer.predict(all.at(0), predicted::of_all);
    });
  });
}

// ---- Time ---------------------------------------------------------------------------------------

/// Returns the median time of a step, in seconds, if rank 1 is three times as slow as rank 0.
template <class Job>
double median_of_steps() {
  auto const data = in_memory<float>::random_classes(16, 4, 4);
  std::vector<double> times;
  launch<Job>(threads{}, [&](auto& rank) {
    time_of_sample = std::chrono::milliseconds(rank.is_root() ? 2 : 6);
    auto trainer = plait::trainer<Job>(rank, sgd{});
    auto all = batches(data, global_batch<16>{}, rank, {.epochs = 0, .microbatches = 1});
    for (std::uint64_t step = 0; step < 9; ++step) {
      auto const begin = std::chrono::steady_clock::now();
      trainer.step(all.at(step));
      std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
      if (rank.is_root()) times.push_back(took.count());
    }
  });
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// Equal shares take 8 samples on the slow rank, and shares<3, 1> take 4.
TEST(SharesTime, IsThatOfBalancedRanks) {
  double const of_equal = median_of_steps<equal>();
  double const uneven = median_of_steps<balanced>();
  EXPECT_LE(uneven, 0.60 * of_equal) << uneven << " s and " << of_equal << " s";
  RecordProperty("ratio", std::to_string(uneven / of_equal));
}

}  // namespace
