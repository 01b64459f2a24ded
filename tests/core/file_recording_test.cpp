// SPDX-License-Identifier: Apache-2.0
// test: alone
// The effects of a save on the disk, call by call: this program's own open, pwrite, fsync and so on
// replace the system's, record each call, and can end the process before any of them.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plait/core/file.hpp"

namespace {

namespace fs = std::filesystem;

// ---- The recording ----

struct call {
  enum kind { create, write, access, sync, sync_folder, rename, link, unlink } what;
  int file = -1;         // its descriptor
  std::string name, to;  // the names that change
  std::string data{};    // written
  std::size_t at = 0;
};

struct recording {
  bool on = false;
  int calls_left = -1;  // before the process ends; -1: it does not
  std::vector<call> calls{};

  void add(call what) {
    if (!on) return;
    if (calls_left == 0) ::_exit(9);
    --calls_left;
    calls.push_back(std::move(what));
  }
} recorded;

template <class Function>
Function* next_in_line(char const* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int open(char const* path, int flags, ...) {
  static auto* const real = next_in_line<int(char const*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  int const mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
  va_end(more);
  int const file = real(path, flags, mode);
  if ((flags & O_CREAT) != 0) recorded.add({call::create, file, path, ""});
  return file;
}

::ssize_t pwrite(int file, void const* data, std::size_t size, ::off_t at) {
  static auto* const real =
      next_in_line<::ssize_t(int, void const*, std::size_t, ::off_t)>("pwrite");
  recorded.add({call::write, file, "", "", std::string(static_cast<char const*>(data), size),
                static_cast<std::size_t>(at)});
  return real(file, data, size, at);
}

int fchmod(int file, ::mode_t mode) {
  static auto* const real = next_in_line<int(int, ::mode_t)>("fchmod");
  recorded.add({call::access, file, "", ""});
  return real(file, mode);
}

int fsync(int file) {
  static auto* const real = next_in_line<int(int)>("fsync");
  struct stat status{};
  ::fstat(file, &status);
  recorded.add({S_ISDIR(status.st_mode) ? call::sync_folder : call::sync, file, "", ""});
  return real(file);
}

int rename(char const* from, char const* to) noexcept {
  static auto* const real = next_in_line<int(char const*, char const*)>("rename");
  recorded.add({call::rename, -1, from, to});
  return real(from, to);
}

int link(char const* from, char const* to) noexcept {
  static auto* const real = next_in_line<int(char const*, char const*)>("link");
  recorded.add({call::link, -1, from, to});
  return real(from, to);
}

int unlink(char const* name) noexcept {
  static auto* const real = next_in_line<int(char const*)>("unlink");
  recorded.add({call::unlink, -1, name, ""});
  return real(name);
}

}  // extern "C"

namespace {

// ---- What a disk can hold after the power has failed ----

/// A disk after some calls. Unsynchronised data may be there or not.
class disk {
 public:
  disk(std::string const& name, std::string const& content) {
    files_.push_back({content, content});
    names_[name] = kept_names_[name] = 0;
  }

  void get(call const& next) {
    switch (next.what) {
      case call::create:
        open_[next.file] = files_.size();
        names_[next.name] = files_.size();
        files_.emplace_back();
        break;
      case call::write: {
        auto& now = files_[open_.at(next.file)].now;
        now.resize(std::max(now.size(), next.at + next.data.size()));
        now.replace(next.at, next.data.size(), next.data);
        break;
      }
      case call::access: break;
      case call::sync: {
        auto& file = files_[open_.at(next.file)];
        file.kept = file.now;
        break;
      }
      case call::sync_folder: kept_names_ = names_; break;
      case call::rename:
        names_[next.to] = names_.at(next.name);
        names_.erase(next.name);
        break;
      case call::link: names_[next.to] = names_.at(next.name); break;
      case call::unlink: names_.erase(next.name); break;
    }
  }

  /// The content of a file, in each of the four ways in which what is not synchronised can be lost.
  [[nodiscard]] std::vector<std::string> after_power_failure(std::string const& name) const {
    std::vector<std::string> out;
    for (auto const* names : {&names_, &kept_names_})
      for (bool const data_is_lost : {false, true}) {
        auto const found = names->find(name);
        if (found == names->end()) {
          out.emplace_back("none");
          continue;
        }
        auto const& file = files_[found->second];
        out.push_back(data_is_lost ? file.kept : file.now);
      }
    return out;
  }

 private:
  struct contents {
    std::string now, kept;
  };
  std::vector<contents> files_;
  std::map<int, std::size_t> open_;
  std::map<std::string, std::size_t> names_, kept_names_;
};

// ---- The tests ----

constexpr char const* old_text = "what was there";
constexpr char const* new_text = "what is saved";

class Save : public testing::Test {
 protected:
  Save()
      : folder_(fs::temp_directory_path() / ("plait_save_" + std::to_string(::getpid()))),
        path_((folder_ / "name").string()) {
    fs::create_directories(folder_);
    std::ofstream(path_) << old_text;
  }
  ~Save() override { fs::remove_all(folder_); }

  void save() const {
    plait::detail::partial_file file(path_);
    std::string const text = new_text;
    auto const bytes = std::as_bytes(std::span(text));
    file.write(bytes.subspan(5), 5);
    file.write(bytes.first(5), 0);
    file.commit();
  }

  [[nodiscard]] std::vector<call> calls_of_a_save() const {
    recorded = {.on = true};
    save();
    recorded.on = false;
    return recorded.calls;
  }

  /// Returns true if each beginning of these calls leaves one of the two files, and all calls leave
  /// the new one.
  [[nodiscard]] bool is_safe(std::vector<call> const& calls) const {
    disk some(path_, old_text);
    for (auto const& next : calls) {
      some.get(next);
      for (auto const& text : some.after_power_failure(path_))
        if (text != old_text && text != new_text) return false;
    }
    auto const end = some.after_power_failure(path_);
    return std::ranges::count(end, new_text) == std::ssize(end);
  }

  [[nodiscard]] std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(Save, SurvivesAPowerFailureAtAnyTime) {
  auto const calls = calls_of_a_save();
  EXPECT_EQ(content(), new_text);
  std::vector<call::kind> order;
  for (auto const& one : calls) order.push_back(one.what);
  EXPECT_EQ(order, (std::vector<call::kind>{call::create, call::write, call::write, call::access,
                                            call::sync, call::rename, call::sync_folder}));
  EXPECT_TRUE(is_safe(calls));
}

TEST_F(Save, NoneOfItsSynchronisationsCanBeLeftOut) {
  auto const calls = calls_of_a_save();
  for (auto const what : {call::sync, call::sync_folder}) {
    auto fewer = calls;
    EXPECT_EQ(std::erase_if(fewer, [&](call const& one) { return one.what == what; }), 1u);
    EXPECT_FALSE(is_safe(fewer));
  }
  auto early = calls;  // renamed first, synchronised afterwards
  auto const sync = std::ranges::find(early, call::sync, &call::what);
  std::iter_swap(sync, sync + 1);
  EXPECT_FALSE(is_safe(early));
}

// A process that ends before its nth call.
TEST_F(Save, SurvivesTheEndOfTheProgramAtAnyTime) {
  int const calls = static_cast<int>(calls_of_a_save().size());
  for (int n = 0; n <= calls; ++n) {
    std::ofstream(path_) << old_text;
    ::pid_t const child = ::fork();
    if (child == 0) {
      recorded = {.on = true, .calls_left = n};
      save();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), n < calls ? 9 : 0) << n;
    EXPECT_EQ(content(), n > 5 ? new_text : old_text) << n;  // the rename is the sixth
    for (auto const& entry : fs::directory_iterator(folder_)) {
      auto const name = entry.path().filename().string();
      EXPECT_TRUE(name == "name" || (name.starts_with("plait-") && name.ends_with(".partial")))
          << name;
      if (name != "name") fs::remove(entry.path());
    }
  }
}

TEST_F(Save, OfANewFileSurvivesAsWell) {
  fs::remove(path_);
  recorded = {.on = true};
  {
    plait::detail::partial_file file(path_);
    std::string const text = new_text;
    file.write(std::as_bytes(std::span(text)), 0);
    EXPECT_TRUE(file.commit_if_new());
  }
  recorded.on = false;
  disk some("another", "");
  for (auto const& next : recorded.calls) {
    some.get(next);
    for (auto const& text : some.after_power_failure(path_))
      EXPECT_TRUE(text == "none" || text == new_text) << text;
  }
  for (auto const& text : some.after_power_failure(path_)) EXPECT_EQ(text, new_text);
}

}  // namespace
