// SPDX-License-Identifier: Apache-2.0
// test: seconds=4 timeout=120
#include "plait/backend/process/second_thread.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backend/process/memory_engine.hpp"
#include "plait/backend/device.hpp"
#include "plait/backend/host/threads.hpp"
#include "plait/backend/process/process_device.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"
#include "plait/testing/slow_link.hpp"

namespace {

static_assert(plait::ext::device<plait::ext::process_device>);

using namespace plait;
using namespace plait::ext;
using namespace std::chrono_literals;
using plait::detail::collective_call;
using plait::detail::second_thread;
using plait_test::in_memory_processes;
using plait_test::memory_engine;

/// A gate at which calls wait.
class gate {
 public:
  void open() {
    {
      std::scoped_lock const lock{mutex_};
      is_open_ = true;
    }
    opens_.notify_all();
  }
  /// Returns true if the gate was opened in time.
  bool wait(std::chrono::milliseconds most = 20s) {
    std::unique_lock lock{mutex_};
    return opens_.wait_for(lock, most, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opens_;
  bool is_open_ = false;
};

/// Hands a function over to the second thread.
struct function_calls {
  second_thread& to;
  std::vector<std::function<void()>> all = std::vector<std::function<void()>>(1000);
  std::size_t count = 0;

  void hand_over(std::function<void()> work) {
    all[count] = std::move(work);
    to.hand_over({.carry_out = [](void* of, collective_call const&,
                                  std::size_t) { (*static_cast<std::function<void()>*>(of))(); },
                  .of = &all[count++]});
  }
};

TEST(SecondThread, CarriesOutInOrderAndWhatEitherWritesTheOtherReads) {
  second_thread second([] {});
  process_device device(std::shared_ptr<second_thread>(&second, [](auto*) {}));
  function_calls calls{second};
  std::vector<int> numbers(900), seen;
  std::vector<process_device::event> events(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {  // more calls than the queue holds
    numbers[i] = int(i);
    calls.hand_over([&, i] {
      seen.push_back(numbers[i]);
      numbers[i] = -numbers[i];
    });
    device.record(events[i], stream::data);
    if (i % 7 != 6) continue;
    device.wait(stream::compute, events[i - 3], {});
    EXPECT_EQ(numbers[i - 3], -int(i - 3));
  }
  device.synchronize();
  ASSERT_EQ(seen.size(), numbers.size());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], int(i));
}

TEST(SecondThread, RunsConcurrentlyAndWaitsDelayTheRank) {
  second_thread second([] {});
  process_device device(std::shared_ptr<second_thread>(&second, [](auto*) {}));
  function_calls calls{second};
  gate computed;
  bool was_beside = false;
  calls.hand_over([&] { was_beside = computed.wait(); });
  process_device::event of_data, of_tensor;
  device.record(of_data, stream::data);
  device.record(of_tensor, stream::tensor);
  device.wait(stream::compute, of_tensor, {});  // the operation has ended
  device.wait(stream::data, of_data, {});       // the operations are in order
  computed.open();
  device.wait(stream::tensor, of_data, {});
  EXPECT_TRUE(was_beside);
  // An operation of the rank on stream data runs after the calls that it has handed over.
  bool is_done = false;
  calls.hand_over([&] {
    std::this_thread::sleep_for(5ms);
    is_done = true;
  });
  (void)device.on(stream::data);
  EXPECT_TRUE(is_done);
}

TEST(SecondThread, AnErrorIsThrownByWhatComesNextAndLaterCallsAreDropped) {
  second_thread second([] {});
  process_device device(std::shared_ptr<second_thread>(&second, [](auto*) {}));
  function_calls calls{second};
  gate handed;
  bool is_dropped = true;
  calls.hand_over([&] {
    handed.wait();
    throw size_mismatch("the first");
  });
  calls.hand_over([&] { is_dropped = false; });
  process_device::event event;
  device.record(event, stream::data);
  handed.open();
  auto const text_of = [](auto work) -> std::string {
    try {
      work();
    } catch (size_mismatch const& problem) {
      return problem.what();
    }
    return "";
  };
  EXPECT_EQ(text_of([&] { device.wait(stream::compute, event, {}); }), "the first");
  EXPECT_EQ(text_of([&] { device.wait(stream::compute, {}, {}); }), "the first");
  EXPECT_EQ(text_of([&] { device.record(event, stream::data); }), "the first");
  EXPECT_EQ(text_of([&] { device.record(event, stream::stage); }), "the first");
  EXPECT_EQ(text_of([&] { device.synchronize(); }), "the first");
  EXPECT_EQ(text_of([&] { (void)device.on(stream::data); }), "the first");
  EXPECT_EQ(text_of([&] { calls.hand_over([&] { is_dropped = false; }); }), "the first");
  EXPECT_EQ(text_of([&] { second.rethrow_earlier(false); }), "the first");
  (void)device.on(stream::compute);
  EXPECT_TRUE(second.rest());
  EXPECT_TRUE(is_dropped);
}

TEST(SecondThread, FreedMemoryWaitsForCallsWhichAnExceptionAbandons) {
  gate given_up;
  second_thread second([&] { given_up.open(); });
  process_device device(std::shared_ptr<second_thread>(&second, [](auto*) {}));
  function_calls calls{second};
  bool has_written = false, is_dropped = true;
  {
    auto const room = device.allocate(1000);
    calls.hand_over([&, data = room.data()] {
      std::this_thread::sleep_for(5ms);
      std::memset(data, 1, 1000);
      has_written = true;
    });
  }
  EXPECT_TRUE(has_written);
  has_written = false;
  try {
    auto const room = device.allocate(1000);
    calls.hand_over([&, data = room.data()] {
      EXPECT_TRUE(given_up.wait());
      std::memset(data, 1, 1000);
      has_written = true;
    });
    calls.hand_over([&] { is_dropped = false; });
    throw error("the program has failed");
  } catch (error const&) {
  }
  EXPECT_TRUE(has_written);
  EXPECT_TRUE(is_dropped);
}

TEST(SecondThread, MemoryThatALibraryMayStillWriteIsNotFreed) {
  second_thread second([] {});
  process_device device(std::shared_ptr<second_thread>(&second, [](auto*) {}));
  function_calls calls{second};
  auto room = std::make_optional(device.allocate(1000));
  auto* const data = room->data();
  calls.hand_over([] { throw call_left("left"); });
  room.reset();
  std::memset(data, 1, 1000);
  ::operator delete(data, std::align_val_t{64});  // the test releases it
}

/// Messages of which one is in transit; a wait for it calls `work`.
struct awaited_message final : plait::detail::posted_messages {
  std::function<void()> work{};

  [[nodiscard]] std::uint64_t posted(stream channel) const override {
    return channel == stream::to_next ? 1 : 0;
  }
  void wait_for(stream, std::uint64_t count) override {
    if (count > 0) work();
  }
  void go_on() override { work(); }
  [[nodiscard]] bool rest() noexcept override { return true; }
  void leave() noexcept override {}
};

/// Returns the error of each call of a device that asks for messages. The wait for a message does
/// `waits`; meanwhile the second thread, if it has a call, does `calls`.
std::vector<std::string> texts_of_waits(std::function<void(second_thread&)> const& waits,
                                        std::function<void(gate&)> const& calls) {
  std::function<void(process_device&)> const all[]{[](auto& device) {
                                                     process_device::event event;
                                                     device.record(event, stream::to_next);
                                                     device.wait(stream::compute, event, {});
                                                   },
                                                   [](auto& device) { device.synchronize(); },
                                                   [](auto& device) { device.go_on(); }};
  std::vector<std::string> out;
  for (auto const& ask : all) {
    gate waiting;
    second_thread second([] {});
    auto const messages = std::make_shared<awaited_message>();
    process_device device(std::shared_ptr<second_thread>(&second, [](auto*) {}), messages);
    messages->work = [&] {
      waiting.open();
      waits(second);
    };
    function_calls of_second{second};
    if (calls) of_second.hand_over([&] { calls(waiting); });
    try {
      ask(device);
      out.emplace_back();
    } catch (error const& problem) {
      out.emplace_back(problem.what());
    }
    EXPECT_TRUE(second.rest());
  }
  return out;
}

TEST(SecondThread, AMessageThatFailsForItsErrorThrowsThat) {
  auto const fails = [](gate& waiting) {
    EXPECT_TRUE(waiting.wait());
    std::this_thread::sleep_for(20ms);  // the other thread is notified before the error is stored
    throw size_mismatch("the first");
  };
  auto const is_told = [](second_thread&) { throw other_thread_failed("the other has failed"); };
  EXPECT_EQ(texts_of_waits(is_told, fails), std::vector<std::string>(3, "the first"));
}

TEST(SecondThread, AMessageThatFailsAfterItsErrorThrowsTheError) {
  auto const fails = [](gate& waiting) {
    EXPECT_TRUE(waiting.wait());
    throw size_mismatch("the first");
  };
  auto const is_lost = [](second_thread& second) {
    try {
      while (true) second.require_sound();
    } catch (size_mismatch const&) {
      throw engine_error("the connection is lost");
    }
  };
  EXPECT_EQ(texts_of_waits(is_lost, fails), std::vector<std::string>(3, "the first"));
}

TEST(SecondThread, AMessageThatFailsByItselfThrowsItsOwnError) {
  auto const is_lost = [](second_thread&) { throw engine_error("the connection is lost"); };
  for (auto const& calls : {std::function<void(gate&)>(), std::function([](gate&) {})})
    EXPECT_EQ(texts_of_waits(is_lost, calls),
              std::vector<std::string>(3, "the connection is lost"));
}

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

TEST(SecondThread, NeitherItNorAWaitingRankSpins) {
  second_thread second([] {});
  function_calls calls{second};
  gate looks;
  double taken = 1;
  int times = 0;
  calls.hand_over([&] {
    auto const begin = processor_seconds();
    auto const end = std::chrono::steady_clock::now() + 300ms;
    for (; std::chrono::steady_clock::now() < end; ++times) second.pause(times);
    taken = processor_seconds() - begin;
    looks.open();
  });
  EXPECT_TRUE(looks.wait());  // this is not a wait of the rank's own thread for the second
  EXPECT_LT(taken, 0.1);
  EXPECT_GT(times, 10);
  calls.hand_over([] { std::this_thread::sleep_for(300ms); });
  auto const begin = processor_seconds();
  second.drain();
  EXPECT_LT(processor_seconds() - begin, 0.1);
}

// ---- Jobs

mesh two_ranks() {
  mesh grid;
  grid.add(axis::data, 2);
  return grid;
}
processes with(std::shared_ptr<process_engine> engine, process_streams streams = {}) {
  return {.engine = std::move(engine),
          .timeout = 20s,
          .start_timeout = 20s,
          .streams = streams,
          .flight_record = "off"};
}

/// Returns whether a call over data waits until the rank has continued.
std::vector<bool> are_beside(process_streams streams) {
  std::vector<bool> out(2);
  std::mutex mutex;
  auto const errors = in_memory_processes(2, [&](int rank, auto const& engine) {
    gate computed;
    std::atomic<bool> waits{false};
    std::vector<bool> found;
    auto const look = [&] {
      if (waits) found.push_back(computed.wait(200ms));
    };
    engine->rank().before_second = engine->rank().before_own = look;
    with(engine, streams).run(two_ranks(), [&](auto& mine) {
      auto const room = mine.device().allocate(sizeof(float));
      auto* const number = reinterpret_cast<float*>(room.data());
      *number = 1;
      auto const trainer = mine.calls_for(1);
      waits = true;
      mine.wait_across(stream::data, {}, [&] {
        mine.group(axis::data).all_reduce(std::span<float>(number, 1));
        computed.open();
      });
      EXPECT_EQ(*number, 2);
      waits = false;
    });
    std::scoped_lock const lock{mutex};
    out[std::size_t(rank)] = found.at(0);
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
  return out;
}

TEST(ConcurrentStreams, ACallRunsConcurrentlyWithTheRankUnlessInTurn) {
  EXPECT_EQ(are_beside(process_streams::concurrent), std::vector<bool>(2, true));
  EXPECT_EQ(are_beside(process_streams::in_turn), std::vector<bool>(2, false));
}

using net =
    sequential<named<"first", nn::linear<6, 16>>, nn::gelu<16>, named<"last", nn::linear<16, 4>>>;
using policy = hybrid<pipeline<2>, data_parallel<2, zero<1>>, tensor_parallel<2>>;
struct job : parallel<objective<net, nn::cross_entropy<4>>, policy, float> {};

/// Returns the losses of some steps and a sum of the weights.
template <class Backend>
std::vector<double> trained(Backend const& backend) {
  auto const data = in_memory<float>::random_classes(64, 6, 4, 1);
  std::vector<double> out;
  std::mutex mutex;
  launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, adamw{.learning_rate = 0.01F}, {.clip = 1});
    std::vector<double> mine;
    for (auto const& batch : batches(data, global_batch<24>{}, rank, {.epochs = 3}))
      mine.push_back(trainer.step(batch).loss);
    double sum = 0;
    trainer.export_parameters([&](auto const&, auto const&, auto values) {
      for (auto const value : values) sum = 0.999 * sum + double(value);
    });
    mine.push_back(sum);
    std::scoped_lock const lock{mutex};
    if (rank.is_root()) out = mine;
  });
  return out;
}

TEST(ConcurrentStreams, HaveTheBitsOfThreadsAndOfInTurn) {
  auto const expected = trained(threads{});
  ASSERT_EQ(expected.size(), 7u);
  for (auto const streams : {process_streams::concurrent, process_streams::in_turn}) {
    std::vector<double> got;
    auto const errors = in_memory_processes(8, [&](int rank, auto const& engine) {
      auto const mine = trained(with(engine, streams));
      if (rank == 0) got = mine;
      // The groups over data, over all axes that a loss is summed over, and the world.
      EXPECT_EQ(engine->second_groups > 0, streams == process_streams::concurrent);
    });
    EXPECT_EQ(errors, std::vector<std::string>(8));
    EXPECT_EQ(got, expected);
  }
}

TEST(ConcurrentStreams, WithoutBatchAxesThereIsNoSecondThread) {
  auto const errors = in_memory_processes(2, [&](int, auto const& engine) {
    mesh grid;
    grid.add(axis::tensor, 2);
    with(engine).run(grid, [&](auto& mine) {
      float number = 1;
      mine.world().all_reduce(std::span<float>(&number, 1));
      EXPECT_EQ(number, 2);
    });
    EXPECT_EQ(engine->second_groups, 0);
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(ConcurrentStreams, AnEngineForOneThreadOnAnyRankMakesAllTakeTurnsAndRank0SaysSo) {
  for (int const which : {0, 1}) {
    ::testing::internal::CaptureStderr();
    auto const errors = in_memory_processes(2, [&](int rank, auto const& engine) {
      engine->serves_one = rank == which;
      with(engine).run(two_ranks(), [&](auto& mine) { mine.world().barrier(); });
      EXPECT_EQ(engine->second_groups, 0);
    });
    EXPECT_EQ(errors, std::vector<std::string>(2));
    auto const why = which == 0 ? std::string("this engine is told to serve one thread")
                                : std::string("the engine of process 1 serves only one thread");
    EXPECT_EQ(
        ::testing::internal::GetCapturedStderr(),
        "plait: processes: " + why + "; calls over batch axes and computations run in turn\n");
  }
}

TEST(ConcurrentStreams, RanksThatAreToldOtherwiseAreRefused) {
  auto const errors = in_memory_processes(2, [&](int rank, auto const& engine) {
    with(engine, rank == 0 ? process_streams::concurrent : process_streams::in_turn)
        .run(two_ranks(), [](auto&) {});
  });
  for (auto const& text : errors)
    EXPECT_NE(text.find(".streams: concurrent on rank 0, in_turn on rank 1"), std::string::npos)
        << text;
}

/// Returns the errors of two ranks with the program `program(rank, numbers on the device)`.
std::vector<std::string> errors_of(
    std::function<void(processes::rank_type&, std::span<float>)> const& program,
    std::function<void(int, plait_test::memory_rank&)> const& prepare = {}) {
  return in_memory_processes(2, [&](int rank, auto const& engine) {
    if (prepare) prepare(rank, engine->rank());
    with(engine).run(two_ranks(), [&](auto& mine) {
      auto const room = mine.device().allocate(100 * sizeof(float));
      auto const trainer = mine.calls_for(1);
      program(mine, {reinterpret_cast<float*>(room.data()), 100});
    });
  });
}

TEST(ConcurrentStreams, AMismatchInTheSecondThreadIsThrownOnAllRanks) {
  auto const errors = errors_of([](auto& rank, auto numbers) {
    auto& data = rank.group(axis::data);
    data.all_reduce(numbers.first(rank.world_rank() == 0 ? 4 : 5));
    data.all_reduce(numbers);  // the call may be dropped
    rank.device().synchronize();
    ADD_FAILURE() << "rank " << rank.world_rank() << " goes on";
  });
  for (auto const& text : errors)
    EXPECT_NE(text.find("rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum) for "
                        "trainer 1, but rank 1 called all_reduce of 20 bytes"),
              std::string::npos)
        << text;
}

TEST(ConcurrentStreams, AProgramThatFailsEndsTheCallUnderWayAndItsTextIsTheFirst) {
  auto const errors = errors_of([](auto& rank, auto numbers) {
    if (rank.world_rank() == 1) {  // rank 0 is in the call meanwhile
      rank.group(axis::data).all_reduce(numbers.first(4));
      rank.device().synchronize();
      throw input_error("this rank has had enough");
    }
    rank.group(axis::data).all_reduce(numbers.first(4));
    rank.group(axis::data).all_reduce(numbers);
    rank.device().synchronize();
  });
  EXPECT_EQ(errors[1], "this rank has had enough");
  EXPECT_NE(errors[0].find(": all_reduce of 400 bytes on group {0,1} (data): rank 1 on host "),
            std::string::npos)
      << errors[0];
}

TEST(ConcurrentStreams, ARankThatFailsInsideOfItsOwnCallEndsAll) {
  auto const errors = errors_of(
      [](auto& rank, auto numbers) {
        rank.group(axis::data).all_reduce(numbers);
        if (rank.world_rank() == 0)
          throw input_error("this rank has had enough");  // rank 0 waits for rank 1
        while (true) {                                    // repeats until the call has failed
          std::this_thread::sleep_for(1ms);
          process_device::event event;
          rank.device().record(event, stream::compute);
        }
      },
      [](int rank, plait_test::memory_rank& of) {
        if (rank == 1)
          of.before_second = [&of, calls = std::make_shared<int>(0)] {
            if (++*calls == 1)
              while (!of.job->gone[0]) std::this_thread::sleep_for(1ms);
          };
      });
  EXPECT_EQ(errors[0], "this rank has had enough");
  EXPECT_NE(errors[1].find("rank 0 on host "), std::string::npos) << errors[1];
}

// Rank 0 waits for a message that no rank sends when its second thread fails.
TEST(ConcurrentStreams, AnErrorOfTheSecondThreadEndsTheWaitForAMessageAndItsTextIsThrown) {
  mesh grid;
  grid.add(axis::stage, 2);
  grid.add(axis::data, 2);
  for (bool const synchronizes : {false, true}) {
    auto const errors = in_memory_processes(4, [&](int rank, auto const& engine) {
      gate waiting;
      with(engine).run(grid, [&](auto& mine) {
        auto const room = mine.device().allocate(8 * sizeof(float));
        std::span<float> const numbers(reinterpret_cast<float*>(room.data()), 8);
        auto const trainer = mine.calls_for(1);
        if (rank == 0) {
          engine->rank().before_posted_wait = [&] { waiting.open(); };
          engine->rank().before_second = [&] {
            EXPECT_TRUE(waiting.wait());
            throw input_error("the second thread has had enough");
          };
          mine.group(axis::stage)
              .template post_receive<float>(numbers.first(4), 1, 7, stream::from_next);
        }
        mine.group(axis::data).all_reduce(numbers.last(4));
        auto event = mine.device().make_event();
        mine.device().record(event, stream::from_next);
        if (synchronizes) mine.device().synchronize();
        else mine.device().wait(stream::compute, event, {});
      });
    });
    EXPECT_EQ(errors[0], "the second thread has had enough");
    for (auto const& text : errors) EXPECT_NE(text, "");
  }
}

TEST(ConcurrentStreams, CallsOutsideOfTrainersAndBarriersReturnWhenTheyHaveEnded) {
  auto const errors = in_memory_processes(2, [&](int, auto const& engine) {
    engine->rank().before_second = [] { std::this_thread::sleep_for(2ms); };
    with(engine).run(two_ranks(), [&](auto& mine) {
      std::vector<float> numbers(10, 1);  // host memory that no device has allocated
      mine.world().all_reduce(std::span<float>(numbers));
      EXPECT_EQ(numbers, std::vector<float>(10, 2));
    });
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

// ---- A slow link

TEST(SlowLink, DelaysEachCallWhileAConcurrentRankContinues) {
  for (auto const streams : {process_streams::concurrent, process_streams::in_turn}) {
    auto const errors = in_memory_processes(2, [&](int, auto const& engine) {
      auto backend = with(
          plait::testing::slow_link(engine, {.latency = 100ms, .bytes_per_second = 4000}), streams);
      backend.compare_calls = false;
      backend.run(two_ranks(), [&](auto& mine) {
        auto const room = mine.device().allocate(1200);
        std::span<float> const numbers(reinterpret_cast<float*>(room.data()), 300);
        std::span<float> const half = numbers.first(150);
        auto const trainer = mine.calls_for(1);
        auto const begin = std::chrono::steady_clock::now();
        mine.group(axis::data).all_gather(half, numbers);  // receives 600 bytes from the other rank
        auto const handed = std::chrono::steady_clock::now();
        mine.device().synchronize();
        auto const end = std::chrono::steady_clock::now();
        EXPECT_GE(end - begin, 250ms);
        if (streams == process_streams::in_turn) EXPECT_GE(handed - begin, 250ms);
        else EXPECT_LT(handed - begin, 250ms);
      });
    });
    EXPECT_EQ(errors, std::vector<std::string>(2));
  }
}

TEST(SlowLink, ChecksItsOptionsAndEndsWhenTheEngineIsAbandoned) {
  auto const engine =
      std::make_shared<memory_engine>(std::make_shared<plait_test::memory_job>(2), 0);
  EXPECT_THROW((void)plait::testing::slow_link(engine, {.latency = -1ns}), input_error);
  EXPECT_THROW((void)plait::testing::slow_link(engine, {.bytes_per_second = 0}), input_error);
  EXPECT_THROW((void)plait::testing::slow_link(nullptr, {}), input_error);
  auto const alone = std::make_shared<plait_test::memory_job>(1);
  auto const slow =
      plait::testing::slow_link(std::make_shared<memory_engine>(alone, 0), {.latency = 24h});
  auto const group = slow->make_group({0});
  std::jthread const other([&] { slow->abandon(); });
  group->barrier();
}

}  // namespace
