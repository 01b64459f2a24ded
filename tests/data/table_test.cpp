// SPDX-License-Identifier: Apache-2.0
#include "plait/data/table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include "plait/core/error.hpp"
#include "plait/data/batch_size.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/map.hpp"
#include "plait/data/normalize.hpp"
#include "plait/data/split_data.hpp"
#include "plait/data/take.hpp"
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

  // The message of the input_error from opening the file, after its name.
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
            ": line 2 has the class 'cow' in the column '1', which is not one of "
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

// All ways to write a number give the same bits.
TEST_F(Table, NumbersAreTheNearestOnes) {
  table<double, double> const data(
      file("x,y\n0.1,1\n1.7976931348623157e308,1\n4.9e-324,1\n0.30000000000000004,1\n-0,1\n"
           "1e-400,-1e-400\n0.0001E-330,1\n1e-310,1\n"),
      {.targets = {"y"}});
  EXPECT_EQ(inputs(data, 0)[0], 0.1);
  EXPECT_EQ(inputs(data, 1)[0], std::numeric_limits<double>::max());
  EXPECT_EQ(inputs(data, 2)[0], std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(inputs(data, 3)[0], 0.1 + 0.2);
  EXPECT_TRUE(std::signbit(inputs(data, 4)[0]));
  // A number too near to 0 for the type becomes 0 with its sign, as in C and Python.
  EXPECT_EQ(inputs(data, 5)[0], 0.0);
  EXPECT_FALSE(std::signbit(inputs(data, 5)[0]));
  EXPECT_EQ(targets(data, 5)[0], 0.0);
  EXPECT_TRUE(std::signbit(targets(data, 5)[0]));
  EXPECT_EQ(inputs(data, 6)[0], 0.0);
  EXPECT_EQ(inputs(data, 7)[0], 1e-310);
  table<float, float> const small(file("x,y\n1e-400,1e-60\n1e-40,1\n"), {.targets = {"y"}});
  EXPECT_EQ(inputs(small, 0)[0], 0.0F);
  EXPECT_EQ(targets(small, 0)[0], 0.0F);
  EXPECT_EQ(inputs(small, 1)[0], 1e-40F);
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
  EXPECT_EQ(refusal("x,y\n"), " has no rows after its header");
  EXPECT_EQ(refusal("x,y\n1,2\n\n1,2,3\n"), ": line 4 has 3 cells, but the header has 2");
  EXPECT_EQ(refusal("1,2\n3\n", {.targets = {"1"}, .header = false}),
            ": line 2 has 1 cells, but the first row has 2");
  EXPECT_EQ(refusal("x,y\n1,2\n1.5.2,2\n"),
            ": line 3 has '1.5.2' in the column 'x', which is not a number; list columns of words "
            "in .one_hot or .numbered, and unused columns in .ignored; list words that mark a "
            "missing value in .missing_words");
  EXPECT_EQ(refusal("x,y\n1,two\n"),
            ": line 2 has 'two' in the column 'y', which is not a number; for classes write "
            "plait::table<float>; list words that mark a missing value in .missing_words");
  for (auto const* const cell :
       {"0x10", "1_000", "1 2", "+-1", "+", "-", ".", "e5", "1e", "nan1", "--1", "1\x01", "\xef"})
    EXPECT_NE(refusal("x,y\n" + std::string(cell) + ",1\n").find("', which is not a number; "),
              std::string::npos)
        << cell;
  EXPECT_EQ(refusal("x,y\ninf,2\n"),
            ": line 2 has 'inf' in the column 'x', which is not a finite number of 32 bits");
  EXPECT_EQ(refusal("x,y\n1e39,2\n"),
            ": line 2 has '1e39' in the column 'x', which is not a finite number of 32 bits");
  EXPECT_EQ((refusal<table<double, double>>("x,y\n1e39,2\n")), "no input_error");
  EXPECT_EQ(refusal("x,y\n1e999,2\n"),
            ": line 2 has '1e999' in the column 'x', which is not a finite number of 32 bits");
  EXPECT_EQ(refusal("x,y\n1,2\n,2\n"),
            ": line 3 has '' in the column 'x', which is missing; set table_options::missing to a "
            "number that replaces it, or set .keep_missing = true, so that plait::normalize "
            "replaces it by the mean");
  EXPECT_EQ(refusal("x,y\n1,\"2\n"), ": line 2 begins a quoted cell that does not end (cell 2)");
  EXPECT_EQ(refusal("x,y\n1,\"2\"2\n"),
            ": line 2 has text after the quotation mark that ends cell 2");
  EXPECT_EQ(refusal("x,y\n\x1b[31m,2\n"),
            ": line 2 has '\\x1b[31m' in the column 'x', which is not a number; list columns of "
            "words in .one_hot or .numbered, and unused columns in .ignored; list words that mark "
            "a missing value in .missing_words");
  EXPECT_EQ(refusal<table<float>>("x,y\n1,\n2,nan\n"),
            " has no class in the column 'y': all its cells are missing");
}

TEST_F(Table, BadColumnsAreRefusedInOneSentence) {
  EXPECT_EQ(refusal("x, y\n1,2\n"), " has no column 'y'; its columns are 'x', ' y'");
  std::string wide = "0";
  for (int i = 1; i < 23; ++i) wide += "," + std::to_string(i);
  EXPECT_EQ(refusal(wide + "\n"),
            " has no column 'y'; its columns are '0', '1', '2', '3', '4', '5', '6', '7', '8', "
            "'9', '10', '11', '12', '13', '14', '15', '16', '17', '18', '19' and 3 more");
  EXPECT_EQ(refusal("y,x,y\n1,2,3\n"), " has two columns 'y'; write '#0' or '#2', their places");
  EXPECT_EQ(refusal("x,y\n1,2\n", {.targets = {"#2"}}),
            " has no column '#2'; its columns are 'x', 'y'");
  EXPECT_EQ(refusal("x;y\n1;2\n"),
            " has no column 'y'; its columns are 'x;y'; if ';' separates the cells, write "
            ".separator = ';'");
  EXPECT_EQ(refusal("1\t2\n", {.targets = {"1"}, .header = false}),
            " has no column '1'; its columns are '0'; if '\\t' separates the cells, write "
            ".separator = '\\t'");
  EXPECT_EQ(refusal("\"x,z\"\n1\n"), " has no column 'y'; its columns are 'x,z'");
  EXPECT_EQ(refusal("\"x\";\"y\"\n1;2\n"),
            ": line 1 has text after the quotation mark that ends cell 1; if ';' separates the "
            "cells, write "
            ".separator = ';'");
  EXPECT_EQ(
      refusal("y\n1\n"),
      " has 1 columns, all of which are targets or ignored, so no column is left for features");
  EXPECT_EQ(refusal("x,y\n1,2\n", {.targets = {"y", "y"}}),
            "table_options::targets names the column 'y' twice");
  EXPECT_EQ(refusal("x,y\n1,2\n", {.targets = {"y"}, .ignored = {"y"}}),
            "table_options::ignored names the column 'y', which is a target");
  EXPECT_EQ(refusal("x,y\n1,2\n", {.targets = {"y"}, .ignored = {"z"}}),
            " has no column 'z'; its columns are 'x', 'y'");
}

TEST_F(Table, BadOptionsAreRefusedInOneSentence) {
  EXPECT_EQ(refusal("x\n", {.targets = {}}),
            "table_options::targets lists no column; list the columns that the model must predict");
  EXPECT_EQ(refusal<table<float>>("x\n", {.targets = {"x", "y"}}),
            "table_options::targets names 2 columns, but a table of classes has exactly one target "
            "column; for real numbers write plait::table<float, float>");
  EXPECT_EQ(refusal("x\n", {.targets = {"x"}, .classes = {"a"}}),
            "table_options::classes has 1 words, but the targets are real numbers; for classes "
            "write plait::table<float>");
  EXPECT_EQ(refusal<table<float>>("x\n", {.targets = {"x"}, .classes = {"b", "a", "b"}}),
            "table_options::classes has the word 'b' twice");
  EXPECT_EQ(refusal<table<float>>("x\n", {.targets = {"x"}, .classes = {"b", ""}}),
            "table_options::classes has the word '', which marks a missing class");
  EXPECT_EQ(refusal<table<float>>("x\n", {.targets = {"x"}, .classes = {"b", "NaN"}}),
            "table_options::classes has the word 'NaN', which marks a missing class");
  EXPECT_EQ(
      refusal("x\n", {.targets = {"x"}, .missing = 1, .keep_missing = true}),
      "table_options::missing is 1, but keep_missing is true; set only one of the two options");
  for (char const bad : {'"', '\n', '\r', '0', 'e', '.', '-', '\0'})
    EXPECT_TRUE(refusal("x\n", {.targets = {"x"}, .separator = bad})
                    .starts_with("table_options::separator is '"));
  EXPECT_EQ(refusal("x\n", {.targets = {"x"}, .missing = 1e39}),
            "table_options::missing is 1e+39; it must be a finite number");
}

TEST_F(Table, AMissingClassIsNotAClass) {
  table<float> const data(file("x,y\n1,1\n2,nan\n3,2\n4,10\n5, \n6,NA\n7,-NaN\n8, ? \n"),
                          {.targets = {"y"}, .missing_words = {"NA", "?"}});
  EXPECT_EQ(data.classes(), (words{"1", "2", "10"}));
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < data.size(); ++i) found.push_back(targets(data, i)[0]);
  constexpr auto none = plait::ext::ignored_target;
  EXPECT_EQ(found, (std::vector<std::int32_t>{0, none, 1, 2, none, none, none, none}));
}

TEST_F(Table, WordsCanSayThatANumberIsMissing) {
  table_options options{.targets = {"y"}, .missing = 7, .missing_words = {" NA", "?"}};
  auto const path = file("x,y\n1,2\nNA,3\n4, NA\n ?,5\n");
  table<float, float> const data(path, options);
  EXPECT_EQ(inputs(data, 1), (std::vector<float>{7}));
  EXPECT_EQ(inputs(data, 3), (std::vector<float>{7}));
  EXPECT_TRUE(std::isnan(targets(data, 2)[0]));
  EXPECT_FALSE(data.has_missing());
  options.missing_words = {"?"};
  EXPECT_NE(
      refusal("x,y\n1,2\nNA,3\n", options).find("'NA' in the column 'x', which is not a number"),
      std::string::npos);
}

TEST_F(Table, ColumnsOfOneNameAreToldApartByTheirPlaces) {
  table<float, float> const data(file("y,x,y\n1,2,3\n"), {.targets = {"#2"}, .ignored = {"#0"}});
  EXPECT_EQ(targets(data, 0), (std::vector<float>{3}));
  EXPECT_EQ(inputs(data, 0), (std::vector<float>{2}));
  // A column with this name comes before the place.
  table<float, float> const named(file("#1,x\n1,2\n"), {.targets = {"#1"}});
  EXPECT_EQ(targets(named, 0), (std::vector<float>{1}));
}

TEST_F(Table, ColumnsOfWordsBecomeFeatures) {
  table_options options{.targets = {"y"},
                        .missing = -1,
                        .missing_words = {"NA"},
                        .one_hot = {"port", "size"},
                        .numbered = {"deck"}};
  table<float, float> const data(
      file("port,x,deck,size,y\nS,1,b,10,1\nC,2,a,9,2\nNA,3,NA,10,3\n,4,b,,4\n"), options);
  EXPECT_EQ(data.feature_names(), (words{"port=C", "port=S", "x", "deck", "size=9", "size=10"}));
  EXPECT_EQ(data.width(), 6u);
  EXPECT_EQ(inputs(data, 0), (std::vector<float>{0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(inputs(data, 1), (std::vector<float>{1, 0, 2, 0, 1, 0}));
  EXPECT_EQ(inputs(data, 2), (std::vector<float>{0, 0, 3, -1, 0, 1}));
  EXPECT_EQ(inputs(data, 3), (std::vector<float>{0, 0, 4, 1, 0, 0}));
  EXPECT_EQ(data.words(), (std::map<std::string, words>{
                              {"deck", {"a", "b"}}, {"port", {"C", "S"}}, {"size", {"9", "10"}}}));

  // In another file each feature has the same meaning.
  options.words = data.words();
  table<float, float> const other(file("port,x,deck,size,y\nS,1,b,10,1\n"), options);
  EXPECT_EQ(other.feature_names(), data.feature_names());
  EXPECT_EQ(inputs(other, 0), inputs(data, 0));
  EXPECT_EQ(refusal("port,x,deck,size,y\nS,1,b,10,1\nQ,1,b,10,1\n", options),
            ": line 3 has 'Q' in the column 'port', which is not one of the words that "
            "table_options::words lists for this column: 'C', 'S'; train with a table that "
            "contains the word, or list the word in .missing_words");
  options.missing.reset();
  EXPECT_TRUE(refusal("port,x,deck,size,y\nS,1,NA,10,1\n", options)
                  .starts_with(": line 2 has 'NA' in the column 'deck', which is missing; "));
  options.keep_missing = true;
  table<float, float> const kept(file("port,x,deck,size,y\nS,NA,NA,10,1\n"), options);
  EXPECT_TRUE(std::isnan(inputs(kept, 0)[2]) && std::isnan(inputs(kept, 0)[3]));
}

TEST_F(Table, WrongColumnsOfWordsAreRefusedInOneSentence) {
  std::string const text = "a,b,y\nu,v,1\n";
  table_options options{.targets = {"y"}, .one_hot = {"a"}, .numbered = {"b"}};
  EXPECT_EQ(refusal(text, options), "no input_error");
  options.words = {{"a", {"u"}}};
  EXPECT_EQ(refusal(text, options),
            "table_options::words has 0 words for the column 'b'; it takes 1 to 100000");
  options.words = {{"a", {"u"}}, {"b", {"v"}}, {"c", {"w"}}};
  EXPECT_EQ(refusal(text, options),
            "table_options::words has words for the column 'c', which is in neither one_hot nor "
            "numbered");
  options.words = {{"a", {"u", "u"}}, {"b", {"v"}}};
  EXPECT_EQ(refusal(text, options),
            "table_options::words has for the column 'a' the word 'u' twice");
  options.words = {{"a", {"u", " "}}, {"b", {"v"}}};
  EXPECT_EQ(refusal(text, options),
            "table_options::words has for the column 'a' the word ' ', which marks a missing "
            "word");
  EXPECT_EQ(refusal(text, {.targets = {"y"}, .one_hot = {"a"}, .numbered = {"a"}}),
            "table_options::numbered names the column 'a', which is in one_hot");
  EXPECT_EQ(refusal(text, {.targets = {"y"}, .one_hot = {"a", "#0"}}),
            "table_options::one_hot names the column '#0' twice");
  EXPECT_EQ(refusal(text, {.targets = {"y"}, .ignored = {"a"}, .one_hot = {"a"}}),
            "table_options::one_hot names the column 'a', which is ignored");
  EXPECT_EQ(refusal(text, {.targets = {"y"}, .numbered = {"y"}}),
            "table_options::numbered names the column 'y', which is a target");
  EXPECT_EQ(
      refusal("a,y\nnan,1\n,1\n", {.targets = {"y"}, .one_hot = {"a"}}),
      " has no word in the column 'a': all its cells are missing; list the column in .ignored");
  std::string many = "a,y\n";
  for (int i = 0; i < 1001; ++i) many += "w" + std::to_string(i) + ",1\n";
  EXPECT_EQ(refusal(many, {.targets = {"y"}, .one_hot = {"a"}}),
            ": line 1002 has 'w1000' in the column 'a', which has more than 1000 words; list the "
            "column in "
            ".numbered or .ignored");
  EXPECT_EQ(refusal(many, {.targets = {"y"}, .numbered = {"a"}}), "no input_error");
  EXPECT_EQ(refusal("a,y\nu,1\nv,1,2\n", {.targets = {"y"}, .one_hot = {"a"}}),
            ": line 3 has 3 cells, but the header has 2");
}

// The mean is taken over the training part alone, and every rank calculates the same number.
TEST_F(Table, MissingFeaturesBecomeTheMeanOfTheTrainingPart) {
  table<double, double> const data(
      file("x,flag,same,y\n1,1,0.1,0\n,0,0.1,0\n4,,0.1,0\n10,1,0.1,0\n,1,0.1,0\n1000,0,0.1,0\n"),
      {.targets = {"y"}, .keep_missing = true});
  EXPECT_TRUE(data.has_missing());
  auto const [train, held_out] =
      plait::split_data(data, 0.67, {.how = plait::sample_order::sequential});
  ASSERT_EQ(train.size(), 4u);
  auto const scale = plait::normalize::from(train);
  EXPECT_EQ(scale.mean(), (std::vector<double>{5, 2.0 / 3, 0.1}));
  EXPECT_EQ(scale.deviation(), (std::vector<double>{std::sqrt(14.0), 1, 1}));
  auto const filled = held_out | scale;
  EXPECT_FALSE(filled.has_missing());
  std::vector<double> x(3);
  filled.inputs(0, plait::ext::no_epoch, x, {});
  EXPECT_EQ(x, (std::vector<double>{0, 1 - 2.0 / 3, 0}));
  filled.inputs(1, plait::ext::no_epoch, x, {});
  EXPECT_EQ(x, (std::vector<double>{995 / std::sqrt(14.0), -2.0 / 3, 0}));
}

TEST_F(Table, MissingFeaturesDoNotReachATraining) {
  table<float> const data(file("x,z,y\n1,,a\n2,,b\n"), {.targets = {"y"}, .keep_missing = true});
  auto const refused = [](auto call) {
    try {
      call();
    } catch (plait::input_error const& problem) {
      return std::string(problem.what());
    }
    return std::string("no input_error");
  };
  EXPECT_EQ(refused([&] { plait::detail::require_features(data | plait::take(1)); }),
            "batches: features are missing in table('t.csv', 2 rows, 2 features, 2 classes) | "
            "take(1); write data | plait::normalize::from(train), which replaces missing features "
            "by their mean in the training part, or set table_options::missing to a number");
  EXPECT_EQ(refused([&] { (void)plait::normalize::from(data); }),
            "normalize::from: feature 1 is missing in all 2 samples; list its column in "
            "table_options::ignored");
  EXPECT_EQ(refused([&] { plait::detail::require_features(data | plait::normalize(0, 1)); }),
            "no input_error");
  plait::in_memory<float> const other({1, std::nanf("")}, {0, 1}, 1);
  EXPECT_EQ(refused([&] { (void)plait::normalize::from(other); }),
            "normalize::from: feature 0 of sample 1 is nan");
}

// A nan marks a missing feature there, so a function must not make others.
TEST_F(Table, AFunctionMakesNoMissingFeatures) {
  table<float> const data(file("x,z,y\n,1,a\n-2,1,b\n"), {.targets = {"y"}, .keep_missing = true});
  auto const logarithm = data | plait::map([](float x) { return std::log(x); }, "log");
  EXPECT_TRUE(logarithm.has_missing());
  std::vector<float> x(2);
  logarithm.inputs(0, plait::ext::no_epoch, x, {});
  EXPECT_TRUE(std::isnan(x[0]));
  try {
    logarithm.inputs(1, plait::ext::no_epoch, x, {});
    FAIL();
  } catch (plait::input_error const& problem) {
    EXPECT_STREQ(problem.what(),
                 "map(log): -2 of sample 1 becomes nan, and nan stands for a missing feature in "
                 "this data set");
  }
  auto const filled = data | plait::map([](float value) { return std::isnan(value) ? 7 : value; });
  EXPECT_FALSE(filled.has_missing());
  EXPECT_NO_THROW(plait::detail::require_features(filled));
  filled.inputs(0, plait::ext::no_epoch, x, {});
  EXPECT_EQ(x[0], 7);
}

// The sum of squares of such small features has no number in float.
TEST_F(Table, ADeviationThatTheElementCannotHoldIs1) {
  plait::in_memory<float> const tiny({1e-45f, 0, 0, 0, 0, 0, 0, 0}, std::vector<std::int32_t>(8),
                                     1);
  EXPECT_EQ(plait::normalize::from(tiny).deviation(), std::vector<double>{1});
  EXPECT_THROW((void)(tiny | plait::normalize(0, 1e-60)), plait::input_error);
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
