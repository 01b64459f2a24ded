// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/process/flight_ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "plait/backend/process/flight_record.hpp"
#include "plait/backend/process/lone_process.hpp"
#include "plait/core/shared_file.hpp"
#include "plait/mesh/mesh.hpp"

namespace {

namespace fs = std::filesystem;
using namespace plait;
using namespace plait::ext;
using namespace plait::detail;

class FlightRing : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(place);
    fs::create_directory(place);
    ::chmod(place.c_str(), 0700);
  }
  void TearDown() override { fs::remove_all(place); }

  static std::string bytes_of(fs::path const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static flight_entry const* entries_of(std::string const& bytes) {
    return reinterpret_cast<flight_entry const*>(bytes.data() + sizeof(flight_header) +
                                                 groups().size() * sizeof(flight_group));
  }
  static std::vector<flight_ring::group_description> groups() {
    return {{"", {2}}, {"data", {0, 2}}};
  }
  std::string refused(std::string const& name) {
    try {
      own_folder const folder(place / name, "folder");
      shared_file const file(folder, "rank-0.flight", 4096, "flight record");
    } catch (input_error const& problem) {
      return problem.what();
    }
    return "";
  }
  static void one_job(std::string const& wanted) {
    lone_process world(0);
    flight_record record(wanted, {}, 0, world, mesh{});
    record.during([] { return 0; });
  }

  fs::path place = fs::temp_directory_path() / ("plait_flight_" + std::to_string(::getpid()));
};

TEST_F(FlightRing, KeepsTheLastCallsAndIsReadWhileItIsWritten) {
  own_folder const folder(place, "folder");
  shared_file const file(folder, "rank-0.flight", flight_ring::bytes_for(groups()), "record");
  flight_ring ring(file.bytes(), groups(), [](flight_header& head) { head.world_size = 4; });
  collective_call call{.kind = collective::all_reduce};
  for (std::uint64_t i = 1; i <= 300; ++i) {
    call.bytes = 8 * i;
    flight_ring::end(ring.begin(1, call));
  }
  call = {.kind = collective::send, .other = 0, .tag = 5, .bytes = 7, .caller = 3};
  auto& open = ring.begin(1, call);
  auto const bytes = bytes_of(place / "rank-0.flight");  // no msync() was called
  auto const* const head = reinterpret_cast<flight_header const*>(bytes.data());
  ASSERT_EQ(std::memcmp(head->magic.data(), "plaitfly", 8), 0);
  EXPECT_EQ(head->begun[0], 301u);
  auto const* const entries = entries_of(bytes);
  for (std::uint64_t i = 301 - 255; i <= 300; ++i) {
    auto const& entry = entries[i % 256];
    ASSERT_EQ(entry.stamp, i);
    EXPECT_EQ(entry.check, i);
    EXPECT_EQ(entry.bytes, 8 * i);
    EXPECT_EQ(entry.place, i);
    EXPECT_EQ(entry.peer, -1);
    EXPECT_GE(entry.end_ns, entry.begin_ns);
  }
  auto const& last = entries[301 % 256];
  EXPECT_EQ(last.end_ns, 0);
  EXPECT_EQ(last.place, 1u);  // the place among the messages to rank 0
  EXPECT_EQ(last.peer, 0);
  EXPECT_EQ(last.caller, 3u);
  EXPECT_EQ(last.tag, 5);
  EXPECT_EQ(fs::status(place / "rank-0.flight").permissions(), fs::perms(0600));
  flight_ring::site(open, flight_site::moves);
  EXPECT_EQ(entries_of(bytes_of(place / "rank-0.flight"))[301 % 256].where, flight_site::moves);
  ring.finish(flight_state::failed, std::string(5000, 'x'));
  ring.finish(flight_state::ended, "the first one counts");
  auto const after = bytes_of(place / "rank-0.flight");
  auto const* const end = reinterpret_cast<flight_header const*>(after.data());
  EXPECT_EQ(end->state, flight_state::failed);
  EXPECT_EQ(std::strlen(end->text.data()), end->text.size() - 1);
}

TEST_F(FlightRing, ALongTimeWithoutABeatIsKept) {
  own_folder const folder(place, "folder");
  shared_file const file(folder, "rank-0.flight", flight_ring::bytes_for({}), "record");
  flight_ring ring(file.bytes(), {}, [](flight_header&) {});
  auto* const head = reinterpret_cast<flight_header*>(file.bytes().data());
  ring.beat();
  EXPECT_EQ(head->gap_to_ns, 0);
  auto const before = head->beat_ns.load() - 2 * flight_ring::long_gap_ns;
  head->beat_ns = before;
  ring.beat();
  EXPECT_EQ(head->gap_from_ns, before);
  EXPECT_GE(head->gap_to_ns - head->gap_from_ns, 2 * flight_ring::long_gap_ns);
}

TEST_F(FlightRing, AProcessThatEndsBeforeItBeatsAgainHasItsGap) {
  own_folder const folder(place, "folder");
  shared_file const file(folder, "rank-0.flight", flight_ring::bytes_for({}), "record");
  flight_ring ring(file.bytes(), {}, [](flight_header&) {});
  auto* const head = reinterpret_cast<flight_header*>(file.bytes().data());
  auto const before = head->beat_ns.load() - 2 * flight_ring::long_gap_ns;
  head->beat_ns = before;
  ring.finish(flight_state::cut_off, "it has waited for rank 1");
  EXPECT_EQ(head->gap_from_ns, before);
  EXPECT_GE(head->gap_to_ns - head->gap_from_ns, 2 * flight_ring::long_gap_ns);
}

TEST_F(FlightRing, UnsafePlacesAreRefused) {
  fs::create_directory(place / "open");
  ::chmod((place / "open").c_str(), 0770);
  EXPECT_NE(refused("open").find("may be written by other users"), std::string::npos);
  fs::create_directory_symlink(place, place / "link");
  EXPECT_NE(refused("link").find("is not a folder, or is only a symbolic link"), std::string::npos);
  std::ofstream(place / "file") << "of the user";
  EXPECT_NE(refused("file").find("is not a folder"), std::string::npos);
  EXPECT_NE(refused("no/where").find("cannot be made: No such file"), std::string::npos);
  fs::create_directory(place / "good");
  ::chmod((place / "good").c_str(), 0700);
  std::ofstream(place / "victim") << "of the user";
  fs::create_symlink(place / "victim", place / "good" / "rank-0.flight");
  EXPECT_NE(refused("good").find("cannot be made: File exists"), std::string::npos);
  EXPECT_EQ(bytes_of(place / "victim"), "of the user");
  if (::geteuid() != 0) return;
  fs::create_directory(place / "theirs");
  ASSERT_EQ(::chown((place / "theirs").c_str(), 12345, 0), 0);
  EXPECT_NE(refused("theirs").find("belongs to user 12345"), std::string::npos);
}

TEST_F(FlightRing, NoRoomIsAnError) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit const small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto const text = refused("limited");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NE(text.find("the limit for files is 1000"), std::string::npos) << text;
  EXPECT_TRUE(fs::is_empty(place / "limited"));
}

TEST_F(FlightRing, AFullDiskIsAnError) {
  fs::create_directory(place / "disk");
  ::chmod((place / "disk").c_str(), 0700);
  if (::mount("tmpfs", (place / "disk").c_str(), "tmpfs", 0, "size=8k,mode=0700") != 0)
    GTEST_SKIP() << "no small file system can be mounted: " << std::strerror(errno);
  {
    own_folder const folder(place / "disk", "folder");
    shared_file const first(folder, "rank-0.flight", 4096, "flight record");
    try {
      shared_file const second(folder, "rank-1.flight", 8192, "flight record");
      ADD_FAILURE() << "there was room";
    } catch (input_error const& problem) {
      EXPECT_NE(std::string(problem.what()).find("No space left on device"), std::string::npos);
    }
    EXPECT_FALSE(fs::exists(place / "disk" / "rank-1.flight"));
  }
  ::testing::internal::CaptureStderr();
  one_job((place / "disk").native());
  EXPECT_EQ(
      ::testing::internal::GetCapturedStderr().find("plait: rank 0 writes no flight record: "), 0u);
  ASSERT_EQ(::umount((place / "disk").c_str()), 0);
}

TEST_F(FlightRing, AJobThatEndsWellLeavesNothingAndOneThatFailsItsRecord) {
  one_job(place.native());
  EXPECT_TRUE(fs::is_empty(place));
  one_job("off");
  EXPECT_THROW(
      {
        lone_process world(0);
        flight_record record(place.native(), {}, 0, world, mesh{});
        record.during([]() -> int { throw input_error("no"); });
      },
      input_error);
  ASSERT_FALSE(fs::is_empty(place));
  auto const job = fs::directory_iterator(place)->path();
  EXPECT_EQ(fs::status(job).permissions(), fs::perms(0700));
  auto const bytes = bytes_of(job / "rank-0.flight");
  auto const* const head = reinterpret_cast<flight_header const*>(bytes.data());
  EXPECT_EQ(head->state, flight_state::failed);
  EXPECT_STREQ(head->text.data(), "no");
}

// A measurement: with PLAIT_MEASURE=1 it prints the cost of a call. Compile it with -O2.
TEST_F(FlightRing, Cost) {
  if (std::getenv("PLAIT_MEASURE") == nullptr) GTEST_SKIP() << "set PLAIT_MEASURE=1";
  own_folder const folder(place, "folder");
  shared_file const file(folder, "rank-0.flight", flight_ring::bytes_for(groups()), "record");
  flight_ring ring(file.bytes(), groups(), [](flight_header&) {});
  flight_log log(ring, 1);
  collective_call const call{.kind = collective::broadcast, .other = 1, .bytes = 4096};
  constexpr int times = 3'000'000;
  auto const measure = [](char const* what, auto work) {  // measures processor time
    auto const begin = std::clock();
    for (int i = 0; i < times; ++i) work();
    std::printf("%s: %.1f ns\n", what, double(std::clock() - begin) / CLOCKS_PER_SEC * 1e9 / times);
  };
  measure("a look at the clock", [] { (void)flight_ring::now(); });
  measure("a call in the record", [&] {
    log.begin(call);
    log.site(flight_site::compares);
    log.site(flight_site::moves);
    log.end();
  });
}

}  // namespace
