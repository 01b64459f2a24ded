// SPDX-License-Identifier: Apache-2.0
#include "plait/data/token_shards.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace {

using plait::token_shards;

class TokenShardFile : public testing::Test {
 protected:
  TokenShardFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_token_shard_file_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TokenShardFile() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(std::string const& name, std::string const& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  // The bytes of a file with this header and these tokens.
  static std::string bytes(std::vector<unsigned> const& tokens, std::vector<std::int32_t> header) {
    std::string out;
    header.resize(256);
    for (auto const word : header)
      for (int shift = 0; shift < 32; shift += 8)
        out += static_cast<char>((static_cast<std::uint32_t>(word) >> shift) & 255u);
    for (auto const token : tokens)
      for (int shift = 0; shift < 16; shift += 8) out += static_cast<char>((token >> shift) & 255u);
    return out;
  }
  static std::string bytes(std::vector<unsigned> const& tokens) {
    return bytes(tokens, {20240520, 1, static_cast<std::int32_t>(tokens.size())});
  }

  // The message of the input_error from opening the file, after its name.
  static std::string refusal(std::filesystem::path const& path, std::size_t sequence = 3,
                             std::size_t vocabulary = 50257) {
    try {
      token_shards const opened({path}, {.sequence = sequence, .vocabulary = vocabulary});
    } catch (plait::input_error const& problem) {
      std::string const text = problem.what(), begin = "token file '" + path.string() + "' ";
      return text.starts_with(begin) ? text.substr(begin.size()) : text;
    }
    return "no input_error";
  }

  std::filesystem::path folder_;
};

token_shards shard(std::filesystem::path const& path, std::size_t sequence,
                   std::size_t vocabulary) {
  return {{path}, {.sequence = sequence, .vocabulary = vocabulary}};
}

std::vector<std::int32_t> inputs(token_shards const& text, std::size_t sample) {
  std::vector<std::int32_t> out(text.sequence_length());
  text.inputs(sample, out);
  return out;
}

std::vector<std::int32_t> targets(token_shards const& text, std::size_t sample) {
  std::vector<std::int32_t> out(text.sequence_length());
  text.targets(sample, out);
  return out;
}

TEST_F(TokenShardFile, TargetsAreTheNextTokens) {
  auto const text = shard(file("f", bytes({10, 50256, 0, 300, 4, 5, 6, 7})), 3, 50257);
  EXPECT_EQ(text.tokens(), 8u);
  EXPECT_EQ(text.size(), 2u);
  EXPECT_EQ(inputs(text, 0), (std::vector<std::int32_t>{10, 50256, 0}));
  EXPECT_EQ(targets(text, 0), (std::vector<std::int32_t>{50256, 0, 300}));
  EXPECT_EQ(inputs(text, 1), (std::vector<std::int32_t>{300, 4, 5}));
  EXPECT_EQ(targets(text, 1), (std::vector<std::int32_t>{4, 5, 6}));
}

TEST_F(TokenShardFile, SizeLeavesRoomForTheLastTarget) {
  for (unsigned count = 4; count < 20; ++count) {
    auto const text = shard(file("f", bytes(std::vector<unsigned>(count, 1))), 3, 2);
    EXPECT_EQ(text.size(), (count - 1) / 3) << count;
    EXPECT_NO_THROW((void)targets(text, text.size() - 1)) << count;
  }
}

TEST_F(TokenShardFile, TokensAreNotNegative) {
  auto const text = shard(file("f", bytes({65535, 32768, 256})), 2, 65536);
  EXPECT_EQ(inputs(text, 0), (std::vector<std::int32_t>{65535, 32768}));
  EXPECT_EQ(targets(text, 0), (std::vector<std::int32_t>{32768, 256}));
}

TEST_F(TokenShardFile, LongFilesAreReadInPlace) {
  std::vector<unsigned> tokens;
  for (unsigned i = 0; i < 300000; ++i) tokens.push_back(i * 7 % 50257);
  auto const text = shard(file("long", bytes(tokens)), 1000, 50257);
  EXPECT_EQ(text.size(), 299u);
  EXPECT_EQ(inputs(text, 298)[999], static_cast<std::int32_t>(tokens[298999]));
  EXPECT_EQ(targets(text, 298)[999], static_cast<std::int32_t>(tokens[299000]));
  auto const copied = shard(file("again", bytes(tokens)), 1000, 50257);
  EXPECT_EQ(inputs(copied, 17), inputs(text, 17));
}

TEST_F(TokenShardFile, BadFilesAreRefusedInOneSentence) {
  EXPECT_EQ(refusal(folder_ / "missing"), "cannot be read: No such file or directory");
  EXPECT_EQ(refusal(folder_), "cannot be read: it is a directory");
  EXPECT_EQ(refusal("/dev/zero"), "cannot be read: it is not a regular file");
  EXPECT_EQ(refusal(file("empty", "")), "has 0 bytes, fewer than its header of 1024");
  EXPECT_EQ(refusal(file("cut", bytes({1, 2, 3, 4}).substr(0, 1023))),
            "has 1023 bytes, fewer than its header of 1024");
  std::string const bare = bytes(std::vector<unsigned>(1000, 7)).substr(1024);
  EXPECT_EQ(refusal(file("bare", bare)),
            "begins with 458759 instead of 20240520 or 20240801: it is not a token file, which has "
            "a header of 256 int32 and then tokens of 16 or 32 bits; add the header to a file that "
            "has only tokens");
  EXPECT_EQ(refusal(file("version", bytes({1, 2, 3, 4}, {20240520, 2, 4}))),
            "has version 2, but only version 1 can be read");
  EXPECT_EQ(refusal(file("fewer", bytes({1, 2, 3, 4}, {20240520, 1, 5}))),
            "should have 5 tokens of 16 bits according to its header, but 8 bytes follow it");
  EXPECT_EQ(refusal(file("more", bytes({1, 2, 3, 4}, {20240520, 1, 3}))),
            "should have 3 tokens of 16 bits according to its header, but 8 bytes follow it");
  EXPECT_EQ(refusal(file("half", bytes({1, 2, 3, 4}) + 'x')),
            "should have 4 tokens of 16 bits according to its header, but 9 bytes follow it");
  EXPECT_EQ(refusal(file("negative", bytes({1, 2, 3, 4}, {20240520, 1, -1}))),
            "should have -1 tokens of 16 bits according to its header, but 8 bytes follow it");
  auto const brief = file("brief", bytes({1, 2, 3, 4}));
  EXPECT_EQ(refusal(brief, 4), "has 4 tokens; one sequence of 4 needs at least 4 + 1");
  EXPECT_EQ(refusal(brief, 3), "no input_error");
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(refusal(brief, most), "has 4 tokens; one sequence of " + std::to_string(most) +
                                      " needs at least " + std::to_string(most) + " + 1");
  EXPECT_EQ(refusal(brief, 0),
            "token_options::sequence is 0; the sequence length must be at least 1");
  auto const none = file("none", bytes({}));
  EXPECT_EQ(refusal(none), "has 0 tokens; one sequence of 3 needs at least 3 + 1");
}

// No process writes to the pipe, so opening it must not wait for one.
TEST_F(TokenShardFile, APipeIsRefused) {
  auto const pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe), "cannot be read: it is not a regular file");
}

TEST_F(TokenShardFile, SamplesAndBuffersAreChecked) {
  auto const text = shard(file("f", bytes({1, 2, 3, 4, 5, 6, 7, 8})), 3, 9);
  std::vector<std::int32_t> three(3), two(2);
  EXPECT_THROW(text.inputs(2, three), plait::size_mismatch);
  EXPECT_THROW(text.targets(0, two), plait::size_mismatch);
}

}  // namespace
