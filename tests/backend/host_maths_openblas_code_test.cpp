// SPDX-License-Identifier: Apache-2.0
// test: libs=blas own_macros
// Some functions of OpenBLAS have other names in this program: its library runs code for a Prescott
// and has no function to change that.
#define openblas_get_corename pretended_corename
#define openblas_get_config pretended_config
#define gotoblas_dynamic_quit function_that_no_library_has
#define gotoblas_dynamic_init other_function_that_no_library_has
#include "plait/backend/host/maths/openblas_code.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/mesh.hpp"

extern "C" {
char* pretended_corename() {
  static char name[] = "Prescott";
  return name;
}
char* pretended_config() {
  static char config[] = "OpenBLAS 0.0.0 DYNAMIC_ARCH Prescott";
  return config;
}
}

namespace {

using plait::host_maths::choose_openblas_code;
using plait::host_maths::newer_openblas_code;
using plait::host_maths::openblas_functions;
using plait::host_maths::processor_features;

constexpr char const* variable = "OPENBLAS_CORETYPE";
constexpr processor_features old{}, avx2{.has_avx2 = true},
    avx512{.has_avx2 = true, .has_avx512 = true}, amd_avx2{.has_avx2 = true, .is_amd = true},
    amd_avx512{.has_avx2 = true, .has_avx512 = true, .is_amd = true};

TEST(OpenblasCode, IsNewerWhereTheProcessorIs) {
  for (char const* const code : {"Prescott", "Barcelona", "Nehalem", "Sandybridge", "Katmai"}) {
    EXPECT_STREQ(newer_openblas_code(code, old), "") << code;
    EXPECT_STREQ(newer_openblas_code(code, avx2), "Haswell") << code;
    EXPECT_STREQ(newer_openblas_code(code, amd_avx2), "Zen") << code;
    EXPECT_STREQ(newer_openblas_code(code, avx512), "SkylakeX") << code;
    EXPECT_STREQ(newer_openblas_code(code, amd_avx512), "SkylakeX") << code;
  }
  EXPECT_STREQ(newer_openblas_code("Haswell", avx512), "SkylakeX");
}

TEST(OpenblasCode, IsNeverOlderAndUnknownOnesAreLeftAlone) {
  for (char const* const code : {"SkylakeX", "Cooperlake", "SapphireRapids", "Unknown", "",
                                 "PRESCOTT", "ARMV8", "A core of next year"})
    for (auto const& features : {old, avx2, avx512, amd_avx2, amd_avx512})
      EXPECT_STREQ(newer_openblas_code(code, features), "") << code;
  for (char const* const code : {"Haswell", "Zen", "Excavator"})
    for (auto const& features : {old, avx2, amd_avx2, amd_avx512})
      EXPECT_STREQ(newer_openblas_code(code, features), "") << code;
}

/// A pretended library that detects every processor as a Prescott, and a record of the calls to it.
struct pretended_library {
  char const* code = "Prescott";
  std::vector<std::string> chosen{};  // the codes that the environment variable has chosen
  bool is_right = true, is_in_use = false;
  char const* largest = nullptr;  // the code that it runs in place of code that it lacks
};
pretended_library library;

openblas_functions functions() {
  library = {};
  return {
      .code = [] { return library.code; },
      .forget_code = [] { library.code = "none"; },
      .choose_code =
          [] {
            auto const* const wanted = std::getenv(variable);
            EXPECT_STREQ(library.code, "none");
            library.chosen.push_back(wanted == nullptr ? "Prescott" : wanted);
            bool const is_first = library.chosen.back() == "Prescott";
            library.code = is_first ? "Prescott" : library.largest ? library.largest : "SkylakeX";
          },
      .may_be_in_use = [] { return library.is_in_use; },
      .is_right = [] { return library.is_right; }};
}

/// Removes the variable from the environment, and restores it at the end.
struct OpenblasCodeChoice : testing::Test {
  OpenblasCodeChoice() {
    if (auto const* const value = std::getenv(variable)) before_ = value, is_set_ = true;
    ::unsetenv(variable);
  }
  ~OpenblasCodeChoice() override {
    if (is_set_) ::setenv(variable, before_.c_str(), 1);
  }

 private:
  std::string before_{};
  bool is_set_ = false;
};

TEST_F(OpenblasCodeChoice, ReplacesOneThatIsTooOldAndLeavesTheEnvironment) {
  EXPECT_EQ(choose_openblas_code(functions(), avx512), "");
  EXPECT_STREQ(library.code, "SkylakeX");
  EXPECT_EQ(library.chosen, std::vector<std::string>{"SkylakeX"});
  EXPECT_EQ(std::getenv(variable), nullptr);
}

TEST_F(OpenblasCodeChoice, LeavesWhatTheUserHasChosen) {
  ::setenv(variable, "Prescott", 1);
  EXPECT_EQ(choose_openblas_code(functions(), avx512), "");
  EXPECT_TRUE(library.chosen.empty());
  EXPECT_STREQ(std::getenv(variable), "Prescott");
  ::unsetenv(variable);
}

TEST_F(OpenblasCodeChoice, LeavesOtherLibrariesAndRightChoices) {
  auto with = functions();
  with.code = [] { return ""; };
  EXPECT_EQ(choose_openblas_code(with, avx512), "");
  with.code = [] { return "SkylakeX"; };
  EXPECT_EQ(choose_openblas_code(with, avx512), "");
  EXPECT_TRUE(library.chosen.empty());
}

TEST_F(OpenblasCodeChoice, SaysWhatToSetWhereTheLibraryLacksAFunction) {
  for (bool const lacks_first : {false, true}) {
    auto with = functions();
    (lacks_first ? with.forget_code : with.choose_code) = nullptr;
    EXPECT_EQ(choose_openblas_code(with, avx2),
              "plait: OpenBLAS runs its code for Prescott on a processor that could run its faster "
              "code for Haswell; this OpenBLAS cannot change its code while a program runs: set "
              "OPENBLAS_CORETYPE=Haswell before the program starts");
    EXPECT_STREQ(library.code, "Prescott");
  }
}

TEST_F(OpenblasCodeChoice, TouchesNothingThatOtherThreadsMayUse) {
  auto const with = functions();
  library.is_in_use = true;
  EXPECT_NE(choose_openblas_code(with, avx512)
                .find("other threads of the program may be using OpenBLAS, so plait cannot change "
                      "its code: set OPENBLAS_CORETYPE=SkylakeX"),
            std::string::npos);
  EXPECT_TRUE(library.chosen.empty());
}

TEST_F(OpenblasCodeChoice, GoesBackWhereTheNewerCodeIsWrongAndSaysSo) {
  auto const with = functions();
  library.is_right = false;
  EXPECT_EQ(choose_openblas_code(with, avx512),
            "plait: OpenBLAS runs its code for Prescott on a processor that could run its faster "
            "code for SkylakeX; the faster code computes wrong products on this processor, so "
            "plait keeps the older code");
  EXPECT_EQ(library.chosen, (std::vector<std::string>{"SkylakeX", "Prescott"}));
  EXPECT_EQ(std::getenv(variable), nullptr);
}

TEST_F(OpenblasCodeChoice, TakesTheNewestThatTheLibraryWasBuiltWith) {
  auto const with = functions();
  library.largest = "Haswell";
  EXPECT_EQ(choose_openblas_code(with, avx512), "");
  EXPECT_STREQ(library.code, "Haswell");

  functions();
  library.largest = "Nehalem";
  EXPECT_EQ(choose_openblas_code(with, avx512), "") << "the variable would not help either";
  EXPECT_EQ(library.chosen, (std::vector<std::string>{"SkylakeX", "Prescott"}));
}

// The library of this program lacks the functions. Two jobs give one warning.
TEST(OpenblasCode, TheRootSaysOnceThatProductsAreSlow) {
#if !defined(PLAIT_USE_OPENBLAS)
  GTEST_SKIP() << "plait::blas is no OpenBLAS here";
#endif
  std::string sentence;
  if (std::string const newer =
          newer_openblas_code("Prescott", plait::host_maths::features_of_this_processor());
      !newer.empty() && std::getenv(variable) == nullptr)
    sentence = "set OPENBLAS_CORETYPE=" + newer + " before the program starts\n";
  plait::ext::mesh two_ranks;
  two_ranks.add(plait::axis::data, 2);
  testing::internal::CaptureStderr();
  for (int job = 0; job < 2; ++job) plait::threads{}.run(two_ranks, [](auto&) {});
  auto const said = testing::internal::GetCapturedStderr();
  if (sentence.empty()) EXPECT_EQ(said, "");
  else EXPECT_EQ(said.find(sentence), said.size() - sentence.size()) << said;
}

}  // namespace
