// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// The results of a trainer must not depend on the plan: all are compared with the serial run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "train/small_gpt.hpp"

namespace {

using tensors = std::map<std::string, std::vector<double>>;

struct settings {
  int steps = 3;
  std::size_t batch = 8;
  int microbatches = 2;
  double clip = 0;
  plait::last_batch last = plait::last_batch::drop;
  tensors const* start = nullptr;
  plait::threads backend{};
};

struct outcome {
  std::vector<plait::step_report> reports;
  double evaluated = 0;
  std::vector<double> predicted, predicted_here;
  tensors start, gradients, weights;
};

auto into(tensors& out) {
  return [&out](std::string const& name, plait::ext::parameter_info const&,
                std::span<double const> values) { out[name].assign(values.begin(), values.end()); };
}

// Plain gradient descent: unlike Adam, it shows a wrong factor of the gradient in the weights.
template <class Policy>
outcome train(settings const& how = {}) {
  using job = small_gpt::job<Policy>;
  auto const data = small_gpt::text();
  outcome out;
  plait::launch<job>(how.backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.1, .momentum = 0.9},
                                       {.seed = 7, .clip = how.clip});
    if (how.start != nullptr)
      trainer.import_parameters(
          [&](std::string const& name, auto const&, std::span<double> values) {
            auto const& from = how.start->at(name);
            std::copy(from.begin(), from.end(), values.begin());
          });
    trainer.export_parameters(into(out.start));
    auto batches = plait::batches(
        data, plait::global_batch<>{how.batch}, rank,
        {.seed = 3, .last = how.last, .epochs = 0, .microbatches = how.microbatches});
    double const evaluated = trainer.evaluate(batches.at(0));
    for (int step = 0; step < how.steps; ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      if (rank.is_root()) out.reports.push_back(report);
    }
    trainer.export_gradients(into(out.gradients));
    trainer.export_parameters(into(out.weights));
    // The last batch of the first epoch is partial if it is kept.
    auto const& batch = batches.at(batches.steps_per_epoch() - 1);
    auto const here = trainer.predict(batch);
    if (rank.is_root()) out.predicted_here.assign(here.begin(), here.end());
    auto const predicted = trainer.predict(batch, plait::predicted::of_all);
    if (!rank.is_root()) return;
    out.evaluated = evaluated;
    out.predicted.assign(predicted.begin(), predicted.end());
  });
  return out;
}

outcome const& serial() {
  static outcome const once = train<plait::serial>();
  return once;
}

// A bound of rounding: sums of some thousand doubles in another order, over a few steps.
constexpr double rounding = 1e-11;

void expect_same(tensors const& expected, tensors const& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (auto const& [name, values] : expected) {
    auto const found = got.find(name);
    ASSERT_TRUE(found != got.end()) << name;
    ASSERT_EQ(found->second.size(), values.size()) << name;
    double norm = 1e-3, off = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      norm += values[i] * values[i];
      off += (values[i] - found->second[i]) * (values[i] - found->second[i]);
    }
    EXPECT_LE(std::sqrt(off / norm), rounding) << name;
  }
}

void expect_same(outcome const& expected, outcome const& got) {
  ASSERT_EQ(expected.reports.size(), got.reports.size());
  for (std::size_t s = 0; s < expected.reports.size(); ++s) {
    EXPECT_EQ(got.reports[s].step, std::int64_t(s));
    EXPECT_EQ(got.reports[s].labels, expected.reports[s].labels);
    EXPECT_NEAR(got.reports[s].loss, expected.reports[s].loss, rounding) << "step " << s;
    EXPECT_NEAR(got.reports[s].gradient_norm, expected.reports[s].gradient_norm, rounding)
        << "step " << s;
  }
  EXPECT_EQ(expected.start, got.start);  // initial weights to the bit
  expect_same(expected.gradients, got.gradients);
  expect_same(expected.weights, got.weights);
  // The predictions of all data ranks, and of the root's data rank, which has the first samples.
  ASSERT_EQ(got.predicted.size(), expected.predicted.size());
  for (std::size_t i = 0; i < got.predicted.size(); ++i)
    ASSERT_NEAR(got.predicted[i], expected.predicted[i], rounding);
  ASSERT_GT(got.predicted_here.size(), 0u);
  ASSERT_LE(got.predicted_here.size(), got.predicted.size());
  EXPECT_TRUE(
      std::equal(got.predicted_here.begin(), got.predicted_here.end(), got.predicted.begin()));
}

template <class Policy>
struct Trainer : testing::Test {};

using policies =
    testing::Types<plait::data_parallel<2>, small_gpt::tp2, small_gpt::tp2_sharded,
                   plait::pipeline<2>, small_gpt::three_axes, small_gpt::three_axes_sharded>;
TYPED_TEST_SUITE(Trainer, policies);

TYPED_TEST(Trainer, TrainsLikeTheSerialRun) { expect_same(serial(), train<TypeParam>()); }

TYPED_TEST(Trainer, ClipsByTheNormOfTheWholeModel) {
  settings const how{.clip = 0.05};
  auto const expected = train<plait::serial>(how);
  ASSERT_GT(expected.reports[0].gradient_norm, how.clip);
  expect_same(expected, train<TypeParam>(how));
}

TYPED_TEST(Trainer, EvaluatesLikeTheSerialRun) {
  auto const got = train<TypeParam>();
  EXPECT_NEAR(got.evaluated, serial().evaluated, rounding);
}

// A gradient of ones has the norm sqrt(number of elements), with each element counted once.
TYPED_TEST(Trainer, CountsEachParameterOnceInTheNorm) {
  using job = small_gpt::job<TypeParam>;
  using plan = typename job::plan_type;
  plait::launch<job>(plait::threads{}, [](auto& rank) {
    int const stage = rank.stage();
    plait::planning::owned_block const arena{
        {0, plan::parameter_layout_for(stage, rank.grid()).count()}, 0};
    std::vector<double> ones(plan::parameter_layout_for(stage, rank.grid()).count(), 1.0);
    std::vector<double> squares(static_cast<std::size_t>(plan::parameter_tensor_count()));
    double norm = 0, factor = 0;
    auto const ranges = plait::execution::squares_ranges<plan>(
        plan::blocks(stage, 0, rank.grid()), std::array{arena}, rank.coordinates());
    plait::execution::square_gradients(rank,
                                       plait::ext::gradients<job, plait::invariant>{ones.data()},
                                       std::span<plait::ext::squares_range const>(ranges), squares);
    rank.world().all_reduce(std::span<double>(squares));
    rank.device()
        .on(plait::ext::stream::compute)
        .clip(squares.data(), squares.size(), 2.0, &norm, &factor);
    EXPECT_DOUBLE_EQ(norm, std::sqrt(double(plan::parameter_count())));
    EXPECT_DOUBLE_EQ(factor, 2.0 / (norm + 1e-6));
    for (double const broken : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      squares[0] = broken;
      rank.device()
          .on(plait::ext::stream::compute)
          .clip(squares.data(), squares.size(), 2.0, &norm, &factor);
      EXPECT_FALSE(std::isfinite(norm));
      EXPECT_TRUE(std::isnan(factor));
    }
  });
}

TYPED_TEST(Trainer, WeightsMoveToAnyOtherPlan) {
  auto const& saved = serial().weights;
  settings const how{.steps = 1, .start = &saved};
  auto const there = train<TypeParam>(how);
  EXPECT_EQ(there.start, saved);
  settings const back{.steps = 1, .start = &there.weights};
  EXPECT_EQ(train<plait::serial>(back).start, there.weights);
  expect_same(train<plait::serial>(how), there);
}

// 74 samples in batches of 16: the last has 10, which neither ranks nor microbatches divide.
TYPED_TEST(Trainer, KeepsAPartialLastBatch) {
  ASSERT_EQ(small_gpt::text().size(), 74u);
  settings const how{.steps = 6, .batch = 16, .last = plait::last_batch::keep};
  auto const expected = train<plait::serial>(how);
  EXPECT_EQ(expected.reports[3].labels, double(16 * small_gpt::length));
  EXPECT_EQ(expected.reports[4].labels, double(10 * small_gpt::length));
  expect_same(expected, train<TypeParam>(how));
}

TEST(TrainerSerial, AccumulatesAnyNumberOfMicrobatches) {
  auto const expected = train<plait::serial>({.microbatches = 1});
  for (int const microbatches : {2, 4, 8}) {
    SCOPED_TRACE(microbatches);
    expect_same(expected, train<plait::serial>({.microbatches = microbatches}));
  }
}

TEST(TrainerSerial, LearnsTheText) {
  auto const out = train<plait::serial>({.steps = 60});
  EXPECT_LT(out.reports.back().loss, 0.7 * out.reports.front().loss);
}

// The copies share their steps: the first computes its input's gradient, though no layer needs it.
TEST(TrainerSerial, TrainsARepeatAsTheFirstLayer) {
  using dense = plait::nn::linear<4, 4>;
  auto const trained = []<class Model>(Model) {
    using job = plait::parallel<plait::objective<Model, plait::nn::cross_entropy<4>>, plait::serial,
                                double>;
    auto const data = plait::in_memory<double>::random_classes(8, 4, 4);
    tensors out;
    plait::launch<job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5});
      for (auto const& batch : plait::batches(data, plait::global_batch<4>{}, rank))
        trainer.step(batch);
      trainer.export_parameters(into(out));
    });
    return out;
  };
  EXPECT_EQ(trained(plait::repeat<2, dense>{}), trained(plait::sequential<dense, dense>{}));
}

TEST(TrainerSerial, EvaluationDropsNothingAndChangesNothing) {
  using job = small_gpt::job<plait::serial>;
  auto const data = small_gpt::text();
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{});
    auto batches = plait::batches(data, plait::global_batch<4>{}, rank);
    auto const& batch = batches.at(0);
    tensors before, after;
    trainer.export_parameters(into(before));
    double const first = trainer.evaluate(batch);
    EXPECT_EQ(trainer.evaluate(batch), first);
    EXPECT_EQ(trainer.step_number(), 0);
    trainer.export_parameters(into(after));
    EXPECT_EQ(before, after);
    // Training drops a tenth of the embeddings, so its loss differs.
    EXPECT_NE(trainer.gradients_of(batch).loss, first);

    // The loss of the output of predict(), by hand.
    auto const logits = trainer.predict(batch);
    double sum = 0;
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      auto const of = logits.subspan(row * small_gpt::vocabulary, small_gpt::vocabulary);
      double total = 0;
      for (double const logit : of) total += std::exp(logit);
      std::size_t const sample = row / small_gpt::length, position = row % small_gpt::length;
      sum += std::log(total) - of[std::size_t(batch.labels()[position * batch.samples + sample])];
    }
    EXPECT_NEAR(sum / double(batch.rows()), first, rounding);
  });
}

// Three data ranks, known only when the job is launched.
TEST(TrainerDataAxisAtLaunch, TrainsLikeTheSerialRun) {
  settings how{.batch = 12};
  auto const expected = train<plait::serial>(how);
  for (int const ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    how.backend.data_ranks = ranks;
    expect_same(expected, train<plait::data_parallel<>>(how));
  }
}

TEST(TrainerErrors, ABatchOfOtherSequencesIsRefused) {
  using job = small_gpt::job<plait::data_parallel<2>>;
  auto const data = plait::byte_text::from_text(std::string(100, 'x'), small_gpt::length / 2);
  try {
    plait::launch<job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::sgd{});
      auto batches = plait::batches(data, plait::global_batch<4>{}, rank);
      trainer.step(batches.at(0));
    });
    FAIL() << "no exception";
  } catch (plait::error const& problem) {
    EXPECT_NE(std::string(problem.what()).find("sequences of length 4, the model takes 8"),
              std::string::npos)
        << problem.what();
  }
}

TEST(TrainerErrors, RanksOfAnotherJobAreRefused) {
  using launched = small_gpt::job<plait::data_parallel<2>>;
  using trained = small_gpt::job<small_gpt::tp2>;
  try {
    plait::launch<launched>(plait::threads{},
                            [](auto& rank) { plait::trainer<trained>(rank, plait::sgd{}); });
    FAIL() << "no exception";
  } catch (plait::input_error const& problem) {
    EXPECT_NE(
        std::string(problem.what())
            .find(" runs in the mesh 'data 2', but the trainer's job has the mesh 'tensor 2'"),
        std::string::npos)
        << problem.what();
  }
}

// Returns the errors of ranks where rank 0 uses two trainers of a job in another order than the
// others. plan.transfers tests it on the simulated device.
template <class Job, class Use>
std::vector<std::string> in_another_order(Use use) {
  auto const data = small_gpt::text();
  std::vector<std::string> said(std::size_t(Job::plan_type::grid.world_size()));
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto batches = plait::batches(data, plait::global_batch<4>{}, rank);
    auto one = plait::trainer<Job>(rank, plait::sgd{}),
         two = plait::trainer<Job>(rank, plait::sgd{});
    auto const& batch = batches.at(0);
    for (auto* const each : {&one, &two}) each->evaluate(batch);  // the ranks compare the batches
    try {
      use(rank.is_root() ? one : two, batch);
      use(rank.is_root() ? two : one, batch);
    } catch (plait::collective_mismatch const& e) {
      said[std::size_t(rank.world_rank())] = e.what();
    }
  });
  return said;
}

TEST(TrainerErrors, TrainersInAnotherOrderOnOneRankAreRefused) {
  auto const step = [](auto& trainer, auto const& batch) { trainer.step(batch); };
  using data = small_gpt::job<plait::data_parallel<2>>;
  std::string const sum = "all_reduce of 8 bytes on group {0,1} (float64, sum) for trainer ";
  std::vector<std::string> const sums(2,
                                      "rank 0 called " + sum + "1, but rank 1 called " + sum + "2");
  EXPECT_EQ(in_another_order<data>(step), sums);

  using stages = small_gpt::job<plait::pipeline<2>>;
  std::string const all = " with tag 0 on group {0,1} (float64) for trainer ";
  std::vector<std::string> const messages(
      2, "rank 0 called send of 2048 bytes to rank 1" + all +
             "1, but rank 1 called receive of 2048 bytes from rank 0" + all + "2");
  EXPECT_EQ(in_another_order<stages>(step), messages);
}

TEST(TrainerErrors, AllThatATrainerCallsIsItsOwn) {
  auto const expect_names = [](auto use) {
    for (auto const& said : in_another_order<small_gpt::job<small_gpt::tp2>>(use))
      for (auto const* const trainer : {" for trainer 1, but rank 1 called ", " for trainer 2"})
        EXPECT_NE(said.find(trainer), std::string::npos) << said;
  };
  expect_names([](auto& trainer, auto const& batch) { trainer.step(batch); });
  expect_names([](auto& trainer, auto const& batch) { trainer.gradients_of(batch); });
  expect_names([](auto& trainer, auto const& batch) { trainer.evaluate(batch); });
  expect_names([](auto& trainer, auto const& batch) { (void)trainer.predict(batch); });
  tensors out;
  expect_names([&](auto& trainer, auto const&) { trainer.export_parameters(into(out)); });
  expect_names([&](auto& trainer, auto const&) { trainer.export_gradients(into(out)); });
}

TEST(TrainerErrors, ParametersThatAreNotFiniteAreRefused) {
  using job = small_gpt::job<plait::data_parallel<2>>;
  try {
    plait::launch<job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::sgd{});
      trainer.import_parameters(
          [&](std::string const& name, auto const&, std::span<double> values) {
            std::ranges::fill(values, 0);
            if (name == "ln_f.weight") values[2] = std::numeric_limits<double>::infinity();
          });
    });
    FAIL() << "no exception";
  } catch (plait::input_error const& problem) {
    EXPECT_NE(std::string(problem.what())
                  .find("import_parameters: tensor 'ln_f.weight' holds inf at place 2 of "),
              std::string::npos)
        << problem.what();
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// More memory than addresses can name, so no machine has it; sanitizers end the program at the
// request.
TEST(TrainerErrors, TooMuchMemoryIsAnErrorWithThePlansNumbers) {
  constexpr std::size_t wide = std::size_t{1} << 24;
  using model = plait::objective<plait::nn::linear<wide, wide>, plait::nn::cross_entropy<wide>>;
  using job = plait::parallel<model, plait::data_parallel<2>>;
  try {
    plait::launch<job>(plait::threads{},
                       [&](auto& rank) { plait::trainer<job>(rank, plait::adamw{}); });
    FAIL() << "a pebibyte was there";
  } catch (plait::out_of_memory const& e) {
    std::string const text = e.what();
    EXPECT_EQ(e.bytes.asked, sizeof(float) * (wide * wide + wide));
    for (auto const* part :
         {"asked the processor for", "the plan of rank ", "parameters 1024.0 TiB",
          "optimizer 2048.0 TiB", " in all", "more tensor ranks or stages"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
  }
}
#endif

}  // namespace
