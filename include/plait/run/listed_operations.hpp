// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>

#include "plait/core/header_only.hpp"
#include "plait/core/name.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/layer/layer.hpp"
#include "plait/layer/typing.hpp"
#include "plait/plan/checks.hpp"
#include "plait/run/summing_operations.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

// The name of this type is printed by compilers in the error for a move that the form does not
// list.
template <class T, placement From, placement To>
struct unlisted_move {};
template <class Layer, printed_text Label, class Form, class Move>
inline constexpr bool is_listed_in_form = false;

template <class Layer, printed_text Label, class Form, class Move>
consteval void report_unlisted_move() {
  static_assert(
      is_listed_in_form<Layer, Label, Form, Move>,
      "ops.move<To>(x): the form of this layer lists no such move with elements of this type, so "
      "the plan does not know the bytes that it sends; list one inner<From, To, Width> in the form "
      "for each move, in order. For a move of backward_input write inner<From, To, Width, "
      "slot_element::accumulate, ext::layer_body::backward_input>");
}

template <class Forms, std::size_t Index>
struct form_at;
template <class... Forms, std::size_t Index>
struct form_at<forms<Forms...>, Index> : std::tuple_element<Index, std::tuple<Forms...>> {};

/// A move between placements that a body has made. If both placements are equal, the body ended
/// without making move `number`.
struct made_move {
  layer_body body{};
  int number = 0;  ///< index among the moves of its body
  placement from{}, to{};
  std::size_t count = 0, rows = 0;
};

/// The moves that a form lists for one body. Each is given by the index of its clause in the form.
struct listed_moves {
  int at[form_info::most_inner]{};
  int count = 0;
};
constexpr listed_moves moves_of(form_info const& form, layer_body body) {
  listed_moves out;
  for (int i = 0; i < form.inner_count - form.sum_count; ++i)
    if (form.inner[std::size_t(i)].body == body) out.at[out.count++] = i;
  return out;
}

/// Throws an error that names both the move that a body made and the move that its form lists.
[[noreturn]] [[gnu::cold]] void fail_move(std::string const& layer, form_info const& form,
                                          made_move const& made);

/// `Operations`, extended by sum_over_samples if the form lists sums over samples for this body.
template <class Operations, class Element, class Formed, layer_body Body>
using with_sums =
    std::conditional_t<Formed::form.sums_over_samples(Body),
                       summing_operations<Operations, Element, Formed, Body>, Operations>;

/// The operations that a forward or a backward_input may call: `Operations`, and the moves between
/// placements that the form lists for this body. The body must make each listed move once, in the
/// order of the list.
///
/// Cost: a move compares three integers. If the form lists no moves, nothing is compared.
template <class Operations, class Element, class Formed, layer_body Body = layer_body::forward>
class listed_operations final : public with_sums<Operations, Element, Formed, Body> {
  static constexpr auto& form = Formed::form;
  using base = with_sums<Operations, Element, Formed, Body>;
  static constexpr listed_moves moves = moves_of(form, Body);

 public:
  explicit listed_operations(Operations const& ops) : base(ops) {}

  /// Brings x to placement `To` in place, by a sum or a maximum over the tensor axis, and returns a
  /// view of the result. If x already has this placement, nothing is sent.
  ///
  /// Errors: plait::error on every rank if the move is not the next move that the form lists.
  template <placement To, class T, placement From, class Memory>
  view<T, To, Memory> move(view<T, From, Memory> x) {
    if constexpr (typing::moves_values<From, To>()) {
      constexpr unsigned listed = find_clauses<T>(From, To);
      check_listed<listed != 0, T, From, To>();
      std::size_t const rows = this->context.batch * this->context.sequence;
      if ((listed >> made_ & 1U) == 0 ||
          x.count() != rows * form.inner[std::size_t(moves.at[made_])].width)
        fail_move(this->shapes_.layer_text(), form, {Body, made_, From, To, x.count(), rows});
      this->template reduce_in_place<To>(x, moves.at[made_++]);
    }
    return {x.data, x.rows, x.columns};
  }

  /// Calls element_operations::map_at. This overload also checks, at compile time, that the form
  /// cuts the features of y only between blocks of columns.
  template <class Function, class T, placement Out, class Memory, class... Views>
  void map_at(Function f, view<T, Out, Memory> y, Views... views) {
    if constexpr (typing::is_columns(Out) && is_shard(form.output) && form.divisible != 0)
      static_assert(typing::sound_blocks<typing::columns_of<Function, Formed::info.output.width> /
                                             form.divisible,
                                         typing::block_of<Function>>);
    Operations::map_at(f, y, views...);
  }

  /// Checks that the body has made all moves and sums over samples that the form lists.
  ///
  /// Errors: plait::error on every rank if a listed move or sum is missing.
  void require_all_moves() const {
    if constexpr (moves.count > 0)
      if (made_ < moves.count) fail_move(this->shapes_.layer_text(), form, {Body, made_});
    if constexpr (form.sums_over_samples(Body)) this->require_all_sums();
  }

 private:
  /// Returns the set of the body's moves that lead from `from` to `to` and have elements T, as
  /// bits: bit i represents move i.
  template <class T>
  static consteval unsigned find_clauses(placement from, placement to) {
    unsigned found = 0;
    for (int i = 0; i < moves.count; ++i) {
      auto const& clause = form.inner[std::size_t(moves.at[i])];
      bool const same_type = clause.element == slot_element::compute
                                 ? std::is_same_v<T, Element>
                                 : std::is_same_v<T, accumulate_t<Element>>;
      if (clause.from == from && clause.to == to && same_type) found |= 1U << i;
    }
    return found;
  }

  template <bool IsListed, class T, placement From, placement To>
  static consteval void check_listed() {
    if constexpr (!IsListed) {
      using layer = typename Formed::layer;
      report_unlisted_move<
          layer, printed<planning::label_of_form<layer, Formed::number>{}>,
          typename form_at<typename detail::forms_of<layer>::type, Formed::number>::type,
          unlisted_move<T, From, To>>();
    }
  }

  int made_ = 0;
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/listed_operations.ipp"
#endif
