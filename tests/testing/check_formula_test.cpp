// SPDX-License-Identifier: Apache-2.0
// Faults that check_formula finds: forms that are wrong or missing, and slots that nothing reads.
#include "plait/testing/check_formula.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "formula/layers.hpp"
#include "formula/slots.hpp"
#include "plait/plait.hpp"

using namespace formula_testing;
using plait::testing::check_formula;
using plait::testing::check_report;

bool contains(check_report const& report, std::string const& text) {
  return report.text().find(text) != std::string::npos;
}

struct three_times {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(auto x) const { return decltype(x)(3) * x; }
};
/// A function that is linear, which its type does not say.
template <std::size_t Width>
struct tripled {
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return map(three_times{}, matmul(x, weight)); }
};
template <std::size_t Width>
struct tripled_by_number {
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return 3_c * matmul(x, weight); }
};

TEST(CheckFormula, FindsAFormThatTheRulesDoNotSee) {
  auto const report = check_formula<tripled<12>>();
  ASSERT_EQ(report.failures.size(), 1u) << report.text();
  EXPECT_EQ(report.failures[0],
            "no form along the columns of x, the rows of weight: three_times(matmul(x, weight)) "
            "would see a sum that is still to be made. But a trial on 2, 3 and 4 ranks returns the "
            "whole output and the whole gradients. Rewrite the formula so that the rules of "
            "formulas allow this form; for example, write a linear function with +, -, * and /");
}
/// Functions of members of templates, of places, and without a name.
template <std::size_t Width>
struct named_functions {
  struct half_of_place {
    PLAIT_HOST_DEVICE double operator()(plait::formula::index_place const& at) const {
      return 0.5 * double(at[0]);
    }
  };
  template <int Power>
  struct times_power {
    PLAIT_HOST_DEVICE auto operator()(auto x, auto y) const { return decltype(x)(Power) * x * y; }
  };
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const y = map([](auto a) { return a; }, matmul(x, weight));
    return map(times_power<3>{}, y, plait::formula::at(half_of_place{}));
  }
};
TEST(Explain, SaysTheNamesOfFunctions) {
  EXPECT_EQ(
      (plait::formula::explain<named_functions<12>>()),
      "whole: each rank does all\ncolumn: cut along the columns of weight, the columns of the "
      "output\nsequence: cut along the positions\nno form along the columns of x, the rows of "
      "weight: times_power(f(...), at(half_of_place)) would see a sum that is still to be "
      "made\n");
}
/// The columns of one product are the rows of the next.
template <std::size_t Width>
struct square_of_matrix {
  static constexpr weights<"weight", Width, Width> weight{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return matmul(matmul(x, weight), weight); }
};
TEST(Explain, SaysWhichValueHasAnIndexTwice) {
  EXPECT_NE((plait::formula::explain<square_of_matrix<12>>().find(
                "weight has it in two of its dimensions, 12 x 12, and ranks "
                "cut a value along one\n")),
            std::string::npos)
      << plait::formula::explain<square_of_matrix<12>>();
}
TEST(CheckFormula, PassesWhatIsRight) {
  auto const report = check_formula<tripled_by_number<12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::string checked;
  for (auto const& each : report.checked) checked += each + "\n";
  EXPECT_NE(checked.find("form row on 4 tensor ranks\n"), std::string::npos) << checked;
  EXPECT_NE(checked.find("form row by trial on 2, 3 and 4 ranks\n"), std::string::npos);
}

/// The report of trials of a table and of the list of forms that belongs to it.
check_report report_of_trials(tested_formula const& of) {
  plait::formula::formula_forms<table> const forms(of.g, of.labels.data());
  return plait::testing::detail::report_of(try_cuts(of), forms, [](int variable) {
    return "variable " + std::to_string(variable) + " is refused";
  });
}

TEST(CheckFormula, FindsEachFormThatIsTakenOffTheList) {
  for (auto of : {tested<concat_of_two<6>>(), tested<normed_gate<6, 12>>(),
                  tested<packed_attention<12, 6, 4>>(), tested<gated_recurrence<6, 12, 4>>()}) {
    EXPECT_TRUE(report_of_trials(of).passed());
    for (int v = 1; v < of.g.variables; ++v) {
      if (of.g.root(v) != v || of.g.is_whole[v] || !values_of_form(of.g, v).run()) continue;
      tested_formula faulty = of;
      faulty.g.is_whole[v] = true;
      EXPECT_TRUE(contains(report_of_trials(faulty),
                           "variable " + std::to_string(v) + " is refused. But a trial on "))
          << v;
    }
  }
}
template <std::size_t Width>
struct only_softmax {
  static constexpr weights<"gamma", Width> gamma{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return softmax(x) * gamma; }
};
TEST(CheckFormula, FindsAFormThatIsWrong) {
  tested_formula faulty = tested<only_softmax<12>>();
  EXPECT_TRUE(report_of_trials(faulty).passed());
  for (bool& each : faulty.g.is_whole) each = false;
  EXPECT_TRUE(contains(report_of_trials(faulty),
                       "form features: a trial on 2, 3 and 4 ranks returns an output or gradients "
                       "that differ from the whole form's by up to "));
}
/// Single columns side by side, of which 3 ranks would have a third each.
struct single_columns {
  using input = plait::features<3>;
  static constexpr auto formula(auto x) {
    return concat(part<2, 3>(x), part<0, 3>(x), part<1, 3>(x));
  }
};
TEST(CheckFormula, TriesColumnsThatAreFewerThanRanks) {
  EXPECT_TRUE(report_of_trials(tested<single_columns>()).passed());
}
TEST(CheckFormula, FindsASlotThatNothingReads) {
  auto const of = tested<normed_gate<6, 12>>();
  auto plan = plan_of(of);
  EXPECT_TRUE(plait::testing::detail::check_saved(plan).passed());
  plan.saved.value[plan.saved.count++] = of.g.output;
  EXPECT_EQ(plait::testing::detail::check_saved(plan).text(),
            "saved slot 4 is saved for the backward, but no node of the backward reads it\n");
  plan.saved.count--;
  plan.keeps_output = true;
  EXPECT_EQ(plait::testing::detail::check_saved(plan).text(),
            "the output is saved for the backward, but no node of the backward reads it\n");
}

/// Tokens before and after features, and a table with fewer rows than the first matrix.
struct weighted_by_tokens {
  static constexpr weights<"up", 24, 12> up{};
  static constexpr weights<"table", 12, 12> table{};
  using input = plait::inputs<plait::tokens, plait::features<24>, plait::tokens>;
  static constexpr auto formula(auto ids, auto x, auto number) {
    return matmul(x, up) * gather(table, ids) * tanh(0.1_c * number_of(number));
  }
};
TEST(CheckFormula, TakesTokensNextToFeatures) {
  auto const report = check_formula<weighted_by_tokens>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::string checked;
  for (auto const& each : report.checked) checked += each + "\n";
  EXPECT_NE(checked.find("form sequence on 4 tensor ranks\n"), std::string::npos) << checked;
  EXPECT_NE(checked.find("form column on 3 tensor ranks\n"), std::string::npos) << checked;
}

/// More slots of scratch than sixteen.
template <std::size_t... Heads>
constexpr auto of_widths(auto x) {
  return sum(concat(sum(silu(side_by_side(sum(heads<Heads>(x)))))...));
}
struct many_widths {
  using input = plait::features<120>;
  static constexpr auto formula(auto x) {
    return x * (of_widths<2, 3, 4, 5, 6, 8, 10>(x) + of_widths<12, 15, 20>(x));
  }
};
static_assert(plait::formula::formula_facts<many_widths>::memory.scratch.count > 16);
TEST(CheckFormula, PassesALayerOfManySlots) {
  auto const report = check_formula<many_widths>();
  EXPECT_TRUE(report.passed()) << report.text();
}
