// SPDX-License-Identifier: Apache-2.0
// test: without_gpu
// Checks that depend only on numbers and text, so that they need no GPU.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "plait/backend/cuda/cuda.hpp"
#include "plait/backend/cuda/cuda_process.hpp"
#include "plait/backend/cuda/device/requirements.hpp"
#include "plait/backend/process/rendezvous_file.hpp"
#include "plait/backend/process_ranks.hpp"

namespace {

namespace needs = plait::cuda_requirements;
using plait::cuda_error;
using plait::input_error;

template <class Error, class Work>
std::string message_of(Work work) {
  try {
    work();
  } catch (Error const& e) {
    return e.what();
  }
  return "nothing was thrown";
}

void expect_text(std::string const& message, std::string const& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

TEST(Requirements, DriverRunsProgramsOfItsMajorVersionAndOlder) {
  EXPECT_NO_THROW(needs::check_driver(13000, 13000));
  EXPECT_NO_THROW(needs::check_driver(13020, 12040));
  EXPECT_NO_THROW(needs::check_driver(12040, 12080));  // minor versions are compatible
  expect_text(message_of<cuda_error>([] { needs::check_driver(12080, 13000); }),
              "the driver supports CUDA up to 12.8, but the program was built with CUDA 13.0");
  expect_text(message_of<cuda_error>([] { needs::check_driver(0, 13000); }),
              "no CUDA driver is loaded");
}

TEST(Requirements, EveryRankHasAGpuOrAllShareOne) {
  EXPECT_NO_THROW(needs::check_device_count(4, 4, 0, false));
  EXPECT_NO_THROW(needs::check_device_count(4, 3, 1, false));
  EXPECT_NO_THROW(needs::check_device_count(1, 8, 0, true));
  auto const text = message_of<cuda_error>([] { needs::check_device_count(1, 2, 0, false); });
  expect_text(text, "2 ranks");
  expect_text(text, "sees 1 GPU;");
  expect_text(text, ".share_one_gpu = true");
  EXPECT_THROW(needs::check_device_count(4, 4, 1, false), cuda_error);
  EXPECT_THROW(needs::check_device_count(1, 1, 1, true), cuda_error);
  EXPECT_THROW(needs::check_device_count(1, 1, -1, false), cuda_error);
  expect_text(message_of<cuda_error>([] { needs::check_device_count(0, 1, 0, true); }),
              "there is no GPU");
}

TEST(Requirements, CapabilityIsAmpereOrNewer) {
  EXPECT_NO_THROW(needs::check_capability(0, "A100", 8, 0));
  EXPECT_NO_THROW(needs::check_capability(0, "B200", 10, 0));
  expect_text(message_of<cuda_error>([] { needs::check_capability(2, "Tesla V100", 7, 5); }),
              "GPU 2 (Tesla V100) has compute capability 7.5, but plait needs 8.0");
}

TEST(Requirements, NcclIsNewEnoughAndOfTheMajorVersionOfTheHeader) {
  EXPECT_NO_THROW(needs::check_nccl(22809, 22809, 3));
  EXPECT_NO_THROW(needs::check_nccl(21900, 22809, 1));
  expect_text(message_of<cuda_error>([] { needs::check_nccl(21805, 22809, 0); }),
              "runs with NCCL 2.18.5 and was built with 2.28.9; plait needs at least 2.19.0");
  EXPECT_NO_THROW(needs::check_nccl(22600, 22809, 2));
  expect_text(
      message_of<cuda_error>([] { needs::check_nccl(22509, 22809, 2); }),
      "plait needs at least 2.26.0 of the same major version, because a rank is in 2 groups");
  EXPECT_THROW(needs::check_nccl(30000, 22809, 1), cuda_error);
  EXPECT_EQ(needs::nccl_version_text(2708), "2.7.8");
}

TEST(Requirements, OutOfMemorySaysAllNumbers) {
  auto const text = message_of<plait::out_of_memory>(
      [] { plait::detail::throw_out_of_memory({3, 1}, {8ull << 30, 5u << 20, 80ull << 30, 7}); });
  expect_text(text, "rank 3, CUDA device 1: out of memory");
  expect_text(text, "asked for 8589934592 bytes (8192 MiB), free 5242880 bytes (5 MiB)");
  expect_text(text, "of 85899345920 bytes (81920 MiB); this rank already holds 7 bytes");
}

struct RendezvousFile : testing::Test {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("plait_rendezvous_" + std::to_string(::getpid()));
  std::filesystem::path path = folder / "name";
  plait::ext::rendezvous_file file{path, "job\n7"};
  std::array<std::byte, 3> const bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  RendezvousFile() { std::filesystem::create_directory(folder); }
  ~RendezvousFile() override { std::filesystem::remove_all(folder); }

  static std::string refusal_to_read(plait::ext::rendezvous_file const& from,
                                     std::size_t size = 3) {
    return message_of<input_error>([&] { (void)from.read(size, std::chrono::seconds{20}, [] {}); });
  }
  void store(std::string const& text) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
};

TEST_F(RendezvousFile, GivesWhatWasWritten) {
  std::jthread const writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{30});
    file.write(bytes);
  });
  auto const got = file.read(3, std::chrono::seconds{20}, [] {});
  EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin(), bytes.end()));
}

TEST_F(RendezvousFile, IsOfOneJob) {
  file.write(bytes);
  expect_text(message_of<input_error>([&] { file.write(bytes); }), "exists already");
  EXPECT_EQ(file.read(3, std::chrono::seconds{1}, [] {}).size(), 3u);
  expect_text(refusal_to_read(file, 4), "has 3 bytes, not 4");
  expect_text(refusal_to_read(file, 2), "has 3 bytes, not 2");
  expect_text(refusal_to_read(plait::ext::rendezvous_file(path, "job 8, another")),
              "is of job 'job\\\\n7', but this process is of job 'job 8, another'");
  expect_text(refusal_to_read(plait::ext::rendezvous_file(path)), "this process is of job ''");
  file.remove();
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_NO_THROW(file.write(bytes));
}

TEST_F(RendezvousFile, IsForItsUserOnly) {
  file.write(bytes);
  auto const mode = std::filesystem::status(path).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  expect_text(refusal_to_read(file), "belongs to user 12345, not to user 0");
}

TEST_F(RendezvousFile, WritesThroughNoLinkAndLeavesNothingElse) {
  auto const target = folder / "target";
  std::filesystem::create_symlink(target, path.string() + ".part");
  file.write(bytes);
  EXPECT_FALSE(std::filesystem::exists(target));
  file.remove();
  std::ofstream(target) << "of the user";
  std::filesystem::create_symlink(target, path);
  expect_text(message_of<input_error>([&] { file.write(bytes); }), "exists already");
  expect_text(refusal_to_read(file), "symbolic links");
  auto const files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 3);  // the two links and the target
}

// A rank may neither wait for any of these nor accept it.
TEST_F(RendezvousFile, ThatIsSomethingElseIsRefusedAtOnce) {
  store(std::string(128, 'x'));
  expect_text(refusal_to_read(file, 128),
              "is not a rendezvous file: it does not begin with 'plait rendezvous 1'");
  store("");
  expect_text(refusal_to_read(file), "is not a rendezvous file");
  store("plait rendezvous 1\n");
  expect_text(refusal_to_read(file), "is of job ''");
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_text(refusal_to_read(file), "it is not a regular file");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  expect_text(refusal_to_read(file), "it is a directory");
  expect_text(message_of<input_error>([&] { file.write(bytes); }), "exists already");
  std::filesystem::remove(path);
  std::filesystem::create_symlink("nowhere", path);
  expect_text(refusal_to_read(file), "symbolic links");
  if (::geteuid() == 0) return;  // root can read any file
  std::filesystem::remove(path);
  file.write(bytes);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  expect_text(refusal_to_read(file), "Permission denied");
}

TEST_F(RendezvousFile, ThatDoesNotComeIsAnError) {
  expect_text(
      message_of<input_error>([&] { (void)file.read(3, std::chrono::milliseconds{30}, [] {}); }),
      "rank 0 writes it");
  plait::ext::rendezvous_file const nowhere("/no/such/folder/file");
  expect_text(message_of<input_error>([&] { nowhere.write(bytes); }), "cannot be written");
  plait::ext::rendezvous_file const below_a_file("/dev/null/file");
  expect_text(refusal_to_read(below_a_file), "Not a directory");
}

plait::ext::mesh two_ranks() {
  plait::ext::mesh grid;
  grid.add(plait::axis::data, 2);
  return grid;
}

TEST(Launch, RanksThatShareAGpuRecordNoGraphs) {
  plait::cuda const backend{.share_one_gpu = true, .options = {.graphs = true}};
  expect_text(message_of<input_error>([&] { backend.run(two_ranks(), [](auto&) {}); }),
              "ranks that share one GPU cannot record graphs");
}
TEST(Launch, RanksOfOneProcessRecordNoGraphs) {
  plait::cuda const backend{.options = {.graphs = true}};
  auto const text = message_of<input_error>([&] { backend.run(two_ranks(), [](auto&) {}); });
  expect_text(text, "ranks that share one process cannot record graphs");
  expect_text(text, "plait::cuda_process{}");
}

TEST(Launch, NumbersOutOfTheirRangesAreRefused) {
  auto const says = [](plait::cuda const& backend, char const* text) {
    expect_text(message_of<input_error>([&] { backend.run(two_ranks(), [](auto&) {}); }), text);
  };
  says({.first_device = -1}, "cuda::first_device is -1; it must be at least 0");
  says({.options = {.timeout = std::chrono::seconds{-1}}},
       "cuda_options::timeout in seconds is -1; it must be above 0");
  says({.options = {.staging_bytes = 0}}, "staging_bytes is 0; it must be at least 1");
  says({.options = {.staging_pieces = -4}}, "staging_pieces is -4; it must be at least 1");
  plait::cuda_process const process{.ranks = plait::ext::process_ranks{0, 2, 0},
                                    .options = {.staging_pieces = 0}};
  expect_text(message_of<input_error>([&] { process.run(two_ranks(), [](auto&) {}); }),
              "cuda_options::staging_pieces is 0; it must be at least 1");
}

TEST(Launch, NcclKeepsToTheOrderOfLaunches) {
  char const* const name = "NCCL_LAUNCH_ORDER_IMPLICIT";
  ASSERT_EQ(::unsetenv(name), 0);
  plait::detail::check_nccl_library(two_ranks());
  EXPECT_STREQ(std::getenv(name), "1");
  ASSERT_EQ(::setenv(name, "0", 1), 0);  // the user's value overrides
  plait::detail::check_nccl_library(two_ranks());
  EXPECT_STREQ(std::getenv(name), "0");
}

TEST(Launch, WithoutADriverSaysSo) {
  int driver = 0;
  ASSERT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  if (driver != 0) GTEST_SKIP() << "there is a driver";
  for (bool const share : {false, true}) {
    bool ran = false;
    expect_text(message_of<cuda_error>([&] {
                  plait::cuda{.share_one_gpu = share}.run(two_ranks(), [&](auto&) { ran = true; });
                }),
                "no CUDA driver is loaded");
    EXPECT_FALSE(ran);
  }
  plait::cuda_process const process{.ranks = plait::ext::process_ranks{0, 2, 0}};
  expect_text(message_of<cuda_error>([&] { process.run(two_ranks(), [](auto&) {}); }),
              "no CUDA driver is loaded");
}

TEST(Launch, ProcessesMustBeAsManyAsRanks) {
  plait::cuda_process const process{.ranks = plait::ext::process_ranks{0, 3, 0}};
  expect_text(message_of<input_error>([&] { process.run(two_ranks(), [](auto&) {}); }),
              "started 3 processes, but the plan has 2 ranks");
}

}  // namespace
