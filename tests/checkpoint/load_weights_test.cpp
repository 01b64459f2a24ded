// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint seconds=5 alone
//
// Each rank reads only the weights that it keeps. The test replaces pread() to count bytes.
#include "plait/checkpoint/load_weights.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/llama_weights.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/plait.hpp"

namespace {
thread_local std::size_t bytes_read = 0;
}

extern "C" ::ssize_t pread(int file, void* to, std::size_t count, ::off_t at) {
  auto const got = ::syscall(SYS_pread64, file, to, count, at);
  if (got > 0) bytes_read += static_cast<std::size_t>(got);
  return got;
}

namespace {

using namespace plait;
using llama_weights::fixture;
using llama_weights::refusal;
namespace files = std::filesystem;

bool says(std::string const& text, std::string const& words) {
  return text.find(words) != std::string::npos;
}

template <class Job>
auto trainer_of(auto& rank) {
  return plait::trainer<Job>(rank, sgd{}, {.seed = 1});
}

/// Returns the bytes in the files of the weights that a rank keeps: two for each element.
template <class Job>
std::size_t block_bytes(auto const& rank) {
  std::size_t out = 0;
  for (auto const& parameter :
       Job::plan_type::blocks(rank.stage(), rank.tensor_rank(), rank.grid()))
    for (auto const& each : parameter.rectangles) out += 2 * each.count();
  return out;
}

files::path temporary() { return ::testing::TempDir(); }

/// Loads the fixture and saves it in files of 80 kB; checks that the bytes are unchanged.
template <class Policy, class Precision>
files::path expect_same_bytes(std::string const& name) {
  using job = llama_weights::job<Policy, Precision>;
  auto const folder = llama_weights::scratch("saved_" + name, temporary());
  launch<job>(threads{}, [&](auto& rank) {
    auto trainer = trainer_of<job>(rank);
    std::size_t const before = bytes_read;
    load_weights(trainer, weights_folder(fixture()));
    auto const read = double(bytes_read - before), blocks = double(block_bytes<job>(rank));
    auto const index = double(files::file_size(fixture() / "model.safetensors.index.json"));
    EXPECT_GE(read, blocks + index);
    EXPECT_LE(read, 1.05 * blocks + index) << "rank " << rank.world_rank();
    if (rank.is_root()) std::printf("%s: %.0f bytes of %.0f\n", name.c_str(), read - index, blocks);
    save_weights(trainer, folder, {.most_bytes = 80'000, .type = stored_type::bf16});
  });
  EXPECT_EQ(llama_weights::bytes_in(folder), llama_weights::bytes_in(fixture())) << name;
  EXPECT_EQ(llama_weights::names_in(folder),
            (std::vector<std::string>{
                "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  return folder;
}

TEST(LoadWeights, OfTransformersUnderEveryPlan) {
  auto const one = expect_same_bytes<serial, double>("serial");
  auto const four = expect_same_bytes<tensor_parallel<4>, float>("tp4");
  auto const two =
      expect_same_bytes<pipeline<2>, plait::precision<plait::bfloat16, plait::bfloat16, float>>(
          "pp2");
  for (auto const& name : llama_weights::names_in(one)) {
    EXPECT_EQ(llama_weights::text_of(one / name), llama_weights::text_of(four / name)) << name;
    EXPECT_EQ(llama_weights::text_of(one / name), llama_weights::text_of(two / name)) << name;
  }
  // The written files are readable, and so is a single file of them.
  using job = llama_weights::job<serial, double>;
  auto const file = temporary() / "plait_whole.safetensors";
  launch<job>(threads{}, [&](auto& rank) {
    auto trainer = trainer_of<job>(rank);
    load_weights(trainer, weights_folder(one));
    save_weights(trainer, file);
  });
  safetensors_reader const whole(file);
  weights_folder from(fixture());
  for (auto const& name : from.names()) {
    std::vector<double> expected(whole.info(name).elements()), found(expected.size());
    from.read(name, std::span(expected));
    whole.read(name, std::span(found));
    EXPECT_EQ(expected, found) << name;
  }
  EXPECT_EQ(whole.names().size(), 21u);
  using other_job = llama_weights::job<tensor_parallel<4>, float>;
  launch<other_job>(threads{}, [&](auto& rank) {
    auto trainer = trainer_of<other_job>(rank);
    std::size_t const before = bytes_read;
    load_weights(trainer, safetensors_reader(file));
    // The files have doubles, of 4 times the bytes.
    EXPECT_LE(double(bytes_read - before), 1.05 * 4 * double(block_bytes<other_job>(rank)));
  });
  for (auto const& path : {one, four, two, file}) files::remove_all(path);
}

/// Returns a copy of the fixture in which one element of a tensor has other bytes.
files::path with_element(std::string const& folder, std::string const& tensor, std::size_t element,
                         std::string_view bytes) {
  auto const copy = llama_weights::scratch(folder, temporary());
  for (auto const& one : files::directory_iterator(fixture())) {
    auto text = llama_weights::text_of(one.path());
    if (one.path().extension() == ".safetensors")
      if (safetensors_reader const file(one.path()); file.contains(tensor))
        text.replace(file.position(tensor) + 2 * element, bytes.size(), bytes);
    llama_weights::write(copy / one.path().filename(), text);
  }
  return copy;
}

TEST(LoadWeights, RanksCompareWhatTheyShare) {
  using job = llama_weights::job<hybrid<data_parallel<2>, tensor_parallel<2>>, float>;
  // Tensor rank 0 has the first 128 rows.
  auto const other = with_element("other_weights", "lm_head.weight", 0, "ab");
  auto const nan = with_element("nan_weights", "lm_head.weight", 64 * 129, "\xc0\x7f");
  auto const load = [&](int odd, files::path const& from) {
    return refusal([&] {
      launch<job>(threads{}, [&](auto& rank) {
        auto trainer = trainer_of<job>(rank);
        load_weights(trainer, weights_folder(rank.world_rank() == odd ? from : fixture()));
      });
    });
  };
  std::set<std::string> refused;
  for (int const odd : {0, 1, 2, 3}) {
    auto const text = load(odd, other);
    if (text == "no error") continue;  // this rank has the other half
    refused.insert(std::to_string(odd));
    EXPECT_TRUE(says(text, "the ranks differ in the values of 'lm_head.weight': hash ")) << text;
    EXPECT_TRUE(says(text, " on rank " + std::to_string(odd))) << text;
  }
  EXPECT_EQ(refused.size(), 2u);
  std::size_t problems = 0;
  for (int const odd : {0, 1, 2, 3}) {
    auto const text = load(odd, nan);
    if (text == "no error") continue;
    ++problems;
    EXPECT_TRUE(says(text,
                     "import_parameters: tensor 'lm_head.weight' holds nan at place 64 of "
                     "8192 in this rank's block"))
        << text;
  }
  EXPECT_EQ(problems, 2u);
  files::remove_all(other);
  files::remove_all(nan);
}

TEST(LoadWeights, StarsStandForTheSameInBothNames) {
  using job = llama_weights::job<serial, double>;
  auto const folder = llama_weights::scratch("other_names", temporary());
  auto const load = [&](files::path const& from, weight_names const& names, auto then) {
    launch<job>(threads{}, [&](auto& rank) {
      auto trainer = trainer_of<job>(rank);
      load_weights(trainer, weights_folder(from), names);
      then(trainer);
    });
  };
  auto const nothing = [](auto&) {};
  // The names in Meta's own files.
  std::vector<std::pair<std::string, std::string>> const meta{
      {"model.layers.*.self_attn.*_proj.weight", "layers.*.attention.w*.weight"},
      {"model.*", "*"},
      {"lm_head.*", "output.*"}};
  load(fixture(), {}, [&](auto& trainer) {
    save_weights(trainer, folder, {.names = meta, .type = stored_type::bf16});
  });
  EXPECT_EQ(llama_weights::names_in(folder), std::vector<std::string>{"model.safetensors"});
  auto const written = llama_weights::bytes_in(folder), before = llama_weights::bytes_in(fixture());
  EXPECT_EQ(written.size(), 21u);
  EXPECT_EQ(written.at("layers.1.attention.wq.weight"),
            before.at("model.layers.1.self_attn.q_proj.weight"));
  EXPECT_EQ(written.at("layers.0.mlp.up_proj.weight"),
            before.at("model.layers.0.mlp.up_proj.weight"));
  EXPECT_EQ(written.at("output.weight"), before.at("lm_head.weight"));
  auto const again = temporary() / "plait_same_names";
  files::remove_all(again);
  load(folder, {.names = meta},
       [&](auto& trainer) { save_weights(trainer, again, {.type = stored_type::bf16}); });
  EXPECT_EQ(llama_weights::bytes_in(again), before);

  EXPECT_EQ(
      refusal([&] { load(folder, {.names = {{"model.*.*", "*"}}}, nothing); }),
      "rank 0: load_weights: 'model.*.*' has 2 stars and '*', its name in the file, has 1; both "
      "must have the same number of stars, which stand for the same texts in the same order");
  EXPECT_TRUE(says(refusal([&] { load(folder, {.missing = {"model"}}, nothing); }),
                   "the file lacks 21 tensors, 'model.embed_tokens.weight', "));
  EXPECT_EQ(
      refusal([&] { load(folder, {.missing = {"model.*", "lm_head*"}, .extra = {"*"}}, nothing); }),
      "no error");
  files::remove_all(folder);
  files::remove_all(again);
}

}  // namespace
