// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=15
//
// Gradients that are reduced bucket by bucket while the backward runs have the bits of gradients
// that are reduced after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "testing/event_orders.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using tensors = std::map<std::string, std::vector<double>>;

// The table has two uses on one stage; six of its rows are padding. The positions and the first of
// the blocks are frozen.
template <name TableForm, name HeadForm>
using tied_model = objective<
    sequential<named<"wte", use_form<TableForm, small_gpt::table>>,
               named<"wpe", frozen<nn::positions<small_gpt::length, small_gpt::width>>>,
               named<"h0", frozen<small_gpt::block>>, named<"h", repeat<3, small_gpt::block>>,
               named<"ln_f", nn::layer_norm<small_gpt::width>>,
               named<"lm_head", use_form<HeadForm, small_gpt::tied_head>>>,
    nn::cross_entropy<small_gpt::tied_vocabulary,
                      nn::cross_entropy_options{.padded_to = small_gpt::vocabulary}>>;
template <class Policy, class Element = double>
struct tied_job : parallel<tied_model<"vocabulary", "column">, Policy, Element> {};
// The gradient of the second use is summed over the tensor ranks before it is added.
template <class Policy, class Element = double>
struct summed_ties : parallel<tied_model<"whole", "sequence">, Policy, Element> {};
template <class Policy, class Element = double>
struct job : parallel<small_gpt::objective, Policy, Element> {};

struct outcome {
  std::vector<double> numbers;  ///< the loss and the norm of each step
  tensors weights, gradients;

  friend bool operator==(outcome const&, outcome const&) = default;
};

struct settings {
  int microbatches = 1;
  double clip = 1.0;
  int steps = 6;
};

template <class Job>
outcome train(auto const& backend, settings const& with) {
  auto const text = small_gpt::text();
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    using parameter_element = typename Job::parameter_element;
    using gradient_element = typename Job::gradient_element;
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 1e-2}, {.clip = with.clip});
    auto batches = plait::batches(text, global_batch<24>{}, rank,
                                  {.epochs = 0, .microbatches = with.microbatches});
    for (int step = 0; step < with.steps; ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      if (rank.is_root())
        out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm});
    }
    auto const into = [&]<class T>(tensors& to, T) {
      return [&to](std::string const& name, parameter_info const&, std::span<T const> values) {
        to[name].assign(values.begin(), values.end());
      };
    };
    trainer.export_parameters(into(out.weights, parameter_element{}));
    trainer.export_gradients(into(out.gradients, gradient_element{}));
    workload const load{.rows = 24 * small_gpt::length / std::size_t(with.microbatches) /
                                std::size_t(rank.grid().size(axis::data)),
                        .microbatches = with.microbatches,
                        .data_ranks = rank.grid().size(axis::data),
                        .gradient_norm = with.clip > 0};
    auto const need = Job::plan_type::memory(rank.stage(), load);
    auto const there = trainer.allocated();
    EXPECT_EQ(there.total() - there.workspace, need.total() - need.batches);
  });
  return out;
}

/// A data-parallel policy with options of its axis.
struct alone {
  template <class... Options>
  using with = data_parallel<at_launch, Options...>;
};
struct beside_tensor {
  template <class... Options>
  using with = hybrid<data_parallel<at_launch, Options...>, small_gpt::tp2>;
};
struct beside_sequence {
  template <class... Options>
  using with = hybrid<data_parallel<at_launch, Options...>, small_gpt::tp2_sharded>;
};
struct beside_stages {
  template <class... Options>
  using with = hybrid<pipeline<2>, data_parallel<at_launch, Options...>>;
};
struct on_three_axes {
  template <class... Options>
  using with = hybrid<pipeline<2>, data_parallel<at_launch, Options...>, small_gpt::tp2>;
};

/// Checks that bits are equal with buckets of one unit, with buckets of the usual size, and with a
/// reduction after all passes.
template <template <class, class> class Job, class Policy, class Element, class... Options>
void expect_same_bits(auto const& backend, settings const& with) {
  using behind = Job<typename Policy::template with<Options..., buckets<at_end>>, Element>;
  using of_units = Job<typename Policy::template with<buckets<1>, Options...>, Element>;
  using plan = typename of_units::plan_type;
  auto const grid = plan::grid_for({.data_ranks = 2});
  EXPECT_GT(plan::parameter_layout_for(0, grid).buckets.size(), 2u);
  auto const expected = train<behind>(backend, with);
  EXPECT_FALSE(std::isnan(expected.numbers.back()));
  EXPECT_EQ(train<of_units>(backend, with), expected);
}

TEST(Buckets, OfDataRanksHaveTheSameBits) {
  for (int const ranks : {1, 2, 3, 4})
    for (int const microbatches : {1, 2})
      expect_same_bits<job, alone, double>(threads{.data_ranks = ranks}, {microbatches});
}
TEST(Buckets, OfTheUsualSizeHaveTheSameBits) {
  using usual = job<beside_stages::with<>>;
  using behind = job<beside_stages::with<buckets<at_end>>>;
  static_assert(usual::plan_type::bucket_bytes == 4_MiB);
  EXPECT_EQ(train<usual>(threads{.data_ranks = 2}, {4, 0}),
            train<behind>(threads{.data_ranks = 2}, {4, 0}));
}
TEST(Buckets, OfTiedAndFrozenLayersHaveTheSameBits) {
  expect_same_bits<tied_job, alone, float>(threads{.data_ranks = 3}, {2, 0});
  expect_same_bits<summed_ties, beside_sequence, double>(threads{.data_ranks = 2}, {1});
  expect_same_bits<summed_ties, beside_sequence, double>(simulated{.data_ranks = 2}, {4, 0, 2});
}
TEST(Buckets, OfStagesAndTensorRanksHaveTheSameBits) {
  expect_same_bits<job, on_three_axes, precision<plait::bfloat16, float>>(threads{.data_ranks = 2},
                                                                          {4});
}
TEST(Buckets, OfBlocksHaveTheSameBits) {
  expect_same_bits<tied_job, beside_tensor, double, zero<1>>(threads{.data_ranks = 2}, {2, 0});
  expect_same_bits<job, beside_stages, precision<plait::bfloat16, float>, zero<1>>(
      threads{.data_ranks = 3}, {4, 0});
}

// Squares are summed in other blocks.
TEST(Buckets, OfBlocksClipAlike) {
  auto const behind =
      train<job<alone::with<zero<1>, buckets<at_end>>>>(threads{.data_ranks = 3}, {2, 0.1});
  auto const of_units =
      train<job<alone::with<zero<1>, buckets<1>>>>(threads{.data_ranks = 3}, {2, 0.1});
  for (std::size_t i = 0; i < behind.numbers.size(); ++i)
    EXPECT_NEAR(of_units.numbers[i], behind.numbers[i], 1e-12);
  for (auto const& [name, values] : behind.weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(of_units.weights.at(name)[i], values[i], 1e-12) << name;
}

// Checks that each wait between operations of the program is needed.
template <class Job>
void expect_each_wait_needed(settings const& with, std::uint64_t seeds) {
  auto const expected = train<Job>(threads{.data_ranks = 2}, with);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(seeds); ++seed)
    ASSERT_EQ(train<Job>(simulated{.data_ranks = 2, .seed = seed, .statistics = &statistics}, with),
              expected)
        << seed;
  // Later messages of the passes over the tensor axis have waited for the head's accumulator.
  auto const list = transfers_of<typename Job::plan_type>(0, {.data_ranks = 2}, job_part::training);
  auto const is_of_ties = [&](wait_site const& site) {
    int const row = site.where == wait_site::part::step ? row_of_site(site.waiting) : -1;
    return row >= 0 && row < int(list.size()) &&
           list[std::size_t(row)].place == transfer_place::ties;
  };
  for (auto const& site : statistics.sites) {
    if (site.where != wait_site::part::step || is_of_ties(site)) continue;
    // The host has waited for a step, and waits for the data that it reads.
    if (site.awaited == int(operation_kind::send) || site.waiting == int(operation_kind::read))
      continue;
    EXPECT_THROW(train<Job>(simulated{.data_ranks = 2, .without = site}, with), race_error)
        << to_string(site);
  }
}
TEST(BucketsSimulated, HaveNoRaceAndNoWaitTooMany) {
  expect_each_wait_needed<summed_ties<beside_sequence::with<buckets<1>>>>({2, 1.0, 1}, 5);
  expect_each_wait_needed<job<beside_stages::with<zero<1>, buckets<1>>>>({2, 1.0, 1}, 5);
}

// --- how the arena is cut

template <class Job>
void expect_cut(std::size_t least_bytes) {
  using plan = typename Job::plan_type;
  auto const grid = plan::grid_for({.data_ranks = 2});
  for (int stage = 0; stage < plan::stages; ++stage) {
    auto const layout = plan::parameter_layout_for(stage, grid);
    std::size_t next = 0;
    for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
      auto const& one = layout.buckets[b];
      EXPECT_EQ(one.elements.offset, next);
      EXPECT_GT(one.elements.count, 0u);
      next = one.elements.end();
      if (one.region == 1) {
        EXPECT_EQ(one.elements, layout.regions[1]);
        continue;
      }
      EXPECT_EQ(layout.parameter_base[std::size_t(one.units.begin)], one.elements.offset);
      // A smaller bucket ends where a chunk begins, follows a unit that owns a tied parameter, or
      // is such a unit.
      bool const is_small = one.elements.count * plan::gradient_bytes < least_bytes;
      auto const owns = [&](int unit) {
        return std::ranges::any_of(layout.entries, [&](entry_place const& entry) {
          return entry.is_tied && entry.unit == unit;
        });
      };
      if (is_small) {
        EXPECT_TRUE(b == 0 || owns(one.units.begin) || owns(layout.buckets[b - 1].units.begin));
      }
      if (owns(one.units.begin)) {
        EXPECT_EQ(one.units.count(), 1);
      }
    }
    EXPECT_EQ(next, layout.count());
  }
}
TEST(Buckets, ConsistOfWholeUnits) {
  expect_cut<job<on_three_axes::with<buckets<1>>>>(1);
  expect_cut<job<alone::with<buckets<5000>>>>(5000);
  expect_cut<summed_ties<beside_sequence::with<buckets<5000>>>>(5000);
  expect_cut<tied_job<alone::with<>>>(4_MiB);
  // Buckets of one length are one row of the list, for any number of copies in a repeat.
  using plan = job<alone::with<buckets<1>>>::plan_type;
  auto const list = transfers_of<plan>(0, {.data_ranks = 2}, job_part::training);
  auto const rows = std::ranges::count(list, transfer_place::gradients, &transfer::place);
  auto const copies = std::ranges::count_if(list, [](transfer const& row) {
    return row.place == transfer_place::gradients && row.times == 2 && row.stride == row.count;
  });
  EXPECT_EQ(rows, 5);
  EXPECT_EQ(copies, 1);
}

// --- programs that are wrong: each fault is found by what it does

struct faulty_outcome {
  double norm = 0;
  std::vector<double> weights;
  friend bool operator==(faulty_outcome const&, faulty_outcome const&) = default;
};

using faulty_job = tied_job<data_parallel<2, buckets<1>>>;
using faulty_plan = faulty_job::plan_type;
workload const faulty_load{.rows = 4 * small_gpt::length, .microbatches = 2, .gradient_norm = true};

struct listed_program {
  plait::ext::lean_vector<transfer> list =
      transfers_of<faulty_plan>(0, faulty_load, job_part::training);
  step_program program =
      program_of<faulty_plan>(faulty_plan::grid, list, 0, job_part::training,
                              training_timetable<faulty_plan::schedule_type>(1, 2).stages[0],
                              {.clips = true, .updates = true});

  [[nodiscard]] std::size_t find(operation_kind what, int bucket) const {
    for (std::size_t i = 0; i < program.operations.size(); ++i)
      if (auto const& now = program.operations[i]; now.what == what && now.bucket == bucket)
        return i;
    ADD_FAILURE() << to_string(what) << " of bucket " << bucket << " is not there";
    return 0;
  }
  void move(std::size_t from, std::size_t to) {
    auto const at = [](auto& all, std::size_t i) { return all.begin() + std::ptrdiff_t(i); };
    auto const go = [&](auto& all) {
      auto const one = all[from];
      all.erase(at(all, from));
      all.insert(at(all, to), one);
    };
    go(program.operations);
    go(program.touched);
  }
};

/// Runs one step with a program, on ranks of a backend.
std::vector<faulty_outcome> step_by(listed_program const& with, auto const& backend) {
  std::vector<faulty_outcome> out(2);
  auto const text = small_gpt::text();
  launch<faulty_job>(backend, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    plait::execution::trainer_parts<faulty_job, rank_type, sgd> parts(
        rank, sgd{.learning_rate = 0.1}, {.clip = 0.01});
    parts.set_up();
    auto all = batches(text, global_batch<16>{}, rank, {.microbatches = 2});
    auto const mine = parts.calls();
    auto const batch = all.at(0);
    auto frame = parts.begin(batch, plait::execution::trainer_program::whole_step);
    plait::execution::step_executor<rank_type> program(rank, with.list, with.program);
    parts.executor.run(program, frame);
    auto const report = parts.read_report();
    std::vector<double> weights(parts.store.layout().kept_count());
    rank.device().download(parts.store.compute_parameters(), weights.data(),
                           weights.size() * sizeof(double));
    rank.device().synchronize();
    out[std::size_t(rank.world_rank())] = {report.gradient_norm, weights};
  });
  return out;
}

TEST(BucketsMutants, AreFound) {
  listed_program const right;
  auto const expected = step_by(right, threads{});
  EXPECT_EQ(expected[0], expected[1]);
  EXPECT_EQ(step_by(right, simulated{}), expected);
  int const last = int(faulty_plan::parameter_layout_for(0, faulty_plan::grid).buckets.size()) - 1;
  auto const row = [&](int bucket) { return right.find(operation_kind::row, bucket); };
  auto const expect_found = [&](char const* name, auto change) {
    auto changed = right;
    change(changed);
    EXPECT_NE(step_by(changed, threads{}), expected) << name;
  };
  expect_found("a bucket launched one unit early",
               [&](auto& of) { of.move(row(last - 1), row(last - 1) - 1); });
  expect_found("a bucket left out", [&](auto& of) {
    of.program.operations.erase(of.program.operations.begin() + std::ptrdiff_t(row(1)));
    of.program.touched.erase(of.program.touched.begin() + std::ptrdiff_t(row(1)));
  });
  expect_found("a bucket doubled", [&](auto& of) {
    auto const at = std::ptrdiff_t(row(1));
    of.program.operations.insert(of.program.operations.begin() + at, of.program.operations[row(1)]);
    of.program.touched.insert(of.program.touched.begin() + at, of.program.touched[row(1)]);
  });
  expect_found("two swapped", [&](auto& of) {
    std::swap(of.program.operations[row(1)], of.program.operations[row(2)]);
  });
  expect_found("a tied use added and padding cleared after its bucket went",
               [&](auto& of) { of.move(row(0), right.find(operation_kind::add, 0)); });
  expect_found("a bucket's stride too short", [&](auto& of) {
    for (auto& one : of.list)
      if (one.place == transfer_place::gradients && one.times > 1) one.stride -= 64;
  });
  // In turn no operation starts early: the update without the wait is a race.
  auto no_wait = right;
  auto const update = right.find(operation_kind::update, -1);
  for (auto const at :
       {right.find(operation_kind::square, -1), update, right.find(operation_kind::clip, -1)})
    no_wait.program.touched[at].reads.clear();
  EXPECT_THROW(step_by(no_wait, simulated{}), race_error);
}

}  // namespace
