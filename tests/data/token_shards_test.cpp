// SPDX-License-Identifier: Apache-2.0
#include "plait/data/token_shards.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "plait/data/byte_text.hpp"
#include "plait/data/table.hpp"

namespace {

using plait::token_shards;
using paths = std::vector<std::filesystem::path>;
using tokens = std::vector<std::uint32_t>;

constexpr std::int32_t narrow = 20240520, wide = 20240801;

class TokenShards : public testing::Test {
 protected:
  TokenShards()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_token_shards_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TokenShards() override { std::filesystem::remove_all(folder_); }

  static std::string header(std::int32_t magic, std::int32_t count) {
    std::vector<std::int32_t> words{magic, magic == narrow ? 1 : 7, count};
    words.resize(256);
    return {reinterpret_cast<char const*>(words.data()), 1024};
  }

  [[nodiscard]] std::filesystem::path file(std::string const& name, tokens const& all,
                                           std::int32_t magic = narrow) const {
    std::string bytes = header(magic, static_cast<std::int32_t>(all.size()));
    for (auto const token : all)
      for (int shift = 0; shift < (magic == narrow ? 16 : 32); shift += 8)
        bytes += static_cast<char>((token >> shift) & 255u);
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  // The message of the input_error that the call ends with, without the folder's name.
  std::string refusal(std::function<void()> const& call) const {
    try {
      call();
    } catch (plait::input_error const& problem) {
      std::string text = problem.what();
      auto const folder = folder_.string() + "/";
      for (std::size_t at = text.find(folder); at != text.npos; at = text.find(folder))
        text.erase(at, folder.size());
      return text;
    }
    return "no input_error";
  }

  std::filesystem::path folder_;
};

std::vector<std::int32_t> inputs(token_shards const& data, std::size_t sample) {
  std::vector<std::int32_t> out(data.sequence_length());
  data.inputs(sample, out);
  return out;
}
std::vector<std::int32_t> targets(token_shards const& data, std::size_t sample) {
  std::vector<std::int32_t> out(data.sequence_length());
  data.targets(sample, out);
  return out;
}

tokens made_up(std::size_t count, std::uint32_t below) {
  tokens out(count);
  std::uint32_t state = 1;
  for (auto& token : out) {
    state = state * 1664525u + 1013904223u;
    token = state % below;
  }
  return out;
}

// However the tokens are cut into files, also by files of no tokens and by one of a single token
// within a sequence.
TEST_F(TokenShards, TheSamplesAreThoseOfOneFile) {
  for (auto const magic : {narrow, wide}) {
    std::uint32_t const below = magic == narrow ? 65536 : 200000;
    auto const all = made_up(101, below);
    token_shards const one({file("one", all, magic)}, {.sequence = 7, .vocabulary = below});
    ASSERT_EQ(one.size(), 14u);
    for (auto const& cuts : std::vector<std::vector<std::size_t>>{
             {50}, {7}, {0}, {101}, {1, 2, 3, 4, 5}, {10, 10, 10, 11}, {0, 98, 100, 101, 101}}) {
      paths files;
      std::size_t begin = 0;
      auto const add = [&](std::size_t end) {
        files.push_back(file("part" + std::to_string(files.size()),
                             {all.begin() + static_cast<std::ptrdiff_t>(begin),
                              all.begin() + static_cast<std::ptrdiff_t>(end)},
                             magic));
        begin = end;
      };
      for (auto const cut : cuts) add(cut);
      add(all.size());
      token_shards const parts(files, {.sequence = 7, .vocabulary = below});
      ASSERT_EQ(parts.size(), one.size());
      EXPECT_EQ(parts.tokens(), 101u);
      for (std::size_t sample = 0; sample < one.size(); ++sample) {
        EXPECT_EQ(inputs(parts, sample), inputs(one, sample));
        EXPECT_EQ(targets(parts, sample), targets(one, sample));
        for (std::size_t i = 0; i < 7; ++i)
          EXPECT_EQ(static_cast<std::uint32_t>(targets(parts, sample)[i]), all[sample * 7 + i + 1]);
      }
    }
  }
}

TEST_F(TokenShards, AFolderHasThemInTheOrderOfTheirNames) {
  auto const all = made_up(30, 100);
  (void)file("b.bin", {all.begin() + 12, all.end()});
  (void)file("a.bin", {all.begin(), all.begin() + 12});
  (void)file("notes.txt", {});
  std::ofstream(folder_ / "._a.bin") << std::string("\0\5\x16\7", 4);  // as macOS writes it
  auto const data = token_shards::in_folder(folder_, {.sequence = 29, .vocabulary = 100});
  EXPECT_EQ(inputs(data, 0), std::vector<std::int32_t>(all.begin(), all.end() - 1));
  EXPECT_EQ(data.description(),
            "token_shards(2 files from 'a.bin' to 'b.bin', 30 tokens of 16 bits, sequences of 29, "
            "a vocabulary of 100)");
  std::filesystem::create_directories(folder_ / "none");
  EXPECT_EQ(refusal([&] {
              (void)token_shards::in_folder(folder_ / "none", {.sequence = 1, .vocabulary = 9});
            }),
            "folder of token files 'none' has no file whose name ends with .bin");
  EXPECT_EQ(refusal([&] {
              (void)token_shards::in_folder(folder_ / "gone", {.sequence = 1, .vocabulary = 9});
            }),
            "folder of token files 'gone' cannot be read: No such file or directory");
}

TEST_F(TokenShards, WrongFilesAndOptionsAreRefusedInOneSentence) {
  auto const a = file("a", {1, 2, 3}), b = file("b", {4, 5}), w = file("w", {6, 70000}, wide);
  auto const opening = [&](paths const& files, plait::ext::token_options const& options) {
    return refusal([&] { token_shards const data(files, options); });
  };
  EXPECT_EQ(opening({a, b}, {.sequence = 4, .vocabulary = 9}), "no input_error");
  EXPECT_EQ(opening({a, b}, {.sequence = 5, .vocabulary = 9}),
            "token_shards: 2 files have 5 tokens; one sequence of 5 needs at least 5 + 1");
  EXPECT_EQ(opening({a}, {.sequence = 3, .vocabulary = 9}),
            "token file 'a' has 3 tokens; one sequence of 3 needs at least 3 + 1");
  EXPECT_EQ(opening({}, {.sequence = 3, .vocabulary = 9}),
            "token_shards: the list of files is empty");
  EXPECT_EQ(opening({a, w}, {.sequence = 3, .vocabulary = 9}),
            "token file 'w' has tokens of 32 bits, but 'a' tokens of 16 bits");
  EXPECT_EQ(opening({a, folder_ / "c"}, {.sequence = 3, .vocabulary = 9}),
            "token file 'c' cannot be read: No such file or directory");
  EXPECT_EQ(opening({a}, {.sequence = 0, .vocabulary = 9}),
            "token_options::sequence is 0; the sequence length must be at least 1");
  EXPECT_EQ(opening({a}, {.sequence = 2, .vocabulary = 0}),
            "token_options::vocabulary is 0; it must be from 1 to 2147483648");
  EXPECT_EQ(opening({a}, {.sequence = 2, .vocabulary = 2147483649}),
            "token_options::vocabulary is 2147483649; it must be from 1 to 2147483648");
  std::ofstream(folder_ / "v") << header(narrow, 0).replace(4, 1, "\7");
  EXPECT_EQ(opening({folder_ / "v"}, {.sequence = 2, .vocabulary = 9}),
            "token file 'v' has version 7, but only version 1 can be read");
  std::ofstream(folder_ / "h") << header(wide, 2) << "1234";
  EXPECT_EQ(opening({folder_ / "h"}, {.sequence = 2, .vocabulary = 9}),
            "token file 'h' should have 2 tokens of 32 bits according to its header, but 4 bytes "
            "follow it");
}

// Readers of tokens, tables and texts know the same kinds of other files.
TEST_F(TokenShards, AFileOfAnotherKindIsCalledWhatItIsByEachReader) {
  auto const said = [&](std::string const& bytes) {
    auto const path = (folder_ / "f.gz").string();
    std::ofstream(path, std::ios::binary) << bytes;
    std::vector<std::string> out;
    auto const add = [&](std::string const& kind, auto read) {
      auto const text = refusal(read);
      EXPECT_EQ(text.substr(0, kind.size()), kind) << text;
      out.push_back(text.substr(std::min(kind.size(), text.size())));
    };
    add("token file 'f.gz' ", [&] { token_shards const data({path}, {1, 9}); });
    add("table 'f.gz' ", [&] { plait::table<> const data(path, {.targets = {"y"}}); });
    add("text file 'f.gz' ", [&] { (void)plait::byte_text::from_file(path, 1); });
    EXPECT_EQ(out[0], out[1]);
    EXPECT_EQ(out[0], out[2]);
    return out[0];
  };
  EXPECT_EQ(said("\x1f\x8b\x08 y,1\n2,3"),
            "is compressed by gzip; unpack it first: gzip -d < 'f.gz' > 'f'");
  EXPECT_EQ(said("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"),
            "is a pointer of Git LFS, not the file itself; fetch the file by 'git lfs pull' in its "
            "repository");
  // A file that one reader reads is named by the others.
  auto const tokens_of = file("tokens.csv", {1, 2, 3}).string();
  EXPECT_EQ(refusal([&] { plait::table<> const data(tokens_of, {.targets = {"y"}}); }),
            "table 'tokens.csv' is a file of tokens, as plait::token_shards reads them");
  std::ofstream(folder_ / "page") << "<html>a page is a text</html>";
  EXPECT_EQ(plait::byte_text::from_file(folder_ / "page", 4).bytes(), 29u);
}

TEST_F(TokenShards, ATokenBeyondTheVocabularyIsNamedWithItsFileAndPlace) {
  token_shards const data({file("a", {1, 2, 3}), file("b", {4, 50257, 5, 6, 7})},
                          {.sequence = 3, .vocabulary = 50257});
  std::vector<std::int32_t> out(3);
  EXPECT_EQ(refusal([&] { data.inputs(0, out); }), "no input_error");
  EXPECT_EQ(refusal([&] { data.inputs(1, out); }),
            "token file 'b' has the token 50257 at place 1, but the vocabulary has only 50257");
  EXPECT_EQ(refusal([&] { data.targets(1, out); }),
            "token file 'b' has the token 50257 at place 1, but the vocabulary has only 50257");
  token_shards const large({file("l", {7, 4294967295u, 2147483648u, 2147483647u}, wide)},
                           {.sequence = 1, .vocabulary = std::size_t{1} << 31});
  std::vector<std::int32_t> one(1);
  EXPECT_EQ(refusal([&] { large.targets(0, one); }),
            "token file 'l' has the token 4294967295 at place 1, but the vocabulary has only "
            "2147483648");
  large.targets(2, one);
  EXPECT_EQ(one[0], 2147483647);
}

TEST_F(TokenShards, SamplesAndBuffersAreChecked) {
  token_shards const data({file("a", {1, 2, 3}), file("b", {4, 5})},
                          {.sequence = 2, .vocabulary = 9});
  std::vector<std::int32_t> two(2), three(3);
  EXPECT_THROW(data.inputs(2, two), plait::size_mismatch);
  EXPECT_THROW(data.targets(0, three), plait::size_mismatch);
}

std::size_t read_by_this_process() {
  std::ifstream file("/proc/self/io");
  std::string word;
  std::size_t bytes = 0;
  file >> word >> bytes;  // rchar
  return bytes;
}

// 17 files of 2^31 - 1 tokens are 73 GB, more than 2^31 tokens by far, and have holes instead of
// zeros. Opening them reads headers.
TEST_F(TokenShards, SparseFilesOf64GigabytesAreOpenedWithoutReadingThem) {
  constexpr std::size_t count = 2147483647;
  constexpr std::uint16_t last[]{11, 22};
  paths files;
  for (int i = 0; i < 17; ++i) {
    files.push_back(folder_ / ("sparse" + std::to_string(i)));
    std::ofstream(files.back(), std::ios::binary) << header(narrow, count);
    int const file = ::open(files.back().c_str(), O_WRONLY | O_CLOEXEC);
    bool const fits = ::ftruncate(file, 1024 + 2 * ::off_t{count}) == 0;
    bool const written = ::pwrite(file, last, 4, 1024 + 2 * ::off_t{count} - 4) == 4;
    ::close(file);
    if (!fits || !written) GTEST_SKIP() << "the file system has no files of 4 GB with holes";
  }
  double fastest = 1;
  for (int i = 0; i < 5; ++i) {
    std::size_t const before = read_by_this_process();
    auto const begin = std::chrono::steady_clock::now();
    token_shards const data(files, {.sequence = 1024, .vocabulary = 50257});
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, took.count());
    EXPECT_LT(read_by_this_process() - before, 100'000u);
    EXPECT_EQ(data.tokens(), 17 * count);
    // A border is within one of the last tokens of the 16th file.
    std::size_t const end = 16 * count, sample = end / 1024;
    auto const found = inputs(data, sample);
    EXPECT_EQ(found[end % 1024 - 1], 22);
    EXPECT_EQ(found[end % 1024 - 2], 11);
    EXPECT_EQ(found[end % 1024], 0);
    EXPECT_EQ(inputs(data, data.size() - 1)[0], 0);
  }
  EXPECT_LT(fastest, 0.05);
  RecordProperty("microseconds", static_cast<int>(1e6 * fastest));
}

TEST_F(TokenShards, SeveralThreadsMayRead) {
  auto const all = made_up(1000, 50000);
  token_shards const data(
      {file("a", {all.begin(), all.begin() + 333}), file("b", {all.begin() + 333, all.end()})},
      {.sequence = 10, .vocabulary = 50000});
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (std::size_t sample = 0; sample < data.size(); ++sample)
        EXPECT_EQ(static_cast<std::uint32_t>(inputs(data, sample)[3]), all[sample * 10 + 3]);
    });
}

}  // namespace
