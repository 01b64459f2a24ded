// SPDX-License-Identifier: Apache-2.0
// test: seconds=60 alone
// Formulas as layers: the laws of all layers, and the forms, slots and FLOPs that follow from
// formulas.
#include <gtest/gtest.h>

#include <cstddef>
#include <set>

#include "formula/layer_facts.hpp"
#include "formula/layers.hpp"
#include "formula/losses.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_formula.hpp"

namespace formula_testing {

namespace formula = plait::formula;
using formula::node_kind;

using plait::invariant;
using plait::partial;
using plait::replicate;
using plait::shard;

constexpr auto features = shard<plait::dim::features>;
constexpr auto sequence = shard<plait::dim::sequence>;
// Cuts of a matrix; shard<0> also cuts the elements of a vector.
constexpr auto rows = shard<0>, columns = shard<1>;

// ---- The forms that follow ----------------------------------------------------------------------

// Ranks that cut the hidden features add up the branch before x is added.
static_assert(has_forms<residual_mlp<6, 12>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant, invariant}},
     {"hidden", invariant, invariant, {columns, rows, columns, invariant}},
     {"sequence", sequence, sequence, {replicate, replicate, replicate, replicate}}}));
static_assert(has_forms<residual_block<6, 12>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant, invariant, invariant}},
     {"hidden", invariant, invariant, {replicate, columns, columns, rows, partial}},
     {"sequence", sequence, sequence, {replicate, replicate, replicate, replicate, replicate}}}));
static_assert(has_forms<normed_gate<6, 12>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant, invariant}},
     {"hidden", replicate, partial, {replicate, columns, columns, rows}},
     {"column", replicate, features, {replicate, replicate, replicate, columns}},
     {"sequence", sequence, sequence, {replicate, replicate, replicate, replicate}}}));
static_assert(has_forms<adapted<6, 12>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant}},
     {"row", features, partial, {rows, rows, replicate}},
     {"column", replicate, features, {columns, replicate, columns}},
     {"hidden", invariant, invariant, {invariant, columns, rows}},
     {"sequence", sequence, sequence, {replicate, replicate, replicate}}}));
static_assert(has_forms<affine<12>>({{"whole", invariant, invariant, {invariant, invariant}},
                                     {"features", features, features, {rows, rows}},
                                     {"sequence", sequence, sequence, {replicate, replicate}}}));
static_assert(has_forms<soft_clip<6>>({{"whole", invariant, invariant, {invariant, invariant}},
                                       {"column", replicate, features, {columns, rows}},
                                       {"sequence", sequence, sequence, {replicate, replicate}}}));
static_assert(has_forms<gate_of_two<6>>(
    {{"whole", invariant, invariant, {invariant, invariant}},
     {"features", {features, replicate}, features, {columns, rows}},
     {"sequence", {sequence, sequence}, sequence, {replicate, replicate}}}));
static_assert(has_forms<times_sum<6>>({{"whole", invariant, invariant},
                                       {"features", {features, replicate}, features},
                                       {"row", {invariant, features}, invariant},
                                       {"sequence", sequence, sequence}}));
static_assert(has_forms<norm_of_words<12>>({{"whole", invariant, invariant, {invariant}},
                                            {"features", features, features, {rows}},
                                            {"sequence", sequence, sequence, {replicate}}}));
static_assert(
    has_forms<centred_norm<12>>({{"whole", invariant, invariant, {invariant, invariant}},
                                 {"features", features, features, {rows, rows}},
                                 {"sequence", sequence, sequence, {replicate, replicate}}}));
static_assert(has_forms<norm_of_product<6, 12>>({{"whole", invariant, invariant, {invariant}},
                                                 {"sequence", sequence, sequence, {replicate}}}));
static_assert(has_forms<scaled_heads<12, 6>>({{"whole", invariant, invariant, {invariant}},
                                              {"features", features, features, {replicate}},
                                              {"sequence", sequence, sequence, {replicate}}}));
static_assert(has_forms<last_part<6>>({{"whole", invariant, invariant},
                                       {"features", shard<plait::dim::features, 2>, features},
                                       {"sequence", sequence, sequence},
                                       {"summands", partial, partial}}));
static_assert(has_forms<concat_of_two<6>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant}},
     {"hidden", replicate, partial, {columns, columns, shard<0, 2>}},
     {"column", replicate, features, {replicate, replicate, columns}},
     {"sequence", sequence, sequence, {replicate, replicate, replicate}}}));
static_assert(has_forms<packed_attention<12, 6, 4>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant}},
     {"hidden", replicate, partial, {shard<1, 3>, shard<0, 3>, rows}},
     {"column", replicate, features, {replicate, replicate, columns}}}));
// The norm of each head has one weight for all heads: each rank has a summand of its gradient.
static_assert(has_forms<normed_attention<12, 6, 4>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant, invariant, invariant}},
     {"hidden", replicate, partial, {columns, replicate, replicate, columns, rows}},
     {"column", replicate, features, {replicate, replicate, replicate, replicate, columns}}}));
static_assert(has_forms<scaled_lookup<12, 6>>({{"whole", invariant, invariant, {invariant}},
                                               {"hidden", invariant, partial, {rows}},
                                               {"column", invariant, features, {columns}},
                                               {"sequence", sequence, sequence, {replicate}}}));
// The bias enters the sum over the input channels on one rank.
static_assert(
    has_forms<convolved<4, 6>>({{"whole", invariant, invariant, {invariant, invariant}},
                                {"row", features, partial, {columns, partial}},
                                {"column", replicate, features, {rows, rows}},
                                {"sequence", sequence, sequence, {replicate, replicate}}}));
static_assert(
    has_forms<grouped_convolution<6, 3>>({{"whole", invariant, invariant, {invariant}},
                                          {"features", features, features, {rows}},
                                          {"sequence", sequence, sequence, {replicate}}}));
// Both halves of the channels are cut.
static_assert(has_forms<decoded<6, 6>>({{"whole", invariant, invariant, {invariant, invariant}},
                                        {"hidden", replicate, partial, {shard<1, 2>, shard<1, 2>}},
                                        {"column", replicate, features, {replicate, rows}},
                                        {"sequence", sequence, sequence, {replicate, replicate}}}));
static_assert(has_forms<pooled<6>>({{"whole", invariant, invariant},
                                    {"features", features, shard<plait::dim::features, 2>},
                                    {"sequence", sequence, sequence}}));
// A dropout of a partial sum drops elements of each rank's summand.
static_assert(has_forms<dropped<12>>({{"whole", invariant, invariant},
                                      {"features", features, features},
                                      {"sequence", sequence, sequence},
                                      {"summands", partial, partial}}));
// Ranks that cut the second factor of a product of rows, or each piece of a row, would have several
// pieces of columns. No operation with a repeated row takes such pieces.
static_assert(info_of<outer_product<6, 12>>.forms.size() == 2);
static_assert(info_of<scaled_pieces<6>>.forms.size() == 2);
// The numbers of heads are cut with the heads.
static_assert(has_forms<heads_of_parameters<12, 6>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant}},
     {"column", replicate, features, {columns, rows, rows}},
     {"sequence", sequence, sequence, {replicate, replicate, replicate}}}));
static_assert(has_forms<flat_outer_product<6, 6>>(
    {{"whole", invariant, invariant, {invariant, invariant}},
     {"column", replicate, features, {replicate, columns}},
     {"sequence", sequence, sequence, {replicate, replicate}}}));
// Members of one type are one parameter.
struct one_of_two {
  static constexpr weights<"weight", 6, 6> first{}, second{};
  using input = plait::features<6>;
  static constexpr auto formula(auto x) { return matmul(silu(matmul(x, first)), second); }
};
static_assert(info_of<one_of_two>.parameters.size() == 1);
// A scan and a shift need all positions.
static_assert(
    has_forms<depthwise<12, 4>>({{"whole", invariant, invariant, {invariant, invariant, invariant}},
                                 {"features", features, features, {rows, rows, rows}}}));
static_assert(info_of<gated_recurrence<6, 12, 4>>.forms.size() == 3);
// A scan by a number is linear, so summands pass through it.
static_assert(
    has_forms<scan_of_summands<6, 12, 4>>({{"whole", invariant, invariant, {invariant, invariant}},
                                           {"hidden", replicate, partial, {columns, rows}},
                                           {"column", replicate, features, {replicate, columns}}}));
// The bias and x enter more than one sum, and x is both the rows and the columns of a matrix.
static_assert(info_of<shared_bias<6>>.forms.size() == 2);
static_assert(info_of<not_series_parallel<6>>.forms.size() == 2);
static_assert(info_of<one_head<6, 4>>.forms.size() == 2);

// ---- Sums between ranks -------------------------------------------------------------------------

/// Returns true if a form lists this many sums of one number for each row in both bodies.
constexpr bool lists_sums(plait::ext::form_info const& form, int forward, int backward) {
  int counts[2]{};
  for (int i = 0; i < form.inner_count; ++i) {
    auto const& move = form.inner[std::size_t(i)];
    if (move.from != partial || move.to != invariant || move.width != 1) return false;
    if (move.element != plait::slot_element::accumulate) return false;
    ++counts[int(move.body)];
  }
  return counts[0] == forward && counts[1] == backward;
}
static_assert(lists_sums(info_of<norm_of_words<12>>.forms[0], 0, 0));
static_assert(lists_sums(info_of<norm_of_words<12>>.forms[1], 1, 1));
static_assert(lists_sums(info_of<centred_norm<12>>.forms[1], 2, 2));
static_assert(lists_sums(info_of<centred_norm<12>>.forms[2], 0, 0));

// ---- Units, slots and FLOPs ---------------------------------------------------------------------

static_assert(info_of<packed_attention<12, 6, 4>>.forms[1].units == 6);  // the units are heads
static_assert(info_of<grouped_attention<12, 6, 3, 4>>.forms[1].units == 3);
static_assert(info_of<concat_of_two<6>>.forms[1].units == 6);

static_assert(info_of<grouped_convolution<6, 3>>.forms[1].units == 3);
static_assert(info_of<decoded<6, 6>>.forms[1].units == 6);
static_assert(info_of<pooled<6>>.forms[1].units == 6);

// Keeps the input, and the product before gelu.
static_assert(saved_bytes<residual_mlp<6, 12>>() == 4 * (6 + 12));
// Keeps the input, the norm's result and its number for each row, and the two products.
static_assert(saved_bytes<normed_gate<6, 12>>() == 4 * (6 + 6 + 1 + 12 + 12));
static_assert(saved_bytes<affine<12>>() == 4 * 12);
static_assert(saved_bytes<last_part<6>>() == 0);
// Keeps nothing: the backward draws again.
static_assert(saved_bytes<dropped<12>>() == 0);
static_assert(saved_bytes<reshaped<12, 6>>() == 4 * 12);
// Keeps the input, query, key and value in one, the weights of 6 heads for 4 positions, and the
// heads' outputs.
static_assert(saved_bytes<packed_attention<12, 6, 4>>() == 4 * (12 + 3 * 12 + 6 * 4 + 12));
static_assert(scratch_bytes<last_part<6>>() == 0);
static_assert(scratch_bytes<reshaped<12, 6>>() == 0);
static_assert(scratch_bytes<affine<12>>() == 4 * 12);

// FLOPs: 2 for each multiply-add, 12 for gelu, 1 for each sum.
static_assert(info_of<residual_mlp<6, 12>>.flops_per_row == 2 * 6 * 12 * 2 + 12 * 12 + 2 * 6);
static_assert(info_of<normed_gate<6, 12>>.flops_per_row == 5 * 6 + 3 * 2 * 6 * 12 + (8 + 1) * 12);
static_assert(info_of<affine<12>>.flops_per_row == 2 * 12);
static_assert(info_of<last_part<6>>.flops_per_row == 0);
// FLOPs: two contractions over 4 positions, softmax of 5 for each score, and the scale.
static_assert(info_of<packed_attention<12, 6, 4>>.flops_per_row ==
              2 * 12 * 36 + 2 * 2 * 12 * 4 + (5 + 1) * 6 * 4 + 2 * 12 * 12);
// FLOPs: 9 multiply-adds for each of 6 maps of 3 x 4, relu, and 6 for each of 12 maps.
static_assert(info_of<separable_block<6, 12>>.flops_per_row == 2 * 9 * 6 * 12 + 2 * 6 * 12 * 12);
// Ranks that share the hidden features each calculate the whole norm.
static_assert(info_of<normed_gate<6, 12>>.forms[1].shared_flops == 3 * 2 * 6 * 12 + 9 * 12);

// ---- Each kind of node --------------------------------------------------------------------------

template <class... L>
std::set<node_kind> kinds_of() {
  std::set<node_kind> out;
  auto const add = [&](auto const& g) {
    for (int i = 0; i < g.size; ++i) out.insert(g.at[i].kind);
  };
  (add(formula::formula_facts<L>::table), ...);
  return out;
}
/// Checks that the layers of this file have each kind of node, so each kind has a body.
TEST(Formulas, HaveAllKindsOfNodes) {
  auto const kinds =
      kinds_of<normed_gate<6, 12>, soft_clip<6>, difference_of_products<6>, times_sum<6>,
               scaled_heads<12, 6>, weighted_heads<12, 6>, concat_of_two<6>,
               packed_attention<12, 6, 4>, normed_attention<12, 6, 4>, biased_attention<12, 6, 4>,
               grouped_attention<12, 6, 3, 4>, depthwise<12, 4>, gated_recurrence<6, 12, 4>,
               scaled_lookup<12, 6>, heads_as_numbers<12, 6>, picked_lookup<12, 12>, dropped<12>,
               z_loss<6>, weighted_positions<12, 6, 4>>();
  for (int kind = 0; kind <= int(node_kind::result); ++kind)
    EXPECT_TRUE(kinds.contains(node_kind(kind))) << kind;
}

// ---- The laws of layers -------------------------------------------------------------------------

template <class L, class Element = double>
void expect_laws(std::size_t forms) {
  static_assert(plait::layer<L>);
  EXPECT_EQ(std::size_t(info_of<L>.forms.size()), forms);
  auto const report = plait::testing::check_formula<L, Element>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GT(report.checked.size(), 2 * forms);
}

TEST(Formulas, ProductsAndNormsKeepTheLaws) { expect_laws<normed_gate<6, 12>>(4); }
TEST(Formulas, FunctionsOfUsersKeepTheLaws) { expect_laws<soft_clip<6>>(3); }
TEST(Formulas, DropoutKeepsTheLaws) { expect_laws<dropped<12>>(4); }
TEST(Formulas, RandomNumbersOfHeadsKeepTheLaws) { expect_laws<noisy_heads<12, 6>>(3); }
TEST(Formulas, InputsWithOneGradientKeepTheLaws) { expect_laws<difference_of_products<6>>(2); }
TEST(Formulas, SumsOfRowsKeepTheLaws) { expect_laws<times_sum<6>>(4); }
TEST(Formulas, SumsBetweenRanksKeepTheLaws) { expect_laws<centred_norm<12>>(3); }
TEST(Formulas, FactorsOfSummandsKeepTheLaws) { expect_laws<scaled_branch<6, 12>>(2); }
TEST(Formulas, ResidualsKeepTheLaws) { expect_laws<residual_block<6, 12>>(3); }
TEST(Formulas, RowsForEachHeadKeepTheLaws) { expect_laws<weighted_heads<12, 6>>(2); }
TEST(Formulas, ParametersOfHeadsKeepTheLaws) { expect_laws<heads_of_parameters<12, 6>>(3); }
TEST(Formulas, PiecesKeepTheLaws) { expect_laws<concat_of_two<6>>(4); }
TEST(Formulas, FunctionsOfPlacesKeepTheLaws) { expect_laws<biased_attention<12, 6, 4>>(2); }
TEST(Formulas, SinksAndSlopesKeepTheLaws) { expect_laws<sunk_attention<12, 6, 4>>(2); }
TEST(Formulas, NumbersOfOtherPositionsKeepTheLaws) { expect_laws<weighted_positions<12, 6, 4>>(2); }
TEST(Formulas, KernelsOfAttentionKeepTheLaws) { expect_laws<grouped_attention<12, 6, 3, 4>>(3); }
TEST(Formulas, ScansOfRowsKeepTheLaws) { expect_laws<scans_of_rows<6, 6, 4>>(2); }
TEST(Formulas, ConvolutionsKeepTheLaws) { expect_laws<convolved<4, 6>>(4); }
TEST(Formulas, SeparableConvolutionsKeepTheLaws) { expect_laws<separable_block<6, 12>>(4); }
/// A product does not take sums in wider numbers than its matrix has.
TEST(Formulas, ProductsOfMeansKeepTheLawsInMixedPrecision) {
  expect_laws<squeeze_and_excite<6, 3>, plait::precision<plait::bfloat16, float>>(2);
}
TEST(Formulas, ParametersOfMapsKeepTheLaws) { expect_laws<scaled_maps<6>>(4); }
TEST(Formulas, PoolingKeepsTheLaws) { expect_laws<pooled<6>>(3); }
TEST(Formulas, FeaturesAsImagesKeepTheLaws) { expect_laws<decoded<6, 6>>(4); }
TEST(Formulas, TablesKeepTheLaws) { expect_laws<scaled_lookup<12, 6>>(4); }
TEST(Formulas, NumbersOfHeadsKeepTheLaws) { expect_laws<heads_as_numbers<12, 6>>(3); }
TEST(Formulas, PickedColumnsKeepTheLaws) { expect_laws<picked_lookup<12, 12>>(3); }
TEST(Formulas, IntegersNextToFeaturesKeepTheLaws) {
  EXPECT_EQ((info_of<scaled_by_number<12, 24>>.forms.size()), 4);
  using both = plait::sequential<plait::fan_out<scaled_lookup<12, 12>, passed_tokens>,
                                 scaled_by_number<12, 24>>;
  auto const report = plait::testing::check_layer<both>();
  EXPECT_TRUE(report.passed()) << report.text();
}

}  // namespace formula_testing
