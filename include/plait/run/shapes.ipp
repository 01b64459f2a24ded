// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/shapes.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::execution {

PLAIT_DECL void shape_checks::row_by_row(char const* operation, named_shape of,
                                         named_shape first) const {
  if (of.rows != first.rows && of.rows != 1)
    fail(operation, of, first,
         "each view must have as many rows as the first view, or one row for all");
}

PLAIT_DECL void shape_checks::by_indices(char const* operation, operation::signature const& of,
                                         named_shape* operands) const {
  static constexpr char const* names[operation::signature::most_operands]{
      "view 1", "view 2", "view 3", "view 4", "view 5",
      "view 6", "view 7", "view 8", "view 9", "view 10"};
  struct {
    int operand = -1;
    std::size_t length = 0;
  } known[26];
  for (int i = 0; i < of.count; ++i) {
    auto& shape = operands[i];
    shape.name = names[i];
    auto const expect_length = [&](operation::dimension along, std::size_t length,
                                   char const* what) {
      auto const parts = std::size_t(along.parts);
      auto const need = [&](char const* kind) {
        throw size_mismatch({"ops.", operation, " in layer ", layer_text(), ": ", text(shape),
                             ": by the indices, its number of ", what, " must be ", parts, kind});
      };
      if (along.index == '1' && length == parts) return;
      if (along.index == '1') need(", because the index is 1");
      if (length % parts != 0) need(" times a whole number");
      auto& before = known[along.index - 'a'];
      length /= parts;
      if (before.operand < 0) before = {i, length};
      if (before.length != length)
        fail(operation, operands[before.operand], shape,
             concat({"index ", std::string(1, along.index), " is ", before.length, " long in ",
                     names[before.operand], " and ", length, " in ", names[i]}));
    };
    expect_length(of.operands[i].rows, shape.rows, "rows");
    expect_length(of.operands[i].columns, shape.columns, "columns");
  }
}

PLAIT_DECL void shape_checks::refuse(operation::row const& row, std::size_t const* lengths) const {
  operation::signature const of = row;
  std::string names[operation::signature::most_operands];
  named_shape shapes[operation::signature::most_operands];
  for (int i = 0; i < of.count; ++i) {
    auto const name = row.name_of(i);
    names[i].assign(name.begin, std::size_t(name.size));
    shapes[i] = {names[i].c_str(), lengths[2 * i], lengths[2 * i + 1]};
  }
  for (int i = 0; i < of.count; ++i) {
    std::size_t expected[2]{shapes[i].rows, shapes[i].columns};
    int other = 0;
    for (int d = 0; d < 2; ++d) {
      auto const along = of.dimension_of(i, d);
      auto const known = length_of(of, along.index, lengths);
      if (known.operand < 0 && along.index != '1')
        fail(row.name, shapes[i], shapes[0],
             concat({"by the indices, its number of ", d == 0 ? "rows" : "columns", " must be ",
                     along.parts, " times a whole number"}));
      if (along.index != '1' && known.length * std::size_t(along.parts) != expected[d])
        other = known.operand;
      expected[d] = known.length * std::size_t(along.parts);
    }
    if (expected[0] != shapes[i].rows || expected[1] != shapes[i].columns)
      unexpected(row.name, shapes[i], expected[0], expected[1], shapes[other]);
  }
  fail(row.name, shapes[0], shapes[of.count - 1], "the shapes of the operands do not fit together");
}

PLAIT_DECL shape_checks::known_length shape_checks::length_of(operation::signature const& of,
                                                              char index,
                                                              std::size_t const* lengths) {
  // `best` is the length of the index that most operands have; the message treats it as the right
  // one. A matrix has more votes than a single row, and labels and saved statistics have the most
  // votes.
  known_length best{-1, 1};
  int most = 0;
  for (int i = 0; i < of.count && index != '1'; ++i)
    for (int d = 0; d < 2; ++d) {
      auto const mine = of.dimension_of(i, d);
      if (mine.index != index || lengths[2 * i + d] % std::size_t(mine.parts) != 0) continue;
      std::size_t const length = lengths[2 * i + d] / std::size_t(mine.parts);
      int votes = 0;
      for (int j = 0; j < of.count; ++j)
        for (int e = 0; e < 2; ++e)
          if (auto const its = of.dimension_of(j, e);
              its.index == index && lengths[2 * j + e] == length * std::size_t(its.parts))
            votes += of.operands[j].is_constant               ? 4
                     : of.dimension_of(j, 1 - e).index == '1' ? 2
                                                              : 3;
      if (votes > most) most = votes, best = {i, length};
    }
  return best;
}

PLAIT_DECL void shape_checks::product(char const* operation, bool a_transposed, named_shape a,
                                      bool b_transposed, named_shape b, named_shape out) const {
  if (a_transposed) a = {"transposed(a)", a.columns, a.rows};
  if (b_transposed) b = {"transposed(b)", b.columns, b.rows};
  if (a.columns != b.rows)
    fail(operation, a, b,
         "the columns of a and the rows of b must be equal; write plait::transposed(a) or "
         "plait::transposed(b) for an operand that the product reads transposed");
  expect(operation, out, a.rows, b.columns, a.rows != out.rows ? a : b);
}

PLAIT_DECL void shape_checks::attention(char const* operation, named_shape qkv, named_shape out,
                                        named_shape log_sum, std::size_t rows,
                                        std::size_t head_width) const {
  if (head_width == 0 || out.columns % head_width != 0)
    fail(operation, out, {"a head", rows, head_width}, "out must have whole heads");
  expect(operation, out, rows, out.columns, qkv);
  expect(operation, qkv, rows, 3 * out.columns, out);
  expect(operation, log_sum, rows, out.columns / head_width, out);
}

PLAIT_DECL void shape_checks::groups(char const* operation, named_shape query, named_shape key,
                                     named_shape value, named_shape out, named_shape log_sum,
                                     std::size_t rows, head_counts const& of) const {
  std::size_t const ranks = of.ranks, per_key = of.heads / of.key_value_heads;
  if (of.heads % ranks != 0)
    fail(operation, query, {"a row of all heads", rows, of.heads * of.head_width},
         concat({ranks, " ranks do not divide ", of.heads, " heads"}));
  if (of.shared ? per_key % (of.heads / ranks) != 0 : of.key_value_heads % ranks != 0)
    fail(operation, query, key,
         concat({of.key_value_heads, " key-value heads on ", ranks,
                 " ranks: the number of ranks must divide the number of key-value heads, or be a "
                 "multiple of it if each rank has all of key and value"}));
  std::size_t const heads = of.heads / ranks;
  std::size_t const keys = of.key_value_heads / (of.shared ? 1 : ranks);
  expect(operation, query, rows, heads * of.head_width, out);
  expect(operation, key, rows, keys * of.head_width, query);
  equal(operation, value, key);
  equal(operation, out, query);
  expect(operation, log_sum, rows, heads, out);
}

PLAIT_DECL void shape_checks::table(char const* operation, named_shape table, std::size_t first,
                                    named_shape x, std::size_t positions, std::size_t batch) const {
  whole_positions(operation, x, positions, batch);
  expect(operation, table, table.rows, x.columns, x);
  if (table.rows < first + positions)
    fail(operation, table, x, "the table must have a row for each position");
}

PLAIT_DECL void shape_checks::whole_positions(char const* operation, named_shape x,
                                              std::size_t positions, std::size_t batch) const {
  if (x.rows != positions * batch)
    fail(operation, x, {"a position", batch, x.columns},
         "the number of rows must be a multiple of the rows of a position");
}

PLAIT_DECL void shape_checks::room(char const* operation, named_shape of, std::size_t count,
                                   std::size_t needed) const {
  if (count < needed)
    fail(operation, of, {"the required size", 1, needed},
         concat({"the view must have room for ", needed, " values"}));
}

PLAIT_DECL void shape_checks::pooled(char const* operation, named_shape x, std::size_t rows,
                                     std::size_t columns, bool have_elements) const {
  if (!have_elements)
    fail(operation, x, {"a window", rows, columns},
         "each window must contain an element of the image: stride and kernel are at least 1, the "
         "kernel is not larger than a map with its padding, and the padding is at most half of the "
         "kernel");
}

PLAIT_DECL void shape_checks::one_of_a_set(char const* operation, named_shape of,
                                           std::size_t together, std::size_t present) const {
  fail(operation, of, {"the microbatch", present, of.columns},
       concat({"the last group of ", together,
               " samples has one sample with one value for each channel, which has no variance; "
               "drop the "
               "last partial batch, or choose another batch or .group"}));
}

PLAIT_DECL void shape_checks::whole_sets(char const* operation, named_shape x, std::size_t samples,
                                         named_shape row, std::size_t channels) const {
  if (x.rows % samples != 0)
    fail(operation, x, {"a group of samples", samples, x.columns},
         concat({"a group has ", samples, " samples, which do not divide the ", x.rows,
                 " samples of a microbatch on this rank"}));
  if (row.columns % channels != 0)
    fail(operation, row, {"a group of channels", 1, channels},
         "the channels of this rank must be whole groups");
}

PLAIT_DECL std::size_t shape_checks::rows_of_position(char const* operation, named_shape of,
                                                      std::size_t positions,
                                                      std::size_t samples) const {
  if (of.rows == positions * samples) return samples;
  if (of.rows != positions)
    fail(operation, of, {"a sequence", positions * samples, of.columns},
         "a view must have a row for each row of activations, a row for each position, or one row "
         "for all");
  return 1;
}

PLAIT_DECL void shape_checks::whole_blocks(char const* operation, named_shape y,
                                           std::size_t block) const {
  if (y.columns % block != 0)
    fail(operation, y, {"a block of f", 1, block},
         "this rank's columns must be whole blocks; declare the number of blocks by `static "
         "constexpr std::size_t units` in the layer");
}

PLAIT_DECL void shape_checks::not_itself(char const* operation, named_shape of, void const* x,
                                         void const* y) const {
  if (x == y && x != nullptr)
    fail(operation, of, {"y", of.rows, of.columns},
         "y must not be the buffer of a view, because f reads more than its own element; leave "
         "may_alias out of the layer, or declare `static constexpr std::size_t block = 1;` in f");
}

PLAIT_DECL void shape_checks::fail_not_begun() const {
  throw error({"layer ", layer_text(),
               ": its body must add to the gradient that overwrites_gradient names by "
               "ops.accumulate_matmul, but has not called this function; call it, or leave "
               "overwrites_gradient out"});
}

PLAIT_DECL std::string shape_checks::layer_text() const {
  std::string const layer = body_;  // " forward" if the only layer has no name
  return layer.empty() || layer.front() == ' ' ? concat({leaf_, layer}) : layer;
}

PLAIT_DECL void shape_checks::fail(char const* operation, named_shape a, named_shape b,
                                   std::string const& rule) const {
  throw size_mismatch(
      {"ops.", operation, " in layer ", layer_text(), ": ", text(a), ", ", text(b), ": ", rule});
}

PLAIT_DECL void shape_checks::unexpected(char const* operation, named_shape of, std::size_t rows,
                                         std::size_t columns, named_shape other) const {
  fail(operation, of, other, concat({of.name, " must be ", rows, " x ", columns}));
}

PLAIT_DECL std::string shape_checks::text(named_shape of) {
  return concat({of.name, " is ", of.rows, " x ", of.columns});
}

}  // namespace plait::execution
