// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/type_list.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/item_synchronizer.hpp"
#include "plait/run/layer_invoker.hpp"
#include "plait/run/node_code.hpp"
#include "plait/run/node_facts.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/term_operations.hpp"
#include "plait/run/unit_places.hpp"
#include "plait/run/value_nodes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// Runs the units of an item on one microbatch, one after the other: the output of a unit is the
/// input of the next. All units of an item have the same nodes, so their code is compiled once and
/// a loop runs it for each unit; only the unit's frame differs. A node calls the body of a layer,
/// moves a value to another placement, or adds values. Around the nodes the executor enqueues the
/// waits that they need and discards memory. For example, a repeat of 12 blocks is an item of 12
/// units; on a pipeline stage with the blocks 4 to 9, forward_item runs its nodes 6 times for each
/// microbatch. The class does not know the model, so its name stays short: the nodes are passed as
/// types in an item_code, and stage_items has the items.
///
/// Cost:    no allocation.
/// Threads: used by the one thread that runs the rank.
template <class Setting, class Rank>
class unit_executor {
  static constexpr auto traits = Setting::traits;

 public:
  using memory_type = stage_memory<Setting>;
  using arenas = typename memory_type::arenas;
  using setting = typename Setting::leaf;
  using pass_type = pass_frame<setting>;
  using frame_type = unit_frame<setting>;

 private:
  using T = typename setting::element;
  using device_type = typename Rank::device_type;
  using synchronizer_type = item_synchronizer<Setting, device_type>;
  using waits = typename synchronizer_type::waits;
  using planned_waits = typename synchronizer_type::planned_waits;
  static constexpr bool has_waits = synchronizer_type::has_waits;
  static constexpr int leaves = traits.leaves;
  /// The code that calls the bodies of a leaf.
  template <class Node>
  using invoker =
      layer_invoker<setting, Rank, typename Node::work, std::size_t(Node::facts.more_count)>;

 public:
  /// `names`: the names of the leaves.
  [[gnu::cold]] unit_executor(Rank& rank, memory_type memory, std::vector<std::string> names)
      : rank_(rank), memory_(std::move(memory)), synchronizer_(rank.device(), memory_) {
    auto const& layout = memory_.layout();
    places_ = places_of_units(plan().items, arena().chunks, plan().recomputes,
                              layout.stash_end.data(), layout.gradient_stash_bytes.data());
    name_bodies(std::move(names), forward_names_, backward_names_);
    if constexpr (traits.has_recompute) prepare_recompute();
  }
  unit_executor(unit_executor const&) = delete;
  unit_executor& operator=(unit_executor const&) = delete;

  [[nodiscard]] stage_arena const& arena() const { return memory_.arena(); }
  /// Returns for each node the kinds of recomputation in which the node runs, as bits.
  [[nodiscard]] auto& recomputed_nodes() { return recompute_.nodes; }

 protected:
  ~unit_executor() = default;

  [[nodiscard]] plan_ir const& plan() const { return memory_.plan(); }
  /// Returns the addresses of the stage's values and parameters.
  [[nodiscard]] memory_type const& memory() const { return memory_; }
  [[nodiscard]] memory_type& memory() { return memory_; }

  /// Returns the input of a unit.
  [[nodiscard]] std::byte* input_of(int unit, pass_type const& pass) const {
    return unit == pass.chunk->units.begin ? pass.input : activations_of(unit - 1, pass);
  }
  /// Begins a backward and returns the gradient for its first unit: `gradient` if the pass begins
  /// at the end of the chunk, else the gradient from the pass before it.
  std::byte* begin_backward(pass_type const& pass, std::byte* gradient) {
    if (pass.units.end != pass.chunk->units.end) return made_;
    edge_ = 0;
    return gradient;
  }

  // The compiler knows all nodes of an item, so no loop looks up the work of a node. Functions that
  // are templates on a node only combine calls of functions that are not such templates. They are
  // inlined into the function of their item, so that compilers make no function for each node.

  /// Runs the pass's units of an item forward. Returns the last output; without units, `made`.
  template <item_facts Item, class... Nodes>
  std::byte* forward_item(item_code<Item, Nodes...>, pass_type& pass, std::byte* made) {
    auto const here = within(Item.units, pass.units);
    for (int unit = here.begin; unit < here.end; ++unit) {
      frame_type const frame = begin_forward(Item, unit, pass, made);
      in_order{(forward_node<Nodes>(frame), 0)...};
      end_forward(Item, frame);
      made = frame.output;
    }
    return made;
  }
  /// Runs the pass's units of an item backward, from `gradient` of their output to the gradient of
  /// their input, which it returns. `Nodes` are in the order of the backward.
  template <item_facts Item, class... Nodes>
  std::byte* backward_item(item_code<Item, Nodes...>, pass_type& pass, std::byte* gradient) {
    auto const here = within(Item.units, pass.units);
    for (int unit = here.end - 1; unit >= here.begin; --unit) {
      frame_type const frame = begin_backward(Item, unit, pass, gradient);
      in_order{(backward_node<Nodes>(frame), 0)...};
      end_backward(Item, frame);
      gradient = made_;
    }
    return gradient;
  }
  /// Computes only the gradients of the parameters of the pass's units of an item, from the
  /// gradients of outputs that an earlier pass has stashed.
  template <item_facts Item, class... Nodes>
  void parameters_of_item(item_code<Item, Nodes...>, pass_type& pass) {
    auto const here = within(Item.units, pass.units);
    for (int unit = here.end - 1; unit >= here.begin; --unit) {
      frame_type const frame = enter(Item, unit, pass, nullptr, nullptr);
      in_order{(backward_parameters<typename Nodes::node>(frame), 0)...};
      values_.forget_transients();
      if constexpr (traits.has_recompute) discard_working(Item.number, unit);
    }
  }
  /// Calls the functions `prepare` of an item's layers, for the first unit of the item.
  template <item_facts Item, class... Nodes>
  [[gnu::cold]] void prepare_item(item_code<Item, Nodes...>, pass_type& pass) {
    if constexpr (place_of_first({Nodes::facts.has_prepare...}) >= 0) {
      auto const here = within(Item.units, pass.units);
      if (here.begin >= here.end) return;
      pass.context.copy = here.begin - Item.units.begin;
      std::byte* const activations = activations_of(here.begin, pass);
      frame_type const frame{
          .pass = &pass, .unit = here.begin, .input = activations, .output = activations};
      in_order{(prepare_step<Nodes>(frame), 0)...};
    }
  }

 private:
  /// Begins a unit of an item in a forward and returns its frame. The nodes that follow run the
  /// unit from its input into its activation stash, or recompute the values that the frame selects.
  PLAIT_IN_LOOPS frame_type begin_forward(item_facts const& item, int unit, pass_type& pass,
                                          std::byte* made) {
    pass.context.copy = unit - item.units.begin;
    frame_type frame{
        .pass = &pass, .unit = unit, .input = made, .output = activations_of(unit, pass)};
    if constexpr (traits.has_recompute) {
      set_working(frame);
      discard_working(item.number, unit);
      if (pass.recomputes) frame.recompute_bit = bit_of(plan().recomputes.of(unit));
    }
    if constexpr (has_waits)
      if (item.waits_forward)
        synchronizer_.pass_edge(forward_waits(item.number, frame), waits::begin);
    return frame;
  }
  void end_forward(item_facts const& item, frame_type const& at) {
    if constexpr (has_waits)
      if (item.waits_forward) synchronizer_.pass_edge(forward_waits(item.number, at), waits::end);
    values_.forget_transients();
  }
  /// Begins a unit of an item in a backward and returns its frame. The nodes that follow, from the
  /// last to the first, compute the gradient of the unit's input at `made_`. The nodes also add
  /// gradients of parameters, or keep the gradients of outputs for a later backward_parameters.
  PLAIT_IN_LOOPS frame_type begin_backward(item_facts const& item, int unit, pass_type& pass,
                                           std::byte* gradient) {
    made_ = memory_.edge(edge_);
    edge_ = 1 - edge_;
    if constexpr (traits.has_chunks)
      if (pass.of_input != nullptr && unit == pass.chunk->units.begin) made_ = pass.of_input;
    if constexpr (has_waits)
      if (item.waits_backward)
        synchronizer_.pass_edge({item.number, direction::backward}, waits::begin);
    return enter(item, unit, pass, gradient, made_);
  }
  void end_backward(item_facts const& item, frame_type const& at) {
    if constexpr (has_waits)
      if (item.waits_backward)
        synchronizer_.pass_edge({item.number, direction::backward}, waits::end);
    values_.forget_transients();
    if constexpr (traits.has_recompute)
      if (at.pass->part == backward_part::all) discard_working(item.number, at.unit);
  }
  /// Makes the frame of a unit in a backward.
  [[nodiscard]] frame_type enter(item_facts const& item, int unit, pass_type& pass,
                                 std::byte* of_output, std::byte* of_input) const {
    pass.context.copy = unit - item.units.begin;
    frame_type out{&pass,     unit,    input_of(unit, pass), activations_of(unit, pass),
                   of_output, of_input};
    if constexpr (traits.splits_backward)
      out.gradient_stash = pass.gradient_stash + places_[std::size_t(unit)].gradients;
    if constexpr (traits.has_recompute) set_working(out);
    return out;
  }

  /// Runs one node of a unit forward; backward_node runs it backward. `Code` is a `node_code`.
  template <class Code>
  PLAIT_IN_LOOPS void forward_node(frame_type const& at) {
    constexpr auto& now = Code::facts;
    using epilogue = typename Code::forward_epilogue;
    if constexpr (!Code::is_done_forward) {
      if constexpr (traits.has_recompute)
        if (!runs(now.number, at)) return;
      if constexpr (are_awaiting<direction::forward, typename Code::node, epilogue>)
        begin_node<direction::forward, typename Code::node, epilogue>(at);
      if constexpr (now.kind == program_node_kind::leaf) {
        bool is_made_later = false;
        if constexpr (may_wait_for_gradient<Code>) is_made_later = waits_for_gradient(at);
        if (!is_made_later) {
          using layer = invoker<typename Code::node>;
          [[maybe_unused]] auto const mark = mark_of<direction::forward>(now, at);
          auto const ops =
              operations_of<typename layer::operations_type>(now, direction::forward, at);
          std::byte* other = nullptr;
          if constexpr (std::is_same_v<typename epilogue::work, node_sum>)
            other = memory_.value_data(plan().nodes[epilogue::facts.number].skip, at);
          else if constexpr (is_node<epilogue>) other = memory_.value_data(epilogue::facts.out, at);
          layer::template forward<typename epilogue::work>(ops, memory_.place_of_leaf(now, at),
                                                           other);
          if constexpr (now.has_scratch) values_.forget_scratch(now.leaf);
        }
      } else if constexpr (now.kind == program_node_kind::move) {
        using row = typename Code::node::work;
        using element = std::conditional_t<now.is_tokens, std::int32_t, T>;
        values_.template move<direction::forward, row::from, row::to, element>(now.number, at);
      } else {
        values_.forward_sum(plan().nodes[now.number], at);
      }
      if constexpr (are_awaited<direction::forward, typename Code::node, epilogue>)
        end_node<direction::forward, typename Code::node, epilogue>(at);
    }
    constexpr bool is_mapped =
        is_node<epilogue> && !std::is_same_v<typename epilogue::work, node_sum>;
    if constexpr (now.kind == program_node_kind::leaf || !now.is_tokens)
      if (at.pass->watch != nullptr) show(now.number, direction::forward, at, is_mapped);
  }
  template <class Code>
  PLAIT_IN_LOOPS void backward_node(frame_type const& at) {
    constexpr auto& now = Code::facts;
    if constexpr (!Code::is_done_backward) {
      using epilogue = typename Code::backward_epilogue;
      if constexpr (are_awaiting<direction::backward, typename Code::node, epilogue>)
        begin_node<direction::backward, typename Code::node, epilogue>(at);
      if constexpr (now.kind == program_node_kind::leaf) {
        backward_leaf<Code>(at);
      } else if constexpr (now.gives_gradient) {
        if constexpr (now.kind == program_node_kind::move) {
          using row = typename Code::node::work;
          values_.template move<direction::backward, row::gradient_from, row::gradient_to, T>(
              now.number, at);
        } else {
          values_.backward_sum(plan().nodes[now.number], at);
        }
      }
      if constexpr (are_awaited<direction::backward, typename Code::node, epilogue>)
        end_node<direction::backward, typename Code::node, epilogue>(at);
    }
    using shown = typename Code::backward_epilogue;
    if constexpr (now.gives_gradient &&
                  (!is_node<shown> || std::is_same_v<typename shown::work, node_sum>))
      if (at.pass->watch != nullptr) show(now.number, direction::backward, at, false);
    using postponed = typename Code::postponed;
    if constexpr (is_node<postponed>) {
      constexpr planned_waits planned{now.item, direction::backward};
      constexpr int parameters = waits::parameters_of(postponed::facts.number);
      if constexpr (postponed::facts.parameters.waits) synchronizer_.keep(planned, parameters);
      backward_parameters<postponed>(at);
      if constexpr (postponed::facts.parameters.is_awaited)
        synchronizer_.record(planned, parameters);
    }
  }
  /// Computes the gradients of a leaf's parameters, or stashes its output's gradient for them.
  template <class Node>
  PLAIT_IN_LOOPS void backward_parameters(frame_type const& at) {
    if constexpr (Node::facts.is_trained) {
      using operations_type = typename invoker<Node>::operations_type;
      auto ops = operations_of<operations_type>(Node::facts, direction::backward, at);
      add_gradients<Node>(ops, memory_.place_of_leaf(Node::facts, at),
                          output_gradient(Node::facts, at), at);
    }
  }
  /// Calls `prepare` of a layer that has this function, with the views of its forward.
  template <class Code>
  void prepare_step(frame_type const& at) {
    constexpr auto& now = Code::facts;
    if constexpr (now.has_prepare) {
      using layer = invoker<typename Code::node>;
      layer::prepare(operations_of<typename layer::operations_type>(now, direction::forward, at),
                     memory_.place_of_leaf(now, at));
    }
  }

  template <class Node>
  static constexpr bool is_node = !std::is_same_v<Node, no_node>;
  template <direction Way>
  PLAIT_IN_LOOPS auto mark_of(node_facts const& now, frame_type const& at) {
    return rank_.device().mark(names_of(Way, at)[std::size_t(now.leaf)].c_str());
  }

  /// True for a loss whose forward may do nothing because its backward computes the loss and the
  /// gradient at once. Then the device reads the logits once instead of twice. In the plan's lists,
  /// both the forward and the backward write the sum of the loss.
  template <class Code>
  static constexpr bool may_wait_for_gradient = [] {
    constexpr auto& now = Code::facts;
    if constexpr (now.kind == program_node_kind::leaf && now.is_loss && now.gives_gradient)
      return Code::node::work::info.has_forward_backward &&
             Code::node::work::form.inner_count == 0 && device_type::parts.joins_loss &&
             !is_node<typename Code::backward_epilogue>;
    else return false;
  }();
  /// Returns true if the backward computes the loss: in training, unless a watch checks the layers.
  /// A recorder changes nothing in a step.
  [[nodiscard]] bool waits_for_gradient(frame_type const& at) {
    auto const* const watch = at.pass->watch;
    return at.pass->context.training && (watch == nullptr || watch->recorder != nullptr) &&
           queue().loss_with_gradient();
  }

  /// Runs the backward of a leaf: computes the gradients of its parameters, the gradient of its
  /// input, or both in one call, as far as the node needs these gradients.
  template <class Code>
  PLAIT_IN_LOOPS void backward_leaf(frame_type const& at) {
    constexpr auto& now = Code::facts;
    constexpr bool is_joint = !traits.splits_backward && now.is_trained && now.gives_gradient &&
                              Code::node::work::info.joins_backward && !Code::is_postponed;
    constexpr bool adds = now.is_trained && !is_joint && !Code::is_postponed;
    if constexpr (is_joint || adds || now.gives_gradient) {
      using layer = invoker<typename Code::node>;
      auto ops = operations_of<typename layer::operations_type>(now, direction::backward, at);
      auto const place = memory_.place_of_leaf(now, at);
      std::byte* const dy = output_gradient(now, at);
      if constexpr (adds) add_gradients<typename Code::node>(ops, place, dy, at);
      if constexpr (now.gives_gradient) {
        [[maybe_unused]] auto const mark = mark_of<direction::backward>(now, at);
        gradient_place of{dy, memory_.gradient_data(now.in, at)};
        if constexpr (now.more_count > 0)
          for (int i = 0; i < now.more_count; ++i)
            of.more[std::size_t(i)] = memory_.gradient_data(plan().nodes[now.number].more[i], at);
        using epilogue = typename Code::backward_epilogue;
        using formed = typename epilogue::work;
        if constexpr (is_joint) begin_sums(ops, now.leaf, at);
        if constexpr (std::is_same_v<formed, node_sum>) {
          static_assert(is_joint);
          constexpr int number = epilogue::facts.number;
          of.added = memory_.gradient_data(plan().nodes[number].skip, at);
          layer::template backward_input<formed, true>(
              ops, place, of, nullptr, memory_.gradient_data(epilogue::facts.in, at));
        } else if constexpr (is_node<epilogue>) {
          constexpr auto& then = epilogue::facts;
          auto const of_epilogue = memory_.place_of_leaf(then, at);
          layer::template backward_input<formed, is_joint>(ops, place, of, &of_epilogue,
                                                           memory_.gradient_data(then.in, at));
        } else {
          bool makes_loss = false;
          if constexpr (may_wait_for_gradient<Code>) makes_loss = waits_for_gradient(at);
          if (!makes_loss)
            layer::template backward_input<formed, is_joint>(ops, place, of, nullptr, nullptr);
          else if constexpr (may_wait_for_gradient<Code>) layer::forward_backward(ops, place, of);
        }
        if constexpr (now.has_scratch) values_.forget_scratch(now.leaf);
      }
    }
  }
  template <class Node>
  PLAIT_IN_LOOPS void add_gradients(auto& ops, leaf_place<setting> const& place, std::byte* dy,
                                    frame_type const& at) {
    constexpr auto& now = Node::facts;
    if constexpr (traits.splits_backward)
      if (at.pass->part == backward_part::input) {
        if constexpr (!now.is_loss)
          queue().copy_bytes(dy, stash_of(now.leaf, at),
                             memory_.block(now.out.number).count() * sizeof(T));
        return;
      }
    [[maybe_unused]] auto const mark = mark_of<direction::backward>(now, at);
    begin_sums(ops, now.leaf, at);
    invoker<Node>::template backward_parameters<now.has_parameters>(ops, place, dy);
    if constexpr (now.has_scratch) values_.forget_scratch(now.leaf);
  }

  /// Clears the gradients of a leaf's parameters before the first addition to them.
  PLAIT_IN_LOOPS void begin_sums(auto& ops, int leaf, frame_type const& at) {
    if (at.pass->begins_gradients || traits.sums_blocks)
      ops.begin_by_product(begin_gradients_of(leaf, at));
  }

  /// Returns the address at which a split backward keeps the gradient of a leaf's output.
  [[nodiscard]] std::byte* stash_of(int leaf, frame_type const& at) const {
    return at.gradient_stash + memory_.layout().gradient_stash_offset[std::size_t(leaf)];
  }

  static planned_waits forward_waits(int item, frame_type const& at) {
    return {item, direction::forward, at.recompute_bit};
  }

  /// Makes a node and its epilogue wait for the nodes that they need.
  template <direction Way, class Node, class Epilogue>
  PLAIT_IN_LOOPS void begin_node(frame_type const& at) {
    planned_waits const planned{Node::facts.item, Way, at.recompute_bit};
    if constexpr (waits_of<Way, Node>.waits) synchronizer_.keep(planned, Node::facts.number);
    if constexpr (waits_of<Way, Epilogue>.waits)
      synchronizer_.keep(planned, Epilogue::facts.number);
  }
  template <direction Way, class Node, class Epilogue>
  PLAIT_IN_LOOPS void end_node(frame_type const& at) {
    planned_waits const planned{Node::facts.item, Way, at.recompute_bit};
    if constexpr (waits_of<Way, Epilogue>.is_awaited)
      synchronizer_.record(planned, Epilogue::facts.number);
    if constexpr (waits_of<Way, Node>.is_awaited) synchronizer_.record(planned, Node::facts.number);
  }
  template <direction Way, class Node>
  static constexpr node_waits waits_of = [] {
    if constexpr (!is_node<Node>) return node_waits{};
    else return Way == direction::forward ? Node::facts.forward : Node::facts.backward;
  }();
  // Tested before the calls: otherwise compilers make a function for each node without waits.
  template <direction Way, class... Nodes>
  static constexpr bool are_awaiting = (waits_of<Way, Nodes>.waits || ...);
  template <direction Way, class... Nodes>
  static constexpr bool are_awaited = (waits_of<Way, Nodes>.is_awaited || ...);
  [[nodiscard]] auto queue() { return rank_.device().on(stream::compute); }

  /// Returns the gradient of a leaf's output; for a loss, returns null.
  [[nodiscard]] std::byte* output_gradient(node_facts const& now, frame_type const& at) const {
    if (now.is_loss) return nullptr;
    if constexpr (traits.splits_backward)
      if (at.pass->part == backward_part::parameters) return stash_of(now.leaf, at);
    return memory_.gradient_data(now.out, at);
  }
  [[nodiscard]] bool runs(int node, frame_type const& at) const {
    return at.recompute_bit == 0 || (recompute_.nodes[std::size_t(node)] & at.recompute_bit) != 0;
  }
  /// Returns the names of the leaves' bodies for profilers.
  [[nodiscard]] auto const& names_of(direction way, [[maybe_unused]] frame_type const& at) const {
    if constexpr (traits.has_recompute)
      if (at.recompute_bit != 0) return recompute_.names;
    return way == direction::forward ? forward_names_ : backward_names_;
  }
  [[gnu::cold]] void prepare_recompute() {
    for (std::size_t i = 0; i < recompute_.names.size(); ++i)
      recompute_.names[i] = concat({forward_names_[i], " again"});
    std::copy(plan().recomputed.begin(), plan().recomputed.end(), recompute_.nodes.begin());
  }
  /// Shows the result of a node to the watch of the pass. `is_mapped`: the node has also computed
  /// the element-wise layer after it, whose output may have replaced the result. If the epilogue is
  /// the sum of a residual, the result is this sum.
  [[gnu::cold]] void show(int node, direction way, frame_type const& at, bool is_mapped) {
    auto& watch = *at.pass->watch;
    if (watch.found || at.recompute_bit != 0 || (is_mapped && watch.recorder == nullptr)) return;
    auto const& context = at.pass->context;
    auto const& now = plan().nodes[node];
    recorded_value const which{&plan(), &now,    watch.value_after(plan(), now, way, at.unit),
                               way,     at.unit, &context};
    watch.microbatch = context.microbatch;
    watch.site = static_cast<std::uint32_t>(at.unit * leaves + now.leaf);
    watch.leaf = now.leaf;
    watch.copy = context.copy;
    if (watch.looks_at_term(plan(), now)) watch.look(rank_.device(), context.loss.data, 1, which);
    if (which.value < 0 || watch.found) return;
    auto* const data = way == direction::forward ? memory_.value_data(which.value, at)
                                                 : memory_.gradient_data(which.value, at);
    watch.look(rank_.device(), reinterpret_cast<T const*>(data), memory_.block(which.value).count(),
               which);
  }

  /// Clears the gradients of a layer's parameters, except the gradient that a product overwrites,
  /// and returns the address of this gradient. Each use of a parameter has an accumulator of its
  /// own, so the plan knows the first operation on it.
  [[gnu::noinline]] void const* begin_gradients_of(int leaf, frame_type const& at) {
    auto const& layer = plan().leaves[leaf];
    int const first = plan().first_entry[leaf];
    auto const* const places = memory_.place_of(first, at.unit);
    auto* const gradients = at.pass->buffers.gradients;
    bool const begins = at.pass->begins_gradients;
    void const* product = nullptr;
    for (int i = 0; i < layer.parameters.size(); ++i) {
      auto const& entry = plan().entries[first + i];
      // Only gradients that are summed in blocks begin again with each microbatch.
      if (!begins && (entry.owner >= 0 || entry.reduced_over_tensor())) continue;
      auto* const gradient = gradients + places[i].gradient;
      if (i == layer.overwrites_gradient) product = gradient;
      else queue().fill(typename setting::sum{0}, gradient, entry.local_rows * entry.local_columns);
    }
    return product;
  }

  /// Makes the argument `ops` of a leaf's body. With several tensor ranks it calls a function that
  /// is not inlined, which costs less compile time.
  template <class Operations>
  PLAIT_IN_LOOPS Operations operations_of(node_facts const& now, direction way,
                                          frame_type const& at) {
    if constexpr (setting::tensor_ranks > 1)
      return operations_of_leaf<Operations>(now.leaf, now.in.number, way, at);
    else return make_operations<Operations>(now.leaf, now.in.number, way, at);
  }
  template <class Operations>
  [[gnu::noinline]] Operations operations_of_leaf(int leaf, int in, direction way,
                                                  frame_type const& at) {
    return make_operations<Operations>(leaf, in, way, at);
  }
  template <class Operations>
  PLAIT_IN_LOOPS Operations make_operations(int leaf, int in, direction way, frame_type const& at) {
    auto& context = at.pass->context;
    context.site = static_cast<std::uint32_t>(at.unit * leaves + leaf);
    if constexpr (traits.reads_buffers)
      context.reads_buffers = !context.training || plan().leaves[leaf].is_frozen;
    if constexpr (traits.has_recompute) context.recomputes = at.recompute_bit != 0;
    if constexpr (std::is_same_v<Operations, term_operations<Rank>>) {
      auto const& loss = at.pass->loss;
      context.loss = loss;
      if constexpr (traits.has_recompute)
        if (at.recompute_bit != 0) context.loss.data = nullptr;  // the forward added the term
      if (loss.data != nullptr) {
        context.loss.data += plan().leaves[leaf].term;
        context.loss.scale += plan().leaves[leaf].term;
      }
      if (plan().values[in].at == shard<dim::sequence>)
        context.loss.first_row =
            static_cast<std::size_t>(memory_.form_block()) * memory_.block(in).rows;
    }
    return {rank_, context, leaf, names_of(way, at)[std::size_t(leaf)].c_str()};
  }

  /// Sets the address at which a unit's recomputed values are stored.
  void set_working(frame_type& frame) const {
    frame.stash_end = places_[std::size_t(frame.unit)].stash_end;
    frame.working = memory_.at(arena().working_offset) - frame.stash_end;
  }
  /// Discards the contents of the working record, the buffer of recomputed values.
  void discard_working(int item, int unit) {
    auto const bytes = memory_.layout().activation_stash_bytes[std::size_t(item)] -
                       places_[std::size_t(unit)].stash_end;
    if (bytes > 0) queue().discard(memory_.at(arena().working_offset), bytes);
  }
  [[nodiscard]] std::byte* activations_of(int unit, pass_type const& pass) const {
    return pass.stash + places_[std::size_t(unit)].activations;
  }

  Rank& rank_;
  memory_type memory_;
  synchronizer_type synchronizer_;
  value_nodes<Setting, Rank> values_{rank_, memory_};
  lean_vector<unit_place> places_{};  // a place for each unit of the model
  std::array<std::string, std::size_t(leaves)> forward_names_, backward_names_;
  int edge_ = 0;               // index of the edge buffer to which the next gradient is written
  std::byte* made_ = nullptr;  // gradient that the last unit has computed

  // The recomputed nodes, and the names of their bodies for profilers.
  struct recomputed_names {
    std::array<unsigned char, program<leaves>::most_nodes> nodes{};
    std::array<std::string, std::size_t(leaves)> names{};
  };
  struct no_recompute {};
  [[no_unique_address]] std::conditional_t<traits.has_recompute, recomputed_names, no_recompute>
      recompute_{};
};

}  // namespace plait::execution
