// SPDX-License-Identifier: Apache-2.0
// Times the wait of a step for a checkpoint: checkpoints::save() until it returns, compared with
// memcpy of the same bytes, into memory that is new to the process and into used memory.
//   checkpoint_benchmark [FOLDER [TURNS]]
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plait/checkpoint/checkpoints.hpp>
#include <plait/plait.hpp>

namespace {

using namespace plait;
using namespace plait::ext;

using model = objective<
    sequential<named<"wte", nn::embedding<256, 1024>>, named<"in", nn::linear<1024, 8192>>,
               nn::gelu<8192>, named<"out", nn::linear<8192, 1024>>,
               named<"head", nn::linear<1024, 256>>>,
    nn::cross_entropy<256>>;
template <class Policy>
struct job : parallel<model, Policy, float> {};

using clock = std::chrono::steady_clock;
double ms_since(clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock::now() - begin).count();
}

struct times {
  std::vector<double> first_save, save, first_copy, copy;
};
double median(std::vector<double> of) {
  std::ranges::nth_element(of, of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2));
  return of[of.size() / 2];
}

/// Runs on all ranks at the same time.
template <class Policy>
void measure_plan(char const* name, std::filesystem::path const& folder, int turns) {
  launch<job<Policy>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Policy>>(rank, adamw{}, {.seed = 1});
    auto const text = byte_text::from_text(std::string(4096, 'a'), 32);
    auto all = batches(text, global_batch<>{8}, rank, {.epochs = 0});
    trainer.step(all.at(0));
    std::size_t const bytes =
        trainer.state()->count() * trainer.state()->kinds().size() * sizeof(float);
    std::vector<std::byte> const from(bytes, std::byte{1});
    std::unique_ptr<std::byte[]> to;
    times taken;
    std::size_t used = 0;
    for (int turn = 0; turn < turns; ++turn) {
      checkpoints saves(trainer, all, {.folder = folder, .keep = 1});
      for (auto* const out : {&taken.first_save, &taken.save}) {
        rank.world().barrier();
        auto const begin = clock::now();
        saves.save();
        out->push_back(ms_since(begin));
        saves.finish();
      }
      to = std::make_unique_for_overwrite<std::byte[]>(bytes);
      for (auto* const out : {&taken.first_copy, &taken.copy}) {
        rank.world().barrier();
        auto const begin = clock::now();
        std::memcpy(to.get(), from.data(), bytes);
        out->push_back(ms_since(begin));
        used += std::size_t(to[bytes / 2]);
      }
    }
    if (!rank.is_root()) return;
    double const first = median(taken.first_copy), again = median(taken.copy);
    std::printf(
        "%-6s %.1f MB a rank: first save %.2f ms, %.2f of memcpy; next %.2f ms, %.2f of memcpy "
        "(memcpy %.2f and %.2f ms)%s\n",
        name, double(bytes) / 1e6, median(taken.first_save), median(taken.first_save) / first,
        median(taken.save), median(taken.save) / again, first, again, used == 0 ? "!" : "");
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path const folder = argc > 1 ? argv[1] : "checkpoint_benchmark.run";
  int const turns = argc > 2 ? std::atoi(argv[2]) : 5;
  measure_plan<serial>("serial", folder, turns);
  measure_plan<data_parallel<2>>("dp2", folder, turns);
  std::filesystem::remove_all(folder);
}
