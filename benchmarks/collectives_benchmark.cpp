// SPDX-License-Identifier: Apache-2.0
// all_reduce of two ranks that are threads, compared with a copy of the same bytes by one thread
// and with a bare sum: each thread adds up one half and writes it to both buffers. Fresh: each rank
// has written its whole buffer since the last call, as for gradients. scripts/benchmark makes a
// table of it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/host/thread_world.hpp"

namespace {

using clock = std::chrono::steady_clock;

void one_thread_memcpy(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
}

/// Buffers of both ranks that begin at different places of a page: some processors are slow at
/// writing to equal places of two pages in turn.
struct buffers {
  explicit buffers(std::size_t count) : stride(count + 528), all(2 * stride, 1.0f) {}
  std::span<float> of(int rank) {
    return std::span(all).subspan(std::size_t(rank) * stride, stride - 528);
  }
  std::size_t stride;
  std::vector<float> all;
};

/// Times rounds of `call(rank)` on two ranks, which begin each round together; `fresh`: each call
/// by itself, after a write of the rank's buffer.
void time_rounds(benchmark::State& state, int rank, bool fresh, std::span<float> own, auto meet,
                 auto call) {
  static bool more;
  constexpr int rounds = 32;
  for (;;) {
    if (rank == 0) more = state.KeepRunningBatch(rounds);
    meet();
    if (!more) return;
    clock::duration taken{};
    for (int i = 0; i < (fresh ? rounds : 1); ++i) {
      if (fresh) {
        std::fill(own.begin(), own.end(), 1.0f);
        benchmark::ClobberMemory();
      }
      meet();
      auto const begin = clock::now();
      for (int j = 0; j < (fresh ? 1 : rounds); ++j) call(rank);
      taken += clock::now() - begin;
    }
    meet();
    // for all rounds together, because the state divides by their number
    if (rank == 0) state.SetIterationTime(std::chrono::duration<double>(taken).count());
  }
}

template <bool Fresh>
void sum_of_plait(benchmark::State& state) {
  buffers values(static_cast<std::size_t>(state.range(0)) / sizeof(float));
  plait::ext::thread_world world(2);
  int const group = world.add_group({0, 1});
  plait::ext::run_ranks(world, [&](int rank) {
    plait::ext::thread_communicator comm(world, group, {0, 1}, rank);
    auto const own = values.of(rank);
    time_rounds(
        state, rank, Fresh, own, [&] { comm.barrier(); },
        [&](int) { comm.all_reduce(own, plait::ext::reduction::sum); });
  });
}

template <bool Fresh>
void sum_by_hand(benchmark::State& state) {
  std::size_t const count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  buffers values(count);
  alignas(64) std::atomic<long> arrived = 0;
  auto const run = [&](int rank) {
    long rounds = 0;
    auto const meet = [&] {
      arrived.fetch_add(1);
      for (rounds += 2; arrived.load() < rounds;) __builtin_ia32_pause();
    };
    float* const a = values.of(0).data();
    float* const b = values.of(1).data();
    std::size_t const first = rank == 0 ? 0 : count / 2, last = rank == 0 ? count / 2 : count;
    time_rounds(state, rank, Fresh, values.of(rank), meet, [&](int) {
      meet();
      for (std::size_t i = first; i < last; ++i) {
        float const sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
      }
      meet();
    });
  };
  std::thread second(run, 1);
  run(0);
  second.join();
}

void all_reduce(benchmark::State& state) { sum_of_plait<false>(state); }
void all_reduce_fresh(benchmark::State& state) { sum_of_plait<true>(state); }
void bare_sum(benchmark::State& state) { sum_by_hand<false>(state); }
void bare_sum_fresh(benchmark::State& state) { sum_by_hand<true>(state); }

void sizes(benchmark::internal::Benchmark* of) {
  for (int bytes : {4, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20})
    of->Arg(bytes);
}

BENCHMARK(one_thread_memcpy)->Apply(sizes);
BENCHMARK(bare_sum)->Apply(sizes)->UseManualTime();
BENCHMARK(all_reduce)->Apply(sizes)->UseManualTime();
BENCHMARK(bare_sum_fresh)->Apply(sizes)->UseManualTime();
BENCHMARK(all_reduce_fresh)->Apply(sizes)->UseManualTime();

}  // namespace
