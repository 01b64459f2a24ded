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
#include <string>
#include <vector>

namespace {

using namespace plait;
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

}  // namespace
