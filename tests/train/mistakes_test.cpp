// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=3
//
// Mistakes at run time, and runs that end early: each is one sentence with the numbers, equal on
// all ranks, and no work is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/process/processes.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "testing/threads_on.hpp"
#include "train/expect_planned.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t input_width = 8, classes = 4;
using body = sequential<named<"first", nn::linear<input_width, 2 * input_width>>,
                        named<"act", nn::relu<2 * input_width>>,
                        named<"second", nn::linear<2 * input_width, input_width>>,
                        named<"last", nn::linear<input_width, classes>>>;
using model = objective<body, nn::cross_entropy<classes>>;
struct grid_job : parallel<model, hybrid<data_parallel<2>, tensor_parallel<2>>, double> {};
struct staged_job : parallel<model, hybrid<pipeline<2>, data_parallel<2>>, double> {};

in_memory<double> const& samples() {
  static auto const data = in_memory<double>::random_classes(20, input_width, classes);
  return data;
}

template <class Error, class Run>
std::string message_of(Run run) {
  try {
    run();
  } catch (Error const& problem) {
    return problem.what();
  } catch (std::exception const& other) {
    ADD_FAILURE() << "another error: " << other.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}
#define EXPECT_SAYS(text, words) \
  EXPECT_NE((text).find(words), std::string::npos) << "'" << (words) << "' is not in: " << (text)

// --- batches
// --------------------------------------------------------------------------------------

TEST(Mistakes, ADataSetBelowOneBatchIsAnErrorWithBothNumbers) {
  auto const text = message_of<input_error>([] {
    launch<grid_job>(threads{}, [](auto& rank) { batches(samples(), global_batch<32>{}, rank); });
  });
  EXPECT_SAYS(text, "a global batch of 32 samples is larger than the data set of 20 samples");
  launch<grid_job>(threads{}, [](auto& rank) {
    auto kept = batches(samples(), global_batch<32>{}, rank, {.last = last_batch::keep});
    EXPECT_EQ(kept.steps_per_epoch(), 1u);
  });
}

TEST(Mistakes, BatchesKeepADataSetThatIsMadeInTheCall) {
  launch<grid_job>(threads{}, [](auto& rank) {
    std::vector<std::int32_t> kept, named;
    for (auto const& batch : batches(in_memory<double>::random_classes(20, input_width, classes),
                                     global_batch<4>{}, rank))
      kept.insert(kept.end(), batch.labels(), batch.labels() + batch.rows());
    for (auto const& batch : batches(samples(), global_batch<4>{}, rank))
      named.insert(named.end(), batch.labels(), batch.labels() + batch.rows());
    EXPECT_EQ(kept, named);
  });
}

TEST(Mistakes, ABatchIsUsedBeforeTheNextOneIsMade) {
  launch<grid_job>(threads{}, [](auto& rank) {
    auto trainer = plait::trainer<grid_job>(rank, sgd{});
    auto from = batches(samples(), global_batch<4>{}, rank);
    auto const says = [](auto use) {
      EXPECT_SAYS(
          message_of<error>(use),
          "trainer 1: the batch of step 0 is used after the batch of step 1 has replaced it; use "
          "each batch before the next batch is made, or make the batch again with batches.at(0)");
    };
    auto const& kept = from.at(0);
    auto const copy = kept;
    double const loss = trainer.evaluate(kept);
    auto const next = from.at(1);
    says([&] { trainer.step(kept); });
    says([&] { trainer.step(copy); });
    says([&] { trainer.gradients_of(copy); });
    says([&] { trainer.evaluate(copy); });
    says([&] { (void)trainer.predict(copy); });
    EXPECT_NE(trainer.evaluate(next), loss);
    from.at(0);
    EXPECT_EQ(trainer.evaluate(copy), loss);
  });
}

TEST(Mistakes, AStepThatBatchesDoNotHaveIsAnErrorWithBothNumbers) {
  launch<grid_job>(threads{}, [](auto& rank) {
    auto all = batches(samples(), global_batch<4>{}, rank, {.epochs = 2});
    auto const says = [](auto ask, std::string const& words) {
      EXPECT_SAYS(message_of<input_error>(ask), words);
    };
    says([&] { all.at(1000); },
         "batches: the batch of step 1000 was requested, but the epochs, 2 of 5 batches, end after "
         "step 9; request an earlier step, or set .epochs to a larger number (0 for no end)");
    says([&] { all.at(10); }, "the batch of step 10 was requested");
    says([&] { (void)all.from(1000); },
         "batches: those from step 1000 on were requested, but the epochs, 2 of 5 batches, end");
    says([&] { (void)all.from(11); }, "those from step 11 on were requested");
    int left = 0;
    for (auto const& batch : all.from(9)) left += batch.microbatches;
    EXPECT_EQ(left, 1);
    // Counts the microbatches after the last step.
    for (auto const& batch : all.from(10)) left += batch.microbatches;
    EXPECT_EQ(left, 1);
    auto for_ever = batches(samples(), global_batch<4>{}, rank, {.epochs = 0});
    for_ever.at(1000);
  });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Mistakes, ABatchThatNoHostHoldsIsAnErrorWithItsBytes) {
  for (auto const size : {std::size_t{1} << 50, std::size_t{1} << 62}) {
    auto const text = message_of<out_of_memory>([&] {
      launch<grid_job>(threads{}, [&](auto& rank) {
        batches(samples(), global_batch<>{size}, rank, {.last = last_batch::keep});
      });
    });
    EXPECT_SAYS(text, "a global batch of " + std::to_string(size) + " samples gives " +
                          std::to_string(size / 2) + " samples to each data rank");
    EXPECT_SAYS(text, "take 76 bytes each; rank ");
  }
}
#endif

// --- numbers of options
// --------------------------------------------------------------------------------------

/// Returns a function that makes a trainer with these options, which is refused.
template <class Optimizer>
auto made_with(Optimizer optimizer, trainer_options const& options = {}) {
  return [=] {
    launch<grid_job>(threads{},
                     [&](auto& rank) { (void)plait::trainer<grid_job>(rank, optimizer, options); });
  };
}
struct launched_job : parallel<model, data_parallel<>, double> {};
template <class Backend>
auto launched_on(Backend const& backend) {
  return [=] { launch<launched_job>(backend, [](auto&) {}); };
}

// Other components test the fields of their backends.
TEST(Mistakes, ANumberOutOfItsRangeIsRefusedWhereItIsGiven) {
  struct line {
    std::function<void()> run;
    std::string words;
  };
  double const nan = std::nan(""), inf = INFINITY;
  std::string const finite = "it must be a finite number from 0 on",
                    decay = "it must be from 0 to below 1";
  using std::chrono::milliseconds;
  std::vector<line> lines{
      {made_with(sgd{.learning_rate = -0.01}), "optimizer's learning_rate is -0.01; " + finite},
      {made_with(sgd{.learning_rate = inf}), "the optimizer's learning_rate is inf; " + finite},
      {made_with(sgd{.momentum = 1}), "the optimizer's momentum is 1; " + decay},
      {made_with(sgd{.momentum = -0.5}), "the optimizer's momentum is -0.5; " + decay},
      {made_with(sgd{.weight_decay = -1}), "the optimizer's weight_decay is -1; " + finite},
      {made_with(adamw{.learning_rate = nan}), "the optimizer's learning_rate is nan; " + finite},
      {made_with(adamw{.beta1 = 1}), "the optimizer's beta1 is 1; " + decay},
      {made_with(adamw{.beta2 = 1}), "the optimizer's beta2 is 1; " + decay},
      {made_with(adamw{.beta2 = nan}), "the optimizer's beta2 is nan; " + decay},
      {made_with(adamw{.epsilon = -1}), "epsilon is -1; it must be a finite number above 0"},
      {made_with(adamw{.epsilon = 0}), "epsilon is 0; it must be a finite number above 0"},
      {made_with(adamw{.weight_decay = inf}), "the optimizer's weight_decay is inf; " + finite},
      {made_with(sgd{}, {.clip = nan}), "clip is nan; it must be 0 (no clipping) or above"},
      {made_with(sgd{}, {.clip = -1}),
       "trainer_options::clip is -1; it must be 0 (no clipping) or above"},
      {made_with(sgd{}, {.average = 1}), "average is 1; it must be 0 (no averages) or above"},
      {[&] {
         launch<grid_job>(threads{}, [](auto& rank) {
           batches(samples(), global_batch<4>{}, rank, {.microbatches = -2});
         });
       },
       "batch_options::microbatches is -2; it must be at least 0"},
      {launched_on(threads{.data_ranks = -2}), "-2 ranks were requested, but at least 1 is needed"},
      {launched_on(simulated{.data_ranks = -2}),
       "-2 ranks were requested, but at least 1 is needed"},
      {launched_on(threads{.options = {.timeout = {}}}),
       "thread_options::timeout in seconds is 0; it must be above 0"},
      {launched_on(threads{.options = {.yields = -2}}), "yields is -2; it must be at least -1"},
      {launched_on(threads{.options = {.spins = -2}}), "spins is -2; it must be at least -1"},
      {launched_on(processes{.data_ranks = 1, .timeout = milliseconds{-5}}),
       "processes::timeout in seconds is -0.005; it must be above 0"},
      {launched_on(processes{.data_ranks = 1, .start_timeout = {}}),
       "processes::start_timeout in seconds is 0; it must be above 0"},
      {[] { progress{-3}; }, "progress: total_steps is -3; it must be at least 0"},
      {[] { csv_log("none.csv", {.from_step = -4}); },
       "log_options::from_step is -4; it must be at least 0"},
  };
  lines.push_back(
      {made_with(sgd{}, {.rate = [](std::int64_t) { return 30.0; }}),
       "trainer_options::rate returned 30 at step 0; this is not a learning rate but the "
       "factor by which the optimizer's learning_rate is multiplied"});
  lines.push_back(
      {made_with(sgd{}, {.rate = rates::linear(10, 1.5)}), "rate returned 1.05 at step 1"});
  for (auto const& [run, words] : lines) {
    auto const text = message_of<input_error>(run);
    EXPECT_SAYS(text, words);
  }
  made_with(sgd{.learning_rate = 0}, {.clip = inf})();  // both values have a use
  made_with(sgd{}, {.rate = [](std::int64_t) { return 30.0; }, .rate_above_1 = true})();
}

// --- what must be the same on all ranks
// -----------------------------------------------------------

/// An optimizer like sgd, whose own rate falls with the steps.
struct falling {
  using concept_tag = optimizer_tag;
  struct numbers {
    float learning_rate = 0;
    double twice = 0;  // padding bytes precede it, which must not be compared
  };
  static constexpr int states = 1;
  double rate = 0.1;
  bool (*decays)(parameter_description const&) = decay_all;

  [[nodiscard]] numbers numbers_of(std::int64_t step, double) const {
    numbers out;
    std::fill_n(reinterpret_cast<unsigned char*>(&out), sizeof out,
                static_cast<unsigned char>(reinterpret_cast<std::uintptr_t>(&out) >> 12));
    out.learning_rate = static_cast<float>(rate / double(step + 1));
    out.twice = 2 * rate / double(step + 1);
    return out;
  }
  template <class Queue, class Arena>
  void update(Queue, Arena const&, numbers const*) const {}
};

struct difference {
  trainer_options options{};
  adamw optimizer{};
  falling own{};
  std::size_t batch = 8;
  batch_options how{};
};

template <class Job, class Backend = threads>
std::string with_rank_2(difference const& other, Backend const& backend = {}) {
  return message_of<input_error>([&] {
    launch<Job>(backend, [&](auto& rank) {
      auto const mine = rank.world_rank() == 2 ? other : difference{};
      auto first = trainer<Job>(rank, mine.optimizer, mine.options);
      auto second = trainer<Job>(rank, mine.own);
      auto from = batches(samples(), global_batch<>{mine.batch}, rank, mine.how);
      first.step(from.at(0));
    });
  });
}

TEST(Mistakes, ADifferenceBetweenRanksIsNamedWithBothValues) {
  auto const says = [](difference const& other, std::string const& words) {
    EXPECT_SAYS(with_rank_2<grid_job>(other), words);
  };
  says({.options = {.seed = 5}}, "trainer 1: the ranks differ in seed: 0 on rank 0, 5 on rank 2;");
  says({.options = {.clip = 0.5}}, "differ in clip: 0 on rank 0, 0.5 on rank 2;");
  says({.options = {.rate = rates::warm_up(10, rates::cosine(100))}},
       "differ in rate at step 0: 1 on rank 0, 0.1 on rank 2");
  says({.options = {.rate = [](std::int64_t step) { return step < 1000 ? 1 : 0.5; }}},
       "differ in rate at step 1024: 1 on rank 0, 0.5 on rank 2");
  says({.options = {.average = 0.5}}, "differ in average: 0 on rank 0, 0.5 on rank 2;");
  says({.options = {.on_not_finite = trainer_options::not_finite::train_on}},
       "differ in on_not_finite (0 stops, 1 skips, 2 trains on): 0 on rank 0, 2 on rank 2");
  says({.optimizer = {.learning_rate = 0.002}},
       "the optimizer's learning_rate: 0.001 on rank 0, 0.002 on rank 2");
  says({.optimizer = {.epsilon = 1e-7}}, "optimizer's epsilon: 1e-08 on rank 0, 1e-07 on rank 2");
  says({.optimizer = {.decays = decay_matrices}},
       "the ranks differ in the decay of parameter 'first.bias': 1 on rank 0, 0 on rank 2;");
  says({.options = {.groups = {{.pattern = "s*.weight", .rate = 0.1}}}},
       "trainer 1: the ranks differ in the rate of parameter 'second.weight': 1 on rank 0, 0.1 on");
  says({.own = {.rate = 0.25}},
       "trainer 2: the ranks differ in number 0 of the optimizer at step 0: 0.1");
  says({.batch = 4},
       "batches 1: the ranks differ in the samples of a global batch: 8 on rank 0, 4 on rank 2");
  says({.how = {.seed = 3}}, "batches 1: the ranks differ in seed: 0 on rank 0, 3 on rank 2");
  says({.how = {.last = last_batch::keep}}, "last (1 if the last batch is kept): 0 on rank 0");
  EXPECT_SAYS(with_rank_2<staged_job>({.options = {.seed = 5}}), "differ in seed: 0 on rank 0, 5");
  EXPECT_SAYS(with_rank_2<grid_job>({.options = {.seed = 5}}, simulated{}),
              "differ in seed: 0 on rank 0, 5 on rank 2");
}

/// 200 samples, of which one may have other features. Fingerprints include every third.
struct one_is_other {
  using concept_tag = dataset_tag;
  using element = double;
  std::size_t which = 200;
  bool misses = false;
  [[nodiscard]] bool has_missing() const { return misses; }
  [[nodiscard]] std::size_t size() const { return 200; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return input_width; }
  void inputs(std::size_t sample, std::span<double> out) const {
    std::ranges::fill(out, double(sample) + (sample == which ? 0.5 : 0));
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    out[0] = std::int32_t(sample % classes);
  }
};

/// Returns the errors of ranks where rank `where` has another sample `which`.
template <class Job, class Backend = threads>
std::string with_other_samples(int where, std::size_t which, Backend const& backend = {}) {
  std::mutex mutex;
  std::multiset<std::string> texts;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{});
    one_is_other const data{rank.world_rank() == where ? which : 200};
    auto from = batches(data, global_batch<8>{}, rank, {.how = sample_order::sequential});
    auto const text = message_of<input_error>([&] { trainer.step(from.at(0)); });
    std::scoped_lock const lock{mutex};
    texts.insert(text);
  });
  EXPECT_EQ(texts.count(*texts.begin()), 4u) << "the same on all ranks";
  return *texts.begin();
}

TEST(Mistakes, MissingFeaturesDoNotReachATrainer) {
  launch<grid_job>(threads{}, [](auto& rank) {
    one_is_other const data{.misses = true};
    EXPECT_SAYS(message_of<input_error>([&] { batches(data, global_batch<8>{}, rank); }),
                "batches: features are missing in the data set; write data | "
                "plait::normalize::from(train)");
  });
}

TEST(Mistakes, RanksReadTheSameDataSet) {
  auto const says = [](std::string const& text, int rank) {
    EXPECT_SAYS(text,
                "batches 1: the ranks differ in the fingerprint of the data set, of which "
                "each data rank takes its share: ");
    EXPECT_SAYS(text, " on rank 0, ");
    EXPECT_SAYS(text, " on rank " + std::to_string(rank) + "; make the trainer, and the batches");
  };
  for (int const where : {1, 2, 3}) {
    says(with_other_samples<grid_job>(where, 3), where);
    says(with_other_samples<staged_job>(where, 3), where);
  }
  says(with_other_samples<grid_job>(2, 3, simulated{}), 2);
}

// If fingerprints skip a sample, the ranks that must have equal samples detect the difference.
TEST(Mistakes, RanksOfOneDataRankHaveTheSameSamples) {
  auto const says = [](std::string const& text, int one, int other, int data_rank) {
    EXPECT_SAYS(text, "batches 1: rank " + std::to_string(one) + " and rank " +
                          std::to_string(other) + " are both data rank " +
                          std::to_string(data_rank) +
                          ", and their samples of step 0 differ: their hash is ");
    EXPECT_SAYS(text, " on rank " + std::to_string(other) +
                          "; a data set must return the same inputs, targets and weights for a "
                          "sample on every rank");
  };
  says(with_other_samples<grid_job>(1, 1), 0, 1, 0);
  says(with_other_samples<grid_job>(3, 5), 2, 3, 1);
  says(with_other_samples<staged_job>(2, 1), 0, 2, 0);
  says(with_other_samples<staged_job>(3, 5, simulated{}), 1, 3, 1);
}

TEST(Mistakes, AGroupWithoutEffectIsNamedOnAllRanks) {
  auto const says = [](trainer_options const& options, std::string const& words) {
    std::mutex mutex;
    std::multiset<std::string> texts;
    launch<staged_job>(threads{}, [&](auto& rank) {
      auto const text =
          message_of<input_error>([&] { (void)trainer<staged_job>(rank, sgd{}, options); });
      std::scoped_lock const lock{mutex};
      texts.insert(text);
    });
    EXPECT_EQ(texts.count(*texts.begin()), 4u);
    EXPECT_SAYS(*texts.begin(), words);
  };
  says({.groups = {{.pattern = "first.*"}, {.pattern = "frist.*"}}},
       "trainer_options::groups: the pattern 'frist.*' matches no parameter of the model; names "
       "are like 'first.weight', and a * in a pattern matches any characters");
  says({.groups = {{.pattern = "last.*", .rate = -1}}}, ".rate of the pattern 'last.*' is -1;");
  says({.groups = {{.pattern = "last.*", .decay = INFINITY}}},
       "it must be a finite number from 0 on");
  says({.groups = {{.pattern = "*.weight", .rate = 2}, {.pattern = "last.weight", .rate = 0.1}}},
       "the pattern 'last.weight' has no effect, because all parameters that it matches belong to "
       "'*.weight' earlier in the list; the first matching group decides, so list narrower "
       "patterns");
  says({.groups = {{.pattern = "*.weight"}, {.pattern = "l*.bias"}, {.pattern = "last.*"}}},
       "the pattern 'last.*' has no effect, because all parameters that it matches belong to "
       "'*.weight', 'l*.bias' earlier in the list;");
  says({.groups = {{.pattern = "*"}, {.pattern = "*"}}}, "the pattern '*' has no effect");
}

/// Returns the errors of ranks when rank `odd` imports by source(name, values) and the others
/// import zeros.
template <class Job, class Backend = threads, class Source>
std::multiset<std::string> of_imports(int odd, Source source, Backend const& backend = {}) {
  std::mutex mutex;
  std::multiset<std::string> texts;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{});
    auto const text = message_of<input_error>([&] {
      trainer.import_parameters(
          [&](std::string const& name, auto const&, std::span<double> values) {
            std::ranges::fill(values, 0);
            return rank.world_rank() != odd || source(name, values);
          });
    });
    std::scoped_lock const lock{mutex};
    texts.insert(text);
  });
  return texts;
}

TEST(Mistakes, OtherValuesImportedOnOneRankAreNamedOnAllRanks) {
  auto const one_element = [](std::string const& name, std::span<double> values) {
    if (name == "second.weight") values.back() = 1e-300;
    return true;
  };
  auto const expect_said = [](std::multiset<std::string> const& texts, std::string const& words,
                              std::string const& other) {
    EXPECT_EQ(texts.count(*texts.begin()), 4u);
    EXPECT_SAYS(*texts.begin(), words);
    EXPECT_SAYS(*texts.begin(), other);
  };
  for (int const odd : {1, 2, 3})
    expect_said(
        of_imports<grid_job>(odd, one_element),
        "trainer 1: import_parameters: the ranks differ in the values of 'second.weight': "
        "hash ",
        " on rank " + std::to_string(odd) + "; the source must return the same whole values");
  // Ranks 0 and 1 have the first stage.
  auto const last = [](std::string const& name, std::span<double> values) {
    if (name == "last.bias") values[1] = 1;
    return name != "last.bias";
  };
  expect_said(of_imports<staged_job>(3, last), "the values of 'last.bias': hash ",
              " on rank 2, left as it was on rank 3;");
  expect_said(of_imports<grid_job>(0, last, simulated{}), "'last.bias': left as it was on rank 0, ",
              " on rank 1;");
}

TEST(Mistakes, AveragesThatAreNotThereOrInTheWay) {
  launch<grid_job>(threads{}, [](auto& rank) {
    auto const says = [](auto run, std::string const& words) {
      EXPECT_SAYS(message_of<error>(run), words);
    };
    auto none = plait::trainer<grid_job>(rank, adamw{});
    auto trainer = plait::trainer<grid_job>(rank, adamw{}, {.average = 0.5});
    auto from = batches(samples(), global_batch<8>{}, rank);
    says([&] { none.with_ema([] {}); }, "this trainer keeps no averages; set their decay");
    trainer.with_ema([&] {
      says([&] { trainer.step(from.at(0)); }, "step was called inside with_ema");
      says([&] { trainer.with_ema([] {}); }, "with_ema was called inside with_ema");
      says([&] { trainer.import_parameters([](auto const&...) {}); },
           "import_parameters was called");
    });
    trainer.step(from.at(0));
    auto const held_out = from.at(1);
    // example-begin averages
    double const loss = trainer.with_ema([&] { return trainer.evaluate(held_out); });
    // example-end
    EXPECT_NE(loss, trainer.evaluate(held_out));
    for (double const decay : {1.0, -0.1, std::nan("")})
      says([&] { (void)plait::trainer<grid_job>(rank, adamw{}, {.average = decay}); },
           "trainer_options::average is ");
  });
}

TEST(Mistakes, ReportsSayTheRateOfAnOptimizerWithAScheduleOfItsOwn) {
  launch<grid_job>(threads{}, [](auto& rank) {
    auto own = trainer<grid_job>(rank, falling{}, {.rate = rates::warm_up(100)});
    auto ours = trainer<grid_job>(rank, sgd{.learning_rate = 0.5}, {.rate = rates::warm_up(4)});
    auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0});
    for (std::uint64_t step = 0; step < 3; ++step) {
      EXPECT_FLOAT_EQ(float(own.step(from.at(step)).learning_rate), 0.1f / float(step + 1));
      EXPECT_EQ(ours.step(from.at(step)).learning_rate, 0.5 * double(step + 1) / 4);
    }
  });
}

// --- tokens
// ---------------------------------------------------------------------------------------

/// 6 samples of 2 tokens, of which one is `odd`.
struct some_tokens {
  using concept_tag = dataset_tag;
  using element = std::int32_t;
  std::int32_t odd = 0;
  [[nodiscard]] std::size_t size() const { return 6; }
  [[nodiscard]] std::size_t sequence_length() const { return 2; }
  void inputs(std::size_t sample, std::span<std::int32_t> out) const {
    out[0] = static_cast<std::int32_t>(sample);
    out[1] = sample == 4 ? odd : 15;
  }
  void targets(std::size_t, std::span<std::int32_t> out) const { std::ranges::fill(out, 1); }
};

TEST(Mistakes, TokensOutsideTheTableAreNamedWithSampleAndPosition) {
  // Padding is not part of the vocabulary.
  using table = nn::embedding<16, input_width, normal(0.02), 32>;
  using job = parallel<
      objective<sequential<table, nn::linear<input_width, classes>>, nn::cross_entropy<classes>>,
      data_parallel<2>>;
  for (std::int32_t const odd : {16, 1000000, -1}) {
    auto const text = message_of<input_error>([&] {
      launch<job>(threads{}, [&](auto& rank) {
        auto trainer = plait::trainer<job>(rank, sgd{});
        for (auto const& batch :
             batches(some_tokens{odd}, global_batch<6>{}, rank, {.how = sample_order::sequential}))
          trainer.step(batch);
      });
    });
    EXPECT_SAYS(text, "trainer 1: rank 1 got token " + std::to_string(odd) +
                          " at position 1 of sample 4 of the data set; the model takes tokens "
                          "from 0 to 15");
  }
}

// --- steps that are not finite
// --------------------------------------------------------------------

using tensors = std::map<std::string, std::vector<double>>;
template <class Trainer>
tensors weights_of(Trainer& trainer) {
  tensors out;
  trainer.export_parameters(
      [&](std::string const& name, auto const&, std::span<double const> values) {
        out[name].assign(values.begin(), values.end());
      });
  return out;
}

template <class Trainer>
tensors averages_of(Trainer& trainer) {
  return trainer.with_ema([&] { return weights_of(trainer); });
}

/// Restores the state of a trainer, with values that overflow a product for some parameters. Ranks
/// do not compare data of checkpoints, which are common to all.
class planted_source final : public state_source {
 public:
  planted_source(tensors const& all, std::set<std::string> planted)
      : all_(all), planted_(std::move(planted)) {}
  void read(std::string const& name, parameter_info const& info, parameter_rectangle const& where,
            void* to) override {
    auto* out = static_cast<double*>(to);
    for (std::size_t row = where.row; row < where.row + where.rows; ++row) {
      auto const* const from = all_.at(name).data() + row * info.columns + where.column;
      out = planted_.contains(name) ? std::fill_n(out, where.columns, 1e308)
                                    : std::copy_n(from, where.columns, out);
    }
  }

 private:
  tensors const& all_;
  std::set<std::string> planted_;
};

/// Sets some parameters on rank `where` so large, before step 2, that a product overflows.
template <class Job, class Optimizer, class Backend>
void expect_to_end_before_it_is_ruined(Backend const& backend, Optimizer optimizer, int where,
                                       std::set<std::string> const& planted,
                                       std::string const& said) {
  std::mutex mutex;
  std::set<std::string> texts;
  int ends = 0;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, {.average = 0.5});
    auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0, .microbatches = 2});
    for (std::uint64_t step = 0; step < 2; ++step) trainer.step(from.at(step));
    auto kept = weights_of(trainer);
    rank.world().barrier();
    static tensors whole;  // the weights of the root
    if (rank.is_root()) whole = kept;
    rank.world().barrier();
    planted_source from_there(whole,
                              rank.world_rank() == where ? planted : std::set<std::string>{});
    trainer.state()->restore(0, from_there);
    auto const before = weights_of(trainer);
    auto const averages_before = averages_of(trainer);
    try {
      trainer.step(from.at(2));
      ADD_FAILURE() << "the step was taken";
    } catch (not_finite_error const& problem) {
      std::scoped_lock const lock{mutex};
      texts.insert(problem.what());
      ++ends;
    }
    // All ranks still run: no rank was aborted, and evaluation continues.
    EXPECT_FALSE(std::isfinite(trainer.evaluate(from.at(2))));
    EXPECT_EQ(weights_of(trainer), before);
    EXPECT_EQ(averages_of(trainer), averages_before);
    EXPECT_EQ(trainer.step_number(), 2);
    rank.world().barrier();
  });
  EXPECT_EQ(ends, 4);
  ASSERT_EQ(texts.size(), 1u) << "the same on all ranks";
  EXPECT_SAYS(*texts.begin(), "trainer: step 2: the loss is ");
  EXPECT_SAYS(*texts.begin(), "the last good loss, of step 1, is ");
  EXPECT_SAYS(*texts.begin(), said);
}

TEST(NotFinite, OneBlockEndsAllRanksAtTheSameStepWithTheirWeights) {
  expect_to_end_before_it_is_ruined<grid_job>(
      threads{}, adamw{.learning_rate = 0.01}, 3, {"first.weight"},
      "the first layer whose output is not finite is 'first', in microbatch 0 on rank 3");
  expect_to_end_before_it_is_ruined<staged_job>(
      threads{}, sgd{.momentum = 0.9}, 2, {"second.weight", "last.weight"},
      "the first layer whose output is not finite is 'last', in microbatch 0 on rank 2");
  expect_to_end_before_it_is_ruined<staged_job>(simulated{}, adamw{}, 3,
                                                {"second.weight", "last.weight"},
                                                "is 'last', in microbatch 0 on rank 3");
}

TEST(NotFinite, TrainingContinuesWithTheOption) {
  launch<grid_job>(threads{}, [](auto& rank) {
    auto trainer = plait::trainer<grid_job>(
        rank, sgd{}, {.on_not_finite = trainer_options::not_finite::train_on});
    auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0});
    trainer.import_parameters([&](std::string const&, auto const&, std::span<double> out) {
      std::ranges::fill(out, 1e308);
    });
    for (std::uint64_t step = 0; step < 2; ++step)
      EXPECT_FALSE(std::isfinite(trainer.step(from.at(step)).loss));
    EXPECT_EQ(trainer.step_number(), 2);
  });
}

/// Takes four steps. With `planted` there is a fifth step among them, which overflows on rank
/// `where` and is skipped.
template <class Job, class Backend>
std::vector<tensors> after_steps(Backend const& backend, int where,
                                 std::set<std::string> const& planted) {
  std::vector<tensors> out(2);
  std::mutex mutex;
  std::multiset<double> reports;  // the reports of all ranks
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.01},
                                       {.groups = {{.pattern = "first.*", .rate = 0.5}},
                                        .average = 0.5,
                                        .on_not_finite = trainer_options::not_finite::skip});
    auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0, .microbatches = 2});
    static tensors whole;  // the weights of the root
    for (std::uint64_t const step : {0, 1, 2, 3, 4}) {
      if (step == 2 && planted.empty()) continue;
      if (step == 2) {
        auto const kept = weights_of(trainer);
        rank.world().barrier();
        if (rank.is_root()) whole = kept;
        rank.world().barrier();
        planted_source from_there(whole,
                                  rank.world_rank() == where ? planted : std::set<std::string>{});
        trainer.state()->restore(0, from_there);
      }
      auto const report = trainer.step(from.at(step));
      EXPECT_EQ(std::isfinite(report.loss) && std::isfinite(report.gradient_norm), step != 2);
      EXPECT_EQ(report.skipped, step >= 2 && !planted.empty() ? 1 : 0);
      if (step == 2) {
        planted_source all(whole, {});
        trainer.state()->restore(0, all);
      }
      std::scoped_lock const lock{mutex};
      if (step == 4) reports.insert({report.loss, report.gradient_norm});
    }
    EXPECT_EQ(trainer.step_number(), planted.empty() ? 4 : 5);
    auto const weights = weights_of(trainer), averages = averages_of(trainer);
    if (rank.is_root()) out = {weights, averages};
  });
  EXPECT_EQ(std::set(reports.begin(), reports.end()).size(), 2u) << "the same on all ranks";
  out.emplace_back()["reports"].assign(reports.begin(), reports.end());
  return out;
}

TEST(NotFinite, ABatchIsLeftOutAsIfItHadNotBeenThere) {
  auto const expect_left_out = [&]<class Job>(Job, auto const& backend, int where,
                                              std::set<std::string> const& planted) {
    EXPECT_EQ(after_steps<Job>(backend, where, planted), after_steps<Job>(backend, where, {}));
  };
  expect_left_out(grid_job{}, threads{}, 3, {"first.weight"});
  expect_left_out(staged_job{}, threads{}, 2, {"second.weight", "last.weight"});
  expect_left_out(staged_job{}, simulated{}, 1, {"first.weight"});
}

/// A target above 1000 has a finite loss, and a gradient that is not finite.
struct broken_above_1000 {
  template <class T>
  static T value(T x, T target) {
    return (x - target) * (x - target);
  }
  template <class T>
  static T slope(T x, T target) {
    return target > 1000 ? std::numeric_limits<T>::quiet_NaN() : 2 * (x - target);
  }
};
// The first stage trains nothing.
using broken_model =
    objective<sequential<named<"first", frozen<nn::linear<input_width, input_width>>>,
                         named<"last", nn::linear<input_width, 1>>>,
              nn::elementwise_loss<1, broken_above_1000>>;
struct broken_job
    : parallel<broken_model,
               hybrid<pipeline<2>, hybrid<data_parallel<2, zero<1>>, reproducible<4>>>, double> {};

/// Returns the weights before and after a step whose loss is finite and whose gradient is not.
std::vector<tensors> around_broken_step(trainer_options const& options) {
  std::vector<tensors> out(2);
  launch<broken_job>(threads{}, [&](auto& rank) {
    std::vector<double> inputs(8 * input_width), targets(8);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = double(i % 7) - 3;
    targets[5] = 1e4;
    in_memory<double, double> const data(std::move(inputs), std::move(targets), input_width, 1);
    auto trainer = plait::trainer<broken_job>(rank, sgd{.momentum = 0.9}, options);
    auto from = batches(data, global_batch<4>{}, rank, {.how = sample_order::sequential});
    trainer.step(from.at(0));
    auto const before = weights_of(trainer);
    for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
    auto const report = trainer.step(from.at(1));
    EXPECT_TRUE(std::isfinite(report.loss));
    bool const has_norm = execution::needs_norm(options);
    plait_test::expect_planned_bytes<broken_job>(
        rank, {.microbatches = 2, .optimizer_states = 1, .gradient_norm = has_norm});
    EXPECT_EQ(std::isnan(report.gradient_norm), has_norm);
    EXPECT_EQ(report.skipped, has_norm ? 1 : 0);
    EXPECT_EQ(trainer.step_number(), 2);
    auto const after = weights_of(trainer);
    if (rank.is_root()) out = {before, after};
  });
  return out;
}

TEST(NotFinite, GradientsThatAreNotFiniteAreFoundThoughTheLossIsFinite) {
  for (auto const& options :
       {trainer_options{.on_not_finite = trainer_options::not_finite::skip},
        trainer_options{.clip = 1, .on_not_finite = trainer_options::not_finite::skip},
        // A norm that is not finite cannot give a factor for clipping.
        {.clip = 1, .on_not_finite = trainer_options::not_finite::train_on}}) {
    auto const weights = around_broken_step(options);
    EXPECT_EQ(weights[1], weights[0]);
  }
  auto const weights = around_broken_step({.on_not_finite = trainer_options::not_finite::train_on});
  EXPECT_TRUE(std::isnan(weights[1].at("last.weight")[0]));
}

// --- signals
// --------------------------------------------------------------------------------------

template <class Job, class Backend>
void expect_to_stop_together(Backend const& backend, int number, int sender) {
  std::mutex mutex;
  std::multiset<std::int64_t> by_hook, by_error;
  stop_on_signals const stop(early_warning::sigusr1);
  auto const text = message_of<stopped_by_signal>([&] {
    launch<Job>(backend, [&](auto& rank) {
      auto trainer = plait::trainer<Job>(rank, sgd{}, {.stop = &stop});
      trainer.on_stop([&](step_report const& last) {
        EXPECT_FALSE(weights_of(trainer).empty() && rank.is_root());
        std::scoped_lock const lock{mutex};
        by_hook.insert(last.step);
      });
      auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0});
      try {
        for (std::uint64_t step = 0;; ++step) {
          if (rank.world_rank() == sender && step == 3) std::raise(number);
          auto const report = trainer.step(from.at(step));
          EXPECT_LT(report.step, 4);
        }
      } catch (stopped_by_signal const& problem) {
        std::scoped_lock const lock{mutex};
        by_error.insert(problem.step);
        EXPECT_EQ(problem.exit_code(), 128 + number);
        throw;
      }
    });
  });
  EXPECT_SAYS(text, number == SIGINT    ? "stopped by SIGINT after step "
                    : number == SIGUSR1 ? "stopped by SIGUSR1 after step "
                                        : "by SIGTERM after step ");
  EXPECT_EQ(by_hook.size(), 4u) << "once on each rank";
  EXPECT_EQ(by_hook, by_error);
  EXPECT_EQ(std::set(by_hook.begin(), by_hook.end()).size(), 1u) << "after the same step";
}

TEST(StopOnSignals, AllRanksEndAfterTheSameStepAndTheHookHasRun) {
  for (int sender = 0; sender < 4; ++sender) {
    expect_to_stop_together<grid_job>(threads{}, SIGTERM, sender);
    expect_to_stop_together<staged_job>(threads{}, SIGINT, sender);
  }
  expect_to_stop_together<grid_job>(simulated{}, SIGTERM, 3);
  expect_to_stop_together<grid_job>(threads{}, SIGUSR1, 1);
}

// The signal's number is sent with the loss, whose value does not change.
TEST(StopOnSignals, LossesAreTheSame) {
  stop_on_signals const stop;
  std::vector<double> with, without;
  launch<grid_job>(threads{}, [&](auto& rank) {
    auto one = trainer<grid_job>(rank, sgd{}, {.clip = 1, .stop = &stop});
    auto other = trainer<grid_job>(rank, sgd{}, {.clip = 1});
    auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0});
    for (std::uint64_t step = 0; step < 3; ++step) {
      double const a = one.step(from.at(step)).loss, b = other.step(from.at(step)).loss;
      if (rank.is_root()) with.push_back(a), without.push_back(b);
    }
  });
  EXPECT_EQ(with, without);
}

// Ranks that wait for others to start do not check for signals.
TEST(StopOnSignals, BeforeTheFirstStepASignalEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        stop_on_signals const stop;
        std::raise(SIGTERM);
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

// A rank that waits for others checks for the signal, also before the first step.
TEST(StopOnSignals, ASignalThatEndsAWaitDoesNotEndTheProgram) {
  using plait::detail::caught_signal;
  {
    stop_on_signals const stop;
    caught_signal::ends_waits const here;
    std::raise(SIGINT);
    std::raise(SIGTERM);
    EXPECT_EQ(caught_signal::that_ends_waits(), SIGINT);
  }
  EXPECT_EQ(caught_signal::number(), 0);
}

TEST(StopOnSignals, HandlersAreThoseOfBeforeAfterwards) {
  static std::atomic<int> mine{0};
  auto const before = std::signal(SIGTERM, [](int) { ++mine; });
  {
    stop_on_signals const stop;
    EXPECT_THROW(stop_on_signals{}, input_error);
    EXPECT_EQ(stop.received(), 0);  // the program handles signals from now on
    std::raise(SIGTERM);
    EXPECT_EQ(stop.received(), SIGTERM);
    EXPECT_EQ(mine, 0);
  }
  std::raise(SIGTERM);
  EXPECT_EQ(mine, 1);
  std::signal(SIGTERM, before);
}

// --- memory
// ---------------------------------------------------------------------------------------

/// A device with a limited number of bytes.
struct small_device : host_device {
  struct arena {
    host_device::arena held{};
    std::shared_ptr<std::size_t> left{};
    arena() = default;
    arena(std::size_t bytes, std::shared_ptr<std::size_t> const& from) {
      if (bytes > *from)
        throw out_of_memory(
            "asked for " + std::to_string(bytes) + " bytes of " + std::to_string(*from),
            {.asked = bytes, .free = *from});
      held = host_device::arena(bytes);
      left = from;
      *left -= bytes;
    }
    arena(arena&&) noexcept = default;
    arena& operator=(arena&& other) noexcept {
      std::swap(held, other.held);
      std::swap(left, other.left);
      return *this;
    }
    ~arena() {
      if (left) *left += held.size();
    }
    [[nodiscard]] std::byte* data() const { return held.data(); }
    [[nodiscard]] std::size_t size() const { return held.size(); }
  };
  std::shared_ptr<std::size_t> left;
  [[nodiscard]] arena allocate(std::size_t bytes) const { return {bytes, left}; }
};

template <class Job>
void expect_the_plans_memory(int missing, double average = 0) {
  using plan = typename Job::plan_type;
  workload const load{
      .rows = 2, .microbatches = 2, .averages = average > 0, .prediction = predicted::of_all};
  plait_test::threads_on<small_device> const machine{[&](coordinates const& at) {
    small_device device;
    device.left = std::make_shared<std::size_t>(plan::memory(at.along(axis::stage), load).total() -
                                                std::size_t(missing));
    return device;
  }};
  launch<Job>(machine, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{}, {.clip = 1, .average = average});
    auto from = batches(samples(), global_batch<8>{}, rank, {.epochs = 0, .microbatches = 2});
    for (std::uint64_t step = 0; step < 2; ++step) {
      trainer.step(from.at(step));
      trainer.evaluate(from.at(step));
      (void)trainer.predict(from.at(step), predicted::of_all);
      if (average > 0) trainer.with_ema([&] { trainer.evaluate(from.at(step)); });
    }
    auto const planned = plan::memory(rank.stage(), load);
    EXPECT_EQ(trainer.allocated().total() + planned.batches, planned.total());
    EXPECT_EQ(*rank.device().left, 0u) << "all of it was needed";
  });
}

TEST(Memory, IsThePlansInTrainingEvaluationAndPrediction) {
  expect_the_plans_memory<grid_job>(0);
  expect_the_plans_memory<staged_job>(0);
  expect_the_plans_memory<grid_job>(0, 0.9);
  expect_the_plans_memory<staged_job>(0, 0.9);
  auto const text = message_of<out_of_memory>([] { expect_the_plans_memory<staged_job>(1, 0.9); });
  EXPECT_SAYS(text, "the plan of rank ");
  EXPECT_SAYS(text, "averages ");
  EXPECT_SAYS(text, "outputs ");
}

}  // namespace
