// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/thread_world.hpp"
#include "plait/backend/host/run_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/host/threads.hpp"

namespace {

using plait::ext::thread_communicator;

struct ThreadErrors : testing::Test {
  // The exception of each rank. Most of these tests would hang with a fault, so TearDown checks the
  // time.
  template <class Error, class Program>
  std::vector<std::string> expect_each(int ranks, Program program,
                                       plait::thread_options options = {}) {
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    plait::ext::thread_world world{ranks, options};
    int const group = world.add_group(members);
    std::vector<std::string> texts(members.size());
    plait::ext::run_ranks(world, [&](int rank) {
      thread_communicator comm{world, group, members, rank};
      try {
        program(comm);
      } catch (Error const& e) {
        texts[static_cast<std::size_t>(rank)] = e.what();
      }
    });
    return texts;
  }

  void TearDown() override {
    // The limit is far below the timeout of 60 seconds.
    EXPECT_LT(std::chrono::steady_clock::now() - begin_, std::chrono::seconds{20});
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Tests of many rounds, without a limit of time.
struct ThreadStress : ThreadErrors {
  void TearDown() override {}
};

void expect_text_everywhere(std::vector<std::string> const& texts, std::string const& expected) {
  for (auto const& text : texts) EXPECT_EQ(text, expected);
}

TEST_F(ThreadErrors, DifferentCollectives) {
  auto const texts = expect_each<plait::collective_mismatch>(2, [](thread_communicator& comm) {
    std::vector<float> x(4, 1.0f), all(8, 1.0f);
    if (comm.rank() == 0) {
      EXPECT_THROW(
          {
            try {
              comm.all_reduce(std::span{x});
            } catch (...) {
              EXPECT_EQ(x, std::vector<float>(4, 1.0f));
              throw;
            }
          },
          plait::collective_mismatch);
      comm.all_gather(x, std::span{all});  // after an error on all ranks the group still works ...
      comm.all_reduce(std::span{x});       // ... and the same mistake gives the same error
    } else {
      EXPECT_THROW(comm.all_gather(x, std::span{all}), plait::collective_mismatch);
      EXPECT_EQ(all, std::vector<float>(8, 1.0f));
      comm.all_gather(x, std::span{all});
      comm.all_gather(x, std::span{all});
    }
  });
  expect_text_everywhere(texts,
                         "rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum), but "
                         "rank 1 called all_gather of 16 bytes per rank on group {0,1} (float32)");
}

TEST_F(ThreadErrors, DifferentSizes) {
  auto const texts = expect_each<plait::collective_mismatch>(3, [](thread_communicator& comm) {
    std::vector<float> x(comm.rank() == 2 ? 5 : 4, 1.0f);
    auto const before = x;
    try {
      comm.all_reduce(std::span{x});
    } catch (...) {
      EXPECT_EQ(x, before);
      throw;
    }
  });
  expect_text_everywhere(
      texts,
      "rank 0 called all_reduce of 16 bytes on group {0,1,2} (float32, sum), but "
      "rank 2 called all_reduce of 20 bytes on group {0,1,2} (float32, sum)");
}

TEST_F(ThreadErrors, DifferentElementTypes) {
  auto const texts = expect_each<plait::collective_mismatch>(2, [](thread_communicator& comm) {
    std::vector<float> x(4);
    std::vector<int> y(4);
    if (comm.rank() == 0) comm.broadcast(std::span{x}, 0);
    else comm.broadcast(std::span{y}, 0);
  });
  expect_text_everywhere(
      texts,
      "rank 0 called broadcast of 16 bytes from rank 0 on group {0,1} (float32), but "
      "rank 1 called broadcast of 16 bytes from rank 0 on group {0,1} (int32)");
}

TEST_F(ThreadErrors, DifferentRoots) {
  auto const texts = expect_each<plait::collective_mismatch>(4, [](thread_communicator& comm) {
    std::vector<double> x(4, 1.0);
    comm.broadcast(std::span{x}, comm.rank() == 3 ? 1 : 2);
  });
  expect_text_everywhere(
      texts,
      "rank 0 called broadcast of 32 bytes from rank 2 on group {0,1,2,3} (float64), but "
      "rank 3 called broadcast of 32 bytes from rank 1 on group {0,1,2,3} (float64)");
}

TEST_F(ThreadErrors, DifferentReductions) {
  auto const texts = expect_each<plait::collective_mismatch>(2, [](thread_communicator& comm) {
    std::vector<double> x(1);
    comm.all_reduce(std::span{x},
                    comm.rank() == 0 ? plait::ext::reduction::max : plait::ext::reduction::sum);
  });
  expect_text_everywhere(texts,
                         "rank 0 called all_reduce of 8 bytes on group {0,1} (float64, max), but "
                         "rank 1 called all_reduce of 8 bytes on group {0,1} (float64, sum)");
}

TEST_F(ThreadErrors, DifferentTrainers) {
  auto texts = expect_each<plait::collective_mismatch>(3, [](thread_communicator& comm) {
    std::vector<float> x(4, 1.0f);
    comm.call_for(7);
    comm.all_reduce(std::span{x});
    comm.call_for(comm.rank() == 2 ? 0 : 8);
    comm.all_reduce(std::span{x});
  });
  expect_text_everywhere(
      texts,
      "rank 0 called all_reduce of 16 bytes on group {0,1,2} (float32, sum) for trainer 8, but "
      "rank 2 called all_reduce of 16 bytes on group {0,1,2} (float32, sum)");
  texts = expect_each<plait::collective_mismatch>(2, [](thread_communicator& comm) {
    std::vector<float> x(4, static_cast<float>(comm.rank()));
    comm.call_for(comm.rank() == 0 ? 1 : 2);
    try {
      if (comm.rank() == 0) comm.send(std::span{x}, 1, 7);
      else comm.receive(std::span{x}, 0, 7);
    } catch (...) {
      EXPECT_EQ(x[0], static_cast<float>(comm.rank()));
      throw;
    }
  });
  expect_text_everywhere(
      texts,
      "rank 0 called send of 16 bytes to rank 1 with tag 7 on group {0,1} (float32) for trainer 1, "
      "but rank 1 called receive of 16 bytes from rank 0 with tag 7 on group {0,1} (float32) for "
      "trainer 2");
}

TEST_F(ThreadErrors, DifferentAxesOfEqualMembers) {
  using plait::axis;
  plait::ext::mesh grid;
  grid.add(axis::data, 2);
  std::vector<std::string> texts(2);
  plait::threads{}.run({grid, {axis::data, axis::data | axis::stage}}, [&](auto& rank) {
    std::vector<float> x(4, 1.0f);
    try {
      if (rank.is_root()) rank.group(axis::data).all_reduce(std::span{x});
      else rank.group(axis::data | axis::stage).all_reduce(std::span{x});
    } catch (plait::collective_mismatch const& e) {
      texts[static_cast<std::size_t>(rank.world_rank())] = e.what();
    }
    rank.group(axis::data | axis::stage).all_reduce(std::span{x});
    EXPECT_EQ(x[0], 2.0f);
  });
  expect_text_everywhere(
      texts,
      "rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum) over data, but "
      "rank 1 called all_reduce of 16 bytes on group {0,1} (float32, sum) over data x stage");
}

TEST_F(ThreadErrors, BlockSizesThatDoNotFitAreAnErrorOnEveryRank) {
  auto texts = expect_each<plait::size_mismatch>(3, [](thread_communicator& comm) {
    std::vector<float> x(2), all(comm.rank() == 1 ? 5 : 6, 1.0f);
    auto const before = all;
    try {
      comm.all_gather(x, std::span{all});
    } catch (...) {
      EXPECT_EQ(all, before);
      throw;
    }
  });
  expect_text_everywhere(
      texts,
      "rank 1 called all_gather of 8 bytes per rank on group {0,1,2}: the buffer "
      "for all ranks has 20 bytes, not 24");
  texts = expect_each<plait::size_mismatch>(3, [](thread_communicator& comm) {
    std::vector<float> x(4), y(4);
    comm.all_to_all(x, std::span{y});
  });
  expect_text_everywhere(texts,
                         "rank 0 called all_to_all of 16 bytes on group {0,1,2}: its 4 elements "
                         "cannot be cut into 3 equal blocks");
}

TEST_F(ThreadErrors, ARootOutsideTheGroup) {
  auto const texts = expect_each<plait::input_error>(2, [](thread_communicator& comm) {
    std::vector<float> x(4);
    comm.broadcast(std::span{x}, 2);
  });
  expect_text_everywhere(
      texts,
      "rank 0 called broadcast of 16 bytes from member 2 on group {0,1}: the root "
      "must be from 0 to 1");
}

TEST_F(ThreadErrors, DifferentTagsAndSizesOfAMessage) {
  auto const run = [&](int tag, std::size_t count) {
    return expect_each<plait::collective_mismatch>(2, [=](thread_communicator& comm) {
      std::vector<float> x(4, static_cast<float>(comm.rank()));
      if (comm.rank() == 0) {
        EXPECT_THROW(comm.send(std::span{x}, 1, 7), plait::collective_mismatch);
        comm.send(std::span{x}, 1, 7);  // the pair still works
        comm.send(std::span{x}, 1, 7);
      } else {
        auto const wrong = std::span{x}.first(count);
        EXPECT_THROW(comm.receive(wrong, 0, tag), plait::collective_mismatch);
        EXPECT_EQ(x[0], 1.0f);
        comm.receive(std::span{x}, 0, 7);
        EXPECT_EQ(x[3], 0.0f);
        comm.receive(wrong, 0, tag);
      }
    });
  };
  expect_text_everywhere(
      run(8, 4),
      "rank 0 called send of 16 bytes to rank 1 with tag 7 on group {0,1} (float32), but "
      "rank 1 called receive of 16 bytes from rank 0 with tag 8 on group {0,1} (float32)");
  expect_text_everywhere(
      run(7, 3),
      "rank 0 called send of 16 bytes to rank 1 with tag 7 on group {0,1} (float32), but "
      "rank 1 called receive of 12 bytes from rank 0 with tag 7 on group {0,1} (float32)");
}

TEST_F(ThreadErrors, WaitingForARankThatHasFinished) {
  auto const texts = expect_each<plait::collective_mismatch>(2, [](thread_communicator& comm) {
    std::vector<float> x(16);
    if (comm.rank() == 0) comm.all_reduce(std::span{x});
  });
  EXPECT_EQ(texts[0],
            "deadlock: rank 0 waits in all_reduce of 64 bytes on group {0,1}; rank 1 has finished");
}

TEST_F(ThreadErrors, RanksThatDoTheSameAreOneRange) {
  std::vector<int> const members{0, 1, 2, 3};
  plait::ext::thread_world world{4};
  int const group = world.add_group(members);
  world.start();
  for (int const rank : {1, 2, 3}) world.finish(rank);
  thread_communicator comm{world, group, members, 0};
  try {
    comm.barrier();
    ADD_FAILURE() << "nothing was thrown";
  } catch (plait::collective_mismatch const& problem) {
    EXPECT_EQ(std::string(problem.what()),
              "deadlock: rank 0 waits in barrier on group {0,1,2,3}; ranks 1-3 have finished");
  }
}

TEST_F(ThreadErrors, ARankThatFinishesWakesThoseThatSleep) {
  auto const texts = expect_each<plait::collective_mismatch>(2, [](thread_communicator& comm) {
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{100});
    else comm.barrier();
  });
  EXPECT_EQ(texts[0], "deadlock: rank 0 waits in barrier on group {0,1}; rank 1 has finished");
}

TEST_F(ThreadErrors, WaitingForAFinishedRankIsFoundWhileOthersCompute) {
  std::atomic<bool> is_told{false};
  auto const texts = expect_each<plait::collective_mismatch>(3, [&](thread_communicator& comm) {
    std::vector<float> x(16);
    if (comm.rank() == 2) is_told.wait(false);
    if (comm.rank() != 0) return;
    try {
      comm.send(std::span{x}, 1, 3);
    } catch (plait::collective_mismatch const&) {
      is_told = true;
      is_told.notify_all();
      throw;
    }
  });
  EXPECT_EQ(texts[0],
            "deadlock: rank 0 waits in send of 64 bytes to rank 1 with tag 3 on group {0,1,2}; "
            "rank 1 has finished; rank 2 is running");
}

TEST_F(ThreadErrors, TwoSendsThatWaitForEachOther) {
  auto const texts = expect_each<plait::collective_mismatch>(2, [](thread_communicator& comm) {
    std::vector<float> x(2), y(2);
    comm.send(std::span{x}, 1 - comm.rank(), 0);
    comm.receive(std::span{y}, 1 - comm.rank(), 0);
  });
  expect_text_everywhere(
      texts,
      "deadlock: rank 0 waits in send of 8 bytes to rank 1 with tag 0 on group "
      "{0,1}; rank 1 waits in send of 8 bytes to rank 0 with tag 0 on group {0,1}");
}

TEST_F(ThreadErrors, RanksThatWaitForEachOtherInDifferentGroups) {
  // A ring of three pairs: each rank first calls its left pair, whose other member calls its own.
  plait::ext::thread_world world{3};
  std::vector<std::vector<int>> const pairs{{0, 1}, {1, 2}, {2, 0}};
  for (auto const& pair : pairs) world.add_group(pair);
  std::vector<std::string> texts(3);
  plait::ext::run_ranks(world, [&](int rank) {
    auto const own = static_cast<std::size_t>(rank);
    thread_communicator comm{world, rank, pairs[own], rank};
    std::vector<double> x(static_cast<std::size_t>(rank) + 1);
    try {
      comm.all_reduce(std::span{x});
    } catch (plait::collective_mismatch const& e) {
      texts[own] = e.what();
    }
  });
  expect_text_everywhere(texts,
                         "deadlock: rank 0 waits in all_reduce of 8 bytes on group {0,1}; "
                         "rank 1 waits in all_reduce of 16 bytes on group {1,2}; "
                         "rank 2 waits in all_reduce of 24 bytes on group {2,0}");
}

TEST_F(ThreadErrors, ALongComputationIsNotAnError) {
  auto const texts = expect_each<plait::error>(3, [](thread_communicator& comm) {
    std::vector<float> x(4, 1.0f);
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{200});
    comm.all_reduce(std::span{x});
    EXPECT_EQ(x[0], 3.0f);
  });
  expect_text_everywhere(texts, "");
}

TEST_F(ThreadErrors, AWaitThatIsTooLongSaysWhatEveryRankDoes) {
  std::atomic<int> came{0};
  std::atomic<bool> is_told{false};
  auto const texts = expect_each<plait::communication_timeout>(
      3,
      [&](thread_communicator& comm) {
        if (comm.rank() == 1) return is_told.wait(false);
        for (++came; came < 2;) std::this_thread::yield();  // both wait only for rank 1
        try {
          comm.barrier();
        } catch (plait::communication_timeout const&) {
          is_told = true;
          is_told.notify_all();
          throw;
        }
      },
      {.timeout = std::chrono::milliseconds{300}});
  for (std::size_t const rank : {0u, 2u}) {
    EXPECT_NE(texts[rank].find("waited longer than 300 ms: "), std::string::npos) << texts[rank];
    EXPECT_NE(texts[rank].find("rank 0 waits in barrier on group {0,1,2}; rank 1 is running; "
                               "rank 2 waits in barrier"),
              std::string::npos)
        << texts[rank];
  }
}

TEST_F(ThreadErrors, AnExceptionOnOneRankEndsAllAndKeepsItsType) {
  std::vector<int> const members{0, 1, 2};
  auto const run = [&](auto fail) {
    plait::ext::thread_world world{3};
    int const group = world.add_group(members);
    std::mutex mutex;
    std::vector<std::string> aborted;
    try {
      plait::ext::run_ranks(world, [&](int rank) {
        thread_communicator comm{world, group, members, rank};
        comm.barrier();
        if (rank == 1) fail();
        try {
          comm.barrier();
        } catch (plait::ext::job_aborted const& e) {
          std::scoped_lock const lock{mutex};
          aborted.push_back(e.what());
          throw;
        }
      });
    } catch (...) {
      EXPECT_EQ(aborted.size(), 2u);
      EXPECT_THROW(plait::ext::run_ranks(world, [](int) {}),
                   plait::ext::job_aborted);  // the group stays broken
      for (auto const& text : aborted) EXPECT_EQ(text.find("rank 1 failed"), 0u) << text;
      throw;
    }
  };
  auto const text_of = [&]<class Error>(Error const& thrown) {
    try {
      run([&] { throw thrown; });
    } catch (Error const& e) {
      return std::string(e.what());
    } catch (plait::error const& e) {
      try {
        std::rethrow_if_nested(e);
      } catch (Error const& nested) {
        return std::string(e.what()) + " <- " + nested.what();
      }
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(text_of(plait::input_error{"no such file"}), "rank 1: no such file");
  EXPECT_EQ(text_of(plait::size_mismatch{"rank 1 has 3, not 4"}), "rank 1 has 3, not 4");
  EXPECT_EQ(text_of(std::out_of_range{"index 9"}), "rank 1: index 9 <- index 9");
  EXPECT_THROW(run([] { throw 5; }), int);
}

TEST_F(ThreadErrors, AMismatchIsReportedAndNotTheAbortItCauses) {
  std::vector<int> const members{0, 1, 2, 3};
  plait::ext::thread_world world{4};
  int const group = world.add_group(members);
  try {
    plait::ext::run_ranks(world, [&](int rank) {
      thread_communicator comm{world, group, members, rank};
      std::vector<float> x(rank == 3 ? 1 : 2);
      comm.all_reduce(std::span{x});
    });
    FAIL() << "no error";
  } catch (plait::collective_mismatch const& e) {
    EXPECT_EQ(std::string(e.what()).find("rank 0 called all_reduce of 8 bytes"), 0u) << e.what();
  }
}

TEST_F(ThreadErrors, AbortFromOutsideReachesEveryWait) {
  plait::ext::thread_world world{2};
  std::vector<int> const members{0, 1};
  int const group = world.add_group(members);
  std::atomic<int> running{0};
  std::jthread const outside{[&] {
    while (running < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    world.abort("the operator stopped the job");
  }};
  std::vector<std::string> texts(2);
  plait::ext::run_ranks(world, [&](int rank) {
    thread_communicator comm{world, group, members, rank};
    ++running;
    try {
      std::vector<int> x(1);
      if (rank == 0) comm.receive(std::span{x}, 1, 0);
      while (true) std::this_thread::sleep_for(std::chrono::milliseconds{80}), comm.barrier();
    } catch (plait::ext::job_aborted const& e) {
      texts[static_cast<std::size_t>(rank)] = e.what();
    }
  });
  expect_text_everywhere(texts, "the operator stopped the job");
}

// An abort may come at any point of a call: each call then ends on all ranks or on none, and no
// rank leaves while another still reads its buffer (the address sanitizer would see it).
TEST_F(ThreadStress, AbortAtAnyMomentEndsAllRanks) {
  std::vector<int> const members{0, 1, 2};
  for (int round = 0; round < 100; ++round) {
    plait::ext::thread_world world{3};
    int const group = world.add_group(members);
    std::vector<int> ended(3);
    std::jthread const outside{[&] {
      std::this_thread::sleep_for(std::chrono::microseconds{10 * round});
      world.abort("stop");
    }};
    EXPECT_THROW(plait::ext::run_ranks(world,
                                       [&](int rank) {
                                         thread_communicator comm{world, group, members, rank};
                                         while (true) {
                                           std::vector<float> x(300, 1.0f);
                                           comm.all_reduce(std::span{x});
                                           EXPECT_EQ(x[299], 3.0f);
                                           ++ended[static_cast<std::size_t>(rank)];
                                           if (rank == 0) comm.send(std::span{x}, 2, 1);
                                           if (rank == 2) comm.receive(std::span{x}, 0, 1);
                                         }
                                       }),
                 plait::ext::job_aborted);
    EXPECT_EQ(ended[0], ended[1]);
    EXPECT_EQ(ended[0], ended[2]);
  }
}

// If a sender gave up while its buffer is being read, the received bytes could change.
TEST_F(ThreadStress, AbortDoesNotTakeTheBufferFromUnderAReceiver) {
  std::vector<int> const members{0, 1};
  std::vector<int> sent(2'000'000), received(sent.size());
  for (int round = 0; round < 12; ++round) {
    plait::ext::thread_world world{2};
    int const group = world.add_group(members);
    std::ranges::fill(sent, 7);
    std::ranges::fill(received, 0);
    bool arrived = false;
    std::jthread const outside{[&] {
      std::this_thread::sleep_for(std::chrono::microseconds{100 * round});
      world.abort("stop");
    }};
    auto const run = [&](int rank) {
      thread_communicator comm{world, group, members, rank};
      if (rank == 1) {
        comm.receive(std::span{received}, 0, 0);
        arrived = true;
      } else {
        try {
          comm.send(std::span{sent}, 1, 0);
        } catch (plait::ext::job_aborted const&) {
          std::ranges::fill(sent, 9);
          throw;
        }
      }
    };
    try {
      plait::ext::run_ranks(world, run);
    } catch (plait::ext::job_aborted const&) {
      EXPECT_FALSE(arrived);
    }
    EXPECT_EQ(std::ranges::count(received, 9), 0);
    if (arrived) {
      EXPECT_EQ(std::ranges::count(received, 7), static_cast<std::ptrdiff_t>(received.size()));
    }
  }
}

// Tests both ways of waiting: sleeping without any polling before it, and polling only.
TEST_F(ThreadStress, NoWakeUpIsLost) {
  for (auto const options : {plait::thread_options{.yields = 0, .spins = 0},
                             plait::thread_options{.yields = 3, .spins = 10}}) {
    auto const texts = expect_each<plait::error>(
        4,
        [](thread_communicator& comm) {
          std::vector<int> x(1);
          for (int i = 0; i < 300; ++i) {
            comm.barrier();
            if (comm.rank() % 2 == 0) comm.send(std::span{x}, comm.rank() + 1, i);
            else comm.receive(std::span{x}, comm.rank() - 1, i);
          }
        },
        options);
    expect_text_everywhere(texts, "");
  }
}

TEST_F(ThreadErrors, WaitingRanksUseNoProcessor) {
  auto const before = std::clock();
  auto const texts = expect_each<plait::error>(4, [](thread_communicator& comm) {
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds{500});
    comm.barrier();
  });
  expect_text_everywhere(texts, "");
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.25);
}

// Next to threads that never sleep a rank that yields waits for a time slice at each poll: 30 times
// as long as a rank that sleeps, before ranks detected this.
TEST(ThreadWaiting, RanksNextToBusyThreadsSleep) {
  auto const seconds = [](plait::thread_options const& options) {
    plait::ext::thread_world world{4, options};
    int const group = world.add_group({0, 1, 2, 3});
    auto const begin = std::chrono::steady_clock::now();
    plait::ext::run_ranks(world, [&](int rank) {
      thread_communicator comm{world, group, {0, 1, 2, 3}, rank};
      for (int i = 0; i < 300; ++i) comm.barrier();
    });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<std::jthread> busy;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    busy.emplace_back([](std::stop_token const& stop) {
      while (!stop.stop_requested()) {
      }
    });
  double asleep = 0, chosen = 1;
  // Other processes may disturb one of the two.
  for (int i = 0; i < 5 && chosen >= 8 * asleep + 0.2; ++i)
    asleep = seconds({.yields = 0}), chosen = seconds({});
  EXPECT_LT(chosen, 8 * asleep + 0.2);
}

TEST_F(ThreadErrors, AWorldRunsAgainAfterRanksHaveFinished) {
  plait::ext::thread_world world{2};
  std::vector<int> const members{1, 0};
  int const group = world.add_group(members);
  for (int run = 0; run < 3; ++run)
    plait::ext::run_ranks(world, [&](int rank) {
      thread_communicator comm{world, group, members, rank};
      std::vector<int> x{rank + 1};
      comm.all_reduce(std::span{x});
      EXPECT_EQ(x[0], 3);
      comm.barrier();
    });
}

TEST_F(ThreadErrors, WrongDeclarations) {
  EXPECT_THROW(plait::ext::thread_world{0}, plait::input_error);
  plait::ext::thread_world world{3};
  EXPECT_THROW(world.add_group({}), plait::input_error);
  EXPECT_THROW(world.add_group({0, 3}), plait::input_error);
  EXPECT_THROW(world.add_group({1, 1}), plait::input_error);
  EXPECT_EQ(world.add_group({0, 2}), 0);
  EXPECT_EQ(world.add_group({1}), 1);
  EXPECT_THROW(thread_communicator(world, 2, {0, 2}, 0), plait::input_error);
  EXPECT_THROW(thread_communicator(world, 0, {2, 0}, 0), plait::input_error);
  EXPECT_THROW(thread_communicator(world, 0, {0, 2}, 1), plait::input_error);
}

}  // namespace
