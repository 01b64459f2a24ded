// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/model/units.hpp"

namespace plait::planning {

/// The kind of an operation of a rank's program. Operations of all kinds except `row` compute, and
/// run on stream::compute.
enum class operation_kind : int {
  row,             ///< carries out one transfer of the list, which is on the stream of the transfer
  send,            ///< copies numbers from the host to the device
  scale,           ///< divides the weight of each term of the loss by the number of its labels
  clear,           ///< in a plan with slices, sets the sums of gradients to 0
  copy_block,      ///< copies this rank's block of a bucket to the buffer in which the bucket is
                   ///< gathered
  forward,         ///< runs units of a chunk on a microbatch, with the transfers within its layers
  recompute,       ///< recomputes a unit, with the transfers within its layers
  backward,        ///< runs units, for gradients with respect to the input and the parameters
  backward_input,  ///< runs units, for gradients with respect to the input alone
  /// Runs units, for gradients with respect to parameters, after backward_input.
  backward_parameters,
  measure,     ///< passes a microbatch's outputs to measures
  mask,        ///< sets the loss to 0 if another rank counts it
  add,         ///< adds gradients of tied uses to their owners' gradients
  accumulate,  ///< adds this rank's block of a microbatch's gradients to the sums of the step
  total,       ///< in a plan with slices, adds up the loss of all slices
  square,      ///< computes sums of squares of gradients for the norm; each block counts on one
               ///< rank only
  clip,        ///< computes the norm, and the factor by which gradients are multiplied
  update,      ///< runs the optimizer
  hand_over,   ///< in a plan with delayed updates, copies the gradients of the step to the arena of
               ///< pending gradients
  take,        ///< copies a tensor out of its arena
  read         ///< copies numbers, a tensor or outputs back to the host
};

/// The number of enumerators of `operation_kind`.
inline constexpr int operation_kinds = int(operation_kind::read) + 1;

/// Returns a word such as "backward".
[[nodiscard]] constexpr char const* to_string(operation_kind kind) {
  constexpr char const* words[]{
      "row",     "send",      "scale",    "clear",          "copy_block",
      "forward", "recompute", "backward", "backward_input", "backward_parameters",
      "measure", "mask",      "add",      "accumulate",     "total",
      "square",  "clip",      "update",   "hand_over",      "take",
      "read"};
  static_assert(std::size(words) == operation_kinds);
  return words[static_cast<int>(kind)];
}

/// One operation of a rank's program.
struct program_operation {
  operation_kind what = operation_kind::row;
  int row = -1;         ///< index of the transfer that the operation carries out; -1: none
  int chunk = -1;       ///< index of the chunk that contains these units
  unit_range units{};   ///< units that the operation runs, or whose values it moves
  int microbatch = -1;  ///< number of the microbatch; -1: none
  int entry = -1;       ///< index of the parameter that is exported; -1: none
  int bucket = -1;      ///< number of the bucket; -1: all buckets, or none
  /// True if the operation overwrites sums of gradients instead of adding to them. For `add`: true
  /// if there is nothing to add yet, because gradients of tied uses are not complete.
  bool begins = false;
  bool at_end = false;  ///< in a staging buffer for two buckets, the operation uses the end and not
                        ///< the beginning
  int releases = 0;     ///< bits of the ends of staging buffers that no later operation reads

  friend constexpr bool operator==(program_operation const&, program_operation const&) = default;
};

/// Returns the number that identifies an operation in wait sites. The number encodes the kind of
/// the operation, or the index of its transfer, and the first unit if the operation has units.
/// Operations that differ only in the microbatch have the same number.
[[nodiscard]] constexpr int site_number(program_operation const& of) {
  constexpr int most = 1 << 16;
  int const what = of.row < 0 ? static_cast<int>(of.what) : operation_kinds + of.row;
  return what + most * (of.units.end > 0 ? of.units.begin + 1 : 0);
}
/// Returns the index of the transfer, decoded from a number that site_number returned; -1 if the
/// operation is not a transfer.
[[nodiscard]] constexpr int row_of_site(int number) {
  return number % (1 << 16) < operation_kinds ? -1 : number % (1 << 16) - operation_kinds;
}

/// Ends a job whose program contains an operation that the code for this part of the job does not
/// know.
///
/// Errors: error, always: a fault of plait that names the operation and the part.
[[noreturn]] [[gnu::cold]] void refuse_operation(operation_kind what, char const* part);

/// Returns a text such as "row 14", or "backward from unit 3 on".
[[nodiscard]] std::string site_text(int number);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/program_operation.ipp"
#endif
