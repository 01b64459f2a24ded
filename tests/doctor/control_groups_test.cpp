// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/control_groups.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "doctor/planted_tree.hpp"

namespace {

using plait::detail::doctor::groups_of;
using plait::detail::doctor::least_memory;
using plait::detail::doctor::least_quota;
using plait::ext::no_limit;

using folders = std::vector<std::string>;

constexpr char const* both_versions =
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(ControlGroups, OfVersion1HaveFilesOfTheirOwn) {
  planted::tree const tree(
      {{"/proc/self/mountinfo", both_versions},
       {"/proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/job\n0::/x\n"},
       {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
       {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
       {"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n"},
       {"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"},
       {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
       {"/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1048576\n"}});
  auto const groups = groups_of(tree.files(), "cpu");
  ASSERT_TRUE(groups.is_known()) << groups.problem();
  EXPECT_EQ(groups.value().version, 1);
  EXPECT_EQ(groups.value().folders, (folders{"/sys/fs/cgroup/cpu/job", "/sys/fs/cgroup/cpu"}));
  auto const quota = least_quota(tree.files(), groups.value());
  ASSERT_TRUE(quota.is_known()) << quota.problem();
  EXPECT_EQ(quota.value().value, 1.5);
  EXPECT_EQ(quota.value().folder, "/sys/fs/cgroup/cpu/job");
  auto const memory = groups_of(tree.files(), "memory");
  EXPECT_EQ(least_memory(tree.files(), memory.value()).value(), 1048576u);
  tree.plant("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(least_memory(tree.files(), memory.value()).value(), no_limit);

  tree.remove("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us");
  EXPECT_EQ(least_quota(tree.files(), groups.value()).problem(),
            "/sys/fs/cgroup/cpu/job/cpu.cfs_period_us: missing");
  tree.plant("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "0");
  EXPECT_EQ(least_quota(tree.files(), groups.value()).problem(),
            "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us: garbage: '150000 0' is not a quota and a "
            "period in microseconds");
}

TEST(ControlGroups, OfVersion2LimitAllGroupsBelow) {
  planted::tree const tree;
  auto const groups = groups_of(tree.files(), "cpu");
  ASSERT_TRUE(groups.is_known()) << groups.problem();
  EXPECT_EQ(groups.value().version, 2);
  EXPECT_EQ(groups.value().folders,
            (folders{"/sys/fs/cgroup/slice/job", "/sys/fs/cgroup/slice", "/sys/fs/cgroup"}));
  auto const quota = [&] { return least_quota(tree.files(), groups.value()); };
  EXPECT_TRUE(std::isinf(quota().value().value));
  EXPECT_EQ(quota().value().folder, "");
  tree.plant("/sys/fs/cgroup/slice/cpu.max", "25000 50000\n");
  tree.plant("/sys/fs/cgroup/slice/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota().value().value, 0.5);
  EXPECT_EQ(quota().value().folder, "/sys/fs/cgroup/slice");
  for (auto const* const wrong : {"1", "x 100000", "0 100000", "1 0", "-5 5"}) {
    tree.plant("/sys/fs/cgroup/slice/cpu.max", wrong);
    EXPECT_NE(quota().problem().find("/sys/fs/cgroup/slice/cpu.max: garbage: "), std::string::npos)
        << wrong;
  }
  // A group without the controller has no limits of its own.
  tree.remove("/sys/fs/cgroup/slice/cpu.max");
  EXPECT_EQ(quota().problem(), "/sys/fs/cgroup/slice/cpu.max: missing");
  tree.plant("/sys/fs/cgroup/slice/cgroup.controllers", "memory\n");
  EXPECT_EQ(quota().value().value, 2);
  tree.remove("/sys/fs/cgroup/slice/cgroup.controllers");
  EXPECT_EQ(quota().problem(), "/sys/fs/cgroup/slice/cgroup.controllers: missing");
}

TEST(ControlGroups, OfAContainerBeginAtItsOwnGroup) {
  planted::tree const tree({{"/proc/self/cgroup", "0::/docker/abc/inner\n"},
                            {"/sys/fs/cgroup/inner/cgroup.controllers", ""}});
  tree.plant("/proc/self/mountinfo", "1 2 0:3 /docker/abc /sys/fs/cgroup rw - cgroup2 c rw\n");
  EXPECT_EQ(groups_of(tree.files(), "cpu").value().folders,
            (folders{"/sys/fs/cgroup/inner", "/sys/fs/cgroup"}));
  // The name of another group may begin with the name of the container's group.
  tree.plant("/proc/self/cgroup", "0::/docker/abcd\n");
  EXPECT_EQ(groups_of(tree.files(), "cpu").value().folders, folders{"/sys/fs/cgroup"});
  for (auto const* const outside : {"0::/../../other\n", "0::/../docker\n", "0::/..\n"}) {
    tree.plant("/proc/self/cgroup", outside);
    EXPECT_EQ(groups_of(tree.files(), "cpu").value().folders, folders{"/sys/fs/cgroup"}) << outside;
  }
}

TEST(ControlGroups, MayHaveDotsInTheirNames) {
  for (std::string const name : {"a..b", "..a", "a..", "..."}) {
    planted::tree const tree(
        {{"/proc/self/cgroup", "0::/x/" + name + "\n"},
         {"/proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 c rw\n"},
         {"/sys/fs/cgroup/x/" + name + "/cgroup.controllers", ""}});
    EXPECT_EQ(groups_of(tree.files(), "cpu").value().folders,
              (folders{"/sys/fs/cgroup/x/" + name, "/sys/fs/cgroup/x", "/sys/fs/cgroup"}));
  }
}

TEST(ControlGroups, MayNotExist) {
  planted::tree const tree({{"/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n"}});
  auto const groups = groups_of(tree.files(), "memory");
  ASSERT_TRUE(groups.is_known()) << groups.problem();
  EXPECT_EQ(groups.value().version, 0);
  EXPECT_TRUE(std::isinf(least_quota(tree.files(), groups.value()).value().value));
  EXPECT_EQ(least_memory(tree.files(), groups.value()).value(), no_limit);
}

TEST(ControlGroups, SayWhatIsWrong) {
  planted::tree const tree;
  auto const problem = [&] { return groups_of(tree.files(), "cpu").problem(); };
  tree.plant("/proc/self/cgroup", "1:name=systemd:/\n");
  EXPECT_EQ(problem(), "/proc/self/cgroup: garbage: it has no group of the controller 'cpu'");
  tree.plant("/proc/self/cgroup", "x:cpu:/\n");
  EXPECT_EQ(problem(), "/proc/self/cgroup: garbage: 'x:cpu:/' is not a control group");
  tree.remove("/proc/self/cgroup");
  EXPECT_EQ(problem(), "/proc/self/cgroup: missing");
  tree.plant("/proc/self/mountinfo", "1 2 3\n");
  EXPECT_EQ(problem(), "/proc/self/mountinfo: garbage: '1 2 3' is not a mount");
  tree.remove("/proc/self/mountinfo");
  EXPECT_EQ(problem(), "/proc/self/mountinfo: missing");
}

TEST(ControlGroups, OfMountsWithBlanksAreRead) {
  auto const mounts = plait::detail::doctor::mounts_in(
      "1 2 3:4 /a\\040b /c\\134d rw shared:1 - cgroup2 none rw\n\n5 6 7:8 / /x\\ rw - t s\n", "/p");
  ASSERT_TRUE(mounts.is_known()) << mounts.problem();
  ASSERT_EQ(mounts.value().size(), 2u);
  EXPECT_EQ(mounts.value()[0].folder, "/a b");
  EXPECT_EQ(mounts.value()[0].at, "/c\\d");
  EXPECT_EQ(mounts.value()[0].type, "cgroup2");
  EXPECT_EQ(mounts.value()[1].at, "/x\\");
  EXPECT_EQ(mounts.value()[1].options, "");
}

}  // namespace
