// SPDX-License-Identifier: Apache-2.0
#include "plait/core/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
using plait::detail::mapped_file;
using plait::detail::open_file;
using plait::detail::partial_file;

class File : public testing::Test {
 protected:
  File()
      : folder_(fs::temp_directory_path() / ("plait_file_" + std::to_string(::getpid()))),
        path_(folder_ / "name"),
        old_mask_(::umask(022)) {
    fs::create_directories(folder_);
  }
  ~File() override {
    ::umask(old_mask_);
    fs::remove_all(folder_);
  }

  static std::string content(fs::path const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::string content() const { return content(path_); }
  static std::span<std::byte const> bytes(std::string const& text) {
    return std::as_bytes(std::span(text));
  }
  static ::mode_t mode(fs::path const& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 07777u;
  }
  [[nodiscard]] std::vector<fs::path> partial_files() const {
    std::vector<fs::path> out;
    for (auto const& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == ".partial") out.push_back(entry.path());
    return out;
  }
  static std::string refusal(std::function<void()> const& call) {
    try {
      call();
    } catch (plait::input_error const& problem) {
      return problem.what();
    }
    return "no input_error";
  }
  static std::string refusal_to_write(fs::path const& path) {
    return refusal([&] { partial_file(path, "test file").commit(); });
  }
  static std::string refusal_to_read(fs::path const& path) {
    return refusal([&] { open_file const file(path, "test file"); });
  }
  static void replace(fs::path const& path, std::string const& text) {
    partial_file file(path);
    file.write(bytes(text), 0);
    file.commit();
  }

  fs::path folder_, path_;
  ::mode_t old_mask_;
};

// ---- Writing ----

TEST_F(File, AppearsAtCommit) {
  std::ofstream(path_) << "what was there";
  {
    partial_file file(path_);
    file.write(bytes("world"), 6);
    file.write(bytes("hello "), 0);
    EXPECT_EQ(content(), "what was there");
    file.commit();
    EXPECT_EQ(content(), "hello world");
  }
  EXPECT_EQ(content(), "hello world");
  EXPECT_TRUE(partial_files().empty());
}

TEST_F(File, MayBeNamedInEachWay) {
  auto const here = fs::current_path();
  fs::current_path(folder_);
  fs::create_directory("below");
  fs::create_symlink("below/../name", "link");
  for (auto const& [name, text] : {std::pair{std::string("name"), "1"},
                                   {"./name", "2"},
                                   {"below//..///name", "3"},
                                   {folder_.string() + "//name", "4"},
                                   {"link", "5"}}) {
    replace(name, text);
    EXPECT_EQ(content(), text) << name;
  }
  EXPECT_TRUE(fs::is_symlink("link"));
  fs::current_path(here);
  EXPECT_TRUE(partial_files().empty());
  if (::access("/", W_OK) != 0) return;
  auto const at_root = "/plait_file_" + std::to_string(::getpid());
  replace(at_root, "6");
  EXPECT_EQ(content(at_root), "6");
  fs::remove(at_root);
}

TEST_F(File, VanishesWithoutCommit) {
  {
    partial_file file(path_);
    file.write(bytes("hello"), 0);
    EXPECT_EQ(partial_files().size(), 1u);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

// The name is taken between opening and commit: what was computed is not thrown away.
TEST_F(File, ThatCannotBeMovedIsKept) {
  std::string text;
  {
    partial_file file(path_, "test file");
    file.write(bytes("hello"), 0);
    fs::create_directory(path_);
    text = refusal([&] { file.commit(); });
  }
  ASSERT_EQ(partial_files().size(), 1u);
  EXPECT_EQ(content(partial_files()[0]), "hello");
  EXPECT_EQ(
      text,
      "test file '" + path_.string() +
          "' cannot be written: it exists and is not a regular file; the complete file is in '" +
          partial_files()[0].string() + "'");
}

TEST_F(File, TakesTheModeThatTheNameHasAtTheEnd) {
  partial_file file(path_);
  std::ofstream(path_) << "came later";
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  file.commit();
  EXPECT_EQ(mode(path_), 0600u);
}

TEST_F(File, KeepsTheOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  std::ofstream(path_) << "old";
  ASSERT_EQ(::chown(path_.c_str(), 1234, 5678), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0664), 0);
  replace(path_, "new");
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1234u);
  EXPECT_EQ(status.st_gid, 5678u);
  EXPECT_EQ(mode(path_), 0664u);
}

TEST_F(File, KeepsTheListOfAccess) {
  // In the system's words: user rw, user 1234 rw, group none, mask rw, others none.
  struct entry {
    std::uint16_t tag, permissions;
    std::uint32_t id;
  };
  struct {
    std::uint32_t version = 2;
    entry entries[5]{{1, 6, 0xffffffff},
                     {2, 6, 1234},
                     {4, 0, 0xffffffff},
                     {16, 6, 0xffffffff},
                     {32, 0, 0xffffffff}};
  } const list;
  constexpr char const* name = "system.posix_acl_access";
  std::ofstream(path_) << "old";
  if (::setxattr(path_.c_str(), name, &list, sizeof list, 0) != 0)
    GTEST_SKIP() << "the file system has no lists of access";
  replace(path_, "new");
  char found[sizeof list];
  ASSERT_EQ(::getxattr(path_.c_str(), name, found, sizeof found),
            static_cast<::ssize_t>(sizeof list));
  EXPECT_EQ(std::memcmp(found, &list, sizeof list), 0);
  EXPECT_EQ(content(), "new");
}

// A limit on the size of files emulates a full disk: the write fails halfway.
TEST_F(File, AFullDiskLeavesWhatWasThere) {
  std::ofstream(path_) << "what was there";
  auto const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  auto const text = refusal([&] { replace(path_, std::string(40000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(text, "file '" + path_.string() + "' cannot be written: File too large");
  EXPECT_EQ(content(), "what was there");
  EXPECT_TRUE(partial_files().empty());
}

TEST_F(File, RoomIsTakenAtOnce) {
  partial_file const file(path_);
  file.reserve(100'000);
  EXPECT_EQ(fs::file_size(partial_files().at(0)), 100'000u);
  auto const text = refusal([&] { file.reserve(std::size_t{1} << 62); });
  EXPECT_NE(text, "no input_error");
}

// Other files in the folder stay, also one with a name that a partial file could have.
TEST_F(File, OtherFilesAreNotTouched) {
  fs::path const beside = path_.string() + ".partial", target = folder_ / "target";
  std::ofstream(target) << "of the user";
  fs::create_symlink(target, beside);
  replace(path_, "new");
  EXPECT_EQ(content(target), "of the user");
  EXPECT_TRUE(fs::is_symlink(beside));
}

TEST_F(File, TwoWritersGiveOneWholeFile) {
  partial_file one(path_), other(path_);
  one.write(bytes("one, longer"), 0);
  other.write(bytes("other"), 0);
  one.commit();
  EXPECT_EQ(content(), "one, longer");
  other.commit();
  EXPECT_EQ(content(), "other");
}

TEST_F(File, AStrangersFileOfItsNameIsNotRemoved) {
  fs::path stranger;
  {
    partial_file file(path_);
    stranger = partial_files().at(0);
    fs::remove(stranger);
    std::ofstream(stranger) << "of the user";
  }
  EXPECT_EQ(content(stranger), "of the user");
}

TEST_F(File, KeepsTheModeOfTheOldFile) {
  for (::mode_t const old : {0600u, 0640u, 0666u, 0755u}) {
    std::ofstream(path_) << "old";
    ASSERT_EQ(::chmod(path_.c_str(), old), 0);
    replace(path_, "new");
    EXPECT_EQ(mode(path_), old);
  }
}

TEST_F(File, ANewFileHasTheUsualMode) {
  replace(path_, "new");
  EXPECT_EQ(mode(path_), 0644u);
  ::umask(027);
  replace(folder_ / "other", "new");
  EXPECT_EQ(mode(folder_ / "other"), 0640u);
  partial_file const closed(folder_ / "closed", "file", 0600);
  EXPECT_EQ(mode(partial_files().at(0)), 0600u);
}

TEST_F(File, ASymbolicLinkStays) {
  std::ofstream(path_) << "old";
  fs::create_directory(folder_ / "elsewhere");
  auto const link = folder_ / "elsewhere" / "link";
  fs::create_symlink(path_, link);
  replace(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(content(), "new");
  fs::remove(path_);
  EXPECT_EQ(refusal_to_write(link), "test file '" + link.string() +
                                        "' cannot be written: it is a symbolic link that leads "
                                        "nowhere (No such file or directory)");
}

TEST_F(File, ThatIsNewIsNotReplaced) {
  partial_file one(path_), other(path_);
  one.write(bytes("one"), 0);
  EXPECT_TRUE(one.commit_if_new());
  EXPECT_FALSE(other.commit_if_new());
  EXPECT_EQ(content(), "one");
}

TEST_F(File, AnUnwritableFileIsRefusedAtOnce) {
  auto const begins = [](fs::path const& path) {
    return "test file '" + path.string() + "' cannot be written";
  };
  EXPECT_EQ(refusal_to_write(""), begins("") + ": its name is empty");
  EXPECT_EQ(refusal_to_write(path_ / ""),
            begins(path_ / "") + ": its name is the name of a folder");
  EXPECT_EQ(refusal_to_write(std::string("a\0b", 3)),
            "test file 'a\\x00b' cannot be written: its name has a byte that is 0");
  EXPECT_EQ(refusal_to_write(folder_), begins(folder_) + ": it exists and is not a regular file");
  EXPECT_EQ(refusal_to_write("/dev/null"),
            begins("/dev/null") + ": it exists and is not a regular file");
  EXPECT_EQ(refusal_to_write(folder_ / "missing" / "x"),
            begins(folder_ / "missing" / "x") + ": folder '" + (folder_ / "missing").string() +
                "' does not exist; make it first");
  EXPECT_EQ(refusal_to_write("/proc/x"),
            begins("/proc/x") +
                ", because no new file can be made in its folder: No such file or directory");
  fs::path const long_name = folder_ / std::string(5000, 'n');
  EXPECT_EQ(refusal_to_write(long_name), begins(long_name) + ": File name too long");
  std::ofstream(path_) << "old";
  EXPECT_EQ(refusal_to_write(path_ / "x"), begins(path_ / "x") + ": Not a directory");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal_to_write(folder_ / "pipe"),
            begins(folder_ / "pipe") + ": it exists and is not a regular file");
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(path_.c_str(), 0444), 0);
    EXPECT_EQ(refusal_to_write(path_), begins(path_) + ": Permission denied");
  }
  EXPECT_TRUE(partial_files().empty());
}

TEST_F(File, NamesOfTheFullLengthCanBeWritten) {
  auto const longest = folder_ / std::string(255, 'n');
  replace(longest, "new");
  EXPECT_EQ(content(longest), "new");
}

// ---- Reading ----

TEST_F(File, ReadsFromAPosition) {
  std::ofstream(path_) << "0123456789";
  open_file const file(path_);
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(file.owner(), ::geteuid());
  std::string three(3, '\0'), seven(7, '\0');
  file.read(std::as_writable_bytes(std::span(three)), 4);
  EXPECT_EQ(three, "456");
  EXPECT_EQ(
      refusal([&] { file.read(std::as_writable_bytes(std::span(seven)), 4); }),
      "file '" + path_.string() + "' became shorter while it was read: it ends before byte 10");
}

// None of these may be waited for.
TEST_F(File, OnlyRegularFilesAreRead) {
  auto const pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto const begins = [](fs::path const& path) {
    return "test file '" + path.string() + "' cannot be read: ";
  };
  EXPECT_EQ(refusal_to_read(pipe), begins(pipe) + "it is not a regular file");
  EXPECT_EQ(refusal_to_read("/dev/zero"), begins("/dev/zero") + "it is not a regular file");
  EXPECT_EQ(refusal_to_read(folder_), begins(folder_) + "it is a directory");
  EXPECT_EQ(refusal_to_read(path_), begins(path_) + "No such file or directory");
  EXPECT_EQ(refusal_to_read(""), begins("") + "No such file or directory");
  EXPECT_EQ(refusal_to_read(std::string("a\0b", 3)),
            "test file 'a\\x00b' cannot be read: its name has a byte that is 0");
  fs::create_symlink("/dev/zero", path_);
  EXPECT_EQ(refusal_to_read(path_), begins(path_) + "it is not a regular file");
}

TEST_F(File, LinksAreFollowedUnlessRefused) {
  std::ofstream(path_) << "text";
  auto const link = folder_ / "link";
  fs::create_symlink(path_, link);
  EXPECT_EQ(open_file(link).size(), 4u);
  EXPECT_EQ(refusal([&] { open_file const file(link, "test file", open_file::links::refused); }),
            "test file '" + link.string() + "' cannot be read: Too many levels of symbolic links");
}

TEST_F(File, MapsTheWholeFile) {
  std::ofstream(path_) << "0123456789";
  mapped_file const mapped{open_file(path_)};
  ASSERT_EQ(mapped.bytes().size(), 10u);
  EXPECT_EQ(std::memcmp(mapped.bytes().data(), "0123456789", 10), 0);
  std::ofstream(folder_ / "empty").close();
  EXPECT_TRUE(mapped_file{open_file(folder_ / "empty")}.bytes().empty());
}

}  // namespace
