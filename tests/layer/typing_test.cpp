// SPDX-License-Identifier: Apache-2.0
#include "plait/layer/typing.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

/// The rules of typing.hpp against their meaning, with numbers: whole matrices are cut into the
/// blocks of two ranks, the ranks work alone, and what they made must denote the result.
namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t ranks = 2, n = 4;
using matrix = std::array<double, n * n>;  // a block that is smaller on a rank is followed by zeros
using blocks = std::array<matrix, ranks>;

struct shaped {
  std::size_t rows = n, columns = n;
  friend bool operator==(shaped, shaped) = default;
};

constexpr std::array placements{replicate, invariant,   partial,    shard<0>,
                                shard<1>,  shard<0, 2>, shard<1, 2>};

shaped local_shape(shaped whole, placement at) {
  if (typing::is_rows(at)) whole.rows /= ranks;
  if (typing::is_columns(at)) whole.columns /= ranks;
  return whole;
}

/// The global index along the cut dimension of local index `i` on rank `r`.
std::size_t global(placement at, std::size_t whole, std::size_t r, std::size_t i) {
  std::size_t const part = whole / static_cast<std::size_t>(at.parts), piece = part / ranks;
  return i / piece * part + r * piece + i % piece;
}

/// Returns the ranks' blocks of `whole`; `salt` determines the summands of a partial value.
blocks cut(matrix const& whole, shaped shape, placement at, double salt) {
  blocks out{};
  auto const local = local_shape(shape, at);
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < local.rows; ++i)
      for (std::size_t j = 0; j < local.columns; ++j) {
        std::size_t const row = typing::is_rows(at) ? global(at, shape.rows, r, i) : i;
        std::size_t const column = typing::is_columns(at) ? global(at, shape.columns, r, j) : j;
        double const value = whole[row * shape.columns + column];
        double const first = salt * static_cast<double>(1 + (3 * i + 5 * j) % 7);
        out[r][i * local.columns + j] = at.kind != placement_kind::partial ? value
                                        : r == 0                           ? first
                                                                           : value - first;
      }
  return out;
}

/// Returns true if the local blocks denote `whole` in the placement `at`.
bool denotes(blocks const& local, matrix const& whole, shaped shape, placement at) {
  if (at.kind == placement_kind::partial) {
    for (std::size_t i = 0; i < shape.rows * shape.columns; ++i)
      if (local[0][i] + local[1][i] != whole[i]) return false;
    return true;
  }
  return local == cut(whole, shape, at, 0);
}

matrix random_matrix(int seed) {
  matrix out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>((static_cast<int>(i) * 37 + seed * 101) % 23 - 11);
  return out;
}

std::optional<matrix> times(matrix const& a, shaped of_a, matrix const& b, shaped of_b) {
  if (of_a.columns != of_b.rows) return std::nullopt;
  matrix out{};
  for (std::size_t i = 0; i < of_a.rows; ++i)
    for (std::size_t j = 0; j < of_b.columns; ++j)
      for (std::size_t k = 0; k < of_a.columns; ++k)
        out[i * of_b.columns + j] += a[i * of_a.columns + k] * b[k * of_b.columns + j];
  return out;
}

/// Returns true if ranks that multiply their blocks get the block of the product in placement
/// `out`.
bool product_denotes(placement a, placement b, placement out, int seed) {
  auto const whole_a = random_matrix(seed), whole_b = random_matrix(seed + 1);
  auto const result = *times(whole_a, {}, whole_b, {});
  auto const of_a = cut(whole_a, {}, a, 3), of_b = cut(whole_b, {}, b, 5);
  blocks made{};
  for (std::size_t r = 0; r < ranks; ++r) {
    auto const local = times(of_a[r], local_shape({}, a), of_b[r], local_shape({}, b));
    shaped const shape{local_shape({}, a).rows, local_shape({}, b).columns};
    if (!local || shape != local_shape({}, out)) return false;
    made[r] = *local;
  }
  return denotes(made, result, {}, out);
}

/// The product and the two products that are its gradients.
bool product_is_sound(placement a, placement b, placement out) {
  auto const dual_out = dual(out);
  return product_denotes(a, b, out, 1) && product_denotes(a, b, out, 7) &&
         product_denotes(dual_out, typing::transpose(b), dual(a), 3) &&
         product_denotes(typing::transpose(a), dual_out, dual(b), 5);
}

TEST(Typing, TheRulesForProductsAreSoundAndComplete) {
  for (auto a : placements)
    for (auto b : placements)
      for (auto out : placements)
        EXPECT_EQ(product_is_sound(a, b, out), typing::product(a, b) == out)
            << to_string(a) << " times " << to_string(b) << " to " << to_string(out);
}

// accumulate_matmul(transposed(x), dy, dw) and matmul(dy, transposed(w), dx) pass the same check.
TEST(Typing, TheGradientsOfAProductAreProducts) {
  for (auto a : placements)
    for (auto b : placements) {
      auto const out = typing::product(a, b);
      if (out == typing::no_rule) continue;
      EXPECT_EQ(typing::product(dual(out), typing::transpose(b)), dual(a));
      EXPECT_EQ(typing::product(typing::transpose(a), dual(out)), dual(b));
    }
}

bool adds_row(placement to, placement row) { return allows(operation::add_row::is, {row, to}); }

/// Returns true if ranks that add the row to each row of their block get the block of the sum, and
/// the sums of their gradient's rows are the row's gradient.
bool adding_a_row_is_sound(placement of_matrix, placement of_row) {
  auto const whole = random_matrix(1), row = random_matrix(2), gradient = random_matrix(3);
  shaped const row_shape{1, n};
  matrix sum{}, sums{};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      sum[i * n + j] = whole[i * n + j] + row[j];
      sums[j] += gradient[i * n + j];
    }
  auto made = cut(whole, {}, of_matrix, 3);
  auto const rows = cut(row, row_shape, of_row, 5);
  auto const gradients = cut(gradient, {}, dual(of_matrix), 7);
  auto const local = local_shape({}, of_matrix);
  if (local.columns != local_shape(row_shape, of_row).columns) return false;
  blocks local_sums{};
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < local.rows; ++i)
      for (std::size_t j = 0; j < local.columns; ++j) {
        made[r][i * local.columns + j] += rows[r][j];
        local_sums[r][j] += gradients[r][i * local.columns + j];
      }
  return denotes(made, sum, {}, of_matrix) && denotes(local_sums, sums, row_shape, dual(of_row));
}

TEST(Typing, TheRulesForAddingARowAreSoundAndComplete) {
  for (auto of_matrix : placements)
    for (auto of_row : placements) {
      if (typing::is_rows(of_row)) continue;  // a single row cannot be cut by rows
      EXPECT_EQ(adding_a_row_is_sound(of_matrix, of_row), adds_row(of_matrix, of_row))
          << to_string(of_matrix) << " plus " << to_string(of_row);
    }
}

TEST(Typing, TheGradientOfAddingARowIsASumOfRows) {
  for (auto of_matrix : placements)
    for (auto of_row : placements) {
      if (typing::is_rows(of_row)) continue;  // a single row cannot be cut by rows
      EXPECT_EQ(adds_row(of_matrix, of_row),
                allows(operation::accumulate_column_sums::is, {dual(of_matrix), dual(of_row)}))
          << to_string(of_matrix) << " plus " << to_string(of_row);
    }
}

TEST(Typing, TheTransposeIsAnInvolution) {
  for (auto at : placements) {
    EXPECT_EQ(typing::transpose(typing::transpose(at)), at);
    EXPECT_EQ(typing::is_rows(at), typing::is_columns(typing::transpose(at)));
  }
}

/// Returns true if ranks that apply f to the elements of their blocks get the block of the result.
bool map_denotes(auto f, placement a, placement b, placement out) {
  auto const whole_a = random_matrix(1), whole_b = random_matrix(2);
  if (local_shape({}, a) != local_shape({}, out) || local_shape({}, b) != local_shape({}, out))
    return false;
  auto const of_a = cut(whole_a, {}, a, 3), of_b = cut(whole_b, {}, b, 5);
  matrix result{};
  blocks made{};
  for (std::size_t i = 0; i < n * n; ++i) {
    result[i] = f(whole_a[i], whole_b[i]);
    for (std::size_t r = 0; r < ranks; ++r) made[r][i] = f(of_a[r][i], of_b[r][i]);
  }
  return denotes(made, result, {}, out);
}

/// A product of elements and its two gradients, which are such products.
bool elements_multiply(placement a, placement b, placement out) {
  auto const times = [](double x, double y) { return x * y; };
  return map_denotes(times, a, b, out) && map_denotes(times, b, dual(out), dual(a)) &&
         map_denotes(times, a, dual(out), dual(b));
}
/// A sum of elements; its gradients are copies.
bool elements_add(placement a, placement b, placement out) {
  auto const plus = [](double x, double y) { return x + y; };
  auto const first = [](double x, double) { return x; };
  return map_denotes(plus, a, b, out) && map_denotes(first, dual(out), dual(out), dual(a)) &&
         map_denotes(first, dual(out), dual(out), dual(b));
}

bool maps(operation::linearity how, placement out, std::initializer_list<placement> reads) {
  std::vector<placement> places(reads);
  places.push_back(out);
  auto const of = operation::signature::element_wise(static_cast<int>(reads.size()), how);
  return reads.size() == 1 ? allows(of, {places[0], out}) : allows(of, {places[0], places[1], out});
}

// A product is linear in either operand; `is_linear_in_last` speaks of the second.
TEST(Typing, TheRulesForElementWiseFunctionsAreSoundAndComplete) {
  using enum operation::linearity;
  for (auto a : placements)
    for (auto b : placements)
      for (auto out : placements) {
        auto const where = to_string(a) + ", " + to_string(b) + " to " + to_string(out);
        bool const second = maps(in_last, out, {a, b});
        EXPECT_EQ(elements_multiply(a, b, out), second || maps(in_last, out, {b, a})) << where;
        EXPECT_EQ(elements_add(a, b, out), maps(in_all, out, {a, b})) << where;
        EXPECT_EQ(maps(none, out, {a, b}), a == out && b == out && out != partial) << where;
      }
  for (auto at : placements) {
    EXPECT_TRUE(maps(in_last, at, {at}));
    EXPECT_TRUE(maps(in_all, at, {at}));
    EXPECT_EQ(maps(none, at, {at}), at != partial);
  }
  for (auto how : {none, in_last, in_all}) EXPECT_FALSE(maps(how, partial_max, {partial_max}));
}

TEST(Typing, AnOwnOperationRunsOnViewsPlacedAlikeOrWithRows) {
  constexpr bool read = false, written = true;
  for (auto at : placements) EXPECT_TRUE(typing::runs_on({{at, read}, {at, written}}));
  EXPECT_TRUE(typing::runs_on({{shard<0>, read}, {replicate, read}, {shard<0>, written}}));
  EXPECT_TRUE(typing::runs_on({{replicate, read}, {shard<0>, read}, {partial, written}}));
  EXPECT_TRUE(typing::runs_on({{typing::no_rule, read}, {shard<1>, written}}));
  EXPECT_TRUE(typing::runs_on({}));
  EXPECT_FALSE(typing::runs_on({{shard<0>, read}, {shard<1>, written}}));
  EXPECT_FALSE(typing::runs_on({{shard<0>, read}, {invariant, read}, {shard<0>, written}}));
  EXPECT_FALSE(typing::runs_on({{shard<0>, read}, {partial, read}, {shard<0>, written}}));
  EXPECT_FALSE(typing::runs_on({{shard<0>, read}, {replicate, written}}));
  EXPECT_FALSE(typing::runs_on({{shard<1>, read}, {replicate, read}, {shard<1>, written}}));
  EXPECT_FALSE(typing::runs_on({{replicate, read}, {partial, written}}));
  EXPECT_FALSE(typing::runs_on({{shard<1, 3>, read}, {shard<1>, written}}));
}

bool works_by_row(placement rows, placement shared) {
  return allows(operation::rms_norm::is, {rows, shared, rows, rows});
}

// A row that is cut or a summand has no norm; the shared parameters meet different rows on each
// rank exactly if the rows are cut.
TEST(Typing, OperationsOnRowsNeedWholeRows) {
  for (auto of_matrix : placements)
    for (auto shared : placements) {
      bool const right = typing::is_rows(of_matrix) ? shared == replicate
                                                    : is_whole(of_matrix) && shared == of_matrix;
      EXPECT_EQ(works_by_row(of_matrix, shared), right);
    }
  EXPECT_FALSE(works_by_row(partial, partial));
  EXPECT_FALSE(works_by_row(shard<1>, shard<1>));
}

}  // namespace
