// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/thread_communicator.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace {

using plait::collective;
using plait::reduction;
using plait::thread_communicator;

constexpr std::size_t sizes[] = {0, 1, 2, 3, 7, 16, 33, 1000, 4099};

// Runs `program(communicator)` on the ranks of one group that is the whole world.
template <class Program>
void on_threads(int ranks, Program program) {
  plait::thread_world world{ranks};
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  int const group = world.add_group(members);
  plait::run_ranks(world, [&](int rank) {
    thread_communicator comm{world, group, members, rank};
    program(comm);
  });
}

// A small integer that tells rank, position and salt apart; sums of a few are exact in float.
template <class T>
T value(int rank, std::size_t position, int salt = 0) {
  return static_cast<T>((rank + 1) * 100 + static_cast<int>(position % 89) - 40 + salt);
}

template <class T>
std::vector<T> values(int rank, std::size_t count, int salt = 0) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = value<T>(rank, i, salt);
  return result;
}

template <class T>
T total(int ranks, std::size_t position) {
  T sum{};
  for (int rank = 0; rank < ranks; ++rank) sum = static_cast<T>(sum + value<T>(rank, position));
  return sum;
}

template <class T>
struct ThreadCollectives : testing::Test {
  template <class Program>
  static void everywhere(Program program) {
    for (int ranks = 1; ranks <= 4; ++ranks)
      on_threads(ranks, [&](thread_communicator& comm) {
        for (auto const count : sizes) program(comm, count);
      });
  }
};

using Elements = testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(ThreadCollectives, Elements);

TYPED_TEST(ThreadCollectives, AllReduceAddsOnEveryRank) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    auto x = values<TypeParam>(comm.rank(), count);
    comm.all_reduce(std::span{x});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(x[i], total<TypeParam>(comm.size(), i));
  });
}

TYPED_TEST(ThreadCollectives, AllReduceMaxTakesTheLargest) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    // The rank that has the largest value depends on the position.
    auto const mine = [&](int rank, std::size_t i) {
      return value<TypeParam>((rank + static_cast<int>(i)) % comm.size(), i);
    };
    std::vector<TypeParam> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = mine(comm.rank(), i);
    comm.all_reduce(std::span{x}, reduction::max);
    for (std::size_t i = 0; i < count; ++i) {
      auto largest = mine(0, i);
      for (int rank = 1; rank < comm.size(); ++rank) largest = std::max(largest, mine(rank, i));
      ASSERT_EQ(x[i], largest);
    }
  });
}

TYPED_TEST(ThreadCollectives, AllGatherConcatenatesInRankOrder) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    auto const p = static_cast<std::size_t>(comm.size());
    auto const send = values<TypeParam>(comm.rank(), count);
    std::vector<TypeParam> receive(p * count);
    comm.all_gather(send, std::span{receive});
    std::vector<TypeParam> in_place(p * count);
    auto const own =
        std::span{in_place}.subspan(static_cast<std::size_t>(comm.rank()) * count, count);
    std::copy(send.begin(), send.end(), own.begin());
    comm.all_gather(own, std::span{in_place});
    for (std::size_t i = 0; i < p * count; ++i) {
      auto const expected = value<TypeParam>(static_cast<int>(i / count), i % count);
      ASSERT_EQ(receive[i], expected);
      ASSERT_EQ(in_place[i], expected);
    }
  });
}

TYPED_TEST(ThreadCollectives, ReduceScatterLeavesTheOwnBlockOfTheSum) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    auto const p = static_cast<std::size_t>(comm.size());
    auto const first = static_cast<std::size_t>(comm.rank()) * count;
    auto send = values<TypeParam>(comm.rank(), p * count);
    auto const before = send;
    std::vector<TypeParam> receive(count);
    comm.reduce_scatter(send, std::span{receive});
    ASSERT_EQ(send, before);
    comm.reduce_scatter(send, std::span{send}.subspan(first, count));  // in place
    for (std::size_t i = 0; i < p * count; ++i) {
      bool const own = i >= first && i < first + count;
      auto const sum = total<TypeParam>(comm.size(), i);
      ASSERT_EQ(send[i], own ? sum : before[i]);
      if (own) {
        ASSERT_EQ(receive[i - first], sum);
      }
    }
  });
}

TYPED_TEST(ThreadCollectives, AllToAllTransposesTheBlocks) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    auto const p = static_cast<std::size_t>(comm.size());
    std::vector<TypeParam> send(p * count), receive(p * count);
    for (std::size_t i = 0; i < send.size(); ++i)
      send[i] = value<TypeParam>(comm.rank(), i % count, 7 * static_cast<int>(i / count));
    comm.all_to_all(send, std::span{receive});
    for (std::size_t i = 0; i < receive.size(); ++i)
      ASSERT_EQ(receive[i],
                value<TypeParam>(static_cast<int>(i / count), i % count, 7 * comm.rank()));
  });
}

TYPED_TEST(ThreadCollectives, BroadcastCopiesTheRootsBuffer) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    for (int root = 0; root < comm.size(); ++root) {
      auto x = values<TypeParam>(comm.rank(), count);
      comm.broadcast(std::span{x}, root);
      ASSERT_EQ(x, values<TypeParam>(root, count));
    }
  });
}

TYPED_TEST(ThreadCollectives, ReduceWritesOnlyTheRootsBuffer) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    for (int root = 0; root < comm.size(); ++root) {
      auto x = values<TypeParam>(comm.rank(), count);
      comm.reduce(std::span{x}, root);
      auto expected = values<TypeParam>(comm.rank(), count);
      if (comm.rank() == root)
        for (std::size_t i = 0; i < count; ++i) expected[i] = total<TypeParam>(comm.size(), i);
      ASSERT_EQ(x, expected);
    }
  });
}

TYPED_TEST(ThreadCollectives, GatherThenScatterGivesEachRankItsOwn) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    auto const p = static_cast<std::size_t>(comm.size());
    for (int root = 0; root < comm.size(); ++root) {
      auto const send = values<TypeParam>(comm.rank(), count);
      std::vector<TypeParam> whole(comm.rank() == root ? p * count : 0);
      comm.gather(send, std::span{whole}, root);
      for (std::size_t i = 0; i < whole.size(); ++i)
        ASSERT_EQ(whole[i], value<TypeParam>(static_cast<int>(i / count), i % count));
      std::vector<TypeParam> receive(count);
      comm.scatter(whole, std::span{receive}, root);
      ASSERT_EQ(receive, send);
      if (comm.rank() == root) {  // in place: both calls use the root's own block
        auto const own = std::span{whole}.subspan(static_cast<std::size_t>(root) * count, count);
        comm.gather(own, std::span{whole}, root);
        comm.scatter(whole, own, root);
        ASSERT_TRUE(std::ranges::equal(own, send));
      } else {
        comm.gather(send, std::span{whole}, root);
        comm.scatter(whole, std::span{receive}, root);
        ASSERT_EQ(receive, send);
      }
    }
  });
}

TYPED_TEST(ThreadCollectives, MessagesPassAroundARing) {
  this->everywhere([](thread_communicator& comm, std::size_t count) {
    if (comm.size() == 1) return;
    int const next = (comm.rank() + 1) % comm.size();
    int const previous = (comm.rank() + comm.size() - 1) % comm.size();
    auto const mine = values<TypeParam>(comm.rank(), count);
    std::vector<TypeParam> got(count);
    for (int tag = 0; tag < 3;
         ++tag) {  // sends wait for their receiver: one rank must break the ring
      if (comm.rank() == 0) {
        comm.send(std::span{mine}, next, tag);
        comm.receive(std::span{got}, previous, tag);
      } else {
        comm.receive(std::span{got}, previous, tag);
        comm.send(std::span{mine}, next, tag);
      }
      ASSERT_EQ(got, values<TypeParam>(previous, count));
    }
  });
}

TEST(ThreadCommunicator, RandomSumsAreMadeInRankOrderAndEqualBitForBit) {
  constexpr std::size_t count = 5003;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    auto const input = [](int rank) {
      std::mt19937_64 bits{static_cast<std::uint64_t>(rank) + 1};
      std::uniform_real_distribution<double> draw{-1.0, 1.0};
      std::vector<double> x(count);
      for (auto& value : x) value = std::ldexp(draw(bits), static_cast<int>(bits() % 60));
      return x;
    };
    auto expected = input(0);
    for (int rank = 1; rank < ranks; ++rank) {
      auto const x = input(rank);
      for (std::size_t i = 0; i < count; ++i) expected[i] += x[i];
    }
    on_threads(ranks, [&](thread_communicator& comm) {
      for (int repeat = 0; repeat < 5; ++repeat) {
        auto x = input(comm.rank());
        comm.all_reduce(std::span{x});
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(std::bit_cast<std::uint64_t>(x[i]), std::bit_cast<std::uint64_t>(expected[i]));
      }
    });
  }
}

TEST(ThreadCommunicator, ANotANumberOnAnyRankIsTheMaximum) {
  on_threads(3, [](thread_communicator& comm) {
    std::vector<float> x(3, static_cast<float>(comm.rank()));
    x[static_cast<std::size_t>(comm.rank())] = std::numeric_limits<float>::quiet_NaN();
    comm.all_reduce(std::span{x}, reduction::max);
    for (float const largest : x) EXPECT_TRUE(std::isnan(largest));
  });
}

TEST(ThreadCommunicator, NoRankLeavesABarrierBeforeTheLastHasCome) {
  std::atomic<int> came{0};
  on_threads(4, [&](thread_communicator& comm) {
    for (int round = 1; round <= 200; ++round) {
      came.fetch_add(1);
      comm.barrier();
      ASSERT_GE(came.load(), 4 * round);
      comm.barrier();
    }
  });
}

TEST(ThreadCommunicator, GroupsOfOneWorldDoNotDisturbEachOther) {
  // Six ranks as 3 x 2: rows {0,1} {2,3} {4,5}, columns {4,2,0} {1,3,5}; group order is not sorted.
  plait::thread_world world{6};
  std::vector<std::vector<int>> const rows{{0, 1}, {2, 3}, {4, 5}}, columns{{4, 2, 0}, {1, 3, 5}};
  std::vector<int> row_ids, column_ids;
  for (auto const& row : rows) row_ids.push_back(world.add_group(row));
  for (auto const& column : columns) column_ids.push_back(world.add_group(column));
  plait::run_ranks(world, [&](int rank) {
    auto const r = static_cast<std::size_t>(rank / 2), c = static_cast<std::size_t>(rank % 2);
    thread_communicator row{world, row_ids[r], rows[r], rank};
    thread_communicator column{world, column_ids[c], columns[c], rank};
    ASSERT_EQ(column.rank(), c == 0 ? 2 - rank / 2 : rank / 2);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<double> x{static_cast<double>(rank)}, all(3);
      column.all_gather(x, std::span{all});
      for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(all[i], columns[c][i]);
      row.all_reduce(std::span{x});
      ASSERT_EQ(x[0], rows[r][0] + rows[r][1]);
      column.all_reduce(std::span{x});
      ASSERT_EQ(x[0], 15);
    }
  });
}

TEST(ThreadCommunicator, CountsTheBusiestRanksBytes) {
  on_threads(3, [](thread_communicator& comm) {
    std::vector<float> small(5), big(15);  // 20 and 60 bytes
    std::vector<float> other(15);
    auto const s = std::span{small};
    auto const b = std::span{big};
    comm.all_reduce(s);  // 2 * 20 * 2/3 = 26.67
    comm.all_reduce(s, reduction::max);
    comm.all_gather(small, b);  // 60 * 2/3
    comm.reduce_scatter(big, s);
    comm.all_to_all(big, std::span{other});  // 3 * 60 * 2/9
    comm.broadcast(s, 1);
    comm.reduce(s, 2);
    comm.gather(small, b, 0);
    comm.scatter(big, s, 0);
    comm.barrier();
    if (comm.rank() == 0) comm.send(s, 1, 0);
    if (comm.rank() == 1) comm.receive(s, 0, 0);

    auto const& counted = comm.counted();
    EXPECT_EQ(counted.calls(collective::all_reduce), 2u);
    EXPECT_EQ(counted.bytes(collective::all_reduce), 2 * 27u);
    EXPECT_EQ(counted.bytes(collective::all_gather), 40u);
    EXPECT_EQ(counted.bytes(collective::reduce_scatter), 40u);
    EXPECT_EQ(counted.bytes(collective::all_to_all), 40u);
    EXPECT_EQ(counted.bytes(collective::broadcast), 20u);
    EXPECT_EQ(counted.bytes(collective::reduce), 20u);
    EXPECT_EQ(counted.bytes(collective::gather), 40u);
    EXPECT_EQ(counted.bytes(collective::scatter), 40u);
    EXPECT_EQ(counted.calls(collective::barrier), 1u);
    EXPECT_EQ(counted.calls(collective::send), comm.rank() == 0 ? 1u : 0u);
    EXPECT_EQ(counted.bytes(collective::send), comm.rank() == 0 ? 20u : 0u);
    EXPECT_EQ(counted.calls(collective::receive), comm.rank() == 1 ? 1u : 0u);
    EXPECT_EQ(counted.bytes(collective::receive), 0u);
    EXPECT_EQ(counted.total_bytes(), 54u + 6 * 40 - 40 + 2 * 20 + (comm.rank() == 0 ? 20 : 0));
    comm.reset_counted();
    EXPECT_EQ(comm.counted(), plait::traffic{});
  });
}

TEST(ThreadCommunicator, OneRankMovesNoBytesButChecksSizes) {
  on_threads(1, [](thread_communicator& comm) {
    std::vector<float> x{1, 2}, y(2), wrong(3);
    comm.barrier();
    comm.all_reduce(std::span{x});
    comm.all_to_all(x, std::span{y});
    EXPECT_EQ(x, y);
    EXPECT_EQ(comm.counted().total_bytes(), 0u);
    EXPECT_EQ(comm.counted().calls(collective::all_reduce), 1u);
    EXPECT_THROW(comm.all_gather(x, std::span{wrong}), plait::size_mismatch);
    EXPECT_THROW(comm.broadcast(std::span{x}, 1), plait::input_error);
    EXPECT_THROW(comm.send(std::span{x}, 0, 0), plait::input_error);
  });
}

TEST(ThreadCommunicator, EightRanksFinishManySmallCalls) {
  auto const begin = std::chrono::steady_clock::now();
  on_threads(8, [](thread_communicator& comm) {
    std::vector<float> x(16);
    for (int i = 0; i < 1000; ++i) {
      std::ranges::fill(x, 1.0f);
      comm.all_reduce(std::span{x});
      ASSERT_EQ(x[7], 8.0f);
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{20});
}

// The concepts: one model with no more than is asked for, and one broken model per rule.
struct minimal {
  using concept_tag = plait::communicator_tag;
  int rank() const noexcept;
  int size() const noexcept;
  void barrier();
};
struct no_tag {
  int rank() const noexcept;
  int size() const noexcept;
  void barrier();
};
struct rank_may_throw : minimal {
  int rank() const;
};
struct long_size : minimal {
  long size() const noexcept;
};
struct barrier_with_answer : minimal {
  int barrier();
};
struct sum_only : minimal {
  template <class T>
  void all_reduce(std::span<T>);
};
static_assert(plait::communicator<minimal>);
static_assert(!plait::communicator<no_tag>);
static_assert(!plait::communicator<rank_may_throw>);
static_assert(!plait::communicator<long_size>);
static_assert(!plait::communicator<barrier_with_answer>);
static_assert(!plait::can_all_reduce<minimal, float>);
static_assert(!plait::can_all_reduce<sum_only, float>);
static_assert(!plait::can_all_gather<minimal, float>);
static_assert(!plait::can_reduce_scatter<minimal, float>);
static_assert(!plait::can_all_to_all<minimal, float>);
static_assert(!plait::can_broadcast<minimal, float>);
static_assert(!plait::can_reduce<minimal, float>);
static_assert(!plait::can_gather<minimal, float>);
static_assert(!plait::can_scatter<minimal, float>);
static_assert(!plait::can_send_receive<minimal, float>);

}  // namespace
