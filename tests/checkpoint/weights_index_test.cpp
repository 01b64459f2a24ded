// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
//
// Tests the index of a folder, and folders whose index is damaged.
#include "plait/checkpoint/weights_index.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/llama_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"

namespace {

using namespace plait;
using llama_weights::fixture;
using llama_weights::refusal;
using llama_weights::text_of;
namespace files = std::filesystem;

constexpr char const* index_name = "model.safetensors.index.json";
std::string file_name(int number) {
  return "model-0000" + std::to_string(number) + "-of-00003.safetensors";
}

/// Returns a copy of the fixture.
files::path copy_of_fixture(std::string const& name) {
  auto const copy = llama_weights::scratch(name, ::testing::TempDir());
  files::copy(fixture(), copy, files::copy_options::recursive);
  return copy;
}

TEST(WeightsIndex, OnlyWhatItNamesIsRead) {
  auto const folder = copy_of_fixture("index_second_copy");
  files::copy_file(folder / file_name(1), folder / "consolidated.safetensors");
  llama_weights::write(folder / "optimizer.safetensors", "this is no safetensors file");
  weights_folder from(folder);
  EXPECT_EQ(from.tensors().size(), 21u);
  from.expect_shape("model.layers.1.self_attn.k_proj.weight", std::vector<std::size_t>{32, 64});
  // Without an index, all files are read.
  files::remove(folder / "optimizer.safetensors");
  files::remove(folder / index_name);
  EXPECT_NE(refusal([&] {
              weights_folder{folder};
            }).find("is in 'consolidated.safetensors' and in '" + file_name(1) + "'"),
            std::string::npos)
      << refusal([&] { weights_folder{folder}; });
  files::remove(folder / "consolidated.safetensors");
  EXPECT_EQ(weights_folder(folder).tensors().size(), 21u);
  files::remove_all(folder);
}

TEST(WeightsIndex, FilesMayBeLinksAsInTheHubsCache) {
  auto const blobs = copy_of_fixture("index_blobs");
  auto const snapshot = llama_weights::scratch("index_snapshot", ::testing::TempDir());
  for (auto const& one : files::directory_iterator(blobs))
    files::create_symlink("../plait_index_blobs" / one.path().filename(),
                          snapshot / one.path().filename());
  EXPECT_EQ(weights_folder(snapshot).tensors().size(), 21u);
  files::remove(blobs / index_name);
  EXPECT_EQ(
      refusal([&] { weights_folder{snapshot}; }),
      "index '" + (snapshot / index_name).string() + "' cannot be read: No such file or directory");
  files::remove_all(blobs);
  files::remove_all(snapshot);
}

/// Reads a rectangle of a matrix and a piece of a vector, and compares them with the whole.
TEST(WeightsIndex, PartsOfTensorsAreRead) {
  weights_folder from(fixture());
  std::string const name = "model.layers.0.mlp.down_proj.weight";
  std::vector<float> whole(64 * 128), part(3 * 5);
  from.read(name, std::span(whole));
  from.read_block(name, std::vector<std::size_t>{7, 100}, std::vector<std::size_t>{3, 5},
                  std::span(part));
  for (std::size_t i = 0; i < part.size(); ++i)
    EXPECT_EQ(part[i], whole[(7 + i / 5) * 128 + 100 + i % 5]);
  std::vector<float> norm(64), piece(4);
  from.read("model.norm.weight", std::span(norm));
  from.read_block("model.norm.weight", std::vector<std::size_t>{60}, std::vector<std::size_t>{4},
                  std::span(piece));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(piece[i], norm[60 + i]);
  auto const block = [&](std::vector<std::size_t> const& offset,
                         std::vector<std::size_t> const& extent) {
    return refusal([&] { from.read_block(name, offset, extent, std::span(part)); });
  };
  EXPECT_NE(block({62, 0}, {3, 5})
                .find("has the shape (64, 128), without a rectangle (3, 5) from "
                      "(62, 0) on of 15 elements"),
            std::string::npos);
  EXPECT_NE(block({0}, {15}), "no error");
  EXPECT_NE(block({0, 0}, {3, 4}), "no error");
}

struct damage {
  std::function<void(files::path const&)> make;
  std::string says;  ///< the error text after the name of the index
};

/// Replaces the first `from` in the index by `to`.
damage other(std::string from, std::string to, std::string const& says) {
  return {[from = std::move(from), to = std::move(to)](files::path const& folder) {
            auto text = text_of(folder / index_name);
            auto const at = text.find(from);
            ASSERT_NE(at, std::string::npos) << from;
            text.replace(at, from.size(), to);
            llama_weights::write(folder / index_name, text);
          },
          says};
}

TEST(WeightsIndex, DamagedFoldersAreRefusedInOneSentence) {
  std::string const norm = "\"model.norm.weight\": \"model-00003-of-00003.safetensors\"";
  std::string const says_norm = "states that tensor 'model.norm.weight' is in ";
  std::string const outside =
      ", which is not the name of a file in the folder of the index (only letters, digits and . "
      "_ - are allowed)";
  std::vector<damage> const all{
      {[](auto const& folder) {
         llama_weights::write(folder / index_name, text_of(folder / index_name).substr(0, 1000));
       },
       "is not JSON (at its byte 1001)"},
      other(norm, "\"model.norm.weight\": \"../model-00003-of-00003.safetensors\"",
            says_norm + "'../model-00003-of-00003.safetensors'" + outside),
      other(norm, "\"model.norm.weight\": \"/etc/passwd\"", says_norm + "'/etc/passwd'" + outside),
      other(norm, "\"model.norm.weight\": \"optimizer/a.safetensors\"",
            says_norm + "'optimizer/a.safetensors'" + outside),
      other(norm, "\"model.norm.weight\": \"..\"", says_norm + "'..'" + outside),
      other(norm, "\"model.norm.weight\": \"\"", says_norm + "''" + outside),
      other(norm, norm + ", " + norm, "names the tensor 'model.norm.weight' twice"),
      other(norm, "\"model.norm.weight\": 3",
            "has a weight_map that does not map tensor 'model.norm.weight' to the name of a file"),
      other(norm, "\"model.norm.weight\": [\"" + file_name(3) + "\"]",
            "has a weight_map that does not map tensor 'model.norm.weight' to the name of a file"),
      other("weight_map", "weights",
            "has no weight_map, which maps the name of each tensor to the name of its file"),
      other("\"weight_map\": {", "\"weight_map\": 1, \"more\": {",
            "has a weight_map that is not an object"),
      other("\"weight_map\": {", "\"weight_map\": {}, \"more\": {", "names no tensor"),
      other("\"metadata\"", "\"weight_map\"",
            "has a weight_map that does not map tensor 'total_parameters' to the name of a file"),
      other("\"weight_map\": {", "\"weight_map\": {}, \"weight_map\": {", "has two weight_maps"),
      other(norm, norm + ", \"model.more.weight\": \"" + file_name(2) + "\"",
            "states that tensor 'model.more.weight' is in '" + file_name(2) +
                "', which does not contain it"),
      other(norm, "\"model.norm.weight\": \"" + file_name(1) + "\"",
            "states that tensor 'model.norm.weight' is in '" + file_name(1) +
                "', which does not contain it"),
      other(",\n    " + norm, "",
            "says nothing of tensor 'model.norm.weight', which is in '" + file_name(3) + "'"),
      {[](auto const& folder) { files::remove(folder / file_name(2)); },
       "names the file '" + file_name(2) + "', which does not exist"},
      {[](auto const& folder) { llama_weights::write(folder / index_name, "[]"); },
       "is not an object"},
      {[](auto const& folder) { llama_weights::write(folder / index_name, ""); },
       "is not JSON (at its byte 1)"},
      {[](auto const& folder) {
         llama_weights::write(folder / index_name, text_of(folder / index_name) + "{}");
       },
       "is not JSON (at its byte " + std::to_string(files::file_size(fixture() / index_name) + 1) +
           ")"},
      {[](auto const& folder) { files::resize_file(folder / index_name, 50'000'001); },
       "has 50000001 bytes; at most 50000000 are allowed"},
      {[](auto const& folder) {
         files::remove(folder / index_name);
         files::create_directory(folder / index_name);
       },
       "cannot be read: it is a directory"},
      // A tensor is in two files, and the index names one.
      {[](auto const& folder) {
         files::remove(folder / file_name(2));
         files::copy_file(folder / file_name(1), folder / file_name(2));
       },
       "states that tensor 'model.layers.0.input_layernorm.weight' is in '" + file_name(2) +
           "', which does not contain it"}};
  for (auto const& [make, says] : all) {
    auto const folder = copy_of_fixture("damaged_index");
    make(folder);
    EXPECT_EQ(refusal([&] { weights_folder{folder}; }),
              "index '" + (folder / index_name).string() + "' " + says);
  }
  auto const folder = copy_of_fixture("damaged_index");
  auto const text = text_of(folder / file_name(3));
  llama_weights::write(folder / file_name(3), text.substr(0, text.size() - 100));
  EXPECT_NE(refusal([&] {
              weights_folder{folder};
            }).find("safetensors file '" + (folder / file_name(3)).string() + "': tensor "),
            std::string::npos);
  files::remove_all(folder);
}

TEST(WeightsIndex, TextsAreRefusedInOneSentence) {
  detail::file_name const name("index", "i");
  auto const said = [&](std::string const& text) {
    return refusal([&] { (void)detail::parse_weights_index(text, name); });
  };
  std::string const map = R"("weight_map":{"a":"f"})", only = "{" + map + "}";
  EXPECT_EQ(detail::parse_weights_index(only, name), (detail::weights_index{{"a", "f"}}));
  EXPECT_EQ(said(only + std::string(50'000'000, ' ')),
            "index 'i' has " + std::to_string(50'000'000 + only.size()) +
                " bytes; at most 50000000 are allowed");
  EXPECT_EQ(said(only + std::string(1, '\0')),
            "index 'i' is not JSON (at its byte " + std::to_string(only.size() + 1) + ")");
  EXPECT_EQ(said(R"({"weight_map":{"a":"f","\u0061":"g"}})"),
            "index 'i' names the tensor 'a' twice");
  EXPECT_EQ(said("{" + map + R"(,"weight\u005fmap":{}})"), "index 'i' has two weight_maps");
  EXPECT_EQ(said("{" + map + R"(,"size":1e400})"),
            "index 'i' is not JSON (it has a number that is too large)");
  // Other keys are skipped, with any values.
  std::string deep(300'000, '[');
  deep.resize(600'000, ']');
  for (std::string const& other : {std::string("1"), std::string(R"({"a":1,"a":2})"),
                                   std::string(R"([{"weight_map":{}},{"weight_map":1}])"), deep})
    EXPECT_EQ(said("{\"x\":" + other + "," + map + ",\"x\":" + other + "}"), "no error");
  EXPECT_EQ(said("{\"weight_map\":{\"a\":" + deep + "}}"),
            "index 'i' has a weight_map that does not map tensor 'a' to the name of a file");
  EXPECT_EQ(said(deep), "index 'i' is not an object");
}

TEST(WeightsIndex, IsWrittenAsItIsRead) {
  auto const index = detail::read_weights_index(fixture() / index_name);
  EXPECT_EQ(index.size(), 21u);
  EXPECT_EQ(index.at("lm_head.weight"), file_name(3));
  auto const text = detail::to_text(index, 213632);
  detail::file_name const name("index", "i");
  EXPECT_EQ(detail::parse_weights_index(text, name), index);
  // The index equals transformers' except for further entries that transformers writes.
  auto expected = text_of(fixture() / index_name);
  std::string const more = "    \"total_parameters\": 106816,\n";
  expected.erase(expected.find(more), more.size());
  EXPECT_EQ(text, expected);
  EXPECT_NE(refusal([] { (void)detail::to_text({{"\xff", "a"}}, 1); }).find("is not UTF-8"),
            std::string::npos);
  EXPECT_EQ(refusal([] { (void)detail::to_text({{std::string(50'000'000, 'a'), "f"}}, 1); }),
            "an index of weights cannot be written: it would have 50000079 bytes; at most 50000000 "
            "are allowed");
}

}  // namespace
