// SPDX-License-Identifier: Apache-2.0
// test: libs=tensorboard seconds=1
#include "plait/observe/tensorboard_log.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace {

namespace fs = std::filesystem;

std::string in_hex(std::string const& bytes) {
  std::string out;
  for (char const letter : bytes) {
    auto const byte = static_cast<unsigned char>(letter);
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// The bytes that RecordWriter and Event of the Python package tensorboard 2.20 write for the same
// numbers.
TEST(TensorboardLog, HasTheBytesOfTensorboard) {
  EXPECT_EQ(in_hex(plait::detail::tensorboard_head(1234.5)),
            "1800000000000000a37f4b220900000000004a93401a0d627261696e2e4576656e743a3265b8d3fb");
  EXPECT_EQ(in_hex(plait::detail::tensorboard_event(1235.25, 0,
                                                    {{"loss", 2.5}, {"term.h.*.router", -0.125}})),
            "300000000000000095f5d05f0900000000004d93402a250a0b0a046c6f737315000020400a160a0f7465"
            "726d2e682e2a2e726f7574657215000000bee292e36d");
  EXPECT_EQ(
      in_hex(plait::detail::tensorboard_event(
          1236, 300, {{"loss", 0.0}, {"gradient_norm", std::numeric_limits<double>::infinity()}})),
      "31000000000000009d8383e909000000000050934010ac022a230a0b0a046c6f737315000000000a140a"
      "0d6772616469656e745f6e6f726d150000807f4087bc9d");
}

struct stand_in {
  int number = 0;
  [[nodiscard]] bool is_root() const { return number == 0; }
  [[nodiscard]] int world_rank() const { return number; }
};

TEST(TensorboardLog, IsAFileOfEventsInAFolder) {
  auto const folder = fs::path(testing::TempDir()) / "plait_tensorboard_log_test" / "runs";
  fs::remove_all(folder);
  for (int rank : {0, 1}) {
    plait::tensorboard_log log(stand_in{rank}, folder);
    log.write(3, {{"loss", 0.5}});
  }
  int files = 0;
  for (auto const& found : fs::directory_iterator(folder)) {
    ++files;
    EXPECT_TRUE(found.path().filename().string().starts_with("events.out.tfevents."));
    std::ifstream in(found.path(), std::ios::binary);
    std::string const bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NE(bytes.find("brain.Event:2"), std::string::npos);
    EXPECT_NE(bytes.find("loss"), std::string::npos);
    EXPECT_EQ(bytes.size(), 40u + 16u + 9u + 2u + 2u + 13u);
  }
  EXPECT_EQ(files, 1);
  fs::remove_all(folder.parent_path());
}

}  // namespace
