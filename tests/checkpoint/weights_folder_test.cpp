// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
//
// Folders of files with parts of tensors; fixtures/pytorch was written by two ranks of
// PyTorch 2.15, see tests/oracle/checkpoint.py.
#include "plait/checkpoint/weights_folder.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plait/checkpoint/checkpoints.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
namespace files = std::filesystem;

files::path fixture() {
  char const* const tests = std::getenv("PLAIT_TESTS");
  auto const here =
      tests != nullptr ? files::path(tests) / "checkpoint" : files::path(__FILE__).parent_path();
  return here / "fixtures" / "pytorch";
}

template <class T>
std::vector<T> read(weights_folder& from, std::string const& name, std::size_t count) {
  std::vector<T> out(count);
  from.read(name, std::span(out));
  return out;
}

TEST(WeightsFolder, HasTheTensorsThatRanksOfPyTorchHaveWritten) {
  weights_folder folder(fixture());
  ASSERT_EQ(folder.tensors().size(), 4u);
  folder.expect_shape("a.matrix", std::vector<std::size_t>{6, 4});
  folder.expect_shape("b.matrix", std::vector<std::size_t>{5, 6});
  auto const a = read<float>(folder, "a.matrix", 24);
  auto const b = read<double>(folder, "b.matrix", 30);
  auto const c = read<float>(folder, "c.vector", 7);
  auto const d = read<double>(folder, "d.half", 8);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(a[i], static_cast<float>(i) / 2);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(b[i], static_cast<double>(i) / 4);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(c[i], static_cast<float>(i) * 3);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(d[i], static_cast<double>(i));
}

std::string refusal(auto work) {
  try {
    work();
  } catch (input_error const& problem) {
    return problem.what();
  }
  return "no error";
}
bool says(std::string const& text, std::string const& words) {
  return text.find(words) != std::string::npos;
}

TEST(WeightsFolder, OfWhichAFileIsMissingIsRefused) {
  files::path const copy = files::path(::testing::TempDir()) / "plait_weights_folder";
  files::remove_all(copy);
  files::create_directories(copy);
  EXPECT_TRUE(says(refusal([&] { weights_folder{copy}; }), "has no safetensors file"));
  EXPECT_TRUE(says(refusal([&] { weights_folder{copy / "none"}; }), "cannot be read"));
  for (auto const& one : files::directory_iterator(fixture())) {
    files::remove_all(copy);
    files::create_directories(copy);
    files::copy_file(one.path(), copy / one.path().filename());
    // Without its second part a tensor looks shorter; without its first it has a hole.
    auto const text = refusal([&] {
      weights_folder folder(copy);
      folder.expect_shape("a.matrix", std::vector<std::size_t>{6, 4});
    });
    EXPECT_TRUE(says(text, "'a.matrix'")) << text;
  }
  files::remove_all(copy);
}

TEST(WeightsFolder, SaysWhatIsAskedForInVain) {
  weights_folder folder(fixture());
  std::vector<float> out(5);
  EXPECT_TRUE(says(refusal([&] { folder.read("none", std::span(out)); }), "has no tensor 'none'"));
  EXPECT_TRUE(says(refusal([&] { folder.read("c.vector", std::span(out)); }),
                   "has the shape (7), but 5 elements are needed"));
  EXPECT_TRUE(
      says(refusal([&] { folder.expect_shape("a.matrix", std::vector<std::size_t>{4, 6}); }),
           "has the shape (6, 4), but (4, 6) is needed"));
}

using body = sequential<named<"first", nn::linear<10, 8>>, nn::gelu<8>>;
template <class Body, std::size_t Classes, class Policy>
struct job_of : parallel<objective<sequential<Body, named<"head", nn::linear<8, Classes>>>,
                                   nn::cross_entropy<Classes>>,
                         Policy> {};
using four_classes = job_of<named<"body", body>, 4, data_parallel<2>>;
using three_classes = job_of<named<"net", body>, 3, pipeline<2>>;

using weights = std::map<std::string, std::vector<float>>;

/// Calls work(trainer, rank, data) on each rank; returns the weights at the end.
template <class Job, std::size_t Classes, class Work>
weights after(Work work) {
  weights out;
  auto const data = in_memory<float>::random_classes(64, 10, Classes);
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{.learning_rate = 0.1, .momentum = 0.9});
    work(trainer, rank, data);
    EXPECT_EQ(trainer.parameters().size(), 4u);
    trainer.export_parameters(
        [&](std::string const& name, auto const&, std::span<float const> values) {
          out[name].assign(values.begin(), values.end());
        });
  });
  return out;
}

TEST(LoadWeights, FineTunesWithAnotherHeadAndOtherNames) {
  files::path const run = files::path(::testing::TempDir()) / "plait_load_weights";
  files::remove_all(run);
  auto const trained = after<four_classes, 4>([&](auto& trainer, auto& rank, auto const& data) {
    auto all = batches(data, global_batch<16>{}, rank, {.epochs = 1});
    checkpoints saves(trainer, all, {.folder = run, .every = 4});
    for (auto const& batch : all) {
      trainer.step(batch);
      saves.after_step();
    }
  });
  auto const start = after<three_classes, 3>([](auto&, auto&, auto const&) {});
  auto const load = [&](weight_names const& names) {
    return after<three_classes, 3>([&](auto& trainer, auto&, auto const&) {
      load_weights(trainer, weights_folder(run / "step-00000004"), names);
      EXPECT_EQ(trainer.step_number(), 0);
    });
  };
  auto const tuned = load({.names = {{"net.*", "body.*"}, {"head.*", "new.*"}},
                           .missing = {"head.*"},
                           .extra = {"head.*", "nothing.*"}});
  EXPECT_EQ(tuned.at("net.first.weight"), trained.at("body.first.weight"));
  EXPECT_EQ(tuned.at("net.first.bias"), trained.at("body.first.bias"));
  EXPECT_NE(tuned.at("net.first.weight"), start.at("net.first.weight"));
  EXPECT_EQ(tuned.at("head.weight"), start.at("head.weight"));
  // The same weights, from a single file, into the model that they are from.
  {
    std::vector<safetensors_entry> const entries{{"body.first.bias", stored_type::f32, {8}},
                                                 {"body.first.weight", stored_type::f32, {10, 8}},
                                                 {"head.bias", stored_type::f32, {4}},
                                                 {"head.weight", stored_type::f32, {8, 4}}};
    safetensors_writer file(run / "weights.safetensors", entries);
    for (auto const& [name, values] : trained) file.write(name, std::span<float const>(values));
    file.commit();
  }
  EXPECT_EQ((after<four_classes, 4>([&](auto& trainer, auto&, auto const&) {
              load_weights(trainer, safetensors_reader(run / "weights.safetensors"));
            })),
            trained);

  EXPECT_TRUE(says(refusal([&] { load({.names = {{"net.*", "body.*"}}}); }),
                   "tensor 'head.weight' has the shape (8, 4), but (8, 3) is needed"));
  auto const text =
      refusal([&] { load({.names = {{"head.*", "new.*"}}, .extra = {"body.first.b*"}}); });
  EXPECT_TRUE(says(text,
                   "the file lacks 4 tensors, 'net.first.weight', 'net.first.bias', "
                   "'new.weight', ...; name what may keep its values in "
                   "weight_names::missing. No parameter takes 3 tensors"))
      << text;
  files::remove_all(run);
}

}  // namespace
