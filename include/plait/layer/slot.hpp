// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "plait/core/name.hpp"

namespace plait {

/// Saved: the layer's input is kept until its backward has run.
struct input_slot {};
/// Saved: the layer's output is kept until its backward has run.
struct output_slot {};

/// Whether a slot has fewer values per row on a rank that holds a shard of the features.
enum class follows : int { rows, features };

/// A tensor of the layer's own: `PerRow` values for each row and `Fixed` values for all rows.
/// Its type is also its key: `saved[statistics{}]`.
template <name Label, std::size_t PerRow, follows Shape = follows::rows, std::size_t Fixed = 0>
struct slot {
  static constexpr name label = Label;
};

/// What a layer's backward needs of its forward; one set for each microbatch in flight.
template <class... Slots>
struct saved {};

/// What one call of a layer's body needs for itself alone.
template <class... Slots>
struct scratch {};

/// A slot as a value.
struct slot_info {
  name label{};
  std::size_t per_row = 0;
  bool follows_features = false;
  std::size_t fixed = 0;
};

struct slots_info {
  static constexpr int most_slots = 4;
  bool keeps_input = false;
  bool keeps_output = false;
  std::array<slot_info, most_slots> own{};
  int own_count = 0;
};

namespace detail {

template <class Slot>
struct read_slot {
  static_assert(!std::is_same_v<Slot, Slot>,
                "saved<...> or scratch<...>: an entry is neither input_slot, output_slot nor a "
                "slot<Label, PerRow>; parameters need not be listed");
  static constexpr void apply(slots_info&) {}
};

template <>
struct read_slot<input_slot> {
  static constexpr void apply(slots_info& info) { info.keeps_input = true; }
};
template <>
struct read_slot<output_slot> {
  static constexpr void apply(slots_info& info) { info.keeps_output = true; }
};
template <name Label, std::size_t PerRow, follows Shape, std::size_t Fixed>
struct read_slot<slot<Label, PerRow, Shape, Fixed>> {
  static constexpr void apply(slots_info& info) {
    info.own[static_cast<std::size_t>(info.own_count++)] = {Label, PerRow,
                                                            Shape == follows::features, Fixed};
  }
};

template <template <class...> class List, class... Slots>
constexpr slots_info read_slots(List<Slots...>) {
  constexpr int own =
      ((std::is_same_v<Slots, input_slot> || std::is_same_v<Slots, output_slot> ? 0 : 1) + ... + 0);
  static_assert(own <= slots_info::most_slots,
                "saved<...> or scratch<...>: a layer may have four slots of its own in each; make "
                "one wider slot of several");
  slots_info info;
  (read_slot<Slots>::apply(info), ...);
  return info;
}

/// The index of `Slot` among the own slots of a list, -1 if it is not there.
template <class List, class Slot>
inline constexpr int own_slot_index = -1;

template <template <class...> class List, class... Slots, class Slot>
inline constexpr int own_slot_index<List<Slots...>, Slot> = [] {
  [[maybe_unused]] int index = 0;
  int found = -1;
  [[maybe_unused]] auto const visit = [&](bool is_it, bool is_own) {
    if (is_it) found = index;
    if (is_own) ++index;
  };
  (visit(std::is_same_v<Slots, Slot>,
         !std::is_same_v<Slots, input_slot> && !std::is_same_v<Slots, output_slot>),
   ...);
  return found;
}();

}  // namespace detail

}  // namespace plait
