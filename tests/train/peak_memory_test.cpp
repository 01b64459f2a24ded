// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint alone seconds=5
//
// The heap that a job whose ranks hold blocks uses in addition to the memory of its plan: one
// bucket and one tensor, also for all work of a trainer outside of its steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "plait/checkpoint/checkpoints.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/plait.hpp"
#include "testing/count_allocations.hpp"

namespace {

using plait::named;
namespace nn = plait::nn;

constexpr std::size_t width = 256, wide = 512;
using up = nn::linear<width, wide>;
using down = nn::linear<wide, width>;
using model = plait::objective<
    plait::sequential<named<"a", up>, named<"b", down>, named<"c", up>, named<"d", down>,
                      named<"e", up>, named<"f", nn::linear<wide, 8>>>,
    nn::cross_entropy<8>>;
constexpr std::size_t ranks = 2;
struct job
    : plait::parallel<model, plait::data_parallel<int(ranks), plait::zero<3>, plait::buckets<1>>,
                      double> {};
constexpr std::size_t longest = width * wide * sizeof(double);   // the longest tensor
constexpr std::size_t bucket = longest + wide * sizeof(double);  // the tensor and its bias
constexpr std::size_t lists = longest / 2;  // names, programs, manifests, threads

/// The peak of the heap bytes that all ranks together use for an action, and the bytes that are
/// held after it.
struct taken {
  std::size_t most = 0, left = 0;
};
template <class Rank, class Action>
taken measure(Rank& rank, Action action) {
  auto const meet = [&] { rank.world().barrier(); };
  meet();
  std::size_t const before = plait_test::bytes_held;
  meet();
  if (rank.is_root()) plait_test::most_bytes_held = before;
  meet();
  action();
  meet();
  taken const out{plait_test::most_bytes_held - before, plait_test::bytes_held - before};
  meet();
  return out;
}

struct folder {
  std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "plait_peak_memory";
  folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~folder() { std::filesystem::remove_all(path); }
};

TEST(PeakMemory, IsThatOfThePlanAndOneBucketAndOneTensor) {
  auto const data = plait::in_memory<double>::random_classes(64, width, 8);
  folder const at;
  constexpr plait::workload load{.rows = 4, .optimizer_states = 2};
  std::barrier together(std::ptrdiff_t{ranks});
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto const expect_at_most = [&](char const* what, std::size_t bytes, auto action) {
      auto const now = measure(rank, action);
      EXPECT_LE(now.most, bytes + lists) << what;
      EXPECT_LE(now.left, lists) << what;
      EXPECT_GE(now.most, longest) << what;  // shows that the counter works
    };
    using trainer_type = decltype(plait::trainer<job>(rank, plait::adamw{}));
    std::optional<trainer_type> made;
    auto const start = measure(rank, [&] { made.emplace(rank, plait::adamw{}); });
    auto& trainer = *made;
    std::size_t const arenas = ranks * trainer.allocated().total();
    EXPECT_LE(start.most, arenas + ranks * longest + lists);
    EXPECT_LE(start.left, arenas + lists);

    auto batches = plait::batches<double>(data, plait::global_batch<8>{}, rank, {.epochs = 0});
    measure(rank, [&] { trainer.step(batches.at(0)); });
    EXPECT_LE(trainer.allocated().total(), job::plan_type::memory(0, load).total());

    expect_at_most("import", ranks * longest, [&] {
      trainer.import_parameters([&](std::string const&, auto const&, std::span<double> out) {
        std::ranges::fill(out, 0.5);
        together.arrive_and_wait();
      });
    });
    // All ranks have a bucket, and the root also has the tensor.
    std::size_t const of_export = ranks * bucket + longest;
    auto const ignore = [](std::string const&, auto const&, std::span<double const>) {};
    expect_at_most("export", of_export, [&] { trainer.export_parameters(ignore); });
    expect_at_most("export of gradients", of_export, [&] { trainer.export_gradients(ignore); });
    auto const weights = at.path / "weights";
    expect_at_most("save_weights", of_export, [&] { plait::save_weights(trainer, weights); });
    expect_at_most("load_weights", ranks * longest,
                   [&] { plait::load_weights(trainer, plait::weights_folder(weights)); });

    std::optional<plait::checkpoints> saves;
    plait::checkpoint_options const where{.folder = at.path / "checkpoints"};
    saves.emplace(trainer, batches, where);
    saves->resume();
    auto const save = measure(rank, [&] {
      saves->save();
      saves->finish();
    });
    EXPECT_LE(save.most, ranks * job::plan_type::host_bytes(0, load) + lists);
    saves.reset();
    saves.emplace(trainer, batches, where);
    expect_at_most("resume", ranks * longest, [&] { saves->resume(); });
  });
}

}  // namespace
