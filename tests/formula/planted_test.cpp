// SPDX-License-Identifier: Apache-2.0
// Plants faults into tables, forms and memory plans of formulas; the tests of formulas must find
// each of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "formula/expression.hpp"
#include "formula/layers.hpp"
#include "formula/slots.hpp"
#include "plait/formula/layer.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/plait.hpp"

using namespace formula_testing;

struct named_formula {
  std::string name;
  tested_formula of;
};

template <class L>
named_formula named_as(char const* name) {
  return {name, tested<L>()};
}
std::vector<named_formula> const& formulas() {
  static std::vector<named_formula> const all{
      named_as<residual_mlp<6, 12>>("residual_mlp"),
      named_as<residual_block<6, 12>>("residual_block"),
      named_as<normed_gate<6, 12>>("normed_gate"),
      named_as<adapted<6, 12>>("adapted"),
      named_as<affine<12>>("affine"),
      named_as<shared_bias<6>>("shared_bias"),
      named_as<scaled_residual<6, 12>>("scaled_residual"),
      named_as<norm_of_words<12>>("norm_of_words"),
      named_as<centred_norm<12>>("centred_norm"),
      named_as<norm_of_product<6, 12>>("norm_of_product"),
      named_as<soft_clip<6>>("soft_clip"),
      named_as<not_series_parallel<6>>("not_series_parallel"),
      named_as<two_norms<6>>("two_norms"),
      named_as<centred<12>>("centred"),
      named_as<row_gate<12>>("row_gate"),
      named_as<quotient_and_product<6>>("quotient_and_product"),
      named_as<gate_of_two<6>>("gate_of_two"),
      named_as<times_sum<6>>("times_sum"),
      named_as<difference_of_products<6>>("difference_of_products"),
      named_as<scaled_heads<12, 6>>("scaled_heads"),
      named_as<weighted_heads<12, 6>>("weighted_heads"),
      named_as<reshaped<12, 6>>("reshaped"),
      named_as<squeezed<6, 2>>("squeezed"),
      named_as<outer_product<6, 4>>("outer_product"),
      named_as<heads_of_parameters<12, 6>>("heads_of_parameters"),
      named_as<flat_outer_product<6, 6>>("flat_outer_product"),
      named_as<last_part<6>>("last_part"),
      named_as<concat_of_two<6>>("concat_of_two"),
      named_as<packed_attention<12, 6, 4>>("packed_attention"),
      named_as<normed_attention<12, 6, 4>>("normed_attention"),
      named_as<biased_attention<12, 6, 4>>("biased_attention"),
      named_as<document_attention<6, 12, 6, 4>>("document_attention"),
      named_as<sunk_attention<12, 6, 4>>("sunk_attention"),
      named_as<weighted_positions<12, 6, 4>>("weighted_positions"),
      named_as<grouped_attention<12, 6, 3, 4>>("grouped_attention"),
      named_as<one_head<6, 4>>("one_head"),
      named_as<depthwise<12, 4>>("depthwise"),
      named_as<gated_recurrence<6, 12, 4>>("gated_recurrence"),
      named_as<scans_of_rows<6, 12, 4>>("scans_of_rows"),
      named_as<scan_of_summands<6, 12, 4>>("scan_of_summands"),
      named_as<convolved<4, 6>>("convolved"),
      named_as<grouped_convolution<6, 3>>("grouped_convolution"),
      named_as<separable_block<6, 12>>("separable_block"),
      named_as<squeeze_and_excite<6, 3>>("squeeze_and_excite"),
      named_as<scaled_maps<6>>("scaled_maps"),
      named_as<pooled<6>>("pooled"),
      named_as<decoded<6, 6>>("decoded"),
      named_as<scaled_lookup<12, 6>>("scaled_lookup"),
      named_as<weighted_lookup<12, 6>>("weighted_lookup"),
      named_as<scaled_by_number<6, 12>>("scaled_by_number"),
      named_as<heads_as_numbers<12, 6>>("heads_as_numbers"),
      named_as<rows_as_numbers<12>>("rows_as_numbers"),
      named_as<picked_lookup<12, 12>>("picked_lookup")};
  return all;
}

// ---- Without faults -----------------------------------------------------------------------------

TEST(FormulaTables, AreTheirDefinitions) {
  for (auto const& [name, of] : formulas()) EXPECT_LT(distance_from_definition(of), 1e-13) << name;
}

TEST(FormulaTables, AreTheSameWhereScoresAndHeadsChangePlaces) {
  auto const left = tested<weighed_scores<9, 3, true>>();
  auto const right = tested<weighed_scores<9, 3, false>>();
  auto given = left.given();
  numbers const expected = left.run(given).y;
  std::swap(given.parameters[0], given.parameters[1]);  // the order in which they are read
  EXPECT_EQ(right.run(given).y, expected);
  EXPECT_LT(distance_from_definition(left), 1e-13);
  EXPECT_LT(distance_from_differences(left), 1e-7);
}

TEST(FormulaTables, GradientsAreFiniteDifferences) {
  for (auto const& [name, of] : formulas()) EXPECT_LT(distance_from_differences(of), 1e-7) << name;
}

TEST(FormulaTables, EveryFormIsRightAndEveryRefusalIsNeeded) {
  int refusals = 0;
  for (auto const& [name, of] : formulas()) {
    auto const found = try_forms(of);
    EXPECT_LT(found.worst, 1e-12) << name;
    EXPECT_GE(found.forms, 2) << name;
    EXPECT_EQ(found.needless_refusals, 0) << name;
    refusals += found.refusals;
  }
  EXPECT_GE(refusals, 15);
}

TEST(FormulaMemory, SlotsHoldWhatIsReadOfThem) {
  for (auto const& [name, of] : formulas())
    EXPECT_LT(distance_in_slots(of, plan_of(of)), 1e-13) << name;
}

TEST(FormulaMemory, TheFewestColumnsAreKept) {
  int recomputed = 0;
  for (auto const& [name, of] : formulas()) {
    auto const plan = plan_of(of);
    EXPECT_EQ(kept_columns(of.g, plan), fewest_columns(of.g, plan).count()) << name;
    for (int i = 0; i < of.g.forward_size; ++i)
      recomputed += of.g.at[i].kind == node_kind::map && plan.runs[3][i] ? 1 : 0;
  }
  EXPECT_GT(recomputed, 20);
}

TEST(FormulaMemory, SlotsAreShared) {
  int values = 0, slots = 0;
  for (auto const& each : formulas()) {
    auto const plan = plan_of(each.of);
    slots += plan.scratch.count;
    for (int i = 0; i < each.of.g.size; ++i)
      values += plan.stored_in[i] == formula::storage::scratch ? 1 : 0;
  }
  EXPECT_GT(values, slots + 20);
}

// ---- Faults in gradients ------------------------------------------------------------------------

/// Plants a fault into each node for which `plant` returns true, one at a time, and returns their
/// number. Finite differences must find them. A change that leaves all numbers as they are, such as
/// a swap of the operands of a product of elements, does not count as a fault.
int count_found_by_differences(auto plant) {
  int planted = 0;
  for (auto const& [name, of] : formulas())
    for (int i = of.g.forward_size; i < of.g.size; ++i) {
      tested_formula faulty = of;
      if (!plant(faulty.g, faulty.g.at[i])) continue;
      auto const given = of.given();
      try {
        if (of.run(given).distance_to(faulty.run(given)) < 1e-12) continue;
        ++planted;
        EXPECT_GT(distance_from_differences(faulty), 1e-4) << name << " node " << i;
      } catch (std::out_of_range const&) {  // an operand is shorter than the other
        ++planted;
      }
    }
  return planted;
}

TEST(PlantedFaults, AnOperandOfAnAdjointIsSwapped) {
  int const planted = count_found_by_differences([](table const& g, node& n) {
    if (n.count < 2 || n.kind == node_kind::add) return false;
    if (n.operands[0] < 0 || n.operands[1] < 0) return false;
    node const &a = g.at[n.operands[0]], &b = g.at[n.operands[1]];
    if (a.width() != b.width() || a.factor_count != b.factor_count ||
        a.rows.extent != b.rows.extent || a.last().extent != b.last().extent ||
        a.is_tokens != b.is_tokens)
      return false;
    std::swap(n.operands[0], n.operands[1]);
    return true;
  });
  EXPECT_GE(planted, 25);
}

TEST(PlantedFaults, ASumIsLeftOutWhereAValueIsReadTwice) {
  for (int const kept : {0, 1}) {
    int const planted = count_found_by_differences([&](table const&, node& n) {
      if (n.kind != node_kind::add) return false;
      n.kind = node_kind::reshape;
      n.operands[0] = n.operands[kept], n.count = 1;
      return true;
    });
    EXPECT_GE(planted, 20);
  }
}

TEST(PlantedFaults, AProductReadsItsMatrixTheOtherWay) {
  int const planted = count_found_by_differences([](table const& g, node& n) {
    bool const is_product = n.kind == node_kind::product || n.kind == node_kind::weight_gradient;
    int const matrix = n.kind == node_kind::product ? n.operands[1] : -1;
    bool const is_square =
        matrix >= 0 ? g.at[matrix].rows.extent == g.at[matrix].width()
                    : is_product && g.at[n.operands[0]].width() == g.at[n.operands[1]].width();
    if (!is_product || !is_square) return false;
    n.is_transposed = !n.is_transposed;
    return true;
  });
  EXPECT_GE(planted, 20);
}

// ---- Faults in forms ----------------------------------------------------------------------------

/// Runs the forms of a variable on 2 ranks, and returns the distance from the whole; -1 for none.
double distance_of_form(tested_formula const& of, int variable) {
  values_of_form form(of.g, variable);
  if (!form.run()) return -1;
  if (form.units() % 2 != 0) return -1;
  auto const given = of.given();
  return distance_of_form(of, given, form, variable, 2, of.run(given));
}

TEST(PlantedFaults, AnIndexIsTakenForMappedThatIsReduced) {
  int planted = 0;
  for (auto const& [name, of] : formulas())
    for (int variable = 1; variable < of.g.variables; ++variable) {
      if (of.g.root(variable) != variable || !of.g.is_whole[variable]) continue;
      tested_formula faulty = of;
      faulty.g.is_whole[variable] = false;
      double const distance = distance_of_form(faulty, variable);
      if (distance < 0) continue;
      ++planted;
      EXPECT_GT(distance, 1e-4) << name << " variable " << variable;
    }
  EXPECT_GE(planted, 1);
}

/// Takes a summand for the whole, and the whole for a summand, in each result of each form.
TEST(PlantedFaults, ASumOverRanksIsLeftOutOrMadeTwice) {
  int planted = 0;
  for (auto const& [name, of] : formulas()) {
    table const& g = of.g;
    auto const given = of.given();
    auto const whole = of.run(given);
    for (int variable = 1; variable < g.variables; ++variable) {
      if (g.root(variable) != variable || distance_of_form(of, variable) < 0) continue;
      values_of_form form(g, variable);
      form.run();
      std::vector<bool> partial, completed;
      for (int i = 0; i < g.size; ++i)
        partial.push_back(form.is_partial(i)), completed.push_back(form.is_completed(i));
      table_run const run(g, of.functions, given, variable, 2, partial, completed);
      auto const expect_found = [&](numbers const& expected, double unlike, numbers const& got) {
        ++planted;
        for (std::size_t k = 0; k < got.size(); ++k)
          unlike = std::max(unlike, std::abs(got[k] - expected[k]));
        EXPECT_GT(unlike, 1e-4) << name << " variable " << variable;
      };
      double unlike = 0;
      if (!form.is_cut(g.output)) {
        bool const is_partial = form.placement_of(g.output) == plait::partial;
        numbers const got = run.whole(g.output, !is_partial, unlike);
        expect_found(whole.y, unlike, got);
      }
      for (int k = 0; k < g.parameter_count; ++k) {
        plait::placement const at = form.placement_of_parameter(k);
        if (form.is_cut(g.parameters[k])) continue;
        unlike = 0;
        numbers const got = run.gradient_of_parameter(k, at != plait::replicate, unlike);
        expect_found(whole.dp[std::size_t(k)], unlike, got);
      }
    }
  }
  EXPECT_GE(planted, 30);
}

// ---- Faults in memory ---------------------------------------------------------------------------

/// Gives value i the slot of value k, which a node of the same body reads when i is made, or later.
TEST(PlantedFaults, ASlotIsReleasedOneNodeEarly) {
  int planted = 0;
  for (auto const& [name, of] : formulas()) {
    table const& g = of.g;
    auto const plan = plan_of(of);
    auto const is_in_scratch = [&](int value) {
      return plan.stored_in[value] == formula::storage::scratch && plan.place_of(value) == value;
    };
    for (int i = g.forward_size; i < g.size; ++i) {
      bool const is_function = g.at[i].kind == node_kind::map || g.at[i].kind == node_kind::slope ||
                               g.at[i].kind == node_kind::add ||
                               g.at[i].kind == node_kind::multiply;
      if (!is_in_scratch(i) || is_function) continue;
      for (int j = 0; j < g.at[i].count; ++j) {
        int const read = g.at[i].operands[j] < 0 ? -1 : plan.place_of(g.at[i].operands[j]);
        if (read < 0 || read == i || !is_in_scratch(read) || plan.slot[read] == plan.slot[i])
          continue;
        if (g.at[read].width() != g.at[i].width()) continue;  // slots have one width
        auto faulty = plan;
        faulty.slot[i] = faulty.slot[read];
        ++planted;
        EXPECT_GT(distance_in_slots(of, faulty), 1e-4) << name << " node " << i;
      }
    }
  }
  EXPECT_GE(planted, 5);
}

TEST(PlantedFaults, AValueThatIsReadBackwardIsNotKept) {
  int planted = 0;
  for (auto const& [name, of] : formulas()) {
    auto const plan = plan_of(of);
    if (plan.keeps_input) {
      auto faulty = plan;
      faulty.keeps_input = false;
      ++planted;
      EXPECT_GT(distance_in_slots(of, faulty), 1e-4) << name;
    }
    for (int i = 0; i < of.g.forward_size; ++i)
      if (plan.stored_in[i] == formula::storage::saved && of.g.at[i].kind != node_kind::result) {
        auto faulty = plan;
        faulty.runs[int(formula::body::forward)][i] = false;
        ++planted;
        EXPECT_GT(distance_in_slots(of, faulty), 1e-4) << name << " node " << i;
      }
  }
  EXPECT_GE(planted, 40);
}

// ---- Sums in wider numbers ----------------------------------------------------------------------

/// y = x + bias: only the sum over rows makes the gradient of the bias.
struct only_bias {
  static constexpr plait::parameter<"bias", plait::extents<2>> bias{};
  using input = plait::features<2>;
  static constexpr auto formula(auto x) { return x + bias; }
};
/// The factor of an input of ones: a function of elements precedes the sum over rows.
struct only_factor {
  static constexpr plait::parameter<"factor", plait::extents<2>> factor{};
  using input = plait::features<2>;
  static constexpr auto formula(auto x) { return x * factor; }
};

template <class L>
struct mixed_job : plait::parallel<plait::objective<plait::named<"layer", L>, plait::nn::mse<2>>,
                                   plait::serial, plait::precision<plait::bfloat16, float>> {};

constexpr std::size_t many_rows = 4096;

/// Returns the gradient of the parameter for many rows, each with the slope 1. The loss is the mean
/// of the squares of a distance of `many_rows`, over twice as many numbers.
template <class L>
std::vector<double> gradient_of_ones(float input) {
  std::vector<double> out;
  plait::in_memory<float, float> const data(std::vector<float>(2 * many_rows, input),
                                            std::vector<float>(2 * many_rows, -float(many_rows)), 2,
                                            2);
  plait::launch<mixed_job<L>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<mixed_job<L>>(rank, plait::sgd{});
    auto batches =
        plait::batches<plait::bfloat16>(data, plait::global_batch<many_rows>{}, rank, {});
    trainer.step(batches.at(0));
    trainer.export_gradients(
        [&](std::string const&, plait::ext::parameter_info const&, std::span<float const> values) {
          out.assign(values.begin(), values.end());
        });
  });
  return out;
}

// In bfloat16 256 + 1 is 256.
TEST(FormulaPrecision, SumsOverRowsAreMadeInWiderNumbers) {
  std::vector<double> const expected(2, double(many_rows));
  EXPECT_EQ(gradient_of_ones<only_bias>(0), expected);
  EXPECT_EQ(gradient_of_ones<only_factor>(1), expected);
}
