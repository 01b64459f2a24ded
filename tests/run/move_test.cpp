// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// Executes every row of the transition table on the threads communicator and checks its meaning,
// its result on the ranks, its adjoint, its coherence with the other rows and the bytes that it is
// charged. All data are small integers, so that sums are exact and every comparison is an equality.
#include "plait/run/move.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/core/random.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::execution;

constexpr std::array placements{replicate,
                                invariant,
                                shard<dim::sequence>,
                                shard<dim::features>,
                                shard<dim::features, 3>,
                                partial,
                                only<0>,
                                only<1>};
constexpr std::size_t count = placements.size();

using local = std::vector<double>;    // the block of one rank
using instance = std::vector<local>;  // the blocks of all ranks: one value in one placement
using matrix = std::vector<double>;   // a whole value

// --- the definition of the placements, element by element, independent of the code under test
// -----

/// Calls f(element of the whole, element of the block) for the block of rank `r`.
template <class F>
void for_each_in_block(placement at, whole_shape shape, int ranks, int r, F f) {
  auto const p = static_cast<std::size_t>(ranks), mine = static_cast<std::size_t>(r);
  std::size_t local_index = 0;
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t column = 0; column < shape.width; ++column) {
      std::size_t owner = 0;
      if (at.index == dim::sequence) {
        owner = row / (shape.rows / p);
      } else {
        std::size_t const part = shape.width / static_cast<std::size_t>(at.parts);
        owner = column % part / (part / p);
      }
      if (owner == mine) f(row * shape.width + column, local_index++);
    }
}

std::size_t local_count(placement at, whole_shape shape, int ranks, int r) {
  if (at.kind == placement_kind::only) return at.index == r ? shape.count() : 0;
  return is_shard(at) ? shape.count() / static_cast<std::size_t>(ranks) : shape.count();
}

/// Small integers of both signs, never zero, different for every key.
double number(std::uint32_t key, std::size_t index) {
  auto const word = random_word(random_key{7, key, 0}, index);
  double const size = 1 + static_cast<double>(word % 9);
  return (word >> 16) % 2 == 0 ? size : -size;
}

matrix numbers(std::uint32_t key, whole_shape shape) {
  matrix out(shape.count());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = number(key, i);
  return out;
}

/// Returns a valid instance of `value`. Summands have both signs and are not proportional to their
/// sum.
instance encode(placement at, matrix const& value, whole_shape shape, int ranks) {
  instance out;
  for (int r = 0; r < ranks; ++r) out.emplace_back(local_count(at, shape, ranks, r));
  for (int r = 0; r < ranks; ++r) {
    auto& mine = out[static_cast<std::size_t>(r)];
    if (is_shard(at)) {
      for_each_in_block(at, shape, ranks, r,
                        [&](std::size_t from, std::size_t block) { mine[block] = value[from]; });
    } else if (at == partial) {
      for (std::size_t i = 0; i < mine.size(); ++i)
        mine[i] = number(100 + static_cast<std::uint32_t>(r), i);
    } else if (!mine.empty()) {
      mine = value;
    }
  }
  if (at == partial)  // the last summand makes the sum right
    for (std::size_t i = 0; i < value.size(); ++i) {
      double others = 0;
      for (std::size_t r = 0; r + 1 < out.size(); ++r) others += out[r][i];
      out.back()[i] = value[i] - others;
    }
  return out;
}

matrix decode(placement at, instance const& held, whole_shape shape) {
  auto const ranks = static_cast<int>(held.size());
  matrix out(shape.count(), 0.0);
  for (int r = 0; r < ranks; ++r) {
    auto const& mine = held[static_cast<std::size_t>(r)];
    if (is_shard(at))
      for_each_in_block(at, shape, ranks, r,
                        [&](std::size_t to, std::size_t block) { out[to] = mine[block]; });
    else if (at == partial)
      for (std::size_t i = 0; i < mine.size(); ++i) out[i] += mine[i];
    else if (!mine.empty()) out = mine;
  }
  return out;
}

/// Checks that every rank has exactly its part; whole values have equal bits on all ranks.
::testing::AssertionResult is_valid(placement at, instance const& held, whole_shape shape) {
  auto const ranks = static_cast<int>(held.size());
  for (int r = 0; r < ranks; ++r) {
    auto const& mine = held[static_cast<std::size_t>(r)];
    if (mine.size() != local_count(at, shape, ranks, r))
      return ::testing::AssertionFailure() << "rank " << r << " holds " << mine.size();
    if (is_whole(at) && mine != held[0])
      return ::testing::AssertionFailure() << "rank " << r << " and rank 0 hold different bits";
  }
  return ::testing::AssertionSuccess();
}

/// Returns <x, h> of a value placed `at` and a gradient placed dual(at). An invariant pair is one
/// logical product that every rank repeats: it counts once, or a wrong factor would not be
/// detected.
double pairing(placement at, instance const& x, instance const& h) {
  double sum = 0;
  for (std::size_t r = 0; r < (at == invariant ? 1 : x.size()); ++r)
    for (std::size_t i = 0; i < x[r].size(); ++i) sum += x[r][i] * h[r][i];
  return sum;
}

// --- the table as functions
// ------------------------------------------------------------------------

using move_function = void (*)(host_queue, thread_communicator&, whole_shape, double const*,
                               double*, double*);

/// Moves that communicators do not have, to one rank or from one, by way of `invariant`.
template <placement From, placement To>
void move_in_two(host_queue queue, thread_communicator& comm, whole_shape shape, double const* in,
                 double* out, double* staging) {
  local between(shape.count());
  move_value<From, invariant>(queue, comm, shape, in, between.data(), staging);
  move_value<invariant, To>(queue, comm, shape, between.data(), out, staging);
}

template <std::size_t From, std::size_t To>
constexpr move_function function_for() {
  constexpr placement from = placements[From], to = placements[To];
  constexpr transition row = transition_between(from, to);
  if constexpr (row.is_made())
    return &move_value<from, to, host_queue, thread_communicator, double>;
  else if constexpr (row.allowed()) return &move_in_two<from, to>;
  else return nullptr;
}

constexpr auto functions_table = []<std::size_t... Pair>(std::index_sequence<Pair...>) {
  return std::array{function_for<Pair / count, Pair % count>()...};
}(std::make_index_sequence<count * count>{});

std::size_t index_of(placement at) {
  for (std::size_t i = 0; i < count; ++i)
    if (placements[i] == at) return i;
  ADD_FAILURE() << to_string(at) << " is not in the list";
  return 0;
}

/// One transition to be executed: filled in by all ranks, each its own entries.
struct task {
  placement from{}, to{};
  whole_shape shape{};
  bool in_place = false;
  instance in{}, out{};
  std::vector<std::uint64_t> bytes{};

  [[nodiscard]] transition row() const { return transition_between(from, to); }
  [[nodiscard]] std::string text() const {
    return to_string(from) + " -> " + to_string(to) + " on " + std::to_string(in.size()) +
           " ranks, (" + std::to_string(shape.rows) + ", " + std::to_string(shape.width) + ")" +
           (in_place ? " in place" : "");
  }
};

/// A task that moves `in`; outputs begin as a number that no result contains.
task make_task(placement from, placement to, whole_shape shape, instance in) {
  task made{from, to, shape, false, std::move(in), {}, {}};
  auto const ranks = static_cast<int>(made.in.size());
  for (int r = 0; r < ranks; ++r) made.out.emplace_back(local_count(to, shape, ranks, r), 12345.0);
  made.bytes.assign(made.in.size(), 0);
  return made;
}

/// Executes all tasks on `ranks` threads.
void execute(int ranks, std::vector<task>& tasks) {
  mesh grid;
  grid.add(axis::tensor, ranks);
  threads{}.run(grid, [&](auto& rank) {
    auto& comm = rank.group(axis::tensor);
    auto const r = static_cast<std::size_t>(comm.rank());
    for (auto& now : tasks) {
      auto const function = functions_table[index_of(now.from) * count + index_of(now.to)];
      local in = now.in[r], staging(now.shape.count());
      comm.reset_counted();
      if (now.in_place) {
        function(rank.device().on(stream::tensor), comm, now.shape, in.data(), in.data(),
                 staging.data());
        now.out[r] = in;
      } else {
        function(rank.device().on(stream::tensor), comm, now.shape, in.data(), now.out[r].data(),
                 staging.data());
        EXPECT_EQ(in, now.in[r]) << now.text() << " wrote to its input on rank " << r;
      }
      now.bytes[r] = comm.counted().total_bytes();
    }
  });
}

std::vector<whole_shape> shapes_for(int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  return {{p, 3 * p}, {2 * p, 6 * p}, {5 * p, 3 * p}, {12, 36}};
}

bool exists(placement at, int ranks) { return at.kind != placement_kind::only || at.index < ranks; }

template <class F>
void for_each_row(int ranks, F f) {
  for (auto from : placements)
    for (auto to : placements)
      if (exists(from, ranks) && exists(to, ranks) && transition_between(from, to).allowed())
        f(from, to);
}

// --- the laws ------------------------------------------------------------------------------------

class Move : public ::testing::TestWithParam<int> {
 protected:
  int ranks = GetParam();
};

TEST_P(Move, DenotesTheSameValueAndIsValid) {
  std::vector<task> tasks;
  std::vector<matrix> values;
  std::uint32_t key = 0;
  for (auto shape : shapes_for(ranks))
    for_each_row(ranks, [&](placement from, placement to) {
      values.push_back(numbers(++key, shape));
      tasks.push_back(make_task(from, to, shape, encode(from, values.back(), shape, ranks)));
      // Three kinds of rows may write their result over the operand.
      auto const moves = tasks.back().row().moves;
      if (moves == local_move::none || moves == collective::all_reduce ||
          moves == local_move::mask) {
        auto again = tasks.back();
        again.in_place = true;
        values.push_back(values.back());
        tasks.push_back(std::move(again));
      }
    });
  execute(ranks, tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    ASSERT_TRUE(is_valid(tasks[i].from, tasks[i].in, tasks[i].shape)) << tasks[i].text();
    ASSERT_EQ(decode(tasks[i].from, tasks[i].in, tasks[i].shape), values[i]) << tasks[i].text();
    EXPECT_TRUE(is_valid(tasks[i].to, tasks[i].out, tasks[i].shape)) << tasks[i].text();
    EXPECT_EQ(decode(tasks[i].to, tasks[i].out, tasks[i].shape), values[i]) << tasks[i].text();
  }
  EXPECT_GE(tasks.size(), ranks == 1 ? 100u : 150u);
}

TEST_P(Move, AdjointGivesTheSamePairing) {
  std::vector<task> forward, backward;
  std::uint32_t key = 1000;
  for (auto shape : shapes_for(ranks))
    for_each_row(ranks, [&](placement from, placement to) {
      auto const x = numbers(++key, shape), h = numbers(++key, shape);
      forward.push_back(make_task(from, to, shape, encode(from, x, shape, ranks)));
      auto const back = adjoint(forward.back().row());
      ASSERT_TRUE(back.allowed());
      ASSERT_EQ(back.from, dual(to));
      ASSERT_EQ(back.to, dual(from));
      backward.push_back(make_task(back.from, back.to, shape, encode(back.from, h, shape, ranks)));
    });
  execute(ranks, forward);
  execute(ranks, backward);
  for (std::size_t i = 0; i < forward.size(); ++i) {
    auto const& go = forward[i];
    auto const& back = backward[i];
    EXPECT_TRUE(is_valid(back.to, back.out, back.shape)) << back.text();
    EXPECT_EQ(pairing(go.to, go.out, back.in), pairing(go.from, go.in, back.out))
        << "forward " << go.text() << ", backward " << back.text();
  }
}

// The classic mistakes have a wrong pairing, so the test above detects them.
TEST_P(Move, WrongAdjointsAreSeen) {
  if (ranks == 1) return;
  whole_shape const shape{12, 36};
  auto const x = numbers(1, shape), h = numbers(2, shape);
  struct mistake {
    placement from, to;            // forward
    placement back_from, back_to;  // the move in place of the adjoint
  };
  constexpr std::array mistakes{
      mistake{partial, invariant, partial, replicate},      // also an all_reduce backward: factor p
      mistake{partial, replicate, invariant, replicate},    // no all_reduce backward
      mistake{invariant, replicate, replicate, invariant},  // no all_reduce of summands
  };
  for (auto const& wrong : mistakes) {
    std::vector<task> tasks{
        make_task(wrong.from, wrong.to, shape, encode(wrong.from, x, shape, ranks)),
        make_task(wrong.back_from, wrong.back_to, shape, encode(dual(wrong.to), h, shape, ranks))};
    execute(ranks, tasks);
    EXPECT_NE(pairing(wrong.to, tasks[0].out, tasks[1].in),
              pairing(wrong.from, tasks[0].in, tasks[1].out))
        << tasks[0].text();
  }
}

TEST_P(Move, EveryPathOfTwoStepsIsTheDirectEdge) {
  whole_shape const shape{12, 36};
  std::vector<std::tuple<placement, placement, placement>> paths;
  for_each_row(ranks, [&](placement from, placement between) {
    for (auto to : placements)
      if (exists(to, ranks) && transition_between(between, to).allowed() &&
          transition_between(from, to).allowed())
        paths.emplace_back(from, between, to);
  });
  auto const x = numbers(1, shape), h = numbers(2, shape);
  // Moves forward from -> between -> to, and back by the adjoints; each is compared with its direct
  // edge.
  std::vector<task> first, second, direct, back_first, back_second, back_direct;
  for (auto const& [from, between, to] : paths) {
    auto const in = encode(from, x, shape, ranks);
    auto const gradient = encode(dual(to), h, shape, ranks);
    first.push_back(make_task(from, between, shape, in));
    direct.push_back(make_task(from, to, shape, in));
    back_first.push_back(make_task(dual(to), dual(between), shape, gradient));
    back_direct.push_back(make_task(dual(to), dual(from), shape, gradient));
  }
  for (auto* tasks : {&first, &direct, &back_first, &back_direct}) execute(ranks, *tasks);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto const& [from, between, to] = paths[i];
    second.push_back(make_task(between, to, shape, first[i].out));
    back_second.push_back(make_task(dual(between), dual(from), shape, back_first[i].out));
  }
  execute(ranks, second);
  execute(ranks, back_second);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto const& [from, between, to] = paths[i];
    auto const path = first[i].text() + " -> " + to_string(to);
    EXPECT_TRUE(is_valid(to, second[i].out, shape)) << path;
    EXPECT_EQ(decode(to, second[i].out, shape), decode(to, direct[i].out, shape)) << path;
    EXPECT_TRUE(is_valid(dual(from), back_second[i].out, shape)) << path;
    EXPECT_EQ(decode(dual(from), back_second[i].out, shape),
              decode(dual(from), back_direct[i].out, shape))
        << "adjoint of " << path;
    auto const cost = [&](transition row) {
      return bytes_sent(row.moves, static_cast<std::int64_t>(shape.count() * sizeof(double)),
                        ranks);
    };
    EXPECT_LE(cost(direct[i].row()), cost(first[i].row()) + cost(second[i].row())) << path;
  }
  EXPECT_GE(paths.size(), 200u);
}

TEST_P(Move, CountedBytesAreThoseOfTheTable) {
  std::vector<task> tasks;
  for (auto shape : shapes_for(ranks))
    for_each_row(ranks, [&](placement from, placement to) {
      if (transition_between(from, to).is_made())
        tasks.push_back(make_task(from, to, shape, encode(from, numbers(1, shape), shape, ranks)));
    });
  execute(ranks, tasks);
  for (auto const& now : tasks) {
    auto const expected = static_cast<std::uint64_t>(bytes_sent(
        now.row().moves, static_cast<std::int64_t>(now.shape.count() * sizeof(double)), ranks));
    for (std::size_t r = 0; r < now.bytes.size(); ++r) {
      // A message is charged to its sender; other moves are charged to every member.
      bool const sends = now.row().moves == collective::send;
      bool const charged = !sends || static_cast<int>(r) == now.from.index;
      EXPECT_EQ(now.bytes[r], charged ? expected : 0u) << now.text() << ", rank " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Move, ::testing::Values(1, 2, 3, 4),
                         [](auto const& param) { return "On" + std::to_string(param.param); });

// --- other moves of move_value

TEST(MoveOther, MaximaAreTakenOverAllRanks) {
  for (int const ranks : {1, 2, 3, 4}) {
    mesh grid;
    grid.add(axis::tensor, ranks);
    threads{}.run(grid, [&](auto& rank) {
      auto& comm = rank.group(axis::tensor);
      std::vector<float> in(6), out(6);
      for (std::size_t i = 0; i < 6; ++i)
        in[i] = static_cast<float>((static_cast<int>(i) + comm.rank()) % ranks) - 2.0f;
      comm.reset_counted();
      move_value<partial_max, invariant>(rank.device().on(stream::tensor), comm, whole_shape{2, 3},
                                         in.data(), out.data(), static_cast<float*>(nullptr));
      EXPECT_EQ(out, std::vector<float>(6, static_cast<float>(ranks - 1) - 2.0f));
      EXPECT_EQ(comm.counted().total_bytes(),
                static_cast<std::uint64_t>(bytes_sent(all_reduce_max, 24, ranks)));
    });
  }
}

TEST(MoveOther, TokensAreCutBySequenceAndGathered) {
  mesh grid;
  grid.add(axis::tensor, 3);
  threads{}.run(grid, [&](auto& rank) {
    auto& comm = rank.group(axis::tensor);
    std::vector<std::int32_t> const tokens{5, -1, 7, 2147483647, 0, -100};
    std::vector<std::int32_t> mine(2), again(6), staging(6);
    whole_shape const shape{6, 1};
    move_value<invariant, shard<dim::sequence>>(rank.device().on(stream::tensor), comm, shape,
                                                tokens.data(), mine.data(), staging.data());
    auto const first = static_cast<std::size_t>(2 * comm.rank());
    EXPECT_EQ(mine, (std::vector<std::int32_t>{tokens[first], tokens[first + 1]}));
    move_value<shard<dim::sequence>, invariant>(rank.device().on(stream::tensor), comm, shape,
                                                std::as_const(mine).data(), again.data(),
                                                staging.data());
    EXPECT_EQ(again, tokens);
  });
}

// Parts would have to be permuted between ranks; the table refuses instead of moving them wrongly.
static_assert(!transition_between(shard<dim::features>, shard<dim::features, 3>).allowed());
static_assert(!transition_between(shard<dim::features, 3>, shard<dim::features>).allowed());
static_assert(!transition_between(partial_max, shard<dim::features>).allowed());

}  // namespace
