// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=20
//
// Tests the communicators of CUDA devices: ranks that share one GPU, and NCCL on all GPUs of the
// machine.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/backend/host/run_ranks.hpp"
#include "plait/core/bfloat16.hpp"

namespace {

using namespace cuda_testing;
using plait::ext::collective;
using plait::ext::reduction;
using rank_type = plait::ext::cuda_rank;

// A small integer that identifies rank, position and salt; sums of a few are exact.
template <class T>
T value(int rank, std::size_t position, int salt = 0) {
  return static_cast<T>((rank + 1) * 10 + static_cast<int>(position % 7) - 3 + salt);
}
template <class T>
std::vector<T> values(int rank, std::size_t count, int salt = 0) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = value<T>(rank, i, salt);
  return out;
}
template <class T>
double wide(T value) {
  return static_cast<double>(static_cast<plait::accumulate_t<T>>(value));
}
template <class T>
std::vector<double> wide(std::vector<T> const& values) {
  std::vector<double> out;
  for (T const each : values) out.push_back(wide(each));
  return out;
}

struct one_gpu {
  static constexpr bool shares = true;
  static int most_ranks() { return 4; }
};
struct nccl {
  static constexpr bool shares = false;
  static int most_ranks() { return std::min(gpus(), 4); }
};

template <class Backend, class Program>
void on(int ranks, Program program) {
  plait::cuda{.share_one_gpu = Backend::shares}.run(line(ranks), program);
}

template <class Backend, class T>
struct with {
  using backend = Backend;
  using element = T;
};
template <class With>
struct CudaCollectives : testing::Test {
  using backend = typename With::backend;
  // Runs program(communicator, device, count) for several numbers of ranks and elements.
  template <class Program>
  static void everywhere(Program program) {
    for (int ranks = 1; ranks <= backend::most_ranks(); ++ranks)
      on<backend>(ranks, [&](rank_type& rank) {
        for (std::size_t const count : {0u, 1u, 5u, 33u, 4099u})
          program(rank.group(plait::axis::tensor), rank.device(), count);
      });
  }
};
using Cases =
    testing::Types<with<one_gpu, float>, with<one_gpu, double>, with<one_gpu, plait::bfloat16>,
                   with<one_gpu, std::int32_t>, with<nccl, float>, with<nccl, plait::bfloat16>>;
TYPED_TEST_SUITE(CudaCollectives, Cases);

TYPED_TEST(CudaCollectives, AllReduce) {
  using T = typename TypeParam::element;
  this->everywhere([](auto& comm, auto& device, std::size_t count) {
    on_device<T> const x(device, values<T>(comm.rank(), count));
    comm.all_reduce(x.span());
    comm.all_reduce(x.span(), reduction::max);  // all values are equal
    auto const got = wide(x.get());
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int r = 0; r < comm.size(); ++r) sum += wide(value<T>(r, i));
      ASSERT_EQ(got[i], sum);
    }
    on_device<T> const y(device, values<T>(comm.rank(), count));
    comm.all_reduce(y.span(), reduction::max);
    ASSERT_EQ(wide(y.get()), wide(values<T>(comm.size() - 1, count)));
  });
}

TYPED_TEST(CudaCollectives, AllGatherAlsoInPlace) {
  using T = typename TypeParam::element;
  this->everywhere([](auto& comm, auto& device, std::size_t count) {
    auto const ranks = static_cast<std::size_t>(comm.size());
    on_device<T> const send(device, values<T>(comm.rank(), count));
    on_device<T> const all(device, std::vector<T>(ranks * count)),
        in_place(device, std::vector<T>(ranks * count));
    comm.all_gather(send.span(), all.span());
    auto const own = in_place.span().subspan(static_cast<std::size_t>(comm.rank()) * count, count);
    device.synchronize();
    auto const mine = values<T>(comm.rank(), count);
    device.upload(mine.data(), own.data(), own.size_bytes());
    device.synchronize();
    comm.all_gather(own, in_place.span());
    std::vector<double> expected;
    for (int r = 0; r < comm.size(); ++r)
      for (double const each : wide(values<T>(r, count))) expected.push_back(each);
    ASSERT_EQ(wide(all.get()), expected);
    ASSERT_EQ(wide(in_place.get()), expected);
  });
}

TYPED_TEST(CudaCollectives, ReduceScatterAlsoInPlace) {
  using T = typename TypeParam::element;
  this->everywhere([](auto& comm, auto& device, std::size_t count) {
    auto const ranks = static_cast<std::size_t>(comm.size());
    auto const first = static_cast<std::size_t>(comm.rank()) * count;
    on_device<T> const send(device, values<T>(comm.rank(), ranks * count));
    on_device<T> const receive(device, std::vector<T>(count));
    comm.reduce_scatter(send.span(), receive.span());
    ASSERT_EQ(wide(send.get()), wide(values<T>(comm.rank(), ranks * count)));
    comm.reduce_scatter(send.span(), send.span().subspan(first, count));
    auto const got = wide(receive.get()), in_place = wide(send.get());
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int r = 0; r < comm.size(); ++r) sum += wide(value<T>(r, first + i));
      ASSERT_EQ(got[i], sum);
      ASSERT_EQ(in_place[first + i], sum);
    }
  });
}

TYPED_TEST(CudaCollectives, AllToAll) {
  using T = typename TypeParam::element;
  this->everywhere([](auto& comm, auto& device, std::size_t count) {
    std::vector<T> blocks, expected;
    for (int r = 0; r < comm.size(); ++r) {
      for (T const each : values<T>(comm.rank(), count, 4 * r)) blocks.push_back(each);
      for (T const each : values<T>(r, count, 4 * comm.rank())) expected.push_back(each);
    }
    on_device<T> const send(device, blocks), receive(device, std::vector<T>(blocks.size()));
    comm.all_to_all(send.span(), receive.span());
    ASSERT_EQ(wide(receive.get()), wide(expected));
  });
}

TYPED_TEST(CudaCollectives, Broadcast) {
  using T = typename TypeParam::element;
  this->everywhere([](auto& comm, auto& device, std::size_t count) {
    auto const mine = values<T>(comm.rank(), count);
    for (int root = 0; root < comm.size(); ++root) {
      on_device<T> const x(device, mine);
      comm.broadcast(x.span(), root);
      ASSERT_EQ(wide(x.get()), wide(values<T>(root, count)));
    }
  });
}

TYPED_TEST(CudaCollectives, MessagesPassAlongAndBack) {
  using T = typename TypeParam::element;
  this->everywhere([](auto& comm, auto& device, std::size_t count) {
    int const last = comm.size() - 1;
    on_device<T> const x(device, values<T>(0, count, comm.rank()));
    for (int round = 0; round < 3; ++round) {
      if (comm.rank() > 0) comm.receive(x.span(), comm.rank() - 1, round);
      if (comm.rank() < last) comm.send(x.span(), comm.rank() + 1, round);
      if (comm.rank() < last) comm.receive(x.span(), comm.rank() + 1, round);
      if (comm.rank() > 0) comm.send(x.span(), comm.rank() - 1, round);
    }
    ASSERT_EQ(wide(x.get()), wide(values<T>(0, count)));
  });
}

// The buffers are used again at once on the compute stream, after a wait for the group's stream:
// nothing may be overwritten that another rank still reads.
TYPED_TEST(CudaCollectives, BuffersBelongToTheCallUntilItsStreamIsThere) {
  using T = typename TypeParam::element;
  for (int ranks = 2; ranks <= TypeParam::backend::most_ranks(); ++ranks)
    on<typename TypeParam::backend>(ranks, [](rank_type& rank) {
      auto& comm = rank.group(plait::axis::tensor);
      auto& device = rank.device();
      auto const p = static_cast<std::size_t>(comm.size());
      on_device<T> const x(device, std::vector<T>(1000)),
          sums(device, std::vector<T>(1000 / p * p)), all(device, std::vector<T>(1000 / p * p * p));
      auto const queue = device.on(plait::ext::stream::compute);
      auto const cross = [&](auto work) { rank.wait_across(plait::ext::stream::tensor, {}, work); };
      for (int round = 0; round < 20; ++round) {
        queue.fill(value<T>(comm.rank(), 0, round % 5), x.data(), x.span().size());
        auto const used = x.span().subspan(0, sums.span().size());
        cross([&] { comm.all_reduce(used); });
        queue.copy_bytes(x.data(), sums.data(), sums.span().size_bytes());
        queue.fill(value<T>(comm.rank(), 1), x.data(), x.span().size());
        cross([&] { comm.all_gather(used, all.span()); });
        queue.fill(static_cast<T>(99), x.data(), x.span().size());
        double sum = 0;
        for (int r = 0; r < comm.size(); ++r) sum += wide(value<T>(r, 0, round % 5));
        ASSERT_EQ(wide(sums.get()), std::vector<double>(sums.span().size(), sum));
        auto const got = wide(all.get());
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i], wide(value<T>(static_cast<int>(i / sums.span().size()), 1)));
      }
    });
}

TYPED_TEST(CudaCollectives, ASentBufferMayBeOverwrittenAfterTheCall) {
  using T = typename TypeParam::element;
  if (TypeParam::backend::most_ranks() < 2) GTEST_SKIP() << "needs two GPUs";
  on<typename TypeParam::backend>(2, [](rank_type& rank) {
    auto& comm = rank.group(plait::axis::tensor);
    on_device<T> const x(rank.device(), std::vector<T>(1000));
    auto const queue = rank.device().on(plait::ext::stream::compute);
    for (int round = 0; round < 20; ++round) {
      queue.fill(value<T>(comm.rank(), 0, round), x.data(), x.span().size());
      rank.wait_across(plait::ext::stream::tensor, {}, [&] {
        if (comm.rank() == 0) comm.send(x.span(), 1, round);
        else comm.receive(x.span(), 0, round);
      });
      if (comm.rank() == 0) queue.fill(static_cast<T>(99), x.data(), x.span().size());
      else EXPECT_EQ(wide(x.get()), wide(std::vector<T>(1000, value<T>(0, 0, round))));
    }
  });
}

TYPED_TEST(CudaCollectives, CountsWhatItIsAskedFor) {
  using T = typename TypeParam::element;
  int const ranks = TypeParam::backend::most_ranks();
  on<typename TypeParam::backend>(ranks, [&](rank_type& rank) {
    auto& comm = rank.group(plait::axis::tensor);
    auto const p = static_cast<std::size_t>(ranks);
    on_device<T> const x(rank.device(), std::vector<T>(6)),
        all(rank.device(), std::vector<T>(6 * p));
    comm.reset_counted();
    comm.all_reduce(x.span());
    comm.all_gather(x.span(), all.span());
    comm.broadcast(x.span(), 0);
    rank.device().synchronize();
    plait::ext::traffic expected;
    expected.record(collective::all_reduce, 6 * sizeof(T), ranks);
    expected.record(collective::all_gather, 6 * sizeof(T) * p, ranks);
    expected.record(collective::broadcast, 6 * sizeof(T), ranks);
    EXPECT_EQ(comm.counted(), expected);
    comm.barrier();
    EXPECT_EQ(comm.counted().calls(collective::barrier), 1u);
  });
}

TYPED_TEST(CudaCollectives, SizesThatDoNotFitAreAnErrorOfEveryRank) {
  using T = typename TypeParam::element;
  int const ranks = TypeParam::backend::most_ranks();
  auto const text = message_of<plait::size_mismatch>([&] {
    on<typename TypeParam::backend>(ranks, [&](rank_type& rank) {
      auto& comm = rank.group(plait::axis::tensor);
      on_device<T> const x(rank.device(), std::vector<T>(6));
      comm.all_gather(x.span(), x.span().subspan(0, 5));
    });
  });
  expect_text(text, "the buffer for all ranks has " + std::to_string(5 * sizeof(T)) + " bytes");
}

TEST(Loopback, SumsAreMadeInRankOrder) {
  std::vector<float> const parts{1.0f, 1e8f, -1e8f};  // only this order gives 0
  on<one_gpu>(3, [&](rank_type& rank) {
    on_device<float> const x(
        rank.device(), std::vector<float>(70, parts[static_cast<std::size_t>(rank.world_rank())]));
    rank.group(plait::axis::tensor).all_reduce(x.span());
    EXPECT_EQ(x.get(), std::vector<float>(70, 0.0f));
  });
}

TEST(Loopback, CallsThatDifferAreAnErrorBeforeAnythingIsWritten) {
  auto const text = message_of<plait::collective_mismatch>([&] {
    on<one_gpu>(2, [&](rank_type& rank) {
      on_device<float> const x(rank.device(), std::vector<float>(4, 1.0f));
      auto& comm = rank.group(plait::axis::tensor);
      try {
        if (rank.is_root()) comm.all_reduce(x.span());
        else comm.all_reduce(x.span().subspan(1));
      } catch (plait::collective_mismatch const&) {
        EXPECT_EQ(x.get(), std::vector<float>(4, 1.0f));
        throw;
      }
    });
  });
  expect_text(text,
              "rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum), but rank 1 "
              "called all_reduce of 12 bytes");
}

TEST(Loopback, MessagesThatDoNotFitAreAnErrorOfBothEnds) {
  auto const text = message_of<plait::collective_mismatch>([&] {
    on<one_gpu>(2, [&](rank_type& rank) {
      on_device<float> const x(rank.device(), std::vector<float>(4, 1.0f));
      auto& comm = rank.group(plait::axis::tensor);
      bool threw = false;
      try {
        if (rank.is_root()) comm.send(x.span(), 1, 7);
        else comm.receive(x.span().subspan(2), 0, 7);
      } catch (plait::collective_mismatch const&) {
        threw = true;
        throw;
      }
      EXPECT_TRUE(threw);
    });
  });
  expect_text(text, "rank 0 called send of 16 bytes to rank 1 with tag 7");
  expect_text(text, "rank 1 called receive of 8 bytes from rank 0 with tag 7");
}

TEST(Loopback, CallsForDifferentTrainersAreAnError) {
  auto const text_of = [](auto use) {
    return message_of<plait::collective_mismatch>([&] {
      on<one_gpu>(2, [&](rank_type& rank) {
        on_device<float> const x(rank.device(), std::vector<float>(4, 1.0f));
        auto const calls = rank.calls_for(static_cast<std::uint64_t>(rank.world_rank()) + 1);
        use(rank.group(plait::axis::tensor), x.span());
      });
    });
  };
  expect_text(
      text_of([](auto& comm, std::span<float> x) { comm.all_reduce(x); }),
      "rank 0 called all_reduce of 16 bytes on group {0,1} (float32, sum) for trainer 1, but "
      "rank 1 called all_reduce of 16 bytes on group {0,1} (float32, sum) for trainer 2");
  expect_text(
      text_of([](auto& comm, std::span<float> x) {
        if (comm.rank() == 0) comm.send(x, 1, 7);
        else comm.receive(x, 0, 7);
      }),
      " for trainer 1, but rank 1 called receive of 16 bytes from rank 0 with tag 7 on group "
      "{0,1} (float32) for trainer 2");
}

TEST(Loopback, ADeadlockIsFoundAtOnce) {
  auto const text = message_of<plait::collective_mismatch>([&] {
    on<one_gpu>(2, [&](rank_type& rank) {
      on_device<float> const x(rank.device(), std::vector<float>(4, 1.0f));
      rank.group(plait::axis::tensor).send(x.span(), 1 - rank.world_rank(), 0);
    });
  });
  expect_text(text, "deadlock: rank 0 waits in send of 16 bytes to rank 1");
}

TEST(Loopback, AFailedRankEndsTheOthers) {
  auto const text = message_of<plait::error>([&] {
    on<one_gpu>(3, [&](rank_type& rank) {
      if (rank.world_rank() == 1) throw plait::input_error("the disk is full");
      on_device<float> const x(rank.device(), std::vector<float>(4, 1.0f));
      rank.world().all_reduce(x.span());
      ADD_FAILURE() << "rank " << rank.world_rank() << " went on";
    });
  });
  EXPECT_EQ(text, "rank 1: the disk is full");
}

TEST(Nccl, AFailedRankEndsTheOthers) {
  int const ranks = nccl::most_ranks();
  auto const text = message_of<plait::error>([&] {
    on<nccl>(ranks, [&](rank_type& rank) {
      if (rank.world_rank() == ranks - 1) throw plait::input_error("the disk is full");
      on_device<float> const x(rank.device(), std::vector<float>(4, 1.0f));
      rank.world().all_reduce(x.span());
      rank.device().synchronize();
      ADD_FAILURE() << "rank " << rank.world_rank() << " went on";
    });
  });
  EXPECT_EQ(text, "rank " + std::to_string(ranks - 1) + ": the disk is full");
}

TEST(Nccl, ARankThatStaysAwayIsATimeOutWithTheCall) {
  int const ranks = nccl::most_ranks();
  if (ranks < 2) GTEST_SKIP() << "needs two GPUs";
  plait::cuda const backend{.options = {.timeout = std::chrono::milliseconds{500}}};
  auto const text = message_of<plait::communication_timeout>([&] {
    backend.run(line(ranks), [&](rank_type& rank) {
      on_device<float> const x(rank.device(), std::vector<float>(4, 1.0f));
      if (rank.world_rank() != 1) rank.group(plait::axis::tensor).all_reduce(x.span());
      else std::this_thread::sleep_for(std::chrono::seconds{2});
      rank.device().synchronize();
    });
  });
  expect_text(text, "waited longer than 500 ms for stream tensor; not ended: stream tensor");
  expect_text(text, "last call: all_reduce of 16 bytes on group {0,1");
}

#if !defined(__CUDACC__)
TEST(Nccl, ARankKeepsItsMemoryUntilAllHaveEnded) {
  auto& all = pretended::machine::get();
  std::size_t const before = all.pinned_memory.size();
  on<nccl>(2, [&](rank_type& rank) {
    if (!rank.is_root()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
    pretended::lock const hold(all.mutex);
    EXPECT_EQ(all.pinned_memory.size(), before + 2);
  });
  EXPECT_EQ(all.pinned_memory.size(), before);
}

// Both ends of a channel take part in its creation and its end, so ranks with unlike orders would
// wait for each other.
TEST(Nccl, ChannelsAreMadeAndEndInOneOrder) {
  for (int const stages : {2, 3, 4, 5}) {
    plait::ext::mesh grid;
    grid.add(plait::axis::stage, stages);
    std::vector<pretended::communicator_entry> entries;
    {
      pretended::lock const hold(pretended::machine::get().mutex);
      pretended::communicators.clear();
    }
    plait::cuda{}.run(grid, [](rank_type& rank) { rank.world().barrier(); });
    {
      pretended::lock const hold(pretended::machine::get().mutex);
      entries = pretended::communicators;
    }
    std::map<int, std::vector<int>> members;
    for (int rank = 0; rank < stages; ++rank) {
      std::vector<int> made, destroyed;
      for (auto const& one : entries)
        if (one.device == rank) (one.is_made ? made : destroyed).push_back(one.number);
      EXPECT_TRUE(std::ranges::is_sorted(made));      // the numbers have the order of creation
      ASSERT_EQ(made.size(), stages == 2 ? 3u : 5u);  // the communicator of the world is the first
      std::ranges::rotate(made, made.begin() + 1);
      EXPECT_EQ(destroyed, made) << "rank " << rank << " of " << stages;
      made.pop_back();
      for (int const number : made) members[number].push_back(rank);
    }
    std::map<std::vector<int>, int> channels;
    for (auto const& [number, ends] : members) ++channels[ends];
    EXPECT_EQ(channels.size(), stages == 2 ? 1u : std::size_t(stages));
    for (auto const& [ends, count] : channels) {
      EXPECT_EQ(count, 2);  // one message in each direction
      ASSERT_EQ(ends.size(), 2u);
      EXPECT_TRUE(ends[1] - ends[0] == 1 || ends[1] - ends[0] == stages - 1);
    }
  }
}

// Three communicators in each rank: their aborts are waited for together, and what the GPU may
// still use is not given back.
TEST(Nccl, AnAbortThatHangsKeepsTheMemory) {
  auto grid = line(2);
  grid.add(plait::axis::data, 2);
  static std::array<plait::detail::cuda_state*, 4> left;  // known, for checks of leaks
  std::size_t const used = pretended::machine::get().used;
  auto const begin = std::chrono::steady_clock::now();
  pretended::aborts_hang = true;
  auto const text = message_of<plait::error>([&] {
    plait::cuda{}.run(grid, [&](rank_type& rank) {
      left[static_cast<std::size_t>(rank.world_rank())] = &rank.device().state();
      on_device<float> const x(rank.device(), std::vector<float>(1000));
      rank.world().barrier();
      if (rank.is_root()) throw plait::input_error("the disk is full");
      rank.world().barrier();
    });
  });
  auto const elapsed = std::chrono::steady_clock::now() - begin;
  pretended::aborts_hang = false;
  EXPECT_EQ(text, "rank 0: the disk is full");
  EXPECT_LT(elapsed, std::chrono::seconds{18});
  EXPECT_TRUE(plait::detail::gpu_is_stuck.exchange(false));
  std::size_t const scratch =
      plait::cuda_options{}.workspace_bytes +
      (plait::ext::stream_count - 1) * plait::detail::cuda_state::least_scratch;
  // Rank 0 released its numbers before the hang was detected.
  EXPECT_EQ(pretended::machine::get().used, used + 4 * scratch + 3 * 4000);
}
#endif

// One rank with an NCCL communicator. Groups of one rank do not need one, so on a machine with one
// GPU no other test calls NCCL.
struct alone {
  plait::ext::cuda_device& device;
  plait::detail::nccl_link world;
  on_device<float> from, to;
  plait::ext::cuda_device::graph graph{};
  int bodies = 0;  ///< the number of bodies that have run; the others were replayed from the graph

  alone(rank_type& rank, ncclUniqueId id)
      : device(rank.device()),
        world(device.state(), {0}, 0, id),
        from(device, std::vector<float>(count)),
        to(device, std::vector<float>(count)) {}

  template <class Program>
  static void run(Program program) {
    plait::cuda{.options = {.graphs = true}}.run(line(1), [&](rank_type& rank) {
      ncclUniqueId id{};
      plait::detail::check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", rank.device().place());
      alone one(rank, id);
      program(one);
    });
  }

  // NCCL does nothing for one rank in place.
  void add_up(plait::detail::nccl_link& link, plait::ext::stream on) {
    link.issue(call_of(collective::all_reduce), [&](ncclComm_t comm) {
      return ncclAllReduce(from.data(), to.data(), count, ncclFloat32, ncclSum, comm,
                           device.state().on(on));
    });
  }
  void send_to_itself(plait::detail::nccl_link& link, plait::ext::stream on) {
    link.issue(call_of(collective::send), [&](ncclComm_t comm) {
      auto const stream = device.state().on(on);
      auto const check = [&](ncclResult_t code) {
        plait::detail::check_nccl(code, "a message of rank 0 to itself", device.place());
      };
      check(ncclGroupStart());
      check(ncclSend(from.data(), count, ncclFloat32, 0, comm, stream));
      check(ncclRecv(to.data(), count, ncclFloat32, 0, comm, stream));
      return ncclGroupEnd();
    });
  }
  // Runs body(), records it and replays it twice, each time with other numbers.
  template <class Body>
  void move_four_times(Body body) {
    graph = {};
    bodies = 0;
    for (int round = 0; round < 4; ++round) {
      auto const now = values<float>(0, count, round);
      device.upload(now.data(), from.data(), count * sizeof(float));
      device.synchronize();
      device.replay(graph, [&] {
        ++bodies;
        body();
      });
      EXPECT_EQ(to.get(), now) << "round " << round;
    }
    EXPECT_EQ(bodies, 2);
  }

 private:
  static constexpr std::size_t count = 1000;
  static plait::detail::collective_call call_of(collective kind) {
    return {.kind = kind,
            .element = plait::detail::element_type::of<float>(),
            .bytes = count * sizeof(float)};
  }
};

TEST(Nccl, ALinkOfOneRankIsRecordedAndRepeated) {
  alone::run([](alone& one) {
    one.move_four_times([&] { one.add_up(one.world, plait::ext::stream::data); });
  });
}

// A rank makes and releases the links of its groups and channels in this way.
TEST(Nccl, PartsAndChannelsOfOneRank) {
  alone::run([](alone& one) {
    using plait::ext::stream;
    auto const part = [&] {
      return std::make_shared<plait::detail::nccl_link>(one.world, std::vector<int>{0}, 0);
    };
    auto const group = part();
    one.world.take_no_part();
    plait::detail::nccl_channels channels;
    for (stream const channel : {stream::to_next, stream::from_next})
      channels.add(plait::ext::channel_number(channel), part());
    one.move_four_times([&] { one.add_up(*group, stream::tensor); });
    for (stream const channel : {stream::to_next, stream::from_next}) {
      auto& link = *channels.link(plait::ext::channel_number(channel));
      one.move_four_times([&] { one.send_to_itself(link, channel); });
    }
    one.graph = {};  // the graph is destroyed before the links whose calls it has
  });
}

// NCCL's abort waits until no graph has a call of the communicator.
TEST(Nccl, LinksOfOneRankAreAborted) {
  alone::run([](alone& one) {
    plait::detail::nccl_link part(one.world, {0}, 0);
    one.move_four_times([&] { one.add_up(part, plait::ext::stream::data); });
    one.device.state().abandon_all();
    EXPECT_FALSE(plait::detail::gpu_is_stuck);
    EXPECT_EQ(one.world.handle(), nullptr);
    EXPECT_EQ(part.handle(), nullptr);
    expect_text(
        message_of<plait::ext::nccl_error>([&] { one.add_up(part, plait::ext::stream::data); }),
        "all_reduce of 4000 bytes on group {0}: the communicator has been "
        "aborted after an earlier error");
  });
}

TEST(Nccl, AFailureEndsTheLinkOfOneRank) {
  auto const text = message_of<plait::error>([] {
    alone::run([](alone& one) {
      one.move_four_times([&] { one.add_up(one.world, plait::ext::stream::data); });
      throw plait::input_error("the disk is full");
    });
  });
  EXPECT_EQ(text, "rank 0: the disk is full");
  EXPECT_FALSE(plait::detail::gpu_is_stuck);
}

// Both ranks send first: without a group each would wait for the other's receive.
TEST(Nccl, MessagesOfAGroupCross) {
  if (nccl::most_ranks() < 2) GTEST_SKIP() << "needs two GPUs";
  ncclUniqueId id{};
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  plait::ext::thread_world world(2);
  plait::ext::run_ranks(world, [&](int rank) {
    std::vector<int> const both{0, 1};
    plait::ext::cuda_device device({rank, rank});
    plait::ext::nccl_communicator comm(
        device, plait::ext::stream::data,
        std::make_shared<plait::detail::nccl_link>(device.state(), both, rank, id), both, rank);
    on_device<float> const mine(device, values<float>(rank, 100)),
        theirs(device, std::vector<float>(100));
    {
      plait::ext::nccl_group group(comm);
      comm.send(group, mine.span(), 1 - rank);
      comm.receive(group, theirs.span(), 1 - rank);
      group.finish();
    }
    EXPECT_EQ(theirs.get(), values<float>(1 - rank, 100));
    EXPECT_EQ(comm.counted().bytes(collective::send), 400u);
    plait::ext::nccl_group group(comm);
    EXPECT_THROW(comm.send(group, mine.span(), rank), plait::input_error);
  });
}

}  // namespace
