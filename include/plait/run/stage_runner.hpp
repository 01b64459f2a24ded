// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/plan/parallel.hpp"
#include "plait/run/body.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_operations.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/move.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/term_operations.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// What the bodies of the leaves are called where a device marks them; `names` as `leaf_names`
/// gives them.
[[gnu::cold]] inline void name_bodies(std::vector<std::string> names,
                                      std::span<std::string> forward,
                                      std::span<std::string> backward) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].ends_with('.')) names[i].pop_back();
    forward[i] = names[i] + " forward";
    backward[i] = names[i] + " backward";
  }
}

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
  /// Which waits are meant. Numbers: what keeps them is the same code for all items.
  struct planned_waits {
    int item;
    direction way;
    [[nodiscard]] constexpr waits planned() const { return plan::waits_of(item, way); }
  };
  static constexpr int leaves = plan::leaf_count;
  static constexpr auto& code = plan::code;
  template <int Step>
  using layer_of_step = typename base::template layer_of_step<Step>;
  template <int Leaf, bool IsGradient>
  using parameter_access = typename base::template parameter_access<Leaf, IsGradient>;
  template <int Step, bool IsConst>
  using saved_access = typename base::template slot_access<Step, IsConst, base::slot_list::saved>;
  template <int Step>
  using scratch_access = typename base::template slot_access<Step, false, base::slot_list::scratch>;
  template <int Step>
  using operations_type = std::conditional_t<plan::tree.leaves[code.steps[Step].leaf].has_term(),
                                             term_operations<Rank>, operations<Rank>>;
  using base::arena_, base::layout_, base::parameters_, base::rows_, base::where_, base::targets_;
  using base::block, base::value_data, base::gradient_data;

 public:
  using base::arena;
  using typename base::arenas;

  [[gnu::cold]] stage_runner(Rank& rank, workload const& load, arenas const& where)
      : base(rank, load, where), rank_(rank) {
    for (auto& event : events_) event = rank.device().make_event();
    name_bodies(leaf_names(plan::tree), forward_names_, backward_names_);
    std::size_t next = 0;
    int unit = 0;
    for (int i = 0; i < code.items.size(); ++i) {
      auto const at = static_cast<std::size_t>(i);
      first_record_[at] = next;
      first_unit_[at] = unit;
      next += layout_.record_bytes[at] * static_cast<std::size_t>(parameters_.copies[at].copies);
      unit += code.items[i].count;
    }
    if constexpr (device_prepares) prepare_layers();
  }

  /// Seed, step, microbatch and so on of the next calls; `site` and `copy` are filled in here.
  [[nodiscard]] layer_context& context() { return context_; }

  /// Where the targets of the microbatch are, and its loss: `loss` is that of the first term, whose
  /// sums and scales the others follow.
  void set_loss(void const* targets, loss_sum const& loss) {
    targets_ = targets;
    loss_ = loss;
  }

  /// Where the next backwards add up the gradients of parameters.
  void set_gradients(typename Job::gradient_element* to) { where_.gradients = to; }

  /// What the last forward of the last stage gave to its loss.
  [[nodiscard]] std::byte const* model_output() const { return model_output_; }

  /// Shows what each layer makes in the next forwards to `by`, until it has found what it looks
  /// for; null ends that.
  void watch(forward_watch* by) { watch_ = by; }

  /// Runs the stage on `input` and returns its output, which lies in activation slot `slot`. The
  /// items from `end_item` on are left out (the loss, when only the model's output is wanted).
  std::byte* forward(std::byte* input, int slot, int end_item = code.items.size()) {
    record_ = where_.activations + arena_.record_bytes * static_cast<std::size_t>(slot);
    for_each_item([&]<int Item, std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (Item + 1 == code.items.size()) model_output_ = input;
      if (Item >= end_item) return;
      for (int copy = 0; copy < copies(Item); ++copy) {
        enter(Item, copy);
        std::byte* const output = record(Item, copy);
        if constexpr (has_waits) pass_edge(waits_of<Item, direction::forward>, waits::begin);
        in_order{
            (forward_step<Item, code.items[Item].first_step + int(I)>(input, output, copy), 0)...};
        if constexpr (has_waits) pass_edge(waits_of<Item, direction::forward>, waits::end);
        forget_transients();
        input = output;
      }
    });
    return input;
  }

  /// Whether the next backward is the first of a step: gradients of parameters then begin with what
  /// it gives, whatever is in their place; else they are added to.
  void begin_gradients(bool is_first) { begins_gradients_ = is_first; }

  /// Runs the stage backward on the gradient of its output and returns the gradient of its input.
  ///
  /// `input` and `slot` are those of the forward; gradients of parameters are added up.
  std::byte* backward(std::byte* input, int slot, std::byte* gradient) {
    record_ = where_.activations + arena_.record_bytes * static_cast<std::size_t>(slot);
    int edge = 0;
    for_each_item_backward([&]<int Item, std::size_t... I>(std::index_sequence<I...>) {
      for (int copy = copies(Item) - 1; copy >= 0; --copy) {
        enter(Item, copy);
        std::byte* const output = record(Item, copy);
        std::byte* const before = output == record_ ? input : previous_output(Item, copy);
        std::byte* const made =
            where_.activations + arena_.edges_offset + arena_.edge_bytes * std::size_t(edge);
        edge = 1 - edge;
        if constexpr (has_waits) pass_edge(waits_of<Item, direction::backward>, waits::begin);
        in_order{(backward_step<Item, code.items[Item].end_step - 1 - int(I)>(before, output, copy,
                                                                             gradient, made),
                  0)...};
        if constexpr (has_waits) pass_edge(waits_of<Item, direction::backward>, waits::end);
        forget_transients();
        gradient = made;
      }
    });
    return gradient;
  }

 private:
  template <int Item>
  static constexpr std::size_t step_count =
      std::size_t(code.items[Item].end_step - code.items[Item].first_step);
  /// Calls body.operator()<item>(its steps, counted from the first) for each item.
  template <class Body>
  static void for_each_item(Body body) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      in_order{
          (body.template operator()<int(I)>(std::make_index_sequence<step_count<int(I)>>{}), 0)...};
    }(std::make_index_sequence<std::size_t(code.items.size())>{});
  }
  template <class Body>
  static void for_each_item_backward(Body body) {
    constexpr int last = code.items.size() - 1;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      in_order{(body.template operator()<last - int(I)>(
                    std::make_index_sequence<step_count<last - int(I)>>{}),
                0)...};
    }(std::make_index_sequence<std::size_t(code.items.size())>{});
  }

  /// Whether the device has anything to get ready before the first pass at a shape.
  static constexpr bool device_prepares = requires(typename device_type::queue queue) {
    queue.template prepare_attention<T>(1, 1, 1, 1);
  };
  /// Calls the `prepare` of the layers that have one, with the views of their forward.
  [[gnu::cold]] void prepare_layers() {
    record_ = where_.activations;
    context_.sequence = plan::sequence_length;
    context_.batch = rows_ / plan::sequence_length;
    for_each_item([&]<int Item, std::size_t... I>(std::index_sequence<I...>) {
      if (copies(Item) == 0) return;
      enter(Item, 0);
      in_order{(prepare_step<code.items[Item].first_step + int(I)>(record(Item, 0)), 0)...};
    });
  }
  template <int Step>
  void prepare_step(std::byte* data) {
    if constexpr (code.steps[Step].kind == step_kind::leaf) {
      using layer = layer_of_step<Step>;
      [[maybe_unused]] auto const views = [&] { return forward_views<Step>(data, data, 0); };
      [[maybe_unused]] auto ops = operations_of<operations_type<Step>>(Step, forward_names_);
      if constexpr (requires { layer::prepare(ops, views()); }) layer::prepare(ops, views());
    }
  }

  [[nodiscard]] int copies(int item) const { return parameters_.copies[std::size_t(item)].copies; }
  [[nodiscard]] std::byte* record(int item, int copy) const {
    return record_ + first_record_[std::size_t(item)] +
           layout_.record_bytes[std::size_t(item)] * static_cast<std::size_t>(copy);
  }
  [[nodiscard]] std::byte* previous_output(int item, int copy) const {
    if (copy > 0) return record(item, copy - 1);
    for (int before = item - 1; before >= 0; --before)
      if (copies(before) > 0)
        return record_ + first_record_[std::size_t(item)] -
               layout_.record_bytes[std::size_t(before)];
    return nullptr;
  }

  void enter(int item, int copy) {
    context_.copy = copy + parameters_.copies[std::size_t(item)].first_copy;
    unit_ = first_unit_[std::size_t(item)] + context_.copy;
  }

  // Steps wait for each other where there is a stream besides that of compute.
  static constexpr bool has_waits = plan::tensor_ranks > 1;
  template <int Item, direction Way>
  static constexpr planned_waits waits_of{Item, Way};
  /// The element-wise function that is done with a step, or the step itself.
  template <int Step, direction Way>
  static constexpr int last_of = [] {
    constexpr int next = Way == direction::forward ? Step + 1 : Step - 1;
    return plan::is_epilogue(next, Way) ? next : Step;
  }();

  static constexpr stream stream_of(int step, direction way) {
    if (step == waits::begin || step >= waits::end) return stream::compute;
    auto const& now = code.steps[step];
    if (now.kind != step_kind::move) return stream::compute;
    auto const row = transition_between(code.values[now.in].at, code.values[now.out].at);
    return communicates(way == direction::forward ? row.moves : adjoint(row).moves)
               ? within_layers
               : stream::compute;
  }

  /// Lets the stream of a step wait for what the step needs.
  [[gnu::noinline]] void keep_waits(planned_waits all, int step) {
    auto const part =
        all.way == direction::forward ? wait_site::part::forward : wait_site::part::backward;
    for (auto const& wait : all.planned().list)
      if (wait.waiting == step)
        rank_.device().wait(stream_of(step, all.way), event_of(wait.awaited),
                            {part, step, wait.awaited});
  }
  /// Records what others wait for.
  [[gnu::noinline]] void record_step(planned_waits all, int step) {
    if (all.planned().is_awaited(step))
      rank_.device().record(event_of(step), stream_of(step, all.way));
  }

  /// The waits of a step, and of the element-wise function behind it if that is done with it.
  [[gnu::noinline]] void begin_step(planned_waits all, int step, int last) {
    keep_waits(all, step);
    if (last != step) keep_waits(all, last);
  }
  [[gnu::noinline]] void end_step(planned_waits all, int step, int last) {
    if (last != step) record_step(all, last);
    record_step(all, step);
  }
  /// Nothing is done at the edges of an item but what others wait for.
  [[gnu::noinline]] void pass_edge(planned_waits all, int edge) {
    keep_waits(all, edge);
    record_step(all, edge);
  }
  [[nodiscard]] auto& event_of(int step) { return events_[std::size_t(step + 1)]; }

  /// Scratch does not outlive a body.
  void forget_scratch(int leaf) {
    auto const& scratch = plan::tree.leaves[leaf].scratch;
    for (int k = 0; k < scratch.own_count; ++k) {
      auto const at = static_cast<std::size_t>(k);
      auto const& slot = scratch.own[at];
      queue().discard(
          where_.activations + arena_.transient_offset +
              layout_.scratch_offset[std::size_t(leaf)][at],
          (slot.element == slot_element::compute ? sizeof(T) : sizeof(accumulate_t<T>)) *
              slot_count(slot, code.forms[leaf], rows_, plan::tensor_ranks));
    }
  }
  /// Nothing in the transient buffers outlives an item.
  void forget_transients() {
    queue().discard(where_.activations + arena_.transient_offset, layout_.transient_bytes);
  }

  [[nodiscard]] auto queue() { return rank_.device().on(stream::compute); }

  template <int Leaf>
  static constexpr bool has_scratch = plan::tree.leaves[Leaf].scratch.own_count > 0;
  template <int Step>
  static constexpr bool is_trained = code.steps[Step].kind == step_kind::leaf &&
                                     plan::tree.leaves[code.steps[Step].leaf].is_trained();

  /// The gradient of what a leaf writes, as the type says that the leaf sees.
  template <class Gradient>
  Gradient gradient_or_seed(int value, std::byte* of_output, std::byte* of_input) const {
    if constexpr (std::is_same_v<Gradient, loss_seed>) return seed_of(context_.loss);
    else return this->template gradient_as<Gradient>(value, of_output, of_input);
  }
  template <int Step>
  using output_gradient =
      std::conditional_t<plan::tree.leaves[code.steps[Step].leaf].is_loss, loss_seed,
                         typename base::template gradient_view<code.steps[Step].out, true>>;

  template <int Item, int Step>
  void forward_step(std::byte* input, std::byte* output, int copy) {
    constexpr auto& now = code.steps[Step];
    constexpr int last = last_of<Step, direction::forward>;
    if constexpr (!plan::is_epilogue(Step, direction::forward)) {
      if constexpr (has_waits) begin_step(waits_of<Item, direction::forward>, Step, last);
      if constexpr (now.kind == step_kind::leaf) forward_leaf<Step>(input, output, copy);
      else if constexpr (now.kind == step_kind::move) forward_move<Step>(input, output);
      else forward_sum(Step, input, output);
      if constexpr (has_waits) end_step(waits_of<Item, direction::forward>, Step, last);
    }
    if constexpr (now.kind == step_kind::leaf && last == Step)
      if (watch_ != nullptr) show(Step, input, output);
  }

  template <int Step>
  void forward_leaf(std::byte* input, std::byte* output, int copy) {
    constexpr int leaf = code.steps[Step].leaf;
    [[maybe_unused]] auto const mark =
        rank_.device().mark(forward_names_[std::size_t(leaf)].c_str());
    forward_operations<operations_type<Step>, Job, leaf> ops(
        operations_of<operations_type<Step>>(Step, forward_names_));
    call_forward<layer_of_step<Step>>(ops, forward_views<Step>(input, output, copy));
    ops.require_all_moves();
    if constexpr (has_scratch<leaf>) forget_scratch(leaf);
  }
  template <int Step>
  auto forward_views(std::byte* input, std::byte* output, int copy) {
    return forward_body{parameter_access<code.steps[Step].leaf, false>{*this, copy},
                        this->template input_view<Step>(input, output),
                        this->template output_view<Step>(input, output, context_.loss),
                        saved_access<Step, false>{*this, input, output},
                        scratch_access<Step>{*this, input, output},
                        context_};
  }
  template <int Step>
  void forward_move(std::byte* input, std::byte* output) {
    constexpr auto& now = code.steps[Step];
    constexpr auto& from = code.values[now.in];
    using element = std::conditional_t<from.info.kind == value_kind::tokens, std::int32_t, T>;
    move<from.at, code.values[now.out].at, element>(
        from.info.width, value_data(now.in, input, output), value_data(now.out, input, output));
  }
  /// A step that begins or ends a residual or a fan_out.
  void forward_sum(int step, std::byte* input, std::byte* output) {
    auto const& now = code.steps[step];
    std::byte* const in = value_data(now.in, input, output);
    std::byte* const out = value_data(now.out, input, output);
    std::size_t const count = block(now.in).count();
    if (now.kind == step_kind::add) {
      queue().add(as_elements(in), as_elements(value_data(now.skip, input, output)),
                  as_elements(out), count);
    } else {
      queue().copy_bytes(in, out, count * sizeof(T));
      if (now.kind == step_kind::fan_out)
        queue().copy_bytes(in, value_data(now.skip, input, output), count * sizeof(T));
    }
  }

  [[gnu::cold]] void show(int step, std::byte* input, std::byte* output) {
    if (watch_->found) return;
    auto const& now = code.steps[step];
    auto const& leaf = plan::tree.leaves[now.leaf];
    if (leaf.has_term()) watch_->look(rank_.device(), context_.loss.data, 1);
    if (!leaf.is_loss && !watch_->found)
      watch_->look(rank_.device(), as_elements(value_data(now.out, input, output)),
                   block(now.out).count());
    watch_->microbatch = context_.microbatch;
    watch_->site = static_cast<std::uint32_t>(unit_ * leaves + now.leaf);
    watch_->leaf = now.leaf;
    watch_->copy = context_.copy;
  }

  template <int Item, int Step>
  void backward_step(std::byte* input, std::byte* output, int copy, std::byte* of_output,
                     std::byte* of_input) {
    if constexpr (!plan::is_epilogue(Step, direction::backward)) {
      constexpr int last = last_of<Step, direction::backward>;
      if constexpr (has_waits) begin_step(waits_of<Item, direction::backward>, Step, last);
      if constexpr (is_trained<Step> && !plan::postpones_parameters(Step))
        backward_parameters<Step>(input, output, copy, of_output, of_input);
      if constexpr (plan::needs_gradient[std::size_t(code.steps[Step].in)])
        backward_input<Step>(input, output, copy, of_output, of_input);
      if constexpr (has_waits) end_step(waits_of<Item, direction::backward>, Step, last);
    }
    if constexpr (plan::postpones_parameters(Step + 1)) {
      constexpr int parameters = waits::parameters_of(Step + 1);
      if constexpr (has_waits) keep_waits(waits_of<Item, direction::backward>, parameters);
      backward_parameters<Step + 1>(input, output, copy, of_output, of_input);
      if constexpr (has_waits) record_step(waits_of<Item, direction::backward>, parameters);
    }
  }

  template <int Step>
  void backward_parameters(std::byte* input, std::byte* output, int copy, std::byte* of_output,
                           std::byte* of_input) {
    constexpr auto& now = code.steps[Step];
    [[maybe_unused]] auto const mark =
        rank_.device().mark(backward_names_[std::size_t(now.leaf)].c_str());
    auto ops = operations_of<operations_type<Step>>(Step, backward_names_);
    if (begins_gradients_) ops.begin_by_product(begin_gradients_of(now.leaf, copy));
    call_backward_parameters<layer_of_step<Step>>(
        ops, backward_parameters_body{
                 parameter_access<now.leaf, false>{*this, copy},
                 gradient_or_seed<output_gradient<Step>>(now.out, of_output, of_input),
                 parameter_access<now.leaf, true>{*this, copy},
                 saved_access<Step, true>{*this, input, output},
                 scratch_access<Step>{*this, input, output}, context_});
    ops.require_begun();
    if constexpr (has_scratch<now.leaf>) forget_scratch(now.leaf);
  }
  /// Clears the gradients of a layer but the one that is a product, and returns that. Each use of a
  /// parameter has an accumulator of its own, so that who adds to it first is known.
  [[gnu::noinline]] void const* begin_gradients_of(int leaf, int copy) {
    auto const& layer = plan::tree.leaves[leaf];
    void const* product = nullptr;
    for (int i = 0; i < layer.parameter_count; ++i) {
      int const number = entry_of<plan>(leaf, i);
      auto const& entry = plan::entries[number];
      auto* const gradient = this->gradient(number, copy);
      if (i == layer.gradient_by_product) product = gradient;
      else
        queue().fill(typename Job::gradient_element{0}, gradient,
                     entry.local_rows * entry.local_columns);
    }
    return product;
  }

  template <int Step>
  void backward_input(std::byte* input, std::byte* output, int copy, std::byte* of_output,
                      std::byte* of_input) {
    constexpr auto& now = code.steps[Step];
    if constexpr (now.kind == step_kind::leaf) {
      [[maybe_unused]] auto const mark =
          rank_.device().mark(backward_names_[std::size_t(now.leaf)].c_str());
      auto ops = operations_of<operations_type<Step>>(Step, backward_names_);
      call_backward_input<layer_of_step<Step>>(
          ops, backward_input_body{
                   parameter_access<now.leaf, false>{*this, copy},
                   gradient_or_seed<output_gradient<Step>>(now.out, of_output, of_input),
                   this->template input_gradient_view<Step>(input, output, of_output, of_input),
                   saved_access<Step, true>{*this, input, output},
                   scratch_access<Step>{*this, input, output}, context_});
      if constexpr (has_scratch<now.leaf>) forget_scratch(now.leaf);
    } else if constexpr (now.kind == step_kind::move) {
      move<dual(code.values[now.out].at), dual(code.values[now.in].at), T>(
          code.values[now.in].info.width, gradient_data(now.out, of_output, of_input),
          gradient_data(now.in, of_output, of_input));
    } else {
      backward_sum(Step, of_output, of_input);
    }
  }
  void backward_sum(int step, std::byte* of_output, std::byte* of_input) {
    auto const& now = code.steps[step];
    std::byte* const dout = gradient_data(now.out, of_output, of_input);
    std::byte* const din = gradient_data(now.in, of_output, of_input);
    std::size_t const count = block(now.in).count();
    if (now.kind == step_kind::add) queue().copy_bytes(dout, din, count * sizeof(T));
    else
      queue().add(as_elements(dout), as_elements(gradient_data(now.skip, of_output, of_input)),
                  as_elements(din), count);
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

  template <class Operations>
  Operations operations_of(int step, auto const& names) {
    auto const& now = code.steps[step];
    context_.site = static_cast<std::uint32_t>(unit_ * leaves + now.leaf);
    if constexpr (std::is_same_v<Operations, term_operations<Rank>>) {
      context_.loss = loss_;
      if (loss_.data != nullptr) {
        context_.loss.data += plan::tree.leaves[now.leaf].term;
        context_.loss.scale += plan::tree.leaves[now.leaf].term;
      }
      if (code.values[now.in].at == shard<dim::sequence>)
        context_.loss.first_row = static_cast<std::size_t>(base::tensor_rank_) * block(now.in).rows;
    }
    return {rank_, context_, now.leaf, names[std::size_t(now.leaf)].c_str()};
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
  bool begins_gradients_ = false;
  loss_sum loss_{};
  forward_watch* watch_ = nullptr;
  std::byte const* model_output_ = nullptr;
};

}  // namespace plait::execution
