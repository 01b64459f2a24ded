// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/host_activity.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "doctor/planted_tree.hpp"

namespace {

using plait::detail::doctor::ticks_of_process;
using plait::ext::host_activity;
using plait::ext::process_ticks;
using plait::ext::processor_ticks;
using plait::ext::processor_use;
using plait::ext::rank_place;
using plait::ext::read_host_activity;
using plait::ext::reading;
using plait::ext::system_files;
using plait::ext::use_between;

/// Returns the text of /proc/<number>/stat as the kernel writes it.
std::string process_text(std::uint64_t number, std::string const& name, std::uint64_t user,
                         std::uint64_t system, std::uint64_t start, int last_cpu) {
  std::string out = std::to_string(number) + " (" + name + ") R 1 7 7 0 -1 4194304 99 0 0 0 ";
  out += std::to_string(user) + " " + std::to_string(system) + " 5 6 20 0 1 0 ";
  out += std::to_string(start) + " 3133440 383 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 ";
  return out + std::to_string(last_cpu) + " 0 0 0 0 0\n";
}

void plant_process(planted::tree const& in, std::uint64_t number, std::string const& name,
                   std::uint64_t user, std::uint64_t system, std::uint64_t start, int last_cpu) {
  in.plant("/proc/" + std::to_string(number) + "/stat",
           process_text(number, name, user, system, start, last_cpu));
}

/// The ticks of one processor, in the order of /proc/stat.
struct cpu_line {
  std::uint64_t user = 0, system = 0, idle = 0, stolen = 0, nice = 0, interrupts = 0;
};

void plant_cpus(planted::tree const& in, std::vector<cpu_line> const& cpus) {
  std::string text = "cpu  1 1 1 1 1 1 1 1 0 0\n";
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    auto const& of = cpus[i];
    text += "cpu" + std::to_string(i);
    for (auto const each : {of.user, of.nice, of.system, of.idle, std::uint64_t{0}, of.interrupts,
                            of.interrupts, of.stolen, of.user, std::uint64_t{0}})
      text += " " + std::to_string(each);
    text += "\n";
  }
  in.plant("/proc/stat", text + "intr 1 2 3\nctxt 4\n");
}

planted::tree empty_tree() { return planted::tree{std::initializer_list<planted::file>{}}; }

TEST(HostActivity, IsReadFromAPlantedTree) {
  planted::tree const tree({{"/proc/sys/kernel/x", "1"}, {"/proc/uptime", "5"}});
  plant_cpus(tree, {{.user = 10, .system = 5, .idle = 100, .stolen = 3, .nice = 2, .interrupts = 4},
                    {.idle = 100}});
  plant_process(tree, 12, "plait", 7, 8, 900, 1);
  plant_process(tree, 3, "a b) (c", 1, 0, 901, 0);
  auto const of = read_host_activity(tree.files());
  EXPECT_EQ(of.processors.value(),
            (std::vector<processor_ticks>{{.cpu = 0, .used = 17, .stolen = 3, .all = 128},
                                          {.cpu = 1, .used = 0, .stolen = 0, .all = 100}}));
  ASSERT_EQ(of.processes.value().size(), 2u);
  EXPECT_EQ(of.processes.value()[0].number, 3u);
  EXPECT_EQ(of.processes.value()[0].ticks.value(),
            (process_ticks{.name = "a b) (c", .used = 1, .start = 901, .last_cpu = 0}));
  EXPECT_EQ(of.processes.value()[1].ticks.value(),
            (process_ticks{.name = "plait", .used = 15, .start = 900, .last_cpu = 1}));
}

TEST(HostActivity, LeavesOutAProcessThatHasEnded) {
  auto const tree = empty_tree();
  plant_cpus(tree, {{}});
  plant_process(tree, 5, "x", 1, 1, 1, 0);
  // The folder was listed, and its file is no longer there.
  std::filesystem::create_directories(tree.place("/proc/6"));
  auto const of = read_host_activity(tree.files());
  ASSERT_TRUE(of.processes.is_known()) << of.processes.problem();
  ASSERT_EQ(of.processes.value().size(), 1u);
  EXPECT_EQ(of.processes.value()[0].number, 5u);
}

TEST(HostActivity, SaysWhyAValueIsUnknown) {
  auto const tree = empty_tree();
  auto const processors = [&] { return read_host_activity(tree.files()).processors.problem(); };
  EXPECT_EQ(read_host_activity(tree.files()).processes.problem(), "/proc: missing");
  EXPECT_EQ(processors(), "/proc/stat: missing");
  for (auto const& [text, why] :
       {std::pair{"cpu 1 2 3 4 5 6 7 8\n", "it has no line of a processor"},
        {"", "it has no line of a processor"},
        {"cpu0 1 2 3 4 5 6 7\n", "the line 'cpu0' has not the 8 numbers of a processor"},
        {"cpu0 1 2 3 4 5 6 7 x\n", "the line 'cpu0' has not the 8 numbers of a processor"},
        {"cpu0 1 2 3 4 5 -6 7 8\n", "the line 'cpu0' has not the 8 numbers of a processor"},
        {"cpu0 18446744073709551615 1 0 0 0 0 0 0\n",
         "the line 'cpu0' has not the 8 numbers of a processor"},
        {"cpux 1 2 3 4 5 6 7 8\n", "the line 'cpux' has not the 8 numbers of a processor"},
        {"cpu65536 1 2 3 4 5 6 7 8\n", "the line 'cpu65536' has not the 8 numbers of a processor"},
        {"cpu1 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n", "it repeats a processor"}}) {
    tree.plant("/proc/stat", text);
    EXPECT_EQ(processors(), std::string("/proc/stat: garbage: ") + why) << text;
  }
  tree.plant("/proc/stat", std::string(system_files::most_bytes + 1, 'x'));
  EXPECT_EQ(processors(), "/proc/stat: garbage: it has more than 16777216 bytes");
}

TEST(HostActivity, KeepsTheReasonOfEachProcess) {
  auto const tree = empty_tree();
  plant_process(tree, 5, "x", 1, 1, 1, 0);
  plant_process(tree, 6, "y", 1, 1, 1, 0);
  tree.forbid("/proc/5/stat");
  tree.plant("/proc/7/stat", "");
  host_activity of;
  {
    planted::as_ordinary_user const user;
    ASSERT_TRUE(user.is_right());
    of = read_host_activity(tree.files());
  }
  ASSERT_EQ(of.processes.value().size(), 3u);
  EXPECT_EQ(of.processes.value()[0].ticks.problem(), "/proc/5/stat: not permitted");
  EXPECT_TRUE(of.processes.value()[1].ticks.is_known());
  EXPECT_EQ(of.processes.value()[2].ticks.problem(),
            "/proc/7/stat: garbage: it has no name in parentheses");
}

TEST(ProcessTicks, AreRefusedIfTheyAreGarbage) {
  auto const right = process_text(7, "x", 1, 2, 3, 4);
  EXPECT_TRUE(ticks_of_process(right, 7, "/p").is_known());
  EXPECT_EQ(ticks_of_process(right, 8, "/p").problem(),
            "/p: garbage: it does not begin with the number 8");
  for (auto const* const wrong : {"7 x R", "7 )x(", "7 (x", "7 x)"})
    EXPECT_EQ(ticks_of_process(wrong, 7, "/p").problem(),
              "/p: garbage: it has no name in parentheses");
  constexpr auto greatest = ~std::uint64_t{0};
  for (auto const& wrong :
       {std::string("7 (x)"), process_text(7, "x", greatest, 1, 3, 4),
        process_text(7, "x", 1, 2, 3, 65'536), process_text(7, "x", 1, 2, 3, -1)})
    EXPECT_EQ(ticks_of_process(wrong, 7, "/p").problem(),
              "/p: garbage: its fields 14, 15, 22 and 39 are not times and a cpu");
  EXPECT_EQ(ticks_of_process(process_text(7, "\x1b[31m", 1, 2, 3, 4), 7, "/p").value().name,
            "\\x1b[31m");
  EXPECT_EQ(ticks_of_process(process_text(7, std::string(900, 'x'), 1, 2, 3, 4), 7, "/p")
                .value()
                .name.size(),
            64u);
}

/// A host with two processors and the job's process 100, at two times that are 200 ticks apart.
class Use : public testing::Test {
 protected:
  Use() {
    plant_cpus(tree_, {{.user = 1000, .idle = 5000}, {.user = 2000, .idle = 4000}});
    plant_process(tree_, 100, "job", 500, 0, 10, 0);
    plant_process(tree_, 7, "stress", 300, 0, 11, 1);
    before_ = read_host_activity(tree_.files());
    plant_cpus(tree_, {{.user = 1200, .idle = 5000}, {.user = 2000, .idle = 4200}});
    plant_process(tree_, 100, "job", 700, 0, 10, 0);
  }

  [[nodiscard]] std::vector<processor_use> use(std::vector<rank_place> const& ranks) const {
    return use_between(before_, read_host_activity(tree_.files()), ranks);
  }
  [[nodiscard]] processor_use use_of_one(std::vector<int> const& cpus = {0, 1}) const {
    return use({{.process = 100, .cpus = cpus}})[0];
  }

  planted::tree const tree_{std::initializer_list<planted::file>{}};
  host_activity before_;
};

TEST_F(Use, IsZeroIfOnlyTheJobRuns) {
  for (auto const& cpus : {std::vector{0}, {1}, {0, 1}, {1, 0, 1}}) {
    auto const of = use_of_one(cpus);
    EXPECT_EQ(of.others.value(), 0);
    EXPECT_EQ(of.cpus, std::min<std::size_t>(cpus.size(), 2));
    EXPECT_TRUE(of.processes.empty());
  }
}

TEST_F(Use, NamesABusyProcess) {
  plant_cpus(tree_, {{.user = 1200, .idle = 5000}, {.user = 2196, .idle = 4004}});
  plant_process(tree_, 7, "stress", 480, 14, 11, 1);
  auto const of = use_of_one();
  EXPECT_DOUBLE_EQ(of.others.value(), 0.98);
  ASSERT_EQ(of.processes.size(), 1u);
  EXPECT_EQ(of.processes[0], (plait::ext::other_process{
                                 .number = 7, .name = "stress", .cpus = 0.97, .last_cpu = 1}));
  // The process has not run on processor 0.
  EXPECT_TRUE(use_of_one({0}).processes.empty());
  EXPECT_EQ(use_of_one({0}).others.value(), 0);
}

TEST_F(Use, HasStolenTimeAndNoInterrupts) {
  plant_cpus(tree_, {{.user = 1200, .idle = 5000},
                     {.user = 2000, .idle = 4080, .stolen = 100, .interrupts = 10}});
  auto const of = use_of_one();
  EXPECT_DOUBLE_EQ(of.others.value(), 0.5);
  EXPECT_TRUE(of.processes.empty());
}

TEST_F(Use, HasStolenTimeThatTheKernelAlsoCountsForTheJob) {
  plant_cpus(tree_, {{.user = 1100, .idle = 5000, .stolen = 100}, {.user = 2000, .idle = 4200}});
  EXPECT_DOUBLE_EQ(use_of_one().others.value(), 0.5);
  EXPECT_DOUBLE_EQ(use_of_one({0}).others.value(), 0.5);
}

TEST_F(Use, NamesTheFourBusiestAboveTwoPercent) {
  for (std::uint64_t i = 0; i < 6; ++i) plant_process(tree_, 20 + i, "new", 3 + i, 0, 99, 1);
  auto const of = use_of_one();
  ASSERT_EQ(of.processes.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(of.processes[i].number, 25 - i);
    EXPECT_DOUBLE_EQ(of.processes[i].cpus, static_cast<double>(8 - i) / 200);
  }
  for (std::uint64_t i = 0; i < 6; ++i) plant_process(tree_, 20 + i, "new", 3, 0, 99, 1);
  EXPECT_TRUE(use_of_one().processes.empty());  // 1.5 % each
}

TEST_F(Use, KnowsThatANumberBelongsToALaterProcess) {
  // Process 7 has ended, and another one with its number has used 100 ticks.
  plant_process(tree_, 7, "later", 350, 0, 4000, 1);
  auto of = use_of_one();
  ASSERT_EQ(of.processes.size(), 1u);
  EXPECT_EQ(of.processes[0].name, "later");
  EXPECT_DOUBLE_EQ(of.processes[0].cpus, 1.75);
  plant_process(tree_, 7, "stress", 350, 0, 11, 1);
  of = use_of_one();
  ASSERT_EQ(of.processes.size(), 1u);
  EXPECT_DOUBLE_EQ(of.processes[0].cpus, 0.25);
  // The job's process may be a later one, too.
  plant_process(tree_, 100, "job", 40, 0, 4000, 0);
  EXPECT_DOUBLE_EQ(use_of_one().others.value(), 0.8);
}

TEST_F(Use, IsUnknownWithoutTheProcessOfARank) {
  tree_.remove("/proc/100");
  EXPECT_EQ(use_of_one().others.problem(), "/proc/100/stat: missing");
  EXPECT_EQ(use_of_one().cpus, 2u);
  tree_.plant("/proc/100/stat", "100");
  EXPECT_EQ(use_of_one().others.problem(),
            "/proc/100/stat: garbage: it has no name in parentheses");
  plant_process(tree_, 100, "job", 700, 0, 10, 0);
  EXPECT_EQ(use_of_one().others.value(), 0);
  // Without the earlier ticks, the ticks of the interval are not known.
  before_.processes.value()[1].ticks = reading<process_ticks>::unknown("why");
  EXPECT_EQ(use_of_one().others.problem(), "why");
  EXPECT_TRUE(use_of_one().processes.empty());
}

TEST_F(Use, IgnoresAnotherProcessThatWasNotReadable) {
  before_.processes.value()[0].ticks = reading<process_ticks>::unknown("not permitted");
  EXPECT_EQ(use_of_one().others.value(), 0);
  EXPECT_TRUE(use_of_one().processes.empty());
}

TEST_F(Use, IsUnknownWithoutAProcessor) {
  EXPECT_EQ(use_of_one({1, 2}).others.problem(), "/proc/stat: there is no line 'cpu2'");
  EXPECT_EQ(use_of_one({-1}).others.problem(), "/proc/stat: there is no line 'cpu-1'");
  EXPECT_EQ(use_of_one({}).others.problem(), "the processors of a rank are not known");
  // A rank without a list may run anywhere.
  auto const both = use({{.process = 100, .cpus = {0}}, {.process = 7, .cpus = {}}});
  EXPECT_EQ(both[0].others.problem(), "the processors of a rank are not known");
  EXPECT_TRUE(use({}).empty());
  tree_.remove("/proc/stat");
  EXPECT_EQ(use_of_one().others.problem(), "/proc/stat: missing");
  tree_.remove("/proc");
  EXPECT_EQ(use_of_one().others.problem(), "/proc/stat: missing");
  before_.processes = reading<std::vector<plait::ext::process_activity>>::unknown("why");
  EXPECT_EQ(use_of_one().others.problem(), "why");
}

TEST_F(Use, NeedsCountersThatGrow) {
  plant_cpus(tree_, {{.user = 999, .idle = 6000}, {.user = 2000, .idle = 4200}});
  EXPECT_EQ(use_of_one().others.problem(),
            "/proc/stat: a counter of cpu 0 became smaller between two readings");
  EXPECT_EQ(use_of_one({1}).others.problem(), "");
  plant_cpus(tree_, {{.user = 1019, .idle = 5000}, {.user = 2019, .idle = 4000}});
  EXPECT_EQ(use_of_one().others.problem(),
            "only 19 ticks passed between two readings of /proc/stat, not 20");
  plant_cpus(tree_, {{.user = 1000, .idle = 4000}, {.user = 2000, .idle = 4000}});
  EXPECT_EQ(use_of_one().others.problem(),
            "only 0 ticks passed between two readings of /proc/stat, not 20");
}

/// Four processors, of which others use 100 ticks of 200 on processor 1, and 50 on processor 3.
class UseOfRanks : public testing::Test {
 protected:
  UseOfRanks() {
    plant_cpus(tree_, {{}, {}, {}, {}});
    for (std::uint64_t i = 0; i < 4; ++i) plant_process(tree_, 100 + i, "job", 0, 0, 1, int(i));
    before_ = read_host_activity(tree_.files());
    plant_cpus(tree_, {{.user = 100, .idle = 100},
                       {.user = 200, .idle = 0},
                       {.user = 100, .idle = 100},
                       {.user = 150, .idle = 50}});
    for (std::uint64_t i = 0; i < 4; ++i) plant_process(tree_, 100 + i, "job", 90, 10, 1, int(i));
  }
  [[nodiscard]] std::vector<processor_use> use(std::vector<rank_place> const& ranks) const {
    return use_between(before_, read_host_activity(tree_.files()), ranks);
  }
  static void expect(processor_use const& of, double others, std::size_t cpus) {
    EXPECT_TRUE(of.others.is_known()) << of.others.problem();
    EXPECT_DOUBLE_EQ(of.others.value(), others);
    EXPECT_EQ(of.cpus, cpus);
  }

  planted::tree const tree_{std::initializer_list<planted::file>{}};
  host_activity before_;
};

TEST_F(UseOfRanks, WithProcessorsOfTheirOwnIsApart) {
  auto const of = use({{100, {0}}, {101, {1}}, {102, {2}}, {103, {3}}});
  expect(of[0], 0, 1);
  expect(of[1], 0.5, 1);
  expect(of[2], 0, 1);
  expect(of[3], 0.25, 1);
}

TEST_F(UseOfRanks, ThatShareProcessorsIsOneNumber) {
  for (auto const& each :
       use({{100, {0, 1, 2, 3}}, {101, {0, 1, 2, 3}}, {102, {0, 1, 2, 3}}, {103, {0, 1, 2, 3}}}))
    expect(each, 0.75, 4);
  // A chain: 0-1, 1-2, and rank 3 by itself. The order of the ranks does not matter.
  auto of = use({{100, {0, 1}}, {103, {3}}, {102, {2}}, {101, {2, 1}}});
  expect(of[0], 0.5, 3);
  expect(of[1], 0.25, 1);
  expect(of[2], 0.5, 3);
  expect(of[3], 0.5, 3);
  // A processor on which the rank of another set may not run does not count.
  of = use({{100, {0}}, {102, {2, 3}}, {103, {2}}});
  expect(of[0], 0, 1);
  expect(of[1], 0.25, 2);
  expect(of[2], 0.25, 2);
}

TEST_F(UseOfRanks, ThatAreThreadsOfOneProcessIsOneNumber) {
  plant_process(tree_, 100, "job", 380, 20, 1, 0);
  for (auto const& each : use({{100, {0}}, {100, {1}}, {100, {2}}, {100, {3}}}))
    expect(each, 0.75, 4);
  // Two processes with two threads each.
  plant_process(tree_, 100, "job", 200, 0, 1, 0);
  plant_process(tree_, 103, "job", 150, 50, 1, 3);
  auto const of = use({{100, {0}}, {103, {2}}, {100, {1}}, {103, {3}}});
  expect(of[0], 0.5, 2);
  expect(of[1], 0.25, 2);
  EXPECT_EQ(of[0], of[2]);
  EXPECT_EQ(of[1], of[3]);
}

TEST_F(UseOfRanks, NamesNoProcessOfTheJob) {
  // Process 100 belongs to the job, and has run on the processor of another rank.
  plant_process(tree_, 100, "job", 90, 10, 1, 1);
  auto const of = use({{100, {0}}, {101, {1}}});
  EXPECT_TRUE(of[1].processes.empty());
  // Process 103 does not belong to this job.
  EXPECT_EQ(use({{100, {0}}, {101, {1, 3}}})[1].processes[0].number, 103u);
}

// Computes the sets by repeated joining, and each number from its definition.
TEST_F(UseOfRanks, AgreesWithItsDefinition) {
  std::mt19937 random(5);
  std::size_t joined = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<rank_place> ranks(1 + random() % 6);
    for (auto& each : ranks) {
      each.process = 100 + random() % 4;
      while (each.cpus.empty())
        for (int cpu = 0; cpu < 4; ++cpu)
          if (random() % 4 == 0) each.cpus.push_back(cpu);
    }
    auto const of = use(ranks);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      bool cpus[4]{}, processes[4]{};
      for (int const cpu : ranks[rank].cpus) cpus[cpu] = true;
      processes[ranks[rank].process - 100] = true;
      for (int times = 0; times < 10; ++times)
        for (auto const& each : ranks) {
          bool const is_in =
              processes[each.process - 100] ||
              std::any_of(each.cpus.begin(), each.cpus.end(), [&](int cpu) { return cpus[cpu]; });
          if (!is_in) continue;
          processes[each.process - 100] = true;
          for (int const cpu : each.cpus) cpus[cpu] = true;
        }
      constexpr double used[]{100, 200, 100, 150};
      double others = 0;
      for (int cpu = 0; cpu < 4; ++cpu) others += cpus[cpu] ? used[cpu] : 0;
      for (bool const is_own : processes) others -= is_own ? 100 : 0;
      expect(of[rank], std::max(others, 0.0) / 200,
             static_cast<std::size_t>(std::count(cpus, cpus + 4, true)));
      joined += of[rank].cpus > ranks[rank].cpus.size() ? 1 : 0;
    }
  }
  EXPECT_GT(joined, 100u);
}

/// A child process that keeps one processor busy until the destructor ends it.
class busy_child {
 public:
  explicit busy_child(int cpu) {
    auto const parent = ::getpid();
    number_ = ::fork();
    if (number_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (::getppid() != parent || ::sched_setaffinity(0, sizeof one, &one) != 0) ::_exit(1);
    for (unsigned volatile i = 0;;) i = i + 1;
  }
  ~busy_child() {
    ::kill(number_, SIGKILL);
    ::waitpid(number_, nullptr, 0);
  }
  busy_child(busy_child const&) = delete;
  busy_child& operator=(busy_child const&) = delete;
  [[nodiscard]] std::uint64_t number() const { return static_cast<std::uint64_t>(number_); }

 private:
  ::pid_t number_ = -1;
};

TEST(ThisMachine, NamesABusyProcess) {
  ::cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  busy_child const child(cpu);
  ASSERT_LT(child.number(), std::uint64_t{1} << 31);
  auto const process = static_cast<std::uint64_t>(::getpid());
  std::vector<int> const cpus{cpu};
  auto const work = [] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); };
  // On a busy machine the child may get little time, and others may be busier; then try again.
  for (int tries = 0; tries < 100; ++tries) {
    // example-begin use
    plait::ext::system_files const system;
    plait::ext::rank_place const rank{.process = process, .cpus = cpus};  // this rank's
    auto const before = plait::ext::read_host_activity(system);
    work();
    auto const after = plait::ext::read_host_activity(system);
    for (auto const& use : plait::ext::use_between(before, after, {rank}))
      for (auto const& other : use.processes)
        std::printf("%s uses %.2f processors\n", other.name.c_str(), other.cpus);
    // example-end
    if (!after.processors.is_known()) GTEST_SKIP() << after.processors.problem();
    auto const use = use_between(before, after, {rank})[0];
    ASSERT_TRUE(use.others.is_known()) << use.others.problem();
    EXPECT_EQ(use.cpus, 1u);
    EXPECT_TRUE(std::isfinite(use.others.value()) && use.others.value() >= 0);
    auto const found =
        std::find_if(use.processes.begin(), use.processes.end(),
                     [&](auto const& each) { return each.number == child.number(); });
    if (found == use.processes.end()) continue;
    EXPECT_GE(found->cpus, 0.02);
    EXPECT_EQ(found->last_cpu, cpu);
    EXPECT_FALSE(found->name.empty());
    // The child belongs to the job if a rank has its number.
    for (auto const& each :
         use_between(before, after, {rank, {.process = child.number(), .cpus = cpus}})) {
      EXPECT_LE(each.others.value(), use.others.value());
      for (auto const& other : each.processes) EXPECT_NE(other.number, child.number());
    }
    return;
  }
  FAIL() << "the child was never named";
}

}  // namespace
