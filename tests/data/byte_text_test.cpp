// SPDX-License-Identifier: Apache-2.0
#include "plait/data/byte_text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using plait::byte_text;

class ByteText : public testing::Test {
 protected:
  ByteText()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_byte_text_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ByteText() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(std::string const& name, std::string const& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  // The message of the input_error that `call` ends with.
  static std::string refusal(std::function<void()> const& call) {
    try {
      call();
    } catch (plait::input_error const& problem) {
      return problem.what();
    }
    return "no input_error";
  }

  std::filesystem::path folder_;
};

std::vector<std::int32_t> inputs(byte_text const& text, std::size_t sample) {
  std::vector<std::int32_t> out(text.sequence_length());
  text.inputs(sample, out);
  return out;
}

std::vector<std::int32_t> targets(byte_text const& text, std::size_t sample) {
  std::vector<std::int32_t> out(text.sequence_length());
  text.targets(sample, out);
  return out;
}

TEST_F(ByteText, TargetsAreTheNextBytes) {
  auto const text = byte_text::from_text("abcdefgh", 3);
  EXPECT_EQ(text.size(), 2u);
  EXPECT_EQ(inputs(text, 0), (std::vector<std::int32_t>{'a', 'b', 'c'}));
  EXPECT_EQ(targets(text, 0), (std::vector<std::int32_t>{'b', 'c', 'd'}));
  EXPECT_EQ(inputs(text, 1), (std::vector<std::int32_t>{'d', 'e', 'f'}));
  EXPECT_EQ(targets(text, 1), (std::vector<std::int32_t>{'e', 'f', 'g'}));
}

TEST_F(ByteText, SizeLeavesRoomForTheLastTarget) {
  for (std::size_t bytes = 4; bytes < 20; ++bytes) {
    auto const text = byte_text::from_text(std::string(bytes, 'x'), 3);
    EXPECT_EQ(text.size(), (bytes - 1) / 3) << bytes;
    EXPECT_NO_THROW((void)targets(text, text.size() - 1)) << bytes;
  }
}

TEST_F(ByteText, BytesAreNotNegative) {
  auto const text = byte_text::from_text(std::string("\xff\x80\0\x7f", 4), 3);
  EXPECT_EQ(inputs(text, 0), (std::vector<std::int32_t>{255, 128, 0}));
  EXPECT_EQ(targets(text, 0), (std::vector<std::int32_t>{128, 0, 127}));
}

TEST_F(ByteText, FilesAreReadWholeAndJoined) {
  std::string long_text;
  for (int i = 0; i < 300000; ++i) long_text += static_cast<char>(i * 7 % 256);
  auto const whole = byte_text::from_file(file("long", long_text), 1000);
  EXPECT_EQ(whole.bytes(), long_text.size());
  EXPECT_EQ(inputs(whole, 298),
            inputs(byte_text::from_text(long_text.substr(298000, 1001), 1000), 0));

  std::vector const parts{file("a", "one\r\n"), file("b", ""), file("c", "two")};
  auto const joined = byte_text::from_files(parts, 7);
  EXPECT_EQ(joined.bytes(), 8u);
  EXPECT_EQ(inputs(joined, 0), inputs(byte_text::from_text("one\r\ntwo", 7), 0));
}

TEST_F(ByteText, BadFilesAreRefusedInOneSentence) {
  std::filesystem::path const missing = folder_ / "missing";
  EXPECT_EQ(refusal([&] { (void)byte_text::from_file(missing, 8); }),
            "text file '" + missing.string() + "' cannot be read: No such file or directory");
  EXPECT_EQ(refusal([&] { (void)byte_text::from_file(folder_, 8); }),
            "text file '" + folder_.string() + "' cannot be read: it is a directory");
  EXPECT_EQ(refusal([] { (void)byte_text::from_file("/dev/zero", 8); }),
            "text file '/dev/zero' cannot be read: it is not a regular file");
  auto const pipe = folder_ / "pipe";  // it has no writer: opening it must not wait
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal([&] { (void)byte_text::from_file(pipe, 8); }),
            "text file '" + pipe.string() + "' cannot be read: it is not a regular file");
  auto const empty = file("empty", "");
  EXPECT_EQ(refusal([&] { (void)byte_text::from_file(empty, 8); }),
            "text file '" + empty.string() + "' is empty");
  auto const brief = file("brief", "12345678");
  EXPECT_EQ(
      refusal([&] { (void)byte_text::from_file(brief, 8); }),
      "text file '" + brief.string() + "' has 8 bytes; one sequence of 8 needs at least 8 + 1");
  EXPECT_NO_THROW((void)byte_text::from_file(brief, 7));
  EXPECT_EQ(refusal([&] { (void)byte_text::from_files({}, 8); }), "the text of 0 files is empty");
  EXPECT_EQ(refusal([&] { (void)byte_text::from_files(std::vector{brief, missing}, 8); }),
            "text file '" + missing.string() + "' cannot be read: No such file or directory");
  EXPECT_NE(refusal([&] { (void)byte_text::from_text("abc", 0); }), "no input_error");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers need more addresses than this test leaves.
TEST_F(ByteText, AFileLargerThanTheMemoryIsRefused) {
  auto const huge = file("huge", "");
  std::filesystem::resize_file(huge, std::size_t{1} << 43);  // a hole
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = std::size_t{1} << 42;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  auto const text = refusal([&] { (void)byte_text::from_file(huge, 8); });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &old_limit), 0);
  EXPECT_EQ(text, "text file '" + huge.string() +
                      "' has 8796093022208 bytes, which do not fit into memory");
}
#endif

TEST_F(ByteText, SamplesAndBuffersAreChecked) {
  auto const text = byte_text::from_text("abcdefgh", 3);
  std::vector<std::int32_t> three(3), two(2);
  EXPECT_THROW(text.inputs(2, three), plait::size_mismatch);
  EXPECT_THROW(text.targets(0, two), plait::size_mismatch);
}

}  // namespace
