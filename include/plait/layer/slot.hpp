// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "plait/core/name.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"

namespace plait {

/// In saved<...>: the layer's input, which is kept until the layer's backward has run.
///
/// Example (tests/reference/names_in_use_test.cpp input_slot):
///     static void backward_parameters(auto& ops, auto l) {  // dw += x^T dy
///       ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]), l.dy,
///                             l.dp[weight{}]);
///       ops.accumulate_column_sums(l.dy, l.dp[bias{}]);
///     }
struct input_slot {};
/// In saved<...>: the layer's output, which is kept until the layer's backward has run.
///
/// Example (tests/reference/names_in_use_test.cpp output_slot):
///     using saved = plait::saved<plait::output_slot>;  // the derivative of exp(x) is y itself
struct output_slot {};

/// Determines if the size of a slot depends on the form of the layer. With `features`, a rank that
/// has a shard of the features has correspondingly fewer values per row. A form may override this
/// by use<Slot, placement>.
enum class follows : int { rows, features };

/// The type of a slot's elements: the type of activations, or the type in which sums are computed
/// (float if activations are bfloat16, else the same type).
enum class slot_element : int { compute, accumulate };

/// Determines if a saved slot may be recomputed. With `as_other_values` the slot is kept or
/// recomputed like other values. With `always` it is kept from the forward to the backward under
/// every `recompute` policy. Use `always` for values that must not be recomputed, such as routes to
/// experts or the statistics of a batch.
enum class slot_kept : int { as_other_values, always };

/// A tensor that belongs to a layer, with `PerRow` values for each row. Its type is also its key:
/// `l.saved[statistics{}]` and `l.scratch[scores{}]` are such tensors.
///
/// `Options`, in any order: a `follows`, a `slot_element` (default: compute), a `slot_kept`, and a
/// number of additional values that do not depend on the number of rows.
///
/// Example (tests/reference/names_in_use_test.cpp slot):
///     using terms =
///         plait::slot<"terms", 1, plait::slot_element::accumulate>;  // one sum for each row
///     using scratch = plait::scratch<terms>;
template <ext::name Label, std::size_t PerRow, auto... Options>
struct slot {
  static constexpr ext::name label = Label;
};

/// The slots that a layer's forward fills for its backward. Each microbatch in flight has its own
/// copy of them.
///
/// Example (tests/reference/names_in_use_test.cpp saved):
///     using saved = plait::saved<plait::input_slot>;  // l.x of the forward is l.saved[...] of
///                                                     // the backward
template <class... Slots>
struct saved {};

/// The slots in which the functions of a layer keep temporary values. Their contents are lost when
/// the function returns.
///
/// Example (tests/reference/names_in_use_test.cpp slot):
///     using terms =
///         plait::slot<"terms", 1, plait::slot_element::accumulate>;  // one sum for each row
///     using scratch = plait::scratch<terms>;
template <class... Slots>
struct scratch {};

}  // namespace plait

namespace plait::ext {

/// A description of a slot, for the planner.
struct slot_info {
  name label{};
  std::size_t per_row = 0;
  bool follows_features = false;
  std::size_t fixed = 0;
  slot_element element = slot_element::compute;
  bool is_always_kept = false;
  int number = 0;  ///< index among all slots of the layer, see slot_number
};

/// A description of a layer's list `saved` or `scratch`, for the planner.
struct slots_info {
  static constexpr int most_slots = 32;
  bool keeps_input = false;
  bool keeps_output = false;
  int first_number = 0;
  static_view<slot_info> own{};  ///< the layer's own slots, in their order
};

}  // namespace plait::ext

namespace plait::detail {

constexpr void read_option(slot_info& info, follows shape) {
  info.follows_features = shape == follows::features;
}
constexpr void read_option(slot_info& info, slot_element element) { info.element = element; }
constexpr void read_option(slot_info& info, slot_kept when) {
  info.is_always_kept = when == slot_kept::always;
}
constexpr void read_option(slot_info& info, std::integral auto fixed) {
  info.fixed = static_cast<std::size_t>(fixed);
}

template <class Slot>
inline constexpr bool is_edge_slot =
    std::is_same_v<Slot, input_slot> || std::is_same_v<Slot, output_slot>;

template <class Slot>
struct read_slot {
  static constexpr bool is_slot = is_edge_slot<Slot>;
  static constexpr void apply(slot_info*&, int&) {}
};
template <name Label, std::size_t PerRow, auto... Options>
struct read_slot<slot<Label, PerRow, Options...>> {
  static constexpr bool is_slot = true;
  static_assert(((std::is_same_v<decltype(Options), follows const> ||
                  std::is_same_v<decltype(Options), slot_element const> ||
                  std::is_same_v<decltype(Options), follows> ||
                  std::is_same_v<decltype(Options), slot_element> ||
                  std::is_same_v<decltype(Options), slot_kept const> ||
                  std::is_same_v<decltype(Options), slot_kept> ||
                  std::integral<decltype(Options)>) &&
                 ...),
                "slot<Label, PerRow, Options...>: an option is neither follows::features, nor "
                "slot_element::accumulate, nor slot_kept::always, nor a number of values for all "
                "rows together");
  static constexpr void apply(slot_info*& next, int& number) {
    slot_info& own = *next++;
    own.label = Label;
    own.per_row = PerRow;
    own.number = number++;
    (read_option(own, Options), ...);
  }
};

template <class List>
inline constexpr int own_slots = 0;
template <template <class...> class List, class... Slots>
inline constexpr int own_slots<List<Slots...>> = ((is_edge_slot<Slots> ? 0 : 1) + ... + 0);
template <class List>
inline constexpr bool are_slots = false;
template <template <class...> class List, class... Slots>
inline constexpr bool are_slots<List<Slots...>> = (read_slot<Slots>::is_slot && ...);

/// The descriptions of the layer's own slots in a list (all except input_slot and output_slot),
/// numbered from `First` on.
template <class List, int First>
inline constexpr int slot_table = 0;
template <template <class...> class List, class... Slots, int First>
  requires(own_slots<List<Slots...>> > 0)
inline constexpr auto slot_table<List<Slots...>, First> = [] {
  std::array<slot_info, std::size_t(own_slots<List<Slots...>>)> out{};
  slot_info* next = out.data();
  int number = First;
  (read_slot<Slots>::apply(next, number), ...);
  return out;
}();

template <int First = 0, template <class...> class List, class... Slots>
constexpr slots_info read_slots(List<Slots...>) {
  slots_info info;
  info.keeps_input = (std::is_same_v<Slots, input_slot> || ...);
  info.keeps_output = (std::is_same_v<Slots, output_slot> || ...);
  info.first_number = First;
  constexpr int count = own_slots<List<Slots...>>;
  if constexpr (count > 0 && count <= slots_info::most_slots) {
    auto& table = slot_table<List<Slots...>, First>;
    info.own = {table.data(), int(table.size())};
  }
  return info;
}

/// Returns the index of a slot among the layer's own slots in a list. `is_it`: true for this slot
/// of the list; `is_of_edge`: true for input_slot and output_slot, which are not counted.
constexpr int own_slot_at(std::initializer_list<bool> is_it,
                          std::initializer_list<bool> is_of_edge) {
  int found = -1, index = 0;
  for (std::size_t i = 0; i < is_it.size(); ++i) {
    if (is_it.begin()[i]) found = index;
    if (!is_of_edge.begin()[i]) ++index;
  }
  return found;
}

/// The index of `Slot` among the layer's own slots in a list; -1 if the list does not contain it.
template <class List, class Slot>
inline constexpr int own_slot_index = -1;

template <template <class...> class List, class... Slots, class Slot>
inline constexpr int own_slot_index<List<Slots...>, Slot> =
    own_slot_at({std::is_same_v<Slots, Slot>...}, {is_edge_slot<Slots>...});

/// The number of `Slot` among all slots of a layer. Saved slots are numbered first, then scratch
/// slots. The number is -1 if `Slot` is in neither list.
template <class Saved, class Scratch, class Slot>
inline constexpr int slot_number =
    own_slot_index<Saved, Slot> >= 0     ? own_slot_index<Saved, Slot>
    : own_slot_index<Scratch, Slot> >= 0 ? slots_info::most_slots + own_slot_index<Scratch, Slot>
                                         : -1;

}  // namespace plait::detail
