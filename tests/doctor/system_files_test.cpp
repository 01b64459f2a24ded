// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/system_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "doctor/planted_tree.hpp"

namespace {

using plait::ext::reading;
using plait::ext::system_files;

TEST(SystemFiles, ReadsTextLinesAndNumbers) {
  planted::tree const tree({{"/a", " 12 \nmore\n"}, {"/b/c", "x"}, {"/b/a", "y"}});
  auto const files = tree.files();
  EXPECT_EQ(files.text("/a").value(), " 12 \nmore\n");
  EXPECT_EQ(files.line("/a").value(), "12");
  EXPECT_EQ(files.number("/a").value(), 12u);
  EXPECT_EQ(files.names("/b").value(), (std::vector<std::string>{"a", "c"}));
  EXPECT_TRUE(files.has("/b/c"));
  EXPECT_FALSE(files.has("/b/d"));
  auto const space = files.space("/b");
  ASSERT_TRUE(space.is_known());
  EXPECT_GE(space.value().bytes, space.value().free_bytes);
}

TEST(SystemFiles, SaysWhyAValueIsUnknown) {
  planted::tree const tree(
      {{"/empty", "\n"}, {"/word", "abc\n"}, {"/minus", "-1"}, {"/huge", "18446744073709551616"}});
  auto const files = tree.files();
  EXPECT_EQ(files.text("/none").problem(), "/none: missing");
  EXPECT_EQ(files.text("/word/below").problem(), "/word/below: missing");
  EXPECT_EQ(files.names("/none").problem(), "/none: missing");
  EXPECT_EQ(files.space("/none").problem(), "/none: missing");
  EXPECT_EQ(files.line("/empty").problem(), "/empty: garbage: it is empty");
  EXPECT_EQ(files.number("/word").problem(),
            "/word: garbage: 'abc' is not a whole number from 0 on");
  EXPECT_EQ(files.number("/minus").problem(),
            "/minus: garbage: '-1' is not a whole number from 0 on");
  EXPECT_EQ(files.number("/huge").problem(),
            "/huge: garbage: '18446744073709551616' is not a whole number from 0 on");
  EXPECT_EQ(files.text("/").problem(), "/: garbage: it is not a regular file");
  EXPECT_EQ(reading<int>{}.problem(), "not read");
}

TEST(SystemFiles, ReadsSymbolicLinks) {
  planted::tree const tree({{"/a", "1"}});
  tree.link("/link", "some:[text]");
  EXPECT_EQ(tree.files().link("/link").value(), "some:[text]");
  EXPECT_EQ(tree.files().link("/none").problem(), "/none: missing");
  EXPECT_EQ(tree.files().link("/a").problem(), "/a: garbage: it is not a symbolic link");
  tree.link("/long", std::string(4000, 'x'));
  EXPECT_EQ(tree.files().link("/long").value(), std::string(4000, 'x'));
}

TEST(SystemFiles, ReadsNoMoreThanItsLimit) {
  planted::tree const tree({{"/a", std::string(5000, 'a')}});
  auto const files = tree.files();
  EXPECT_EQ(files.text("/a", 5000).value().size(), 5000u);
  EXPECT_EQ(files.text("/a", 4999).problem(), "/a: garbage: it has more than 4999 bytes");
  EXPECT_EQ(files.text("/a", 0).problem(), "/a: garbage: it has more than 0 bytes");
}

TEST(SystemFiles, SaysThatAFileIsNotPermitted) {
  planted::tree const tree({{"/a", "1"}, {"/b/c", "1"}});
  tree.forbid("/a");
  tree.forbid("/b");
  {
    planted::as_ordinary_user const user;
    ASSERT_TRUE(user.is_right());
    EXPECT_EQ(tree.files().number("/a").problem(), "/a: not permitted");
    EXPECT_EQ(tree.files().names("/b").problem(), "/b: not permitted");
    EXPECT_EQ(tree.files().text("/b/c").problem(), "/b/c: not permitted");
  }
  std::filesystem::permissions(tree.place("/b"), std::filesystem::perms::owner_all);
}

TEST(SystemFiles, DoesNotWaitForAPipe) {
  planted::tree const tree({{"/a", ""}});
  ASSERT_EQ(::mkfifo(tree.place("/pipe").c_str(), 0600), 0);
  EXPECT_EQ(tree.files().text("/pipe").problem(), "/pipe: garbage: it is not a regular file");
}

TEST(SystemFiles, ReadsThisMachine) {
  // example-begin reading
  plait::ext::system_files const system;  // the files of this machine
  auto const threads = system.number("/proc/sys/kernel/threads-max");
  if (threads.is_known()) std::printf("%llu\n", (unsigned long long)threads.value());
  else std::printf("%s\n", threads.problem().c_str());  // such as "/proc/...: missing"
  // example-end
  EXPECT_TRUE(threads.is_known() || !threads.problem().empty());
  EXPECT_TRUE(system.text("/proc/self/status").is_known());
  EXPECT_TRUE(system.has("/proc/self"));
}

TEST(SystemFiles, ReadsListsOfProcessors) {
  using plait::detail::doctor::cpu_list;
  using list = std::vector<int>;
  EXPECT_EQ(cpu_list("0-3,8", "/p").value(), (list{0, 1, 2, 3, 8}));
  EXPECT_EQ(cpu_list("8,0-1,1-2\n", "/p").value(), (list{0, 1, 2, 8}));
  EXPECT_EQ(cpu_list("", "/p").value(), list{});
  for (auto const* const wrong : {"a", "3-1", "-1", "1-", "1,,2", "0-99999999999999999999",
                                  "0-70000", "1 2", "0-65535,0-65535"})
    EXPECT_EQ(cpu_list(wrong, "/p").problem(),
              "/p: garbage: '" + std::string(wrong) + "' is not a list of processors");
}

TEST(SystemFiles, ReadsKeysAndBytes) {
  using plait::detail::doctor::bytes_of_key;
  reading<std::string> const text = std::string(
      "A:\t 12 kB\nB:3\nC: -1 kB\nD: 99999999999999999999 kB\nE: 18446744073709551615 kB\nF: 1 "
      "MB\n");
  EXPECT_EQ(bytes_of_key(text, "A", "/p").value(), 12u * 1024);
  EXPECT_EQ(bytes_of_key(text, "B", "/p").value(), 3u);
  for (auto const* const wrong : {"C", "D", "E", "F"})
    EXPECT_NE(bytes_of_key(text, wrong, "/p").problem().find("/p: garbage: "), std::string::npos)
        << wrong;
  EXPECT_EQ(bytes_of_key(text, "G", "/p").problem(), "/p: garbage: there is no line 'G'");
  EXPECT_EQ(bytes_of_key(reading<std::string>::unknown("why"), "A", "/p").problem(), "why");
}

}  // namespace
