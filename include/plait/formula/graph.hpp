// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/formula/node.hpp"
#include "plait/formula/node_rows.hpp"
#include "plait/operation/signature.hpp"

/// A formula as a table of nodes: one node for each distinct term. A node's operands have lower
/// numbers than the node. The nodes of the gradients follow the nodes of the forward
/// (formula/adjoint.hpp). The code that reads the table uses no types of terms, only loops over an
/// array.
///
/// Like a view, each value is a matrix. Its columns may be declared as several factors, the slowest
/// first: [heads, width of a head]. Each dimension belongs to a variable, a set of dimensions that
/// ranks cut together. An operation unites variables: x w unites the columns of x with the rows of
/// w. A variable may also consist of several pieces of another variable, side by side: the columns
/// of one product that makes query, key and value are three pieces of a head dimension. Ranks may
/// cut one variable, wherever it occurs; formula/forms.hpp tries each variable.
///
/// Example: matmul(silu(matmul(x, up)), down) has the nodes x, up, x up, silu, down, silu(x up)
/// down. The columns of `up`, of the first product and of silu, and the rows of `down` are one
/// variable.
namespace plait::formula {

template <int Capacity>
struct graph {
  static constexpr int capacity = Capacity;
  static constexpr int most_inputs = 4, most_parameters = 8;

  node at[Capacity]{};
  int size = 0, forward_size = 0, output = -1;
  int gradient[Capacity]{};  ///< the node of the gradient of a value, -1 if it has none
  int inputs[most_inputs]{-1, -1, -1, -1}, input_count = 0;
  int parameters[Capacity]{}, parameter_count = 0;
  int loss_term = -1;    ///< the node whose numbers, one for each row, are added to the loss
  bool is_loss = false;  ///< true if the output is `loss_term`
  int sequence = 0;      ///< positions of a sample; 0 if the layer does not declare `sequence`
  /// The union-find forest of variables: the variable that a variable was united with, or its own
  /// number if it is the root of its tree.
  int parent[Capacity]{};
  /// The number of pieces of which a variable consists. Each piece is cut in the same way as the
  /// parent of the variable in the forest.
  int pieces[Capacity]{};
  int extents[Capacity]{};    ///< the length of a variable; 0 for the rows
  bool is_whole[Capacity]{};  ///< true if each rank needs all of a variable
  int variables = 1;          ///< the number of variables; variable 0 is the rows of activations
  mistake wrong{};

  constexpr graph() {
    for (int& each : gradient) each = -1;
    pieces[row_variable] = 1;
  }

  [[nodiscard]] constexpr bool has_failed() const { return wrong.what != mistake::kind::none; }
  /// Records a mistake, unless another one was recorded earlier. The caller, which knows the term
  /// that it places or visits, then calls blame() to add this term.
  constexpr void fail(mistake::kind what, int left = 0, int right = 0) {
    if (!has_failed()) wrong = {what, -1, left, right, wrong.letter};
  }
  /// Sets the term of a mistake that was just recorded.
  constexpr void blame(int term) {
    if (has_failed() && wrong.term < 0) wrong.term = term;
  }
  constexpr int put(node const& of) {
    if (size == Capacity) return fail(mistake::kind::too_many_nodes), size - 1;
    at[size] = of;
    at[size].row = row_of_node(of);
    if (forward_size == 0) need_whole_of(at[size]);
    if (forward_size == 0 && is_made_of_data(of)) at[size].is_data = true;
    return size++;
  }
  /// Returns true if a value has a gradient.
  [[nodiscard]] constexpr bool has_gradient(int value) const {
    return !is_shapeless(value) && !at[value].is_data;
  }
  /// Returns a new node of this kind with the shape of `value`.
  [[nodiscard]] constexpr node like(int value, node_kind kind) const {
    node out;
    out.kind = kind;
    out.copy_shape(at[value]);
    return out;
  }
  [[nodiscard]] constexpr bool is_leaf(int value) const {
    return at[value].kind == node_kind::input || at[value].kind == node_kind::parameter ||
           is_shapeless(value);
  }
  /// Returns true for a number, a function of places or a draw: these have no shape and no
  /// gradient, and are not stored.
  [[nodiscard]] constexpr bool is_shapeless(int value) const {
    node_kind const kind = at[value].kind;
    return kind == node_kind::number || kind == node_kind::index_function ||
           kind == node_kind::draw;
  }

  /// If a value is a parameter, or a view that divides a parameter into heads, returns the node of
  /// the parameter; else returns -1.
  [[nodiscard]] constexpr int row_of(int value) const {
    if (at[value].kind == node_kind::reshape) value = at[value].operands[0];
    return at[value].kind == node_kind::parameter ? value : -1;
  }

  // ---- Variables --------------------------------------------------------------------------------

  constexpr dimension make_dimension(int extent) {
    if (extent == 1) return {};
    parent[variables] = variables;
    pieces[variables] = 1;
    extents[variables] = extent;
    return {variables++, extent};
  }
  [[nodiscard]] constexpr int root(int variable) const {
    while (parent[variable] != variable) variable = parent[variable];
    return variable;
  }
  /// Returns the number of pieces of which a variable consists. Each piece is cut in the same way
  /// as the root of the variable's tree.
  [[nodiscard]] constexpr int pieces_of(int variable) const {
    int out = 1;
    for (; parent[variable] != variable; variable = parent[variable]) out *= pieces[variable];
    return out;
  }
  /// Records that each rank needs all of a dimension.
  constexpr void need_whole(dimension const& of) {
    if (of.variable >= 0) is_whole[root(of.variable)] = true;
  }
  /// Records that each rank needs all of the dimensions that a node's operation declares whole.
  constexpr void need_whole_of(node const& of) {
    if (!has_operands(*of.row)) return;
    auto const by = operation::signature::of(of.row->text);
    auto const letters = by.whole | by.maximum;
    for (int k = 0; letters != 0 && k < of.count && !by.operands[k].is_written; ++k) {
      node const& x = at[of.operands[k]];
      if (operation::signature::holds(letters, by.operands[k].rows)) need_whole(x.rows);
      if (operation::signature::holds(letters, by.operands[k].columns)) need_whole(x.last());
    }
  }
  /// Records that `a` consists of `count` pieces and that each piece is cut in the same way as `b`.
  constexpr void unite(dimension const& a, dimension const& b, int count = 1) {
    if (a.variable < 0 || b.variable < 0) return need_whole(a), need_whole(b);
    int const of_a = root(a.variable), of_b = root(b.variable);
    int const in_a = pieces_of(a.variable), in_b = pieces_of(b.variable) * count;
    if (of_a == of_b) {
      if (in_a != in_b) is_whole[of_a] = true;
      return;
    }
    bool const whole = is_whole[of_a] || is_whole[of_b];
    if (in_b % in_a == 0) {
      parent[of_a] = of_b, pieces[of_a] = in_b / in_a, is_whole[of_b] = whole;
    } else if (in_a % in_b == 0) {
      parent[of_b] = of_a, pieces[of_b] = in_a / in_b, is_whole[of_a] = whole;
    } else {
      is_whole[of_a] = is_whole[of_b] = true;
    }
  }

  // ---- Nodes that forward and gradients have ----------------------------------------------------

  /// Returns a node that sums x over the last of the dimensions into which its columns are divided,
  /// so that the result has one column in this dimension, and multiplies the sums by `factor`.
  [[nodiscard]] constexpr node reduced(int x, double factor) const {
    node out = like(x, node_kind::reduce);
    out.factor = factor;
    if (out.factor_count == 1) out.factor_count = 0;
    else out.factors[out.factor_count - 1] = {};
    out.image = {};
    out.read(x);
    return out;
  }
  [[nodiscard]] constexpr node shifted(int x, int steps) const {
    node out = like(x, node_kind::shift);
    out.steps = steps;
    out.read(x);
    return out;
  }

  // ---- Changes of the graph after all terms are placed ------------------------------------------

  /// Returns how often nodes of the forward read a value.
  [[nodiscard]] constexpr int readers(int value) const {
    int const end = forward_size > 0 ? forward_size : size;
    int out = 0;
    for (int i = 0; i < end; ++i) {
      node const& n = at[i];
      int const count = n.kind == node_kind::map ? n.own_count : n.count;
      for (int k = 0; k < count; ++k)
        out += (n.kind == node_kind::map ? n.own[k] : n.operands[k]) == value ? 1 : 0;
    }
    return out;
  }
  /// Merges x w + b into one node if b is a row of parameters and no other node reads the product.
  constexpr void join_biases() {
    for (int i = 0; i < size; ++i) {
      if (at[i].kind != node_kind::map || at[i].is != algebra::sum || at[i].own_count != 2)
        continue;
      for (int k = 0; k < 2; ++k) {
        int const product = at[i].own[k], bias = at[i].own[1 - k];
        if (at[product].kind != node_kind::product || at[product].count != 2) continue;
        if (at[bias].kind != node_kind::parameter || at[bias].factor_count == 0) continue;
        if (readers(product) != 1) continue;
        node joined = at[product];
        joined.read(bias);
        joined.term = at[i].term;
        at[i] = joined;
        at[product].kind = node_kind::none;
        at[product].count = 0;
        break;
      }
    }
  }
  /// Inlines a map into its readers if all readers are maps of the same shape, so that the map's
  /// result is never stored. A map that reads only parameters is inlined into maps of any shape.
  constexpr void fuse() {
    bool is_stored[Capacity]{};
    is_stored[output] = true;
    if (loss_term >= 0) is_stored[loss_term] = true;
    for (int i = 0; i < size; ++i) {
      node const& n = at[i];
      for (int k = 0; k < n.count; ++k) is_stored[n.operands[k]] = true;
      for (int k = 0; k < n.own_count; ++k) {
        node const& x = at[n.own[k]];
        if (x.width() != n.width() && x.is_per_row()) is_stored[n.own[k]] = true;
      }
    }
    for (int i = 0; i < size; ++i) {
      node& n = at[i];
      if (n.kind != node_kind::map) continue;
      n.is_inlined = !is_stored[i];
      for (int k = 0; k < n.own_count; ++k) {
        int const x = n.own[k];
        if (is_shapeless(x)) continue;
        if (!at[x].is_inlined) read_once(n, x);
        else
          for (int j = 0; j < at[x].count; ++j) read_once(n, at[x].operands[j]);
      }
      if (!n.is_inlined && functions_of(i).count > function_list::most)
        fail(mistake::kind::too_many_functions, function_list::most);
      blame(n.term);
    }
  }

  /// The functions that a map consists of, in the order of evaluation. The map's own function is
  /// the last.
  struct function_list {
    static constexpr int most = 32;
    int at[most]{};
    int count = 0;  ///< if it is more than `most`, fuse() reports a mistake

    [[nodiscard]] constexpr int place_of(int value) const {
      for (int i = 0; i < count; ++i)
        if (at[i] == value) return i;
      return -1;
    }
  };
  [[nodiscard]] constexpr function_list functions_of(int map) const {
    bool is_in[Capacity]{};
    is_in[map] = true;
    for (int i = map; i >= 0; --i)
      if (is_in[i])
        for (int k = 0; k < at[i].own_count; ++k)
          if (at[at[i].own[k]].is_inlined) is_in[at[i].own[k]] = true;
    function_list out;
    for (int i = 0; i <= map; ++i)
      if (is_in[i] && ++out.count <= function_list::most) out.at[out.count - 1] = i;
    return out;
  }
  /// Returns true if a map reads the place of each element.
  [[nodiscard]] constexpr bool is_placed(int map) const {
    return reads_kind(map, node_kind::index_function) || is_drawn(map);
  }
  /// Returns true if a map reads random numbers.
  [[nodiscard]] constexpr bool is_drawn(int map) const { return reads_kind(map, node_kind::draw); }
  /// Returns true if a map is linear in `operand` while its other operands are fixed.
  [[nodiscard]] constexpr bool is_linear_in(int map, int operand) const {
    auto const functions = functions_of(map);
    enum class kind : int { fixed, linear, other };
    kind made[function_list::most]{};
    for (int i = 0; i < functions.count; ++i) {
      node const& n = at[functions.at[i]];
      kind of[4]{};
      int fixed = 0, linear = 0;
      for (int k = 0; k < n.own_count; ++k) {
        int const x = n.own[k];
        if (at[x].is_inlined) of[k] = made[functions.place_of(x)];
        else if (x == at[map].operands[operand]) of[k] = kind::linear;
        fixed += of[k] == kind::fixed ? 1 : 0, linear += of[k] == kind::linear ? 1 : 0;
      }
      bool const adds =
          n.is == algebra::sum || n.is == algebra::difference || n.is == algebra::negation;
      bool const scales = (n.is == algebra::product && linear == 1 && fixed == 1) ||
                          (n.is == algebra::quotient && of[0] == kind::linear && fixed == 1);
      made[i] = fixed == n.own_count                        ? kind::fixed
                : (adds && linear == n.own_count) || scales ? kind::linear
                                                            : kind::other;
    }
    return made[functions.count - 1] == kind::linear;
  }
  /// Returns true if a map adds `operand` unchanged, so that the derivative with respect to
  /// `operand` is 1.
  [[nodiscard]] constexpr bool adds_operand(int map, int operand) const {
    auto const functions = functions_of(map);
    bool is_added[function_list::most]{}, depends[function_list::most]{};
    for (int i = 0; i < functions.count; ++i) {
      node const& n = at[functions.at[i]];
      int reading = 0, added = -1;
      for (int k = 0; k < n.own_count; ++k) {
        int const x = n.own[k], place = at[x].is_inlined ? functions.place_of(x) : -1;
        bool const is_operand = place < 0 && x == at[map].operands[operand];
        reading += is_operand || (place >= 0 && depends[place]) ? 1 : 0;
        if (is_operand || (place >= 0 && is_added[place])) added = k;
      }
      depends[i] = reading > 0;
      is_added[i] = reading == 1 && ((n.is == algebra::sum && added >= 0) ||
                                     (n.is == algebra::difference && added == 0));
    }
    return is_added[functions.count - 1];
  }
  /// Returns the place of a value among the operands of a map, or -1.
  [[nodiscard]] constexpr int operand_of(int map, int value) const {
    for (int k = 0; k < at[map].count; ++k)
      if (at[map].operands[k] == value) return k;
    return -1;
  }

 private:
  [[nodiscard]] constexpr bool reads_kind(int map, node_kind kind) const {
    auto const functions = functions_of(map);
    for (int i = 0; i < functions.count; ++i)
      for (int k = 0; k < at[functions.at[i]].own_count; ++k)
        if (at[at[functions.at[i]].own[k]].kind == kind) return true;
    return false;
  }
  /// Returns true if a node of the forward reads only data: integers, targets and numbers.
  [[nodiscard]] constexpr bool is_made_of_data(node const& of) const {
    bool is_data = false;
    int const count = of.own_count + of.count;
    for (int k = 0; k < count; ++k) {
      int const x = k < of.own_count ? of.own[k] : of.operands[k - of.own_count];
      if (has_gradient(x)) return false;
      is_data = is_data || at[x].is_data;
    }
    return is_data;
  }
  constexpr void read_once(node& n, int value) {
    if (n.reads(value)) return;
    if (n.count == node::most_operands - 1)
      return fail(mistake::kind::too_many_values, node::most_operands - 1);
    n.read(value);
  }
};

}  // namespace plait::formula
