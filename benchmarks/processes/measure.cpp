// SPDX-License-Identifier: Apache-2.0
// What collectives cost between processes, beside the fastest call of the engine itself and a
// memcpy.
//   measure ENGINE      all ranks, started by the engine's launcher; or measure threads RANKS
// Prints microseconds per call, the least of several turns in which all ways alternate.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "processes/raw.hpp"

#include "plait/backend/host/threads.hpp"
#include "plait/backend/process/processes.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

struct way {
  std::string name;
  std::function<void(std::size_t floats)> call;
  double least = 1e300;
};

/// One line for each size: the least of `turns` averages, all ways in turn.
template <class Rank>
void print_table(Rank& rank, std::vector<way>& ways) {
  bool const prints = rank.is_root();
  if (prints) {
    std::printf("%10s", "bytes");
    for (auto const& one : ways) std::printf(" %20s", one.name.c_str());
    std::printf("\n");
  }
  for (std::size_t floats = 1; floats <= std::size_t{16} << 20;
       floats *= floats < 1024 ? 1024 : 8) {
    int const calls = floats <= 1024 ? 400 : floats <= 65536 ? 60 : 4, turns = 7;
    for (auto& one : ways) one.least = 1e300;
    for (int turn = 0; turn < turns; ++turn)
      for (auto& one : ways) {
        rank.world().barrier();
        one.call(floats);
        auto const begin = clock_type::now();
        for (int i = 0; i < calls; ++i) one.call(floats);
        double const took =
            std::chrono::duration<double, std::micro>(clock_type::now() - begin).count() / calls;
        one.least = std::min(one.least, took);
      }
    if (!prints) continue;
    std::printf("%10zu", 4 * floats);
    for (auto const& one : ways) std::printf(" %20.2f", one.least);
    std::printf("\n");
    std::fflush(stdout);
  }
}

template <class Rank>
void measure(Rank& rank, std::string const& mode, bool with_raw) {
  auto const p = static_cast<std::size_t>(rank.world_size());
  std::size_t const most = std::size_t{16} << 20;
  std::vector<float> x(most + p, 1.0f), y(most + p);
  auto& comm = rank.world();
  std::vector<way> ways;
  ways.push_back({mode + " all_reduce",
                  [&](std::size_t n) { comm.all_reduce(std::span<float>(x).first(n)); }});
  ways.push_back({mode + " all_gather", [&](std::size_t n) {
                    std::size_t const each = (n + p - 1) / p;
                    comm.all_gather(std::span<float const>(x).first(each),
                                    std::span<float>(y).first(each * p));
                  }});
  ways.push_back({mode + " reduce_scatter", [&](std::size_t n) {
                    std::size_t const each = (n + p - 1) / p;
                    comm.reduce_scatter(std::span<float const>(x).first(each * p),
                                        std::span<float>(y).first(each));
                  }});
  if (with_raw && plait_benchmark::raw_all_reduce() != nullptr)
    ways.push_back({"the engine's own",
                    [&](std::size_t n) { plait_benchmark::raw_all_reduce()(x.data(), n); }});
  ways.push_back({"memcpy", [&](std::size_t n) {
                    std::memcpy(y.data(), x.data(), n * sizeof(float));
                    asm volatile("" : : "r"(y.data()) : "memory");
                  }});
  print_table(rank, ways);
}

}  // namespace

int main(int count, char** words) {
  try {
    std::string const engine = count > 1 ? words[1] : "";
    plait::mesh grid;
    if (engine == "threads") {
      grid.add(plait::axis::data, std::atoi(count > 2 ? words[2] : "2"));
      plait::threads{}.run(grid, [](auto& rank) { measure(rank, "threads", false); });
      return 0;
    }
    auto const with = plait_benchmark::make_engine();
    grid.add(plait::axis::data, with->ranks().world_size);
    auto const run = [&](plait::process_reduction how, bool compares, char const* name) {
      plait::processes{.engine = with, .reduction = how, .compare_calls = compares}.run(
          grid, [&](auto& rank) { measure(rank, name, how == plait::process_reduction::library); });
    };
    run(plait::process_reduction::ranked, true, "ranked");
    run(plait::process_reduction::ranked, false, "unchecked");
    run(plait::process_reduction::library, true, "library");
    return 0;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "measure: %s\n", problem.what());
    return 1;
  }
}
