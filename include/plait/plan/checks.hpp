// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plait/core/name.hpp"
#include "plait/core/type_list.hpp"
#include "plait/plan/model/form_planner.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/schedule/proof.hpp"

// Checks that a plan asserts for its model and policies. Numbers and names are template arguments,
// so that compilers print them next to the text. Names are computed only if a check has failed.
//
// A plan asserts constants that call the checks. With -ftemplate-backtrace-limit=1 the message of
// g++ then contains neither the constant nor the plan, whose name is as long as the model.
namespace plait::planning {

/// The name of a leaf in the model. Unlike in leaf_characters, it has no dot at its end.
template <class Model, int Leaf>
struct leaf_name {
  constexpr characters operator()() const {
    auto text = leaf_characters(make_outline<Model>())[std::size_t(Leaf)];
    if (!text.empty()) text.pop_back();
    return text;
  }
};
template <class Model, int Leaf>
struct pin_of_leaf {
  constexpr name operator()() const { return make_outline<Model>().pins[Leaf]; }
};
template <class Layer, std::size_t Form>
struct label_of_form {
  constexpr name operator()() const { return leaf_of<Layer>.forms[Form].label; }
};
template <class Model, int Tie>
struct owner_of_tie {
  constexpr name operator()() const { return make_outline<Model>().ties[Tie].owner; }
};
/// The full name of a parameter. `Number`: the number of the parameter, counted over all leaves.
template <class Model, int Number>
struct parameter_name {
  constexpr characters operator()() const {
    auto const tree = make_outline<Model>();
    int leaf = 0, index = Number;
    while (index >= tree.leaves[leaf].parameters.size())
      index -= tree.leaves[leaf++].parameters.size();
    return joined(leaf_characters(tree)[std::size_t(leaf)],
                  tree.leaves[leaf].parameters[index].label);
  }
};

// Compilers print these types: their names explain the numbers in of_length<12> and on_ranks<4>.
template <std::size_t Length>
struct of_length;
template <int Ranks>
struct on_ranks;

// A check that fails asserts one of these constants, which are all false. Compilers print the name
// of the constant next to the text.
template <printed_text LayerName, class Layer, class Length, class Ranks>
inline constexpr bool has_form_that_divides = false;
template <printed_text LayerName, printed_text Label, class Labels>
inline constexpr bool is_label_of_form = false;
template <printed_text LayerName, printed_text Owner, class Names>
inline constexpr bool can_be_tied = false;
template <printed_text LayerName, class Layer>
inline constexpr bool has_body = false;
template <printed_text Pattern, class Names>
inline constexpr bool can_be_frozen = false;
template <printed_text Name>
inline constexpr bool is_name_of_one_parameter = false;

template <class Model, int Leaf>
using leaf_type = type_at<leaves_of<Model>, std::size_t(Leaf)>;

template <printed_text LayerName, printed_text Label, class Labels>
consteval void report_unknown_pin() {
  static_assert(is_label_of_form<LayerName, Label, Labels>,
                "use_form<Label, Layer>: Layer has no form with this label; write a label from the "
                "forms<...> of Layer");
}

template <planning_error Error, printed_text LayerName, class Layer, std::size_t Length, int Ranks>
consteval void report_indivisible() {
  static_assert(
      Error != planning_error::nothing_divides ||
          has_form_that_divides<LayerName, Layer, of_length<Length>, on_ranks<Ranks>>,
      "tensor_parallel<Ranks>: Layer has no form whose Length (features, vocabulary or heads) is a "
      "multiple of Ranks; choose Ranks so that it divides Length, pad the layer, or write "
      "use_form<\"whole\", Layer>, with which every rank does all of the layer's work");
  static_assert(Error != planning_error::form_not_divisible ||
                    has_form_that_divides<LayerName, Layer, of_length<Length>, on_ranks<Ranks>>,
                "use_form<Label, Layer>: the Length that this form cuts is not a multiple of "
                "Ranks; pin another form, or choose Ranks so that it divides Length");
  static_assert(
      Error != planning_error::nothing_multiple ||
          has_form_that_divides<LayerName, Layer, of_length<Length>, on_ranks<Ranks>>,
      "tensor_parallel<Ranks>: Ranks fits no form of Layer. One form needs a Ranks that divides "
      "Length (such as the number of key-value heads); another form needs a multiple of Length "
      "that divides a second length (such as the number of query heads). Choose such a Ranks, or "
      "write use_form<\"whole\", Layer>, with which every rank does all of the layer's work");
}

template <class Layer, class Forms = std::make_index_sequence<leaf_of<Layer>.forms.size()>>
struct printed_labels;
template <class Layer, std::size_t... Form>
struct printed_labels<Layer, std::index_sequence<Form...>> {
  using type = printed_texts<printed<label_of_form<Layer, Form>{}>...>;
};

template <planning_error Error>
consteval void report_no_chain() {
  static_assert(
      Error != planning_error::no_chain,
      "tensor_parallel<Ranks>: no chain of forms leads through the model. The body of a repeat "
      "must end in the placement in which it begins, and the neighbours of a form with only<k> "
      "must be invariant, because inside a model nothing is reduced or gathered to one rank, or "
      "scattered from one rank; unpin a form, or add a `whole` form to your layer");
}

template <planning_error Error, class Model, int Leaf, std::size_t Length, int Ranks>
inline constexpr bool has_forms = [] {
  if constexpr (Error == planning_error::unknown_form)
    report_unknown_pin<printed<leaf_name<Model, Leaf>{}>, printed<pin_of_leaf<Model, Leaf>{}>,
                       typename printed_labels<leaf_type<Model, Leaf>>::type>();
  if constexpr (Error == planning_error::nothing_divides ||
                Error == planning_error::form_not_divisible ||
                Error == planning_error::nothing_multiple)
    report_indivisible<Error, printed<leaf_name<Model, Leaf>{}>, leaf_type<Model, Leaf>, Length,
                       Ranks>();
  report_no_chain<Error>();
  return true;
}();

/// The functions of a layer that may be missing.
enum class missing_kind : int { none, forward, backward_input, backward_parameters, count };

struct missing_body {
  missing_kind what = missing_kind::none;
  int leaf = 0;
};

/// Returns the first function that a node of the program would call and that its layer lacks.
constexpr missing_body find_missing_body(auto const& code, auto const& leaves,
                                         auto const& needs_gradient) {
  for (auto const& now : code.nodes) {
    if (now.kind != program_node_kind::leaf) continue;
    auto const& leaf = leaves[now.leaf];
    bool const gives_gradient = needs_gradient[std::size_t(now.in)];
    if (!leaf.has_forward) return {missing_kind::forward, now.leaf};
    if (gives_gradient && !leaf.has_backward_input && !leaf.has_backward)
      return {missing_kind::backward_input, now.leaf};
    if (leaf.is_trained() && !leaf.has_backward_parameters && !leaf.has_backward)
      return {missing_kind::backward_parameters, now.leaf};
    if (leaf.is_loss && !leaf.has_count) return {missing_kind::count, now.leaf};
  }
  return {};
}

template <missing_kind Error, printed_text LayerName, class Layer>
consteval void report_missing_body() {
  static_assert(Error != missing_kind::forward || has_body<LayerName, Layer>,
                "this layer has no forward; write `static void forward(auto& ops, auto l)`, which "
                "computes l.y from l.x");
  static_assert(Error != missing_kind::backward_input || has_body<LayerName, Layer>,
                "this layer has no backward_input; write `static void backward_input(auto& ops, "
                "auto l)`, which writes the gradient of its input to l.dx");
  static_assert(Error != missing_kind::backward_parameters || has_body<LayerName, Layer>,
                "this layer has parameters but no backward_parameters; write `static void "
                "backward_parameters(auto& ops, auto l)`, which adds their gradients to l.dp");
  static_assert(
      Error != missing_kind::count || has_body<LayerName, Layer>,
      "this loss has no function `count`; write `static std::int64_t count(auto targets)`, which "
      "returns how many of the targets contribute to the loss. `targets` is a std::span of "
      "std::int32_t const for plait::tokens and integers, and of float or double const for reals");
}

template <class Model, missing_kind Error, int Leaf>
inline constexpr bool has_bodies = [] {
  if constexpr (Error != missing_kind::none)
    report_missing_body<Error, printed<leaf_name<Model, Leaf>{}>, leaf_type<Model, Leaf>>();
  return true;
}();

constexpr int count_terms(auto const& tree) {
  int terms = 0;
  for (auto const& leaf : tree.leaves) terms += leaf.has_term();
  return terms;
}

/// The greatest number of layers for which compilers evaluate a plan without an additional flag;
/// the layers of a repeat count once.
#if !defined(PLAIT_MOST_LAYERS)
#define PLAIT_MOST_LAYERS 512
#endif
inline constexpr int most_layers = PLAIT_MOST_LAYERS;

/// Checks the number of layers before anything else is computed from the model. Otherwise a
/// compiler that reaches a limit of its own would only name the line of plait at which it stopped.
template <int Layers, int Most>
consteval void check_layer_count() {
  static_assert(Layers <= Most,
                "this model has more layers than compilers can plan without flags (the layers of a "
                "repeat count once); if many layers are alike, write a repeat. Otherwise compile "
                "with -D PLAIT_MOST_LAYERS=<layers> and, for clang, -fconstexpr-steps=100000000 "
                "or, for g++, -fconstexpr-ops-limit=1000000000 -fconstexpr-loop-limit=10000000");
}
template <int Layers, int Most>
inline constexpr bool has_few_layers = (check_layer_count<Layers, Most>(), true);

template <int Terms>
consteval void check_term_count() {
  static_assert(Terms <= most_loss_terms,
                "the loss of this model has more than eight terms (each loss of a sum_of and each "
                "layer with adds_to_loss is a term, and the copies within a repeat are one term); "
                "combine several terms in one layer");
}
template <int Terms>
inline constexpr bool has_few_terms = (check_term_count<Terms>(), true);

template <bool IsFull>
consteval void check_room() {
  static_assert(
      !IsFull,
      "residual<residual<...>>: this model nests more residuals directly in one another than a "
      "plan can store; leave some of them out, or write a layer that adds its input itself");
}
template <bool IsFull>
inline constexpr bool has_room = (check_room<IsFull>(), true);

template <int Stages, int Chunks, int Units>
consteval void check_stage_count() {
  static_assert(Stages <= Units,
                "pipeline<Stages>: the model has only Units layers (the loss and copies within a "
                "repeat included), fewer than Stages; use fewer stages");
  static_assert(Stages > Units || Stages * Chunks <= Units,
                "pipeline<Stages, Schedule>: the model has only Units layers (the loss and copies "
                "within a repeat included), fewer than Stages stages of Chunks chunks each; use a "
                "schedule with fewer chunks, or fewer stages");
}
template <int Stages, int Chunks, int Units>
inline constexpr bool has_layers_for = (check_stage_count<Stages, Chunks, Units>(), true);

template <int Slices, int DataRanks, int SlicedAxes>
consteval void check_slices() {
  static_assert(Slices == 0 || DataRanks <= Slices,
                "reproducible<Slices>: there are more data ranks than Slices; each data rank needs "
                "at least one slice, so write more slices or fewer data ranks");
  static_assert(SlicedAxes <= 1,
                "reproducible<Slices>: the ranks along several axes have samples of their own; "
                "write data_parallel<N> alone, without a policy on the replica axis");
}
template <int Slices, int DataRanks, int SlicedAxes>
inline constexpr bool has_slices_for = (check_slices<Slices, DataRanks, SlicedAxes>(), true);

template <int Shares, int DataRanks, int Slices, bool SumsMicrobatches, bool SumsOverSamples>
consteval void check_shares() {
  static_assert(
      Shares == 0 || Shares == DataRanks,
      "data_parallel<Ranks, shares<...>>: the number of shares is not the number of data ranks of "
      "the whole mesh, because another policy is on the replica axis; leave that policy out, or "
      "write data_parallel<Ranks, within<Neighbours>, shares<...>> with Ranks shares");
  static_assert(Shares == 0 || Slices == 0,
                "data_parallel<Ranks, shares<...>> with reproducible<Slices>: reproducible divides "
                "its slices among the data ranks itself; leave shares or reproducible out");
  static_assert(Shares == 0 || !SumsMicrobatches,
                "data_parallel<Ranks, shares<...>, zero<2 or 3>>: these levels of zero sum "
                "gradients once for each microbatch, but ranks have different numbers of "
                "microbatches, so a rank with fewer would not take part in all of these sums; "
                "write zero<1>, or leave shares out");
  static_assert(Shares == 0 || !SumsOverSamples,
                "data_parallel<Ranks, shares<...>>: a layer sums over all samples of a microbatch, "
                "but ranks have different numbers of microbatches, so a rank with fewer would not "
                "take part in all of these sums. Use a layer that sums over groups of samples "
                "only, such as batch_norm<Image, {.group = N}>, or leave shares out");
}
template <int Shares, int DataRanks, int Slices, bool SumsMicrobatches, bool SumsOverSamples>
inline constexpr bool has_share_for =
    (check_shares<Shares, DataRanks, Slices, SumsMicrobatches, SumsOverSamples>(), true);

/// `Steps`: the steps between common updates; `Axes`: the axes of replicas; `IsExact`: true if
/// parameters and gradients have the same type, which is not narrower than float.
template <int Steps, int Axes, int Slices, bool Delays, bool SumsOverSamples, bool HasBuffers,
          bool IsExact>
consteval void check_replicas() {
  static_assert(Axes <= 1,
                "hybrid<Policies...>: ranks are replicas along two axes, but a job has one set of "
                "common parameters; write local_steps in only one policy");
  static_assert(Steps == 0 || Slices == 0,
                "reproducible<Slices> with local_steps<H>: reproducible gives the same bits on "
                "every number of ranks, but with local_steps the result depends on the number of "
                "replicas; leave one of the two out");
  static_assert(Steps == 0 || !Delays,
                "hybrid<Policies...>: local_steps<H> with delayed<1>: the last gradients of a "
                "replica would change its parameters only after the common update; leave one of "
                "the two out");
  static_assert(Steps == 0 || HasBuffers || !SumsOverSamples,
                "data_parallel<..., local_steps<H>>: a layer sums over all samples of a "
                "microbatch, but replicas exchange nothing within a step. Use a layer that sums "
                "over groups of samples only, or leave local_steps out");
  static_assert(Steps == 0 || !HasBuffers,
                "data_parallel<..., local_steps<H>>: a layer has buffers, such as the running mean "
                "of nn::batch_norm, which would differ between replicas; use a layer without "
                "buffers, such as nn::layer_norm, or leave local_steps out");
  static_assert(Steps == 0 || IsExact,
                "data_parallel<..., local_steps<H>>: the common update needs parameters and "
                "gradients of one type, float or double, because bfloat16 would round small "
                "differences between replicas to zero; write precision<bfloat16, float>, which "
                "keeps parameters in float, or leave local_steps out");
}
template <int Steps, int Axes, int Slices, bool Delays, bool SumsOverSamples, bool HasBuffers,
          bool IsExact>
inline constexpr bool has_one_common_update =
    (check_replicas<Steps, Axes, Slices, Delays, SumsOverSamples, HasBuffers, IsExact>(), true);

/// Fails to compile if the gradients of a job are delayed or rounded, although a part of its state
/// would not stay exact. `IsWide`: parameters are at least as wide as gradients.
template <bool Delays, bool Rounds, bool IsWide, bool HasBuffers>
consteval void check_state() {
  static_assert(
      !Delays || IsWide,
      "data_parallel<..., delayed<1>>: the job keeps its parameters in bfloat16. A resumed job "
      "reads a checkpoint in the type of the parameters, so it would round the pending gradients; "
      "write precision<bfloat16, float>, which keeps parameters in float");
  static_assert(!Delays || !HasBuffers,
                "data_parallel<..., delayed<1>>: a layer has buffers, such as the running mean of "
                "nn::batch_norm; their new values are reduced with the gradients and would be a "
                "step late; use a layer without buffers, or leave delayed out");
  static_assert(!Rounds || !HasBuffers,
                "data_parallel<..., compressed<Element>>: a layer has buffers, such as the running "
                "mean of nn::batch_norm; their new values are reduced with the gradients and would "
                "be rounded; use a layer without buffers, or leave compressed out (in a policy of "
                "your own: .sent)");
}
template <bool Delays, bool Rounds, bool IsWide, bool HasBuffers>
inline constexpr bool has_exact_state = (check_state<Delays, Rounds, IsWide, HasBuffers>(), true);

template <std::size_t One, std::size_t Other>
consteval void check_sequences() {
  static_assert(One == 0 || Other == 0 || One == Other,
                "this model has layers for sequences of length One and layers for sequences of "
                "length Other; give all its layers the same sequence length");
}
template <std::size_t One, std::size_t Other>
inline constexpr bool is_one_sequence = (check_sequences<One, Other>(), true);

template <std::size_t Sequence, int Ranks>
consteval void check_sequence_shards() {
  static_assert(Sequence != 1,
                "tensor_parallel<Ranks, sequence::sharded>: no layer of this model has a sequence, "
                "so there are no positions to divide; write tensor_parallel<Ranks>");
  static_assert(Sequence == 1 || Sequence % static_cast<std::size_t>(Ranks) == 0,
                "tensor_parallel<Ranks, sequence::sharded>: the Sequence length is not a multiple "
                "of Ranks; use sequence::unsharded or another Ranks");
}
template <std::size_t Sequence, int Ranks>
inline constexpr bool divides_sequence = (check_sequence_shards<Sequence, Ranks>(), true);

template <class Schedule, int Stages>
consteval void check_schedule() {
  if constexpr (Stages > 1 && !is_proved_by_tests<Schedule>)
    require_proven_up_to<Schedule, Stages, 2 * Stages>();
}
template <class Schedule, int Stages>
inline constexpr bool runs_stages = (check_schedule<Schedule, Stages>(), true);

constexpr int count_parameters(auto const& tree, int first_leaf, int end_leaf) {
  int count = 0;
  for (int i = first_leaf; i < end_leaf; ++i) count += tree.leaves[i].parameters.size();
  return count;
}

/// The names of parameters as template arguments. `Name`: parameter_name or name_in_frozen.
template <template <class, int> class Name, class Model, class Numbers>
struct printed_names;
template <template <class, int> class Name, class Model, int... Number>
struct printed_names<Name, Model, std::integer_sequence<int, Number...>> {
  using type = printed_texts<printed<Name<Model, Number>{}>...>;
};

/// Fails to compile if a tie is wrong. `Names`: the names of all parameters of earlier layers.
template <tie_error Problem, printed_text LayerName, printed_text Owner, class Names>
consteval void report_tie() {
  static_assert(Problem != tie_error::unknown_owner || can_be_tied<LayerName, Owner, Names>,
                "tied<L, Parameter, Owner>: no parameter of an earlier layer is called Owner; "
                "write the owner's full name, as in \"wte.weight\"");
  static_assert(Problem != tie_error::other_shape || can_be_tied<LayerName, Owner, Names>,
                "tied<L, Parameter, Owner>: the owner has another shape than Parameter; give one "
                "of the layers other extents, or a linear layer the other weight_order");
  static_assert(Problem != tie_error::other_placement || can_be_tied<LayerName, Owner, Names>,
                "tied<L, Parameter, Owner>: the two layers keep the parameter in different "
                "placements; pin forms that cut the parameter in the same way");
  static_assert(Problem != tie_error::other_item || can_be_tied<LayerName, Owner, Names>,
                "tied<L, Parameter, Owner>: a parameter inside a repeat cannot be tied; write the "
                "copies out in a sequential");
  static_assert(Problem != tie_error::other_frozen || can_be_tied<LayerName, Owner, Names>,
                "tied<L, Parameter, Owner>: one of the two layers is frozen and the other is "
                "trained; freeze both or neither (frozen<...> with patterns for both)");
}

/// The name of a parameter as patterns of frozen<L, Patterns...> see it, for messages about a wrong
/// frozen layer. `Number`: the number of the parameter among the parameters of L or, if one layer
/// would be frozen only in part, among the parameters of this layer.
template <class Model, int Number>
struct name_in_frozen {
  constexpr characters operator()() const {
    auto const tree = make_outline<Model>();
    auto const& problem = tree.frozen;
    int leaf = first_leaf(problem), index = Number;
    while (index >= tree.leaves[leaf].parameters.size())
      index -= tree.leaves[leaf++].parameters.size();
    auto const names = leaf_characters(tree, problem.node);
    return joined(names[std::size_t(leaf - problem.first_leaf)],
                  tree.leaves[leaf].parameters[index].label);
  }
  static constexpr int first_leaf(frozen_problem const& of) {
    return of.what == frozen_error::part_of_a_layer ? of.leaf : of.first_leaf;
  }
  static constexpr int count() {
    auto const tree = make_outline<Model>();
    bool const one = tree.frozen.what == frozen_error::part_of_a_layer;
    return count_parameters(tree, first_leaf(tree.frozen),
                            one ? tree.frozen.leaf + 1 : tree.frozen.end_leaf);
  }
};
template <class Model>
struct pattern_of_frozen {
  constexpr name operator()() const { return make_outline<Model>().frozen.pattern; }
};

/// Fails to compile if a pattern of frozen<L, Patterns...> is wrong. `Names`: the names of L's
/// parameters, with which patterns are compared.
template <frozen_error Problem, printed_text Pattern, class Names>
consteval void report_frozen() {
  static_assert(Problem != frozen_error::matches_nothing || can_be_frozen<Pattern, Names>,
                "frozen<L, Patterns...>: no parameter of L has a name that matches this pattern; "
                "write names as they would be in files if L were the whole model, with * for any "
                "characters, as in \"h.*.attn.*\"");
  static_assert(Problem != frozen_error::one_copy || can_be_frozen<Pattern, Names>,
                "frozen<L, Patterns...>: this pattern names one copy of a repeat, but all copies "
                "of a repeat are frozen together; write * for the copy's number, or write two "
                "repeats and put one of them in frozen<...>");
  static_assert(Problem != frozen_error::part_of_a_layer || can_be_frozen<Pattern, Names>,
                "frozen<L, Patterns...>: the patterns freeze some parameters of one layer and not "
                "the others; write patterns for all parameters of the layer, or for none");
}

template <class Model, frozen_error Problem>
inline constexpr bool freezes_whole_layers = [] {
  if constexpr (Problem != frozen_error::none) {
    using numbers = std::make_integer_sequence<int, name_in_frozen<Model, 0>::count()>;
    report_frozen<Problem, printed<pattern_of_frozen<Model>{}>,
                  typename printed_names<name_in_frozen, Model, numbers>::type>();
  }
  return true;
}();

template <class Model, tie_error Problem, int Tie>
inline constexpr bool ties_equals = [] {
  if constexpr (Problem != tie_error::none) {
    constexpr int leaf = make_outline<Model>().ties[Tie].leaf;
    using before =
        std::make_integer_sequence<int, count_parameters(make_outline<Model>(), 0, leaf)>;
    report_tie<Problem, printed<leaf_name<Model, leaf>{}>, printed<owner_of_tie<Model, Tie>{}>,
               typename printed_names<parameter_name, Model, before>::type>();
  }
  return true;
}();

constexpr std::size_t other_sequence(auto const& tree, std::size_t length) {
  for (auto const& leaf : tree.leaves)
    if (leaf.sequence != 0 && leaf.sequence != length) return leaf.sequence;
  return 0;
}

constexpr bool ties_stay_on_stages(static_view<item> items, auto const& entries,
                                   auto const& chunk_units, int chunks) {
  for (auto const& entry : entries)
    for (std::size_t first = 0; first < chunk_units.size(); first += std::size_t(chunks)) {
      if (entry.owner < 0) continue;
      static_view<unit_range> const of_stage{chunk_units.data() + first, chunks};
      auto const is_here = [&](int index) { return count_copies(items[index], of_stage) > 0; };
      if (is_here(entry.item) != is_here(entries[entry.owner].item)) return false;
    }
  return true;
}

constexpr bool has_nested_repeat(auto const& tree) {
  int end = 0;  // end of the last repeat or residual that was found
  for (int i = 0; i < tree.nodes.size(); ++i) {
    auto const kind = tree.nodes[i].kind;
    if (kind == node_kind::repeat && i < end) return true;
    if (kind == node_kind::repeat || kind == node_kind::residual)
      end = std::max(end, tree.nodes[i].end);
  }
  return false;
}

/// Returns the number, counted over all leaves, of a parameter that has the same full name as
/// another parameter; -1 if all names differ.
constexpr int find_equal_name(auto const& tree) {
  auto const names = leaf_characters(tree);
  auto const label = [&](int leaf, int index) { return tree.leaves[leaf].parameters[index].label; };
  // Leaves are grouped by the hash of their names, and only names in the same group are compared.
  int const leaves = tree.leaves.size();
  std::vector<int> first(std::size_t(leaves), leaves), next(std::size_t(leaves), leaves);
  for (int leaf = leaves - 1; leaf >= 0; --leaf) {
    if (tree.leaves[leaf].parameters.size() == 0) continue;
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (char const each : names[std::size_t(leaf)])
      hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211u;
    auto& list = first[hash % std::uint64_t(leaves)];
    next[std::size_t(leaf)] = list;
    list = leaf;
  }
  int number = 0;
  for (int a = 0; a < leaves; number += tree.leaves[a++].parameters.size())
    for (int b = next[std::size_t(a)]; b < leaves; b = next[std::size_t(b)]) {
      if (names[std::size_t(a)] != names[std::size_t(b)]) continue;
      for (int i = 0; i < tree.leaves[a].parameters.size(); ++i)
        for (int k = 0; k < tree.leaves[b].parameters.size(); ++k)
          if (label(a, i) == label(b, k)) return number + i;
    }
  return -1;
}

template <printed_text Name>
consteval void report_equal_names() {
  static_assert(is_name_of_one_parameter<Name>,
                "named<Label, L>: two parameters of this model would have the same name; give the "
                "layers with equal labels different labels");
}

template <class Model, int Number>
inline constexpr bool names_differ = [] {
  if constexpr (Number >= 0) report_equal_names<printed<parameter_name<Model, Number>{}>>();
  return true;
}();

constexpr bool cuts_sequence(auto const& code) {
  for (auto const& what : code.values)
    if (is_shard(what.at) && what.at.index == dim::sequence) return true;
  return false;
}

}  // namespace plait::planning
