// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/formula/forms.hpp"
#include "plait/formula/graph.hpp"
#include "plait/formula/kept.hpp"
#include "plait/layer/slot.hpp"

/// The storage of each value of a formula: the values that the forward keeps for the gradients, the
/// values that the backward recomputes, and the scratch of the bodies.
namespace plait::formula {

/// The bodies of a layer. `backward` computes the gradients of the input and of the parameters in
/// one call.
enum class body : int { forward, backward_input, backward_parameters, backward };
inline constexpr int body_count = 4;

/// The storage of a value while a body runs.
enum class storage : int {
  none,       ///< the value has no storage: it is inlined in another node, or never calculated
  input,      ///< stored in l.x, or in the saved input
  parameter,  ///< stored in l.p
  output,     ///< stored in l.y, or in the saved output
  output_gradient,
  input_gradient,
  parameter_gradient,
  saved,   ///< stored in a slot of `saved`; value_memory::slot has its number
  scratch  ///< stored in a slot of `scratch`; value_memory::slot has its number
};

template <class Graph>
class value_memory {
 public:
  /// A list of slots. Each list entry is the number of a value that has the shape of the slot.
  struct slot_list {
    int value[Graph::capacity]{};
    int count = 0;
  };

  Graph const& g;
  int output;  ///< the node of the output, with reshapes skipped; -1 for a loss
  bool is_read_backward[Graph::capacity]{};  ///< the values of the forward that the gradients read
  bool is_kept[Graph::capacity]{};           ///< values of the forward that are kept in a slot
  bool runs[body_count][Graph::capacity]{};  ///< the nodes that each body calculates
  storage stored_in[Graph::capacity]{};
  slot_element element[Graph::capacity]{};  ///< the type of a value that has a slot
  int slot[Graph::capacity]{};              ///< the slot of a value that is saved or in scratch
  slot_list saved{}, scratch{};
  bool keeps_input = false, keeps_output = false;
  bool shares_work = false;  ///< the gradients of the input and of the parameters read a common
                             ///< value that the backward calculates
  bool is_completed[Graph::capacity]{};  ///< in at least one form, ranks add up the summands of the
                                         ///< value

  template <class Forms>
  constexpr value_memory(Graph const& graph, Forms const& forms)
      : g(graph), output(graph.is_loss ? -1 : base(graph.output)) {
    for (int i = 0; i < forms.count; ++i)
      for (int k = 0; k < forms.at[i].completed_count; ++k)
        is_completed[forms.at[i].completed[k]] = true;
    find_kept();
    for (int which = 0; which < body_count; ++which) find_runs(body(which));
    for (int i = g.forward_size; i < g.size; ++i)
      shares_work =
          shares_work || (runs[1][i] && runs[2][i] && g.at[i].kind != node_kind::output_gradient);
    for (int i = 0; i < g.forward_size; ++i)
      shares_work = shares_work || (runs[1][i] && runs[2][i]);
    for (int i = 0; i < g.size; ++i) find_storage(i);
    find_elements();
    lives_of_values lives(*this);
    for (int i = 0; i < g.size; ++i)
      if (stored_in[i] == storage::scratch && slot[i] < 0) find_slot(i, forms, lives);
  }

  /// Returns the value of which `value` is a reshape; returns `value` if it is not a reshape.
  [[nodiscard]] constexpr int base(int value) const {
    while (value >= 0 && g.at[value].kind == node_kind::reshape) value = g.at[value].operands[0];
    return value;
  }
  /// Returns true if body `in` does not calculate the value itself but receives it, as an input,
  /// parameter, gradient or saved value.
  [[nodiscard]] constexpr bool is_given(int value, body in) const {
    value = base(value);
    if (g.is_leaf(value) || g.at[value].kind == node_kind::output_gradient) return true;
    if (in == body::forward || value >= g.forward_size) return false;
    return is_kept[value] || (value == output && is_read_backward[value]);
  }
  /// Returns the node in whose storage a value is written. A gradient that is read only by a sum is
  /// written in the storage of the sum. A reshape has the storage of its operand. Any other value
  /// has its own storage.
  [[nodiscard]] constexpr int place_of(int value) const {
    if (g.at[value].kind == node_kind::reshape) return place_of(g.at[value].operands[0]);
    for (int i = value + 1; i < g.size; ++i)
      if (g.at[i].kind == node_kind::add && g.at[i].operands[0] == value &&
          is_made_for_one(value) && !is_completed[i])
        return place_of(i);
    for (int i = value + 1; i < g.size; ++i)
      if (is_added_in_place(value, i)) return place_of(i);
    return value;
  }
  /// Returns true if node `value`, an operand of sum `i`, adds its result in place to the other
  /// operand of the sum.
  [[nodiscard]] constexpr bool is_added_in_place(int value, int i) const {
    return g.at[i].kind == node_kind::add && g.at[i].operands[1] == value &&
           adds(g.at[value].kind) && is_made_for_one(value) && place_of_first(i) == i &&
           !is_completed[i] && !is_completed[value];
  }
  /// Returns the node of the call that computes node `i`; returns `i` if node `i` is not a further
  /// result of a call.
  [[nodiscard]] constexpr int maker(int i) const {
    return g.at[i].kind == node_kind::result ? g.at[i].operands[0] : i;
  }

 private:
  /// Returns true for kinds of nodes that can add to the storage of their result instead of
  /// overwriting it.
  static constexpr bool adds(node_kind kind) {
    using enum node_kind;
    return kind == product || kind == log_sum_exp_gradient || kind == maximum_gradient ||
           kind == pick_gradient;
  }
  [[nodiscard]] constexpr int place_of_first(int sum) const {
    int const first = g.at[sum].operands[0];
    return is_made_for_one(first) ? sum : -1;
  }
  /// Returns true if `value` is a gradient that exactly one node reads. False for dy, and for the
  /// gradients that a body returns.
  [[nodiscard]] constexpr bool is_made_for_one(int value) const {
    if (value < g.forward_size || g.at[value].kind == node_kind::output_gradient) return false;
    // A reshape has the storage of its operand.
    if (g.at[value].kind == node_kind::reshape) return false;
    if (g.at[value].kind == node_kind::call || g.at[value].kind == node_kind::result ||
        g.at[value].kind == node_kind::attention_gradient)
      return false;
    for (int k = 0; k < g.input_count; ++k)
      if (g.gradient[g.inputs[k]] == value) return false;
    int readers = 0;
    for (int i = g.forward_size; i < g.size; ++i)
      for (int k = 0; k < g.at[i].count; ++k) readers += g.at[i].operands[k] == value ? 1 : 0;
    return readers == 1;
  }
  constexpr void find_kept() {
    for (int i = g.forward_size; i < g.size; ++i)
      for (int k = 0; k < g.at[i].count; ++k)
        if (int const x = base(g.at[i].operands[k]); x >= 0 && x < g.forward_size)
          is_read_backward[x] = true;
    bool is_recomputed[Graph::capacity]{};
    {
      cheapest_kept<Graph> const cheapest(g, is_read_backward, output);
      for (int i = 0; i < g.forward_size; ++i) {
        is_kept[i] = cheapest.keeps(i);
        is_recomputed[i] = cheapest.is_made(i) && !is_kept[i];
      }
      if (output >= 0 && cheapest.is_cut(output)) is_read_backward[output] = true;
    }
    for (int i = g.forward_size - 1; i >= 0; --i)
      for (int k = 0; is_read_backward[i] && is_recomputed[i] && k < g.at[i].count; ++k)
        is_read_backward[base(g.at[i].operands[k])] = true;
    keeps_input =
        g.is_loss;  // the gradients need the targets, which tell which rows contribute to the loss
    for (int i = 0; i < g.forward_size; ++i)
      if (is_read_backward[i] && g.at[i].kind == node_kind::input) keeps_input = true;
    keeps_output = output >= 0 && is_read_backward[output];
  }
  constexpr void find_runs(body which) {
    bool(&out)[Graph::capacity] = runs[int(which)];
    auto const want = [&](int value) {
      if (value < 0 || is_given(value, which)) return;
      out[value] = true;
      out[maker(value)] = true;
    };
    if (which == body::forward) {
      want(g.output), want(g.loss_term);
      for (int i = 0; i < g.forward_size; ++i)
        if (is_kept[i]) want(i);
    }
    if (which == body::backward_input || which == body::backward)
      for (int i = 0; i < g.input_count; ++i) want(g.gradient[g.inputs[i]]);
    if (which == body::backward_parameters || which == body::backward)
      for (int i = g.forward_size; i < g.size; ++i)
        if (g.at[i].parameter >= 0) want(i);
    for (int i = g.size - 1; i >= 0; --i)
      if (out[i])
        for (int k = 0; k < g.at[i].count; ++k)
          if (g.at[i].operands[k] >= 0) want(g.at[i].operands[k]);
    // A call writes all of its results.
    for (int i = 0; i < g.size; ++i)
      if (g.at[i].kind == node_kind::result && out[maker(i)]) out[i] = true;
  }
  [[nodiscard]] constexpr bool is_made(int value) const {
    for (auto const& each : runs)
      if (each[value]) return true;
    return false;
  }
  constexpr void find_storage(int i) {
    slot[i] = -1;
    node const& n = g.at[i];
    if (n.kind == node_kind::input) stored_in[i] = storage::input;
    else if (n.kind == node_kind::parameter) stored_in[i] = storage::parameter;
    else if (n.kind == node_kind::output_gradient) stored_in[i] = storage::output_gradient;
    else if (n.kind == node_kind::reshape) stored_in[i] = storage::none;
    else if (i == output) stored_in[i] = storage::output;
    else if (n.parameter >= 0) stored_in[i] = storage::parameter_gradient;
    else if (is_input_gradient(i)) stored_in[i] = storage::input_gradient;
    else if (i < g.forward_size && is_kept[i]) {
      stored_in[i] = storage::saved;
      slot[i] = saved.count;
      saved.value[saved.count++] = i;
    } else if (!g.is_shapeless(i) && is_made(i) && place_of(i) == i) {
      stored_in[i] = storage::scratch;
    }
  }
  /// Returns true if the node is the gradient of one input and no other node reads it.
  [[nodiscard]] constexpr bool is_input_gradient(int i) const {
    int found = 0;
    for (int k = 0; k < g.input_count; ++k) found += base(g.gradient[g.inputs[k]]) == i ? 1 : 0;
    for (int k = g.forward_size; k < g.size; ++k)
      for (int j = 0; j < g.at[k].count; ++j)
        if (g.at[k].kind != node_kind::reshape && base(g.at[k].operands[j]) == i) found += 2;
    return found == 1;
  }

  /// Sets the element type of each value. Sums over columns, statistics, and functions of these
  /// alone have the type in which sums are formed (float for bfloat16). All other values have the
  /// type of activations. A sum that a product or a similar operation reads also has the type of
  /// activations, because the operation takes no other type. The gradient of a value has the type
  /// of the value.
  constexpr void find_elements() {
    using enum slot_element;
    for (int i = 0; i < g.forward_size; ++i) {
      node const& n = g.at[i];
      bool is_sum = n.is_data || n.kind == node_kind::result || n.kind == node_kind::reduce;
      is_sum = is_sum || n.kind == node_kind::log_sum_exp || n.kind == node_kind::maximum ||
               n.kind == node_kind::pick;
      if (n.kind == node_kind::reshape) is_sum = element[n.operands[0]] == accumulate;
      if (n.kind == node_kind::map) {
        int sums = 0, others = 0;
        for (int k = 0; k < n.count; ++k)
          if (g.at[n.operands[k]].is_per_row())
            ++(element[n.operands[k]] == accumulate ? sums : others);
        // In a loss, sums always have the wider type: a loss has no products, which would need the
        // type of activations.
        is_sum = is_sum || (sums > 0 && (others == 0 || g.is_loss));
        is_sum = is_sum || (g.is_loss && n.factor_count == 0);
      }
      is_sum = is_sum && (n.kind == node_kind::result || !is_read_narrow(i));
      element[i] = is_sum ? accumulate : compute;
    }
    for (int i = g.forward_size; i < g.size; ++i)
      element[i] = g.at[i].kind == node_kind::reduce ? accumulate : compute;
    for (slot_element const type : {accumulate, compute})
      for (int i = 0; i < g.forward_size; ++i)
        if (g.gradient[i] >= 0 && element[i] == type) set_element(g.gradient[i], type);
  }
  /// Returns true if a value is read by an operation of the forward that is neither an elementwise
  /// function nor a sum over columns.
  [[nodiscard]] constexpr bool is_read_narrow(int value) const {
    for (int i = value + 1; i < g.forward_size; ++i) {
      node const& n = g.at[i];
      if (!n.reads(value) || n.kind == node_kind::map || n.kind == node_kind::reduce) continue;
      if (n.kind != node_kind::reshape || is_read_narrow(i)) return true;
    }
    return false;
  }
  constexpr void set_element(int gradient, slot_element type) {
    node const& n = g.at[gradient];
    element[gradient] = type;
    if (n.kind != node_kind::add && n.kind != node_kind::reshape) return;
    for (int k = 0; k < n.count; ++k)
      if (n.operands[k] >= g.forward_size) set_element(n.operands[k], type);
  }

  // ---- Scratch: values that are not in use at the same time share a slot ------------------------

  /// For each body and each value, the first and the last node of the body that reads or writes the
  /// value. They are found once and stored, because compilers limit the number of steps of a
  /// constant expression. If a body neither reads nor writes a value, the first node has a greater
  /// number than the last node.
  struct lives_of_values {
    int place[Graph::capacity]{};
    int first[body_count][Graph::capacity]{}, last[body_count][Graph::capacity]{};
    int in_scratch[Graph::capacity]{}, count = 0;  ///< the values in scratch that have a slot

    constexpr explicit lives_of_values(value_memory const& of) {
      auto const& g = of.g;
      for (int i = 0; i < g.size; ++i) place[i] = of.place_of(i);
      for (int in = 0; in < body_count; ++in) {
        for (int i = 0; i < g.size; ++i) first[in][i] = g.size, last[in][i] = -1;
        for (int i = 0; i < g.size; ++i) {
          if (!of.runs[in][i]) continue;
          for (int k = 0; k < g.at[i].count; ++k)
            if (int const x = g.at[i].operands[k]; x >= 0) last[in][place[x]] = i;
          if (first[in][place[i]] == g.size) first[in][place[i]] = i;
          last[in][place[i]] = i;
        }
        // The forward adds the term to the loss after all nodes.
        if (g.loss_term >= 0 && body(in) == body::forward) last[in][place[g.loss_term]] = g.size;
      }
    }
  };
  [[nodiscard]] constexpr bool meet(int a, int b, lives_of_values const& lives) const {
    for (int in = 0; in < body_count; ++in) {
      int const first_of_a = lives.first[in][a], first_of_b = lives.first[in][b];
      if (first_of_a == g.size || first_of_b == g.size) continue;
      // A call writes all of its results at the same time as its first result.
      int const a_first = maker(first_of_a), b_first = maker(first_of_b);
      int const a_last = lives.last[in][a], b_last = lives.last[in][b];
      if (a_first <= b_last && b_first <= a_last && !is_made_over(a_first, b_last) &&
          !is_made_over(b_first, a_last))
        return true;
    }
    return false;
  }
  /// Returns true if an elementwise function that calculates one value is the last reader of
  /// another value, so that it can overwrite the other value.
  [[nodiscard]] constexpr bool is_made_over(int first, int last) const {
    bool const is_map = g.at[first].kind == node_kind::map || g.at[first].kind == node_kind::slope;
    // If a value is repeated for each head, a column of the result is calculated from a column with
    // another index.
    return is_map && g.at[first].factor_count <= 1 && first == last && place_of(first) == first;
  }
  template <class Forms>
  constexpr void find_slot(int i, Forms const& forms, lives_of_values& lives) {
    lives.in_scratch[lives.count++] = i;
    for (int s = 0; s < scratch.count; ++s) {
      int const shaped_by = scratch.value[s];
      bool fits = g.at[shaped_by].width() == g.at[i].width() && element[shaped_by] == element[i] &&
                  g.at[shaped_by].is_per_row() == g.at[i].is_per_row() &&
                  forms.has_like_placements(shaped_by, i);
      for (int k = 0; fits && k < lives.count - 1; ++k)
        if (int const other = lives.in_scratch[k]; slot[other] == s && meet(other, i, lives))
          fits = false;
      if (!fits) continue;
      slot[i] = s;
      return;
    }
    slot[i] = scratch.count;
    scratch.value[scratch.count++] = i;
  }
};

}  // namespace plait::formula
