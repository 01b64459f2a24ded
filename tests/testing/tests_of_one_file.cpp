// SPDX-License-Identifier: Apache-2.0
// The main function of a program that is made of several test files. `--file=train/zero_test.cpp`
// runs the tests of that file, as far as no --gtest_filter says which; without it all run.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>
#include <string_view>

namespace {

bool is_of(testing::TestInfo const& test, std::string_view file) {
  std::string_view const path = test.file();
  return path == file || path.ends_with("/" + std::string(file));
}

// Calls `function` with each test and its name, as a filter has it.
template <class Function>
void for_each_test(Function function) {
  auto const& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    auto const& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      auto const& test = *suite.GetTestInfo(t);
      function(test, std::string(suite.name()) + "." + test.name());
    }
  }
}

int failure(std::string const& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  constexpr std::string_view option = "--file=";
  if (count == 1) return RUN_ALL_TESTS();
  std::string_view const argument = arguments[1];
  if (count > 2 || !argument.starts_with(option))
    return failure(
        "the only argument may be --file=<folder>/<name>_test.cpp; all others are GoogleTest's");
  std::string_view const file = argument.substr(option.size());

  std::set<std::string> names;
  for_each_test([&](testing::TestInfo const& test, std::string const& name) {
    if (is_of(test, file)) names.insert(name);
  });
  if (names.empty()) return failure("no test of this program is in the file " + std::string(file));

  // A filter knows names and not files; and no ctest would ask for a test in a header.
  std::string problem;
  for_each_test([&](testing::TestInfo const& test, std::string const& name) {
    std::string const path = test.file();
    if (!is_of(test, file) && names.contains(name))
      problem = name + " is in " + path + " and in " + std::string(file) + ": rename one of them";
    if (!path.ends_with("_test.cpp") && !path.ends_with("_test.cu"))
      problem = name + " is in " + path + ": a test file that includes it has to say `alone`";
  });
  if (!problem.empty()) return failure(problem);

  std::string filter;
  for (auto const& name : names) filter += (filter.empty() ? "" : ":") + name;
  if (testing::GTEST_FLAG(filter) == "*") testing::GTEST_FLAG(filter) = filter;
  return RUN_ALL_TESTS();
}
