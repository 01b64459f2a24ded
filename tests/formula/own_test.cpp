// SPDX-License-Identifier: Apache-2.0
// test: seconds=10
// A program's own operations in formulas: a product, and a norm that keeps a number of each row.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "formula/layer_facts.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_formula.hpp"

using namespace formula_testing;

namespace {

using plait::invariant;
using plait::partial;
using plait::replicate;
using plait::shard;
using plait::operation::adjoints_of;
using plait::operation::row;

constexpr auto features = shard<plait::dim::features>;
constexpr auto sequence = shard<plait::dim::sequence>;

/// Returns the element in row r and column c of a view, counted from 0.
auto& element(auto const& of, std::size_t r, std::size_t c) { return of.data[r * of.columns + c]; }

// ---- A product ----------------------------------------------------------------------------------

struct product_backward_x {
  static constexpr row is{"product_backward_x", "dy(r j), w(i j) -> dx(r i); linear each"};
  void operator()(plait::ext::host_queue const&, auto dy, auto w, auto dx) const {
    for (std::size_t r = 0; r < dx.rows; ++r)
      for (std::size_t i = 0; i < dx.columns; ++i) {
        element(dx, r, i) = 0;
        for (std::size_t j = 0; j < w.columns; ++j)
          element(dx, r, i) += element(dy, r, j) * element(w, i, j);
      }
  }
};
struct product_backward_w {
  static constexpr row is{"product_backward_w", "dy(r j), x(r i) -> +dw(i j); linear each"};
  void operator()(plait::ext::host_queue const&, auto dy, auto x, auto dw) const {
    for (std::size_t i = 0; i < dw.rows; ++i)
      for (std::size_t j = 0; j < dw.columns; ++j)
        for (std::size_t r = 0; r < x.rows; ++r)
          element(dw, i, j) += element(x, r, i) * element(dy, r, j);
  }
};
// example-begin product
struct product {
  static constexpr row is{"product", "x(r i), w(i j) -> y(r j); linear each", 2};
  using adjoints = adjoints_of<product_backward_x, product_backward_w>;
  void operator()(plait::ext::host_queue const&, auto x, auto w, auto y) const {
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t j = 0; j < y.columns; ++j) {
        element(y, r, j) = 0;
        for (std::size_t i = 0; i < x.columns; ++i)
          element(y, r, j) += element(x, r, i) * element(w, i, j);
      }
  }
};
template <std::size_t Width, std::size_t Hidden>
struct mlp_of_products {
  static constexpr plait::parameter<"up", plait::extents<Width, Hidden>, plait::normal(0.4)> up{};
  static constexpr plait::parameter<"down", plait::extents<Hidden, Width>, plait::normal(0.4)>
      down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return own(product{}, gelu(own(product{}, x, up)), down);
  }
};
// example-end product

template <std::size_t Width, std::size_t Hidden>
struct mlp_of_words : mlp_of_products<Width, Hidden> {
  using base = mlp_of_products<Width, Hidden>;
  static constexpr auto formula(auto x) { return matmul(gelu(matmul(x, base::up)), base::down); }
};

constexpr auto rows = shard<0>, columns = shard<1>;  // cuts of a matrix
static_assert(
    has_forms<mlp_of_products<6, 12>>({{"whole", invariant, invariant, {invariant, invariant}},
                                       {"hidden", replicate, partial, {columns, rows}},
                                       {"column", replicate, features, {replicate, columns}},
                                       {"sequence", sequence, sequence, {replicate, replicate}}}));
static_assert(info_of<mlp_of_products<6, 12>>.flops_per_row ==
              info_of<mlp_of_words<6, 12>>.flops_per_row);
static_assert(saved_bytes<mlp_of_products<6, 12>>() == saved_bytes<mlp_of_words<6, 12>>());

/// Ranks that cut the hidden features add up the product before x is added.
template <std::size_t Width, std::size_t Hidden>
struct residual_of_products : mlp_of_products<Width, Hidden> {
  using base = mlp_of_products<Width, Hidden>;
  static constexpr auto formula(auto x) { return x + base::formula(x); }
};
static_assert(has_forms<residual_of_products<6, 12>>(
    {{"whole", invariant, invariant, {invariant, invariant}},
     {"hidden", invariant, invariant, {columns, rows}},
     {"sequence", sequence, sequence, {replicate, replicate}}}));

/// Each rank has columns of both pieces, and the rows of `down` that belong to them.
template <std::size_t Width, std::size_t Hidden>
struct product_of_pieces {
  using of_hidden = plait::extents<Width, Hidden>;
  static constexpr plait::parameter<"a", of_hidden, plait::normal(0.4)> a{};
  static constexpr plait::parameter<"b", of_hidden, plait::normal(0.4)> b{};
  static constexpr plait::parameter<"down", plait::extents<2 * Hidden, Width>, plait::normal(0.4)>
      down{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return own(product{}, concat(own(product{}, x, a), tanh(own(product{}, x, b))), down);
  }
};
static_assert(has_forms<product_of_pieces<6, 12>>(
    {{"whole", invariant, invariant, {invariant, invariant, invariant}},
     {"hidden", replicate, partial, {columns, columns, shard<0, 2>}},
     {"column", replicate, features, {replicate, replicate, columns}},
     {"sequence", sequence, sequence, {replicate, replicate, replicate}}}));

// ---- A function of two values -------------------------------------------------------------------

template <int Other>
struct gate_backward {
  static constexpr row is{"gate_backward", Other == 1 ? "dy(r c), b(r c) -> da(r c); linear each"
                                                      : "dy(r c), a(r c) -> db(r c); linear each"};
  void operator()(auto const&, auto dy, auto other, auto out) const {
    for (std::size_t i = 0; i < out.count(); ++i) out.data[i] = dy.data[i] * other.data[i];
  }
};
struct gate {
  static constexpr row is{"gate", "a(r c), b(r c) -> y(r c); linear each", 1};
  using adjoints = adjoints_of<gate_backward<1>, gate_backward<0>>;
  void operator()(auto const&, auto a, auto b, auto y) const {
    for (std::size_t i = 0; i < y.count(); ++i) y.data[i] = a.data[i] * b.data[i];
  }
};
template <std::size_t Width>
struct gated {
  static constexpr plait::parameter<"w", plait::extents<Width, Width>, plait::normal(0.4)> w{};
  using input = plait::inputs<plait::features<Width>, plait::features<Width>>;
  static constexpr auto formula(auto a, auto b) { return own(gate{}, a, matmul(b, w)); }
};
static_assert(has_forms<gated<6>>({{"whole", {invariant, invariant}, invariant, {invariant}},
                                   {"features", {features, replicate}, features, {columns}},
                                   {"row", {replicate, features}, partial, {rows}},
                                   {"sequence", {sequence, sequence}, sequence, {replicate}}}));

// ---- A norm -------------------------------------------------------------------------------------

struct sharp_norm_backward_x {
  static constexpr row is{"sharp_norm_backward_x",
                          "dy(r c), x(r c), #inverse(r 1), gain(1 c), z(r d) -> dx(r c); "
                          "whole c d; linear first"};
  void operator()(auto const&, auto dy, auto x, auto inverse, auto gain, auto z, auto dx) const {
    for (std::size_t r = 0; r < x.rows; ++r) {
      double sum = 0;
      double const scale = inverse.data[r];
      for (std::size_t c = 0; c < x.columns; ++c)
        sum += element(dy, r, c) * gain.data[c] * element(x, r, c);
      for (std::size_t c = 0; c < x.columns; ++c)
        element(dx, r, c) = element(z, r, 0) * scale *
                            (element(dy, r, c) * gain.data[c] -
                             element(x, r, c) * sum * scale * scale / double(x.columns));
    }
  }
};
struct sharp_norm_backward_gain {
  static constexpr row is{"sharp_norm_backward_gain",
                          "dy(r c), x(r c), #inverse(r 1), z(r d) -> +dgain(1 c); linear first"};
  void operator()(auto const&, auto dy, auto x, auto inverse, auto z, auto dgain) const {
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t c = 0; c < x.columns; ++c)
        dgain.data[c] += element(dy, r, c) * element(x, r, c) * inverse.data[r] * element(z, r, 0);
  }
};
struct sharp_norm_backward_z {
  static constexpr row is{"sharp_norm_backward_z",
                          "dy(r c), x(r c), #inverse(r 1), gain(1 c), z(r d) -> dz(r d); "
                          "whole c d; linear first"};
  void operator()(auto const&, auto dy, auto x, auto inverse, auto gain, auto, auto dz) const {
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t d = 0; d < dz.columns; ++d) {
        element(dz, r, d) = 0;
        for (std::size_t c = 0; d == 0 && c < x.columns; ++c)
          element(dz, r, d) +=
              element(dy, r, c) * element(x, r, c) * inverse.data[r] * gain.data[c];
      }
  }
};
/// y = gain x z[0] / |x|, for whole rows.
struct sharp_norm {
  static constexpr row is{"sharp_norm",
                          "x(r c), gain(1 c), z(r d) -> y(r c), inverse(r 1); whole c d", 5};
  using adjoints =
      adjoints_of<sharp_norm_backward_x, sharp_norm_backward_gain, sharp_norm_backward_z>;
  void operator()(auto const&, auto x, auto gain, auto z, auto y, auto inverse) const {
    for (std::size_t r = 0; r < x.rows; ++r) {
      double sum = 1e-3;
      for (std::size_t c = 0; c < x.columns; ++c) sum += element(x, r, c) * element(x, r, c);
      inverse.data[r] = 1 / std::sqrt(sum / double(x.columns));
      for (std::size_t c = 0; c < x.columns; ++c)
        element(y, r, c) = element(x, r, c) * inverse.data[r] * gain.data[c] * element(z, r, 0);
    }
  }
};
template <std::size_t Width, std::size_t Hidden>
struct sharpened {
  static constexpr plait::parameter<"gain", plait::extents<Width>, plait::normal(1)> gain{};
  static constexpr plait::parameter<"up", plait::extents<Width, Hidden>, plait::normal(1)> up{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return x + matmul(own(sharp_norm{}, x * x, gain, tanh(x)), up);
  }
};
static_assert(
    has_forms<sharpened<6, 6>>({{"whole", invariant, invariant, {invariant, invariant}},
                                {"sequence", sequence, sequence, {replicate, replicate}}}));

// ---- The laws of layers -------------------------------------------------------------------------

template <class L>
void expect_laws() {
  auto const report = plait::testing::check_formula<L>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GT(report.checked.size(), 2 * info_of<L>.forms.size());
}
TEST(OwnOperationInAFormula, KeepsTheLaws) { expect_laws<mlp_of_products<6, 12>>(); }
TEST(OwnOperationInAFormula, OfSummandsKeepsTheLaws) { expect_laws<residual_of_products<6, 12>>(); }
TEST(OwnOperationInAFormula, OfPiecesKeepsTheLaws) { expect_laws<product_of_pieces<6, 12>>(); }
TEST(OwnOperationInAFormula, OfTwoValuesKeepsTheLaws) { expect_laws<gated<6>>(); }
TEST(OwnOperationInAFormula, OfWholeRowsKeepsTheLaws) { expect_laws<sharpened<6, 6>>(); }

}  // namespace
