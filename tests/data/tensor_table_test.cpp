// SPDX-License-Identifier: Apache-2.0
// test: libs=safetensors
#include "plait/data/tensor_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <unistd.h>

#include "plait/core/error.hpp"
#include "plait/layer/value.hpp"

namespace {

using plait::tensor_table;

struct written {
  std::string name, type, shape, bytes;
};

template <class Number>
std::string bytes_of(std::vector<Number> const& values) {
  return {reinterpret_cast<char const*>(values.data()), values.size() * sizeof(Number)};
}

class TensorTable : public testing::Test {
 protected:
  TensorTable()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_tensor_table_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TensorTable() override { std::filesystem::remove_all(folder_); }

  // The header has an odd length, so that no number is aligned for its type.
  [[nodiscard]] std::filesystem::path file(std::vector<written> const& tensors) const {
    std::string header, data;
    for (auto const& one : tensors) {
      header += (header.empty() ? "{\"" : ",\"") + one.name + "\":{\"dtype\":\"" + one.type +
                "\",\"shape\":[" + one.shape + "],\"data_offsets\":[" +
                std::to_string(data.size()) + "," + std::to_string(data.size() + one.bytes.size()) +
                "]}";
      data += one.bytes;
    }
    header += '}';
    if (header.size() % 2 == 0) header += ' ';
    std::uint64_t const length = header.size();
    std::ofstream out(folder_ / "d.safetensors", std::ios::binary);
    out.write(reinterpret_cast<char const*>(&length), 8) << header << data;
    return folder_ / "d.safetensors";
  }

  template <class Of = tensor_table<float>>
  [[nodiscard]] std::string refusal(std::vector<written> const& tensors, std::string const& x = "x",
                                    std::string const& y = "y") const {
    auto const path = file(tensors);
    try {
      Of const opened(path, x, y);
    } catch (plait::input_error const& problem) {
      std::string const text = problem.what();
      auto const begin = "safetensors file '" + path.string() + "'";
      return text.starts_with(begin) ? text.substr(begin.size()) : text;
    }
    return "no input_error";
  }

  std::filesystem::path folder_;
};

template <class Data>
std::vector<typename Data::element> inputs(Data const& data, std::size_t sample) {
  std::vector<typename Data::element> out(data.width());
  data.inputs(sample, out);
  return out;
}
template <class Data>
std::vector<typename Data::target> targets(Data const& data, std::size_t sample) {
  std::vector<typename Data::target> out(data.target_width());
  data.targets(sample, out);
  return out;
}

// 2 rows of 3 numbers that all types have, and their bits where C++ has no such type.
std::vector<written> const features_of_all_types{
    {"x", "F64", "2,3", bytes_of<double>({0, 1, 2, 100, 5, 7})},
    {"x", "F32", "2,3", bytes_of<float>({0, 1, 2, 100, 5, 7})},
    {"x", "F16", "2,3", bytes_of<std::uint16_t>({0, 0x3c00, 0x4000, 0x5640, 0x4500, 0x4700})},
    {"x", "BF16", "2,3", bytes_of<std::uint16_t>({0, 0x3f80, 0x4000, 0x42c8, 0x40a0, 0x40e0})},
    {"x", "U8", "2,3", bytes_of<std::uint8_t>({0, 1, 2, 100, 5, 7})},
    {"x", "I32", "2,3", bytes_of<std::int32_t>({0, 1, 2, 100, 5, 7})},
    {"x", "I64", "2,3", bytes_of<std::int64_t>({0, 1, 2, 100, 5, 7})}};

TEST_F(TensorTable, FeaturesOfAllTypesAreRead) {
  written const y{"y", "U8", "2", bytes_of<std::uint8_t>({9, 255})};
  for (auto const& x : features_of_all_types) {
    SCOPED_TRACE(x.type);
    tensor_table<float> const data(file({x, y}), "x", "y");
    EXPECT_EQ(data.size(), 2u);
    EXPECT_EQ(data.width(), 3u);
    EXPECT_EQ(data.sequence_length(), 1u);
    EXPECT_EQ(inputs(data, 0), (std::vector<float>{0, 1, 2}));
    EXPECT_EQ(inputs(data, 1), (std::vector<float>{100, 5, 7}));
    EXPECT_EQ(targets(data, 1), (std::vector<std::int32_t>{255}));
    EXPECT_EQ(data.description(),
              "tensor_table('d.safetensors', 'x' " + x.type + " (2, 3), 'y' U8 (2))");
    tensor_table<double> const wide(file({y, x}), "x", "y");
    EXPECT_EQ(inputs(wide, 1), (std::vector<double>{100, 5, 7}));
    tensor_table<float, double> const both(file({x}), "x", "x");
    EXPECT_EQ(targets(both, 1), (std::vector<double>{100, 5, 7}));
  }
}

TEST_F(TensorTable, ClassesAreIntegersOf32Bits) {
  written const x{"x", "U8", "3,1,1", "abc"};
  tensor_table<float> const narrow(
      file({x, {"y", "I32", "3", bytes_of<std::int32_t>({-100, 2147483647, 7})}}), "x", "y");
  EXPECT_EQ(targets(narrow, 0), (std::vector<std::int32_t>{plait::ext::ignored_target}));
  EXPECT_EQ(targets(narrow, 1), (std::vector<std::int32_t>{2147483647}));
  EXPECT_EQ(inputs(narrow, 2), (std::vector<float>{'c'}));
  tensor_table<float> const wide(
      file({x, {"y", "I64", "3,1", bytes_of<std::int64_t>({-100, 2147483647, 7})}}), "x", "y");
  EXPECT_EQ(targets(wide, 1), (std::vector<std::int32_t>{2147483647}));
  EXPECT_EQ(wide.target_width(), 1u);
}

TEST_F(TensorTable, RealTargetsThatAreMissingStayNotNumbers) {
  float const nan = std::numeric_limits<float>::quiet_NaN();
  tensor_table<float, float> const data(
      file({{"x", "U8", "2", "ab"}, {"y", "F32", "2,2", bytes_of<float>({1, nan, -2, 3})}}), "x",
      "y");
  EXPECT_EQ(data.target_width(), 2u);
  EXPECT_TRUE(std::isnan(targets(data, 0)[1]));
  EXPECT_EQ(targets(data, 1), (std::vector<float>{-2, 3}));
}

TEST_F(TensorTable, WrongTensorsAreRefusedInOneSentence) {
  written const x{"x", "U8", "2,3", "abcdef"}, y{"y", "U8", "2", "ab"};
  EXPECT_EQ(refusal({x, y}), "no input_error");
  EXPECT_EQ(refusal({x, y}, "z"), " has no tensor 'z'");
  EXPECT_EQ(
      refusal({x, {"y", "U8", "3", "abc"}}),
      ": tensor 'x' has the shape (2, 3), but 'y' has (3); both must have the same number of rows");
  EXPECT_EQ(refusal({{"x", "U8", "", "a"}, y}),
            ": tensor 'x' has the shape (); it must have one row for each sample, and at least one "
            "number in each row");
  EXPECT_EQ(refusal({{"x", "U8", "0,3", ""}, {"y", "U8", "0", ""}}),
            ": tensor 'x' has the shape (0, 3); it must have one row for each sample, and at least "
            "one number in each row");
  EXPECT_EQ(refusal({{"x", "U8", "2,0", ""}, y}),
            ": tensor 'x' has the shape (2, 0); it must have one row for each sample, and at least "
            "one number in each row");
  EXPECT_EQ(refusal({{"x", "I16", "2", "abcd"}, y}),
            ": tensor 'x' holds I16; only F64, F32, F16, BF16, I64, I32 and U8 can be read as "
            "samples");
  EXPECT_EQ(refusal({x, {"y", "F32", "2", "abcdefgh"}}),
            ": tensor 'y' holds F32, but classes are integers; for targets that are real numbers "
            "write plait::tensor_table<float, float>");
  EXPECT_EQ(refusal({x, {"y", "I64", "2,2", bytes_of<std::int64_t>({1, 2, 3, 1LL << 31})}}),
            ": tensor 'y' has the class 2147483648 in row 1; classes are from -2147483648 to "
            "2147483647");
  EXPECT_EQ((refusal<tensor_table<float, float>>(
                {x, {"y", "I64", "2", bytes_of<std::int64_t>({1, 1LL << 31})}})),
            "no input_error");
  EXPECT_THROW(tensor_table<float>(folder_ / "none", "x", "y"), plait::input_error);
  EXPECT_THROW(tensor_table<float>(folder_, "x", "y"), plait::input_error);
}

TEST_F(TensorTable, ANumberTooLargeForFloatIsRefusedWhenItIsRead) {
  double const infinite = std::numeric_limits<double>::infinity();
  tensor_table<float> const data(
      file({{"x", "F64", "2", bytes_of<double>({infinite, -1e39})}, {"y", "U8", "2", "ab"}}), "x",
      "y");
  EXPECT_TRUE(std::isinf(inputs(data, 0)[0]));
  try {
    (void)inputs(data, 1);
    FAIL();
  } catch (plait::input_error const& problem) {
    EXPECT_TRUE(std::string(problem.what())
                    .ends_with("tensor 'x' has the number -1e+39 in row 1, which is too large for "
                               "float"))
        << problem.what();
  }
}

TEST_F(TensorTable, SamplesAndBuffersAreChecked) {
  tensor_table<float> const data(file({{"x", "U8", "2,3", "abcdef"}, {"y", "U8", "2", "ab"}}), "x",
                                 "y");
  std::vector<float> two(2), three(3);
  std::vector<std::int32_t> classes(2);
  EXPECT_THROW(data.inputs(2, three), plait::size_mismatch);
  EXPECT_THROW(data.inputs(0, two), plait::size_mismatch);
  EXPECT_THROW(data.targets(0, classes), plait::size_mismatch);
}

}  // namespace
