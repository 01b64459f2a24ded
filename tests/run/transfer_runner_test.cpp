// SPDX-License-Identifier: Apache-2.0
// Runs each operation of a list on threads with small integers, and compares with sums that are
// calculated here from the coordinates of the ranks. Memory around a row's elements must not
// change.
#include "plait/run/transfer_runner.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "plait/plait.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using execution::transfer_runner;

using numbers = std::vector<double>;
using rank_type = threads::rank_type;

constexpr std::size_t room = 32;

/// Returns an element of the arena of rank `rank`.
double number(int rank, std::size_t i) { return double((rank + 2) * (int(i) + 3) % 23) - 9; }
numbers numbers_of(int rank) {
  numbers out(room);
  for (std::size_t i = 0; i < room; ++i) out[i] = number(rank, i);
  return out;
}
/// Returns the sum of an element over the ranks that differ from `rank` only along `over`.
double sum_over(mesh const& grid, int rank, axis_set over, std::size_t i) {
  double out = 0;
  for (int const member : grid.group_of(rank, over)) out += number(member, i);
  return out;
}

constexpr placement from_third{placement_kind::only, 2};
constexpr placement elements = shard<dim::elements>;

/// Two stages of three data ranks.
mesh stages_and_data() {
  mesh grid;
  grid.add(axis::stage, 2);
  grid.add(axis::data, 3);
  return grid;
}
axis_sets const all_sets{axis::data, axis::stage, axis::data | axis::stage};

transfer row(placements const& from, placements const& to, std::size_t count, std::size_t offset) {
  return {.from = from, .to = to, .count = count, .offset = offset};
}
placements on_data(placement at) { return placements{}.with(axis::data, at); }

/// Runs each row in its own arena; expected(rank, number of the row, element) is the final value of
/// an element.
template <class Expected>
void expect_rows(mesh const& grid, plait::ext::lean_vector<transfer> const& list,
                 Expected expected) {
  threads{}.run({grid, all_sets}, [&](rank_type& rank) {
    transfer_runner<rank_type> const transfers(rank, list);
    for (std::size_t r = 0; r < list.size(); ++r) {
      auto here = numbers_of(rank.world_rank());
      transfers.run({.row = int(r)}, here.data());
      for (std::size_t i = 0; i < room; ++i) {
        auto const wanted = expected(rank, int(r), i);
        EXPECT_EQ(here[i], wanted)
            << "row " << r << ", element " << i << ", rank " << rank.world_rank();
      }
    }
  });
}

TEST(ExchangeRunner, SumsUpOverTheAxesOfARow) {
  auto const grid = stages_and_data();
  placements const both = on_data(partial).with(axis::stage, partial);
  expect_rows(
      grid, {row(on_data(partial), {}, 6, 0), row(on_data(partial), {}, 6, 5), row(both, {}, 4, 7)},
      [&](rank_type& rank, int number_of_row, std::size_t i) {
        int const me = rank.world_rank();
        if (number_of_row == 2)
          return i >= 7 && i < 11 ? sum_over(grid, me, axis::data | axis::stage, i) : number(me, i);
        std::size_t const begin = number_of_row == 0 ? 0 : 5;
        return i >= begin && i < begin + 6 ? sum_over(grid, me, axis::data, i) : number(me, i);
      });
}

TEST(ExchangeRunner, SumsUpNumbersFromTheirBegin) {
  auto const grid = stages_and_data();
  plait::ext::lean_vector<transfer> const list{row(on_data(partial), {}, 3, 0)};
  threads{}.run({grid, all_sets}, [&](rank_type& rank) {
    int const me = rank.world_rank();
    auto here = numbers_of(me);
    transfer_runner<rank_type>(rank, list).sum(0, here.data());
    for (std::size_t i = 0; i < room; ++i)
      EXPECT_EQ(here[i], i < 3 ? sum_over(grid, me, axis::data, i) : number(me, i));
  });
}

TEST(ExchangeRunner, LeavesTheSumOfItsBlockToEachRank) {
  auto const grid = stages_and_data();
  plait::ext::lean_vector<transfer> const list{row(on_data(partial), on_data(elements), 12, 5)};
  threads{}.run({grid, all_sets}, [&](rank_type& rank) {
    int const me = rank.world_rank();
    auto here = numbers_of(me);
    transfer_runner<rank_type>(rank, list).run({.row = 0}, here.data());
    std::size_t const begin = 5 + 4 * std::size_t(rank.coordinates().along(axis::data));
    for (std::size_t i = 0; i < room; ++i) {
      bool const is_mine = i >= begin && i < begin + 4;
      if (!is_mine && i >= 5 && i < 17) continue;  // blocks of other ranks are unspecified
      EXPECT_EQ(here[i], is_mine ? sum_over(grid, me, axis::data, i) : number(me, i)) << i;
    }
  });
}

TEST(ExchangeRunner, GathersBlocks) {
  auto const grid = stages_and_data();
  expect_rows(grid, {row(on_data(elements), {}, 12, 5)}, [&](rank_type& rank, int, std::size_t i) {
    int const me = rank.world_rank();
    if (i < 5 || i >= 17) return number(me, i);
    return number(grid.group_of(me, axis::data)[(i - 5) / 4], i);
  });
}

TEST(ExchangeRunner, SendsFromOneRankToAll) {
  auto const grid = stages_and_data();
  expect_rows(grid, {row(on_data(from_third), {}, 4, 3)}, [&](rank_type& rank, int, std::size_t i) {
    int const me = rank.world_rank();
    return i < 3 || i >= 7 ? number(me, i) : number(grid.group_of(me, axis::data)[2], i);
  });
}

TEST(ExchangeRunner, IsOneEndOfAMessageOrTheOther) {
  auto const grid = stages_and_data();
  expect_rows(grid,
              {row(placements{}.on_stage(0), placements{}.on_stage(1), 4, 3),
               row(placements{}.on_stage(1), placements{}.on_stage(0), 2, 9)},
              [&](rank_type& rank, int number_of_row, std::size_t i) {
                bool const is_moved = number_of_row == 0 ? i >= 3 && i < 7 : i >= 9 && i < 11;
                int const sender =
                    grid.group_of(rank.world_rank(), axis::stage)[std::size_t(number_of_row)];
                return number(is_moved ? sender : rank.world_rank(), i);
              });
}

TEST(ExchangeRunner, TellsMessagesApartByTheirTags) {
  plait::ext::lean_vector<transfer> const list{
      row(placements{}.on_stage(0), placements{}.on_stage(1), 1, 0)};
  threads{}.run({stages_and_data(), all_sets}, [&](rank_type& rank) {
    transfer_runner<rank_type> const transfers(rank, list);
    EXPECT_EQ(transfers.row(0).is_sent_here, rank.stage() == 0);
    EXPECT_EQ(transfers.row(0).other, 1 - rank.stage());
    for (int tag : {3, 4}) {
      double here = rank.stage() == 0 ? 10 * tag : 0;
      transfers.run({.row = 0}, &here, tag);
      EXPECT_EQ(here, 10 * tag);
    }
  });
}

TEST(ExchangeRunner, GivesEachRankTheBlockOfItsNumber) {
  auto const grid = stages_and_data();
  plait::ext::lean_vector<transfer> const list{row(on_data(sliced), on_data(elements), 18, 0)};
  threads{}.run({grid, all_sets}, [&](rank_type& rank) {
    transfer_runner<rank_type> const transfers(rank, list);
    EXPECT_EQ(transfers.row(0).moves, collective::all_to_all);
    numbers const sent = numbers_of(rank.world_rank());
    numbers received(6);
    // The work before the transfer sees nothing yet, the work after it all blocks.
    struct seen {
      numbers const& received;
      mutable numbers before{}, after{};
    } const looks{received};
    plait::detail::call_work const work{.run =
                                            [](plait::detail::call_work const& of, bool is_after) {
                                              auto const& now = *static_cast<seen const*>(of.by);
                                              (is_after ? now.after : now.before) = now.received;
                                            },
                                        .by = &looks};
    transfers.run_piece(0, std::span<double const>(sent.data(), 6), std::span<double>(received),
                        work);
    EXPECT_EQ(looks.before, numbers(6));
    EXPECT_EQ(looks.after, received);
    auto const members = grid.group_of(rank.world_rank(), axis::data);
    auto const mine = std::size_t(rank.coordinates().along(axis::data));
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(received[i], number(members[i / 2], 2 * mine + i % 2)) << i;
  });
}

TEST(ExchangeRunner, HasNoGroupForARowOfOneRank) {
  mesh grid;
  grid.add(axis::data, 1);
  grid.add(axis::stage, 2);
  plait::ext::lean_vector<transfer> const list{
      row(on_data(partial), {}, 6, 1), row(placements{}.with(axis::stage, partial), {}, 6, 1)};
  threads{}.run({grid, all_sets}, [&](rank_type& rank) {
    transfer_runner<rank_type> const transfers(rank, list);
    EXPECT_EQ(transfers.row(0).group, nullptr);
    EXPECT_EQ(transfers.row(0).moves, collective::all_reduce);
    EXPECT_EQ(transfers.row(1).group, &rank.group(axis::stage));
  });
}

// --- a block of an arena where another axis has left one block -----------------------------------

using body = objective<sequential<nn::linear<8, 24>, nn::linear<24, 4>>, nn::cross_entropy<4>>;
template <class... Policies>
struct job : parallel<body, hybrid<Policies...>> {};

/// Checks that the list's rows for the gradients leave the sum over all ranks in the block that an
/// optimizer owns, and that the rows after the update copy the blocks to all ranks.
template <class Job>
void expect_sums_of_blocks() {
  using plan = typename Job::plan_type;
  launch<Job>(threads{}, [&](auto& rank) {
    auto const& grid = rank.grid();
    auto const list = execution::transfers_on<plan>(rank, {}, job_part::training);
    transfer_runner<std::remove_cvref_t<decltype(rank)>> const transfers(rank, list);
    auto const arena = plan::parameter_layout_for(rank.stage(), grid);
    auto const count = arena.count();
    std::vector<float> here(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      here[i] = float(number(rank.world_rank(), i));
      for (int other = 0; other < grid.world_size(); ++other)
        expected[i] += float(number(other, i));
    }
    auto const run = [&](transfer_place place) {
      int rows = 0;
      for (std::size_t r = 0; r < list.size(); ++r)
        if (list[r].place == place && transfers.row(int(r)).group != nullptr)
          transfers.run({.row = int(r)}, here.data()), ++rows;
      return rows;
    };
    EXPECT_EQ(run(transfer_place::gradients), 2);
    // Six blocks: cut along data first, and each of these along replica.
    auto const& region = arena.regions[0];
    ASSERT_EQ(region.count, count);
    std::size_t const block = count / 6;
    std::size_t const mine = 2 * std::size_t(rank.coordinates().along(axis::data)) +
                             std::size_t(rank.coordinates().along(axis::replica));
    for (std::size_t i = 0; i < count; ++i) {
      if (i / block != mine) here[i] = -1000;  // a block of another rank
      else EXPECT_EQ(here[i], expected[i]) << i << " of rank " << rank.world_rank();
    }
    EXPECT_EQ(run(transfer_place::gather_parameters), 2);
    EXPECT_EQ(here, expected);
  });
}

TEST(ExchangeRunner, WorksInTheBlockThatAnotherAxisHasLeft) {
  using replicas = small_gpt::sharded_replicas<2>;
  using data = data_parallel<3, zero<1>>;
  expect_sums_of_blocks<job<replicas, data>>();
  expect_sums_of_blocks<job<data, replicas>>();
}

TEST(ExchangeRunner, AddsUpNumbersOfTheHostOverAllRanks) {
  auto const grid = stages_and_data();
  threads{}.run({grid, all_sets}, [&](rank_type& rank) {
    numbers here{double(rank.world_rank()), 1};
    sum_over_world(rank, std::span<double>(here));
    EXPECT_EQ(here, (numbers{15, 6}));
  });
}

}  // namespace
