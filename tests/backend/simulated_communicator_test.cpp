// SPDX-License-Identifier: Apache-2.0
// Every call must leave the bits that the communicator over threads leaves.
#include "plait/backend/simulated/simulated_communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/core/bfloat16.hpp"

namespace {

using plait::axis;

template <class Program>
auto run_on(auto const& backend, int ranks, Program program) {
  plait::mesh grid;
  grid.add(axis::data, ranks);
  backend.run(grid, [&](auto& rank) {
    program(rank);
    rank.device().synchronize();
  });
}

template <class T>
std::vector<T> values_of(std::size_t n, int rank) {
  std::mt19937 random(unsigned(rank) + 1);
  std::vector<T> out(n);
  for (auto& value : out) {
    if constexpr (std::is_floating_point_v<T>)
      value = std::uniform_real_distribution<T>(-1, 1)(random);
    else value = static_cast<T>(random() % 1000);
  }
  return out;
}

// All calls of a communicator, one after the other on buffers of their own; what the buffers hold
// then, of all ranks one after the other, and what was counted.
template <class T>
struct outcome {
  std::vector<std::vector<T>> buffers;
  std::vector<plait::traffic> counted;
  friend bool operator==(outcome const&, outcome const&) = default;
};

template <class T>
outcome<T> all_calls(auto const& backend, int ranks) {
  auto const p = std::size_t(ranks);
  std::size_t const n = 37, calls = 12;
  outcome<T> out{std::vector<std::vector<T>>(p), std::vector<plait::traffic>(p)};
  run_on(backend, ranks, [&](auto& rank) {
    auto& device = rank.device();
    auto& comm = rank.group(axis::data);
    auto const me = std::size_t(comm.rank());
    std::size_t const size = n * p, total = 2 * calls * size;
    auto const room = device.allocate(total * sizeof(T));
    auto* const data = reinterpret_cast<T*>(room.data());
    auto const start = values_of<T>(total, comm.rank());
    device.upload(start.data(), data, total * sizeof(T));
    device.synchronize();
    std::size_t next = 0;
    auto const take = [&](std::size_t count) {
      std::span<T> const taken(data + next, count);
      next += size;
      return taken;
    };
    comm.all_reduce(take(n));
    comm.all_reduce(take(n), plait::reduction::max);
    auto const gathered = take(size);
    comm.all_gather(take(n), gathered);
    auto const in_place = take(size);
    comm.all_gather(in_place.subspan(me * n, n), in_place);
    auto const scattered = take(n);
    comm.reduce_scatter(take(size), scattered);
    auto const own_block = take(size);
    comm.reduce_scatter(own_block, own_block.subspan(me * n, n));
    auto const exchanged = take(size);
    comm.all_to_all(take(size), exchanged);
    comm.broadcast(take(n), ranks - 1);
    comm.reduce(take(n), ranks / 2);
    auto const root = take(size);
    comm.gather(take(n), me == 0 ? root : std::span<T>{}, 0);
    auto const block = take(n);
    auto const whole = take(size);
    comm.scatter(me == p - 1 ? whole : std::span<T>{}, block, ranks - 1);
    auto const sent = take(n), received = take(n);
    if (ranks > 1) {  // round in a ring, by a call that needs no buffer
      if (me != 0) comm.receive(received, int(me) - 1, 3);
      comm.send(std::span<T const>(sent), int((me + 1) % p), 3);
      if (me == 0) comm.receive(received, ranks - 1, 3);
    }
    comm.all_reduce(take(0));
    comm.barrier();
    auto& mine = out.buffers[me];
    mine.resize(total);
    device.download(data, mine.data(), total * sizeof(T));
    device.synchronize();
    out.counted[me] = comm.counted();
    comm.reset_counted();
    EXPECT_EQ(comm.counted(), plait::traffic{});
  });
  return out;
}

template <class T>
struct SimulatedCalls : testing::Test {};
using elements = testing::Types<float, double, plait::bfloat16, std::int32_t, std::uint64_t>;
TYPED_TEST_SUITE(SimulatedCalls, elements);

TYPED_TEST(SimulatedCalls, SameBitsAndCountsAsThreads) {
  for (int ranks : {1, 2, 3, 4, 5}) {
    auto const expected = all_calls<TypeParam>(plait::threads{}, ranks);
    for (std::uint64_t seed = 0; seed < 8; ++seed)
      EXPECT_TRUE(all_calls<TypeParam>(plait::simulated{.seed = seed}, ranks) == expected)
          << ranks << " ranks, seed " << seed;
    EXPECT_TRUE(all_calls<TypeParam>(plait::simulated{.order = plait::simulated_order::in_order},
                                     ranks) == expected);
  }
}

// Whatever is thrown out of synchronize(), by rank.
template <class Error, class Program>
std::vector<std::string> errors_of(int ranks, Program program, std::uint64_t seed = 1) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  plait::mesh grid;
  grid.add(axis::data, ranks);
  plait::simulated{.seed = seed}.run(grid, [&](auto& rank) {
    auto const room = rank.device().allocate(1024);
    auto* const data = reinterpret_cast<float*>(room.data());
    rank.device().on(plait::stream::data).fill(1.0f, data, 256);
    program(rank, std::span<float>(data, 256));
    try {
      rank.device().synchronize();
    } catch (Error const& e) {
      texts[std::size_t(rank.world_rank())] = e.what();
      EXPECT_THROW(rank.device().synchronize(), Error);  // stays so
    }
  });
  return texts;
}

void expect_everywhere(std::vector<std::string> const& texts, std::string const& expected) {
  for (auto const& text : texts) EXPECT_EQ(text, expected);
}

TEST(SimulatedErrors, DifferentCalls) {
  expect_everywhere(
      errors_of<plait::collective_mismatch>(2,
                                            [](auto& rank, std::span<float> x) {
                                              auto& comm = rank.group(axis::data);
                                              if (comm.rank() == 0) comm.all_reduce(x.first(4));
                                              else comm.all_gather(x.first(4), x.subspan(8, 8));
                                            }),
      "rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum), but rank 1 called "
      "all_gather of 16 bytes per rank on group {0,1} (float32)");
}

TEST(SimulatedErrors, DifferentSizes) {
  expect_everywhere(
      errors_of<plait::collective_mismatch>(
          3,
          [](auto& rank, std::span<float> x) {
            rank.group(axis::data).all_reduce(x.first(rank.world_rank() == 2 ? 5 : 4));
          }),
      "rank 0 called all_reduce of 16 bytes on group {0,1,2} (float32, sum), but rank 2 called "
      "all_reduce of 20 bytes on group {0,1,2} (float32, sum)");
}

TEST(SimulatedErrors, BlocksThatDoNotFit) {
  expect_everywhere(
      errors_of<plait::size_mismatch>(2,
                                      [](auto& rank, std::span<float> x) {
                                        rank.group(axis::data).all_gather(x.first(4), x.last(9));
                                      }),
      "rank 0 called all_gather of 16 bytes per rank on group {0,1}: the buffer for all ranks has "
      "36 bytes, not 32");
}

TEST(SimulatedErrors, MessagesThatDoNotFit) {
  expect_everywhere(
      errors_of<plait::collective_mismatch>(2,
                                            [](auto& rank, std::span<float> x) {
                                              auto& comm = rank.group(axis::data);
                                              if (comm.rank() == 0) comm.send(x.first(4), 1, 7);
                                              else comm.receive(x.first(4), 0, 8);
                                            }),
      "rank 0 called send of 16 bytes to rank 1 with tag 7 on group {0,1} (float32), but rank 1 "
      "called receive of 16 bytes from rank 0 with tag 8 on group {0,1} (float32)");
}

TEST(SimulatedErrors, DifferentTrainers) {
  auto const program = [](auto use) {
    return [=](auto& rank, std::span<float> x) {
      auto const calls = rank.calls_for(std::uint64_t(rank.world_rank()) + 1);
      use(rank.group(axis::data), x.first(4));
    };
  };
  expect_everywhere(errors_of<plait::collective_mismatch>(
                        2, program([](auto& comm, std::span<float> x) { comm.all_reduce(x); })),
                    "rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum) for "
                    "trainer 1, but rank 1 "
                    "called all_reduce of 16 bytes on group {0,1} (float32, sum) for trainer 2");
  expect_everywhere(
      errors_of<plait::collective_mismatch>(2, program([](auto& comm, std::span<float> x) {
                                              if (comm.rank() == 0) comm.send(x, 1, 7);
                                              else comm.receive(x, 0, 7);
                                            })),
      "rank 0 called send of 16 bytes to rank 1 with tag 7 on group {0,1} (float32) for trainer 1, "
      "but rank 1 called receive of 16 bytes from rank 0 with tag 7 on group {0,1} (float32) for "
      "trainer 2");
}

// On both backends: what differs between the ranks is over where they communicate.
TEST(CallsForATrainer, EndWithTheirScope) {
  auto const program = [](auto& rank) {
    auto const room = rank.device().allocate(sizeof(float));
    std::span<float> const x(reinterpret_cast<float*>(room.data()), 1);
    auto& comm = rank.group(axis::data);
    rank.device().on(plait::stream::data).fill(1.0f, x.data(), 1);
    {
      auto const calls = rank.calls_for(1);
      try {
        auto const inner = rank.calls_for(std::uint64_t(rank.world_rank()) + 2);
        throw rank.world_rank();
      } catch (int) {
      }
      comm.all_reduce(x);
    }
    if (rank.is_root()) {
      auto const calls = rank.calls_for(5);
    }
    comm.all_reduce(x);
  };
  EXPECT_NO_THROW(run_on(plait::threads{}, 2, program));
  EXPECT_NO_THROW(run_on(plait::simulated{}, 2, program));
}

TEST(SimulatedErrors, NoSuchOtherEnd) {
  plait::mesh grid;
  grid.add(axis::data, 2);
  try {
    plait::simulated{}.run(grid, [](auto& rank) {
      rank.group(axis::data).send(std::span<float>{}, rank.world_rank(), 0);
    });
    FAIL();
  } catch (plait::input_error const& e) {
    EXPECT_NE(std::string(e.what()).find("the other end must be another member of the group"),
              std::string::npos);
  }
}

}  // namespace
