// SPDX-License-Identifier: Apache-2.0
// Against csv of Python's standard library, whose cells tests/oracle/csv_reference.py has stored.
#include "plait/data/csv_reader.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "plait/core/error.hpp"

namespace {

using rows_of_cells = std::vector<std::vector<std::string>>;

struct csv_case {
  std::string name, text;
  char separator = ',';
  rows_of_cells rows;
  bool is_error = false;
};

std::string unescaped(std::string const& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      out += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> cells_of(std::string const& line) {
  std::vector<std::string> out;
  for (std::size_t begin = 0;;) {
    auto const end = line.find('\t', begin);
    out.push_back(unescaped(line.substr(begin, end - begin)));
    if (end == line.npos) return out;
    begin = end + 1;
  }
}

std::vector<csv_case> stored_cases() {
  char const* const tests = std::getenv("PLAIT_TESTS");
  std::ifstream file(std::string(tests == nullptr ? "tests" : tests) + "/oracle/csv_cases.txt");
  std::vector<csv_case> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("case ")) {
      auto const space = line.find(' ', 5);
      out.push_back({.name = line.substr(5, space - 5),
                     .text = {},
                     .separator = unescaped(line.substr(space + 1))[0],
                     .rows = {}});
    } else if (line.starts_with("text ")) {
      out.back().text = unescaped(line.substr(5));
    } else if (line.starts_with("row ")) {
      out.back().rows.push_back(cells_of(line.substr(4)));
    } else {
      out.back().is_error = true;
    }
  }
  return out;
}

std::string read(std::string const& text, char separator, rows_of_cells& out) {
  plait::detail::file_name const name("table", "t.csv");
  plait::detail::csv_reader rows(text, separator, name);
  try {
    while (rows.next()) {
      out.emplace_back();
      for (std::size_t i = 0; i < rows.cells(); ++i) out.back().emplace_back(rows.cell(i));
    }
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "";
}

TEST(CsvReader, FindsTheCellsOfPythonsCsv) {
  auto const cases = stored_cases();
  ASSERT_GE(cases.size(), 100u);
  for (auto const& one : cases) {
    rows_of_cells rows;
    auto const problem = read(one.text, one.separator, rows);
    EXPECT_EQ(!problem.empty(), one.is_error) << one.name << ": " << problem;
    if (one.is_error && !rows.empty() && rows.size() > one.rows.size()) rows.pop_back();
    EXPECT_EQ(rows, one.rows) << one.name;
  }
}

TEST(CsvReader, AByteOrderMarkIsNotPartOfTheFirstCell) {
  rows_of_cells rows;
  EXPECT_EQ(read("\xef\xbb\xbf\"a\",b\n", ',', rows), "");
  EXPECT_EQ(rows, (rows_of_cells{{"a", "b"}}));
}

TEST(CsvReader, LinesAreCountedWithinCellsToo) {
  rows_of_cells rows;
  EXPECT_EQ(read("a\r\n\"b\r\nb\rb\nb\"\n\nc,\"d", ',', rows),
            "table 't.csv': line 7 begins a quoted cell that does not end (cell 2)");
  EXPECT_EQ(read("a\n\"b\nb\"c", ',', rows),
            "table 't.csv': line 3 has text after the quotation mark that ends cell 1");
}

}  // namespace
