// SPDX-License-Identifier: Apache-2.0
// test: libs=blas
// Other CBLAS libraries that are installed have programs of this source, too: tests/CMakeLists.txt.
#include <cstdlib>
#include <string>
#include <thread>

#include "backend/host_maths_matmul_cases.hpp"
#include "plait/core/error.hpp"

#if !defined(PLAIT_USE_CBLAS)
#error "this program is about CBLAS and must be compiled with PLAIT_USE_CBLAS"
#endif

namespace {
// One thread, as in the ranks of a job. Thread sanitizers do not see how the threads of OpenBLAS
// synchronise.
[[maybe_unused]] plait::host_maths::single_threaded_maths const one_thread;
}  // namespace

TEST(MatmulBlas, ExtentAboveIntIsAnError) {
  float element = 0;
  std::size_t const above = std::size_t{1} << 31;
  EXPECT_THROW(matmul<float>(transpose::no, transpose::no, 1, 1, above, 1, &element, above,
                             &element, 1, 0, &element, 1),
               plait::error);
}

#if defined(PLAIT_USE_OPENBLAS) || defined(PLAIT_USE_MKL) || defined(PLAIT_USE_BLIS)
namespace {
#if defined(PLAIT_USE_OPENBLAS)
long threads() { return openblas_get_num_threads(); }
void set_threads(int count) { openblas_set_num_threads(count); }
constexpr char const* name = "OpenBLAS";
#elif defined(PLAIT_USE_MKL)
long threads() { return MKL_Get_Max_Threads(); }
void set_threads(int count) { MKL_Set_Num_Threads(count); }
constexpr char const* name = "Math Kernel Library";
#else
long threads() { return bli_thread_get_num_threads(); }
void set_threads(int count) { bli_thread_set_num_threads(count); }
constexpr char const* name = "BLIS";
#endif
}  // namespace

TEST(MatmulBlas, GuardSetsOneThreadAndRestores) {
  set_threads(2);
  {
    plait::host_maths::single_threaded_maths guard;
    EXPECT_EQ(threads(), 1);
  }
  EXPECT_EQ(threads(), 2);
}

TEST(MatmulBlas, KindNamesTheLibrary) {
  auto const kind = plait::host_maths::kind_of_products();
  EXPECT_NE(kind.find(name), std::string::npos) << kind;
}
#endif

#if defined(PLAIT_USE_OPENBLAS)
namespace {

using plait::host_maths::choose_openblas_code;
using plait::host_maths::newer_openblas_code;

constexpr char const* variable = "OPENBLAS_CORETYPE";

/// Makes the library run code for a Prescott, as if it had detected that processor.
struct MatmulBlasCode : testing::Test {
  void SetUp() override {
    if (auto const* const value = std::getenv(variable)) set_before = value;
    before = openblas.code();
    newer = newer_openblas_code("Prescott", features);
    if (before.empty() || openblas.forget_code == nullptr || openblas.choose_code == nullptr)
      GTEST_SKIP() << "this OpenBLAS cannot choose its code again";
    if (newer.empty()) GTEST_SKIP() << "this processor has no AVX2";
    choose("Prescott");
    ASSERT_STREQ(openblas.code(), "Prescott");
  }
  void TearDown() override {
    if (IsSkipped()) return;
    choose(before);
    if (!set_before.empty()) ::setenv(variable, set_before.c_str(), 1);
  }
  void choose(std::string const& code) {
    ::setenv(variable, code.c_str(), 1);
    openblas.forget_code();
    openblas.choose_code();
    ::unsetenv(variable);
  }

  plait::host_maths::openblas_functions openblas = plait::host_maths::detail::openblas_of_program();
  plait::host_maths::processor_features features = plait::host_maths::features_of_this_processor();
  std::string before, newer, set_before;
};

}  // namespace

TEST_F(MatmulBlasCode, OfAnOldProcessorIsReplacedAndThreadsStayAsMany) {
  openblas.may_be_in_use = [] { return false; };  // a thread sanitizer starts a thread
  set_threads(2);
  EXPECT_EQ(choose_openblas_code(openblas, features), "");
  EXPECT_EQ(openblas.code(), newer);
  EXPECT_EQ(threads(), 2);
  EXPECT_EQ(std::getenv(variable), nullptr);
  set_threads(1);
}

TEST_F(MatmulBlasCode, ThatIsWrongIsNotKept) {
  openblas.may_be_in_use = [] { return false; };
  openblas.is_right = [] { return false; };
  EXPECT_NE(choose_openblas_code(openblas, features)
                .find("the faster code computes wrong products on this processor"),
            std::string::npos);
  EXPECT_STREQ(openblas.code(), "Prescott");
}

TEST_F(MatmulBlasCode, IsNotReplacedWithAnotherThread) {
  std::string said;
  std::thread other([&] { said = choose_openblas_code(openblas, features); });
  other.join();
  EXPECT_NE(said.find("set OPENBLAS_CORETYPE=" + newer), std::string::npos);
  EXPECT_STREQ(openblas.code(), "Prescott");
}

// plait has chosen the code before main().
TEST(MatmulBlas, CodeIsNotOlderThanTheProcessor) {
  auto const openblas = plait::host_maths::detail::openblas_of_program();
  EXPECT_TRUE(plait::host_maths::detail::openblas_is_right());
  if (std::getenv(variable) != nullptr || !plait::host_maths::detail::openblas_problem().empty())
    GTEST_SKIP() << "not chosen by plait";
  EXPECT_STREQ(
      newer_openblas_code(openblas.code(), plait::host_maths::features_of_this_processor()), "");
}
#endif
