// SPDX-License-Identifier: Apache-2.0
#include "plait/io/file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

namespace {

class File : public testing::Test {
 protected:
  File()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_file_" + std::to_string(::getpid()))),
        path_((folder_ / "name").string()) {
    std::filesystem::create_directories(folder_);
  }
  ~File() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::span<std::byte const> bytes(std::string const& text) {
    return std::as_bytes(std::span(text));
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(File, PartialFileAppearsAtCommit) {
  std::ofstream(path_) << "what was there";
  {
    plait::detail::partial_file file(path_);
    file.write(bytes("world"), 6);
    file.write(bytes("hello "), 0);
    EXPECT_EQ(content(), "what was there");
    file.commit();
    EXPECT_EQ(content(), "hello world");
  }
  EXPECT_EQ(content(), "hello world");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST_F(File, PartialFileVanishesWithoutCommit) {
  {
    plait::detail::partial_file file(path_);
    file.write(bytes("hello"), 0);
    EXPECT_TRUE(std::filesystem::exists(path_ + ".partial"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// The name is taken by a directory between opening and commit.
TEST_F(File, FailedRenameLeavesNothingBehind) {
  {
    plait::detail::partial_file file(path_);
    std::filesystem::create_directory(path_);
    EXPECT_THROW(file.commit(), plait::input_error);
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST_F(File, ReadsFromAPosition) {
  std::ofstream(path_) << "0123456789";
  plait::detail::open_file const file(path_, plait::detail::open_for::reading);
  EXPECT_EQ(file.size(), 10u);
  std::string three(3, '\0'), seven(7, '\0');
  file.read(std::as_writable_bytes(std::span(three)), 4);
  EXPECT_EQ(three, "456");
  EXPECT_THROW(file.read(std::as_writable_bytes(std::span(seven)), 4), plait::input_error);
}

TEST_F(File, QuotedTextIsShortAndPrintable) {
  EXPECT_EQ(plait::detail::in_quotes("a\nb"), "'a?b'");
  EXPECT_EQ(plait::detail::in_quotes(std::string(80, 'x')).size(), 82u);
  EXPECT_EQ(plait::detail::in_quotes(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
}

}  // namespace
