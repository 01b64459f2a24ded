// SPDX-License-Identifier: Apache-2.0
#include "plait/observe/progress.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

struct close_file {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using file = std::unique_ptr<std::FILE, close_file>;

std::string plain_output(std::int64_t steps) {
  file const out(std::tmpfile());
  plait::progress progress(steps, out.get());
  for (std::int64_t step = 0; step < steps; ++step)
    progress.update(step, 3.0 - 0.001 * double(step), 1234.4);
  std::rewind(out.get());
  std::string text;
  std::array<char, 4096> chunk{};
  while (auto const got = std::fread(chunk.data(), 1, chunk.size(), out.get()))
    text.append(chunk.data(), got);
  return text;
}

TEST(Progress, AFileGetsAboutTwentyPlainLines) {
  auto const text = plain_output(1000);
  auto const lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_GE(lines, 20);
  EXPECT_LE(lines, 22);
  EXPECT_EQ(text.find_first_of("\r\033"), std::string::npos);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "step    1/1000  loss 3.0000  1234 tokens/s  0m00s left");
  EXPECT_NE(text.find("step 1000/1000  loss 2.0010"), std::string::npos);
}

TEST(Progress, FewStepsGetALineEach) {
  auto const text = plain_output(3);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_NE(text.find("step 3/3"), std::string::npos);
}

// What a terminal is given of 500 steps that are over at once.
class Terminal : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("OMPI_COMM_WORLD_RANK");
    ::unsetenv("PMI_RANK");
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0)
      GTEST_SKIP() << "this system has no pseudo-terminals";
  }
  void TearDown() override {
    if (master_ >= 0) close(master_);
    ::unsetenv("OMPI_COMM_WORLD_RANK");
  }

  std::string output(plait::progress_lines lines) const {
    int const slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
    if (slave < 0) return "";
    file const out(fdopen(slave, "w"));
    plait::progress progress(500, out.get(), lines);
    for (std::int64_t step = 0; step < 500; ++step) progress.update(step, 2.5, 10);
    std::fflush(out.get());
    // A terminal hands over what has come so far; the last step ends with a new line.
    std::string text;
    while (!text.ends_with('\n') || text.find("500/500") == std::string::npos) {
      std::array<char, 8192> chunk{};
      auto const got = read(master_, chunk.data(), chunk.size());
      if (got <= 0) return text;
      text.append(chunk.data(), std::size_t(got));
    }
    return text;
  }
  static void expect_live(std::string const& text) {
    EXPECT_EQ(text[0], '\r');
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);  // after the last step
    EXPECT_NE(text.find("[========================] step 500/500"), std::string::npos) << text;
    // Redrawn ten times a second at most.
    EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 20);
  }

 private:
  int master_ = -1;
};

TEST_F(Terminal, GetsOneLiveLine) { expect_live(output(plait::progress_lines::as_fits)); }

// mpirun's terminal may be a file.
TEST_F(Terminal, OfMpirunGetsPlainLinesUnlessLiveOnesAreAskedFor) {
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  auto const text = output(plait::progress_lines::as_fits);
  EXPECT_EQ(text.find("\033"), std::string::npos) << text;
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 20);
  expect_live(output(plait::progress_lines::live));
}

}  // namespace
