// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/formula/graph.hpp"
#include "plait/layer/value.hpp"
#include "plait/operation/signature.hpp"

namespace plait::formula {

/// Adds the nodes of the forward to a graph. There is one function for each kind of term; each
/// function gets the numbers of the nodes that are the operands of the term.
template <class Graph>
struct graph_builder {
  Graph& g;

  constexpr void input(int number, int width, ext::value_kind kind, image_shape const& image) {
    if (number >= Graph::most_inputs) return g.fail(mistake::kind::too_many_inputs, number);
    node out;
    out.kind = node_kind::input;
    out.number = number;
    out.rows = {row_variable, 0};
    out.set_columns(g.make_dimension(width));
    out.image = image;
    out.is_tokens = kind == ext::value_kind::tokens;
    out.is_data = kind != ext::value_kind::features;
    g.inputs[number] = g.put(out);
  }
  constexpr void parameter(int rank, int rows, int columns) {
    if (g.parameter_count == Graph::most_parameters)
      return g.fail(mistake::kind::too_many_parameters, g.parameter_count + 1);
    node out;
    out.kind = node_kind::parameter;
    out.number = g.parameter_count;
    out.is_matrix = rank == 2;
    if (rank == 2) out.rows = g.make_dimension(rows);
    out.set_columns(g.make_dimension(columns));
    g.parameters[g.parameter_count++] = g.put(out);
  }
  constexpr void number(double value) {
    node out;
    out.kind = node_kind::number;
    out.factor = value;
    g.put(out);
  }

  constexpr void index_function() {
    node out;
    out.kind = node_kind::index_function;
    g.put(out);
  }

  constexpr void draw(distribution from, double probability = 0) {
    node out;
    out.kind = node_kind::draw;
    out.draws = from, out.factor = probability;
    for (int i = 0; i < g.size; ++i) out.number += g.at[i].kind == node_kind::draw ? 1 : 0;
    g.put(out);
  }
  /// Adds a draw, and the product of x and the draw. Their FLOPs are not counted, because a dropout
  /// takes time only to read and write memory.
  constexpr void dropout(int x, double probability) {
    if (!takes(x)) return;
    draw(distribution::dropout, probability);
    int const operands[]{x, g.size - 1};
    map(algebra::product, false, 0, operands, 2, false);
  }

  // ---- Elements ---------------------------------------------------------------------------------

  /// Adds an elementwise function (a map). Shapes are aligned at their last factors. A factor that
  /// a value lacks, or that has a single element, is broadcast. `of_integers`: true for a function
  /// that takes integers; all other functions refuse integers.
  constexpr void map(algebra is, bool from_output, int flops, int const* operands, int count,
                     bool of_integers) {
    node out;
    out.kind = node_kind::map;
    out.is = is, out.from_output = from_output, out.flops = flops;
    for (int k = 0; k < count; ++k) {
      node const& x = g.at[operands[k]];
      if (of_integers && !x.is_tokens) return g.fail(mistake::kind::is_no_tokens);
      if (x.is_tokens && !of_integers) return g.fail(mistake::kind::is_tokens);
      if (x.rows.variable > row_variable) return g.fail(mistake::kind::is_matrix);
      if (x.is_per_row()) out.rows = x.rows;
      align(out, x);
      out.own[out.own_count++] = operands[k];
    }
    for (int k = 0; k < count; ++k) {
      node const& x = g.at[operands[k]];
      if (x.image.channels == 0 || x.width() != out.width()) continue;
      if (out.image.channels > 0 && out.image != x.image)
        return g.fail(mistake::kind::unlike_images);
      out.image = x.image;
    }
    g.put(out);
  }

  // ---- Products and sums ------------------------------------------------------------------------

  constexpr void product(int x, int w, bool is_transposed) {
    node out = g.like(x, node_kind::product);
    if (!takes_made(x)) return;
    if (g.at[x].factor_count > 1) return g.fail(mistake::kind::has_factors);
    if (g.at[w].kind != node_kind::parameter || !g.at[w].is_matrix)
      return g.fail(mistake::kind::is_no_matrix);
    dimension const inner = is_transposed ? column_of(w) : g.at[w].rows;
    dimension const outer = is_transposed ? g.at[w].rows : column_of(w);
    if (inner.extent != g.at[x].width())
      return g.fail(mistake::kind::inner_lengths, g.at[x].width(), inner.extent);
    if (g.at[x].factor_count == 1) g.unite(g.at[x].last(), inner);
    out.set_columns(outer);
    out.is_transposed = is_transposed;
    out.read(x), out.read(w);
    g.put(out);
  }
  constexpr void sum_of_columns(int x, bool is_mean) {
    if (!takes(x)) return;
    g.put(g.reduced(x, is_mean ? 1.0 / g.at[x].last().extent : 1.0));
  }

  /// Adds an operation that computes one number from all columns of each row, or of each head.
  constexpr void over_last_factor(int x, node_kind kind) {
    if (!takes(x)) return;
    if (g.at[x].factor_count == 0) return g.fail(mistake::kind::has_factors);
    node out = g.reduced(x, 1);
    out.kind = kind;
    g.put(out);
  }
  constexpr void pick(int x, int ids) {
    if (!takes_flat(x)) return;
    if (!g.at[ids].is_tokens || g.at[ids].factor_count > 0)
      return g.fail(mistake::kind::is_no_tokens);
    node out = g.reduced(x, 1);
    out.kind = node_kind::pick;
    out.read(ids);
    g.put(out);
  }

  constexpr void with_loss(int y, int loss) {
    if (g.is_loss) return g.fail(mistake::kind::loss_in_loss);
    g.output = y, g.loss_term = loss;
  }

  // ---- Factors and pieces of columns ------------------------------------------------------------

  /// Adds a view that divides the columns into heads. A vector of parameters may be divided, too,
  /// if elementwise functions read it.
  constexpr void heads(int x, int count) {
    bool const is_row = g.at[x].kind == node_kind::parameter && !g.at[x].is_matrix;
    if (!(is_row && g.at[x].factor_count == 1) && !takes_flat(x)) return;
    int const width = g.at[x].width();
    if (width % count != 0) return g.fail(mistake::kind::heads, width, count);
    node out = g.like(x, node_kind::reshape);
    dimension const slow = g.make_dimension(count);
    g.unite(g.at[x].last(), slow);
    out.factor_count = 2;
    out.factors[0] = slow;
    out.factors[1] = {-1, width / count};
    out.read(x);
    g.put(out);
  }
  constexpr void side_by_side(int x) {
    if (!takes(x)) return;
    if (g.at[x].factor_count != 2) return g.fail(mistake::kind::has_factors);
    node out = g.like(x, node_kind::reshape);
    dimension const all = g.make_dimension(g.at[x].width());
    if (g.at[x].factors[0].extent > 1) g.unite(all, g.at[x].factors[0]);
    else g.need_whole(all);
    g.need_whole(g.at[x].factors[1]);  // a block of this factor is not contiguous in the result
    out.set_columns(all);
    out.image = g.at[x].image;
    out.row_place = 0;
    out.read(x);
    g.put(out);
  }
  constexpr void part(int x, int number, int count) {
    if (!takes_flat(x)) return;
    int const width = g.at[x].width();
    if (width % count != 0) return g.fail(mistake::kind::parts, width, count);
    node out = g.like(x, node_kind::part);
    dimension const piece = g.make_dimension(width / count);
    g.unite(g.at[x].last(), piece, count);
    out.set_columns(piece);
    if (g.at[x].image.channels % count == 0) out.image = g.at[x].image, out.image.channels /= count;
    out.number = number, out.pieces = count;
    out.read(x);
    g.put(out);
  }
  constexpr void concat(int const* operands, int count) {
    node out = g.like(operands[0], node_kind::concat);
    int const width = g.at[operands[0]].width();
    dimension const all = g.make_dimension(width * count);
    image_shape image = g.at[operands[0]].image;
    for (int k = 0; k < count; ++k) {
      node const& x = g.at[operands[k]];
      if (!takes_made(operands[k])) return;
      if (x.factor_count > 1) return g.fail(mistake::kind::has_factors);
      if (x.width() != width) return g.fail(mistake::kind::map_shapes, width, x.width());
      if (x.image != image) image = {};
      g.unite(all, x.last(), count);
      out.read(operands[k]);
    }
    out.pieces = count;
    out.set_columns(all);
    out.image = image, out.image.channels *= count;
    g.put(out);
  }

  // ---- Positions --------------------------------------------------------------------------------

  /// Adds a contraction (einsum). `letters`: the letters of both operands and of the result, as a
  /// program writes them.
  constexpr void contract(int a, int b, char const (*letters)[node::most_dimensions],
                          int const* counts) {
    if (g.sequence == 0) return g.fail(mistake::kind::needs_sequence);
    node out;
    out.kind = node_kind::contract;
    int const operands[]{a, b};
    for (int side = 0; side < 2; ++side) {
      node const& x = g.at[operands[side]];
      if (!takes_made(operands[side])) return;
      if (counts[side] != 1 + x.factor_count)
        return g.fail(mistake::kind::letters, counts[side], 1 + x.factor_count);
      out.letters[side][0] = letters[side][x.row_place];
      for (int f = 0, i = 0; i < counts[side]; ++i)
        if (i != x.row_place) out.letters[side][++f] = letters[side][i];
      out.read(operands[side]);
    }
    // The first letter of the result that denotes the rows of either operand denotes the rows of
    // the result. For attention scores "hts" it is the position t of the queries; the position s of
    // the keys becomes the last factor of the columns.
    char rows = 0;
    for (int i = 0; i < counts[2] && rows == 0; ++i)
      if (letters[2][i] == out.letters[0][0] || letters[2][i] == out.letters[1][0])
        rows = letters[2][i];
    if (rows == 0) return g.fail(mistake::kind::letters, 0, 1);
    out.letters[2][0] = rows;
    for (int f = 0, i = 0; i < counts[2]; ++i) {
      if (letters[2][i] == rows) out.row_place = i;
      else out.letters[2][++f] = letters[2][i];
    }
    give_dimensions(out, counts[2] - 1);
    g.put(out);
  }
  constexpr void attention(int const* operands, int heads, int key_value_heads) {
    if (g.sequence == 0) return g.fail(mistake::kind::needs_sequence);
    int const counts[]{heads, key_value_heads, key_value_heads};
    int const head_width = g.at[operands[0]].width() / heads;
    // Ranks cut key and value by whole heads. The query heads that read one key-value head stay on
    // the same rank as this head.
    dimension const cut = g.make_dimension(key_value_heads);
    node out = g.like(operands[0], node_kind::attention);
    for (int k = 0; k < 3; ++k) {
      if (!takes_made(operands[k]) || !takes_flat(operands[k])) return;
      int const width = g.at[operands[k]].width();
      if (width % counts[k] != 0) return g.fail(mistake::kind::heads, width, counts[k]);
      if (width / counts[k] != head_width)
        return g.fail(mistake::kind::map_shapes, head_width * counts[k], width);
      g.unite(g.at[operands[k]].last(), cut);
      out.read(operands[k]);
    }
    int const first = g.put(out);
    node log_sum = g.like(first, node_kind::result);
    dimension const of_heads = g.make_dimension(heads);
    g.unite(of_heads, cut);
    log_sum.set_columns(of_heads);
    log_sum.read(first);
    log_sum.number = 1;
    g.put(log_sum);
  }
  constexpr void softmax(int x, bool is_causal) {
    node const& of = g.at[x];
    if (!takes(x)) return;
    if (of.factor_count == 0) return g.fail(mistake::kind::has_factors);
    if (is_causal && (g.sequence == 0 || of.last().extent != g.sequence))
      return g.fail(mistake::kind::needs_sequence, of.last().extent, g.sequence);
    node out = g.like(x, node_kind::softmax);
    out.is_causal = is_causal;
    out.read(x);
    g.put(out);
  }
  constexpr void shift(int x, int steps) {
    if (g.sequence == 0) return g.fail(mistake::kind::needs_sequence);
    if (!takes(x)) return;
    g.put(g.shifted(x, steps));
  }
  constexpr void scan(int a, int x) {
    if (g.sequence == 0) return g.fail(mistake::kind::needs_sequence);
    bool const is_number = g.at[a].kind == node_kind::number;
    if (!is_number && !g.at[a].is_per_row()) return g.fail(mistake::kind::is_no_decay);
    if ((!is_number && !takes_made(a)) || !takes_made(x)) return;
    if (g.at[a].factor_count > 1 || g.at[x].factor_count > 1)
      return g.fail(mistake::kind::has_factors);
    if (g.at[a].factor_count == 1 && g.at[a].width() != g.at[x].width())
      return g.fail(mistake::kind::map_shapes, g.at[a].width(), g.at[x].width());
    if (!is_number && g.at[a].width() != g.at[x].width()) {
      node repeated = g.like(x, node_kind::broadcast);
      repeated.image = {};
      repeated.read(a);
      a = g.put(repeated);
    }
    node out = g.like(x, node_kind::scan);
    if (is_number) {
      out.factor = g.at[a].factor;
    } else {
      if (!g.at[a].last().is_single()) g.unite(g.at[a].last(), g.at[x].last());
      out.read(a);
    }
    out.read(x);
    g.put(out);
  }

  constexpr void across(int x) {
    if (g.sequence == 0) return g.fail(mistake::kind::needs_sequence);
    if (!takes_made(x)) return;
    node out = g.like(x, node_kind::across);
    if (out.factor_count > 2 || out.last().extent > 1) return g.fail(mistake::kind::has_factors);
    if (out.factor_count == 0) out.factor_count = 1;
    out.factors[out.factor_count - 1] = {-1, g.sequence};
    out.row_place = out.factor_count - 1;  // the index of t in the letters "ts" or "hts"
    out.read(x);
    g.put(out);
  }

  // ---- Images -----------------------------------------------------------------------------------

  constexpr void as_image(int x, image_shape const& image) {
    if (!takes_flat(x)) return;
    if (g.at[x].width() != image.size())
      return g.fail(mistake::kind::image_width, g.at[x].width(), image.size());
    node out = g.like(x, node_kind::reshape);
    out.image = image;
    out.read(x);
    g.put(out);
  }
  /// Adds a convolution. If there is one group, ranks cut the input channels or the output
  /// channels. If there are several groups, ranks cut both kinds of channels, into whole groups.
  constexpr void convolve(int const* operands, int count, window_numbers const& by) {
    int const x = operands[0], w = operands[1];
    if (!takes_windows(x, by)) return;
    if (g.at[w].kind != node_kind::parameter || !g.at[w].is_matrix)
      return g.fail(mistake::kind::is_no_matrix);
    int const channels = g.at[x].image.channels, outputs = g.at[w].rows.extent;
    for (int const each : {channels, outputs})
      if (each % by.groups != 0) return g.fail(mistake::kind::groups, each, by.groups);
    int const inputs = channels / by.groups * by.kernel * by.kernel;
    if (g.at[w].width() != inputs)
      return g.fail(mistake::kind::weight_shape, g.at[w].width(), inputs);
    node out = windowed(x, operation::convolve::is, by, outputs);
    out.is_convolution = true;
    g.unite(out.last(), g.at[w].rows);
    if (by.groups == 1) {
      dimension const cut = g.make_dimension(channels);
      g.unite(g.at[x].first(), cut), g.unite(column_of(w), cut);
    } else {
      dimension const cut = g.make_dimension(by.groups);
      g.unite(g.at[x].first(), cut), g.unite(g.at[w].rows, cut);
      g.need_whole(column_of(w));
    }
    out.read(w);
    if (count == 3) {
      node const& b = g.at[operands[2]];
      if (b.kind != node_kind::parameter || b.is_matrix || b.width() != outputs)
        return g.fail(mistake::kind::bias_shape, outputs);
      g.unite(out.last(), b.last());
      out.read(operands[2]);
    }
    g.put(out);
  }
  constexpr void pool(int x, operation::row const& row, operation::row const& adjoint,
                      window_numbers const& by) {
    if (!takes_windows(x, by)) return;
    node out = windowed(x, row, by, g.at[x].image.channels);
    dimension const cut = g.make_dimension(g.at[x].image.channels);
    g.unite(g.at[x].first(), cut), g.unite(out.last(), cut);
    out.adjoints[out.adjoint_count++] = &adjoint;
    g.put(out);
  }

  // ---- Rows of operation/rows.hpp ---------------------------------------------------------------

  /// Adds a call of an operation. The operation takes the slower factors of an operand as rows, so
  /// a norm of [heads, width] is calculated for each head.
  constexpr void call(operation::row const& row, bool is_lookup, bool is_own,
                      operation::row const* const* adjoints, int adjoint_count, int const* operands,
                      int count) {
    auto const by = operation::signature::of(row.text);
    node out;
    out.kind = node_kind::call;
    out.row = &row, out.is_lookup = is_lookup, out.is_own = is_own;
    for (int k = 0; k < adjoint_count; ++k) out.adjoints[out.adjoint_count++] = adjoints[k];
    int factored = -1;
    known_dimensions known;
    for (int k = 0; k < count; ++k) {
      node const& x = g.at[operands[k]];
      if (x.is_tokens && !by.operands[k].is_constant) return g.fail(mistake::kind::is_tokens);
      if (x.is_data && !x.is_tokens && !takes_made(operands[k])) return;
      if (is_own && x.factor_count > 1) return g.fail(mistake::kind::has_factors);
      bool const takes_rows = by.operands[k].rows.index != '1';
      if (x.kind != node_kind::parameter && !(x.is_per_row() && takes_rows))
        return g.fail(takes_rows ? mistake::kind::is_no_activation
                                 : mistake::kind::is_no_parameter);
      out.read(operands[k]);
      match(by.operands[k].rows, x.rows, known);
      match(by.operands[k].columns, column_of(operands[k]), known);
      if (x.factor_count > 1) factored = operands[k];
    }
    int const first = g.size;
    for (int k = count; k < by.count; ++k) {
      if (k > count) {
        out = node{};
        out.kind = node_kind::result;
        out.read(first);
      }
      out.number = k - count;
      if (factored >= 0) out.copy_shape(g.at[factored]), --out.factor_count;
      out.rows = known.dimension_of(by.operands[k].rows);
      out.image = {};
      dimension const columns = known.dimension_of(by.operands[k].columns);
      if (factored >= 0 || !columns.is_single()) out.factors[out.factor_count++] = columns;
      if (out.width() == g.at[operands[0]].width()) out.image = g.at[operands[0]].image;
      g.put(out);
    }
    if (!g.at[first].is_per_row()) g.fail(mistake::kind::is_no_activation);
  }

 private:
  struct known_dimensions {
    dimension of[26]{};
    bool is_known[26]{};

    [[nodiscard]] constexpr dimension dimension_of(operation::dimension by) const {
      if (by.index == '1') return {-1, by.parts};
      return of[by.index - 'a'];
    }
  };
  constexpr void match(operation::dimension by, dimension given, known_dimensions& known) {
    if (by.index == '1') {
      if (given.extent != by.parts) g.fail(mistake::kind::call_shapes, given.extent, by.parts);
      return;
    }
    int const letter = by.index - 'a';
    if (!known.is_known[letter]) known.of[letter] = given, known.is_known[letter] = true;
    else if (known.of[letter].extent != given.extent)
      g.fail(mistake::kind::call_shapes, known.of[letter].extent, given.extent);
    else if (known.of[letter].variable != given.variable) g.unite(known.of[letter], given);
  }
  [[nodiscard]] constexpr dimension column_of(int value) const { return g.at[value].last(); }
  /// Returns true if the value is an activation; otherwise records the mistake and returns false.
  constexpr bool takes(int value) {
    if (g.at[value].is_tokens) g.fail(mistake::kind::is_tokens);
    else if (!g.at[value].is_per_row()) g.fail(mistake::kind::is_no_activation);
    return g.at[value].is_activation();
  }
  /// Returns true for an activation other than an input of real numbers of the data set. Products
  /// and norms take the type of activations, which such an input does not have.
  constexpr bool takes_made(int value) {
    if (!takes(value)) return false;
    bool const is_given = g.at[value].kind == node_kind::input && g.at[value].is_data;
    if (is_given) g.fail(mistake::kind::is_data);
    return !is_given;
  }
  /// Returns true for an activation of several features without heads.
  constexpr bool takes_flat(int value) {
    if (!takes(value)) return false;
    if (g.at[value].factor_count != 1) g.fail(mistake::kind::has_factors);
    return g.at[value].factor_count == 1;
  }
  /// Returns true for an image that is at least as large as the windows.
  constexpr bool takes_windows(int value, window_numbers const& by) {
    if (!takes(value)) return false;
    image_shape const of = g.at[value].image;
    if (of.channels == 0) g.fail(mistake::kind::is_no_image);
    for (int const side : {of.height, of.width})
      if (by.kernel > side + 2 * by.padding)
        g.fail(mistake::kind::kernel, by.kernel, side + 2 * by.padding);
    return !g.has_failed();
  }
  /// Returns the node of a call of an operation on the windows of x. The result of the call is an
  /// image of `channels` channels.
  constexpr node windowed(int x, operation::row const& row, window_numbers const& by,
                          int channels) {
    auto const in = windows_of(g.at[x].image, by);
    image_shape const made{channels, int(in.out_height()), int(in.out_width())};
    node out;
    out.kind = node_kind::call;
    out.row = &row, out.windows = by;
    out.rows = g.at[x].rows;
    out.set_columns(g.make_dimension(made.size()));
    out.image = made;
    out.read(x);
    return out;
  }
  constexpr void align(node& out, node const& x) {
    if (x.factor_count > out.factor_count) {
      int const more = x.factor_count - out.factor_count;
      for (int f = out.factor_count - 1; f >= 0; --f) out.factors[f + more] = out.factors[f];
      for (int f = 0; f < more; ++f) out.factors[f] = x.factors[f];
      out.factor_count = x.factor_count;
      out.row_place = x.row_place;
    } else if (x.factor_count == out.factor_count && x.row_place > out.row_place) {
      out.row_place = x.row_place;  // one operand is scores, the other has a weight for each head
    }
    for (int f = 0; f < x.factor_count; ++f) {
      dimension& made = out.factors[out.factor_count - x.factor_count + f];
      dimension const& given = x.factors[f];
      if (given.is_single()) continue;
      if (made.is_single()) made = given;
      if (made.extent != given.extent)
        return g.fail(mistake::kind::map_shapes, made.extent, given.extent);
      if (made.variable != given.variable) g.unite(made, given);
    }
  }
  /// Sets the dimensions of a contraction that follow from its letters.
  constexpr void give_dimensions(node& out, int factor_count) {
    out.rows = {row_variable, 0};
    node const& a = g.at[out.operands[0]];
    node const& b = g.at[out.operands[1]];
    auto const dimension_at = [&](node const& x, int place) {
      return place == 0 ? dimension{-1, g.sequence} : x.factors[place - 1];
    };
    for (int i = 0; i <= a.factor_count; ++i)
      for (int k = 0; k <= b.factor_count; ++k) {
        if (out.letters[0][i] != out.letters[1][k]) continue;
        dimension const of_a = dimension_at(a, i), of_b = dimension_at(b, k);
        if (of_a.extent != of_b.extent) {
          if (!g.has_failed()) g.wrong.letter = out.letters[0][i];
          g.fail(mistake::kind::inner_lengths, of_a.extent, of_b.extent);
        }
        if (of_a.variable != of_b.variable) g.unite(of_a, of_b);
      }
    for (int f = 1; f <= factor_count; ++f) {
      int found = 0;
      for (int i = 0; i <= a.factor_count && found == 0; ++i)
        if (out.letters[0][i] == out.letters[2][f])
          out.factors[f - 1] = dimension_at(a, i), ++found;
      for (int k = 0; k <= b.factor_count && found == 0; ++k)
        if (out.letters[1][k] == out.letters[2][f])
          out.factors[f - 1] = dimension_at(b, k), ++found;
      if (found == 0) g.fail(mistake::kind::letters, f, f);
    }
    out.factor_count = factor_count;
  }
};

}  // namespace plait::formula
