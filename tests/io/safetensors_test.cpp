// SPDX-License-Identifier: Apache-2.0
// test: libs=safetensors
#include "plait/io/safetensors.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace {

using plait::safetensors_entry;
using plait::safetensors_reader;
using plait::safetensors_writer;
using plait::stored_type;

// Written by the Python library safetensors 0.8.0 with numpy:
//   save({"weight": float32 [[1.5, -2, 0.25], [3, 4, -0.5]], "half": float16 [1, -0.5, 6e-8, inf],
//         "wide": float64 [1/3, -2], "steps": int64 7, "none": float32 of shape (0, 3)},
//        metadata={"format": "np"})
constexpr unsigned char written_by_python[]{
    0x48, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7b, 0x22, 0x5f, 0x5f, 0x6d, 0x65, 0x74, 0x61,
    0x64, 0x61, 0x74, 0x61, 0x5f, 0x5f, 0x22, 0x3a, 0x7b, 0x22, 0x66, 0x6f, 0x72, 0x6d, 0x61, 0x74,
    0x22, 0x3a, 0x22, 0x6e, 0x70, 0x22, 0x7d, 0x2c, 0x22, 0x73, 0x74, 0x65, 0x70, 0x73, 0x22, 0x3a,
    0x7b, 0x22, 0x64, 0x74, 0x79, 0x70, 0x65, 0x22, 0x3a, 0x22, 0x49, 0x36, 0x34, 0x22, 0x2c, 0x22,
    0x73, 0x68, 0x61, 0x70, 0x65, 0x22, 0x3a, 0x5b, 0x5d, 0x2c, 0x22, 0x64, 0x61, 0x74, 0x61, 0x5f,
    0x6f, 0x66, 0x66, 0x73, 0x65, 0x74, 0x73, 0x22, 0x3a, 0x5b, 0x30, 0x2c, 0x38, 0x5d, 0x7d, 0x2c,
    0x22, 0x77, 0x69, 0x64, 0x65, 0x22, 0x3a, 0x7b, 0x22, 0x64, 0x74, 0x79, 0x70, 0x65, 0x22, 0x3a,
    0x22, 0x46, 0x36, 0x34, 0x22, 0x2c, 0x22, 0x73, 0x68, 0x61, 0x70, 0x65, 0x22, 0x3a, 0x5b, 0x32,
    0x5d, 0x2c, 0x22, 0x64, 0x61, 0x74, 0x61, 0x5f, 0x6f, 0x66, 0x66, 0x73, 0x65, 0x74, 0x73, 0x22,
    0x3a, 0x5b, 0x38, 0x2c, 0x32, 0x34, 0x5d, 0x7d, 0x2c, 0x22, 0x6e, 0x6f, 0x6e, 0x65, 0x22, 0x3a,
    0x7b, 0x22, 0x64, 0x74, 0x79, 0x70, 0x65, 0x22, 0x3a, 0x22, 0x46, 0x33, 0x32, 0x22, 0x2c, 0x22,
    0x73, 0x68, 0x61, 0x70, 0x65, 0x22, 0x3a, 0x5b, 0x30, 0x2c, 0x33, 0x5d, 0x2c, 0x22, 0x64, 0x61,
    0x74, 0x61, 0x5f, 0x6f, 0x66, 0x66, 0x73, 0x65, 0x74, 0x73, 0x22, 0x3a, 0x5b, 0x32, 0x34, 0x2c,
    0x32, 0x34, 0x5d, 0x7d, 0x2c, 0x22, 0x77, 0x65, 0x69, 0x67, 0x68, 0x74, 0x22, 0x3a, 0x7b, 0x22,
    0x64, 0x74, 0x79, 0x70, 0x65, 0x22, 0x3a, 0x22, 0x46, 0x33, 0x32, 0x22, 0x2c, 0x22, 0x73, 0x68,
    0x61, 0x70, 0x65, 0x22, 0x3a, 0x5b, 0x32, 0x2c, 0x33, 0x5d, 0x2c, 0x22, 0x64, 0x61, 0x74, 0x61,
    0x5f, 0x6f, 0x66, 0x66, 0x73, 0x65, 0x74, 0x73, 0x22, 0x3a, 0x5b, 0x32, 0x34, 0x2c, 0x34, 0x38,
    0x5d, 0x7d, 0x2c, 0x22, 0x68, 0x61, 0x6c, 0x66, 0x22, 0x3a, 0x7b, 0x22, 0x64, 0x74, 0x79, 0x70,
    0x65, 0x22, 0x3a, 0x22, 0x46, 0x31, 0x36, 0x22, 0x2c, 0x22, 0x73, 0x68, 0x61, 0x70, 0x65, 0x22,
    0x3a, 0x5b, 0x34, 0x5d, 0x2c, 0x22, 0x64, 0x61, 0x74, 0x61, 0x5f, 0x6f, 0x66, 0x66, 0x73, 0x65,
    0x74, 0x73, 0x22, 0x3a, 0x5b, 0x34, 0x38, 0x2c, 0x35, 0x36, 0x5d, 0x7d, 0x7d, 0x20, 0x20, 0x20,
    0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5, 0x3f,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x00, 0xc0, 0x3f, 0x00, 0x00, 0x00, 0xc0,
    0x00, 0x00, 0x80, 0x3e, 0x00, 0x00, 0x40, 0x40, 0x00, 0x00, 0x80, 0x40, 0x00, 0x00, 0x00, 0xbf,
    0x00, 0x3c, 0x00, 0xb8, 0x01, 0x00, 0x00, 0x7c};

// While it lives, no file of this process grows beyond this many bytes. It emulates a full disk.
class file_size_limit {
 public:
  explicit file_size_limit(::rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_), 0);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  file_size_limit(file_size_limit const&) = delete;
  file_size_limit& operator=(file_size_limit const&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

class Safetensors : public testing::Test {
 protected:
  Safetensors()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_safetensors_" + std::to_string(::getpid()))),
        path_(folder_ / "model.safetensors") {
    std::filesystem::create_directories(folder_);
  }
  ~Safetensors() override { std::filesystem::remove_all(folder_); }

  void store(std::string const& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  void store(std::string const& header, std::string const& data) const {
    store(with_length(header.size()) + header + data);
  }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::ptrdiff_t files_beside() const {
    return std::ranges::count_if(std::filesystem::directory_iterator(folder_),
                                 [&](auto const& entry) { return entry.path() != path_; });
  }
  static std::string with_length(std::uint64_t length) {
    std::string out;
    for (int i = 0; i < 8; ++i) out += static_cast<char>(length >> (8 * i) & 0xff);
    return out;
  }

  // The message of the input_error that `call` ends with, without the file's name.
  [[nodiscard]] std::string refusal(std::function<void()> const& call) const {
    try {
      call();
    } catch (plait::input_error const& problem) {
      std::string text = problem.what();
      auto const at = text.find("'" + path_.string() + "'");
      EXPECT_NE(at, std::string::npos) << text << " does not name the file";
      return text.substr(std::min(text.size(), at + path_.string().size() + 2));
    }
    return "no input_error";
  }
  [[nodiscard]] std::string refusal_of_file() const {
    return refusal([this] { safetensors_reader const reader(path_); });
  }
  [[nodiscard]] std::string refusal_of_header(std::string const& header,
                                              std::string const& data = "") const {
    store(header, data);
    return refusal_of_file();
  }

  // Reads all there is: any broken file either ends in input_error or is read to its end.
  static bool reads_or_refuses(std::filesystem::path const& path) {
    try {
      safetensors_reader const reader(path);
      for (auto const& name : reader.names()) {
        std::vector<float> values(reader.info(name).elements());
        try {
          reader.read(name, std::span(values));
        } catch (plait::input_error const&) {  // integers
        }
      }
      return true;
    } catch (plait::input_error const& problem) {
      EXPECT_GT(std::string(problem.what()).size(), 20u);
      return false;
    }
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

template <class T>
std::vector<T> read(safetensors_reader const& reader, std::string const& name) {
  std::vector<T> out(reader.info(name).elements());
  reader.read(name, std::span(out));
  return out;
}

std::string python_bytes() {
  return {reinterpret_cast<char const*>(written_by_python), sizeof(written_by_python)};
}

TEST_F(Safetensors, ReadsWhatPythonWrote) {
  store(python_bytes());
  safetensors_reader const reader(path_);
  EXPECT_EQ(reader.metadata(), (std::map<std::string, std::string>{{"format", "np"}}));
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"steps", "wide", "none", "weight", "half"}));
  EXPECT_EQ(reader.info("weight").type, stored_type::f32);
  EXPECT_EQ(reader.info("weight").shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(reader.info("steps").elements(), 1u);
  EXPECT_EQ(read<float>(reader, "weight"), (std::vector<float>{1.5f, -2, 0.25f, 3, 4, -0.5f}));
  EXPECT_EQ(read<double>(reader, "weight"), (std::vector<double>{1.5, -2, 0.25, 3, 4, -0.5}));
  EXPECT_EQ(read<double>(reader, "wide"), (std::vector<double>{1.0 / 3, -2}));
  EXPECT_EQ(read<float>(reader, "wide"), (std::vector<float>{1.0f / 3, -2}));
  EXPECT_EQ(read<double>(reader, "half"),
            (std::vector<double>{1, -0.5, 0x1p-24, std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(read<float>(reader, "none").empty());
  EXPECT_TRUE(reader.contains("half"));
  EXPECT_FALSE(reader.contains("__metadata__"));
}

TEST_F(Safetensors, WhatIsWrittenIsReadBack) {
  std::vector<float> small(6), large(40000);
  std::vector<double> wide(5);
  for (std::size_t i = 0; i < small.size(); ++i) small[i] = 1.0f / static_cast<float>(i + 3);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = 1.0 / static_cast<double>(i + 7);
  std::vector<safetensors_entry> const entries{{"a \"quoted\" name", stored_type::f32, {2, 3}},
                                               {"large", stored_type::f32, {200, 200}},
                                               {"scalar", stored_type::f32, {}},
                                               {"empty", stored_type::f32, {4, 0}},
                                               {"wide", stored_type::f64, {5}}};
  std::map<std::string, std::string> const metadata{{"step", "12"}, {"format", "pt"}};
  {
    safetensors_writer writer(path_, entries, metadata);
    EXPECT_FALSE(std::filesystem::exists(path_));
    writer.write("wide", std::span(wide));
    writer.write("large", std::span<float const>(large));
    std::array<float, 1> const one{-1};
    writer.write("scalar", std::span(one));
    writer.write("a \"quoted\" name", std::span(small));
    writer.commit();
  }
  EXPECT_EQ(files_beside(), 0);
  safetensors_reader const reader(path_);
  EXPECT_EQ(reader.metadata(), metadata);
  EXPECT_EQ(reader.names().size(), 5u);
  EXPECT_EQ(reader.names()[0], "wide");  // wider types first, so that they are aligned
  EXPECT_EQ(reader.info("large").shape, (std::vector<std::size_t>{200, 200}));
  EXPECT_EQ(read<float>(reader, "a \"quoted\" name"), small);
  EXPECT_EQ(read<float>(reader, "large"), large);
  EXPECT_EQ(read<double>(reader, "large"), std::vector<double>(large.begin(), large.end()));
  EXPECT_EQ(read<float>(reader, "scalar"), std::vector<float>{-1});
  EXPECT_EQ(read<double>(reader, "wide"), wide);
  std::string const bytes = content();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes.size(), 8 + length + 5 * 8 + 40007 * 4);
}

TEST_F(Safetensors, Bfloat16IsWrittenAsItIs) {
  std::array<plait::bfloat16, 3> const values{1.0f, -3.140625f, -0x1p127f};
  std::array<float, 1> const one{0.1f};
  {
    safetensors_writer writer(path_, std::vector<safetensors_entry>{{"b", stored_type::bf16, {3}},
                                                                    {"f", stored_type::f32, {1}}});
    writer.write("b", std::span(values));
    writer.write("f", std::span(one));
    EXPECT_EQ(refusal([&] { writer.write("b", std::span(one)); }),
              " needs 3 BF16 elements for tensor 'b', given 1 F32");
    writer.commit();
  }
  safetensors_reader const reader(path_);
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"f", "b"}));
  EXPECT_EQ(read<float>(reader, "b"), (std::vector<float>{1, -3.140625f, -0x1p127f}));
  std::array<std::byte, 4> bytes{};
  reader.read_bytes("b", 2, bytes);
  EXPECT_EQ(std::memcmp(bytes.data(), &values[1], 4), 0);
  EXPECT_EQ(refusal([&] { reader.read_bytes("b", 3, bytes); }),
            ": tensor 'b' has 6 bytes, but 4 from byte 3 on are needed");
}

// Each rectangle of a tensor of four dimensions, against the elements picked one by one.
TEST_F(Safetensors, EveryRectangleIsRead) {
  std::vector<std::size_t> const shape{2, 3, 2, 4};
  std::vector<float> all(48);
  std::vector<plait::bfloat16> small(48);
  for (std::size_t i = 0; i < 48; ++i) small[i] = all[i] = static_cast<float>(i);
  {
    safetensors_writer writer(path_,
                              std::vector<safetensors_entry>{{"b", stored_type::bf16, shape},
                                                             {"s", stored_type::f32, {}},
                                                             {"f", stored_type::f32, shape}});
    writer.write("f", std::span(all));
    writer.write("s", std::span(all).last(1));
    writer.write("b", std::span(small));
    writer.commit();
  }
  safetensors_reader const reader(path_);
  int rectangles = 0;
  std::vector<std::size_t> o(4), e(4);
  std::function<void(std::size_t)> const each = [&](std::size_t axis) {
    if (axis < 4) {
      for (o[axis] = 0; o[axis] <= shape[axis]; ++o[axis])
        for (e[axis] = 0; e[axis] <= shape[axis] - o[axis]; ++e[axis]) each(axis + 1);
      return;
    }
    ++rectangles;
    std::vector<double> expected;
    for (std::size_t a = 0; a < e[0]; ++a)
      for (std::size_t b = 0; b < e[1]; ++b)
        for (std::size_t c = 0; c < e[2]; ++c)
          for (std::size_t d = 0; d < e[3]; ++d)
            expected.push_back(
                static_cast<double>((((o[0] + a) * 3 + o[1] + b) * 2 + o[2] + c) * 4 + o[3] + d));
    std::vector<double> wide(expected.size());
    reader.read_block("f", o, e, std::span(wide));
    ASSERT_EQ(wide, expected);
    std::vector<float> from_small(expected.size());
    reader.read_block("b", o, e, std::span(from_small));
    ASSERT_TRUE(std::ranges::equal(from_small, expected));
  };
  each(0);
  EXPECT_EQ(rectangles, 6 * 10 * 6 * 15);
  std::array<float, 1> one{};
  reader.read_block("s", {}, {}, std::span<float>(one));
  EXPECT_EQ(one[0], 47);
}

TEST_F(Safetensors, AContiguousBlockIsOneRead) {
  auto const runs = [](std::vector<std::size_t> const& shape,
                       std::vector<std::size_t> const& offset,
                       std::vector<std::size_t> const& extent) {
    std::string out;
    plait::detail::for_each_run(shape, offset, extent, [&](std::size_t first, std::size_t count) {
      out += std::to_string(first) + "+" + std::to_string(count) + " ";
    });
    return out;
  };
  EXPECT_EQ(runs({5, 4}, {1, 0}, {3, 4}), "4+12 ");
  EXPECT_EQ(runs({5, 4}, {1, 1}, {3, 2}), "5+2 9+2 13+2 ");
  EXPECT_EQ(runs({2, 3, 4}, {0, 1, 0}, {2, 2, 4}), "4+8 16+8 ");
  EXPECT_EQ(runs({2, 3, 4}, {0, 0, 0}, {2, 3, 4}), "0+24 ");
  EXPECT_EQ(runs({3, 1, 4}, {1, 0, 0}, {2, 1, 4}), "4+8 ");
  EXPECT_EQ(runs({2, 3}, {0, 3}, {2, 0}), "");
  EXPECT_EQ(runs(std::vector<std::size_t>(64, 1), std::vector<std::size_t>(64, 0),
                 std::vector<std::size_t>(64, 1)),
            "0+1 ");
}

TEST_F(Safetensors, RectanglesOutsideAreRefused) {
  store(python_bytes());
  safetensors_reader const reader(path_);
  std::vector<float> values(6);
  auto const refused = [&](std::vector<std::size_t> const& offset,
                           std::vector<std::size_t> const& extent) {
    return refusal([&] { reader.read_block("weight", offset, extent, std::span(values)); });
  };
  EXPECT_EQ(refused({0, 0}, {2, 3}), "no input_error");
  EXPECT_EQ(refused({1, 0}, {2, 3}),
            ": tensor 'weight' has the shape (2, 3), without a rectangle (2, 3) from (1, 0) on");
  EXPECT_EQ(refused({0, ~std::size_t{0}}, {2, 3}),
            ": tensor 'weight' has the shape (2, 3), without a rectangle (2, 3) from (0, "
            "18446744073709551615) on");
  EXPECT_EQ(refused({0}, {2}),
            ": tensor 'weight' has the shape (2, 3), without a rectangle (2) from (0) on");
  EXPECT_EQ(refused({0, 1}, {2, 2}),
            ": tensor 'weight' of shape (2, 3) has 4 elements in its rectangle (2, 2) from (0, 1) "
            "on, but 6 are needed");
  EXPECT_EQ(refusal([&] { reader.read_block("weigh", {}, {}, std::span(values)); }),
            " has no tensor 'weigh'");
}

TEST_F(Safetensors, FilesWithoutTensorsAreFine) {
  {
    safetensors_writer writer(path_, {});
    writer.commit();
  }
  EXPECT_TRUE(safetensors_reader(path_).names().empty());
}

TEST_F(Safetensors, HalfPrecisionIsConvertedExactly) {
  // F16: smallest, largest subnormal, smallest normal, largest, -0, -2, -infinity, not a number.
  std::array<std::uint16_t, 8> const f16{0x0001, 0x03ff, 0x0400, 0x7bff,
                                         0x8000, 0xc000, 0xfc00, 0x7e00};
  std::array<float, 8> const expected{0x1p-24f, 1023 * 0x1p-24f, 0x1p-14f, 65504, -0.0f,
                                      -2,       -INFINITY,       NAN};
  for (std::size_t i = 0; i < 8; ++i) {
    float const got = plait::detail::float_from_f16(f16[i]);
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got));
      continue;
    }
    EXPECT_EQ(got, expected[i]) << i;
    EXPECT_EQ(std::signbit(got), std::signbit(expected[i])) << i;
  }
  store(R"({"b":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})",
        std::string("\x80\x3f\x49\xc0\x00\xff", 6));
  EXPECT_EQ(read<float>(safetensors_reader(path_), "b"),
            (std::vector<float>{1, -3.140625f, -0x1p127f}));
}

TEST_F(Safetensors, NumbersThatDoNotFitAreRefused) {
  std::array<double, 3> const values{1, 1e300, -std::numeric_limits<double>::infinity()};
  {
    safetensors_writer writer(path_, std::vector{safetensors_entry{"a", stored_type::f64, {3}}});
    writer.write("a", std::span(values));
    writer.commit();
  }
  safetensors_reader const reader(path_);
  EXPECT_EQ(read<double>(reader, "a"), std::vector<double>(values.begin(), values.end()));
  EXPECT_EQ(refusal([&] { (void)read<float>(reader, "a"); }),
            ": tensor 'a' holds a number that is too large for float");
}

// The room is taken before the work.
TEST_F(Safetensors, ADiskThatIsTooSmallIsFoundAtOnce) {
  file_size_limit const limit(4096);
  EXPECT_EQ(refusal([&] {
              safetensors_writer const writer(
                  path_, std::vector{safetensors_entry{"a", stored_type::f32, {10000}}});
            }),
            " cannot be written: File too large");
  EXPECT_EQ(files_beside(), 0);
}

TEST_F(Safetensors, WrongRequestsNameTensorAndNumbers) {
  store(python_bytes());
  safetensors_reader const reader(path_);
  std::vector<float> values(5);
  EXPECT_EQ(refusal([&] { reader.read("weight", std::span(values)); }),
            ": tensor 'weight' has 6 elements (2, 3), but 5 are needed");
  EXPECT_EQ(refusal([&] { reader.read("weigh", std::span(values)); }), " has no tensor 'weigh'");
  EXPECT_EQ(refusal([&] { (void)reader.info("weigh"); }), " has no tensor 'weigh'");
  EXPECT_EQ(refusal([&] { (void)read<float>(reader, "steps"); }),
            ": tensor 'steps' holds I64; only F64, F32, BF16 and F16 can be read as numbers");
  std::array<std::size_t, 2> const wrong{3, 2}, right{2, 3};
  EXPECT_EQ(refusal([&] { reader.expect_shape("weight", wrong); }),
            ": tensor 'weight' has the shape (2, 3), but (3, 2) is needed");
  EXPECT_EQ(refusal([&] { reader.expect_shape("weight", right); }), "no input_error");
}

TEST_F(Safetensors, FilesThatAreNoneAreRefused) {
  EXPECT_EQ(refusal_of_file(), " cannot be read: No such file or directory");
  store("");
  EXPECT_EQ(refusal_of_file(), " has 0 bytes, too few for a header");
  store("1234567");
  EXPECT_EQ(refusal_of_file(), " has 7 bytes, too few for a header");
  store(with_length(3) + "{}");
  EXPECT_EQ(refusal_of_file(), " states that its header has 3 bytes, but only 2 follow");
  store(with_length(~std::uint64_t{0}) + "{}");
  EXPECT_EQ(refusal_of_file(),
            " states that its header has 18446744073709551615 bytes, but only 2 follow");
  store(with_length(100'000'001) + "{}");
  std::filesystem::resize_file(path_, 8 + 100'000'001);
  EXPECT_EQ(refusal_of_file(), " has a header of 100000001 bytes; at most 100000000 are allowed");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(refusal_of_file(), " cannot be read: it is a directory");
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);  // it has no writer: opening it must not wait
  EXPECT_EQ(refusal_of_file(), " cannot be read: it is not a regular file");
}

TEST_F(Safetensors, HeadersThatAreNotOfTheFormatAreRefused) {
  EXPECT_EQ(refusal_of_header(""), " has a header that does not begin with '{'");
  EXPECT_EQ(refusal_of_header("[]"), " has a header that does not begin with '{'");
  EXPECT_EQ(refusal_of_header(" {}"), " has a header that does not begin with '{'");
  EXPECT_EQ(refusal_of_header("{]"), " has a header that is not JSON (at its byte 2)");
  EXPECT_EQ(refusal_of_header("{\"\xff\":1}"), " has a header that is not JSON (at its byte 3)");
  EXPECT_EQ(refusal_of_header(std::string("{}\0 more", 8)),
            " has a header that is not JSON (at its byte 3)");
  EXPECT_EQ(refusal_of_header("{}x"), " has a header that is not JSON (at its byte 3)");
  EXPECT_EQ(refusal_of_header(R"({"a":{"shape":[1e400]}})"),
            " has a header that is not JSON (at its byte 20)");
  for (std::string const deep : {"[", "{\"a\":", "{\"shape\":["}) {
    std::string header = "{\"a\":";
    for (int i = 0; i < 300000; ++i) header += deep;
    EXPECT_NE(refusal_of_header(header), "no input_error");
  }
  EXPECT_EQ(refusal_of_header(R"({"__metadata__":[]})"),
            " has a __metadata__ that is not an object");
  EXPECT_EQ(refusal_of_header(R"({"__metadata__":{"a":1}})"),
            " has a __metadata__ whose 'a' is not a string");
  std::string const tensor = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(refusal_of_header("{\"a\":" + tensor + ",\"a\":" + tensor + "}"),
            " names 'a' twice in its header");
  EXPECT_EQ(refusal_of_header(R"({"__metadata__":{},"__metadata__":{}})"),
            " names '__metadata__' twice in its header");
  EXPECT_EQ(refusal_of_header(R"({"__metadata__":{"k":"","k":""}})"),
            " names 'k' twice in its header");
  EXPECT_EQ(refusal_of_header(R"({"a":{"dtype":"F32","dtype":"F32"}})"),
            " names 'dtype' twice in its header");
  EXPECT_EQ(refusal_of_header("{\"a\":" + tensor + "}"), "no input_error");
  EXPECT_EQ(refusal_of_header("{}", "x"), " has 1 bytes of data, but its tensors end at 0");
}

TEST_F(Safetensors, TensorsThatAreNotOfTheFormatAreRefused) {
  auto const refused = [&](std::string const& tensor, std::string const& data = "12345678") {
    return refusal_of_header("{\"a\":" + tensor + "}", data);
  };
  std::string const fields =
      ": tensor 'a' must be described by dtype, shape and data_offsets, "
      "and nothing else";
  EXPECT_EQ(refused("1"), fields);
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[2]})"), fields);
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[2],"offsets":[0,8]})"), fields);
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"), fields);
  EXPECT_EQ(refused(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})"),
            ": tensor 'a' has a dtype that is not a string");
  EXPECT_EQ(refused(R"({"dtype":"F33","shape":[65],"data_offsets":[0,8]})"),
            ": tensor 'a' has 8 bytes of data for 65 elements, which is less than one bit for each "
            "element");
  EXPECT_EQ(refused(R"({"dtype":"F33","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
            ": tensor 'a' has the shape (4294967296, 4294967296), which overflows");
  for (std::string const shape :
       {"2", "[-2]", "[2.0]", "[\"2\"]", "[2e0]", "[36893488147419103232]", "{}", "null", "[null]"})
    EXPECT_EQ(refused(R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,8]})"),
              ": tensor 'a' has a shape that is not a list of sizes")
        << shape;
  for (std::string const offsets : {"8", "[8]", "[0,4,8]", "[-1,8]", "[0,8.0]", "[]"})
    EXPECT_EQ(refused(R"({"dtype":"F32","shape":[2],"data_offsets":)" + offsets + "}"),
              ": tensor 'a' has data_offsets that are not two positions")
        << offsets;
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
            ": tensor 'a' has the shape (4294967296, 4294967296), which overflows");
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]})"),
            ": tensor 'a' has the shape (4611686018427387906), which overflows");
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[2],"data_offsets":[0,9]})"),
            ": tensor 'a' has data_offsets 0 to 9; the file has 8 bytes of data");
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
            ": tensor 'a' has data_offsets 8 to 0; the file has 8 bytes of data");
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            ": tensor 'a' has 8 bytes of data; F32 of shape (3) needs 12");
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
            " has 8 bytes of data, but its tensors end at 4");
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
            ": tensor 'a' begins at byte 4 of the data, but the tensors before it end at 0");
  EXPECT_EQ(refusal_of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                              "12345"),
            ": tensor 'b' begins at byte 3 of the data, but the tensors before it end at 4");
  EXPECT_EQ(refused(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), "no input_error");
}

// A header of the full length must not take memory and time out of proportion.
TEST_F(Safetensors, ATensorOfAnUnknownTypeIsRefusedWhenItIsRead) {
  store(R"({"c":{"dtype":"C64","shape":[2],"data_offsets":[0,16]},)"
        R"("w":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})",
        std::string("1234567890123456\0\0\x80\x3f\0\0\0\xc0", 24));
  safetensors_reader const reader(path_);
  EXPECT_EQ(read<float>(reader, "w"), (std::vector<float>{1, -2}));
  EXPECT_EQ(reader.info("c").type, stored_type::unknown);
  EXPECT_EQ(reader.info("c").type_name(), "C64");
  EXPECT_EQ(reader.info("c").bytes(), 16u);
  std::vector<float> out(2);
  EXPECT_EQ(refusal([&] { reader.read("c", std::span(out)); }),
            ": tensor 'c' holds C64; only F64, F32, BF16 and F16 can be read as numbers");
  std::vector<std::byte> bytes(16);
  reader.read_bytes("c", 0, bytes);
  EXPECT_EQ(bytes[15], std::byte{'6'});
}

// The first bytes of files that people mistake for safetensors files, as programs write them.
TEST_F(Safetensors, AFileOfAnotherKindIsCalledWhatItIs) {
  auto const is = [this](std::string bytes) {
    bytes.resize(std::max<std::size_t>(bytes.size(), 100), '\n');
    store(bytes);
    auto const text = refusal_of_file();
    return text.substr(0, text.find_first_of(";,"));
  };
  auto const zip = [](std::string const& first) {
    return std::string("PK\3\4") + std::string(22, '\0') + static_cast<char>(first.size()) +
           std::string(3, '\0') + first;
  };
  EXPECT_EQ(is("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"),
            " is a pointer of Git LFS");
  EXPECT_EQ(is(zip("archive/data.pkl")), " is a file that torch.save has written");
  EXPECT_EQ(is("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
            " is a file that torch.save has written");
  EXPECT_EQ(is("\x80\x04\x95\x10."), " is a pickle of Python");
  EXPECT_EQ(is(zip("x.npy")), " is an archive of arrays of NumPy (.npz)");
  EXPECT_EQ(is(zip("[Content_Types].xml")), " is a workbook of Excel");
  EXPECT_EQ(is(zip("readme.txt")), " is a zip archive");
  EXPECT_EQ(is("\x93NUMPY\x01"), " is an array of NumPy (.npy)");
  EXPECT_EQ(is("\x1f\x8b\x08."), " is compressed by gzip");
  // Without a time its first bytes are a small number, as in safetensors files.
  EXPECT_EQ(is(std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10) + std::string(600'000, 'x')),
            " is compressed by gzip");
  EXPECT_EQ(is("\x89HDF\r\n\x1a\n"), " is an HDF5 file");
  EXPECT_EQ(is("GGUF\x03"), " is a GGUF file of llama.cpp");
  EXPECT_EQ(is(std::string("\0\5\x16\7\0\2", 6)), " is an AppleDouble file");
  EXPECT_EQ(is("\n<!doctype HTML>"), " is a page in HTML");
  EXPECT_EQ(is("{\"weight_map\": {}}"), " is a text in JSON");
  EXPECT_EQ(is("no weights at all").substr(0, 28), " states that its header has ");
  auto const moved = folder_ / "__0_0.distcp";
  std::filesystem::rename(path_, moved);
  path_ = moved;
  EXPECT_EQ(is(zip("archive/data.pkl")),
            " is a part of what torch.distributed.checkpoint has written");
  // The command names the user's own files.
  path_ = folder_ / "pytorch_model.bin";
  store(zip("archive/data.pkl"));
  auto const text = refusal_of_file();
  EXPECT_NE(text.find("' '" + path_.string() + "' '" +
                      (folder_ / "pytorch_model.safetensors").string() + "'"),
            std::string::npos)
      << text;
}

TEST_F(Safetensors, HeadersAreBounded) {
  std::string const tensor = R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  auto const many = [](int count, auto const& one) {
    std::string out = "{";
    for (int i = 0; i < count; ++i) out += (i == 0 ? "" : ",") + one(std::to_string(i));
    return out + "}";
  };
  auto const text = [](std::string const& name) { return "\"" + name + "\":\"\""; };
  EXPECT_EQ(refusal_of_header("{\"__metadata__\":" + many(100'000, text) + "}"), "no input_error");
  EXPECT_EQ(refusal_of_header("{\"__metadata__\":" + many(100'001, text) + "}"),
            " has more than 100000 metadata entries");
  auto const entry = [&](std::string const& name) { return "\"" + name + tensor; };
  EXPECT_EQ(refusal_of_header(many(300'001, entry)), " has more than 300000 tensors");
  std::string shape = "[1";
  for (int i = 1; i < 64; ++i) shape += ",1";
  auto const with = [](std::string const& sizes) {
    return R"({"a":{"dtype":"U8","shape":)" + sizes + R"(,"data_offsets":[0,1]}})";
  };
  EXPECT_EQ(refusal_of_header(with(shape + "]"), "x"), "no input_error");
  EXPECT_EQ(refusal_of_header(with(shape + ",1]"), "x"),
            ": tensor 'a' has a shape of more than 64 sizes");
}

TEST_F(Safetensors, LongAndStrangeNamesStayOneSentence) {
  std::string const text =
      refusal_of_header("{\"" + std::string(5000, 'n') + "\":1,\"line\\nbreak\":2}");
  EXPECT_LT(text.size(), 300u);
  EXPECT_EQ(refusal_of_header(R"({"line\nbreak":2})").find('\n'), std::string::npos);
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  std::string const whole = python_bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    store(whole.substr(0, size));
    EXPECT_FALSE(reads_or_refuses(path_)) << size << " bytes of " << whole.size();
  }
  store(whole + "x");
  EXPECT_FALSE(reads_or_refuses(path_));
  store(whole);
  EXPECT_TRUE(reads_or_refuses(path_));
}

TEST_F(Safetensors, ChangedBytesNeverCrash) {
  std::string const whole = python_bytes();
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int const change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      store(changed);
      refused += reads_or_refuses(path_) ? 0 : 1;
    }
  EXPECT_GT(refused, 1500);
}

TEST_F(Safetensors, AFileThatShrinksWhileOpenIsAnError) {
  store(python_bytes());
  safetensors_reader const reader(path_);
  std::filesystem::resize_file(path_, 100);
  EXPECT_NE(refusal([&] { (void)read<float>(reader, "weight"); }), "no input_error");
}

TEST_F(Safetensors, WithoutCommitNothingIsWritten) {
  store("what was there");
  std::array<float, 2> const two{1, 2};
  {
    safetensors_writer writer(path_, std::vector{safetensors_entry{"a", stored_type::f32, {2}}});
    writer.write("a", std::span(two));
    EXPECT_EQ(files_beside(), 1);
  }
  EXPECT_EQ(content(), "what was there");
  EXPECT_EQ(files_beside(), 0);
}

TEST_F(Safetensors, WrongWritesAreRefused) {
  std::vector<safetensors_entry> const entries{{"a", stored_type::f32, {2}},
                                               {"b", stored_type::f64, {1}}};
  std::array<float, 2> const two{1, 2};
  safetensors_writer writer(path_, entries);
  EXPECT_EQ(refusal([&] { writer.write("c", std::span(two)); }), " has no tensor 'c' to write");
  EXPECT_EQ(refusal([&] { writer.write("a", std::span(two).first(1)); }),
            " needs 2 F32 elements for tensor 'a', given 1 F32");
  EXPECT_EQ(refusal([&] { writer.write("b", std::span(two).first(1)); }),
            " needs 1 F64 elements for tensor 'b', given 1 F32");
  writer.write("a", std::span(two));
  EXPECT_EQ(refusal([&] { writer.commit(); }), " cannot be completed: tensor 'b' was not written");
  EXPECT_FALSE(std::filesystem::exists(path_));

  auto const refused = [&](safetensors_entry const& entry) {
    return refusal([&] {
      safetensors_writer(path_, std::vector{safetensors_entry{"a", stored_type::f32, {2}}, entry});
    });
  };
  EXPECT_EQ(refused({"a", stored_type::f64, {1}}),
            ": tensor 'a' has the same name as another tensor");
  EXPECT_EQ(refused({"__metadata__", stored_type::f64, {1}}),
            ": tensor '__metadata__' has the same name as another tensor");
  EXPECT_EQ(refused({"i", stored_type::i64, {1}}),
            ": tensor 'i' is of type I64, not F64, F32 or BF16");
  EXPECT_EQ(refused({"d", stored_type::f32, std::vector<std::size_t>(65, 1)}),
            ": tensor 'd' has a shape of more than 64 sizes");
  EXPECT_EQ(refused({"l", stored_type::f64, {std::size_t{1} << 62}}),
            ": tensor 'l' is too large, its shape is (4611686018427387904)");
  EXPECT_EQ(refused({"\xff", stored_type::f32, {1}}),
            " cannot be written: a name or a metadata entry is not UTF-8");
}

TEST_F(Safetensors, PlacesThatCannotBeWrittenAreRefused) {
  auto const refused = [](std::string const& path) -> std::string {
    try {
      safetensors_writer writer(path, {});
      writer.commit();
    } catch (plait::input_error const& problem) {
      return problem.what();
    }
    return "no input_error";
  };
  std::string const nowhere = (folder_ / "missing" / "x").string();
  EXPECT_EQ(refused(nowhere), "safetensors file '" + nowhere + "' cannot be written: folder '" +
                                  (folder_ / "missing").string() +
                                  "' does not exist; make it first");
  EXPECT_EQ(refused(folder_.string()),
            "safetensors file '" + folder_.string() +
                "' cannot be written: it exists and is not a regular file");
  EXPECT_EQ(refused("/dev/null"),
            "safetensors file '/dev/null' cannot be written: it exists and is not a regular file");
  EXPECT_NE(refused("/proc/plait.safetensors"), "no input_error");
}

TEST_F(Safetensors, AFullDiskLeavesWhatWasThere) {
  store("what was there");
  {
    file_size_limit const limit(4096);
    EXPECT_NE(refusal([&] {
                safetensors_writer const writer(
                    path_, std::vector{safetensors_entry{"a", stored_type::f32, {10000}}});
              }),
              "no input_error");
  }
  EXPECT_EQ(content(), "what was there");
  EXPECT_EQ(files_beside(), 0);
}

}  // namespace
