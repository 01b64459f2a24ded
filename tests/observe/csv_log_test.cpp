// SPDX-License-Identifier: Apache-2.0
// test: seconds=1
#include "plait/observe/csv_log.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

namespace {

namespace fs = std::filesystem;

struct stand_in {
  int number = 0;
  [[nodiscard]] bool is_root() const { return number == 0; }
  [[nodiscard]] int world_rank() const { return number; }
};

class CsvLog : public testing::Test {
 protected:
  CsvLog() { fs::create_directory(folder_); }
  ~CsvLog() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path(char const* name = "run.csv") const { return folder_ / name; }
  static std::string text(fs::path const& of) {
    std::ifstream in(of, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string message_of(std::function<void()> const& work) {
    try {
      work();
    } catch (plait::input_error const& problem) {
      return problem.what();
    }
    return "";
  }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / "plait_csv_log_test";
};

plait::step_report report(std::int64_t step, double loss) {
  plait::step_report out;
  out.step = step;
  out.loss = loss;
  out.labels = 64;
  out.learning_rate = 0.1;
  out.gradient_norm = 0.25;
  out.terms.push_back(loss);
  return out;
}

TEST_F(CsvLog, HasARowForEachStepAtOnce) {
  plait::csv_log log(stand_in{}, path());
  log.write(report(0, 1.0 / 3));
  EXPECT_EQ(
      text(path()),
      "step,loss,labels,learning_rate,gradient_norm,waited\n0,0.3333333333333333,64,0.1,0.25,0\n");
  log.write(report(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(text(path()).ends_with("\n1,nan,64,0.1,0.25,0\n"));
}

TEST_F(CsvLog, NamesTheTermsOfASum) {
  plait::csv_log log(stand_in{}, path(), {.term_names = {"loss.0", "other, too"}});
  auto of = report(7, 3);
  of.waited = 0.5;
  of.terms = {};
  of.terms.push_back(1), of.terms.push_back(2);
  log.write(of);
  EXPECT_EQ(text(path()),
            "step,loss,term.loss.0,\"term.other, too\",labels,learning_rate,gradient_norm,waited\n"
            "7,3,1,2,64,0.1,0.25,0.5\n");
  EXPECT_NE(message_of([&] {
              log.write(report(8, 1));
            }).find("term_names has 2 names, but the loss has 1 terms"),
            std::string::npos);
}

TEST_F(CsvLog, IsWrittenByTheRootOrByAll) {
  plait::csv_log none(stand_in{3}, path());
  none.write(1, {{"accuracy", 0.5}});
  EXPECT_FALSE(fs::exists(path()));
  plait::csv_log own(stand_in{3}, path(), {.which = plait::log_ranks::all});
  own.write(1, {{"accuracy", 0.5}});
  EXPECT_EQ(text(path("run.rank3.csv")), "step,accuracy\n1,0.5\n");
  fs::create_directory(path("a.b"));
  for (auto const& [name, of_rank] : {std::pair{"a.b/run", "a.b/run.rank3"},
                                      {".run", ".run.rank3"},
                                      {"run.1.csv", "run.1.rank3.csv"}}) {
    plait::csv_log(stand_in{3}, path(name), {.which = plait::log_ranks::all}).write(1, {{"a", 1}});
    EXPECT_EQ(text(path(of_rank)), "step,a\n1,1\n");
  }
}

TEST_F(CsvLog, ContinuesFromAGivenStep) {
  plait::csv_log(stand_in{}, path()).write(1, {{"a", 1}});
  plait::csv_log(stand_in{}, path(), {.append = true}).write(2, {{"a", 2}});
  EXPECT_EQ(text(path()), "step,a\n1,1\n2,2\n");
  plait::csv_log(stand_in{}, path()).write(3, {{"b", 3}});
  EXPECT_EQ(text(path()), "step,b\n3,3\n");
  plait::csv_log(stand_in{}, path("new.csv"), {.append = true}).write(4, {{"c", 4}});
  EXPECT_EQ(text(path("new.csv")), "step,c\n4,4\n");
}

TEST_F(CsvLog, ContinuesAfterTheLastWholeRow) {
  std::ofstream(path()) << "step,a\n1,1\n2,0.00";
  plait::csv_log(stand_in{}, path(), {.append = true}).write(2, {{"a", 2}});
  EXPECT_EQ(text(path()), "step,a\n1,1\n2,2\n");
}

TEST_F(CsvLog, IsWrittenByOneAtATime) {
  plait::csv_log const one(stand_in{}, path());
  EXPECT_NE(
      message_of([&] { plait::csv_log(stand_in{}, path()); }).find("another writer has it open"),
      std::string::npos);
}

TEST_F(CsvLog, RefusesOtherColumnsAndOtherFiles) {
  std::ofstream(path("old.csv")) << "step,a\n1,1\n";
  plait::csv_log log(stand_in{}, path());
  log.write(1, {{"a", 1}});
  auto const problem = message_of([&] { log.write(2, {{"a", 1}, {"b", 2}}); });
  EXPECT_NE(problem.find("has the columns step,a, but the row of step 2 has step,a,b"),
            std::string::npos)
      << problem;
  EXPECT_EQ(text(path()), "step,a\n1,1\n");
  EXPECT_NE(message_of([&] { log.write(2, {{"b", 1}, {"b", 2}}); }).find("two columns 'b'"),
            std::string::npos);
  auto const later = message_of(
      [&] { plait::csv_log(stand_in{}, path("old.csv"), {.append = true}).write(2, {{"b", 2}}); });
  EXPECT_NE(later.find("has the columns step,a, but the row of step 2 has step,b"),
            std::string::npos);
  std::ofstream(path("other")) << "no table\n";
  EXPECT_NE(message_of([&] {
              plait::csv_log(stand_in{}, path("other"), {.append = true});
            }).find("is not a log that can be appended to"),
            std::string::npos);
  EXPECT_NE(message_of([&] { plait::csv_log(stand_in{}, path("")); }).find("is not a regular file"),
            std::string::npos);
  EXPECT_NE(message_of([&] { plait::csv_log(stand_in{}, path("none/run.csv")); }).find("run.csv"),
            std::string::npos);
}

TEST_F(CsvLog, DoesNotWriteToDevices) {
  fs::create_symlink("/dev/null", path("nothing"));
  auto const problem = message_of([&] { plait::csv_log(stand_in{}, path("nothing")); });
  EXPECT_NE(problem.find("is not a regular file"), std::string::npos) << problem;
}

// A process that was given up may still have the file open, and write to it when it wakes up.
TEST_F(CsvLog, ContinuesFromAStepInANewFile) {
  plait::csv_log old(stand_in{}, path());
  for (std::int64_t step = 0; step < 12; ++step) old.write(step, {{"a", double(step)}});
  {
    plait::csv_log log(stand_in{}, path(), {.append = true, .from_step = 9});
    old.write(12, {{"a", 12}});
    log.write(9, {{"a", 90}});
  }
  EXPECT_EQ(text(path()), "step,a\n0,0\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n7,7\n8,8\n9,90\n");
  plait::csv_log(stand_in{}, path(), {.append = true, .from_step = 100}).write(100, {{"a", 1}});
  EXPECT_TRUE(text(path()).ends_with("9,90\n100,1\n"));
  plait::csv_log(stand_in{}, path(), {.append = true, .from_step = 0}).write(0, {{"a", 5}});
  EXPECT_EQ(text(path()), "step,a\n0,5\n");
  plait::csv_log(stand_in{}, path("none.csv"), {.append = true, .from_step = 3})
      .write(3, {{"a", 3}});
  EXPECT_EQ(text(path("none.csv")), "step,a\n3,3\n");
}

}  // namespace
