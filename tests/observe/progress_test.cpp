// SPDX-License-Identifier: Apache-2.0
#include "plait/observe/progress.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "plait/tensor/batch.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace {

struct close_file {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using file = std::unique_ptr<std::FILE, close_file>;

std::string text_of(file const& out) {
  std::rewind(out.get());
  std::string text;
  std::array<char, 4096> chunk{};
  while (auto const got = std::fread(chunk.data(), 1, chunk.size(), out.get()))
    text.append(chunk.data(), got);
  return text;
}

std::string plain_output(std::int64_t steps) {
  file const out(std::tmpfile());
  plait::progress progress(steps, out.get());
  for (std::int64_t step = 0; step < steps; ++step)
    progress.update(step, 3.0 - 0.001 * double(step), 1234.4);
  return text_of(out);
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

/// A trainer and batches with the members that progress uses.
struct stand_in {
  bool root = true;
  stand_in& rank() { return *this; }
  [[nodiscard]] bool is_root() const { return root; }
  template <class Batches>
  [[nodiscard]] std::size_t planned_bytes(Batches const&) const {
    return 3 << 20;
  }
};
struct stand_in_batches {
  std::uint64_t number_of_epochs = 2;
  std::size_t sequence = 1;
  [[nodiscard]] std::uint64_t epochs() const { return number_of_epochs; }
  [[nodiscard]] std::uint64_t steps_per_epoch() const { return 4; }
  [[nodiscard]] std::size_t sequence_length() const { return sequence; }
  [[nodiscard]] plait::ext::batch_description description() const { return {.samples = 32}; }
};

/// The lines of eight steps that each take 2 ms and wait for half of that.
std::string output_of(stand_in trainer, stand_in_batches const& batches) {
  file const out(std::tmpfile());
  plait::progress progress(trainer, batches, out.get());
  for (std::int64_t step = 0; step < 8; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    progress.update(
        {.step = step, .loss = 2, .learning_rate = 0.001, .terms = {}, .waited = 0.001});
  }
  return text_of(out);
}

TEST(Progress, OfATrainerSaysEpochRateSpeedAndWhatIsWaitedFor) {
  auto const text = output_of({}, {});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8);
  EXPECT_EQ(text.rfind("epoch 1/2  step 1/8  loss 2.0000  rate 0.001  ", 0), 0u) << text;
  EXPECT_NE(text.find("\nepoch 2/2  step 5/8  loss"), std::string::npos) << text;
  EXPECT_NE(text.find("samples/s  "), std::string::npos) << text;
  EXPECT_NE(text.find(" % waited  3072 KiB planned  0m00s left\n"), std::string::npos) << text;
  auto const last = text.substr(text.rfind("rate 0.001  "));
  double speed = 0, share = 0;
  ASSERT_EQ(std::sscanf(last.c_str(), "rate 0.001  %lf samples/s  %lf", &speed, &share), 2);
  EXPECT_LE(speed, 32 / 0.002);  // a step may take longer than it sleeps
  EXPECT_GT(speed, 0);
  EXPECT_LE(share, 50);
  EXPECT_GT(share, 0);
  EXPECT_NE(output_of({}, {.sequence = 8}).find(" tokens/s"), std::string::npos);
}

TEST(Progress, OfBatchesWithoutAnEndSaysNoTimeLeft) {
  auto const text = output_of({}, {.number_of_epochs = 0});
  EXPECT_EQ(text.find("left"), std::string::npos) << text;
  EXPECT_NE(text.find("epoch 2  step 8  loss"), std::string::npos) << text;
}

TEST(Progress, IsShownByTheRootAlone) { EXPECT_EQ(output_of({.root = false}, {}), ""); }

// The output on a terminal for 500 steps that take no time.
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
