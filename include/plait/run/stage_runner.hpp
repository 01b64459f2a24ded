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
#include "plait/run/body.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/move.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/term_operations.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// Runs the forward and the backward of one pipeline stage on one microbatch: walks through the
/// plan's program, makes the views that the layers see and applies the transitions between them.
///
/// Cost:   no allocation; the only branches are which items the stage has.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class stage_runner : stage_memory<Job, typename Rank::device_type::memory> {
  using base = stage_memory<Job, typename Rank::device_type::memory>;
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using device_type = typename Rank::device_type;
  using waits = item_waits<program<plan::leaf_count>::most_steps>;
  static constexpr int leaves = plan::leaf_count;
  static constexpr auto& code = plan::code;
  template <int Step>
  using layer_of_step = typename base::template layer_of_step<Step>;
  template <int Leaf, bool IsGradient>
  using parameter_access = typename base::template parameter_access<Leaf, IsGradient>;
  template <int Step, bool IsConst>
  using saved_access = typename base::template slot_access<Step, IsConst, base::slot_lists::saved>;
  template <int Step>
  using scratch_access =
      typename base::template slot_access<Step, false, base::slot_lists::scratch>;
  using base::arena_, base::layout_, base::parameters_, base::rows_, base::where_, base::targets_;

 public:
  using base::arena;
  using typename base::arenas;

  [[gnu::cold]] stage_runner(Rank& rank, workload const& load, arenas const& where)
      : base(rank, load, where), rank_(rank) {
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

  /// Seed, step, microbatch and so on of the next calls; `site` and `copy` are filled in here.
  [[nodiscard]] layer_context& context() { return context_; }

  /// Where the targets of the microbatch are, and its loss: `loss` is that of the first term, whose
  /// sums and scales the others follow.
  void set_loss(void const* targets, loss_sum const& loss) {
    targets_ = targets;
    loss_ = loss;
  }

  /// What the last forward of the last stage gave to its loss.
  [[nodiscard]] std::byte const* model_output() const { return model_output_; }

  /// Shows what each layer makes in the next forwards to `by`, until it has found what it looks
  /// for; null ends that.
  void watch(forward_watch* by) { watch_ = by; }

  /// Runs the stage on `input` and returns its output, which lies in activation slot `slot`. The
  /// items from `end_item` on are left out (the loss, when only the model's output is wanted).
  std::byte* forward(std::byte* input, int slot, int end_item = code.items.size()) {
    record_ = where_.activations + arena_.record_bytes * static_cast<std::size_t>(slot);
    for_each_item([&]<int Item>() {
      if constexpr (Item + 1 == code.items.size()) model_output_ = input;
      if (Item >= end_item) return;
      for (int copy = 0; copy < copies<Item>(); ++copy) {
        enter<Item>(copy);
        std::byte* const output = record<Item>(copy);
        if constexpr (has_waits) pass_edge<Item, waits::begin, direction::forward>();
        for_each_step<Item>([&]<int Step>() {
          if constexpr (!plan::is_epilogue(Step, direction::forward)) {
            if constexpr (has_waits) begin_step<Item, Step, direction::forward>();
            this->template forward_step<Step>(input, output, copy);
            if constexpr (has_waits) end_step<Item, Step, direction::forward>();
          }
          if constexpr (code.steps[Step].kind == step_kind::leaf &&
                        !plan::is_epilogue(Step + 1, direction::forward))
            if (watch_ != nullptr) this->template show<Step>(input, output);
        });
        if constexpr (has_waits) pass_edge<Item, waits::end, direction::forward>();
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
        if constexpr (has_waits) pass_edge<Item, waits::begin, direction::backward>();
        for_each_step_backward<Item>([&]<int Step>() {
          if constexpr (!plan::is_epilogue(Step, direction::backward)) {
            if constexpr (has_waits) begin_step<Item, Step, direction::backward>();
            if constexpr (!plan::postpones_parameters(Step))
              this->template backward_parameters<Step>(before, output, copy, gradient, made);
            this->template backward_step<Step>(before, output, copy, gradient, made);
            if constexpr (has_waits) end_step<Item, Step, direction::backward>();
          }
          if constexpr (plan::postpones_parameters(Step + 1)) {
            constexpr int parameters = waits::parameters_of(Step + 1);
            if constexpr (has_waits) keep_waits<Item, parameters, direction::backward>();
            this->template backward_parameters<Step + 1>(before, output, copy, gradient, made);
            if constexpr (has_waits) record_step<Item, parameters, direction::backward>();
          }
        });
        if constexpr (has_waits) pass_edge<Item, waits::end, direction::backward>();
        forget_transients();
        gradient = made;
      }
    });
    return gradient;
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

  template <int Step>
  auto output_or_loss(std::byte* input, std::byte* output) const {
    if constexpr (plan::tree.leaves[code.steps[Step].leaf].is_loss) return context_.loss;
    else return this->template output_view<Step>(input, output);
  }
  template <int Value, bool IsLoss>
  auto gradient_or_seed(std::byte* data) const {
    if constexpr (IsLoss) return seed_of(context_.loss);
    else return this->template gradient_view<Value, true>(data);
  }

  // Steps wait for each other where there is a stream besides that of compute.
  static constexpr bool has_waits = plan::tensor_ranks > 1;
  template <int Item, direction Way>
  static constexpr auto waits_of = has_waits ? plan::waits_of(Item, Way) : waits{};

  template <int Step, direction Way>
  static constexpr stream stream_of_step() {
    if constexpr (Step == waits::begin || Step >= waits::end) {
      return stream::compute;
    } else {
      constexpr auto& now = code.steps[Step];
      if (now.kind != step_kind::move) return stream::compute;
      auto const row = transition_between(code.values[now.in].at, code.values[now.out].at);
      return communicates(Way == direction::forward ? row.moves : adjoint(row).moves)
                 ? within_layers
                 : stream::compute;
    }
  }

  /// Lets the stream of a step wait for what the step needs.
  template <int Item, int Step, direction Way>
  void keep_waits() {
    constexpr auto part =
        Way == direction::forward ? wait_site::part::forward : wait_site::part::backward;
    for (auto const& wait : waits_of<Item, Way>.list)
      if (wait.waiting == Step)
        rank_.device().wait(stream_of_step<Step, Way>(), event_of(wait.awaited),
                            {part, Step, wait.awaited});
  }
  /// Records what others wait for.
  template <int Item, int Step, direction Way>
  void record_step() {
    if constexpr (waits_of<Item, Way>.is_awaited(Step))
      rank_.device().record(event_of(Step), stream_of_step<Step, Way>());
  }

  template <int Step, direction Way>
  static constexpr int next_step = Way == direction::forward ? Step + 1 : Step - 1;
  /// The waits of a step, and of the element-wise function behind it if that is done with it.
  template <int Item, int Step, direction Way>
  void begin_step() {
    keep_waits<Item, Step, Way>();
    constexpr int next = next_step<Step, Way>;
    if constexpr (plan::is_epilogue(next, Way)) keep_waits<Item, next, Way>();
  }
  template <int Item, int Step, direction Way>
  void end_step() {
    constexpr int next = next_step<Step, Way>;
    if constexpr (plan::is_epilogue(next, Way)) record_step<Item, next, Way>();
    record_step<Item, Step, Way>();
  }
  /// Nothing is done at the edges of an item but what others wait for.
  template <int Item, int Edge, direction Way>
  void pass_edge() {
    keep_waits<Item, Edge, Way>();
    record_step<Item, Edge, Way>();
  }
  [[nodiscard]] auto& event_of(int step) { return events_[std::size_t(step + 1)]; }

  /// Scratch does not outlive a body.
  template <int Leaf>
  void forget_scratch() {
    constexpr auto& scratch = plan::tree.leaves[Leaf].scratch;
    for (int k = 0; k < scratch.own_count; ++k) {
      auto const at = static_cast<std::size_t>(k);
      auto const& slot = scratch.own[at];
      queue().discard(
          where_.activations + arena_.transient_offset +
              layout_.scratch_offset[std::size_t(Leaf)][at],
          (slot.element == slot_element::compute ? sizeof(T) : sizeof(accumulate_t<T>)) *
              slot_count(slot, code.forms[Leaf], rows_, plan::tensor_ranks));
    }
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
    std::byte* const in = this->template value_data<now.in>(input, output);
    std::byte* const out = this->template value_data<now.out>(input, output);
    if constexpr (now.kind == step_kind::leaf) {
      [[maybe_unused]] auto const mark =
          rank_.device().mark(forward_names_[std::size_t(now.leaf)].c_str());
      auto ops = operations_of<Step>(forward_names_);
      call_forward<layer_of_step<Step>>(
          ops, forward_body{parameter_access<now.leaf, false>{*this, copy},
                            this->template input_view<Step>(input, output),
                            output_or_loss<Step>(input, output),
                            saved_access<Step, false>{*this, input, output},
                            scratch_access<Step>{*this, input, output}, context_});
      forget_scratch<now.leaf>();
    } else if constexpr (now.kind == step_kind::move) {
      using element = std::conditional_t<from.info.kind == value_kind::tokens, std::int32_t, T>;
      move<from.at, code.values[now.out].at, element>(from.info.width, in, out);
    } else if constexpr (now.kind == step_kind::branch || now.kind == step_kind::fan_out) {
      std::size_t const bytes = this->template block<now.in>().count() * sizeof(T);
      queue().copy_bytes(in, out, bytes);
      if constexpr (now.kind == step_kind::fan_out)
        queue().copy_bytes(in, this->template value_data<now.skip>(input, output), bytes);
    } else {
      queue().add(as_elements(in), as_elements(this->template value_data<now.skip>(input, output)),
                  as_elements(out), this->template block<now.out>().count());
    }
  }

  template <int Step>
  [[gnu::cold]] void show(std::byte* input, std::byte* output) {
    if (watch_->found) return;
    constexpr auto& now = code.steps[Step];
    constexpr auto& leaf = plan::tree.leaves[now.leaf];
    if constexpr (leaf.has_term()) watch_->look(rank_.device(), context_.loss.data, 1);
    if constexpr (!leaf.is_loss) {
      if (!watch_->found)
        watch_->look(rank_.device(), as_elements(this->template value_data<now.out>(input, output)),
                     this->template block<now.out>().count());
    }
    watch_->microbatch = context_.microbatch;
    watch_->site = static_cast<std::uint32_t>(unit_ * leaves + now.leaf);
    watch_->leaf = now.leaf;
    watch_->copy = context_.copy;
  }

  template <int Step>
  void backward_parameters(std::byte* input, std::byte* output, int copy, std::byte* of_output,
                           std::byte* of_input) {
    constexpr auto& now = code.steps[Step];
    if constexpr (now.kind == step_kind::leaf) {
      constexpr auto& leaf = plan::tree.leaves[now.leaf];
      if constexpr (leaf.is_trained()) {
        [[maybe_unused]] auto const mark =
            rank_.device().mark(backward_names_[std::size_t(now.leaf)].c_str());
        auto ops = operations_of<Step>(backward_names_);
        call_backward_parameters<layer_of_step<Step>>(
            ops, backward_parameters_body{
                     parameter_access<now.leaf, false>{*this, copy},
                     gradient_or_seed<now.out, leaf.is_loss>(
                         this->template gradient_data<now.out>(of_output, of_input)),
                     parameter_access<now.leaf, true>{*this, copy},
                     saved_access<Step, true>{*this, input, output},
                     scratch_access<Step>{*this, input, output}, context_});
        forget_scratch<now.leaf>();
      }
    }
  }

  template <int Step>
  void backward_step(std::byte* input, std::byte* output, int copy, std::byte* of_output,
                     std::byte* of_input) {
    constexpr auto& now = code.steps[Step];
    [[maybe_unused]] std::byte* const dout =
        this->template gradient_data<now.out>(of_output, of_input);
    [[maybe_unused]] std::byte* const din =
        this->template gradient_data<now.in>(of_output, of_input);
    if constexpr (!plan::needs_gradient[std::size_t(now.in)]) {
      return;
    } else if constexpr (now.kind == step_kind::leaf) {
      constexpr auto& leaf = plan::tree.leaves[now.leaf];
      [[maybe_unused]] auto const mark =
          rank_.device().mark(backward_names_[std::size_t(now.leaf)].c_str());
      auto ops = operations_of<Step>(backward_names_);
      call_backward_input<layer_of_step<Step>>(
          ops, backward_input_body{
                   parameter_access<now.leaf, false>{*this, copy},
                   gradient_or_seed<now.out, leaf.is_loss>(dout),
                   this->template input_gradient_view<Step>(input, output, of_output, of_input),
                   saved_access<Step, true>{*this, input, output},
                   scratch_access<Step>{*this, input, output}, context_});
      forget_scratch<now.leaf>();
    } else if constexpr (now.kind == step_kind::move) {
      move<dual(code.values[now.out].at), dual(code.values[now.in].at), T>(
          code.values[now.in].info.width, dout, din);
    } else if constexpr (now.kind == step_kind::branch || now.kind == step_kind::fan_out) {
      queue().add(as_elements(dout),
                  as_elements(this->template gradient_data<now.skip>(of_output, of_input)),
                  as_elements(din), this->template block<now.in>().count());
    } else {
      queue().copy_bytes(dout, din, this->template block<now.in>().count() * sizeof(T));
    }
  }

  template <placement From, placement To, class Element>
  void move(std::size_t width, std::byte* in, std::byte* out) {
    constexpr auto moves = transition_between(From, To).moves;
    [[maybe_unused]] auto const mark = rank_.device().mark(to_string(moves));
    auto& tensor = rank_.tensor_group();
    move_value<From, To>(rank_.device().on(communicates(moves) ? within_layers : stream::compute),
                         tensor, whole_shape{rows_, width}, reinterpret_cast<Element const*>(in),
                         reinterpret_cast<Element*>(out),
                         reinterpret_cast<Element*>(where_.activations + arena_.transient_offset +
                                                    layout_.staging_offset));
  }

  static T* as_elements(std::byte* data) { return reinterpret_cast<T*>(data); }

  template <int Step>
  auto operations_of(auto const& names) {
    constexpr auto& now = code.steps[Step];
    constexpr auto& leaf = plan::tree.leaves[now.leaf];
    using ops_type = std::conditional_t<leaf.has_term(), term_operations<Rank>, operations<Rank>>;
    context_.site = static_cast<std::uint32_t>(unit_ * leaves + now.leaf);
    if constexpr (leaf.has_term()) {
      context_.loss = loss_;
      if (loss_.data != nullptr) {
        context_.loss.data += leaf.term;
        context_.loss.scale += leaf.term;
      }
      if constexpr (code.values[now.in].at == shard<dim::sequence>)
        context_.loss.first_row =
            static_cast<std::size_t>(base::tensor_rank_) * this->template block<now.in>().rows;
    }
    return ops_type(rank_, context_, now.leaf, names[std::size_t(now.leaf)].c_str());
  }

  Rank& rank_;
  std::array<std::size_t, std::size_t(2 * leaves + 1)> first_record_{};
  std::array<int, std::size_t(2 * leaves + 1)> first_unit_{};
  // For each step what it has done, and for what came before it.
  std::array<typename device_type::event, std::size_t(waits::parameters_of(waits::end) + 1)>
      events_{};
  std::array<std::string, std::size_t(leaves)> forward_names_, backward_names_;  // what runs
  layer_context context_{};
  std::byte* record_ = nullptr;
  int unit_ = 0;
  loss_sum loss_{};
  forward_watch* watch_ = nullptr;
  std::byte const* model_output_ = nullptr;
};

}  // namespace plait::execution
