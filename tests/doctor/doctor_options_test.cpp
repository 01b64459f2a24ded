// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/doctor_options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace {

using plait::ext::doctor_options;
using plait::ext::finding;
using plait::ext::finding_severity;
using plait::ext::product_shape;
using plait::ext::transposed_operand;

using word_list = std::vector<std::string>;

doctor_options parsed(word_list const& all) {
  std::vector<char const*> out{"plait-doctor-threads"};
  for (auto const& word : all) out.push_back(word.c_str());
  return plait::ext::doctor_options_of(static_cast<int>(out.size()), out.data());
}

template <class Call>
std::string refusal(Call call) {
  try {
    (void)call();
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "nothing was refused";
}
std::string refusal_of(word_list const& all) {
  return refusal([&] { return parsed(all); });
}

TEST(DoctorOptions, HaveDefaults) {
  doctor_options const none = parsed({});
  EXPECT_EQ(none, doctor_options{});
  EXPECT_FALSE(none.full);
  EXPECT_EQ(none.timeout, std::chrono::seconds(30));
  EXPECT_EQ(none.ranks, 0);
  EXPECT_EQ(none.only, (doctor_options::parts{true, true, true, true}));
  EXPECT_EQ(plait::ext::doctor_options_of(0, nullptr), none);
}

TEST(DoctorOptions, AreReadFromWords) {
  // example-begin options
  char const* const words[]{"plait-doctor-mpi", "--full", "--store", "machine.json"};
  auto const options = plait::ext::doctor_options_of(4, words);
  // options.full is true, and options.store is "machine.json"
  // example-end
  EXPECT_TRUE(options.full);
  EXPECT_EQ(options.store, "machine.json");

  auto const all = parsed({"--compare", "old", "--json", "--svg", "links.svg", "--strict", "--name",
                           "a b", "--products", "shapes", "-n", "65536", "--timeout", "86400",
                           "--quick", "--only", "links,products", "-h"});
  EXPECT_EQ(all, (doctor_options{.compare = "old",
                                 .svg = "links.svg",
                                 .products = "shapes",
                                 .only = {.memory = false, .settings = false},
                                 .strict = true,
                                 .json = true,
                                 .help = true,
                                 .timeout = std::chrono::hours(24),
                                 .ranks = 65536,
                                 .name = "a b"}));
  EXPECT_TRUE(parsed({"--help"}).help);
  EXPECT_EQ(parsed({"-n", "1"}).ranks, 1);
  EXPECT_EQ(parsed({"-n", "007"}).ranks, 7);
  EXPECT_EQ(parsed({"--timeout", "1"}).timeout, std::chrono::milliseconds(1000));
  EXPECT_EQ(parsed({"--name", "Zürich"}).name, "Zürich");
  EXPECT_EQ(parsed({"--name", std::string(200, 'x')}).name.size(), 200u);
}

TEST(DoctorOptions, OfEachPartAloneLeaveOutTheOthers) {
  EXPECT_EQ(parsed({"--only", "products"}).only, (doctor_options::parts{1, 0, 0, 0}));
  EXPECT_EQ(parsed({"--only", "memory"}).only, (doctor_options::parts{0, 1, 0, 0}));
  EXPECT_EQ(parsed({"--only", "links"}).only, (doctor_options::parts{0, 0, 1, 0}));
  EXPECT_EQ(parsed({"--only", "settings"}).only, (doctor_options::parts{0, 0, 0, 1}));
  EXPECT_EQ(parsed({"--only", "settings,links,memory,products"}).only, doctor_options{}.only);
}

TEST(DoctorOptions, ThatAreWrongAreOneSentence) {
  std::string const parts =
      "; the parts are: products, memory, links, settings, with a comma between two of them";
  std::vector<std::pair<word_list, std::string>> const wrong{
      {{"--fast"}, "unknown option '--fast'; see --help"},
      {{"machine.json"}, "unknown option 'machine.json'; see --help"},
      {{""}, "unknown option ''; see --help"},
      {{"--store=x"}, "unknown option '--store=x'; see --help"},
      {{"--json", "--json"}, "--json is given twice"},
      {{"--help", "-h"}, "--help is given twice"},
      {{"--store", "a", "--store", "b"}, "--store is given twice"},
      {{"--quick", "--quick"}, "--quick is given twice"},
      {{"--full", "--quick"}, "--quick and --full contradict each other; leave one out"},
      {{"--quick", "--full"}, "--quick and --full contradict each other; leave one out"},
      {{"--svg"}, "--svg needs a value: the name of a file"},
      {{"--compare", ""}, "--compare needs a value: the name of a file"},
      {{"--store", "--json"},
       "--store needs the name of a file, got '--json', which looks like an option; write "
       "'./--json' for a file of this name"},
      {{"-n"}, "-n needs a value: the number of ranks"},
      {{"-n", "0"}, "-n needs a whole number from 1 to 65536, the number of ranks; got '0'"},
      {{"-n", "65537"},
       "-n needs a whole number from 1 to 65536, the number of ranks; got '65537'"},
      {{"-n", "-2"}, "-n needs a whole number from 1 to 65536, the number of ranks; got '-2'"},
      {{"-n", "2.5"}, "-n needs a whole number from 1 to 65536, the number of ranks; got '2.5'"},
      {{"-n", "99999999999999999999999"},
       "-n needs a whole number from 1 to 65536, the number of ranks; got "
       "'99999999999999999999999'"},
      {{"--timeout", "0"},
       "--timeout needs a whole number from 1 to 86400, the seconds to wait for a rank; got '0'"},
      {{"--timeout", "1e3"},
       "--timeout needs a whole number from 1 to 86400, the seconds to wait for a rank; got "
       "'1e3'"},
      {{"--only"}, "--only needs a value: some of products,memory,links,settings"},
      {{"--only", "memory,disks"}, "--only has the part 'disks'" + parts},
      {{"--only", "memory,"}, "--only has the part ''" + parts},
      {{"--only", "memory, links"}, "--only has the part ' links'" + parts},
      {{"--only", "memory,links,memory"}, "--only has the part 'memory' twice"},
      {{"--only", "links", "--products", "x"},
       "--products adds products, but --only leaves out this part; add 'products' to --only"},
      {{"--svg", "x", "--only", "memory"},
       "--svg draws the links, but --only leaves out this part; add 'links' to --only"},
      {{"--svg", "x", "--store", "x"}, "--svg and --store both write 'x'; write two names"},
      {{"--name", std::string(201, 'x')}, "--name has 201 bytes; it may have at most 200"},
      {{"--name", "--json"},
       "--name needs the name of the machine, got '--json', which looks like an option"},
      {{"--name", "a\nb"},
       "--name is 'a\\nb', which has a control character, a backslash, or bytes that are not "
       "UTF-8; "
       "write printable characters"},
      {{"--name", "\xff"},
       "--name is '\\xff', which has a control character, a backslash, or bytes that are not "
       "UTF-8; "
       "write printable characters"}};
  for (auto const& [all, sentence] : wrong) EXPECT_EQ(refusal_of(all), sentence);
}

TEST(DoctorOptions, AreAllInTheHelp) {
  std::string_view const help = plait::ext::doctor_help();
  for (auto const* const name :
       {"--quick", "--full", "--store", "--compare", "--svg", "--products", "--only", "--strict",
        "--json", "--timeout", "-n", "--name", "--help"}) {
    EXPECT_NE(help.find("\n  " + std::string(name) + " "), std::string_view::npos) << name;
    // Each of them is known: a wrong use has another error.
    for (auto const& sentence : {refusal_of({name}), refusal_of({name, "x"})})
      EXPECT_EQ(sentence.find("unknown option '" + std::string(name)), std::string::npos);
  }
  for (std::size_t at = 0; at < help.size();) {
    auto const end = help.find('\n', at);
    ASSERT_NE(end, std::string_view::npos);
    EXPECT_LE(end - at, 100u) << help.substr(at, end - at);
    at = end + 1;
  }
}

std::string refusal_of_list(std::string const& text) {
  return refusal([&] { return plait::ext::product_shapes_of(text, "shapes.txt"); });
}

TEST(ProductShapes, AreReadFromLines) {
  // example-begin products
  std::string const text =
      "# the head of a model\n"
      "4096 50304 768 none\n"
      "4096 768 50304 b  # the gradient of its input\n";
  auto const shapes = plait::ext::product_shapes_of(text, "shapes.txt");
  // shapes[1].inner is 50304
  // example-end
  EXPECT_EQ(shapes, (std::vector<product_shape>{{4096, 50304, 768, transposed_operand::none},
                                                {4096, 768, 50304, transposed_operand::b}}));
  EXPECT_EQ(plait::ext::product_shapes_of("\t1  1000000000000 3 a\r\n\r\n#\n 1 2 3 none#x", "x"),
            (std::vector<product_shape>{{1, 1'000'000'000'000, 3, transposed_operand::a},
                                        {1, 2, 3, transposed_operand::none}}));
}

TEST(ProductShapes, ThatAreWrongNameFileAndLine) {
  std::string const form =
      "write a line such as '512 1024 256 none': rows, columns, inner, and the transposed operand "
      "(none, a or b)";
  std::string const length = "; write a whole number from 1 to 10^12";
  std::string const list = "list of products 'shapes.txt'", line_2 = list + ": line 2 has ";
  std::vector<std::pair<std::string, std::string>> const wrong{
      {"", list + " has no product; " + form},
      {"# 1 2 3 none\n\n", list + " has no product; " + form},
      {"1 2 3 none\n1 2 3", line_2 + "3 words; " + form},
      {"\n7", line_2 + "1 word; " + form},
      {"\n1 2 3 a b c d e f", line_2 + "5 words; " + form},
      {"\n1 2 3 # none\n", line_2 + "3 words; " + form},
      {"\n0 2 3 none", line_2 + "'0' for rows" + length},
      {"\n1 1000000000001 3 none", line_2 + "'1000000000001' for columns" + length},
      {"\n1 2 -3 none", line_2 + "'-3' for inner" + length},
      {"\n1 2 99999999999999999999 none", line_2 + "'99999999999999999999' for inner" + length},
      {"\n1 2 0x3 none", line_2 + "'0x3' for inner" + length},
      {std::string("\n1 2 3\0 none", 12), line_2 + "'3\\x00' for inner" + length},
      {"\n1 2 3 c", line_2 + "the transposed operand 'c'; write one of these: none, a, b"},
      {"\n1 2 3 A", line_2 + "the transposed operand 'A'; write one of these: none, a, b"},
      {"1 2 3 a\n1 2 3 b\n01 2 3 a\n",
       list + ": line 3 has the product of line 1 again; remove one of the lines"},
      {std::string((1 << 20) + 1, '#'), list + " has 1048577 bytes; it may have at most 1048576"},
      {std::string(4097, '\n'), list + " has more than 4096 lines; measure them in several runs"}};
  for (auto const& [text, sentence] : wrong) EXPECT_EQ(refusal_of_list(text), sentence);
  std::string most;
  for (int i = 1; i <= 4096; ++i) most += std::to_string(i) + " 1 1 none\n";
  EXPECT_EQ(plait::ext::product_shapes_of(most, "x").size(), 4096u);
}

TEST(ExitCode, IsThatOfTheWorstFinding) {
  auto const code = [](std::vector<finding_severity> const& severities, bool is_strict) {
    std::vector<finding> all;
    for (auto const each : severities) all.push_back({.severity = each});
    return plait::ext::exit_code_of(all, is_strict);
  };
  using enum finding_severity;
  for (bool const is_strict : {false, true}) {
    EXPECT_EQ(code({}, is_strict), 0);
    EXPECT_EQ(code({note, note}, is_strict), is_strict ? 1 : 0);
    EXPECT_EQ(code({note, slow, note}, is_strict), 1);
    EXPECT_EQ(code({fails, note}, is_strict), 3);
    EXPECT_EQ(code({slow, fails, slow}, is_strict), 3);
  }
}

// A sentence about a mistake is one line of printable characters.
void expect_sentence(std::string const& text) {
  EXPECT_FALSE(text.empty());
  EXPECT_LT(text.size(), 1000u) << text;
  for (char const each : text) ASSERT_TRUE(static_cast<unsigned char>(each) >= 0x20) << text;
}

TEST(DoctorOptions, OfRandomWordsAreInRangeOrRefused) {
  word_list const known{"--quick",    "--full",          "--store",  "--compare", "--svg",
                        "--products", "--only",          "--strict", "--json",    "--timeout",
                        "-n",         "--name",          "--help",   "-h",        "7",
                        "links",      "products,memory", "x.json",   "",          "-",
                        "\x1b[31m",   "99999999999"};
  std::mt19937 random(3);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    word_list all(random() % 7);
    for (auto& word : all) {
      word = known[random() % known.size()];
      if (random() % 8 == 0) word.insert(random() % (word.size() + 1), 1, char(1 + random() % 255));
    }
    try {
      auto const of = parsed(all);
      ++accepted;
      EXPECT_TRUE(of.ranks >= 0 && of.ranks <= 65536);
      EXPECT_TRUE(of.timeout >= std::chrono::seconds(1) && of.timeout <= std::chrono::hours(24));
      EXPECT_TRUE(of.only.products || of.only.memory || of.only.links || of.only.settings);
      EXPECT_LE(of.name.size(), 200u);
      for (auto const& file : {of.store, of.compare, of.svg, of.products})
        EXPECT_FALSE(file.starts_with('-'));
    } catch (plait::input_error const& problem) {
      expect_sentence(problem.what());
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_LT(accepted, 19'500);
}

TEST(ProductShapes, OfRandomBytesAreInRangeOrRefused) {
  constexpr std::string_view letters = "0123456789  \n\n#ab none\t\r-";
  std::mt19937 random(4);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    // Half of the lists are right at first.
    for (auto lines = random() % 4; lines > 0; --lines)
      text += std::to_string(random() % 100) + " 8 " + std::to_string(1 + random() % 9) +
              (random() % 2 == 0 ? " none\n" : " a\n");
    for (auto changes = random() % 4; changes > 0; --changes) {
      auto const at = random() % (text.size() + 1);
      char const letter = random() % 20 == 0 ? char(random()) : letters[random() % letters.size()];
      if (random() % 2 == 0 || at == text.size()) text.insert(at, 1, letter);
      else text[at] = letter;
    }
    try {
      auto const shapes = plait::ext::product_shapes_of(text, "x");
      ++accepted;
      EXPECT_FALSE(shapes.empty());
      // Written again, they are the same shapes.
      std::string again;
      for (auto const& each : shapes) {
        for (auto const length : {each.rows, each.columns, each.inner}) {
          EXPECT_TRUE(length >= 1 && length <= 1'000'000'000'000);
          again += std::to_string(length) + " ";
        }
        again += each.transposed == transposed_operand::none ? "none\n"
                 : each.transposed == transposed_operand::a  ? "a\n"
                                                             : "b\n";
      }
      EXPECT_EQ(plait::ext::product_shapes_of(again, "x"), shapes);
    } catch (plait::input_error const& problem) {
      expect_sentence(problem.what());
    }
  }
  EXPECT_GT(accepted, 2'000);
  EXPECT_LT(accepted, 18'000);
}

}  // namespace
