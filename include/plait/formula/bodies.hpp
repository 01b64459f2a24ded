// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plait/backend/matrix.hpp"
#include "plait/core/name.hpp"
#include "plait/formula/facts.hpp"
#include "plait/formula/kernels.hpp"
#include "plait/formula/loss.hpp"
#include "plait/formula/own.hpp"
#include "plait/layer/slot.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/context.hpp"
#include "plait/tensor/view.hpp"

namespace plait::formula {

/// The bodies (forward, backward_input, ...) of a formula's layer, which issue its operations. A
/// body calls `ops` once for each node that it computes, in an order that is fixed at compile time.
template <class L>
struct formula_bodies {
  using facts = formula_facts<L>;
  static constexpr auto& table = facts::table;
  static constexpr auto& memory = facts::memory;

  template <body Which>
  static void run(auto& ops, auto const& l) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (run_node<Which, int(order<Which>(int(I)))>(ops, l), ...);
    }(std::make_index_sequence<std::size_t(table.size)>{});
    if constexpr (Which == body::backward_input || Which == body::backward)
      [&]<std::size_t... K>(std::index_sequence<K...>) {
        (copy_gradient<int(K)>(ops, l), ...);
      }(std::make_index_sequence<std::size_t(table.input_count)>{});
    if constexpr (Which == body::forward && table.loss_term >= 0) add_term(ops, l);
    else if constexpr (table.is_loss && requires { l.dx; }) clear_rows(ops, l);
  }

  /// The number of scratch elements that convolutions need to write out their windows (im2col).
  static constexpr std::size_t patch_room = [] {
    std::size_t out = 0;
    for (int i = 0; i < table.forward_size; ++i) {
      node const& n = table.at[i];
      if (!n.is_convolution) continue;
      auto const windows = windows_of(table.at[n.operands[0]].image, n.windows);
      out = std::max(out, ext::patch_block_of(windows, std::size_t(n.image.channels)).room());
    }
    return out;
  }();
  using patches = slot<"patches", 0, patch_room>;

  /// Lets the device prepare its attention kernels.
  static void prepare(auto& ops, auto const& l) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (prepare_node<int(I)>(ops, l), ...);
    }(std::make_index_sequence<std::size_t(table.forward_size)>{});
  }
  static constexpr bool has_attention = [] {
    for (int i = 0; i < table.forward_size; ++i)
      if (table.at[i].kind == node_kind::attention) return true;
    return false;
  }();

  /// Returns true if a single matrix product writes `dx`, the gradient of the input.
  static constexpr bool is_last_product(int dx) {
    return table.at[dx].kind == node_kind::product && !memory.is_completed[dx] &&
           memory.stored_in[dx] == storage::input_gradient;
  }
  /// True if forward and backward_input each end with a product whose result no other node reads.
  static constexpr bool takes_epilogue =
      table.loss_term < 0 && table.input_count == 1 &&
      table.at[table.output].kind == node_kind::product && !memory.keeps_output &&
      !memory.is_completed[table.output] && table.gradient[table.inputs[0]] >= 0 &&
      is_last_product(table.gradient[table.inputs[0]]);
  /// The index of the parameter whose gradient a single matrix product writes, or -1.
  static constexpr int overwritten = [] {
    for (int parameter = 0; parameter < table.parameter_count; ++parameter) {
      int products = 0, others = 0;
      for (int i = table.forward_size; i < table.size; ++i)
        if (table.at[i].parameter == parameter)
          ++(table.at[i].kind == node_kind::weight_gradient ? products : others);
      if (products == 1 && others == 0) return parameter;
    }
    return -1;
  }();

 private:
  template <int I>
  static void prepare_node(auto& ops, auto const& l) {
    if constexpr (table.at[I].kind == node_kind::attention)
      ops.prepare_attention(groups_of<I>{}, query_key_value<I>(l));
  }
  /// Returns the node that a body runs at position `place`. A product that writes l.dx runs last.
  template <body Which>
  static constexpr int order(int place) {
    int const dx = table.input_count == 1 ? table.gradient[table.inputs[0]] : -1;
    if (Which == body::forward || dx < 0 || !is_last_product(dx) || place < dx) return place;
    return place == table.size - 1 ? dx : place + 1;
  }
  template <body Which, int I>
  static void run_node(auto& ops, auto const& l) {
    if constexpr (memory.runs[int(Which)][I]) {
      make<I>(ops, l);
      if constexpr (is_completed<I, decltype(l)>())
        ops.template move<decltype(view_of<I>(l))::at>(result_of<I>(l));
    }
  }

  // ---- Views ------------------------------------------------------------------------------------

  template <int Index>
  static auto input_of(auto const& several) {
    if constexpr (table.input_count == 1) return several;
    else return std::get<Index>(several);
  }
  /// Returns the view of the gradient of an input. A loss has a gradient for its features only.
  template <int Index>
  static auto gradient_of(auto const& all) {
    if constexpr (table.is_loss) return all;
    else return input_of<Index>(all);
  }
  static auto targets_of(auto const& l) {
    if constexpr (requires { l.x; }) return std::get<1>(l.x);
    else return std::get<1>(l.saved[input_slot{}]);
  }
  /// Returns the view of a value, for reading or writing. `Made`: the type of the view that is
  /// computed from the value; it is given only in a formula that reads data, such as targets.
  template <int Value, class Made = void>
  static auto view_of(auto const& l) {
    constexpr int value = memory.place_of(Value);
    constexpr storage stored_in = memory.stored_in[value];
    if constexpr (!std::is_void_v<Made> && table.at[Value].is_data) {
      return beside<Made>(view_of<Value>(l), std::size_t(table.at[Value].width()));
    } else if constexpr (stored_in == storage::input) {
      constexpr int index = table.at[value].number;
      if constexpr (requires { l.x; }) return input_of<index>(l.x);
      else return input_of<index>(l.saved[input_slot{}]);
    } else if constexpr (stored_in == storage::parameter) {
      return l.p[typename facts::template parameter_at<table.at[value].number>{}];
    } else if constexpr (stored_in == storage::output) {
      if constexpr (requires { l.y; }) return l.y;
      else return l.saved[output_slot{}];
    } else if constexpr (stored_in == storage::output_gradient) {
      return l.dy;
    } else if constexpr (stored_in == storage::input_gradient) {
      return gradient_of<input_of_gradient(value)>(l.dx);
    } else if constexpr (stored_in == storage::parameter_gradient) {
      return l.dp[typename facts::template parameter_at<table.at[value].parameter>{}];
    } else if constexpr (stored_in == storage::saved) {
      return l.saved[slot_of<facts, memory.saved.value[memory.slot[value]]>{}];
    } else {
      return l.scratch[slot_of<facts, memory.scratch.value[memory.slot[value]]>{}];
    }
  }
  /// Returns the view of an operand without a gradient, for an operation whose result is a `Made`.
  /// A whole operand gets the placement that fits `Made`, which may be cut or whole.
  template <class Made, class Given>
  static auto beside(Given const& given, std::size_t columns) {
    if constexpr (requires { requires ext::is_shard(Given::at); }) {
      return given;
    } else {
      constexpr bool is_beside_blocks = ext::is_shard(Made::at) && Made::at.index != 0;
      constexpr placement at = is_beside_blocks || Made::at == partial ? replicate : Made::at;
      using element = std::remove_pointer_t<decltype(given.data)>;
      return view<element, at, typename Made::memory>{given.data, given.rows, columns};
    }
  }
  static constexpr bool has_data = [] {
    for (int k = 0; k < table.input_count; ++k)
      if (table.at[table.inputs[k]].is_data) return true;
    return false;
  }();
  template <class Made>
  using made_of_data = std::conditional_t<has_data, Made, void>;
  static constexpr int input_of_gradient(int value) {
    for (int k = 0; k < table.input_count; ++k)
      if (memory.base(table.gradient[table.inputs[k]]) == value) return k;
    return -1;
  }
  /// Returns true if each rank calculates a summand of a value that the form declares whole. The
  /// ranks then add the summands up (all-reduce).
  template <int I, class Body>
  static constexpr bool is_completed() {
    if constexpr (memory.is_completed[I]) {
      constexpr placement at = decltype(view_of<I>(std::declval<Body>()))::at;
      constexpr int maker = memory.maker(I);
      return !ext::is_shard(at) && at != partial &&
             reads_summands<maker, Body>(
                 std::make_index_sequence<std::size_t(table.at[maker].count)>{});
    } else return false;
  }
  template <int I, class Body, std::size_t... K>
  static constexpr bool reads_summands(std::index_sequence<K...>) {
    return (is_summand(decltype(view_of<table.at[I].operands[K]>(std::declval<Body>()))::at) ||
            ...);
  }
  static constexpr bool is_summand(placement at) { return ext::is_shard(at) || at == partial; }
  /// Returns operand K of a node. A sum that ranks all-reduce within the layer, and its gradient,
  /// are equal on all ranks; their views are replicate if the node also has blocks or summands.
  template <int I, std::size_t K>
  static auto operand_of(auto const& l) {
    auto const x = view_of<table.at[I].operands[K]>(l);
    if constexpr (table.at[table.at[I].operands[K]].is_data)
      return view_of<table.at[I].operands[K], made_of_data<decltype(result_of<I>(l))>>(l);
    else if constexpr (completes_sums && table.at[table.at[I].operands[K]].is_per_row()) {
      using given = std::remove_cvref_t<decltype(x)>;
      constexpr bool is_like_all = []<std::size_t... J>(std::index_sequence<J...>) {
        return given::at != invariant ||
               (decltype(result_of<I>(l))::at == invariant &&
                ((decltype(view_of<table.at[I].operands[J]>(l))::at == invariant ||
                  !table.at[table.at[I].operands[J]].is_per_row()) &&
                 ...));
      }(std::make_index_sequence<std::size_t(table.at[I].count)>{});
      if constexpr (!is_like_all)
        return view<typename given::element, replicate, typename given::memory>{x.data, x.rows,
                                                                                x.columns};
      else return x;
    } else return x;
  }
  static constexpr bool completes_sums = [] {
    for (bool const each : memory.is_completed)
      if (each) return true;
    return false;
  }();
  /// Returns the view that a node writes, which is partial if the ranks all-reduce it afterwards.
  template <int I>
  static auto result_of(auto const& l) {
    auto const y = view_of<I>(l);
    if constexpr (is_completed<I, decltype(l)>()) {
      using given = std::remove_cvref_t<decltype(y)>;
      return view<typename given::element, partial, typename given::memory>{y.data, y.rows,
                                                                            y.columns};
    } else return y;
  }
  template <int Value, bool IsTransposed>
  static auto matrix_of(auto const& l) {
    if constexpr (IsTransposed) return plait::transposed(view_of<Value>(l));
    else return view_of<Value>(l);
  }

  // ---- Nodes ------------------------------------------------------------------------------------

  template <int I>
  static void make(auto& ops, auto const& l) {
    constexpr node_kind kind = table.at[I].kind;
    if constexpr (kind == node_kind::product) make_product<I>(ops, l);
    else if constexpr (kind == node_kind::weight_gradient) make_weight_gradient<I>(ops, l);
    else if constexpr (kind == node_kind::column_sum) make_column_sum<I>(ops, l);
    else if constexpr (kind == node_kind::map) make_map<map_value<facts, I>, I>(ops, l);
    else if constexpr (kind == node_kind::slope) make_map<map_slope<facts, I>, I>(ops, l);
    else if constexpr (kind == node_kind::broadcast) make_map<repeated<facts, I>, I>(ops, l);
    else if constexpr (kind == node_kind::add) make_sum<I>(ops, l);
    else if constexpr (kind == node_kind::concat)
      make_concat<I>(ops, l, std::make_index_sequence<std::size_t(table.at[I].count)>{});
    else if constexpr (kind == node_kind::contract) make_contract<I>(ops, l);
    else if constexpr (kind == node_kind::softmax) make_softmax<I>(ops, l);
    else if constexpr (kind == node_kind::attention) make_attention<I>(ops, l);
    else if constexpr (kind == node_kind::attention_gradient) make_attention_gradient<I>(ops, l);
    else if constexpr (kind == node_kind::call && table.at[I].windows.kernel > 0)
      make_windows<I>(ops, l);
    else if constexpr (kind == node_kind::seed) make_seed<I>(ops, l);
    else if constexpr (kind == node_kind::pick || kind == node_kind::pick_gradient)
      make_pick<I>(ops, l);
    else if constexpr (kind == node_kind::call) make_call<I>(ops, l);
    else if constexpr (kind != node_kind::result && kind != node_kind::reshape)
      make_by_kernel<I>(ops, l, std::make_index_sequence<std::size_t(table.at[I].count)>{});
  }
  /// Issues a node whose kernel reads operands as they are stored, or with one row for each head.
  template <int I, std::size_t... K>
  static void make_by_kernel(auto& ops, auto const& l, std::index_sequence<K...>) {
    constexpr node n = table.at[I];
    std::size_t const batch = l.context.batch;
    auto const run = [&](auto kernel) {
      ops.run(kernel, view_of<table.at[I].operands[K]>(l)..., view_of<I>(l));
    };
    auto const run_rows = [&](auto kernel) {
      ops.run(kernel, rows_of<table.at[I].operands[K]>(l)..., rows_of<I, 1>(l));
    };
    auto const run_gradient = [&](auto kernel) {
      ops.run(kernel, rows_of<table.at[I].operands[K]>(l)..., rows_of<I>(l));
    };
    if constexpr (n.kind == node_kind::multiply)
      ops.map(functions::multiply{}, view_of<table.at[I].operands[K]>(l)..., view_of<I>(l));
    else if constexpr (n.kind == node_kind::log_sum_exp) run_rows(row_kernel<log_sum_exp_of_row>{});
    else if constexpr (n.kind == node_kind::maximum) run_rows(row_kernel<greatest_of_row>{});
    else if constexpr (n.kind == node_kind::log_sum_exp_gradient)
      run_gradient(row_kernel<log_sum_exp_gradient_of_row<is_added<I>()>>{});
    else if constexpr (n.kind == node_kind::maximum_gradient)
      run_gradient(row_kernel<greatest_gradient_of_row<is_added<I>()>>{});
    else if constexpr (n.kind == node_kind::softmax_gradient)
      run_gradient(row_kernel<softmax_gradient_of_row>{});
    else if constexpr (n.kind == node_kind::reduce) run_rows(row_kernel<sum_of_row<facts, I>>{});
    else if constexpr (n.kind == node_kind::sum_of_factors)
      run(row_kernel<sum_of_pieces<n.width()>>{});
    else if constexpr (n.kind == node_kind::part) run(part_kernel<n.number>{});
    else if constexpr (n.kind == node_kind::shift) run(shift_kernel{n.steps, batch});
    else if constexpr (n.kind == node_kind::scan) run(scan_kernel{batch, n.factor});
    else if constexpr (n.kind == node_kind::across)
      run(across_kernel{std::size_t(table.sequence), batch});
    else if constexpr (n.kind == node_kind::across_gradient)
      run(across_gradient_kernel{std::size_t(table.sequence), batch});
    else if constexpr (n.kind == node_kind::scan_gradient)
      run(scan_gradient_kernel{batch, n.factor});
    else static_assert(n.kind == node_kind::reduce, "internal error of plait: unknown node kind");
  }
  /// Returns a value as a matrix whose rows have the width of the last factor: one row for each
  /// head of [heads, width]. If ranks cut the heads, they cut the rows of this matrix. `Width`
  /// replaces the width of the last factor unless it is 0.
  template <int Value, int Width = 0>
  static auto rows_of(auto const& l) {
    return rows_of_view<Value, Width>(view_of<Value>(l));
  }
  template <int Value, int Width = 0>
  static auto rows_of_view(auto const& all) {
    constexpr node n = table.at[Value];
    constexpr int width = Width == 0 ? n.last().extent : Width;
    if constexpr (n.width() == width) {
      return all;
    } else {
      using given = std::remove_cvref_t<decltype(all)>;
      constexpr placement at =
          ext::is_shard(given::at) ? placement{ext::placement_kind::shard, 0, 1} : given::at;
      return view<typename given::element, at, typename given::memory>{
          all.data, all.rows * all.columns / std::size_t(width), std::size_t(width)};
    }
  }
  template <int I, std::size_t... K>
  static void make_concat(auto& ops, auto const& l, std::index_sequence<K...>) {
    auto const y = view_of<I>(l);
    constexpr bool has_all = ((table.at[I].operands[K] >= 0) && ...);
    if constexpr (!has_all) ops.clear(y);
    (make_piece<I, int(K)>(ops, l, y), ...);
  }
  template <int I, int K>
  static void make_piece(auto& ops, auto const& l, auto const& y) {
    constexpr int x = table.at[I].operands[K];
    if constexpr (x >= 0) ops.run(piece_kernel<K>{}, view_of<x>(l), y);
  }
  template <int Attention>
  using groups_of =
      typename term_parts<typename facts::template term_at<table.at[Attention].term>>::
          template groups<table.at[Attention].width()>;
  template <int Attention>
  static auto query_key_value(auto const& l) {
    return std::tuple(view_of<table.at[Attention].operands[0]>(l),
                      view_of<table.at[Attention].operands[1]>(l),
                      view_of<table.at[Attention].operands[2]>(l));
  }
  template <int I>
  static void make_attention(auto& ops, auto const& l) {
    ops.attention(groups_of<I>{}, query_key_value<I>(l), view_of<I>(l), view_of<I + 1>(l));
  }
  template <int I>
  static void make_attention_gradient(auto& ops, auto const& l) {
    constexpr int of = table.at[I].of;
    ops.attention_backward(groups_of<of>{}, query_key_value<of>(l), view_of<of>(l),
                           view_of<of + 1>(l), view_of<table.at[I].operands[5]>(l),
                           std::tuple(view_of<I>(l), view_of<I + 1>(l), view_of<I + 2>(l)));
  }
  template <int I>
  static void make_softmax(auto& ops, auto const& l) {
    constexpr node n = table.at[I];
    auto const x = rows_of<n.operands[0]>(l);
    std::size_t const rows_of_position = n.is_causal ? x.rows / std::size_t(table.sequence) : 0;
    ops.run(numbered_row_kernel<softmax_of_row>{{rows_of_position}}, x, rows_of<I>(l));
  }
  template <int I>
  static void make_seed(auto& ops, auto const& l) {
    if constexpr (table.is_loss)
      ops.rows(seed_of_row<loss_targets<L>>{ops.loss_seed()}, view_of<I>(l), targets_of(l));
    else ops.rows(seed_of_row<void>{ops.loss_seed()}, view_of<I>(l));
  }
  /// Adds each row's term to the loss.
  static void add_term(auto& ops, auto const& l) {
    auto const term = view_of<table.loss_term>(l);
    if constexpr (table.is_loss) ops.rows(clear_term<loss_targets<L>>{}, term, targets_of(l));
    ops.add_to_loss(term);
  }
  /// Sets the gradients of rows that do not contribute to the loss to 0, also if they are NaN.
  static void clear_rows(auto& ops, auto const& l) {
    ops.rows(clear_gradient<loss_targets<L>>{ops.loss_seed()}, l.dx, targets_of(l));
  }
  template <int I>
  static void make_pick(auto& ops, auto const& l) {
    constexpr node n = table.at[I];
    auto const y = view_of<I>(l);
    if constexpr (n.kind == node_kind::pick)
      ops.run(row_kernel<pick_of_row>{}, view_of<n.operands[0]>(l),
              view_of<n.operands[1], decltype(view_of<I>(l))>(l), y);
    else
      ops.run(row_kernel<pick_gradient_of_row<is_added<I>()>>{}, y,
              view_of<n.operands[0], decltype(view_of<I>(l))>(l), view_of<n.operands[1]>(l));
  }
  template <int I>
  static void make_contract(auto& ops, auto const& l) {
    constexpr int first = table.at[I].operands[0], second = table.at[I].operands[1];
    auto const a = view_of<first>(l);
    auto const b = view_of<second>(l);
    auto const c = view_of<I>(l);
    local_value const values[]{local_of<first>(a), local_of<second>(b), local_of<I>(c)};
    ops.run(make_contract_kernel(table.at[I], values, l.context.batch), a, b, c);
  }
  template <int Value>
  static local_value local_of(auto const& of) {
    return {table.at[Value], std::remove_cvref_t<decltype(of)>::at, of.rows, of.columns,
            std::size_t(table.sequence)};
  }
  template <int I>
  static void make_product(auto& ops, auto const& l) {
    constexpr node n = table.at[I];
    auto const x = operand_of<I, 0>(l);
    auto const w = matrix_of<n.operands[1], n.is_transposed>(l);
    auto const y = result_of<I>(l);
    if constexpr (n.count == 3) ops.matmul_add_row(x, w, view_of<n.operands[2]>(l), y);
    else if constexpr (is_added<I>()) ops.accumulate_matmul(x, w, y);
    else ops.matmul(x, w, y);
  }
  /// Returns true if a node adds its result to its only reader, a sum, instead of storing it.
  template <int I>
  static constexpr bool is_added() {
    for (int i = I + 1; i < table.size; ++i)
      if (memory.is_added_in_place(I, i)) return true;
    return false;
  }
  template <int I>
  static void make_weight_gradient(auto& ops, auto const& l) {
    constexpr node n = table.at[I];
    auto const x = operand_of<I, 0>(l);
    auto const dy = operand_of<I, 1>(l);
    if constexpr (n.of >= 0)
      ops.matmul_add_row_backward_parameters(x, dy, matrix_of<I, n.is_transposed>(l),
                                             view_of<n.of>(l));
    else if constexpr (n.is_transposed)
      ops.accumulate_matmul(plait::transposed(dy), x, view_of<I>(l));
    else ops.accumulate_matmul(plait::transposed(x), dy, view_of<I>(l));
  }
  template <int I>
  static void make_column_sum(auto& ops, auto const& l) {
    constexpr bool is_made_with_weight = [] {
      for (int i = I + 1; i < table.size; ++i)
        if (table.at[i].kind == node_kind::weight_gradient && table.at[i].of == I) return true;
      return false;
    }();
    // The gradient of a row that is repeated for each head is also summed over the heads.
    constexpr int x = table.at[I].operands[0];
    constexpr int width = table.at[I].width();
    constexpr int pieces = table.at[I].pieces;
    if constexpr (!is_made_with_weight) {
      if constexpr (pieces > 0)
        ops.accumulate_map_sums(view_of<x>(l), view_of<I>(l), std::size_t(pieces));
      else if constexpr (width == table.at[x].width())
        ops.accumulate_column_sums(view_of<x>(l), view_of<I>(l));
      else ops.accumulate_column_sums(rows_of<x, width>(l), view_of<I>(l));
    }
  }
  template <class Function, int I>
  static void make_map(auto& ops, auto const& l) {
    make_map_of<Function, I>(ops, l, std::make_index_sequence<std::size_t(table.at[I].count)>{});
  }
  template <class Function, int I, std::size_t... K>
  static void make_map_of(auto& ops, auto const& l, std::index_sequence<K...>) {
    auto const y = view_of<I>(l);
    constexpr bool is_plain = [] {
      node const& made = table.at[I];
      bool out = made.count <= 3 && !Function::is_placed;
      for (int k = 0; k < made.count; ++k) {
        node const& x = table.at[made.operands[k]];
        out = out && x.is_per_row() && x.width() == made.width();
      }
      return out;
    }();
    if constexpr (is_plain && (is_same_element<decltype(operand_of<I, K>(l)), decltype(y)> && ...))
      ops.map(Function{}, operand_of<I, K>(l)..., y);
    else if constexpr (Function::is_drawn)
      ops.map_at(function_at_place<facts, Function, I, K...>{source_of(l.context)}, y,
                 operand_of<I, K>(l)...);
    else ops.map_at(function_at_place<facts, Function, I, K...>{}, y, operand_of<I, K>(l)...);
  }
  static random_source source_of(ext::layer_context const& of) {
    return {{of.seed, of.site, of.step}, of.sequence, of.training};
  }
  template <class A, class B>
  static constexpr bool is_same_element =
      std::is_same_v<typename A::element const, typename B::element const>;
  template <int I>
  static void make_sum(auto& ops, auto const& l) {
    constexpr int a = table.at[I].operands[0], b = table.at[I].operands[1];
    constexpr bool is_added = memory.is_added_in_place(b, I);
    if constexpr (!is_added) make_sum_of<I>(ops, view_of<a>(l), view_of<b>(l), result_of<I>(l));
  }
  /// Writes a + b to `sum`. The element types of a, b and `sum` may differ.
  template <int I>
  static void make_sum_of(auto& ops, auto a, auto b, auto sum) {
    if constexpr (is_same_element<decltype(a), decltype(sum)> &&
                  is_same_element<decltype(b), decltype(sum)>)
      ops.add(a, b, sum);
    else ops.map_at(function_at_place<facts, sum_of_two, I, 0, 1>{}, sum, a, b);
  }
  template <int I>
  static void make_call(auto& ops, auto const& l) {
    constexpr node n = table.at[I];
    using term = typename facts::template term_at<n.term>;
    using parts = term_parts<term>;
    constexpr int results = [] {
      int out = 1;
      for (int i = I + 1; i < table.size; ++i)
        out += table.at[i].kind == node_kind::result && table.at[i].operands[0] == I ? 1 : 0;
      return out;
    }();
    std::make_index_sequence<std::size_t(n.count)> const reads{};
    std::make_index_sequence<std::size_t(results)> const writes{};
    if constexpr (n.of < 0) {
      run_row<I>(ops, l, typename parts::row{}, reads, writes, typename parts::numbers{});
    } else {
      using rows = typename adjoint_list<typename parts::row::adjoints>::type;
      run_row<I>(ops, l, plait::detail::type_at<rows, std::size_t(n.number)>{}, reads, writes,
                 std::tuple<>{});
    }
  }
  /// Issues a convolution, a pooling, or the gradient of either.
  template <int I>
  static void make_windows(auto& ops, auto const& l) {
    constexpr node n = table.at[I];
    constexpr node of = table.at[n.of < 0 ? I : n.of];
    constexpr auto in = windows_of(table.at[of.operands[0]].image, of.windows);
    constexpr auto groups = std::size_t(of.windows.groups);
    auto const a = view_of<n.operands[0]>(l);
    auto const b = view_of<n.operands[n.count > 1 ? 1 : 0]>(l);
    auto const y = view_of<I>(l);
    if constexpr (n.is_convolution) {
      ops.convolve(in, groups, a, b, y, l.scratch[patches{}]);
      if constexpr (n.count == 3) ops.add_to_maps(view_of<n.operands[2]>(l), y, in.out_map());
    } else if constexpr (n.row == &operation::convolve_backward_input::is) {
      ops.convolve_backward_input(in, groups, a, b, y, l.scratch[patches{}]);
    } else if constexpr (n.row == &operation::convolve_backward_weight::is) {
      ops.convolve_backward_weight(in, groups, a, b, y, l.scratch[patches{}]);
    } else if constexpr (n.row == &operation::max_pool::is) {
      ops.max_pool(in, a, y);
    } else if constexpr (n.row == &operation::max_pool_backward::is) {
      ops.max_pool_backward(in, a, b, y);
    } else if constexpr (n.row == &operation::average_pool::is) {
      ops.average_pool(in, a, y);
    } else {
      static_assert(n.row == &operation::average_pool_backward::is);
      ops.average_pool_backward(in, a, y);
    }
  }
  // A lookup has its own `ops` function, because its number of rows depends on the rank.
  template <int I, std::size_t... K, std::size_t... R>
  static void run_row(auto& ops, auto const& l, operation::gather_rows, std::index_sequence<K...>,
                      std::index_sequence<R...>, std::tuple<>) {
    ops.gather_rows(view_of<table.at[I].operands[K]>(l)..., view_of<I + int(R)>(l)...);
  }
  template <int I, std::size_t... K, std::size_t... R>
  static void run_row(auto& ops, auto const& l, operation::scatter_add_rows,
                      std::index_sequence<K...>, std::index_sequence<R...>, std::tuple<>) {
    ops.scatter_add_rows(view_of<table.at[I].operands[K]>(l)..., view_of<I + int(R)>(l)...);
  }
  template <int I, is_own_row Row, std::size_t... K, std::size_t... R>
  static void run_row(auto& ops, auto const& l, Row, std::index_sequence<K...>,
                      std::index_sequence<R...>, std::tuple<>) {
    ops.template run<operation::indices_of<Row>>(kernel_of_row<Row>{}, operand_of<I, K>(l)...,
                                                 result_of<I + int(R)>(l)...);
  }
  template <int I, std::size_t... K, std::size_t... R, class... Numbers>
  static void run_row(auto& ops, auto const& l, auto row, std::index_sequence<K...>,
                      std::index_sequence<R...>, std::tuple<Numbers...>) {
    ops.run(row, rows_of_call<I, table.at[I].operands[K]>(operand_of<I, K>(l))...,
            rows_of_call<I, I + int(R)>(result_of<I + int(R)>(l))..., Numbers::value...);
  }
  /// Returns the view of a value of a call. A call on values with heads has one row for each head.
  template <int Call, int Value>
  static auto rows_of_call(auto const& all) {
    if constexpr (is_factored_call(Call) && table.at[Value].is_activation())
      return rows_of_view<Value>(all);
    else return all;
  }
  static constexpr bool is_factored_call(int call) {
    for (int k = 0; k < table.at[call].count; ++k)
      if (table.at[table.at[call].operands[k]].factor_count > 1) return true;
    return false;
  }

  /// Copies the gradient of input K to l.dx if another value has the same gradient.
  template <int K>
  static void copy_gradient(auto& ops, auto const& l) {
    constexpr int dx = table.gradient[table.inputs[K]];
    if constexpr (dx >= 0)
      if constexpr (memory.stored_in[memory.base(dx)] != storage::input_gradient)
        ops.copy(view_of<dx>(l), gradient_of<K>(l.dx));
  }
};

}  // namespace plait::formula
