// SPDX-License-Identifier: Apache-2.0
// test: libs=images alone
// Against Pillow, whose bytes tests/oracle/pictures_reference.py has stored.
#include "plait/data/images/image_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "plait/core/error.hpp"
#include "testing/count_allocations.hpp"

namespace {

using plait::image_fit;
using plait::image_folder;
using words = std::vector<std::string>;

std::filesystem::path pictures() {
  char const* const tests = std::getenv("PLAIT_TESTS");
  return std::filesystem::path(tests == nullptr ? "tests" : tests) / "data" / "pictures";
}

std::string content(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct stored_bytes {
  std::size_t width = 0, height = 0;
  std::vector<int> bytes;
};
stored_bytes stored(std::filesystem::path const& path) {
  std::ifstream file(path);
  stored_bytes out;
  file >> out.width >> out.height;
  for (int byte = 0; file >> byte;) out.bytes.push_back(byte);
  EXPECT_FALSE(out.bytes.empty()) << path;
  return out;
}

class ImageFolder : public testing::Test {
 protected:
  ImageFolder()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_image_folder_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ImageFolder() override { std::filesystem::remove_all(folder_); }

  void add(std::string const& name, std::string const& bytes) const {
    auto const path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void add_stored(std::string const& name, std::string const& picture) const {
    add(name, content(pictures() / picture));
  }

  // The message of the input_error that the call ends with, without the folder's path.
  template <class Call>
  [[nodiscard]] std::string refusal(Call call) const {
    try {
      call();
    } catch (plait::input_error const& problem) {
      std::string text = problem.what();
      for (auto const& before : {folder_.string() + "/", folder_.string()})
        for (std::size_t at = text.find(before); at != text.npos; at = text.find(before))
          text.erase(at, before.size());
      return text;
    }
    return "no input_error";
  }
  [[nodiscard]] std::string opening(plait::ext::image_folder_options const& options = {}) const {
    return refusal([&] { image_folder<3, 13, 21> const data(folder_, options); });
  }
  // Opens a folder that only has this picture; the data of pictures are read later.
  [[nodiscard]] std::string reading(std::string const& name, std::string const& bytes) const {
    std::filesystem::remove_all(folder_ / "a");
    add("a/" + name, bytes);
    return refusal([&] {
      image_folder<3, 13, 21> const data(folder_);
      std::vector<float> out(data.width());
      data.inputs(0, out);
    });
  }

  std::filesystem::path folder_;
};

template <class Data>
std::vector<float> inputs(Data const& data, std::size_t sample) {
  std::vector<float> out(data.width());
  data.inputs(sample, out);
  return out;
}

// The greatest difference between (channels, height, width) and (height, width, channels).
int difference(std::vector<float> const& found, stored_bytes const& expected) {
  std::size_t const pixels = expected.width * expected.height, channels = found.size() / pixels;
  EXPECT_EQ(expected.bytes.size(), found.size());
  if (expected.bytes.size() != found.size()) return 256;
  int most = 0;
  for (std::size_t i = 0; i < pixels; ++i)
    for (std::size_t c = 0; c < channels; ++c) {
      float const value = found[c * pixels + i];
      EXPECT_EQ(value, std::floor(value));
      most = std::max(most, std::abs(static_cast<int>(value) - expected.bytes[i * channels + c]));
    }
  return most;
}

TEST_F(ImageFolder, HasThePicturesThatPillowDecodes) {
  int png = 0, jpeg = 0;
  for (auto const& entry : std::filesystem::directory_iterator(pictures())) {
    auto const name = entry.path().filename().string();
    if (entry.path().extension() != ".rgb") continue;
    std::filesystem::remove_all(folder_ / "a");
    add_stored("a/" + name.substr(0, name.size() - 4), name.substr(0, name.size() - 4));
    image_folder<3, 13, 21> const data(folder_);
    ASSERT_EQ(data.size(), 1u);
    bool const is_png = name.ends_with(".png.rgb");
    // Versions of the library may round an ink or a colour by one level, and a colour of four inks
    // is a product of two.
    bool const has_inks = name.find("ycck") != name.npos || name.find("cmyk") != name.npos;
    EXPECT_LE(difference(inputs(data, 0), stored(entry)), is_png ? 0 : has_inks ? 2 : 1) << name;
    ++(is_png ? png : jpeg);
  }
  EXPECT_EQ(png, 14);
  EXPECT_EQ(jpeg, 11);
}

TEST_F(ImageFolder, OneChannelIsPillowsGrey) {
  for (std::string const name : {"rgb_8.png", "palette_4.png", "grey_8.png"}) {
    std::filesystem::remove_all(folder_ / "a");
    add_stored("a/" + name, name);
    image_folder<1, 13, 21> const data(folder_);
    EXPECT_EQ(difference(inputs(data, 0), stored(pictures() / (name + ".grey"))), 0) << name;
  }
}

template <std::size_t Width, std::size_t Height>
void expect_resized(std::filesystem::path const& folder) {
  auto const name = "rgb_8.png." + std::to_string(Width) + "x" + std::to_string(Height);
  image_folder<3, Height, Width> const data(folder, {.fit = image_fit::resize_and_crop});
  EXPECT_LE(difference(inputs(data, 0), stored(pictures() / name)), 1) << name;
}

TEST_F(ImageFolder, TheMiddleIsResizedAsPillowDoes) {
  add_stored("a/p.png", "rgb_8.png");
  expect_resized<5, 7>(folder_);
  expect_resized<8, 3>(folder_);
  expect_resized<13, 13>(folder_);
  expect_resized<30, 31>(folder_);
  expect_resized<40, 9>(folder_);
  expect_resized<1, 1>(folder_);
  image_folder<3, 13, 21> const same(folder_, {.fit = image_fit::resize_and_crop});
  EXPECT_EQ(difference(inputs(same, 0), stored(pictures() / "rgb_8.png.rgb")), 0);
}

TEST_F(ImageFolder, FoldersAreClassesInTheOrderOfTheirNames) {
  add_stored("dog/2.png", "rgb_8.png");
  add_stored("dog/1.JPG", "full.jpg");
  add_stored("cat/9.jpeg", "grey.jpg");
  add_stored("cat/.hidden", "grey.jpg");
  add(".DS_Store", "x");
  image_folder<3, 13, 21> const data(folder_ / "");
  EXPECT_EQ(data.classes(), (words{"cat", "dog"}));
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data.sequence_length(), 1u);
  EXPECT_EQ(data.width(), 3u * 13 * 21);
  words const files{"cat/9.jpeg", "dog/1.JPG", "dog/2.png"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(data.path(i), folder_ / "" / files[i]);
    std::int32_t of_class = -1;
    data.targets(i, {&of_class, 1});
    EXPECT_EQ(of_class, i == 0 ? 0 : 1);
  }
  EXPECT_EQ(data.description(), "image_folder('" + folder_.filename().string() +
                                    "', 3 x 13 x 21, 3 pictures, 2 classes, 0 skipped)");
  EXPECT_THROW((void)data.path(3), plait::size_mismatch);
}

TEST_F(ImageFolder, WrongFoldersAreRefusedInOneSentence) {
  EXPECT_EQ(opening(),
            "folder of pictures '' contains no folders; it must contain one folder for each class");
  std::string const skip = "; to skip pictures that cannot be used, set .skip_bad = true";
  add("a/.x", "");
  EXPECT_EQ(opening(), "folder of pictures 'a' has no picture" + skip);
  add("a/b.gif", "GIF89a");
  EXPECT_EQ(opening(),
            "picture 'a/b.gif' has a name that does not end with .jpg, .jpeg or .png" + skip);
  EXPECT_EQ(opening({.skip_bad = true}),
            "folder of pictures '' contains no folder that is a class except skipped files, such "
            "as 'a': it "
            "has no picture");
  // The folder given is the parent of the right one.
  add_stored("both/train/p.png", "rgb_8.png");
  EXPECT_EQ(refusal([&] { image_folder<3, 13, 21> const data(folder_, {.skip_bad = true}); }),
            "folder of pictures '' contains no folder that is a class except skipped files, such "
            "as 'a': it "
            "has no picture");
  std::filesystem::remove(folder_ / "a/b.gif");
  EXPECT_EQ(opening(),
            "folder of pictures 'both' contains folders but no picture; if these folders are the "
            "classes, pass this folder to image_folder" +
                skip);
  add_stored("both/p.png", "rgb_8.png");
  EXPECT_EQ(opening(), "picture 'both/train' is a folder inside the folder of a class" + skip);
  std::filesystem::remove_all(folder_ / "both");
  add("a/p.jpg", "XIF89a");
  EXPECT_EQ(opening({.skip_bad = true}),
            "folder of pictures 'a' has no picture except skipped files, such as 'a/p.jpg': it "
            "is neither a JPEG nor a PNG, according to its first bytes");
  std::filesystem::remove(folder_ / "a/p.jpg");
  add("a/b.gif", "GIF89a");
  std::filesystem::remove(folder_ / "a/b.gif");
  add_stored("z.png", "rgb_8.png");
  EXPECT_EQ(opening(), "picture 'z.png' is not in the folder of a class" + skip);
  EXPECT_EQ(refusal([&] { image_folder<3, 13, 21> const data(folder_ / "none"); }),
            "folder of pictures 'none' cannot be read: No such file or directory");
  EXPECT_EQ(refusal([&] { image_folder<3, 13, 21> const data(folder_ / "z.png"); }),
            "folder of pictures 'z.png' cannot be read: Not a directory");
}

// The header of a PNG with this many pixels, followed by garbage.
std::string png_header(std::uint32_t width, std::uint32_t height) {
  std::string out = content(pictures() / "rgb_8.png").substr(0, 33);
  for (std::size_t i = 0; i < 4; ++i) {
    out[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    out[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  std::uint32_t sum = ~0u;  // checksum of the chunk's name and data
  for (std::size_t i = 12; i < 29; ++i) {
    sum ^= static_cast<unsigned char>(out[i]);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1u ? 0xedb88320u : 0u);
  }
  for (std::size_t i = 0; i < 4; ++i) out[29 + i] = static_cast<char>(~sum >> (24 - 8 * i));
  return out + std::string("\0\0\0\0IDAT", 8);
}

TEST_F(ImageFolder, WrongPicturesAreRefusedInOneSentence) {
  std::string const skip = "; to skip pictures that cannot be used, set .skip_bad = true";
  EXPECT_EQ(reading("p.jpg", ""), "picture 'a/p.jpg' is empty" + skip);
  EXPECT_EQ(reading("p.jpg", "XIF89a"),
            "picture 'a/p.jpg' is neither a JPEG nor a PNG, according to its first bytes" + skip);
  EXPECT_EQ(reading("p.jpg", "GIF89a").substr(0, 76),
            "picture 'a/p.jpg' is a picture in another format than JPEG and PNG; convert ");
  EXPECT_EQ(reading("p.jpg", "version https://git-lfs.github.com/spec/v1").substr(0, 45),
            "picture 'a/p.jpg' is a pointer of Git LFS, no");
  add_stored("a/p.jpg", "full.jpg");
  EXPECT_EQ(refusal([&] { image_folder<3, 13, 20> const data(folder_); }),
            "picture 'a/p.jpg' has 21 x 13 pixels, not 20 x 13 (width x height); for pictures of "
            "any size set .fit = plait::image_fit::resize_and_crop" +
                skip);
  auto const jpeg = content(pictures() / "full.jpg");
  EXPECT_EQ(reading("p.jpg", jpeg.substr(0, 900)),
            "picture 'a/p.jpg' cannot be decoded: Premature end of JPEG file" + skip);
  EXPECT_EQ(reading("p.jpg", jpeg.substr(0, 100)),
            "picture 'a/p.jpg' cannot be decoded: Premature end of JPEG file" + skip);
  auto png = content(pictures() / "rgb_8.png");
  EXPECT_EQ(reading("p.png", png.substr(0, 100)),
            "picture 'a/p.png' cannot be decoded: it ends too early" + skip);
  png[60] = static_cast<char>(png[60] + 1);
  EXPECT_EQ(reading("p.png", png),
            "picture 'a/p.png' cannot be decoded: bad adaptive filter value" + skip);
  png[19] = static_cast<char>(png[19] + 1);
  EXPECT_EQ(reading("p.png", png), "picture 'a/p.png' cannot be decoded: IHDR: CRC error" + skip);

  // More pixels than there can be bytes for: refused before there is memory for them.
  add("a/p.jpg", png_header(60000, 60000));
  std::filesystem::remove(folder_ / "a/p.png");
  EXPECT_EQ(
      opening({.fit = image_fit::resize_and_crop}),
      "picture 'a/p.jpg' has 60000 x 60000 pixels according to its header, more than 100000000" +
          skip);
  std::filesystem::create_directories(folder_ / "a/p.png");
  std::filesystem::remove(folder_ / "a/p.jpg");
  EXPECT_EQ(opening(), "picture 'a/p.png' cannot be read: it is not a regular file" + skip);
}

TEST_F(ImageFolder, NoPartOfAPictureIsTakenForTheWhole) {
  for (std::string const name :
       {"rgb_8.png", "rgba_16_interlaced.png", "quarter.jpg", "progressive.jpg", "restarts.jpg"}) {
    auto const whole = content(pictures() / name);
    ASSERT_EQ(reading(name, whole), "no input_error");
    for (std::size_t size = 0; size + 3 < whole.size(); size += size < 64 ? 1 : 7)
      EXPECT_NE(reading(name, whole.substr(0, size)), "no input_error") << name << " " << size;
  }
}

TEST_F(ImageFolder, BadPicturesAreCountedAndNamedBeforeTraining) {
  for (int i = 0; i < 40; ++i) add_stored("a/" + std::to_string(100 + i) + ".jpg", "full.jpg");
  add("a/120.jpg", content(pictures() / "full.jpg").substr(0, 900));
  add("b/1.jpg", "GIF89a");
  add_stored("b/2.png", "rgb_8.png");
  add("b/notes.txt", "");
  add("c/notes.txt", "");
  EXPECT_EQ(opening(),
            "picture 'b/notes.txt' has a name that does not end with .jpg, .jpeg or .png; to "
            "skip pictures that cannot be used, set .skip_bad = true");
  image_folder<3, 13, 21> const data(folder_, {.skip_bad = true});
  EXPECT_EQ(data.size(), 40u);
  EXPECT_EQ(data.classes(), (words{"a", "b"}));
  ASSERT_EQ(data.skipped().size(), 4u);
  EXPECT_EQ(data.skipped()[0].path, folder_ / "b/notes.txt");
  EXPECT_EQ(data.skipped()[1].path, folder_ / "c");
  EXPECT_EQ(data.skipped()[1].reason, "has no picture");
  EXPECT_EQ(data.skipped()[2].path, folder_ / "a/120.jpg");
  EXPECT_EQ(data.skipped()[2].reason, "cannot be decoded: Premature end of JPEG file");
  EXPECT_EQ(data.skipped()[3].path, folder_ / "b/1.jpg");
  EXPECT_EQ(data.path(20), folder_ / "a/121.jpg");
  EXPECT_EQ(data.path(39), folder_ / "b/2.png");
  EXPECT_TRUE(data.description().ends_with("40 pictures, 2 classes, 4 skipped)"));
  for (std::size_t i = 0; i < data.size(); ++i) EXPECT_NO_THROW((void)inputs(data, i));
}

TEST_F(ImageFolder, SeveralThreadsReadWithoutMemoryOfPlaits) {
  words const names{"full.jpg", "progressive.jpg", "rgb_8.png", "rgb_8_interlaced.png"};
  for (auto const& name : names) add_stored("a/" + name, name);
  image_folder<3, 13, 21> const data(folder_);
  image_folder<3, 8, 8> const resized(folder_, {.fit = image_fit::resize_and_crop});
  std::vector<std::vector<float>> alone;
  for (std::size_t i = 0; i < names.size(); ++i) {
    alone.push_back(inputs(data, i));
    alone.push_back(inputs(resized, i));
  }
  std::vector<float> whole(data.width()), small(resized.width());
  long const before = plait_test::allocations.load();
  for (std::size_t i = 0; i < names.size(); ++i) {
    data.inputs(i, whole);
    resized.inputs(i, small);
  }
  EXPECT_EQ(plait_test::allocations.load(), before);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        for (std::size_t i = 0; i < names.size(); ++i) {
          EXPECT_EQ(inputs(data, i), alone[2 * i]);
          EXPECT_EQ(inputs(resized, i), alone[2 * i + 1]);
        }
    });
}

TEST_F(ImageFolder, SamplesAndBuffersAreChecked) {
  add_stored("a/p.png", "rgb_8.png");
  image_folder<3, 13, 21> const data(folder_);
  std::vector<float> two(2), whole(data.width());
  std::vector<std::int32_t> classes(2);
  EXPECT_THROW(data.inputs(1, whole), plait::size_mismatch);
  EXPECT_THROW(data.inputs(0, two), plait::size_mismatch);
  EXPECT_THROW(data.targets(0, classes), plait::size_mismatch);
}

}  // namespace
