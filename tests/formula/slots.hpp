// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

#include "formula/expression.hpp"
#include "plait/formula/forms.hpp"
#include "plait/formula/memory.hpp"

/// Runs the bodies of a formula with values in the slots that its memory plan gives them.
namespace formula_testing {

using memory_plan = formula::value_memory<table>;

/// Runs the forward and then the backward, in one body or in two, on one rank. Between bodies,
/// scratch is lost, and so are inputs and outputs that the plan does not keep.
class slot_run {
 public:
  slot_run(table const& of, std::vector<element_function> const& functions,
           given_numbers const& given, memory_plan const& plan)
      : g(of), maker_(of, functions), given_(given), plan_(plan) {}

  outcome_of_table run(bool is_joint) {
    inputs_ = given_.inputs;
    for (int k = 0; k < g.parameter_count; ++k)
      dp_.emplace_back(maker_.shape(g.parameters[k]).count());
    dx_.resize(std::size_t(g.input_count));
    saved_ = empty_slots(plan_.saved);
    outcome_of_table out;
    run(formula::body::forward);
    out.y = g.is_loss ? at(g.output) : y_;
    if (g.loss_term >= 0) add_term(g, at(g.loss_term), out.y);
    if (!plan_.keeps_input)
      for (numbers& each : inputs_) lose(each);
    if (!plan_.keeps_output) lose(y_);
    if (is_joint) {
      run(formula::body::backward);
    } else {
      run(formula::body::backward_input);
      run(formula::body::backward_parameters);
    }
    out.dx = dx_, out.dp = dp_;
    return out;
  }

 private:
  static constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  static void lose(numbers& of) { of.assign(of.size(), not_a_number); }

  [[nodiscard]] std::vector<numbers> empty_slots(memory_plan::slot_list const& slots) const {
    std::vector<numbers> out;
    for (int s = 0; s < slots.count; ++s) {
      out.emplace_back(maker_.shape(slots.value[s]).count());
      lose(out.back());
    }
    return out;
  }
  void run(formula::body which) {
    bool const(&runs)[table::capacity] = plan_.runs[int(which)];
    scratch_ = empty_slots(plan_.scratch);
    for (int i = 0; i < g.size; ++i)
      if (runs[i]) make(i);
    if (which == formula::body::backward_parameters || which == formula::body::forward) return;
    for (int k = 0; k < g.input_count; ++k)  // a gradient that another value shares
      if (int const dx = g.gradient[g.inputs[k]]; dx >= 0)
        if (plan_.stored_in[dx] != formula::storage::input_gradient) dx_[std::size_t(k)] = at(dx);
  }
  void make(int i) {
    node const& n = g.at[i];
    if (n.kind == node_kind::reshape || n.kind == node_kind::output_gradient) return;
    if (n.kind == node_kind::result) return;  // the call makes it with its first result
    if (n.kind == node_kind::add && plan_.is_added_in_place(n.operands[1], i)) return;
    std::vector<int> results;
    for (int k = i + 1; k < g.size; ++k)
      if (g.at[k].kind == node_kind::result && g.at[k].operands[0] == i) results.push_back(k);
    // A call writes all of its results while it reads.
    for (int const k : results)
      if (g.at[k].parameter < 0) at(k).assign(maker_.shape(k).count(), not_a_number);
    write(i);
    for (int const k : results) write(k);
  }
  void write(int i) {
    node const& n = g.at[i];
    auto const read = [&](int value) -> numbers const& { return at(value); };
    if (n.parameter >= 0) {
      numbers made;
      maker_.make(i, read, made);
      add(made, dp_[std::size_t(n.parameter)]);
    } else if (n.kind == node_kind::seed) {
      at(i) = given_.term_seed;
    } else if (is_added(i)) {
      numbers made;
      maker_.make(i, read, made);
      add(made, at(i));
    } else {
      maker_.make(i, read, at(i));
    }
  }
  [[nodiscard]] bool is_added(int value) const {
    for (int i = value + 1; i < g.size; ++i)
      if (plan_.is_added_in_place(value, i)) return true;
    return false;
  }
  static void add(numbers const& from, numbers& to) {
    for (std::size_t k = 0; k < from.size(); ++k) to[k] += from[k];
  }
  numbers& at(int value) {
    int const place = plan_.place_of(value);
    auto const number = std::size_t(g.at[place].number), slot = std::size_t(plan_.slot[place]);
    switch (plan_.stored_in[place]) {
      case formula::storage::input: return inputs_[number];
      case formula::storage::parameter: return given_.parameters[number];
      case formula::storage::output: return y_;
      case formula::storage::output_gradient: return given_.dy;
      case formula::storage::input_gradient: return dx_[input_of_gradient(place)];
      case formula::storage::saved: return saved_[slot];
      case formula::storage::scratch: return scratch_[slot];
      default: return nowhere_;
    }
  }
  [[nodiscard]] std::size_t input_of_gradient(int value) const {
    for (int k = 0; k < g.input_count; ++k)
      if (g.gradient[g.inputs[k]] >= 0 && plan_.place_of(g.gradient[g.inputs[k]]) == value)
        return std::size_t(k);
    return 0;
  }

  table const& g;
  node_maker maker_;
  given_numbers given_;
  memory_plan const& plan_;
  std::vector<numbers> inputs_, dx_, dp_, saved_, scratch_;
  numbers y_, nowhere_;
};

/// Returns the distance between the gradients that bodies make in slots and the gradients of a
/// table with separate memory for each value; infinity if a slot is shorter than a read of it.
inline double distance_in_slots(tested_formula const& of, memory_plan const& plan) {
  auto const given = of.given();
  auto const expected = of.run(given);
  double out = 0;
  for (bool const is_joint : {true, false}) {
    slot_run bodies(of.g, of.functions, given, plan);
    try {
      out = worse(out, expected.distance_to(bodies.run(is_joint)));
    } catch (std::out_of_range const&) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return out;
}
/// Returns the columns that a memory plan keeps for the backward: of its slots, and of the inputs,
/// which are kept together. An output that gradients read costs nothing.
inline int kept_columns(table const& g, memory_plan const& plan) {
  int out = 0;
  for (int s = 0; s < plan.saved.count; ++s) out += g.at[plan.saved.value[s]].width();
  for (int k = 0; plan.keeps_input && !g.is_loss && k < g.input_count; ++k)
    out += g.at[g.inputs[k]].width();
  return out;
}
/// Finds the fewest columns from which a backward has all values that it reads: keeps or recomputes
/// the last value that it lacks, and takes the choice with fewer columns.
class fewest_columns {
 public:
  fewest_columns(table const& of, memory_plan const& plan) : g(of), plan_(plan) {}

  int count() const {
    std::vector<char> lacks(std::size_t(g.forward_size), 0);
    for (int i = g.forward_size; i < g.size; ++i)
      for (int k = 0; k < g.at[i].count; ++k) lack(lacks, g.at[i].operands[k]);
    bool const has_output = plan_.output >= 0 && lacks[std::size_t(plan_.output)] != 0;
    return count(lacks, g.forward_size - 1, has_output);
  }

 private:
  void lack(std::vector<char>& lacks, int value) const {
    value = plan_.base(value);
    if (value < 0 || value >= g.forward_size) return;
    if (!g.is_leaf(value) || g.at[value].kind == node_kind::input) lacks[std::size_t(value)] = 1;
  }
  [[nodiscard]] int count(std::vector<char> lacks, int value, bool has_output) const {
    while (value >= 0 && (lacks[std::size_t(value)] == 0 || g.at[value].kind == node_kind::input))
      --value;
    if (value < 0) {
      int inputs = 0;
      bool is_kept = false;
      for (int k = 0; k < g.input_count; ++k) {
        inputs += g.at[g.inputs[k]].width();
        is_kept = is_kept || lacks[std::size_t(g.inputs[k])] != 0;
      }
      return is_kept && !g.is_loss ? inputs : 0;
    }
    if (value == plan_.output && has_output) return count(lacks, value - 1, has_output);
    int const kept = g.at[value].width() + count(lacks, value - 1, has_output);
    node_kind const kind = g.at[value].kind;
    bool const is_made = kind == node_kind::map || kind == node_kind::part ||
                         kind == node_kind::shift || kind == node_kind::across;
    if (!is_made || value == plan_.output) return kept;
    for (int k = 0; k < g.at[value].count; ++k) lack(lacks, g.at[value].operands[k]);
    return std::min(kept, count(lacks, value - 1, has_output));
  }

  table const& g;
  memory_plan const& plan_;
};
inline memory_plan plan_of(tested_formula const& of) {
  return memory_plan(of.g, formula::formula_forms<table>(of.g, of.labels.data()));
}

}  // namespace formula_testing
