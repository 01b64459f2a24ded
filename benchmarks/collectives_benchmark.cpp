// SPDX-License-Identifier: Apache-2.0
// Collectives of the threads backend beside a copy of the same bytes by one thread.
#include <benchmark/benchmark.h>

#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/host/thread_world.hpp"

namespace {

void one_thread_memcpy(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

/// Each iteration is one call on every rank; all ranks run the same number of rounds.
template <class Call>
void run_on(benchmark::State& state, int ranks, Call call) {
  auto const count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  constexpr int rounds = 32;
  plait::thread_world world(ranks);
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  int const group = world.add_group(members);
  bool more = true;
  plait::run_ranks(world, [&](int rank) {
    plait::thread_communicator comm(world, group, members, rank);
    std::vector<float> values(count, 1.0f), other(count);
    while (true) {
      if (rank == 0) more = state.KeepRunningBatch(rounds);
      comm.barrier();
      if (!more) break;
      for (int i = 0; i < rounds; ++i) call(comm, std::span(values), std::span(other));
      comm.barrier();
    }
  });
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void all_reduce(benchmark::State& state) {
  run_on(state, static_cast<int>(state.range(1)),
         [](auto& comm, std::span<float> values, std::span<float>) {
           comm.all_reduce(values, plait::reduction::max);  // the values stay finite
         });
}

void all_gather(benchmark::State& state) {
  run_on(state, static_cast<int>(state.range(1)),
         [](auto& comm, std::span<float> values, std::span<float> other) {
           auto const block = values.size() / static_cast<std::size_t>(comm.size());
           comm.all_gather(values.first(block), other.first(block * std::size_t(comm.size())));
         });
}

void reduce_scatter(benchmark::State& state) {
  run_on(state, static_cast<int>(state.range(1)),
         [](auto& comm, std::span<float> values, std::span<float> other) {
           auto const block = values.size() / static_cast<std::size_t>(comm.size());
           comm.reduce_scatter(values.first(block * std::size_t(comm.size())), other.first(block));
         });
}

void sizes(benchmark::internal::Benchmark* of) {
  for (int ranks : {2, 4})
    for (int bytes : {64, 4096, 262144, 1 << 20, 16 << 20}) of->Args({bytes, ranks});
  of->UseRealTime();
}

BENCHMARK(one_thread_memcpy)->Arg(64)->Arg(4096)->Arg(262144)->Arg(1 << 20)->Arg(16 << 20);
BENCHMARK(all_reduce)->Apply(sizes);
BENCHMARK(all_gather)->Apply(sizes);
BENCHMARK(reduce_scatter)->Apply(sizes);

}  // namespace
