// SPDX-License-Identifier: Apache-2.0
// test: seconds=1
//
// Hooks are called in their order at the points for which they have functions.
#include "plait/train/hooks/step_hook.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace plait;
using namespace plait::execution;

struct first_hook : step_hook {
  explicit first_hook(std::string& to) : out(to) {}
  [[nodiscard]] double votes() const { return 2; }
  void after_step() const { out += "first "; }
  void before_step(end_of_job const& end) const { end(15); }
  std::string& out;
};
struct second_hook : step_hook {
  explicit second_hook(std::string& to) : out(to) {}
  [[nodiscard]] bool gives_votes() const { return true; }
  [[nodiscard]] double votes() const { return 3; }
  void after_step() const { out += "second "; }
  void at_end(int signal, step_report const& last) const {
    out += std::to_string(signal) + " after " + std::to_string(last.step);
  }
  std::string& out;
};

TEST(StepHooks, EachIsCalledAtItsPointsInTheOrderOfTheList) {
  std::string out;
  first_hook first(out);
  second_hook second(out);
  step_hooks<first_hook, second_hook> const hooks{first, second};
  EXPECT_TRUE(hooks.gives_votes());
  EXPECT_EQ(hooks.votes(), 5);
  hooks.before_call();
  hooks.before_last_transfer();
  EXPECT_EQ(out, "");
  hooks.after_step();
  EXPECT_EQ(out, "first second ");
  hooks.before_step([&](int signal) { hooks.at_end(signal, {.step = 7}); });
  EXPECT_EQ(out, "first second 15 after 7");
}

}  // namespace
