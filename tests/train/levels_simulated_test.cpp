// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=20
//
// Ranks that hold blocks of gradients, or of parameters, too, on simulated devices: no operation
// reads memory that is undefined or not yet written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/train/trainer_parts.hpp"
#include "testing/event_orders.hpp"
#include "train/levels.hpp"

namespace {

using namespace levels;

// --- rooms: memory that is no longer used becomes undefined

using rooms_job = tied_job<at_launch_level<3>>;

/// Returns the report of the simulated devices on one step with a changed program. After a correct
/// program it calls look(parts).
std::string found_in_step(auto change, auto look) {
  std::string out;
  auto const text = small_gpt::text();
  try {
    launch<rooms_job>(simulated{.data_ranks = 2}, [&](auto& rank) {
      using rank_type = std::remove_cvref_t<decltype(rank)>;
      auto changed = listed_program::of<rooms_job::plan_type>(rank.grid());
      change(changed);
      plait::execution::trainer_parts<rooms_job, rank_type, adamw> parts(rank, adamw{},
                                                                         {.clip = 0.5});
      parts.set_up();
      auto all = batches(text, global_batch<24>{}, rank, {.microbatches = 2});
      auto const mine = parts.calls();
      auto const batch = all.at(0);
      auto frame = parts.begin(batch, plait::execution::trainer_program::whole_step);
      plait::execution::step_executor<rank_type> program(rank, changed.list, changed.program);
      parts.executor.run(program, frame);
      parts.read_report();
      look(parts);
    });
  } catch (error const& e) {
    out = e.what();
  }
  return out;
}
std::string found_in_step(auto change) {
  return found_in_step(change, [](auto const&) {});
}

TEST(LevelsRooms, AreEmptyAfterAStep) {
  auto const expect_nothing = [](auto const* arena, element_range const& room) {
    ASSERT_GT(room.count, 0u);
    auto const bytes = std::as_bytes(std::span(arena + room.offset, room.count));
    // These bytes were never written.
    EXPECT_EQ(std::ranges::count(bytes, std::byte{0xff}), std::ssize(bytes));
  };
  auto const found =
      found_in_step([](auto&) {},
                    [&](auto const& parts) {
                      auto const& layout = parts.store.layout();
                      auto const& kept = layout.parameters_at;
                      expect_nothing(parts.store.compute_parameters(), kept.room);
                      expect_nothing(parts.store.compute_parameters(), kept.frozen_room);
                      expect_nothing(parts.store.gradients(), layout.gradients_at.room);
                    });
  EXPECT_EQ(found, "");
}

/// Returns the first operation after `from` that touches the first buffer that operation `of`
/// writes.
std::size_t next_that_touches(step_program const& program, std::size_t of, std::size_t from) {
  int const buffer = program.touched[of].writes[0];
  for (std::size_t i = from + 1; i < program.operations.size(); ++i)
    for (auto const* const some : {&program.touched[i].reads, &program.touched[i].writes})
      if (std::ranges::find(*some, buffer) != some->end()) return i;
  return 0;
}

TEST(LevelsRooms, ParametersThatAreNotGatheredInTimeAreMissed) {
  auto const right =
      listed_program::of<rooms_job::plan_type>(rooms_job::plan_type::grid.with_ranks_at_launch(2));
  auto const& operations = right.program.operations;
  int gathers = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].what != operation_kind::copy_block) continue;
    std::size_t const row = i + 1, use = next_that_touches(right.program, i, row);
    // Positions do not read their parameter in the backward, which no plan can know.
    bool const is_forward = operations[use].what == operation_kind::forward;
    if (!is_forward && operations[use].units.begin == 1) continue;
    ++gathers;
    auto const expect_missed = [&](char const* why, auto change) {
      auto const text = found_in_step(change);
      EXPECT_NE(text.find(why), std::string::npos) << i << ": " << text;
      EXPECT_NE(text.find(is_forward ? " forward) on" : " backward) on"), std::string::npos)
          << text;
    };
    expect_missed("reads bytes that were never written", [&](auto& of) { of.erase(row); });
    expect_missed("not in an arena", [&](auto& of) { of.erase(row), of.erase(i); });
    expect_missed("not in an arena", [&](auto& of) { of.move(i, use), of.move(i, use); });
  }
  EXPECT_EQ(gathers, 21);
}

TEST(LevelsRooms, GradientsThatAreNotTakenInTimeAreMissed) {
  auto const right =
      listed_program::of<rooms_job::plan_type>(rooms_job::plan_type::grid.with_ranks_at_launch(2));
  auto const& operations = right.program.operations;
  int sums = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].what != operation_kind::accumulate) continue;
    // Searches after the next backward that writes gradients to this memory.
    std::size_t made = i;
    while (operations[made].what != operation_kind::add ||
           operations[made].bucket != operations[i].bucket)
      --made;
    std::size_t const next = next_that_touches(right.program, made, i);
    if (next == 0) continue;  // the last operations
    ++sums;
    ASSERT_EQ(operations[next].what, operation_kind::backward);
    EXPECT_NE(found_in_step([&](auto& of) { of.move(i, next); }).find("never written"),
              std::string::npos)
        << i;
  }
  EXPECT_GT(sums, 6);
}

// --- races

template <class Job>
void expect_no_race(std::uint64_t seeds, settings const& with) {
  auto const expected = train<Job>(threads{.data_ranks = 2}, with);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(seeds); ++seed) {
    auto const got =
        train<Job>(simulated{.data_ranks = 2, .seed = seed, .statistics = &statistics}, with);
    ASSERT_EQ(got.numbers, expected.numbers) << "seed " << seed;
    ASSERT_EQ(got.weights, expected.weights) << "seed " << seed;
  }
  auto const list = transfers_of<typename Job::plan_type>(
      0, {.rows = small_gpt::length, .data_ranks = 2}, job_part::training);
  auto const is_message = [&](int row) {
    return row >= 0 && communicates(list[std::size_t(row)].row().moves) &&
           list[std::size_t(row)].row().moves == collective::send;
  };
  for (auto const& site : statistics.sites)
    if (site.where == wait_site::part::step) {
      // These waits are implied by others: the host has waited for a step and for the data that it
      // reads; messages within a layer have waited for earlier computations; positions do not read
      // their parameter in the backward, which no plan can know.
      auto const kind = [](int number) { return number % (1 << 16); };
      if (kind(site.awaited) == int(operation_kind::send) ||
          kind(site.waiting) == int(operation_kind::read) || is_message(row_of_site(site.waiting)))
        continue;
      if (kind(site.waiting) == int(operation_kind::backward) && site.waiting / (1 << 16) == 2)
        continue;
      EXPECT_THROW(train<Job>(simulated{.data_ranks = 2, .without = site}, with), race_error)
          << to_string(site);
    }
}

TEST(LevelsSimulated, HaveNoRaceAndNoWaitTooMany) {
  expect_no_race<job<at_launch_level<1>>>(2, {2, 0.5, 3});
  expect_no_race<tied_job<at_launch_level<2>>>(2, {2, 0.5, 3});
  expect_no_race<tied_job<at_launch_level<3>>>(2, {2, 0.5, 3});
  expect_no_race<tied_job<data_parallel<2, within<1>, zero<3>, buckets<1>>>>(2, {2, 0.5, 3});
  expect_no_race<job<on_three_axes<3, small_gpt::tp2_sharded>>>(2, {4, 0.5, 3});
}

}  // namespace
