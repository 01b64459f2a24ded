// SPDX-License-Identifier: Apache-2.0
#include "plait/core/file_kind.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace {

using plait::detail::file_kind;
using namespace std::string_literals;

/// Returns the beginning of a zip archive whose first entry has this name.
std::string zip_with(std::string_view entry) {
  auto out = "PK\x03\x04"s;
  out.resize(30);
  out[26] = static_cast<char>(entry.size());
  return out.append(entry);
}

struct beginning {
  std::string bytes;
  file_kind kind;
};

TEST(FileKind, IsKnownByTheFirstBytesHoweverFewThereAre) {
  beginning const all[]{{"BM\x46\0\0\0\0\0\0\0"s, file_kind::other_picture},
                        {"RIFF\x10\0\0\0WEBP"s, file_kind::other_picture},
                        {std::string(257, 'a') + "ustar", file_kind::tar},
                        {"\x10\0\0\0\0\0\0\0{}"s, file_kind::safetensors},
                        {"\x80\x02\0\0\0\0\0\0{"s, file_kind::safetensors},
                        {zip_with("xl/workbook.xml"), file_kind::excel},
                        {zip_with("model/data.pkl"), file_kind::torch},
                        {"\xef\xbb\xbf \n<!DOCTYPE html>"s, file_kind::html},
                        {" {\"a\": 1}"s, file_kind::json},
                        {"version https://git-lfs.github.com/"s, file_kind::git_lfs_pointer}};
  for (auto const& one : all) {
    EXPECT_EQ(plait::detail::kind_of_file(one.bytes + "more", "f"), one.kind) << one.bytes;
    for (std::size_t size = 0; size < one.bytes.size(); ++size)
      EXPECT_NO_THROW((void)plait::detail::kind_of_file(one.bytes.substr(0, size), "f"))
          << size << " bytes of " << one.bytes;
  }
}

// The first letters of some kinds may begin a text, or the name of a column.
TEST(FileKind, ATextMayBeginAsAnotherKind) {
  using plait::detail::file_use, plait::detail::other_kind_text;
  EXPECT_EQ(other_kind_text("PAR1,y\n1,2\n", "t.csv", file_use::table), "");
  EXPECT_EQ(other_kind_text("GGUF is a format\n", "t", file_use::text), "");
  EXPECT_NE(other_kind_text("PAR1\x15\x04", "t.csv", file_use::table), "");
  EXPECT_NE(other_kind_text("GGUF\x03\0\0\0"s, "t", file_use::text), "");
}

TEST(FileKind, ACommandDoesNotWriteOverTheFile) {
  using plait::detail::file_use, plait::detail::text_of_kind;
  EXPECT_TRUE(
      text_of_kind(file_kind::excel, "s.csv", file_use::table).ends_with("'s.csv' 's.csv.csv'"));
  EXPECT_TRUE(
      text_of_kind(file_kind::excel, "s.xlsx", file_use::table).ends_with("'s.xlsx' 's.csv'"));
}

}  // namespace
