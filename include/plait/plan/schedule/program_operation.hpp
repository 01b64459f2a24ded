// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/model/units.hpp"

namespace plait::planning {

/// The kind of an operation of a rank's program. All kinds except rows compute, on stream compute.
enum class operation_kind : int {
  row,      ///< carries out a row of the list
  send,     ///< takes numbers from the host
  scale,    ///< computes one label's share of the loss
  clear,    ///< sets sums that are made slice by slice to 0
  bring,    ///< copies this rank's block of a bucket to the room where ranks gather the bucket
  forward,  ///< runs units of a chunk on a microbatch, with the rows within its layers
  forward_again,   ///< recomputes a unit, with the rows within its layers
  backward,        ///< runs units, for gradients with respect to the input and the parameters
  backward_input,  ///< runs units, for gradients with respect to the input alone
  /// Runs units, for gradients with respect to parameters, after backward_input.
  backward_parameters,
  measure,     ///< gives a microbatch's outputs to measures
  mask,        ///< sets a loss that another rank counts to 0
  add,         ///< adds gradients of tied uses to their owner's
  accumulate,  ///< adds this rank's block of a microbatch's gradients to the step's
  total,       ///< adds up the loss of all slices, where sums are made slice by slice
  square,      ///< squares the blocks of the gradients that count on this rank
  clip,        ///< computes the norm and the scale of the gradients
  update,      ///< runs the optimizer
  take,        ///< copies a tensor out of its arena
  read         ///< returns numbers, a tensor or outputs to the host
};

/// The number of enumerators of `operation_kind`.
inline constexpr int operation_kinds = int(operation_kind::read) + 1;

/// Returns a word such as "backward".
[[nodiscard]] constexpr char const* to_string(operation_kind kind) {
  constexpr char const* words[]{
      "row",     "send",          "scale",    "clear",          "bring",
      "forward", "forward_again", "backward", "backward_input", "backward_parameters",
      "measure", "mask",          "add",      "accumulate",     "total",
      "square",  "clip",          "update",   "take",           "read"};
  static_assert(std::size(words) == operation_kinds);
  return words[static_cast<int>(kind)];
}

/// One operation of a rank's program.
struct program_operation {
  operation_kind what = operation_kind::row;
  int row = -1;         ///< number of its row in the list, if it carries out one
  int chunk = -1;       ///< chunk of the stage with its units
  unit_range units{};   ///< units that it runs, or whose values it moves
  int microbatch = -1;  ///< -1: needs no microbatch
  int entry = -1;       ///< number of a parameter that is exported
  int bucket = -1;      ///< bucket of the arena; -1: all
  /// Overwrites sums of gradients instead of adding to them; for `add`: no ties are complete yet.
  bool begins = false;
  bool at_end = false;  ///< uses the end of a room for two buckets, not its beginning
  int releases = 0;     ///< bits of the ends of rooms whose parameters no later operation uses

  friend constexpr bool operator==(program_operation const&, program_operation const&) = default;
};

/// Returns the name of an operation in wait sites: its kind or row, and its first unit if it has
/// units. Operations that differ only in the microbatch have one name.
[[nodiscard]] constexpr int site_number(program_operation const& of) {
  constexpr int most = 1 << 16;
  int const what = of.row < 0 ? static_cast<int>(of.what) : operation_kinds + of.row;
  return what + most * (of.units.end > 0 ? of.units.begin + 1 : 0);
}
/// Returns the row of a name, -1 if it has none.
[[nodiscard]] constexpr int row_of_site(int number) {
  return number % (1 << 16) < operation_kinds ? -1 : number % (1 << 16) - operation_kinds;
}

/// Ends a job whose program has an operation that the code of its part does not carry out.
///
/// Errors: error, always: a fault of plait that names the operation and the part.
[[noreturn]] [[gnu::cold]] void refuse_operation(operation_kind what, char const* part);

/// Returns a text such as "row 14", or "backward from unit 3 on".
[[nodiscard]] std::string site_text(int number);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/program_operation.ipp"
#endif
