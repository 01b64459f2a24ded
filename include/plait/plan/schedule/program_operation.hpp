// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/model/units.hpp"

namespace plait::planning {

/// The kind of an operation of a rank's program. All kinds except rows compute, on stream compute.
enum class operation_kind : int {
  row,                  ///< carries out a row of the list
  send,                 ///< takes numbers from the host
  scale,                ///< makes one label's share of the loss
  clear,                ///< sets the sums of slices to 0
  bring,                ///< puts this rank's block of a bucket where ranks gather the bucket
  forward,              ///< runs units of a chunk on a microbatch, with the rows within its layers
  forward_again,        ///< runs what is made again of a unit, with the rows within its layers
  backward,             ///< runs units, for the gradients of the input and of the parameters
  backward_input,       ///< runs units, for the gradients of the input alone
  backward_parameters,  ///< runs units, for the gradients of the parameters, after backward_input
  measure,              ///< gives a microbatch's outputs to measures
  mask,                 ///< sets a loss that another rank counts to 0
  add,                  ///< adds gradients of tied uses to their owner's
  accumulate,           ///< adds this rank's block of a microbatch's gradients to the step's
  total,                ///< adds up the loss of all slices, where sums are made slice by slice
  square,               ///< squares the blocks of the gradients that count here
  clip,                 ///< makes the norm and the scale of the gradients
  update,               ///< runs the optimizer
  take,                 ///< copies a tensor out of its arena
  read                  ///< gives numbers, a tensor or outputs to the host
};

/// The number of enumerators of `operation_kind`.
inline constexpr int operation_kinds = int(operation_kind::read) + 1;

/// For example "backward".
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
  int row = -1;         ///< number of its row in the list
  int chunk = -1;       ///< chunk of the stage that has its units
  unit_range units{};   ///< units that it runs, or whose values it moves
  int microbatch = -1;  ///< -1: needs none
  int entry = -1;       ///< number of a parameter that is exported
  int bucket = -1;      ///< bucket of the arena; -1: all
  bool begins = false;  ///< finds no gradients of its parameters, or of its bucket, yet
  bool at_end = false;  ///< uses the end of a room for two buckets
  int releases = 0;     ///< ends of rooms, as bits, whose parameters are used no more

  friend constexpr bool operator==(program_operation const&, program_operation const&) = default;
};

/// The name of an operation in wait sites: its kind or row and its first unit, if it has units.
/// Operations that differ in the microbatch alone have one name.
[[nodiscard]] constexpr int site_number(program_operation const& of) {
  constexpr int most = 1 << 16;
  int const what = of.row < 0 ? static_cast<int>(of.what) : operation_kinds + of.row;
  return what + most * (of.units.end > 0 ? of.units.begin + 1 : 0);
}
/// The row of a name, -1 if it has none.
[[nodiscard]] constexpr int row_of_site(int number) {
  return number % (1 << 16) < operation_kinds ? -1 : number % (1 << 16) - operation_kinds;
}

/// Ends a job whose program has an operation that the code of its part does not carry out.
///
/// Errors: error, always: a fault of plait that names both.
[[noreturn]] [[gnu::cold]] void refuse_operation(operation_kind what, char const* part);

/// For example "row 14", or "backward from unit 3 on".
[[nodiscard]] std::string site_text(int number);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/program_operation.ipp"
#endif
