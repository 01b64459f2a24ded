// SPDX-License-Identifier: Apache-2.0
#include "plait/data/table.hpp"

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
#include "plait/data/loader.hpp"
#include "plait/layer/value.hpp"

namespace {

using plait::table;
using plait::table_options;
using words = std::vector<std::string>;

class Table : public testing::Test {
 protected:
  Table()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_table_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Table() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path file(std::string const& text) const {
    std::ofstream(folder_ / "t.csv", std::ios::binary) << text;
    return folder_ / "t.csv";
  }

  // The message of the input_error that opening the file ends with, behind its name.
  template <class Of = table<float, float>>
  [[nodiscard]] std::string refusal(std::string const& text,
                                    table_options const& options = {.targets = {"y"}}) const {
    auto const path = file(text);
    try {
      Of const opened(path, options);
    } catch (plait::input_error const& problem) {
      std::string const message = problem.what(), begin = "table '" + path.string() + "'";
      return message.starts_with(begin) ? message.substr(begin.size()) : message;
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

TEST_F(Table, ColumnsAreFeaturesOrTargets) {
  table<double, double> const data(
      file("a,price,b,note,area\r\n1,2.5,-3,,1e3\r\n\r\n\"4\",5, +6 ,\"x\"\"\ny\",.5\r\n"),
      {.targets = {"area", "price"}, .ignored = {"note"}});
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(data.feature_names(), (words{"a", "b"}));
  EXPECT_EQ(data.target_width(), 2u);
  EXPECT_EQ(data.sequence_length(), 1u);
  EXPECT_EQ(inputs(data, 0), (std::vector<double>{1, -3}));
  EXPECT_EQ(targets(data, 0), (std::vector<double>{1000, 2.5}));
  EXPECT_EQ(inputs(data, 1), (std::vector<double>{4, 6}));
  EXPECT_EQ(targets(data, 1), (std::vector<double>{0.5, 5}));
  EXPECT_EQ(data.description(), "table('t.csv', 2 rows, 2 features, 2 targets)");
}

TEST_F(Table, WordsOfAClassColumnBecomeNumbers) {
  table<float> const data(file("kind,x\nred,1\n\"blue, dark\",2\n,3\nred,4\n"),
                          {.targets = {"kind"}});
  EXPECT_EQ(data.classes(), (words{"blue, dark", "red"}));
  EXPECT_EQ(targets(data, 0), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(targets(data, 1), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(targets(data, 2), (std::vector<std::int32_t>{plait::ext::ignored_target}));
  EXPECT_EQ(targets(data, 3), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(data.description(), "table('t.csv', 4 rows, 1 feature, 2 classes)");
}

TEST_F(Table, ClassesThatAreNumbersAreInTheirOrder) {
  std::string text;
  for (int i = 11; i >= 0; --i) text += "0;" + std::to_string(i) + "\n";
  table<float> const data(file(text), {.targets = {"1"}, .separator = ';', .header = false});
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(targets(data, static_cast<std::size_t>(11 - i)), (std::vector<std::int32_t>{i}));
  EXPECT_EQ(data.classes()[10], "10");
}

TEST_F(Table, AnotherTablesClassesKeepTheirNumbers) {
  table_options const options{.targets = {"1"}, .classes = {"dog", "cat", "ape"}, .header = false};
  table<float> const data(file("1,cat\n2,dog\n"), options);
  EXPECT_EQ(data.classes(), options.classes);
  EXPECT_EQ(targets(data, 0), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(targets(data, 1), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(refusal<table<float>>("1,cat\n2,cow\n", options),
            ": line 2 has the class 'cow' in the column '1', which is none of "
            "table_options::classes: 'dog', 'cat', 'ape'");
}

TEST_F(Table, AMissingNumberIsReplacedOrNoTarget) {
  table<float, float> const data(file("x,y\n,\nnan, \n3,4\n"), {.targets = {"y"}, .missing = -1.5});
  EXPECT_EQ(inputs(data, 0), (std::vector<float>{-1.5F}));
  EXPECT_EQ(inputs(data, 1), (std::vector<float>{-1.5F}));
  EXPECT_EQ(inputs(data, 2), (std::vector<float>{3}));
  EXPECT_TRUE(std::isnan(targets(data, 0)[0]));
  EXPECT_TRUE(std::isnan(targets(data, 1)[0]));
}

// The same number whatever way it is written, to the last bit.
TEST_F(Table, NumbersAreTheNearestOnes) {
  table<double, double> const data(
      file("x,y\n0.1,1\n1.7976931348623157e308,1\n4.9e-324,1\n0.30000000000000004,1\n-0,1\n"),
      {.targets = {"y"}});
  EXPECT_EQ(inputs(data, 0)[0], 0.1);
  EXPECT_EQ(inputs(data, 1)[0], std::numeric_limits<double>::max());
  EXPECT_EQ(inputs(data, 2)[0], std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(inputs(data, 3)[0], 0.1 + 0.2);
  EXPECT_TRUE(std::signbit(inputs(data, 4)[0]));
}

TEST_F(Table, LongTablesKeepTheirRows) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 5000; ++i)
    text += std::to_string(i) + "," + std::to_string(0.5 * i) + "," + std::to_string(-i) + "\n";
  table<float, float> const data(file(text), {.targets = {"y"}});
  ASSERT_EQ(data.size(), 5000u);
  for (std::size_t i = 0; i < 5000; ++i) {
    auto const number = static_cast<float>(i);
    ASSERT_EQ(inputs(data, i), (std::vector<float>{number, number / 2}));
    ASSERT_EQ(targets(data, i), (std::vector<float>{-number}));
  }
  plait::ext::loader<table<float, float>> one(data);
  EXPECT_NE(one.fingerprint(), 0u);
}

TEST_F(Table, BadRowsAreRefusedInOneSentence) {
  EXPECT_EQ(refusal(""), " has no rows: it is empty");
  EXPECT_EQ(refusal("\n\r\n"), " has no rows: it is empty");
  EXPECT_EQ(refusal("x,y\n"), " has no rows behind its header");
  EXPECT_EQ(refusal("x,y\n1,2\n\n1,2,3\n"), ": line 4 has 3 cells, but the header has 2");
  EXPECT_EQ(refusal("1,2\n3\n", {.targets = {"1"}, .header = false}),
            ": line 2 has 1 cells, but the first row has 2");
  EXPECT_EQ(refusal("x,y\n1,2\n1.5.2,2\n"),
            ": line 3 has '1.5.2' in the column 'x', which is no number");
  EXPECT_EQ(refusal("x,y\n1,two\n"), ": line 2 has 'two' in the column 'y', which is no number");
  for (auto const* const cell :
       {"0x10", "1_000", "1 2", "+-1", "+", "-", ".", "e5", "1e", "nan1", "--1", "1\x01", "\xef"})
    EXPECT_TRUE(refusal("x,y\n" + std::string(cell) + ",1\n").ends_with("which is no number"))
        << cell;
  EXPECT_EQ(refusal("x,y\ninf,2\n"),
            ": line 2 has 'inf' in the column 'x', which is no finite number of 32 bits");
  EXPECT_EQ(refusal("x,y\n1e39,2\n"),
            ": line 2 has '1e39' in the column 'x', which is no finite number of 32 bits");
  EXPECT_EQ((refusal<table<double, double>>("x,y\n1e39,2\n")), "no input_error");
  EXPECT_EQ(refusal("x,y\n1e999,2\n"),
            ": line 2 has '1e999' in the column 'x', which is too large or too small for a number "
            "of 64 bits");
  EXPECT_EQ(refusal("x,y\n1,2\n,2\n"),
            ": line 3 has '' in the column 'x', which is missing; give table_options::missing a "
            "number to stand for it");
  EXPECT_EQ(refusal("x,y\n1,\"2\n"), ": line 2 begins a quoted cell that does not end (cell 2)");
  EXPECT_EQ(refusal("x,y\n1,\"2\"2\n"), ": line 2 has more behind the quote that ends cell 2");
  EXPECT_EQ(refusal("x,y\n\x1b[31m,2\n"),
            ": line 2 has '\\x1b[31m' in the column 'x', which is no number");
  EXPECT_EQ(refusal<table<float>>("x,y\n1,\n2,\n"),
            " has no class in the column 'y': all its cells are empty");
}

TEST_F(Table, BadColumnsAreRefusedInOneSentence) {
  EXPECT_EQ(refusal("x, y\n1,2\n"), " has no column 'y'; its columns are 'x', ' y'");
  std::string wide = "0";
  for (int i = 1; i < 23; ++i) wide += "," + std::to_string(i);
  EXPECT_EQ(refusal(wide + "\n"),
            " has no column 'y'; its columns are '0', '1', '2', '3', '4', '5', '6', '7', '8', "
            "'9', '10', '11', '12', '13', '14', '15', '16', '17', '18', '19' and 3 more");
  EXPECT_EQ(refusal("y,x,y\n1,2,3\n"), " has two columns 'y', number 0 and number 2");
  EXPECT_EQ(refusal("y\n1\n"),
            " has 1 columns, all of which are targets or ignored; none is left for features");
  EXPECT_EQ(refusal("x,y\n1,2\n", {.targets = {"y", "y"}}),
            "table_options::targets names the column 'y' twice");
  EXPECT_EQ(refusal("x,y\n1,2\n", {.targets = {"y"}, .ignored = {"y"}}),
            "table_options::ignored names the column 'y', which is a target");
  EXPECT_EQ(refusal("x,y\n1,2\n", {.targets = {"y"}, .ignored = {"z"}}),
            " has no column 'z'; its columns are 'x', 'y'");
}

TEST_F(Table, BadOptionsAreRefusedInOneSentence) {
  EXPECT_EQ(refusal("x\n", {.targets = {}}),
            "table_options::targets names no column; name those to be predicted");
  EXPECT_EQ(refusal<table<float>>("x\n", {.targets = {"x", "y"}}),
            "table_options::targets names 2 columns, of which the classes are one; for real "
            "numbers write plait::table<float, float>");
  EXPECT_EQ(refusal("x\n", {.targets = {"x"}, .classes = {"a"}}),
            "table_options::classes has 1 words, but the targets are real numbers; for classes "
            "write plait::table<float>");
  EXPECT_EQ(refusal<table<float>>("x\n", {.targets = {"x"}, .classes = {"b", "a", "b"}}),
            "table_options::classes has the word 'b' twice");
  EXPECT_EQ(refusal<table<float>>("x\n", {.targets = {"x"}, .classes = {"b", ""}}),
            "table_options::classes has the word '', which stands for a missing class");
  for (char const bad : {'"', '\n', '\r', '0', 'e', '.', '-', '\0'})
    EXPECT_TRUE(refusal("x\n", {.targets = {"x"}, .separator = bad})
                    .starts_with("table_options::separator is '"));
  EXPECT_EQ(refusal("x\n", {.targets = {"x"}, .missing = 1e39}),
            "table_options::missing is 1e+39; it must be a finite number");
}

TEST_F(Table, FilesThatCannotBeReadAreRefused) {
  EXPECT_THROW(table<float>(folder_ / "none.csv", {.targets = {"y"}}), plait::input_error);
  EXPECT_THROW(table<float>(folder_, {.targets = {"y"}}), plait::input_error);
  EXPECT_THROW(table<float>("/dev/zero", {.targets = {"y"}}), plait::input_error);
}

TEST_F(Table, SamplesAndBuffersAreChecked) {
  table<float> const data(file("a,b,y\n1,2,z\n"), {.targets = {"y"}});
  std::vector<float> two(2), three(3);
  std::vector<std::int32_t> classes(2);
  EXPECT_THROW(data.inputs(1, two), plait::size_mismatch);
  EXPECT_THROW(data.inputs(0, three), plait::size_mismatch);
  EXPECT_THROW(data.targets(0, classes), plait::size_mismatch);
}

}  // namespace
