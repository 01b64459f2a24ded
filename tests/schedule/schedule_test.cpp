// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/schedule.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace {

using plait::ext::scheduled_work;
using plait::ext::work;

// A minimal model, and one broken model for each rule.
struct minimal {
  using concept_tag = plait::ext::schedule_tag;
  static constexpr std::string_view name = "minimal";
  static constexpr std::vector<scheduled_work> order(int, int, int microbatches) {
    std::vector<scheduled_work> list;
    for (int i = 0; i < microbatches; ++i) list.push_back({work::forward, i});
    for (int i = 0; i < microbatches; ++i) list.push_back({work::backward, i});
    return list;
  }
  static constexpr int peak_activations(int, int, int microbatches) { return microbatches; }
};

struct without_tag : minimal {
  using concept_tag = void;
};
struct without_name : minimal {
  static constexpr int name = 1;
};
struct order_of_numbers : minimal {
  static constexpr std::vector<int> order(int, int, int) { return {}; }
};
struct order_at_run_time : minimal {
  static std::vector<scheduled_work> order(int, int, int) { return {}; }
};
struct peak_is_real : minimal {
  static constexpr double peak_activations(int, int, int) { return 1; }
};
struct peak_at_run_time : minimal {
  static int peak_activations(int, int, int) { return 1; }
};

TEST(ScheduleConcept, AcceptsTheMinimalModelAndRejectsEachBrokenOne) {
  EXPECT_TRUE(plait::ext::schedule<minimal>);
  EXPECT_FALSE(plait::ext::schedule<int>);
  EXPECT_FALSE(plait::ext::schedule<without_tag>);
  EXPECT_FALSE(plait::ext::schedule<without_name>);
  EXPECT_FALSE(plait::ext::schedule<order_of_numbers>);
  EXPECT_FALSE(plait::ext::schedule<order_at_run_time>);
  EXPECT_FALSE(plait::ext::schedule<peak_is_real>);
  EXPECT_FALSE(plait::ext::schedule<peak_at_run_time>);
}

}  // namespace
