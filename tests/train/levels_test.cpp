// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=30
//
// Ranks that hold blocks of gradients, or of parameters, too: equal training in less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/plait.hpp"
#include "plait/train/trainer_parts.hpp"
#include "train/levels.hpp"
#include "train/penalty.hpp"

namespace {

using namespace levels;

void expect_near(tensors const& expected, tensors const& got, double rounding) {
  ASSERT_EQ(expected.size(), got.size());
  for (auto const& [name, values] : expected) {
    auto const& other = got.at(name);
    ASSERT_EQ(other.size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(other[i], values[i], rounding) << name << " at " << i;
  }
}
void expect_near(outcome const& expected, outcome const& got, double rounding) {
  ASSERT_EQ(expected.numbers.size(), got.numbers.size());
  for (std::size_t i = 0; i < expected.numbers.size(); ++i)
    ASSERT_NEAR(got.numbers[i], expected.numbers[i], rounding) << i;
  ASSERT_EQ(expected.terms.size(), got.terms.size());
  for (std::size_t i = 0; i < expected.terms.size(); ++i)
    ASSERT_NEAR(got.terms[i], expected.terms[i], rounding) << i;
  expect_near(expected.weights, got.weights, rounding);
  expect_near(expected.gradients, got.gradients, rounding);
}

template <template <class, class> class Job, class Policy>
void expect_serial(int ranks, settings const& with) {
  auto const expected = train<Job<serial, double>>(threads{}, with);
  expect_near(expected, train<Job<Policy, double>>(threads{.data_ranks = ranks}, with), 1e-10);
}

TEST(Levels, OneRank) {
  for (int const m : {1, 2}) {
    expect_serial<job, at_launch_level<2>>(1, {m});
    expect_serial<job, at_launch_level<3>>(1, {m});
    expect_serial<tied_job, at_launch_level<2>>(1, {m});
    expect_serial<tied_job, at_launch_level<3>>(1, {m});
  }
}
TEST(Levels, Ranks) {
  for (int const ranks : {2, 3, 4})
    for (int const m : {1, 2}) {
      expect_serial<job, at_launch_level<2>>(ranks, {m, 0.5});
      expect_serial<job, at_launch_level<3>>(ranks, {m, 0.5});
      expect_serial<tied_job, at_launch_level<2>>(ranks, {m});
      expect_serial<tied_job, at_launch_level<3>>(ranks, {m});
    }
}

// One axis, one microbatch, without clipping: ranks add the same numbers in the same order.
template <int Level>
void expect_the_bits_of_data_parallel(int ranks) {
  auto const expected = train<tied_job<data_parallel<>>>(threads{.data_ranks = ranks}, {});
  auto const got = train<tied_job<at_launch_level<Level>>>(threads{.data_ranks = ranks}, {});
  for (std::size_t i = 0; i < expected.numbers.size(); i += 3)
    EXPECT_EQ(got.numbers[i], expected.numbers[i]);
  EXPECT_EQ(got.weights, expected.weights);
  EXPECT_EQ(got.gradients, expected.gradients);
}
TEST(Levels, HaveTheBitsOfDataParallel) {
  for (int const ranks : {2, 3}) {
    expect_the_bits_of_data_parallel<1>(ranks);
    expect_the_bits_of_data_parallel<2>(ranks);
    expect_the_bits_of_data_parallel<3>(ranks);
  }
}

// Layers compute with copies in bfloat16, rounded equally on every rank that holds the block.
TEST(Levels, WithCopies) {
  using copied = plait::precision<plait::bfloat16, float>;
  auto const expected = train<tied_job<data_parallel<2>, copied>>(threads{}, {});
  expect_near(expected,
              train<tied_job<data_parallel<2, zero<2>, buckets<1>>, copied>>(threads{}, {}), 0);
  expect_near(expected,
              train<tied_job<data_parallel<2, zero<3>, buckets<1>>, copied>>(threads{}, {}), 0);
  auto const of_four = train<tied_job<data_parallel<4>, copied>>(threads{}, {2});
  expect_near(
      of_four,
      train<tied_job<data_parallel<4, within<2>, zero<3>, buckets<1>>, copied>>(threads{}, {2}),
      1e-2);
}

// Swaps parameters with averages and back; the copies that layers read follow.
template <class Job>
std::vector<double> with_averages(auto const& backend) {
  std::vector<double> out;
  auto const text = small_gpt::text();
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 1e-2}, {.average = 0.5});
    auto batches = plait::batches(text, global_batch<24>{}, rank, {.epochs = 0});
    for (int step = 0; step < 4; ++step) {
      double const loss = trainer.step(batches.at(std::uint64_t(step))).loss;
      double const averaged = trainer.with_ema([&] { return trainer.evaluate(batches.at(0)); });
      double const plain = step % 2 == 0 ? trainer.evaluate(batches.at(0)) : 0;
      if (rank.is_root()) out.insert(out.end(), {loss, averaged, plain});
    }
  });
  return out;
}
TEST(Levels, WithAverages) {
  auto const expected = with_averages<tied_job<serial>>(threads{});
  auto const expect_same = [&]<class Policy>(Policy) {
    auto const got = with_averages<tied_job<Policy>>(threads{});
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-10) << i;
  };
  expect_same(data_parallel<3, zero<1>, buckets<1>>{});
  expect_same(data_parallel<3, zero<2>, buckets<1>>{});
  expect_same(data_parallel<3, zero<3>, buckets<1>>{});
  expect_same(data_parallel<4, within<2>, zero<3>, buckets<1>>{});
}

// A layer in mid-model adds to the loss, too: its term has its own scale and sum.
using model_of_two_terms =
    objective<sequential<named<"wte", nn::embedding<small_gpt::vocabulary, small_gpt::width>>,
                         named<"fc", nn::linear<small_gpt::width, 2 * small_gpt::width>>,
                         plait_test::penalty<2 * small_gpt::width>,
                         named<"out", nn::linear<2 * small_gpt::width, small_gpt::vocabulary>>>,
              nn::cross_entropy<small_gpt::vocabulary>>;
template <class Policy, class Element = double>
struct two_terms_job : parallel<model_of_two_terms, Policy, Element> {};

TEST(Levels, OfALossOfTwoTerms) {
  for (int const m : {1, 2}) {
    expect_serial<two_terms_job, data_parallel<3, zero<2>, buckets<1>>>(3, {m, 0.5});
    expect_serial<two_terms_job, data_parallel<3, zero<3>, buckets<1>>>(3, {m, 0.5});
    expect_serial<two_terms_job, data_parallel<4, within<2>, zero<3>, buckets<1>>>(4, {m, 0.5});
  }
  auto const terms = train<two_terms_job<serial>>(threads{}, {.steps = 2}).terms;
  ASSERT_EQ(terms.size(), 4u);
  EXPECT_GT(terms[0], 0);  // the term of the layer
  EXPECT_GT(terms[1], 0);
}

template <int Level>
using within_two = data_parallel<4, within<2>, zero<Level>, buckets<1>>;

TEST(Levels, WithinNeighbours) {
  for (int const m : {1, 2}) {
    expect_serial<job, within_two<1>>(4, {m, 0.5});
    expect_serial<job, within_two<2>>(4, {m, 0.5});
    expect_serial<tied_job, within_two<3>>(4, {m, 0.5});
  }
  expect_serial<tied_job, data_parallel<at_launch, within<2>, zero<3>, buckets<1>>>(6, {2});
}

TEST(Levels, OnThreeAxes) {
  expect_serial<job, on_three_axes<2, small_gpt::tp2>>(2, {4, 0.5});
  expect_serial<job, on_three_axes<3, small_gpt::tp2_sharded>>(2, {4, 0.5});
  expect_serial<tied_job, hybrid<at_launch_level<3>, small_gpt::tp2>>(2, {2, 0.5});
  expect_serial<job, hybrid<pipeline<2, gpipe>, at_launch_level<3>>>(3, {4, 0.5});
}

TEST(Levels, NotFiniteNumbersAreFoundInTheLayerThatMakesThem) {
  auto const text_of = []<class Policy>(Policy) {
    std::string out;
    auto const text = small_gpt::text();
    try {
      launch<tied_job<Policy>>(threads{}, [&](auto& rank) {
        auto trainer = plait::trainer<tied_job<Policy>>(rank, sgd{.learning_rate = 1e200});
        auto batches = plait::batches(text, global_batch<24>{}, rank, {.epochs = 0});
        for (std::uint64_t step = 0; step < 4; ++step) trainer.step(batches.at(step));
      });
    } catch (not_finite_error const& e) {
      out = e.what();
    }
    return out.substr(0, out.find(" on rank"));
  };
  auto const expected = text_of(serial{});
  EXPECT_NE(expected, "");
  EXPECT_EQ(text_of(data_parallel<2, zero<1>, buckets<1>>{}), expected);
  EXPECT_EQ(text_of(data_parallel<2, zero<3>, buckets<1>>{}), expected);
}

TEST(Levels, StepsThatAreNotFiniteAreLeftOut) {
  auto const weights_of = []<class Policy>(Policy) {
    tensors out, first;
    auto const text = small_gpt::text();
    launch<tied_job<Policy>>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<tied_job<Policy>>(
          rank, sgd{.learning_rate = 1e200}, {.on_not_finite = trainer_options::not_finite::skip});
      auto batches = plait::batches(text, global_batch<24>{}, rank, {.epochs = 0});
      auto const into = [](tensors& to) {
        return [&to](std::string const& name, parameter_info const&, auto const& values) {
          to[name].assign(values.begin(), values.end());
        };
      };
      for (std::uint64_t step = 0; step < 4; ++step) {
        auto const report = trainer.step(batches.at(step));
        EXPECT_EQ(report.skipped, std::int64_t(step));
        EXPECT_EQ(std::isfinite(report.loss) && std::isfinite(report.gradient_norm), step == 0);
        if (step == 0) trainer.export_parameters(into(first));
      }
      trainer.export_parameters(into(out));
    });
    EXPECT_EQ(out, first);
  };
  weights_of(serial{});
  weights_of(data_parallel<2, zero<1>, buckets<1>>{});
  weights_of(data_parallel<2, zero<3>, buckets<1>>{});
}

// --- programs that are wrong: each fault is found by what it does

using faulty_job = tied_job<data_parallel<4, within<2>, zero<3>, buckets<1>>>;
using faulty_plan = faulty_job::plan_type;

/// Runs two steps with a program; returns the parameters that optimizers own then, and the norms.
std::vector<double> steps_by(listed_program const& with) {
  std::vector<std::vector<double>> of_ranks(4);
  auto const text = small_gpt::text();
  launch<faulty_job>(threads{}, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    plait::execution::trainer_parts<faulty_job, rank_type, sgd> parts(
        rank, sgd{.learning_rate = 0.1}, {.clip = 0.01});
    parts.set_up();
    auto all = batches(text, global_batch<24>{}, rank, {.microbatches = 2});
    auto& out = of_ranks[std::size_t(rank.world_rank())];
    for (std::uint64_t step = 0; step < 2; ++step) {
      auto const mine = parts.calls();
      auto const batch = all.at(step);
      auto frame = parts.begin(batch, plait::execution::trainer_program::whole_step);
      plait::execution::step_executor<rank_type> program(rank, with.list, with.program);
      parts.executor.run(program, frame);
      auto const report = parts.read_report();
      out.insert(out.end(), {report.loss, report.gradient_norm});
      ++parts.held.step;
    }
    for (auto const& block : parts.store.owned()) {
      std::vector<double> values(block.elements.count);
      rank.device().download(parts.store.parameters_of(block), values.data(),
                             values.size() * sizeof(double));
      rank.device().synchronize();
      out.insert(out.end(), values.begin(), values.end());
    }
  });
  std::vector<double> out;
  for (auto const& one : of_ranks) out.insert(out.end(), one.begin(), one.end());
  return out;
}

TEST(LevelsMutants, AreFound) {
  auto const right = listed_program::of<faulty_plan>(faulty_plan::grid);
  auto const expected = steps_by(right);
  EXPECT_EQ(steps_by(right), expected);
  EXPECT_FALSE(std::isnan(expected[0]));
  auto const expect_found = [&](char const* name, auto change) {
    auto changed = right;
    change(changed);
    auto const got = steps_by(changed);
    bool is_found = false;  // found by a difference that exceeds rounding
    for (std::size_t i = 0; i < got.size(); ++i)
      is_found = is_found || !(std::abs(got[i] - expected[i]) < 1e-9);
    EXPECT_TRUE(is_found) << name;
  };
  auto const leave_out = [&](char const* name, operation_kind what, transfer_place place,
                             int which) {
    expect_found(name, [&](auto& of) { of.erase(of.find(what, place, which)); });
  };
  using enum transfer_place;
  leave_out("a bucket of parameters not gathered", operation_kind::row, parameters, 3);
  leave_out("a block not put where it is gathered", operation_kind::copy_block, parameters, 3);
  leave_out("a block that owners have updated not gathered", operation_kind::row, gather_parameters,
            1);
  leave_out("a microbatch's gradients not summed", operation_kind::row, microbatch_gradients, 2);
  leave_out("a block not added to the step's", operation_kind::accumulate, labels, 1);
  leave_out("tied uses not added", operation_kind::add, labels,
            int(std::ranges::count(right.program.operations, operation_kind::add,
                                   &program_operation::what)) -
                1);
  leave_out("groups not added up", operation_kind::row, gradients, 0);
  expect_found("a border of blocks moved", [&](auto& of) {
    for (auto& row : of.list)
      if (row.place == gradients) row.offset += 64;
  });
  expect_found("a bucket at the other end of its room", [&](auto& of) {
    auto& one = of.program.operations[of.find(operation_kind::row, parameters, 2)];
    one.at_end = !one.at_end;
  });
  expect_found("groups added up before the last microbatch", [&](auto& of) {
    auto const row = of.find(operation_kind::row, gradients, 0);
    auto const first = of.find(operation_kind::accumulate, labels, 0);
    of.move(row, first + 1);
  });
  expect_found("a sum of a step that goes on from the one before", [&](auto& of) {
    of.program.operations[of.find(operation_kind::accumulate, labels, 0)].begins = false;
  });
}

}  // namespace
