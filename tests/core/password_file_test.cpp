// SPDX-License-Identifier: Apache-2.0
#include "plait/core/password_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

namespace fs = std::filesystem;

class PasswordFile : public testing::Test {
 protected:
  PasswordFile() {
    std::string name = fs::temp_directory_path() / "plait-password-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~PasswordFile() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path() const { return folder_ / "password"; }
  void write(std::string_view text, ::mode_t mode = 0600) const {
    std::ofstream(path(), std::ios::binary) << text;
    ::chmod(path().c_str(), mode);
  }
  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(plait::detail::read_password(path()));
      return "";
    } catch (plait::input_error const& problem) {
      return problem.what();
    }
  }

 private:
  fs::path folder_;
};

TEST_F(PasswordFile, HasOneLine) {
  for (std::string const text : {"a", "with a space ", "\xc3\xa4", "'\"\\$"}) {
    write(text);
    EXPECT_EQ(plait::detail::read_password(path()), text);
    write(text + "\n");
    EXPECT_EQ(plait::detail::read_password(path()), text);
  }
  write("a", 0400);
  EXPECT_EQ(plait::detail::read_password(path()), "a");
  write(std::string(1024, 'a') + "\n", 0600);
  EXPECT_EQ(plait::detail::read_password(path()).size(), 1024u);
}

TEST_F(PasswordFile, TellsNothingOfWhatIsWrong) {
  auto const expect = [&](std::string const& words) {
    auto const text = refusal();
    EXPECT_NE(text.find("password file '" + path().native() + "' "), text.npos) << text;
    EXPECT_NE(text.find(words), text.npos) << text;
    EXPECT_EQ(text.find("secret"), text.npos) << text;
  };
  expect("No such file");
  for (std::string const text : {"", "\n"}) {
    write(text);
    expect("is empty");
  }
  for (auto const& text : {std::string("secret\nsecret"), std::string("secret\r\n"),
                           std::string("secret\n\n"), std::string("secret\0", 7)}) {
    write(text);
    expect("is not a password: it has more than one line");
  }
  write("secret" + std::string(1024, 'a'));
  expect("more than 1024 bytes");
  for (::mode_t const mode : {0640u, 0604u, 0620u, 0610u, 0601u}) {
    write("secret", mode);
    expect(
        "may be used by other users; remove that right (chmod 600), and write a new "
        "password into the file, because they may have read this one");
  }
  fs::remove(path());
  fs::create_directory(path());
  expect("is a directory");
  fs::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect("is not a regular file");
}

}  // namespace
