// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plait/plan/parallel.hpp"
#include "plait/run/context.hpp"
#include "plait/run/move.hpp"
#include "plait/run/operations.hpp"
#include "plait/tensor/view.hpp"

namespace plait {

/// The number of the entry of parameter `index` of leaf `leaf`.
template <class Plan>
consteval int entry_of(int leaf, int index) {
  for (int e = 0; e < Plan::entries.size(); ++e)
    if (Plan::entries[e].leaf == leaf && Plan::entries[e].index == index) return e;
  return -1;
}

/// Runs the forward and the backward of one pipeline stage on one microbatch: walks through the
/// plan's program, makes the views that the layers see and applies the transitions between them.
///
/// Cost:   no allocation; the only branches are which items the stage has.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class stage_runner {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using accumulated = accumulate_t<T>;
  using sum = typename Job::gradient_element;
  using device_type = typename Rank::device_type;
  using memory = typename device_type::memory;
  using ops_type = operations<Rank>;
  using waits = item_waits<program<plan::leaf_count>::most_steps>;
  static constexpr int leaves = plan::leaf_count;
  static constexpr auto& code = plan::code;

 public:
  /// The arenas of the rank: activations in bytes, parameters and gradients in elements.
  struct arenas {
    std::byte* activations = nullptr;
    T const* parameters = nullptr;
    sum* gradients = nullptr;
  };

  [[gnu::cold]] stage_runner(Rank& rank, workload const& load, arenas const& where)
      : rank_(rank),
        stage_(rank.place().stage),
        arena_(plan::arena_for(stage_, load)),
        layout_(plan::activation_layout_for(load.rows)),
        parameters_(plan::parameter_layout_for(stage_)),
        rows_(load.rows),
        where_(where) {
    for (auto& event : events_) event = rank.device().make_event();
    auto names = leaf_names(plan::tree);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].ends_with('.')) names[i].pop_back();
      forward_names_[i] = names[i] + " forward";
      backward_names_[i] = names[i] + " backward";
    }
    std::size_t next = 0;
    int unit = 0;
    for (int i = 0; i < code.items.size(); ++i) {
      auto const at = static_cast<std::size_t>(i);
      first_record_[at] = next;
      first_unit_[at] = unit;
      next += layout_.record_bytes[at] * static_cast<std::size_t>(parameters_.copies[at].copies);
      unit += code.items[i].count;
    }
  }

  [[nodiscard]] stage_arena const& arena() const { return arena_; }
  [[nodiscard]] parameter_layout<leaves> const& parameters() const { return parameters_; }
  /// Seed, step, microbatch and so on of the next calls; `site` and `copy` are filled in here.
  [[nodiscard]] layer_context& context() { return context_; }

  /// Where the labels of the microbatch are, and where its loss is added.
  void set_loss(void const* targets, double* loss) {
    targets_ = targets;
    loss_ = loss;
  }

  /// Runs the stage on `input` and returns its output, which lies in activation slot `slot`. The
  /// items from `end_item` on are left out (the loss, when only the model's output is wanted).
  std::byte* forward(std::byte* input, int slot, int end_item = code.items.size()) {
    record_ = where_.activations + arena_.record_bytes * static_cast<std::size_t>(slot);
    for_each_item([&]<int Item>() {
      if (Item >= end_item) return;
      for (int copy = 0; copy < copies<Item>(); ++copy) {
        enter<Item>(copy);
        std::byte* const output = record<Item>(copy);
        between_waits<Item, waits::begin, direction::forward>([] {});
        for_each_step<Item>([&]<int Step>() {
          run_step<Item, Step, direction::forward>(
              [&] { this->template forward_step<Step>(input, output, copy); });
        });
        between_waits<Item, waits::end, direction::forward>([] {});
        forget_transients();
        input = output;
      }
    });
    return input;
  }

  /// Runs the stage backward on the gradient of its output and returns the gradient of its input.
  ///
  /// `input` and `slot` are those of the forward; gradients of parameters are added up.
  std::byte* backward(std::byte* input, int slot, std::byte* gradient) {
    record_ = where_.activations + arena_.record_bytes * static_cast<std::size_t>(slot);
    int edge = 0;
    for_each_item_backward([&]<int Item>() {
      for (int copy = copies<Item>() - 1; copy >= 0; --copy) {
        enter<Item>(copy);
        std::byte* const output = record<Item>(copy);
        std::byte* const before = output == record_ ? input : previous_output<Item>(copy);
        std::byte* const made =
            where_.activations + arena_.edges_offset + arena_.edge_bytes * std::size_t(edge);
        edge = 1 - edge;
        between_waits<Item, waits::begin, direction::backward>([] {});
        for_each_step_backward<Item>([&]<int Step>() {
          run_step<Item, Step, direction::backward>([&] {
            if constexpr (!plan::postpones_parameters(Step))
              this->template backward_parameters<Step>(before, output, copy, gradient, made);
            this->template backward_step<Step>(before, output, copy, gradient, made);
          });
          if constexpr (plan::postpones_parameters(Step + 1))
            between_waits<Item, waits::parameters_of(Step + 1), direction::backward>([&] {
              this->template backward_parameters<Step + 1>(before, output, copy, gradient, made);
            });
        });
        between_waits<Item, waits::end, direction::backward>([] {});
        forget_transients();
        gradient = made;
      }
    });
    return gradient;
  }

  /// The value of parameter `entry` in copy `copy` (counted from the stage's first).
  [[nodiscard]] T const* parameter(int entry, int copy) const {
    auto const at = static_cast<std::size_t>(entry);
    return where_.parameters + parameters_.offset[at] +
           parameters_.stride[at] * static_cast<std::size_t>(copy);
  }
  /// The gradient accumulator of that use.
  [[nodiscard]] sum* gradient(int entry, int copy) const {
    auto const at = static_cast<std::size_t>(entry);
    return where_.gradients + parameters_.gradient_offset[at] +
           parameters_.stride[at] * static_cast<std::size_t>(copy);
  }

 private:
  template <class Body>
  static void for_each_item(Body body) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (body.template operator()<static_cast<int>(I)>(), ...);
    }(std::make_index_sequence<std::size_t(code.items.size())>{});
  }
  template <class Body>
  static void for_each_item_backward(Body body) {
    constexpr std::size_t count = std::size_t(code.items.size());
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (body.template operator()<static_cast<int>(count - 1 - I)>(), ...);
    }(std::make_index_sequence<count>{});
  }
  template <int Item>
  static constexpr std::size_t step_count =
      std::size_t(code.items[Item].end_step - code.items[Item].first_step);
  template <int Item, class Body>
  static void for_each_step(Body body) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (body.template operator()<code.items[Item].first_step + static_cast<int>(I)>(), ...);
    }(std::make_index_sequence<step_count<Item>>{});
  }
  template <int Item, class Body>
  static void for_each_step_backward(Body body) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (body.template operator()<code.items[Item].end_step - 1 - static_cast<int>(I)>(), ...);
    }(std::make_index_sequence<step_count<Item>>{});
  }

  template <int Item>
  [[nodiscard]] int copies() const {
    return parameters_.copies[std::size_t(Item)].copies;
  }
  template <int Item>
  [[nodiscard]] std::byte* record(int copy) const {
    return record_ + first_record_[std::size_t(Item)] +
           layout_.record_bytes[std::size_t(Item)] * static_cast<std::size_t>(copy);
  }
  template <int Item>
  [[nodiscard]] std::byte* previous_output(int copy) const {
    if (copy > 0) return record<Item>(copy - 1);
    for (int item = Item - 1; item >= 0; --item)
      if (parameters_.copies[std::size_t(item)].copies > 0)
        return record_ + first_record_[std::size_t(Item)] - layout_.record_bytes[std::size_t(item)];
    return nullptr;
  }

  template <int Item>
  void enter(int copy) {
    context_.copy = copy + parameters_.copies[std::size_t(Item)].first_copy;
    unit_ = first_unit_[std::size_t(Item)] + context_.copy;
  }

  // --- where values lie -------------------------------------------------------------------------

  template <int Value>
  static constexpr placement gradient_at = dual(code.values[Value].at);

  template <int Value>
  [[nodiscard]] block_shape block() const {
    return local_block(code.values[Value], rows_, plan::tensor_ranks);
  }

  template <int Value>
  [[nodiscard]] std::size_t block_offset() const {
    constexpr bool is_tokens = code.values[Value].info.kind == value_kind::tokens;
    return static_cast<std::size_t>(rank_.place().tensor) * block<Value>().count() *
           (is_tokens ? sizeof(std::int32_t) : sizeof(T));
  }

  template <int Value>
  [[nodiscard]] std::byte* value_data(std::byte* input, std::byte* output) const {
    constexpr residence home_of = plan::storage.values[std::size_t(Value)];
    std::size_t const offset = home_of.row_block ? block_offset<Value>() : 0;
    std::size_t const root = layout_.value_offset[std::size_t(home_of.root)];
    if constexpr (home_of.where == home::input) return input + offset;
    if constexpr (home_of.where == home::output) return output + offset;
    if constexpr (home_of.where == home::kept) return output + root + offset;
    return where_.activations + arena_.transient_offset + root + offset;
  }

  template <int Value>
  [[nodiscard]] std::byte* gradient_data(std::byte* of_output, std::byte* of_input) const {
    constexpr residence home_of = plan::storage.gradients[std::size_t(Value)];
    std::size_t const offset = home_of.row_block ? block_offset<Value>() : 0;
    std::size_t const root = layout_.gradient_offset[std::size_t(home_of.root)];
    if constexpr (home_of.where == home::input) return of_input + offset;
    if constexpr (home_of.where == home::output) return of_output + offset;
    return where_.activations + arena_.transient_offset + root + offset;
  }

  // --- what layers see
  // ----------------------------------------------------------------------------

  template <int Value, bool IsConst>
  auto value_view(std::byte* data) const {
    constexpr auto& what = code.values[Value];
    auto const shape = block<Value>();
    if constexpr (what.info.kind == value_kind::tokens) {
      return token_view<memory>{reinterpret_cast<std::int32_t const*>(data), shape.rows};
    } else {
      using element = std::conditional_t<IsConst, T const, T>;
      return view<element, view_placement_of_value(what.at), memory>{reinterpret_cast<T*>(data),
                                                                     shape.rows, shape.columns};
    }
  }
  template <int Value, bool IsConst>
  auto gradient_view(std::byte* data) const {
    using element = std::conditional_t<IsConst, T const, T>;
    auto const shape = block<Value>();
    return view<element, view_placement_of_value(gradient_at<Value>), memory>{
        reinterpret_cast<T*>(data), shape.rows, shape.columns};
  }

  template <int Value, bool IsLoss>
  auto gradient_or_seed(std::byte* data) const {
    if constexpr (IsLoss) return loss_seed{context_.loss_scale};
    else return gradient_view<Value, true>(data);
  }

  template <int Step>
  using layer_of_step =
      std::tuple_element_t<std::size_t(code.steps[Step].leaf), typename plan::leaf_types>;

  /// What a leaf writes: y, and what its epilogue makes of it.
  template <int Step>
  auto output_view(std::byte* input, std::byte* output) const {
    auto const written = [&]<int Value>() {
      return value_view<Value, false>(value_data<Value>(input, output));
    };
    auto const y = written.template operator()<code.steps[Step].out>();
    if constexpr (plan::is_epilogue(Step + 1, direction::forward)) {
      using function = typename layer_of_step<Step + 1>::function;
      return mapped_view<decltype(y), function> {
        y,
        written.template operator()<code.steps[Step + 1].out>()
      };
    } else {
      return y;
    }
  }
  /// What a leaf writes in the backward: dx, and what its epilogue makes of it.
  template <int Step>
  auto input_gradient_view(std::byte* input, std::byte* output, std::byte* of_output,
                           std::byte* of_input) const {
    auto const written = [&]<int Value>() {
      return gradient_view<Value, false>(gradient_data<Value>(of_output, of_input));
    };
    auto const dx = written.template operator()<code.steps[Step].in>();
    if constexpr (plan::is_epilogue(Step - 1, direction::backward)) {
      using layer = layer_of_step<Step - 1>;
      auto const kept = slot_access<Step - 1, true>{*this, input, output}[typename layer::kept{}];
      return mapped_view<decltype(dx), typename layer::derivative, decltype(kept)> {
        dx,
        written.template operator()<code.steps[Step - 1].in>(),
        {},
        kept
      };
    } else {
      return dx;
    }
  }

  /// The input of a leaf as its body sees it: a view, or a pair for a layer with two inputs.
  template <int Step>
  auto input_view(std::byte* input, std::byte* output) const {
    constexpr auto& now = code.steps[Step];
    auto const x = value_view<now.in, true>(value_data<now.in>(input, output));
    if constexpr (now.second >= 0) {
      return std::pair{x, value_view<now.second, true>(value_data<now.second>(input, output))};
    } else if constexpr (plan::tree.leaves[now.leaf].input_count == 2) {
      if constexpr (plan::tree.leaves[now.leaf].inputs[1].kind == value_kind::tokens) {
        return std::pair{x, token_view<memory>{static_cast<std::int32_t const*>(targets_), rows_}};
      } else {
        return std::pair{
            x, view<T const, invariant, memory>{static_cast<T const*>(targets_), rows_,
                                                plan::tree.leaves[now.leaf].inputs[1].width}};
      }
    } else {
      return x;
    }
  }

  template <int Leaf, bool IsGradient>
  struct parameter_access {
    stage_runner const& runner;
    int copy;

    template <class Parameter>
    auto operator[](Parameter) const {
      using layer_type = std::tuple_element_t<std::size_t(Leaf), typename plan::leaf_types>;
      constexpr int index =
          detail::parameter_index<typename detail::parameters_of<layer_type>::type, Parameter>;
      static_assert(index >= 0,
                    "p[Parameter{}]: the layer has no such parameter; list it in parameter_list");
      constexpr int number = entry_of<plan>(Leaf, index);
      constexpr auto& entry = plan::entries[number];
      if constexpr (IsGradient) {
        return view<sum, view_placement_of_parameter(dual(entry.used), entry.info.rank), memory>{
            runner.gradient(number, copy), entry.local_rows, entry.local_columns};
      } else {
        T const* data = runner.parameter(number, copy);
        if constexpr (entry.masked()) {
          // The transition invariant -> partial: ranks other than the first see zeros.
          if (runner.rank_.place().tensor != 0)
            data =
                reinterpret_cast<T const*>(runner.where_.activations + runner.arena_.zeros_offset);
        }
        return view<T const, view_placement_of_parameter(entry.used, entry.info.rank), memory>{
            data, entry.local_rows, entry.local_columns};
      }
    }
  };

  template <int Step, bool IsConst>
  struct slot_access {
    static constexpr int leaf = code.steps[Step].leaf;
    using layer_type = layer_of_step<Step>;
    stage_runner const& runner;
    std::byte* input;
    std::byte* output;

    auto operator[](input_slot) const {
      static_assert(plan::tree.leaves[leaf].saved.keeps_input,
                    "saved[input_slot{}]: the layer does not save its input; add input_slot to its "
                    "saved<...>");
      return runner.template input_view<Step>(input, output);
    }
    auto operator[](output_slot) const {
      static_assert(plan::tree.leaves[leaf].saved.keeps_output,
                    "saved[output_slot{}]: the layer does not save its output; add output_slot to "
                    "its saved<...>");
      constexpr int out = code.steps[Step].out;
      return runner.template value_view<out, true>(runner.template value_data<out>(input, output));
    }
    template <name Label, std::size_t PerRow, follows Shape, std::size_t Fixed>
    auto operator[](slot<Label, PerRow, Shape, Fixed> key) const {
      constexpr int kept =
          detail::own_slot_index<typename detail::saved_of<layer_type>::type, decltype(key)>;
      constexpr int used =
          detail::own_slot_index<typename detail::scratch_of<layer_type>::type, decltype(key)>;
      static_assert(kept >= 0 || used >= 0,
                    "saved[slot{}]: the layer has no such slot; add it to its saved<...> or "
                    "scratch<...>");
      constexpr auto& form = code.forms[leaf];
      constexpr slot_info info{Label, PerRow, Shape == follows::features, Fixed};
      std::size_t const count = slot_count(info, form, runner.rows_, plan::tensor_ranks);
      std::size_t const rows = Fixed != 0 ? 1 : count / local_width(info, form);
      std::byte* data = nullptr;
      if constexpr (kept >= 0)
        data = output + runner.layout_.saved_offset[std::size_t(leaf)][std::size_t(kept)];
      else
        data = runner.where_.activations + runner.arena_.transient_offset +
               runner.layout_.scratch_offset[std::size_t(leaf)][std::size_t(used)];
      using element = std::conditional_t<IsConst && (kept >= 0), accumulated const, accumulated>;
      return view<element, slot_placement(info, form), memory>{reinterpret_cast<element*>(data),
                                                               rows, count / rows};
    }

    static constexpr bool cuts_features(form_info const& form) {
      auto const cut = [](placement at) { return is_shard(at) && at.index == dim::features; };
      return cut(form.input) || cut(form.output);
    }
    static constexpr std::size_t local_width(slot_info const& info, form_info const& form) {
      return info.follows_features && cuts_features(form)
                 ? info.per_row / static_cast<std::size_t>(plan::tensor_ranks)
                 : info.per_row;
    }
    static constexpr placement slot_placement(slot_info const& info, form_info const& form) {
      if (cuts_features(form))
        return info.follows_features ? placement{placement_kind::shard, 1} : invariant;
      return view_placement_of_value(form.input);
    }
  };

  // --- steps ----------------------------------------------------------------------------------

  template <int Item, direction Way>
  static constexpr auto waits_of = plan::tensor_ranks > 1 ? plan::waits_of(Item, Way) : waits{};

  template <int Step, direction Way>
  static constexpr stream stream_of_step() {
    if constexpr (Step == waits::begin || Step >= waits::end) {
      return stream::compute;
    } else {
      constexpr auto& now = code.steps[Step];
      if (now.kind != step_kind::move) return stream::compute;
      auto const row = transition_between(code.values[now.in].at, code.values[now.out].at);
      return communicates(Way == direction::forward ? row.moves : adjoint(row).moves)
                 ? stream::tensor
                 : stream::compute;
    }
  }

  /// Runs a step (or nothing, at an edge of the item) between its waits and the record that others
  /// wait for.
  template <int Item, int Step, direction Way, class Body>
  void between_waits(Body body) {
    constexpr auto& planned = waits_of<Item, Way>;
    constexpr stream on = stream_of_step<Step, Way>();
    constexpr auto part =
        Way == direction::forward ? wait_site::part::forward : wait_site::part::backward;
    for (auto const& wait : planned.list)
      if (wait.waiting == Step)
        rank_.device().wait(on, event_of(wait.awaited), {part, Step, wait.awaited});
    body();
    if constexpr (planned.is_awaited(Step)) rank_.device().record(event_of(Step), on);
  }
  /// A step with the element-wise function behind it, if that is done with it.
  template <int Item, int Step, direction Way, class Body>
  void run_step(Body body) {
    constexpr int next = Way == direction::forward ? Step + 1 : Step - 1;
    if constexpr (plan::is_epilogue(Step, Way)) return;
    else if constexpr (plan::is_epilogue(next, Way))
      between_waits<Item, Step, Way>([&] { between_waits<Item, next, Way>(body); });
    else between_waits<Item, Step, Way>(body);
  }
  [[nodiscard]] auto& event_of(int step) { return events_[std::size_t(step + 1)]; }

  /// Scratch does not outlive a body.
  template <int Leaf>
  void forget_scratch() {
    constexpr auto& scratch = plan::tree.leaves[Leaf].scratch;
    for (std::size_t k = 0; k < std::size_t(scratch.own_count); ++k)
      queue().discard(where_.activations + arena_.transient_offset +
                          layout_.scratch_offset[std::size_t(Leaf)][k],
                      sizeof(accumulated) *
                          slot_count(scratch.own[k], code.forms[Leaf], rows_, plan::tensor_ranks));
  }
  /// Nothing in the transient buffers outlives an item.
  void forget_transients() {
    queue().discard(where_.activations + arena_.transient_offset, layout_.transient_bytes);
  }

  [[nodiscard]] auto queue() { return rank_.device().on(stream::compute); }

  template <int Step>
  void forward_step(std::byte* input, std::byte* output, int copy) {
    constexpr auto& now = code.steps[Step];
    constexpr auto& from = code.values[now.in];
    std::byte* const in = value_data<now.in>(input, output);
    std::byte* const out = value_data<now.out>(input, output);
    if constexpr (now.kind == step_kind::leaf) {
      using layer_type = layer_of_step<Step>;
      [[maybe_unused]] auto const mark =
          rank_.device().mark(forward_names_[std::size_t(now.leaf)].c_str());
      auto ops = operations_of<now.leaf>();
      parameter_access<now.leaf, false> const p{*this, copy};
      slot_access<Step, false> const saved{*this, input, output};
      auto const x = input_view<Step>(input, output);
      if constexpr (plan::tree.leaves[now.leaf].is_loss)
        layer_type::forward(ops, p, x, loss_sum{loss_}, saved);
      else layer_type::forward(ops, p, x, output_view<Step>(input, output), saved);
      forget_scratch<now.leaf>();
    } else if constexpr (now.kind == step_kind::move) {
      using element = std::conditional_t<from.info.kind == value_kind::tokens, std::int32_t, T>;
      move<from.at, code.values[now.out].at, element>(from.info.width, in, out);
    } else if constexpr (now.kind == step_kind::branch || now.kind == step_kind::fan_out) {
      std::size_t const bytes = block<now.in>().count() * sizeof(T);
      queue().copy_bytes(in, out, bytes);
      if constexpr (now.kind == step_kind::fan_out)
        queue().copy_bytes(in, value_data<now.skip>(input, output), bytes);
    } else {
      queue().add(as_elements(in), as_elements(value_data<now.skip>(input, output)),
                  as_elements(out), block<now.out>().count());
    }
  }

  template <int Step>
  void backward_parameters(std::byte* input, std::byte* output, int copy, std::byte* of_output,
                           std::byte* of_input) {
    constexpr auto& now = code.steps[Step];
    if constexpr (now.kind == step_kind::leaf) {
      constexpr auto& leaf = plan::tree.leaves[now.leaf];
      if constexpr (leaf.parameter_count > 0) {
        [[maybe_unused]] auto const mark =
            rank_.device().mark(backward_names_[std::size_t(now.leaf)].c_str());
        auto ops = operations_of<now.leaf>();
        layer_of_step<Step>::backward_parameters(
            ops, parameter_access<now.leaf, false>{*this, copy},
            slot_access<Step, true>{*this, input, output},
            gradient_or_seed<now.out, leaf.is_loss>(gradient_data<now.out>(of_output, of_input)),
            parameter_access<now.leaf, true>{*this, copy});
        forget_scratch<now.leaf>();
      }
    }
  }

  template <int Step>
  void backward_step(std::byte* input, std::byte* output, int copy, std::byte* of_output,
                     std::byte* of_input) {
    constexpr auto& now = code.steps[Step];
    constexpr bool wanted = plan::needs_gradient[std::size_t(now.in)];
    std::byte* const dout = gradient_data<now.out>(of_output, of_input);
    std::byte* const din = gradient_data<now.in>(of_output, of_input);
    if constexpr (now.kind == step_kind::leaf) {
      using layer_type = layer_of_step<Step>;
      constexpr auto& leaf = plan::tree.leaves[now.leaf];
      [[maybe_unused]] auto const mark =
          rank_.device().mark(backward_names_[std::size_t(now.leaf)].c_str());
      auto ops = operations_of<now.leaf>();
      parameter_access<now.leaf, false> const p{*this, copy};
      slot_access<Step, true> const saved{*this, input, output};
      auto const dy = gradient_or_seed<now.out, leaf.is_loss>(dout);
      if constexpr (now.second >= 0)
        layer_type::backward_input(ops, p, saved, dy,
                                   std::pair{gradient_view<now.in, false>(din),
                                             gradient_view<now.second, false>(
                                                 gradient_data<now.second>(of_output, of_input))});
      else if constexpr (wanted)
        layer_type::backward_input(ops, p, saved, dy,
                                   input_gradient_view<Step>(input, output, of_output, of_input));
      forget_scratch<now.leaf>();
    } else if constexpr (!wanted) {
      return;
    } else if constexpr (now.kind == step_kind::move) {
      move<dual(code.values[now.out].at), dual(code.values[now.in].at), T>(
          code.values[now.in].info.width, dout, din);
    } else if constexpr (now.kind == step_kind::branch || now.kind == step_kind::fan_out) {
      queue().add(as_elements(dout), as_elements(gradient_data<now.skip>(of_output, of_input)),
                  as_elements(din), block<now.in>().count());
    } else {
      queue().copy_bytes(dout, din, block<now.in>().count() * sizeof(T));
    }
  }

  template <placement From, placement To, class Element>
  void move(std::size_t width, std::byte* in, std::byte* out) {
    constexpr auto moves = transition_between(From, To).moves;
    [[maybe_unused]] auto const mark = rank_.device().mark(to_string(moves));
    auto& tensor = rank_.group(axis::tensor);
    move_value<From, To>(rank_.device().on(communicates(moves) ? stream::tensor : stream::compute),
                         tensor, whole_shape{rows_, width}, reinterpret_cast<Element const*>(in),
                         reinterpret_cast<Element*>(out),
                         reinterpret_cast<Element*>(where_.activations + arena_.transient_offset +
                                                    layout_.staging_offset));
  }

  static T* as_elements(std::byte* data) { return reinterpret_cast<T*>(data); }

  template <int Leaf>
  ops_type operations_of() {
    context_.site = static_cast<std::uint32_t>(unit_ * leaves + Leaf);
    return {rank_, context_, Leaf};
  }

  Rank& rank_;
  int stage_;
  stage_arena arena_;
  activation_layout<leaves> layout_;
  parameter_layout<leaves> parameters_;
  std::size_t rows_;
  arenas where_;
  std::array<std::size_t, std::size_t(2 * leaves + 1)> first_record_{};
  std::array<int, std::size_t(2 * leaves + 1)> first_unit_{};
  // For each step what it has done, and for what came before it.
  std::array<typename device_type::event, std::size_t(waits::parameters_of(waits::end) + 1)>
      events_{};
  std::array<std::string, std::size_t(leaves)> forward_names_, backward_names_;  // for profilers
  layer_context context_{};
  std::byte* record_ = nullptr;
  int unit_ = 0;
  void const* targets_ = nullptr;
  double* loss_ = nullptr;
};

}  // namespace plait
