// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=15
//
// Replicas that train on their own and meet every few steps give the results of serial trainers and
// of an outer step that the test itself computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
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

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/core/caught_signal.hpp"
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
template <class Element>
using tensors_of_type = std::map<std::string, std::vector<Element>>;

// A GPT without dropout, which depends on the number of a sample in its batch.
using gpt =
    objective<sequential<named<"wte", nn::embedding<small_gpt::vocabulary, small_gpt::width>>,
                         named<"wpe", nn::positions<small_gpt::length, small_gpt::width>>,
                         named<"h", repeat<2, small_gpt::block>>,
                         named<"ln_f", nn::layer_norm<small_gpt::width>>,
                         named<"lm_head", nn::linear<small_gpt::width, small_gpt::vocabulary>>>,
              nn::cross_entropy<small_gpt::vocabulary>>;
template <class Policy, class Element = double>
struct gpt_job : parallel<gpt, Policy, Element> {};

constexpr std::size_t samples_of_batch = 24;

/// The samples of one of several replicas, in the order in which the replica sees them. Later
/// samples of a batch do not count some of their targets, so replicas have different numbers of
/// labels.
struct samples_of_replica {
  using concept_tag = dataset_tag;
  using element = std::int32_t;
  byte_text text = small_gpt::text();
  std::size_t number = 0, replicas = 1;

  [[nodiscard]] std::size_t place(std::size_t sample) const {
    std::size_t const each = samples_of_batch / replicas;
    return sample / each * samples_of_batch + number * each + sample % each;
  }
  [[nodiscard]] std::size_t size() const {
    return text.size() / samples_of_batch * samples_of_batch / replicas;
  }
  [[nodiscard]] std::size_t sequence_length() const { return text.sequence_length(); }
  void inputs(std::size_t sample, std::span<std::int32_t> out) const {
    text.inputs(place(sample), out);
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    text.targets(place(sample), out);
    std::size_t const in_batch = place(sample) % samples_of_batch;
    for (std::size_t i = 0; i < in_batch / 7; ++i) out[out.size() - 1 - i] = -100;
  }
};

struct settings {
  double clip = 0.5;
  int steps = 12;
  outer_step outer{.rate = 0.7, .momentum = 0.9};
};

template <class Element>
struct outcome {
  /// The loss, the norm and the labels of each step of replica 0; the common losses.
  std::vector<double> numbers, common;
  tensors_of_type<Element> weights;
  friend bool operator==(outcome const&, outcome const&) = default;
};

template <class Element>
auto into(tensors_of_type<Element>& to) {
  return [&to](std::string const& name, auto const&, std::span<Element const> values) {
    to[name].assign(values.begin(), values.end());
  };
}

template <class Job, class Optimizer>
auto train(auto const& backend, settings const& with, Optimizer const& optimizer) {
  outcome<typename Job::parameter_element> out;
  launch<Job>(backend, [&](auto& rank) {
    trainer_options options{.clip = with.clip};
    if constexpr (Job::plan_type::local_steps > 0) options.outer = with.outer;
    auto trainer = plait::trainer<Job>(rank, optimizer, options);
    auto all = batches(samples_of_replica{}, global_batch<samples_of_batch>{}, rank,
                       {.how = sample_order::sequential, .epochs = 0});
    for (int step = 0; step < with.steps; ++step) {
      auto const report = trainer.step(all.at(std::uint64_t(step)));
      if (!rank.is_root()) continue;
      out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm, report.labels});
      if (report.common_loss) out.common.push_back(*report.common_loss);
    }
    trainer.export_parameters(into(out.weights));
  });
  return out;
}

/// Mistakes of a common update that the comparison must find.
enum class fault {
  none,
  wrong_sign,
  no_weights,
  inner_state_averaged,
  inner_state_reset,
  momentum_of_last_difference
};

/// A source of tensors in memory.
template <class Element>
struct tensors_in_memory : state_source {
  tensors_of_type<Element> const& of;
  explicit tensors_in_memory(tensors_of_type<Element> const& all) : of(all) {}
  void read(std::string const& name, parameter_info const& info, parameter_rectangle const& where,
            void* out) override {
    auto const& all = of.at(name);
    for (std::size_t i = 0; i < where.rows; ++i)
      std::copy_n(
          all.begin() + static_cast<std::ptrdiff_t>((where.row + i) * info.columns + where.column),
          where.columns, static_cast<Element*>(out) + i * where.columns);
  }
};

/// Sets the optimizer states of all trainers to their averages.
template <class Element>
void average_states(auto& trainers) {
  tensors_of_type<Element> sums;
  auto const kinds = trainers[0]->state()->kinds();
  for (auto& one : trainers) {
    auto const state = one->state();
    std::vector<Element> copy(state->count());
    for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
      state->copy(kind, copy.data());
      for (auto const& each : state->rectangles()) {
        auto& sum = sums[each.name + kinds[kind]];
        sum.resize(each.where.count());
        for (std::size_t i = 0; i < sum.size(); ++i)
          sum[i] += copy[each.where.place + i] / Element(trainers.size());
      }
    }
  }
  tensors_in_memory<Element> source(sums);
  for (auto& one : trainers)
    for (std::size_t kind = 1; kind < kinds.size(); ++kind) one->state()->restore(kind, source);
}

/// Trains one serial trainer for each replica, one after the other, and computes the outer steps.
template <class Element, class JobElement = Element, class Optimizer>
outcome<Element> by_hand(std::size_t replicas, int local, settings const& with,
                         Optimizer const& optimizer, fault made = fault::none) {
  using serial_job = gpt_job<serial, JobElement>;
  outcome<Element> out;
  launch<serial_job>(threads{}, [&](auto& rank) {
    using trainer_type = decltype(plait::trainer<serial_job>(rank, optimizer, {}));
    std::vector<std::unique_ptr<trainer_type>> all;
    std::vector<double> labels(replicas), losses(replicas);
    for (std::size_t r = 0; r < replicas; ++r)
      all.push_back(
          std::make_unique<trainer_type>(rank, optimizer, trainer_options{.clip = with.clip}));
    tensors_of_type<Element> common, momentum;
    all[0]->export_parameters(into(common));
    for (auto const& [name, values] : common) momentum[name].resize(values.size());
    for (int step = 0; step < with.steps; ++step) {
      for (std::size_t r = 0; r < replicas; ++r) {
        auto batch = batches(samples_of_replica{.number = r, .replicas = replicas},
                             global_batch<>{samples_of_batch / replicas}, rank,
                             {.how = sample_order::sequential, .epochs = 0});
        auto const report = all[r]->step(batch.at(std::uint64_t(step)));
        labels[r] += report.labels;
        losses[r] += report.labels * report.loss;
        if (r == 0)
          out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm, report.labels});
      }
      if ((step + 1) % local != 0) continue;
      double sum = 0, loss = 0;
      for (std::size_t r = 0; r < replicas; ++r) sum += labels[r], loss += losses[r];
      out.common.push_back(loss / sum);
      std::vector<tensors_of_type<Element>> mine(replicas);
      for (std::size_t r = 0; r < replicas; ++r) all[r]->export_parameters(into(mine[r]));
      auto const rate = Element(with.outer.rate), keeps = Element(with.outer.momentum);
      for (auto& [name, values] : common)
        for (std::size_t i = 0; i < values.size(); ++i) {
          Element difference = 0;
          for (std::size_t r = 0; r < replicas; ++r) {
            auto const weight =
                Element(made == fault::no_weights ? 1.0 / double(replicas) : labels[r] / sum);
            Element const summand = weight * (values[i] - mine[r].at(name)[i]);
            difference = r == 0 ? summand : difference + summand;
          }
          if (made == fault::wrong_sign) difference = -difference;
          Element& before = momentum[name][i];
          Element const now = keeps * before + difference;
          values[i] -= rate * (difference +
                               keeps * (made == fault::momentum_of_last_difference ? before : now));
          before = now;
        }
      std::fill(labels.begin(), labels.end(), 0.0);
      std::fill(losses.begin(), losses.end(), 0.0);
      for (auto& one : all) {
        if (made == fault::inner_state_reset)
          one->import_parameters([&](std::string const& name, auto const&, auto to) {
            std::copy(common[name].begin(), common[name].end(), to.begin());
          });
        tensors_in_memory<Element> source(common);
        one->state()->restore(0, source);
      }
      if (made == fault::inner_state_averaged) average_states<Element>(all);
    }
    out.weights = common;
  });
  return out;
}

template <class Element>
double farthest(outcome<Element> const& got, outcome<Element> const& expected) {
  EXPECT_EQ(got.numbers.size(), expected.numbers.size());
  EXPECT_EQ(got.common.size(), expected.common.size());
  double most = 0;
  auto const add = [&](auto const& a, auto const& b) {
    EXPECT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
      most = std::max(most, std::fabs(double(a[i]) - double(b[i])));
  };
  add(got.numbers, expected.numbers);
  add(got.common, expected.common);
  EXPECT_EQ(got.weights.size(), expected.weights.size());
  for (auto const& [name, values] : expected.weights) add(got.weights.at(name), values);
  return most;
}

adamw const inner{.learning_rate = 1e-2, .weight_decay = 0.1};

TEST(LocalSteps, WithOneStepAndPlainAveragesAreDataParallelTraining) {
  settings const plain{.clip = 0, .steps = 5, .outer = {}};
  sgd const of{.learning_rate = 0.5};
  auto const expected = train<gpt_job<data_parallel<2>>>(threads{}, plain, of);
  auto const got = train<gpt_job<data_parallel<2, local_steps<1>>>>(threads{}, plain, of);
  auto const unequal =
      train<gpt_job<data_parallel<2, shares<3, 1>, local_steps<1>>>>(threads{}, plain, of);
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (auto const& [name, values] : expected.weights)
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got.weights.at(name)[i], values[i], 1e-12) << name;
      ASSERT_NEAR(unequal.weights.at(name)[i], values[i], 1e-12) << name;
    }
  ASSERT_EQ(got.common.size(), 5u);
  for (std::size_t step = 0; step < 5; ++step)
    EXPECT_NEAR(got.common[step], expected.numbers[3 * step], 1e-12);
  EXPECT_NE(2 * got.numbers[2], expected.numbers[2]);  // replicas have different numbers of labels
}

#ifdef __FMA__
constexpr bool has_same_code = false;  // compilers may fuse products and sums in other places
#else
constexpr bool has_same_code = true;
#endif

TEST(LocalSteps, AreSerialTrainersThatMeet) {
  auto const two = by_hand<float>(2, 4, {}, inner);
  auto const got = train<gpt_job<data_parallel<2, local_steps<4>>, float>>(threads{}, {}, inner);
  EXPECT_LE(farthest(got, two), has_same_code ? 0 : 1e-5);
  auto const three = by_hand<float>(3, 4, {}, inner);
  using three_job = gpt_job<data_parallel<3, local_steps<4>>, float>;
  auto const of_three = train<three_job>(threads{}, {}, inner);
  EXPECT_LE(farthest(of_three, three), has_same_code ? 0 : 1e-5);
  EXPECT_EQ(train<three_job>(simulated{}, {}, inner), of_three);
  // Layers see copies of the parameters in bfloat16.
  using mixed = precision<plait::bfloat16, float>;
  auto const of_copies =
      train<gpt_job<data_parallel<2, local_steps<4>>, mixed>>(threads{}, {}, inner);
  EXPECT_LE(farthest(of_copies, by_hand<float, mixed>(2, 4, {}, inner)), has_same_code ? 0 : 1e-2);
}

TEST(LocalSteps, FaultsOfACommonUpdateAreFound) {
  auto const right = by_hand<double>(2, 4, {}, inner);
  for (auto const made : {fault::wrong_sign, fault::no_weights, fault::inner_state_averaged,
                          fault::inner_state_reset, fault::momentum_of_last_difference})
    EXPECT_GT(farthest(by_hand<double>(2, 4, {}, inner, made), right), 1e-6) << int(made);
}

TEST(LocalSteps, ComposeWithOtherAxesAndOptions) {
  auto const expected = by_hand<double>(2, 4, {}, inner);
  auto const expect = [&]<class Policy>(double most, Policy) {
    EXPECT_LE(farthest(train<gpt_job<Policy>>(threads{}, {}, inner), expected), most);
  };
  EXPECT_EQ((train<gpt_job<data_parallel<1, local_steps<3>>>>(threads{}, {}, inner).common.size()),
            4u);
  expect(1e-10, data_parallel<4, within<2>, local_steps<4>>{});
  expect(1e-10, data_parallel<4, within<2>, zero<1>, local_steps<4>, buckets<1>>{});
  expect(1e-10, data_parallel<4, within<2>, zero<3>, local_steps<4>, buckets<1>>{});
  expect(1e-10, hybrid<data_parallel<2, local_steps<4>>, tensor_parallel<2>>{});
  expect(1e-10, hybrid<pipeline<2>, data_parallel<2, local_steps<4>>, tensor_parallel<2>>{});
  expect(0.1, data_parallel<2, local_steps<4>, compressed<plait::bfloat16>>{});
  expect(0.1, data_parallel<4, within<2>, zero<1>, local_steps<4>, compressed<plait::bfloat16>>{});
}

// --- bytes, calls and memory

template <class Policy>
void expect_the_plan() {
  using one_job = gpt_job<Policy>;
  using plan = typename one_job::plan_type;
  launch<one_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<one_job>(rank, inner,
                                           {.clip = 0.5, .outer = {.rate = 0.7, .momentum = 0.9}});
    auto all = batches(samples_of_replica{}, global_batch<samples_of_batch>{}, rank,
                       {.how = sample_order::sequential, .epochs = 0, .microbatches = 2});
    workload const load{
        .rows = all.rows(), .microbatches = 2, .optimizer_states = 2, .gradient_norm = true};
    trainer.evaluate(all.at(0));  // data that is sent once has been sent
    std::vector<plait::detail::logged_call> log;
    for (auto const over : rank.groups().sets()) {
      rank.group(over).reset_counted();
      rank.group(over).log_calls(&log, static_cast<int>(over.bits));
    }
    auto const lines_of = [&](job_part part) {
      return expected_calls::expansion<one_job>(rank.grid(), rank.coordinates(), load, part)
          .lines();
    };
    for (int step = 0; step < 4; ++step) {
      trainer.step(all.at(std::uint64_t(step)));
      auto expected = lines_of(job_part::training);
      if (step == 3)
        for (auto const& line : lines_of(job_part::common_update)) expected.push_back(line);
      EXPECT_EQ(expected_calls::lines_of(log), expected)
          << "step " << step << " on rank " << rank.world_rank();
      log.clear();
      if (step == 0) plait_test::expect_planned_bytes<one_job>(rank, load);
    }
    for (auto const over : rank.groups().sets()) rank.group(over).log_calls(nullptr, 0);
    plait_test::expect_planned_memory<one_job>(rank.stage(), trainer.allocated(), load);
  });
  // A step sends nothing over groups with ranks of several replicas.
  auto const local = plan::rules.local_axes;
  for (auto const& row : planning::transfers_of<plan>(0, {}, job_part::training))
    for (auto const which : all_axes)
      EXPECT_FALSE(local.contains(which) && row.row().over.contains(which));
}
TEST(LocalSteps, CallsBytesAndMemoryFollowThePlan) {
  expect_the_plan<data_parallel<2, local_steps<4>>>();
  expect_the_plan<data_parallel<4, within<2>, zero<1>, local_steps<4>, buckets<1>>>();
  expect_the_plan<data_parallel<4, within<2>, zero<3>, local_steps<4>, buckets<1>>>();
  expect_the_plan<hybrid<pipeline<2>, data_parallel<2, local_steps<4>, compressed<float8>>,
                         tensor_parallel<2>>>();
}

/// The bytes of the differences of a common update. The numbers of the replicas are summed over all
/// axes, also over axes of one rank.
template <class Policy>
constexpr std::int64_t bytes_of_update() {
  using plan = typename gpt_job<Policy, float>::plan_type;
  constexpr auto part = job_part::common_update;
  std::int64_t out = 0;
  for (unsigned bits = 1; bits < axis_set_count; ++bits) {
    axis_set over;
    over.bits = bits;
    if (plan::grid.of_several_ranks(over) == over) out += plan::bytes_sent(over, {}, part).total();
  }
  return out;
}
TEST(LocalSteps, ACommonUpdateSendsEachParameterOnce) {
  auto const parameters = [](auto of) {
    using plan = typename decltype(of)::plan_type;
    return std::int64_t(plan::parameter_layout_for(0, plan::grid).count());
  };
  auto const two = parameters(gpt_job<data_parallel<2, local_steps<4>>, float>{});
  EXPECT_EQ((bytes_of_update<data_parallel<2, local_steps<4>>>()), 4 * two);
  EXPECT_EQ((bytes_of_update<data_parallel<2, local_steps<4>, compressed<plait::bfloat16>>>()),
            2 * two);
  using six = data_parallel<6, within<2>, local_steps<4>>;
  EXPECT_EQ((bytes_of_update<six>()), 4 * 4 * parameters(gpt_job<six, float>{}) / 3);
  using cut = data_parallel<6, within<2>, zero<1>, local_steps<4>>;
  EXPECT_EQ((bytes_of_update<cut>()), 4 * 4 * parameters(gpt_job<cut, float>{}) / 3 / 2);
}

// --- calls between common updates, signals, and steps that are not finite

struct broken_above_1000 {
  template <class T>
  static T value(T x, T target) {
    return target > 1000 ? std::numeric_limits<T>::quiet_NaN() : (x - target) * (x - target);
  }
  template <class T>
  static T slope(T x, T target) {
    return target > 1000 ? std::numeric_limits<T>::quiet_NaN() : 2 * (x - target);
  }
};
using small =
    objective<named<"only", nn::linear<4, 1>>, nn::elementwise_loss<1, broken_above_1000>>;
template <class Policy>
struct small_job : parallel<small, Policy, double> {};
using small_policy = data_parallel<4, within<2>, zero<1>, local_steps<4>>;

/// The messages of all ranks: what action(trainer, batches) throws on each of them. The targets of
/// batch 0 are broken in the part of replica 1 if `is_broken`. All other batches are equal.
template <class Error>
std::vector<std::string> messages(trainer_options const& how, bool is_broken, auto action) {
  std::vector<std::string> out(4);
  std::mutex mutex;
  try {
    launch<small_job<small_policy>>(threads{}, [&](auto& rank) {
      std::vector<double> inputs(32 * 4, 0.5), targets(32);
      for (std::size_t i = 0; i < 8; ++i) targets[i] = double(i % 3);
      if (is_broken) targets[5] = 1e4;
      in_memory<double, double> const data(std::move(inputs), std::move(targets), 4, 1);
      auto trainer = plait::trainer<small_job<small_policy>>(rank, sgd{.learning_rate = 0.1}, how);
      auto from =
          batches(data, global_batch<8>{}, rank, {.how = sample_order::sequential, .epochs = 0});
      try {
        action(trainer, from);
      } catch (Error const& problem) {
        std::scoped_lock const lock{mutex};
        out[std::size_t(rank.world_rank())] = problem.what();
        throw;
      }
    });
  } catch (Error const&) {
  }
  return out;
}
void expect_on_all(std::vector<std::string> const& got, std::string const& text) {
  for (auto const& one : got) EXPECT_NE(one.find(text), std::string::npos) << one << "\n" << text;
}

TEST(LocalSteps, CallsBetweenCommonUpdatesAreErrorsThatNameTheStep) {
  auto const expect = [](std::string const& call, auto action) {
    auto const all = messages<error>({}, false, [&](auto& trainer, auto& from) {
      for (std::uint64_t step = 0; step < 6; ++step) {
        trainer.step(from.at(step));
        if (step == 3) action(trainer, from);
      }
      action(trainer, from);
    });
    expect_on_all(all,
                  call +
                      " needs one value of each parameter, but after 6 steps the parameters "
                      "differ between the replicas of local_steps<4>; call it when 8 steps are "
                      "done");
  };
  expect("evaluate", [](auto& trainer, auto& from) { trainer.evaluate(from.at(0)); });
  expect("predict", [](auto& trainer, auto& from) { trainer.predict(from.at(0)); });
  expect("export_parameters", [](auto& trainer, auto&) {
    trainer.export_parameters([](auto const&, auto const&, auto) {});
  });
  expect("import_parameters", [](auto& trainer, auto&) {
    trainer.import_parameters([](auto const&, auto const&, auto) { return false; });
  });
  expect("state", [](auto& trainer, auto&) { (void)trainer.state(); });
  auto state = std::map<int, std::unique_ptr<saved_state>>{};
  std::mutex mutex;
  expect("saving a checkpoint", [&](auto& trainer, auto&) {
    int const me = trainer.rank().world_rank();
    if (trainer.step_number() == 4) {
      auto now = trainer.state();
      std::scoped_lock const lock{mutex};
      state[me] = std::move(now);
      return;
    }
    std::unique_ptr<saved_state> mine;
    {
      std::scoped_lock const lock{mutex};
      mine = std::move(state[me]);
    }
    mine->complete();
  });
}

TEST(LocalSteps, ASignalEndsTheJobAtTheNextCommonUpdate) {
  stop_on_signals const stop;
  std::mutex mutex;
  std::multiset<std::int64_t> hooks;
  // The steps after the signal wait for other ranks as long as the steps before it.
  std::atomic<bool> ends_waits = false;
  auto const rate = [&](std::int64_t) {  // each step calls it
    ends_waits = ends_waits || plait::detail::caught_signal::may_end_waits();
    return 1.0;
  };
  auto const all = messages<stopped_by_signal>(
      {.rate = rate, .stop = &stop}, false, [&](auto& trainer, auto& from) {
        trainer.on_stop([&](step_report const& last) {
          trainer.export_parameters([](auto const&, auto const&, auto) {});
          std::scoped_lock const lock{mutex};
          hooks.insert(last.step);
        });
        for (std::uint64_t step = 0; step < 8; ++step) {
          if (step == 1 && trainer.rank().world_rank() == 2) std::raise(SIGTERM);
          EXPECT_LT(trainer.step(from.at(step)).step, 3);
        }
      });
  expect_on_all(all, "stopped by SIGTERM after step 3");
  EXPECT_FALSE(ends_waits);
  EXPECT_EQ(hooks, (std::multiset<std::int64_t>{3, 3, 3, 3}));
}

// The last steps are not a multiple of 4. A common update follows them, with all that it tells
// ranks.
TEST(LocalSteps, AfterTheLastStepACommonUpdateFollows) {
  auto const all = messages<error>({}, false, [&](auto& trainer, auto& from) {
    trainer.after_steps();  // nothing to do
    for (std::uint64_t step = 0; step < 6; ++step) trainer.step(from.at(step));
    EXPECT_THROW(trainer.export_parameters([](auto const&, auto const&, auto) {}), error);
    trainer.after_steps();
    std::vector<double> weights;
    trainer.export_parameters([&](auto const&, auto const&, auto values) {
      weights.insert(weights.end(), values.begin(), values.end());
    });
    EXPECT_TRUE(trainer.last_report()->common_loss.has_value());
    double const loss = trainer.evaluate(from.at(0));
    trainer.after_steps();  // nothing to do
    EXPECT_EQ(trainer.evaluate(from.at(0)), loss);
    EXPECT_FALSE(trainer.step(from.at(6)).common_loss.has_value());
    EXPECT_TRUE(trainer.step(from.at(7)).common_loss.has_value());
  });
  for (auto const& one : all) EXPECT_EQ(one, "");

  stop_on_signals const stop;
  std::mutex mutex;
  std::multiset<std::int64_t> hooks;
  auto const stopped =
      messages<stopped_by_signal>({.stop = &stop}, false, [&](auto& trainer, auto& from) {
        trainer.on_stop([&](step_report const& last) {
          trainer.export_parameters([](auto const&, auto const&, auto) {});
          std::scoped_lock const lock{mutex};
          hooks.insert(last.step);
        });
        for (std::uint64_t step = 0; step < 2; ++step) trainer.step(from.at(step));
        if (trainer.rank().world_rank() == 2) std::raise(SIGTERM);
        trainer.after_steps();
      });
  expect_on_all(stopped, "stopped by SIGTERM after step 1");
  EXPECT_EQ(hooks, (std::multiset<std::int64_t>{1, 1, 1, 1}));
}

TEST(LocalSteps, ReplicasWithOtherNumbersOfStepsAreAnError) {
  auto const all = messages<error>({}, false, [&](auto& trainer, auto& from) {
    std::uint64_t const steps = trainer.rank().world_rank() < 2 ? 2 : 4;
    for (std::uint64_t step = 0; step < steps; ++step) trainer.step(from.at(step));
    trainer.after_steps();
  });
  expect_on_all(all,
                "a common update begins on replica 0 after 2 steps, but on replica 1 after 4; "
                "call step() equally often on all ranks");
}

// The only loss is the penalty of a layer, which counts no labels.
template <class Policy>
struct penalized_job
    : parallel<objective<sequential<named<"only", nn::linear<4, 3>>, plait_test::penalty<3>>,
                         nn::cross_entropy<3>>,
               Policy, double> {};
TEST(LocalSteps, WithoutLabelsAllReplicasHaveTheSameWeight) {
  auto const trained = []<class Policy>(Policy) {
    using job_type = penalized_job<Policy>;
    std::vector<double> out;
    launch<job_type>(threads{}, [&](auto& rank) {
      std::vector<double> inputs(32 * 4);
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = double(i % 7) - 3;
      in_memory<double, std::int32_t> const data(std::move(inputs),
                                                 std::vector<std::int32_t>(32, -100), 4);
      auto trainer = plait::trainer<job_type>(rank, sgd{.learning_rate = 0.1});
      double loss = 0;
      for (auto const& one :
           batches(data, global_batch<8>{}, rank, {.how = sample_order::sequential})) {
        auto const report = trainer.step(one);
        loss = report.common_loss.value_or(report.loss);
      }
      trainer.export_parameters([&](auto const&, auto const&, std::span<double const> values) {
        out.insert(out.end(), values.begin(), values.end());
      });
      if (rank.is_root()) out.push_back(loss);
    });
    return out;
  };
  auto const expected = trained(data_parallel<2>{});
  auto const got = trained(data_parallel<2, local_steps<1>>{});
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  EXPECT_GT(expected.back(), 0);
}

TEST(LocalSteps, AStepThatIsClippedAwayLeavesOutTheUpdateOfOneReplica) {
  auto const all =
      messages<error>({.clip = 1, .on_not_finite = trainer_options::not_finite::train_on}, true,
                      [&](auto& trainer, auto& from) {
                        for (std::uint64_t step = 0; step < 8; ++step) trainer.step(from.at(step));
                        EXPECT_TRUE(std::isfinite(trainer.evaluate(from.at(1))));
                        EXPECT_TRUE(trainer.state()->ages().empty());
                      });
  for (auto const& one : all) EXPECT_EQ(one, "");
}

TEST(LocalSteps, FailedWorkEndsTheJobAtTheNextCommonUpdate) {
  stop_on_signals const stop;
  auto const all = messages<job_ended>({.stop = &stop}, false, [&](auto& trainer, auto& from) {
    for (std::uint64_t step = 0; step < 8; ++step) {
      trainer.step(from.at(step));
      EXPECT_LT(step, 3u);
      if (step == 1 && trainer.rank().world_rank() == 1)
        trainer.between_steps([] { throw input_error("the disk is full"); });
    }
  });
  expect_on_all(all, "the disk is full");
}

TEST(LocalSteps, AReplicaThatIsNotFiniteStopsUpdatingAndEndsTheJob) {
  auto const all = messages<not_finite_error>({}, true, [&](auto& trainer, auto& from) {
    std::vector<double> losses;
    try {
      for (std::uint64_t step = 0; step < 4; ++step) {
        auto const report = trainer.step(from.at(step));
        EXPECT_LT(step, 3u);
        EXPECT_EQ(report.replica, trainer.rank().world_rank() / 2);
        losses.push_back(report.loss);
      }
    } catch (not_finite_error const&) {
      ASSERT_EQ(losses.size(), 3u);
      bool const is_broken = trainer.rank().world_rank() >= 2;
      EXPECT_EQ(std::isnan(losses[0]), is_broken);
      EXPECT_TRUE(std::isfinite(losses[1]));
      EXPECT_EQ(losses[1] == losses[2], is_broken);  // its weights stay as they were
      EXPECT_THROW(trainer.evaluate(from.at(0)), error);
      throw;
    }
  });
  expect_on_all(all,
                "replica 1: the loss of step 0 is nan; a replica does not update its parameters "
                "after such a step");
  expect_on_all(messages<not_finite_error>({.clip = 1}, true,
                                           [&](auto& trainer, auto& from) {
                                             for (std::uint64_t step = 0; step < 4; ++step)
                                               trainer.step(from.at(step));
                                           }),
                "replica 1: the loss of step 0 is nan");
}

TEST(LocalSteps, OptionsAreChecked) {
  auto const text_of = [](auto action) -> std::string {
    try {
      action();
    } catch (input_error const& problem) {
      return problem.what();
    }
    return "";
  };
  auto const make = [](auto policy, trainer_options const& how) {
    using one = small_job<decltype(policy)>;
    launch<one>(threads{}, [&](auto& rank) { (void)plait::trainer<one>(rank, sgd{}, how); });
  };
  using local = data_parallel<2, local_steps<4>>;
  auto const expect_text = [&](auto policy, trainer_options const& how, std::string const& text) {
    auto const got = text_of([&] { make(policy, how); });
    EXPECT_NE(got.find(text), std::string::npos) << got << "\n" << text;
  };
  expect_text(local{}, {.average = 0.9},
              "trainer_options::average is 0.9, but the job has local_steps<4>");
  expect_text(local{}, {.on_not_finite = trainer_options::not_finite::skip},
              "trainer_options::on_not_finite is skip, but the job has local_steps<4>");
  expect_text(local{}, {.outer = {.rate = 0}}, "trainer_options::outer.rate");
  expect_text(local{}, {.outer = {.momentum = 1}}, "trainer_options::outer.momentum");
  expect_text(data_parallel<2>{}, {.outer = {.momentum = 0.9}},
              "rate 1 and momentum 0.9 have no effect, because the job has no common updates");
  auto const differing = text_of([] {
    launch<small_job<local>>(threads{}, [](auto& rank) {
      (void)plait::trainer<small_job<local>>(rank, sgd{},
                                             {.outer = {.rate = rank.world_rank() == 0 ? 1 : 0.5}});
    });
  });
  EXPECT_NE(differing.find("the ranks differ in outer.rate: 1 on rank 0, 0.5 on rank 1"),
            std::string::npos)
      << differing;
}

template <class One, class Other>
std::string text_of_unlike() {
  try {
    launch<small_job<One>>(threads{}, [](auto& rank) {
      if (rank.world_rank() == 0) (void)plait::trainer<small_job<One>>(rank, sgd{});
      else (void)plait::trainer<small_job<Other>>(rank, sgd{});
    });
  } catch (input_error const& problem) {
    return problem.what();
  }
  return "";
}
TEST(LocalSteps, RanksCompareTheOptionsOfTheirPlans) {
  auto const local =
      text_of_unlike<data_parallel<2, local_steps<4>>, data_parallel<2, local_steps<8>>>();
  EXPECT_NE(
      local.find("the ranks differ in the steps of local_steps<Steps>, or 0: 4 on rank 0, 8 on "
                 "rank 1"),
      std::string::npos)
      << local;
  auto const delay = text_of_unlike<data_parallel<2, delayed<1>>, data_parallel<2>>();
  EXPECT_NE(delay.find("the ranks differ in the steps of delayed<Steps>, or 0: 1 on rank 0, 0 on "
                       "rank 1"),
            std::string::npos)
      << delay;
  auto const form =
      text_of_unlike<data_parallel<2, compressed<plait::bfloat16>>, data_parallel<2>>();
  EXPECT_NE(form.find("the ranks differ in the options of data_parallel: 'compressed<bfloat16> "
                      "along data' on rank 0, '' on rank 1"),
            std::string::npos)
      << form;
}

// --- simulated devices

template <class Policy>
void expect_no_race(std::uint64_t seeds) {
  using one_job = gpt_job<Policy>;
  settings const few{.steps = 4};
  auto const run = [&](auto const& backend) { return train<one_job>(backend, few, inner); };
  auto const expected = run(threads{});
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(seeds); ++seed)
    ASSERT_EQ(run(simulated{.seed = seed, .statistics = &statistics}), expected) << seed;
  auto const list =
      planning::transfers_of<typename one_job::plan_type>(0, {}, job_part::common_update);
  EXPECT_GT(list.size(), 1u);
  int needed = 0;
  for (auto const& site : statistics.sites) {
    if (site.where != wait_site::part::step) continue;
    bool const is_exchange = planning::row_of_site(site.awaited) >= 0 &&
                             site.waiting % (1 << 16) == int(planning::operation_kind::read);
    if (!is_exchange) continue;
    try {
      run(simulated{.without = site});
    } catch (race_error const&) {
      ++needed;
    }
  }
  EXPECT_GT(needed, 0);
}
TEST(LocalStepsSimulated, HaveNoRace) {
  expect_no_race<data_parallel<2, local_steps<2>, buckets<1>>>(5);
  expect_no_race<data_parallel<4, within<2>, zero<1>, local_steps<2>, compressed<plait::bfloat16>>>(
      5);
}

}  // namespace
