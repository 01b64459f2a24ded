// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
//
// Folders of files with parts of tensors; fixtures/pytorch was written by two ranks of
// PyTorch 2.15, see tests/oracle/checkpoint.py.
#include "plait/checkpoint/weights_folder.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
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

/// Returns a safetensors file: `header`, and data of `floats` numbers 1, 2 and so on.
void write_file(files::path const& path, std::string const& header, int floats) {
  auto const length = static_cast<std::uint64_t>(header.size());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<char const*>(&length), 8);
  file << header;
  for (int i = 1; i <= floats; ++i) {
    auto const number = static_cast<float>(i);
    file.write(reinterpret_cast<char const*>(&number), 4);
  }
}
std::string part(std::string const& name, std::string const& offsets, std::string const& shape,
                 int bytes) {
  return R"({"__metadata__":{"DCP_SHARDING_INFO":"{\")" + name + R"(\":{\"saved_offsets\":)" +
         offsets + R"(}}","DCP_VERSION":"1.0"},")" + name + R"(":{"dtype":"F32","shape":)" + shape +
         R"(,"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
}
constexpr char const* whole = R"({"e":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},)"
                              R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";

TEST(WeightsFolder, HasWhatPeopleHave) {
  files::path const folder = files::path(::testing::TempDir()) / "plait_weights_people_have";
  files::remove_all(folder);
  files::create_directories(folder);
  // The folder has a file name that no manifest would have, a tensor without elements, and a file
  // that macOS adds.
  write_file(folder / "model (1).safetensors", whole, 4);
  std::ofstream(folder / "._model (1).safetensors")
      << std::string("\0\5\x16\7\0\2\0\0Mac OS X", 16);
  {
    weights_folder from(folder);
    EXPECT_EQ(from.names(), (std::vector<std::string>{"e", "w"}));
    EXPECT_EQ(read<float>(from, "w", 4), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_TRUE(read<float>(from, "e", 0).empty());
    from.expect_shape("e", std::vector<std::size_t>{0, 3});
  }
  // A tensor of an unknown type is refused when it is read.
  write_file(folder / "more.safetensors",
             R"({"c":{"dtype":"C64","shape":[1],"data_offsets":[0,8]},)"
             R"("s":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})",
             3);
  {
    weights_folder from(folder);
    EXPECT_EQ(read<float>(from, "w", 4), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_TRUE(says(refusal([&] { read<float>(from, "c", 1); }), "tensor 'c' holds C64"));
    EXPECT_EQ(read<float>(from, "s", 1), std::vector<float>{3});
  }
  // The folder has two copies.
  write_file(folder / "consolidated.safetensors", whole, 4);
  EXPECT_TRUE(says(refusal([&] { weights_folder{folder}; }),
                   "tensor 'w' is in 'consolidated.safetensors' and in 'model (1).safetensors'; if "
                   "these are two copies"))
      << refusal([&] { weights_folder{folder}; });
  files::remove_all(folder);
}

// One row on two ranks leaves the second rank a piece without rows.
TEST(WeightsFolder, PiecesMayBeEmpty) {
  files::path const folder = files::path(::testing::TempDir()) / "plait_weights_empty_piece";
  files::remove_all(folder);
  files::create_directories(folder);
  write_file(folder / "shard-1.safetensors", part("small", "[0, 0]", "[1,5]", 20), 5);
  write_file(folder / "shard-2.safetensors", part("small", "[1, 0]", "[0,5]", 0), 0);
  {
    weights_folder from(folder);
    from.expect_shape("small", std::vector<std::size_t>{1, 5});
    EXPECT_EQ(read<float>(from, "small", 5), (std::vector<float>{1, 2, 3, 4, 5}));
  }
  // The empty piece gives the end of the rows before it.
  write_file(folder / "shard-2.safetensors", part("small", "[2, 0]", "[0,5]", 0), 0);
  EXPECT_TRUE(says(refusal([&] { weights_folder{folder}; }),
                   "has the shape (2, 5) and rectangles with 5 of its 10 elements"));
  write_file(folder / "shard-2.safetensors",
             part("small", "[18446744073709551615, 0]", "[1,5]", 20), 5);
  EXPECT_TRUE(says(refusal([&] { weights_folder{folder}; }), "which overflow"));
  files::remove_all(folder);
}

TEST(WeightsFolder, WithoutSafetensorsFilesSaysWhatIsThere) {
  files::path const folder = files::path(::testing::TempDir()) / "plait_weights_of_torch";
  files::remove_all(folder);
  files::create_directories(folder);
  std::ofstream(folder / "config.json") << "{}";
  EXPECT_EQ(refusal([&] { weights_folder{folder}; }),
            "folder of weights '" + folder.string() + "' has no safetensors file");
  std::string zip("PK\3\4", 4);
  zip += std::string(22, '\0') + std::string("\x10\0\0\0archive/data.pkl", 20);
  for (char const* const name : {"optimizer.pt", "pytorch_model.bin"})
    std::ofstream(folder / name, std::ios::binary) << zip;
  EXPECT_TRUE(says(refusal([&] { weights_folder{folder}; }),
                   "has no safetensors file; 'pytorch_model.bin' is a file that torch.save has "
                   "written; convert it: python3 -c '"))
      << refusal([&] { weights_folder{folder}; });
  files::remove_all(folder);
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
  // A single file gives these weights to the model from which they come.
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
                   "'new.weight', ...; list parameters that may keep their values in "
                   "weight_names::missing. No parameter takes 3 tensors"))
      << text;
  files::remove_all(run);
}

}  // namespace
