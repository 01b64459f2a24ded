// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=17
//
// Ranks join and leave between the generations of a job: the ranks at the end have the weights, the
// optimizer's state, the averages and the losses of an undisturbed run. Members are threads in this
// test; they keep the same state as processes.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/caught_signal.hpp"
#include "plait/core/random.hpp"
#include "plait/plait.hpp"
#include "plait/train/adamw_bfloat16.hpp"
#include "plan/expected_calls.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t fields = 3, width = 8;
constexpr int slices = 12;

// Each step updates buffers once.
using statistics = nn::batch_norm<nn::image<width, 1, 1>, {.group = 2}>;
using net =
    objective<sequential<named<"in", nn::linear<fields, width>>, named<"statistics", statistics>,
                         nn::gelu<width>, named<"mid", nn::linear<width, width>>,
                         nn::dropout<width, 200>, named<"out", nn::linear<width, 1>>>,
              nn::mse<1>>;
using any_ranks = data_parallel<at_launch>;
template <class Element, class... Policies>
struct job : parallel<net, hybrid<Policies..., reproducible<slices>>, Element> {};
using plain = job<float, any_ranks>;
using cut = job<float, any_ranks, tensor_parallel<2>>;
using staged = job<double, any_ranks, pipeline<2>>;
using mixed = job<precision<plait::bfloat16, float>, any_ranks>;

struct samples {
  using concept_tag = dataset_tag;
  using element = double;
  using target = double;
  [[nodiscard]] std::size_t size() const { return 60; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return fields; }
  void inputs(std::size_t sample, std::span<double> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>((3 * sample + 5 * i) % 17) / 9 - 1;
  }
  void targets(std::size_t sample, std::span<double> out) const {
    out[0] = static_cast<double>(sample % 7) / 5;
  }
};

/// The state of a process that remains between generations.
struct member {
  generation::carried_state kept{};
};

/// The event that a member meets in one generation.
struct fate {
  std::int64_t leaves_after = -1;  ///< hears, before the update of this step, that ranks change
  std::int64_t fails_behind = -1;  ///< the last transfer of this step: its update is not done
  std::int64_t fails_within = -1;  ///< before the first transfer of this step
  std::int64_t ends_after = -1;    ///< learns that the job cannot continue
};

class scripted final : public generation {
 public:
  scripted(member& of, fate const& what, int signal) : of_(of), what_(what), signal_(signal) {}
  [[nodiscard]] int number() const override { return 1; }
  double stop_votes() override {
    if (of_.kept.step == what_.fails_within)
      throw error("killed within step " + std::to_string(of_.kept.step));
    if (of_.kept.step == what_.ends_after) return job_cannot_go_on;
    return of_.kept.step == what_.leaves_after ? 1 : 0;
  }
  [[nodiscard]] bool is_last() const override { return signal_ != 0; }
  void end_job(std::int64_t step) override {
    if (signal_ != 0) throw stopped_by_signal(signal_, step);
    throw job_ended("the store is gone after step " + std::to_string(step));
  }
  void require_membership(bool) override {
    if (of_.kept.step == what_.fails_behind)
      throw error("cut off behind step " + std::to_string(of_.kept.step));
  }
  carried_state& carried() override { return of_.kept; }
  [[nodiscard]] int block() const override { return 0; }

 private:
  member& of_;
  fate what_;
  int signal_;
};

/// Values for some of the parameters.
struct some_weights final : state_source {
  [[nodiscard]] bool contains(std::string_view name) const override {
    return name.starts_with("mid.");
  }
  void read(std::string const&, parameter_info const&, parameter_rectangle const& where,
            void* out) override {
    for (std::size_t i = 0; i < where.count(); ++i) static_cast<float*>(out)[i] = 0.25f;
  }
};

struct outcome {
  std::map<std::int64_t, double> losses;
  std::map<std::string, std::vector<double>> weights;
  friend bool operator==(outcome const&, outcome const&) = default;
};

/// Trains members until a generation completes the last step.
template <class Job, class Optimizer = adamw>
class elastic_run {
 public:
  static constexpr std::int64_t steps = 20;
  trainer_options options{.seed = 4, .clip = 0.3, .average = 0.9};
  std::int64_t imports_at = -1;  ///< the step before which some parameters are imported
  outcome out;
  std::string ended;

  /// Runs a generation: its members in the order of the ranks, and their events. Returns false if
  /// it ends before the last step.
  bool generation_of(std::vector<int> const& who, std::map<int, fate> fates = {}, int signal = 0) {
    int const replica = Job::plan_type::grid.with_ranks_at_launch(1).world_size();
    samples const data;
    ended.clear();
    for (int const one : who) members_[one], fates[one];
    try {
      launch<Job>(threads{.data_ranks = static_cast<int>(who.size()) / replica}, [&](auto& rank) {
        int const me = who[std::size_t(rank.world_rank())];
        scripted here(members_.at(me), fates.at(me), signal);
        rank.belong_to(&here);
        auto trainer = plait::trainer<Job>(rank, Optimizer{.learning_rate = 0.05}, options);
        auto all = batches<typename Job::element>(data, global_batch<24>{}, rank,
                                                  {.seed = 9, .epochs = 0});
        auto const note = [&](step_report const& report) {
          if (rank.is_root()) out.losses[report.step] = report.loss;
        };
        if (auto const last = trainer.last_report()) note(*last);
        for (auto const& batch : all.from(std::uint64_t(trainer.step_number()))) {
          if (trainer.step_number() == steps) break;
          if (trainer.step_number() == imports_at) {
            some_weights from;
            trainer.state()->import_parameters(from);
          }
          note(trainer.step(batch));
        }
        using element = typename Job::parameter_element;
        auto const keep = [&](std::string const& kind) {
          trainer.export_parameters(
              [&](std::string const& name, auto const&, std::span<element const> values) {
                out.weights[name + kind].assign(values.begin(), values.end());
              });
        };
        keep("");
        if (options.average > 0) trainer.with_ema([&] { keep(".average"); });
      });
      return true;
    } catch (error const& problem) {
      ended = problem.what();
    }
    return false;
  }
  void replace(int one) { members_[one] = {}; }
  void take_all_but(std::set<int> const& living) {
    std::erase_if(members_, [&](auto const& one) { return !living.contains(one.first); });
  }

 private:
  std::map<int, member> members_;
};

template <class Job, class Optimizer = adamw>
outcome const& undisturbed(std::vector<int> const& who) {
  static outcome const once = [&] {
    elastic_run<Job, Optimizer> run;
    EXPECT_TRUE(run.generation_of(who)) << run.ended;
    return run.out;
  }();
  return once;
}

TEST(HandOver, RanksThatComeAndGoLeaveTheWeightsAsTheyWouldHaveBeen) {
  auto const& expected = undisturbed<plain>({0});
  ASSERT_EQ(expected.losses.size(), 20u);
  elastic_run<plain> run;
  EXPECT_FALSE(run.generation_of({0, 1, 2, 3}, {{2, {.leaves_after = 3}}}));
  EXPECT_EQ(run.ended, "the ranks change after step 3");
  EXPECT_FALSE(run.generation_of({0, 2, 3}, {{0, {.leaves_after = 6}}}));
  EXPECT_FALSE(run.generation_of({4, 2, 3, 5, 6}, {{6, {.leaves_after = 7}}}));
  EXPECT_FALSE(run.generation_of({6}, {{6, {.leaves_after = 9}}}));
  EXPECT_FALSE(
      run.generation_of({7, 8, 9, 10, 6, 12, 13, 14, 15, 16, 17, 18}, {{8, {.leaves_after = 12}}}));
  EXPECT_TRUE(run.generation_of({15, 8})) << run.ended;
  EXPECT_TRUE(run.out == expected);
}

template <class Job>
void fail_and_go_on(std::vector<int> const& first, std::map<int, fate> const& fates,
                    std::vector<int> const& second) {
  auto const& expected = undisturbed<Job>(
      Job::plan_type::grid.with_ranks_at_launch(1).world_size() == 1 ? std::vector<int>{0}
                                                                     : std::vector<int>{0, 1});
  elastic_run<Job> run;
  EXPECT_FALSE(run.generation_of(first, fates));
  EXPECT_TRUE(run.generation_of(second)) << run.ended;
  EXPECT_TRUE(run.out == expected);
}

TEST(HandOver, ARankOneStepBehindCatchesUp) {
  for (int const behind : {0, 1, 2}) {
    fail_and_go_on<plain>({0, 1, 2}, {{behind, {.fails_behind = 5}}}, {0, 1, 2});
    fail_and_go_on<plain>({0, 1, 2}, {{behind, {.fails_behind = 5}}}, {2, 1, 0, 4});
    fail_and_go_on<plain>({0, 1, 2}, {{behind, {.fails_behind = 5}}}, {behind, 7});
    fail_and_go_on<plain>({0, 1, 2}, {{behind, {.fails_within = 5}}}, {7, (behind + 1) % 3});
  }
  fail_and_go_on<plain>({0, 1, 2, 3}, {{0, {.fails_behind = 5}}, {3, {.fails_behind = 5}}},
                        {3, 1, 0});
  fail_and_go_on<mixed>({0, 1, 2}, {{0, {.fails_behind = 5}}, {2, {.fails_behind = 5}}},
                        {1, 0, 2, 3});
}

// Several generations, each ended by an event of one of its members in some step. Some of the
// remaining members continue, in any order, with new ranks.
TEST(HandOver, AnyFatesLeaveWeightsAndStatisticsAsTheyWouldHaveBeen) {
  auto const& expected = undisturbed<plain>({0});
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::uint64_t drawn = 0;
    auto const pick = [&](int below) {
      return int(random_word({seed, 7, 0}, drawn++) % std::uint64_t(below));
    };
    elastic_run<plain> run;
    std::vector<int> who(std::size_t(1 + pick(4)));
    std::iota(who.begin(), who.end(), 0);
    int next = int(who.size());
    std::string told = "seed " + std::to_string(seed);
    for (std::int64_t step = 1 + pick(4); step < 19; step += 1 + pick(6)) {
      int const hit = who[std::size_t(pick(int(who.size())))], how = pick(3);
      fate const what = how == 0   ? fate{.leaves_after = step}
                        : how == 1 ? fate{.fails_behind = step}
                                   : fate{.fails_within = step};
      told += ", " + std::to_string(who.size()) + " ranks until " + std::to_string(hit) +
              " meets " + std::to_string(how) + " in step " + std::to_string(step);
      ASSERT_FALSE(run.generation_of(who, {{hit, what}})) << told;
      // A member that fails within a step, or is one step behind, need not come back.
      std::vector<int> left;
      for (int const one : who)
        if (one != hit || how == 0) left.push_back(one);
      if (left.empty()) left.push_back(hit);
      for (std::size_t i = left.size(); i > 1; --i)
        std::swap(left[i - 1], left[std::size_t(pick(int(i)))]);
      left.resize(std::size_t(1 + pick(int(left.size()))));
      for (int more = pick(3); more > 0 && left.size() < 5; --more)
        left.insert(left.begin() + pick(int(left.size()) + 1), next++);
      who = left;
    }
    ASSERT_TRUE(run.generation_of(who)) << told << ": " << run.ended;
    ASSERT_TRUE(run.out == expected) << told;
  }
}

// The moments of "mid" were reset in step 3, so their bias correction differs.
TEST(HandOver, AgesOfStatesGoAlong) {
  elastic_run<plain> alone, run;
  alone.imports_at = run.imports_at = 3;
  EXPECT_TRUE(alone.generation_of({0})) << alone.ended;
  EXPECT_FALSE(alone.out == undisturbed<plain>({0}));
  EXPECT_FALSE(run.generation_of({0, 1, 2}, {{0, {.fails_behind = 5}}}));
  EXPECT_FALSE(run.generation_of({4, 0, 2}, {{2, {.leaves_after = 8}}}));
  EXPECT_TRUE(run.generation_of({4, 5})) << run.ended;
  EXPECT_TRUE(run.out == alone.out);
}

// Some ranks compute the update of step 5 by themselves, others receive the states, and the states
// of "mid" are younger than the others.
TEST(HandOver, StatesInBfloat16GoAlong) {
  elastic_run<plain, adamw_bfloat16> alone, run;
  EXPECT_TRUE(run.generation_of({0})) << run.ended;
  EXPECT_FALSE(run.out == undisturbed<plain>({0}));
  alone.imports_at = run.imports_at = 3;
  EXPECT_TRUE(alone.generation_of({1})) << alone.ended;
  run = {};
  run.imports_at = 3;
  EXPECT_FALSE(run.generation_of({0, 1, 2}, {{0, {.fails_behind = 5}}}));
  EXPECT_FALSE(run.generation_of({4, 0, 2}, {{2, {.leaves_after = 8}}}));
  EXPECT_TRUE(run.generation_of({4, 5})) << run.ended;
  EXPECT_TRUE(run.out == alone.out);
}

TEST(HandOver, ReplicasOfSeveralRanksComeAndGoAsAWhole) {
  for (int const behind : {0, 1, 2, 3}) {
    fail_and_go_on<cut>({0, 1, 2, 3}, {{behind, {.fails_behind = 5}}}, {2, 3, 0, 1});
    fail_and_go_on<cut>({0, 1, 2, 3}, {{behind, {.fails_behind = 5}}}, {2, 1, 4, 5, 6, 7});
    fail_and_go_on<staged>({0, 1, 2, 3}, {{behind, {.fails_behind = 5}}}, {0, 3, 4, 1});
    fail_and_go_on<staged>({0, 1, 2, 3}, {{behind, {.fails_within = 5}}}, {2, 3});
  }
}

TEST(HandOver, WithoutABlockTheJobStartsOver) {
  auto const& expected = undisturbed<cut>({0, 1});
  elastic_run<cut> run;
  EXPECT_FALSE(run.generation_of({0, 1, 2, 3}, {{1, {.leaves_after = 4}}}));
  run.out = {};
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(run.generation_of({0, 5})) << run.ended;  // members 1 and 3 had the other half
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("do not have all of the state"),
            std::string::npos);
  EXPECT_TRUE(run.out == expected);
}

TEST(HandOver, OlderStateIsReplaced) {
  auto const& expected = undisturbed<plain>({0});
  elastic_run<plain> run;
  EXPECT_FALSE(run.generation_of({0, 1, 2}, {{0, {.leaves_after = 4}}}));
  EXPECT_FALSE(run.generation_of({0, 1}, {{0, {.leaves_after = 9}}}));
  EXPECT_FALSE(run.generation_of({2, 0, 1}, {{0, {.leaves_after = 11}}}));
  EXPECT_FALSE(run.generation_of({2}, {{2, {.leaves_after = 12}}}));
  EXPECT_TRUE(run.generation_of({0, 1, 2})) << run.ended;
  EXPECT_TRUE(run.out == expected);
}

TEST(HandOver, MovesWhatThePlanSays) {
  elastic_run<mixed> run;
  EXPECT_FALSE(run.generation_of({0}, {{0, {.leaves_after = 2}}}));
  samples const data;
  std::map<int, member> members;
  for (bool const is_late : {false, true}) try {
      launch<mixed>(threads{.data_ranks = is_late ? 3 : 1}, [&](auto& rank) {
        int const me = is_late ? (rank.world_rank() + 2) % 3 : 0;  // rank 1 has the state
        static std::mutex guard;
        std::unique_lock lock{guard};
        auto& mine = members[me];
        lock.unlock();
        scripted here(mine, {.leaves_after = 2}, 0);
        rank.belong_to(&here);
        std::vector<detail::logged_call> log;
        for (auto const over : rank.groups().sets())
          rank.group(over).log_calls(&log, static_cast<int>(over.bits));
        auto trainer = plait::trainer<mixed>(rank, adamw{}, {.average = 0.5});
        for (auto const over : rank.groups().sets()) rank.group(over).log_calls(nullptr, 0);
        if (is_late) {
          std::erase_if(log, [](auto const& call) { return call.kind != collective::broadcast; });
          EXPECT_EQ(log.size(), 4u);
          expected_calls::expansion<mixed> const planned(
              rank.grid(), rank.coordinates(), {.data_ranks = 3, .averages = true, .source = 1},
              planning::job_part::state_transfer);
          EXPECT_EQ(expected_calls::lines_of(log), planned.lines());
          return;
        }
        for (auto const& batch :
             batches<mixed::element>(data, global_batch<24>{}, rank, {.epochs = 0}))
          trainer.step(batch);
      });
    } catch (generation_ended const&) {
    }
}

TEST(HandOver, AnEndedGenerationStaysSo) {
  member one;
  samples const data;
  launch<plain>(threads{.data_ranks = 1}, [&](auto& rank) {
    scripted here(one, {.leaves_after = 0}, 0);
    rank.belong_to(&here);
    auto trainer = plait::trainer<plain>(rank, sgd{}, {});
    auto all = batches<float>(data, global_batch<24>{}, rank, {});
    EXPECT_THROW(trainer.step(all.at(0)), generation_ended);
    EXPECT_EQ(trainer.step_number(), 1);
    EXPECT_EQ(trainer.last_report()->step, 0);
    EXPECT_THROW(trainer.step(all.at(1)), generation_ended);
    EXPECT_THROW(trainer.evaluate(all.at(1)), generation_ended);
    EXPECT_THROW(trainer.export_parameters([](auto&&...) {}), generation_ended);
  });
  auto const expect_error = [&](auto optimizer, int trainers, char const* text) {
    try {
      launch<plain>(threads{.data_ranks = 1}, [&](auto& rank) {
        scripted here(one, {}, 0);
        rank.belong_to(&here);
        for (int i = 0; i < trainers; ++i)
          auto const made = plait::trainer<plain>(rank, optimizer, {});
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (input_error const& problem) {
      EXPECT_EQ(std::string(problem.what()), text);
    }
  };
  expect_error(sgd{}, 2,
               "rank 0: elastic: the program creates a second trainer; an elastic job can have "
               "only one, because all ranks agree on the steps of that trainer");
  expect_error(adamw{}, 1,
               "rank 0: trainer 1: the trainer of the previous generation had another job type or "
               "another optimizer; make the same trainer in every generation");
}

TEST(HandOver, TheLastGenerationEndsWithTheSignal) {
  std::map<int, member> members;
  samples const data;
  std::vector<std::int64_t> saved;
  for (int const signal : {0, 15}) try {
      launch<plain>(threads{.data_ranks = 1}, [&](auto& rank) {
        scripted here(members[0], {.leaves_after = 3}, signal);
        rank.belong_to(&here);
        auto trainer = plait::trainer<plain>(rank, sgd{}, {});
        trainer.on_stop([&](step_report const& last) { saved.push_back(last.step); });
        auto all = batches<float>(data, global_batch<24>{}, rank, {.epochs = 0});
        for (auto const& batch : all.from(std::uint64_t(trainer.step_number())))
          trainer.step(batch);
      });
    } catch (stopped_by_signal const& end) {
      EXPECT_EQ(std::string(end.what()), "stopped by SIGTERM after step 3");
    } catch (generation_ended const&) {
      EXPECT_EQ(signal, 0);
    }
  EXPECT_EQ(saved, std::vector<std::int64_t>{3});
}

// Ranks are threads in this test, and a signal goes to the process: all get it.
TEST(HandOver, SignalsToAllRanksEndTheJobBeforeTheNextStep) {
  std::map<int, member> members;
  members[0], members[1], members[2];
  samples const data;
  std::atomic<int> saved{0}, reported{0};
  std::string ended;
  try {
    launch<plain>(threads{.data_ranks = 3}, [&](auto& rank) {
      fate const mine{.leaves_after = rank.world_rank() == 1 ? 3 : -1};
      scripted here(members.at(rank.world_rank()), mine, 0);
      rank.belong_to(&here);
      auto trainer = plait::trainer<plain>(rank, sgd{}, {});
      trainer.on_stop([&](step_report const& last) { saved += last.step == 3; });
      for (auto const& batch : batches<float>(data, global_batch<24>{}, rank, {.epochs = 0})) {
        if (trainer.step_number() == 3) detail::caught_signal::number() = SIGTERM;
        reported += trainer.step(batch).step == 3;
      }
    });
  } catch (stopped_by_signal const& end) {
    ended = end.what();
  }
  detail::caught_signal::number() = 0;
  EXPECT_EQ(ended, "stopped by SIGTERM after step 3");
  EXPECT_EQ(saved, 3);
  EXPECT_EQ(reported, 3);
}

TEST(HandOver, AJobThatCannotContinueEndsOnAllRanks) {
  std::map<int, member> members;
  members[0], members[1], members[2];
  samples const data;
  std::atomic<int> saved{0};
  try {
    launch<plain>(threads{.data_ranks = 3}, [&](auto& rank) {
      fate const mine{.ends_after = rank.world_rank() == 2 ? 4 : -1};
      scripted here(members.at(rank.world_rank()), mine, 0);
      rank.belong_to(&here);
      auto trainer = plait::trainer<plain>(rank, sgd{}, {});
      trainer.on_stop([&](step_report const& last) { saved += last.step == 4; });
      for (auto const& batch : batches<float>(data, global_batch<24>{}, rank, {.epochs = 0}))
        trainer.step(batch);
    });
  } catch (job_ended const& end) {
    EXPECT_EQ(std::string(end.what()), "the store is gone after step 4");
  }
  EXPECT_EQ(saved, 3);
}

/// A generation in which some ranks have trained the job before; it collects why others are
/// refused.
class on_trial final : public generation {
 public:
  explicit on_trial(bool is_accepted) { kept_.is_accepted = is_accepted; }
  std::vector<std::string> refused;
  [[nodiscard]] int number() const override { return 1; }
  double stop_votes() override { return 0; }
  [[nodiscard]] bool is_last() const override { return false; }
  void end_job(std::int64_t) override { throw job_ended("the job has ended"); }
  void require_membership(bool) override {}
  [[noreturn]] void refuse(std::vector<std::string> const& why) override {
    refused = why;
    end("a joining rank is refused");
  }
  carried_state& carried() override { return kept_; }
  [[nodiscard]] int block() const override { return 0; }

 private:
  carried_state kept_{};
};

/// The error of all ranks of a first step in which rank 2 has other numbers; `said`: the reason for
/// the refusal.
std::string with_joining_ranks(std::vector<bool> const& accepted, std::uint64_t seed,
                               std::size_t batch, std::string& said) {
  std::mutex mutex;
  try {
    launch<plain>(threads{.data_ranks = 3}, [&](auto& rank) {
      bool const is_other = rank.world_rank() == 2;
      on_trial here(accepted[std::size_t(rank.world_rank())]);
      rank.belong_to(&here);
      try {
        auto trainer = plait::trainer<plain>(rank, sgd{}, {.seed = is_other ? seed : 4});
        auto all = batches<float>(samples{}, global_batch<>{is_other ? batch : 24}, rank,
                                  {.seed = 9, .epochs = 0});
        trainer.step(all.at(0));
      } catch (generation_ended const&) {
        std::scoped_lock const lock{mutex};
        EXPECT_EQ(here.refused.size(), 3u);
        if (here.refused.size() != 3) throw;
        EXPECT_EQ(here.refused[0] + here.refused[1], "");
        said = here.refused[2];
        throw;
      }
    });
  } catch (error const& problem) {
    return problem.what();
  }
  return "";
}

TEST(Newcomers, ThatDifferAreRefused) {
  std::string said;
  EXPECT_EQ(with_joining_ranks({true, true, false}, 4, 24, said), "");
  EXPECT_EQ(with_joining_ranks({true, true, false}, 5, 24, said), "a joining rank is refused");
  EXPECT_EQ(said, "trainer 1: seed is 5 here and 4 in the job");
  EXPECT_EQ(with_joining_ranks({true, false, false}, 4, 48, said), "a joining rank is refused");
  EXPECT_EQ(said, "batches 1: the samples of a global batch is 48 here and 24 in the job");
  said.clear();
  std::vector<std::vector<bool>> const all_alike{
      {false, false, false}, {true, true, true}, {true, false, true}};
  for (auto const& accepted : all_alike) {
    auto const text = with_joining_ranks(accepted, 5, 24, said);
    EXPECT_NE(text.find("trainer 1: the ranks differ in seed: 4 on rank 0, 5 on rank 2"),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(said, "");
}

}  // namespace
