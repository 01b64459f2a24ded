// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/run/body.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/leaf_bodies.hpp"
#include "plait/run/move.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/step_code.hpp"
#include "plait/run/step_facts.hpp"
#include "plait/run/term_operations.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// Sets what the bodies of the leaves are called where a device marks them; `names` as `leaf_names`
/// gives them.
[[gnu::cold]] void name_bodies(std::vector<std::string> names, std::span<std::string> forward,
                               std::span<std::string> backward);

/// The layer of an epilogue in its form.
template <class Epilogue>
struct formed_or_none {
  using type = typename Epilogue::work;
};
template <>
struct formed_or_none<no_step> {
  using type = no_epilogue;
};
template <step_facts Facts>
struct formed_or_none<single_step<Facts, step_sum>> {
  using type = sum_epilogue;
};

/// Runs the forward and the backward of one unit of a model on one microbatch: walks through the
/// steps of its item, makes the views that the layers see and applies the transitions between them.
///
/// Cost:   no allocation.
/// Threads: used by the one thread that runs the rank.
template <class Setting, class Rank>
class unit_runner {
  static constexpr auto traits = Setting::traits;
  using memory_type = stage_memory<Setting>;
  using setting = typename Setting::leaf;
  using T = typename setting::element;
  using device_type = typename Rank::device_type;
  using waits = typename waits_of_items<traits.leaves>::waits;
  /// Which waits are meant. Numbers: what keeps them is the same code for all items.
  struct planned_waits {
    int item;
    direction way;
    unsigned char steps_again = 0;  // see pass_frame
  };
  static constexpr int leaves = traits.leaves;
  /// The code that runs a leaf.
  template <class Step>
  using bodies =
      leaf_bodies<setting, Rank, typename Step::work, std::size_t(Step::facts.more_count)>;

 public:
  /// `memory` outlives it; `names`: of the leaves.
  [[gnu::cold]] unit_runner(Rank& rank, memory_type const& memory, std::vector<std::string> names)
      : rank_(rank), memory_(memory), plan_(memory.plan()) {
    for (auto& event : events_) event = rank.device().make_event();
    name_bodies(std::move(names), forward_names_, backward_names_);
    if constexpr (traits.has_reruns) prepare_reruns();
  }

  /// Seed, step, microbatch and so on of the next calls; `site` and `copy` are filled in here.
  [[nodiscard]] layer_context& context() { return context_; }
  /// The loss of the microbatch: that of the first term, whose sums and scales the others follow.
  void set_loss(loss_sum const& loss) { loss_ = loss; }
  /// Whether the next backward is the first that adds to gradients of its parameters: they are
  /// then overwritten; else they are added to.
  void begin_gradients(bool begins) { begins_gradients_ = begins; }
  /// Of each step, bits of `again`: for which units it runs again. Tests leave some out.
  [[nodiscard]] auto& steps_again() { return again_.steps; }
  /// Shows what each layer makes in the next forwards to `by`, until it has found what it looks
  /// for; null ends that.
  void watch(forward_watch* by) { watch_ = by; }

  // Which steps an item has is known to the compiler, and so is all of them: no loop looks up what
  // is to be done. What is a template on a step only puts together calls of what is none, and is
  // put into the function of its item: compilers would make a function of each.

  /// Begins a unit of an item: the steps that follow, in their order, run it from its input into
  /// its activation stash, or make again what the frame says.
  void begin_forward(item_facts const& item, pass_frame const& at) {
    if constexpr (has_waits)
      if (item.waits_forward) pass_edge(forward_waits(item.number, at), waits::begin);
  }
  void end_forward(item_facts const& item, pass_frame const& at) {
    if constexpr (has_waits)
      if (item.waits_forward) pass_edge(forward_waits(item.number, at), waits::end);
    discard_transients();
  }
  /// Begins the way back, from the gradient of a unit's output to that of its input: its steps from
  /// the last to the first. Gradients of parameters are added up, or what they are made of is kept;
  /// for the part of the parameters alone, backward_parameters is what runs of each step.
  void begin_backward(item_facts const& item, backward_part part) {
    part_ = part;
    if constexpr (has_waits)
      if (item.waits_backward && part != backward_part::parameters)
        pass_edge({item.number, direction::backward}, waits::begin);
  }
  void end_backward(item_facts const& item) {
    if constexpr (has_waits)
      if (item.waits_backward && part_ != backward_part::parameters)
        pass_edge({item.number, direction::backward}, waits::end);
    discard_transients();
  }
  /// What lies there has no value any more.
  void discard(std::byte* data, std::size_t bytes) { queue().discard(data, bytes); }

  /// Runs one step of a unit forward, a `step_code`; the way back is that of the steps in reverse.
  template <class Code>
  PLAIT_IN_LOOPS void forward_step(pass_frame const& at) {
    constexpr auto& now = Code::facts;
    using epilogue = typename Code::forward_epilogue;
    if constexpr (!Code::is_done_forward) {
      if constexpr (traits.has_reruns)
        if (!runs(now.number, at)) return;
      if constexpr (are_awaiting<direction::forward, typename Code::step, epilogue>)
        begin_step<direction::forward, typename Code::step, epilogue>(at);
      if constexpr (now.kind == step_kind::leaf) {
        if constexpr (may_wait_for_gradient<Code>) {
          if (!waits_for_gradient()) forward_leaf<Code>(at);
        } else {
          forward_leaf<Code>(at);
        }
      } else if constexpr (now.kind == step_kind::move) {
        using row = typename Code::step::work;
        using element = std::conditional_t<now.is_tokens, std::int32_t, T>;
        move<direction::forward, row::from, row::to, element>(now.number, at);
      } else {
        forward_sum(plan_.steps[now.number], at);
      }
      if constexpr (are_awaited<direction::forward, typename Code::step, epilogue>)
        end_step<direction::forward, typename Code::step, epilogue>(at);
    }
    // After a sum as epilogue the leaf's place holds the sum: the leaf is also named if only the
    // sum is not finite.
    if constexpr (now.kind == step_kind::leaf &&
                  (!is_step<epilogue> || std::is_same_v<formed_of<epilogue>, sum_epilogue>))
      if (watch_ != nullptr) show(now.number, at);
  }
  template <class Code>
  PLAIT_IN_LOOPS void backward_step(pass_frame const& at) {
    constexpr auto& now = Code::facts;
    if constexpr (!Code::is_done_backward) {
      using epilogue = typename Code::backward_epilogue;
      if constexpr (are_awaiting<direction::backward, typename Code::step, epilogue>)
        begin_step<direction::backward, typename Code::step, epilogue>(at);
      if constexpr (now.kind == step_kind::leaf) {
        backward_leaf<Code>(at);
      } else if constexpr (now.gives_gradient) {
        if constexpr (now.kind == step_kind::move) {
          using row = typename Code::step::work;
          move<direction::backward, row::gradient_from, row::gradient_to, T>(now.number, at);
        } else {
          backward_sum(plan_.steps[now.number], at);
        }
      }
      if constexpr (are_awaited<direction::backward, typename Code::step, epilogue>)
        end_step<direction::backward, typename Code::step, epilogue>(at);
    }
    using postponed = typename Code::postponed;
    if constexpr (is_step<postponed>) {
      constexpr planned_waits planned{now.item, direction::backward};
      constexpr int parameters = waits::parameters_of(postponed::facts.number);
      if constexpr (postponed::facts.parameters.waits) keep_waits(planned, parameters);
      backward_parameters<postponed>(at);
      if constexpr (postponed::facts.parameters.is_awaited) record_step(planned, parameters);
    }
  }
  /// The gradients of a leaf's parameters, or what their half of the backward needs for them; a
  /// `single_step`.
  template <class Step>
  PLAIT_IN_LOOPS void backward_parameters(pass_frame const& at) {
    if constexpr (Step::facts.is_trained) {
      using operations_type = typename bodies<Step>::operations_type;
      auto ops = operations_of<operations_type>(Step::facts, direction::backward, at);
      add_gradients<Step>(ops, memory_.place_of_leaf(Step::facts, at),
                          output_gradient(Step::facts, at), at);
    }
  }
  /// Calls the `prepare` of a layer that has one, with the views of its forward.
  template <class Code>
  void prepare_step(pass_frame const& at) {
    constexpr auto& now = Code::facts;
    if constexpr (now.has_prepare) {
      using body = bodies<typename Code::step>;
      body::prepare(operations_of<typename body::operations_type>(now, direction::forward, at),
                    memory_.place_of_leaf(now, at));
    }
  }

 private:
  template <class Step>
  static constexpr bool is_step = !std::is_same_v<Step, no_step>;
  template <class Epilogue>
  using formed_of = typename formed_or_none<Epilogue>::type;

  template <direction Way>
  PLAIT_IN_LOOPS auto mark_of(step_facts const& now, pass_frame const& at) {
    return rank_.device().mark(names_of(Way, at)[std::size_t(now.leaf)].c_str());
  }

  /// True for a loss that may be made only with its gradient: then its forward does nothing, and
  /// its backward reads once what both are made of, if the device can. Plans say of both that they
  /// write the sum of the loss.
  template <class Code>
  static constexpr bool may_wait_for_gradient = [] {
    constexpr auto& now = Code::facts;
    if constexpr (now.kind == step_kind::leaf && now.is_loss && now.gives_gradient)
      return Code::step::work::info.has_forward_backward &&
             Code::step::work::form.inner_count == 0 && device_type::parts.joins_loss &&
             !is_step<typename Code::backward_epilogue>;
    else return false;
  }();
  /// A training forward is followed by its backward, except where somebody watches it.
  [[nodiscard]] bool waits_for_gradient() {
    return context_.training && watch_ == nullptr && queue().loss_with_gradient();
  }

  template <class Code>
  PLAIT_IN_LOOPS void forward_leaf(pass_frame const& at) {
    constexpr auto& now = Code::facts;
    using body = bodies<typename Code::step>;
    using epilogue = typename Code::forward_epilogue;
    [[maybe_unused]] auto const mark = mark_of<direction::forward>(now, at);
    auto const ops = operations_of<typename body::operations_type>(now, direction::forward, at);
    std::byte* other = nullptr;
    if constexpr (std::is_same_v<formed_of<epilogue>, sum_epilogue>)
      other = memory_.value_data(plan_.steps[epilogue::facts.number].skip, at);
    else if constexpr (is_step<epilogue>) other = memory_.value_data(epilogue::facts.out, at);
    body::template forward<formed_of<epilogue>>(ops, memory_.place_of_leaf(now, at), other);
    if constexpr (now.has_scratch) forget_scratch(now.leaf);
  }
  /// The halves of a leaf's backward that a step has.
  template <class Code>
  PLAIT_IN_LOOPS void backward_leaf(pass_frame const& at) {
    constexpr auto& now = Code::facts;
    constexpr bool is_joint = !traits.splits_backward && now.is_trained && now.gives_gradient &&
                              Code::step::work::info.joins_backward && !Code::is_postponed;
    constexpr bool adds = now.is_trained && !is_joint && !Code::is_postponed;
    if constexpr (is_joint || adds || now.gives_gradient) {
      using body = bodies<typename Code::step>;
      auto ops = operations_of<typename body::operations_type>(now, direction::backward, at);
      auto const place = memory_.place_of_leaf(now, at);
      std::byte* const dy = output_gradient(now, at);
      if constexpr (adds) add_gradients<typename Code::step>(ops, place, dy, at);
      if constexpr (now.gives_gradient) {
        [[maybe_unused]] auto const mark = mark_of<direction::backward>(now, at);
        gradient_place of{dy, memory_.gradient_data(now.in, at)};
        if constexpr (now.more_count > 0)
          for (int i = 0; i < now.more_count; ++i)
            of.more[std::size_t(i)] = memory_.gradient_data(plan_.steps[now.number].more[i], at);
        using epilogue = typename Code::backward_epilogue;
        using formed = formed_of<epilogue>;
        if constexpr (is_joint) begin_sums(ops, now.leaf, at);
        if constexpr (std::is_same_v<formed, sum_epilogue>) {
          static_assert(is_joint);
          constexpr int number = epilogue::facts.number;
          of.added = memory_.gradient_data(plan_.steps[number].skip, at);
          body::template backward_input<formed, true>(
              ops, place, of, nullptr, memory_.gradient_data(epilogue::facts.in, at));
        } else if constexpr (is_step<epilogue>) {
          constexpr auto& then = epilogue::facts;
          auto const of_epilogue = memory_.place_of_leaf(then, at);
          body::template backward_input<formed, is_joint>(ops, place, of, &of_epilogue,
                                                          memory_.gradient_data(then.in, at));
        } else {
          bool makes_loss = false;
          if constexpr (may_wait_for_gradient<Code>) makes_loss = waits_for_gradient();
          if (!makes_loss)
            body::template backward_input<formed, is_joint>(ops, place, of, nullptr, nullptr);
          else if constexpr (may_wait_for_gradient<Code>) body::forward_backward(ops, place, of);
        }
        if constexpr (now.has_scratch) forget_scratch(now.leaf);
      }
    }
  }
  template <class Step>
  PLAIT_IN_LOOPS void add_gradients(auto& ops, leaf_place<setting> const& place, std::byte* dy,
                                    pass_frame const& at) {
    constexpr auto& now = Step::facts;
    if constexpr (traits.splits_backward)
      if (part_ == backward_part::input) {
        if constexpr (!now.is_loss)
          queue().copy_bytes(dy, stash_of(now.leaf, at),
                             memory_.block(now.out.number).count() * sizeof(T));
        return;
      }
    [[maybe_unused]] auto const mark = mark_of<direction::backward>(now, at);
    begin_sums(ops, now.leaf, at);
    bodies<Step>::template backward_parameters<now.has_parameters>(ops, place, dy);
    if constexpr (now.has_scratch) forget_scratch(now.leaf);
  }

  /// Prepares the gradients of a leaf's parameters: the leaf can add to them afterwards.
  PLAIT_IN_LOOPS void begin_sums(auto& ops, int leaf, pass_frame const& at) {
    if (begins_gradients_ || traits.sums_blocks) ops.begin_by_product(begin_gradients_of(leaf, at));
  }

  /// Where the first half of a backward leaves the gradient of a leaf's output to the second.
  [[nodiscard]] std::byte* stash_of(int leaf, pass_frame const& at) const {
    return at.gradient_stash + memory_.layout().gradient_stash_offset[std::size_t(leaf)];
  }

  // Steps wait for each other where there is a stream besides that of compute.
  static constexpr bool has_waits = setting::tensor_ranks > 1;

  [[nodiscard]] stream stream_of(int step, direction way) const {
    if (step == waits::begin || step >= waits::end) return stream::compute;
    auto const& now = plan_.steps[step];
    return now.kind == step_kind::move && communicates(row_of_move(plan_.values, now, way).moves)
               ? within_layers
               : stream::compute;
  }

  static planned_waits forward_waits(int item, pass_frame const& at) {
    return {item, direction::forward, at.steps_again};
  }
  [[nodiscard]] waits planned(planned_waits all) const {
    if constexpr (traits.has_reruns)
      if (all.steps_again != 0) {
        auto const& found = again_.waits[waits_again_at(all.item, all.steps_again)];
        return {{found.data(), int(found.size())}};
      }
    return (all.way == direction::forward ? memory_.waits().forward : memory_.waits().backward)
        .of(all.item);
  }
  static std::size_t waits_again_at(int item, unsigned char steps_again) {
    return std::size_t(item * again_kinds + std::countr_zero(steps_again));
  }

  /// Lets the stream of a step wait for what the step needs.
  [[gnu::noinline]] void keep_waits(planned_waits all, int step) {
    auto const part = all.steps_again != 0            ? wait_site::part::forward_again
                      : all.way == direction::forward ? wait_site::part::forward
                                                      : wait_site::part::backward;
    for (auto const& wait : planned(all).list)
      if (wait.waiting == step)
        rank_.device().wait(stream_of(step, all.way), event_of(wait.awaited),
                            {part, step, wait.awaited});
  }
  /// Records what others wait for.
  [[gnu::noinline]] void record_step(planned_waits all, int step) {
    if (planned(all).is_awaited(step))
      rank_.device().record(event_of(step), stream_of(step, all.way));
  }

  /// The waits of a step, and of the element-wise function behind it if that is done with it. A
  /// backward makes nothing again.
  template <direction Way, class Step, class Epilogue>
  PLAIT_IN_LOOPS void begin_step(pass_frame const& at) {
    planned_waits const planned{Step::facts.item, Way, at.steps_again};
    if constexpr (waits_of<Way, Step>.waits) keep_waits(planned, Step::facts.number);
    if constexpr (waits_of<Way, Epilogue>.waits) keep_waits(planned, Epilogue::facts.number);
  }
  template <direction Way, class Step, class Epilogue>
  PLAIT_IN_LOOPS void end_step(pass_frame const& at) {
    planned_waits const planned{Step::facts.item, Way, at.steps_again};
    if constexpr (waits_of<Way, Epilogue>.is_awaited) record_step(planned, Epilogue::facts.number);
    if constexpr (waits_of<Way, Step>.is_awaited) record_step(planned, Step::facts.number);
  }
  template <direction Way, class Step>
  static constexpr step_waits waits_of = [] {
    if constexpr (!is_step<Step>) return step_waits{};
    else return Way == direction::forward ? Step::facts.forward : Step::facts.backward;
  }();
  // Asked before the calls: most steps have none, and compilers would make a function for each.
  template <direction Way, class... Steps>
  static constexpr bool are_awaiting = (waits_of<Way, Steps>.waits || ...);
  template <direction Way, class... Steps>
  static constexpr bool are_awaited = (waits_of<Way, Steps>.is_awaited || ...);
  /// Nothing is done at the edges of an item but what others wait for.
  [[gnu::noinline]] void pass_edge(planned_waits all, int edge) {
    keep_waits(all, edge);
    record_step(all, edge);
  }
  [[nodiscard]] auto& event_of(int step) { return events_[std::size_t(step + 1)]; }

  /// Scratch does not outlive a body.
  void forget_scratch(int leaf) {
    auto const& scratch = plan_.leaves[leaf].scratch;
    for (int k = 0; k < scratch.own.size(); ++k) {
      auto const at = static_cast<std::size_t>(k);
      auto const& slot = scratch.own[k];
      queue().discard(
          memory_.transients() + memory_.layout().scratch_offset[std::size_t(leaf)][at],
          (slot.element == slot_element::compute ? sizeof(T) : sizeof(accumulate_t<T>)) *
              slot_count(slot, plan_.form(leaf), memory_.rows(), setting::tensor_ranks));
    }
  }
  /// Nothing in the transient buffers outlives an item.
  void discard_transients() {
    auto const& arena = memory_.arena();
    queue().discard(memory_.transients(), arena.transient_bytes + arena.staging_bytes);
  }

  [[nodiscard]] auto queue() { return rank_.device().on(stream::compute); }

  /// The gradient of what a leaf writes, if it is no loss.
  [[nodiscard]] std::byte* output_gradient(step_facts const& now, pass_frame const& at) const {
    if (now.is_loss) return nullptr;
    if constexpr (traits.splits_backward)
      if (part_ == backward_part::parameters) return stash_of(now.leaf, at);
    return memory_.gradient_data(now.out, at);
  }
  [[nodiscard]] bool runs(int step, pass_frame const& at) const {
    return at.steps_again == 0 || (again_.steps[std::size_t(step)] & at.steps_again) != 0;
  }
  /// What the bodies of the leaves are called.
  [[nodiscard]] auto const& names_of(direction way, [[maybe_unused]] pass_frame const& at) const {
    if constexpr (traits.has_reruns)
      if (at.steps_again != 0) return again_.names;
    return way == direction::forward ? forward_names_ : backward_names_;
  }
  [[gnu::cold]] void prepare_reruns() {
    for (std::size_t i = 0; i < again_.names.size(); ++i)
      again_.names[i] = concat({forward_names_[i], " again"});
    std::copy(plan_.reruns.begin(), plan_.reruns.end(), again_.steps.begin());
    if constexpr (has_waits)
      for (int i = 0; i < plan_.items.size(); ++i)
        for (int what = 0; what < again_kinds; ++what)
          again_.waits.push_back(plan_item_waits<program<leaves>::most_steps>(
              plan_, plan_.leaves, plan_.storage, plan_.needs_gradient, plan_.items[i],
              direction::forward,
              [&](int step) { return (plan_.reruns[step] & bit_of(what)) != 0; }));
  }
  /// A step that begins or ends a residual or a fan_out.
  void forward_sum(step const& now, pass_frame const& at) {
    std::byte* const in = memory_.value_data(now.in, at);
    std::byte* const out = memory_.value_data(now.out, at);
    std::size_t const count = memory_.block(now.in).count();
    if (now.kind == step_kind::add) {
      queue().add(as_elements(in), as_elements(memory_.value_data(now.skip, at)), as_elements(out),
                  count);
    } else {
      queue().copy_bytes(in, out, count * sizeof(T));
      if (now.kind == step_kind::fan_out)
        queue().copy_bytes(in, memory_.value_data(now.skip, at), count * sizeof(T));
    }
  }

  [[gnu::cold]] void show(int step, pass_frame const& at) {
    if (watch_->found || at.steps_again != 0) return;
    auto const& now = plan_.steps[step];
    auto const& leaf = plan_.leaves[now.leaf];
    if (leaf.has_term()) watch_->look(rank_.device(), context_.loss.data, 1);
    if (!leaf.is_loss && !watch_->found)
      watch_->look(rank_.device(), as_elements(memory_.value_data(now.out, at)),
                   memory_.block(now.out).count());
    watch_->microbatch = context_.microbatch;
    watch_->site = static_cast<std::uint32_t>(at.unit * leaves + now.leaf);
    watch_->leaf = now.leaf;
    watch_->copy = context_.copy;
  }

  /// Clears the gradients of a layer but the one that is a product, and returns that. Each use of a
  /// parameter has an accumulator of its own, so that who adds to it first is known.
  [[gnu::noinline]] void const* begin_gradients_of(int leaf, pass_frame const& at) {
    auto const& layer = plan_.leaves[leaf];
    void const* product = nullptr;
    for (int i = 0; i < layer.parameters.size(); ++i) {
      int const number = plan_.first_entry[leaf] + i;
      auto const& entry = plan_.entries[number];
      // The sums of a step that are not in blocks go on.
      if (!begins_gradients_ && (entry.owner >= 0 || entry.reduced_over_tensor())) continue;
      auto* const gradient = memory_.gradient(number, at.unit);
      if (i == layer.overwrites_gradient) product = gradient;
      else queue().fill(typename setting::sum{0}, gradient, entry.local_rows * entry.local_columns);
    }
    return product;
  }

  void backward_sum(step const& now, pass_frame const& at) {
    std::byte* const dout = memory_.gradient_data(now.out, at);
    std::byte* const din = memory_.gradient_data(now.in, at);
    std::size_t const count = memory_.block(now.in).count();
    if (now.kind == step_kind::add) queue().copy_bytes(dout, din, count * sizeof(T));
    else
      queue().add(as_elements(dout), as_elements(memory_.gradient_data(now.skip, at)),
                  as_elements(din), count);
  }

  /// Moves the value of a step, or its gradient.
  template <direction Way, placement From, placement To, class Element>
  [[gnu::noinline]] void move(int step, pass_frame const& at) {
    constexpr auto moves = transition_between(From, To).moves;
    constexpr bool forward = Way == direction::forward;
    auto const& now = plan_.steps[step];
    auto* const in = forward ? memory_.value_data(now.in, at) : memory_.gradient_data(now.out, at);
    auto* const out = forward ? memory_.value_data(now.out, at) : memory_.gradient_data(now.in, at);
    [[maybe_unused]] auto const mark = rank_.device().mark(to_string(moves));
    move_value<From, To>(rank_.device().on(communicates(moves) ? within_layers : stream::compute),
                         rank_.tensor_group(),
                         whole_shape{memory_.rows(), plan_.values[now.in].info.width},
                         reinterpret_cast<Element const*>(in), reinterpret_cast<Element*>(out),
                         reinterpret_cast<Element*>(memory_.at(memory_.arena().staging_offset)));
  }

  static T* as_elements(std::byte* data) { return reinterpret_cast<T*>(data); }

  /// With several tensor ranks this is a call, as where values lie, see stage_memory.
  template <class Operations>
  PLAIT_IN_LOOPS Operations operations_of(step_facts const& now, direction way,
                                          pass_frame const& at) {
    if constexpr (setting::tensor_ranks > 1)
      return operations_of_leaf<Operations>(now.leaf, now.in.number, way, at);
    else return make_operations<Operations>(now.leaf, now.in.number, way, at);
  }
  template <class Operations>
  [[gnu::noinline]] Operations operations_of_leaf(int leaf, int in, direction way,
                                                  pass_frame const& at) {
    return make_operations<Operations>(leaf, in, way, at);
  }
  template <class Operations>
  PLAIT_IN_LOOPS Operations make_operations(int leaf, int in, direction way, pass_frame const& at) {
    context_.site = static_cast<std::uint32_t>(at.unit * leaves + leaf);
    if constexpr (traits.reads_buffers)
      context_.reads_buffers = !context_.training || plan_.leaves[leaf].is_frozen;
    if constexpr (traits.has_reruns) context_.runs_again = at.steps_again != 0;
    if constexpr (std::is_same_v<Operations, term_operations<Rank>>) {
      context_.loss = loss_;
      if constexpr (traits.has_reruns)
        if (at.steps_again != 0) context_.loss.data = nullptr;  // it has its term
      if (loss_.data != nullptr) {
        context_.loss.data += plan_.leaves[leaf].term;
        context_.loss.scale += plan_.leaves[leaf].term;
      }
      if (plan_.values[in].at == shard<dim::sequence>)
        context_.loss.first_row =
            static_cast<std::size_t>(memory_.form_block()) * memory_.block(in).rows;
    }
    return {rank_, context_, leaf, names_of(way, at)[std::size_t(leaf)].c_str()};
  }

  Rank& rank_;
  memory_type const& memory_;
  plan_ir const& plan_;
  // For each step what it has done, and for what came before it.
  std::array<typename device_type::event, std::size_t(waits::parameters_of(waits::end) + 1)>
      events_{};
  std::array<std::string, std::size_t(leaves)> forward_names_, backward_names_;  // what runs
  layer_context context_{};
  backward_part part_ = backward_part::all;
  bool begins_gradients_ = false;
  loss_sum loss_{};
  forward_watch* watch_ = nullptr;

  // Which steps run again, by what marks call them, and for what they wait.
  struct reruns_of_steps {
    std::array<unsigned char, program<leaves>::most_steps> steps{};
    std::array<std::string, std::size_t(leaves)> names{};
    lean_vector<lean_vector<planned_wait>> waits{};  // of each item, for each `again`
  };
  struct nothing_again {};
  [[no_unique_address]] std::conditional_t<traits.has_reruns, reruns_of_steps, nothing_again>
      again_{};
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/unit_runner.ipp"
#endif
