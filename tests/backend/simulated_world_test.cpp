// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/simulated/simulated_world.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"

namespace {

using plait::axis;
using plait::simulated;
using plait::ext::axis_set;
using plait::ext::stream;
using rank_type = simulated::rank_type;

plait::ext::mesh data_mesh(int ranks) {
  plait::ext::mesh grid;
  grid.add(axis::data, ranks);
  return grid;
}

// Returns the error that ends the run of a program.
template <class Error, class Program>
std::string error_of(int ranks, Program program, simulated backend = {}) {
  try {
    backend.run(data_mesh(ranks), program);
  } catch (Error const& e) {
    return e.what();
  }
  return "";
}

// --- order ------------------------------------------------------------------------------------

// Returns the order of execution of six operations on each of two streams of two ranks. "a" and "b"
// are the streams of rank 0, "c" and "d" of rank 1.
std::string order_of(simulated backend) {
  std::string out;
  backend.run(data_mesh(2), [&](rank_type& rank) {
    for (int i = 0; i < 6; ++i)
      for (int s : {0, 1}) {
        char const name = static_cast<char>('a' + 2 * rank.world_rank() + s);
        rank.device().on(static_cast<stream>(s)).run([&out, name](auto const&) { out += name; });
      }
    rank.device().synchronize();
  });
  return out;
}

TEST(SimulatedOrder, InOrderIsThatOfTheProgram) {
  EXPECT_EQ(order_of({.seed = 5, .order = plait::ext::simulated_order::in_order}),
            "ababababababcdcdcdcdcdcd");
}

TEST(SimulatedOrder, SeedsGoToExtremes) {
  std::set<std::string> orders;
  std::set<char> first, last;
  bool mixed = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto const order = order_of({.seed = seed});
    EXPECT_EQ(order.size(), 24u);
    EXPECT_EQ(order_of({.seed = seed}), order) << "seed " << seed;
    orders.insert(order);
    // One stream runs completely before, or after, all others.
    for (char const name : {'a', 'b', 'c', 'd'}) {
      if (order.find(name) == 18) last.insert(name);
      if (order.rfind(name) == 5) first.insert(name);
    }
    mixed = mixed || (order.find('b') < order.rfind('a') && order.find('c') < order.rfind('b') &&
                      order.find('d') < order.find("aa"));
  }
  EXPECT_GT(orders.size(), 60u);
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(last.size(), 4u);
  EXPECT_TRUE(mixed);
}

TEST(SimulatedOrder, ARankCanBeFarAhead) {
  // The number of synchronisations that rank 0 has completed when rank 1 completes its first.
  std::set<int> ahead;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    int steps = 0, seen = -1;
    simulated{.seed = seed}.run(data_mesh(2), [&](rank_type& rank) {
      for (int step = 0; step < 4; ++step) {
        bool const counts = rank.world_rank() == 0;
        rank.device().on(stream::compute).run([&, counts](auto const&) {
          if (counts) ++steps;
          else if (seen < 0) seen = steps;
        });
        rank.device().synchronize();
      }
    });
    ahead.insert(seen);
  }
  EXPECT_TRUE(ahead.contains(0));
  EXPECT_TRUE(ahead.contains(4));
}

// --- device -----------------------------------------------------------------------------------

TEST(SimulatedDevice, NothingIsThereTooEarly) {
  simulated{}.run(data_mesh(1), [](rank_type& rank) {
    auto& device = rank.device();
    auto const room = device.allocate(sizeof(double));
    auto* const data = reinterpret_cast<double*>(room.data());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0u);
    EXPECT_TRUE(std::isnan(*data));
    double given = 3, got = 0;
    device.upload(&given, data, sizeof given);
    given = 4;  // the program may change it immediately
    device.download(data, &got, sizeof got);
    EXPECT_TRUE(std::isnan(*data));
    EXPECT_TRUE(std::isnan(got));
    device.synchronize();
    EXPECT_EQ(got, 3);
    device.on(stream::compute).discard(data, sizeof *data);
    device.synchronize();
    EXPECT_TRUE(std::isnan(*data));
    EXPECT_EQ(device.allocate(0).data(), nullptr);
  });
}

TEST(SimulatedDevice, MemoryStaysUntilItsOperationsAreOver) {
  simulated{}.run(data_mesh(1), [](rank_type& rank) {
    auto& device = rank.device();
    double got = 0;
    {
      auto const room = device.allocate(sizeof(double));
      auto* const data = reinterpret_cast<double*>(room.data());
      device.on(stream::compute).fill(2.0, data, 1);
      device.download(data, &got, sizeof got);
    }
    device.synchronize();
    EXPECT_EQ(got, 2);
  });
}

TEST(SimulatedDevice, MemoryGoesWithSynchronize) {
  EXPECT_NE(error_of<plait::input_error>(1,
                                         [](rank_type& rank) {
                                           auto& device = rank.device();
                                           auto room = device.allocate(sizeof(double));
                                           auto* const data =
                                               reinterpret_cast<double*>(room.data());
                                           device.on(stream::compute).fill(2.0, data, 1);
                                           room = {};
                                           device.synchronize();
                                           device.on(stream::compute).fill(2.0, data, 1);
                                           device.synchronize();
                                         }),
            "");
}

TEST(SimulatedDevice, KernelsGetTheQueueOfTheHost) {
  using view = plait::view<double, plait::invariant, plait::ext::simulated_memory>;
  using input = plait::view<double const, plait::invariant, plait::ext::simulated_memory>;
  simulated{}.run(data_mesh(1), [](rank_type& rank) {
    auto& device = rank.device();
    auto const room = device.allocate(4 * sizeof(double));
    auto* const data = reinterpret_cast<double*>(room.data());
    auto const queue = device.on(stream::compute);
    queue.fill(2.0, data, 2);
    queue.run([](auto const& host, input x, view y) { host.add(x.data, x.data, y.data, 2); },
              input{data, 1, 2}, view{data + 2, 1, 2});
    std::array<double, 4> got{};
    device.download(data, got.data(), sizeof got);
    device.synchronize();
    EXPECT_EQ(got, (std::array<double, 4>{2, 2, 4, 4}));
    queue.run([](auto const&, input, view) {}, input{data, 1, 2}, view{data + 2, 1, 2});
    device.on(stream::tensor).fill(1.0, data + 1, 1);  // the value that the kernel reads
    EXPECT_THROW(device.synchronize(), plait::ext::race_error);
  });
}

TEST(SimulatedDevice, HostMemoryIsNotItsOwn) {
  auto const text = error_of<plait::input_error>(1, [](rank_type& rank) {
    double host = 0;
    rank.device().on(stream::compute).fill(1.0, &host, 1);
    rank.device().synchronize();
  });
  EXPECT_EQ(text,
            "rank 0: fill on stream compute touches 8 bytes that are not in an arena of this "
            "rank's device; allocate() them there and upload() their contents");
}

TEST(SimulatedDevice, AnotherRanksMemoryIsNotItsOwn) {
  plait::ext::simulated_device::arena room;
  auto const text = error_of<plait::input_error>(2, [&](rank_type& rank) {
    if (rank.world_rank() == 0) room = rank.device().allocate(64);
    rank.world().barrier();
    if (rank.world_rank() == 1)
      rank.device().on(stream::compute).fill(1.0, reinterpret_cast<double*>(room.data()), 1);
    rank.device().synchronize();
  });
  EXPECT_NE(text.find("rank 1: fill on stream compute touches 8 bytes"), std::string::npos) << text;
}

// --- jobs -------------------------------------------------------------------------------------

TEST(SimulatedJob, CountsOperationsAndSites) {
  plait::ext::simulated_statistics statistics;
  simulated{.statistics = &statistics}.run(data_mesh(2), [](rank_type& rank) {
    auto const room = rank.device().allocate(sizeof(double));
    std::span<double> const x(reinterpret_cast<double*>(room.data()), 1);
    rank.device().on(stream::compute).fill(1.0, x.data(), 1);
    rank.wait_across(stream::data, {plait::ext::wait_site::part::layer, 3, 0},
                     [&] { rank.group(axis::data).all_reduce(x); });
    rank.device().synchronize();
    auto event = rank.device().make_event();
    rank.device().record(event, stream::data);
    rank.device().wait(stream::data, event,
                       {plait::ext::wait_site::part::step, 9});  // ordered without the wait
    rank.device().synchronize();
    rank.device().wait(stream::compute, event,
                       {plait::ext::wait_site::part::step, 9});  // the operation ended long before
  });
  EXPECT_EQ(statistics.operations, 4u);
  EXPECT_EQ(statistics.sites,
            (std::set<plait::ext::wait_site>{{plait::ext::wait_site::part::layer, 3, 0},
                                             {plait::ext::wait_site::part::layer, 3, 1}}));
}

TEST(SimulatedJob, BarrierIsAMeetingOfHosts) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::array<int, 3> arrived{};
    simulated{.seed = seed}.run(data_mesh(3), [&](rank_type& rank) {
      if (rank.world_rank() == 1) rank.device().synchronize();
      arrived[std::size_t(rank.world_rank())] = 1;
      rank.world().barrier();
      EXPECT_EQ(arrived, (std::array<int, 3>{1, 1, 1}));
      EXPECT_EQ(rank.world().counted().calls(plait::ext::collective::barrier), 1u);
    });
  }
}

TEST(SimulatedJob, ARankThatFailsEndsAll) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::array<std::string, 3> texts;
    auto const text = error_of<plait::input_error>(
        3,
        [&](rank_type& rank) {
          auto const room = rank.device().allocate(64);
          rank.device().on(stream::data).fill(1.0f, reinterpret_cast<float*>(room.data()), 1);
          if (rank.world_rank() == 1) throw plait::input_error("no such file");
          rank.world().all_reduce(std::span<float>(reinterpret_cast<float*>(room.data()), 1));
          try {
            rank.device().synchronize();
          } catch (plait::ext::job_aborted const& e) {
            texts[std::size_t(rank.world_rank())] = e.what();
            throw;
          }
        },
        {.seed = seed});
    EXPECT_EQ(text, "rank 1: no such file");
    EXPECT_EQ(texts, (std::array<std::string, 3>{"rank 1 failed: no such file", "",
                                                 "rank 1 failed: no such file"}));
  }
}

TEST(SimulatedJob, OtherExceptionsAreNested) {
  auto const text = error_of<plait::error>(2, [](rank_type& rank) {
    if (rank.world_rank() == 1) throw std::out_of_range("far");
  });
  EXPECT_EQ(text, "rank 1: far");
}

TEST(SimulatedJob, AnOperationThatThrowsEndsAll) {
  auto const text = error_of<plait::error>(2, [](rank_type& rank) {
    if (rank.world_rank() == 1)
      rank.device().on(stream::compute).run([](auto const&) { throw std::out_of_range("far"); });
    rank.device().synchronize();
    if (rank.world_rank() == 0) rank.world().barrier();
  });
  EXPECT_EQ(text, "rank 1: run on stream compute: far");
}

TEST(SimulatedJob, DeadlockSaysWhoWaitsForWhat) {
  auto const program = [](rank_type& rank) {
    auto const room = rank.device().allocate(64);
    std::span<float> const x(reinterpret_cast<float*>(room.data()), 4);
    rank.device().on(stream::data).fill(1.0f, x.data(), 4);
    auto const name = rank.device().mark("exchange");
    auto& comm = rank.group(axis::data);
    if (rank.world_rank() == 2) return;
    // Both ranks send first, so neither receives.
    comm.send(x, 1 - comm.rank(), 0);
    comm.receive(x, 1 - comm.rank(), 0);
    auto event = rank.device().make_event();
    rank.device().record(event, stream::data);
    rank.device().wait(stream::compute, event, {});
    rank.device().on(stream::compute).fill(1.0f, x.data(), 4);
    rank.device().synchronize();
  };
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    EXPECT_EQ(error_of<plait::collective_mismatch>(3, program, {.seed = seed}),
              "deadlock: rank 0 waits in synchronize, stream compute waits for stream data, stream "
              "data waits in send of 16 bytes to rank 1 with tag 0 on group {0,1,2} (exchange); "
              "rank 1 waits in synchronize, stream compute waits for stream data, stream data "
              "waits in send of 16 bytes to rank 0 with tag 0 on group {0,1,2} (exchange); rank 2 "
              "has finished");
}

TEST(SimulatedJob, ABarrierWithoutAllIsADeadlock) {
  auto const text = error_of<plait::collective_mismatch>(2, [](rank_type& rank) {
    if (rank.world_rank() == 0) rank.world().barrier();
  });
  EXPECT_EQ(text, "deadlock: rank 0 waits in barrier on group {0,1}; rank 1 has finished");
}

// Two groups with the same ranks and the same stream are distinct.
TEST(SimulatedJob, GroupsAreToldApart) {
  axis_set const other = axis::data | axis::stage;
  plait::ext::mesh_groups const groups(data_mesh(2), {axis::data, other});
  auto const of = [&](rank_type& rank) -> auto& {
    return rank.group(rank.world_rank() == 0 ? other : axis_set(axis::data));
  };
  EXPECT_THROW(simulated{}.run(groups, [&](rank_type& rank) { of(rank).barrier(); }),
               plait::collective_mismatch);
  EXPECT_THROW(
      simulated{}.run(groups, [&](rank_type& rank) { of(rank).all_reduce(std::span<float>{}); }),
      plait::collective_mismatch);
}

TEST(SimulatedJob, UnawaitedOperationsAreExecutedAndChecked) {
  int executed = 0;
  simulated{}.run(data_mesh(2), [&](rank_type& rank) {
    rank.device().on(stream::compute).run([&](auto const&) { ++executed; });
  });
  EXPECT_EQ(executed, 2);
  auto const race = error_of<plait::ext::race_error>(1, [](rank_type& rank) {
    auto const room = rank.device().allocate(8);
    auto* const data = reinterpret_cast<double*>(room.data());
    rank.device().on(stream::compute).fill(1.0, data, 1);
    rank.device().on(stream::data).fill(1.0, data, 1);
  });
  EXPECT_NE(race, "");
  auto const stuck = error_of<plait::collective_mismatch>(2, [](rank_type& rank) {
    if (rank.world_rank() == 0) rank.group(axis::data).all_reduce(std::span<float>{});
  });
  EXPECT_EQ(stuck,
            "deadlock: rank 0 has finished, stream data waits in all_reduce of 0 bytes on group "
            "{0,1}; rank 1 has finished");
  // Its target is destroyed before it is executed.
  simulated{}.run(data_mesh(1), [](rank_type& rank) {
    auto const host = std::make_unique<double>(0.0);
    auto const room = rank.device().allocate(8);
    rank.device().on(stream::compute).fill(1.0, reinterpret_cast<double*>(room.data()), 1);
    rank.device().download(room.data(), host.get(), 8);
  });
}

}  // namespace
