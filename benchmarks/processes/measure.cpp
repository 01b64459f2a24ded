// SPDX-License-Identifier: Apache-2.0
// Times collectives between processes, compared with the calls of the engine itself and a memcpy.
//   measure ENGINE      all ranks, started by the engine's launcher; or measure threads RANKS
// Prints microseconds per call, the least of several turns in which all variants alternate. The
// size is the size of a rank's values in a sum, of its result in an all_gather, and of its input in
// a reduce_scatter.
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
#include <utility>
#include <vector>

#include "processes/raw.hpp"

#include "plait/backend/host/threads.hpp"
#include "plait/backend/process/processes.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

constexpr std::size_t sizes[] = {1, 1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 24};  // floats

struct way {
  std::string name;
  std::function<void(std::size_t floats)> call;
  double least = 1e300;
};

/// Prints one line for each size: the least of `turns` averages, all variants in turn.
template <class Rank>
void print_table(Rank& rank, std::vector<way>& ways) {
  bool const prints = rank.is_root();
  if (prints) {
    std::printf("%10s", "bytes");
    for (auto const& one : ways) std::printf(" %20s", one.name.c_str());
    std::printf("\n");
  }
  for (std::size_t const floats : sizes) {
    int const calls = floats <= 1024 ? 200 : floats <= 16384 ? 60 : floats <= 262144 ? 10 : 2;
    int const turns = 7;
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

/// Buffers, and the collectives of several communicators over the same ranks.
class measurement {
 public:
  explicit measurement(int ranks)
      : p_(static_cast<std::size_t>(ranks)), x_(most + p_, 1.0f), y_(most + p_) {}

  template <class Comm>
  void add(std::string const& name, Comm& comm) {
    all_reduces_.push_back(
        {name, [&, this](std::size_t n) { comm.all_reduce(std::span<float>(x_).first(n)); }});
    all_gathers_.push_back({name, [&, this](std::size_t n) {
                              comm.all_gather(std::span<float const>(x_).first(each(n)),
                                              std::span<float>(y_).first(each(n) * p_));
                            }});
    reduce_scatters_.push_back({name, [&, this](std::size_t n) {
                                  comm.reduce_scatter(
                                      std::span<float const>(x_).first(each(n) * p_),
                                      std::span<float>(y_).first(each(n)));
                                }});
  }
  void add(plait_benchmark::raw_calls raw) {
    auto const name = "the engine's";
    if (raw.all_reduce != nullptr)
      all_reduces_.push_back({name, [=, this](std::size_t n) { raw.all_reduce(x_.data(), n); }});
    if (raw.all_gather != nullptr)
      all_gathers_.push_back(
          {name, [=, this](std::size_t n) { raw.all_gather(x_.data(), y_.data(), each(n)); }});
    if (raw.reduce_scatter != nullptr)
      reduce_scatters_.push_back(
          {name, [=, this](std::size_t n) { raw.reduce_scatter(x_.data(), y_.data(), each(n)); }});
  }
  template <class Rank>
  void print(Rank& rank) {
    for (auto const& [name, ways] :
         {std::pair{"all_reduce", &all_reduces_}, std::pair{"all_gather", &all_gathers_},
          std::pair{"reduce_scatter", &reduce_scatters_}}) {
      if (rank.is_root()) std::printf("%s\n", name);
      ways->push_back({"memcpy", [this](std::size_t n) {
                         std::memcpy(y_.data(), x_.data(), n * sizeof(float));
                         asm volatile("" : : "r"(y_.data()) : "memory");
                       }});
      print_table(rank, *ways);
    }
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 24;
  [[nodiscard]] std::size_t each(std::size_t n) const { return (n + p_ - 1) / p_; }

  std::size_t p_;
  std::vector<float> x_, y_;
  std::vector<way> all_reduces_, all_gathers_, reduce_scatters_;
};

}  // namespace

int main(int count, char** words) {
  try {
    std::string const engine = count > 1 ? words[1] : "";
    plait::ext::mesh grid;
    if (engine == "threads") {
      grid.add(plait::axis::data, std::atoi(count > 2 ? words[2] : "2"));
      plait::threads{}.run(grid, [](auto& rank) {
        measurement of(rank.world_size());
        of.add("threads", rank.world());
        of.print(rank);
      });
      return 0;
    }
    auto const with = plait_benchmark::make_engine();
    grid.add(plait::axis::data, with->ranks().world_size);
    // The calls are nested, so that both are measured in the same turns.
    plait::processes{.engine = with}.run(grid, [&](auto& ranked) {
      plait::processes{.engine = with, .reduction = plait::process_reduction::library}.run(
          grid, [&](auto& library) {
            measurement of(ranked.world_size());
            of.add("ranked", ranked.world());
            of.add("library", library.world());
            of.add(plait_benchmark::raw());
            of.print(ranked);
          });
    });
    return 0;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "measure: %s\n", problem.what());
    return 1;
  }
}
