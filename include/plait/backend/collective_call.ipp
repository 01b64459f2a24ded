// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/collective_call.hpp"

#include "plait/core/concat.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail {

PLAIT_DECL bool collective_call::fits(collective_call const& call) const {
  return element == call.element && tag == call.tag && bytes == call.bytes &&
         caller == call.caller && over == call.over;
}

PLAIT_DECL std::string call_text(collective_call const& call, std::vector<int> const& members) {
  std::string text = to_string(call.kind);
  if (call.kind != collective::barrier) text += concat({" of ", call.bytes, " bytes"});
  if (call.kind == collective::all_gather || call.kind == collective::reduce_scatter)
    text += " per rank";
  if (has_root(call.kind) || call.kind == collective::send || call.kind == collective::receive) {
    bool const known = call.other >= 0 && call.other < static_cast<int>(members.size());
    text += call.kind == collective::send ? " to " : " from ";
    text += known ? concat({"rank ", members[static_cast<std::size_t>(call.other)]})
                  : concat({"member ", call.other});
  }
  if (call.kind == collective::send || call.kind == collective::receive)
    text += concat({" with tag ", call.tag});
  return concat({text, " on group ", ranks_in_braces(members)});
}

// Returns the text of call_text followed by the element type, the operation and the trainer that
// calls: "... (float32, sum) for trainer 1".
PLAIT_DECL std::string full_call_text(collective_call const& call,
                                      std::vector<int> const& members) {
  auto text = call_text(call, members);
  if (call.element.kind != ' ') {
    char const* const kind = call.element.kind == 'f'   ? "float"
                             : call.element.kind == 'b' ? "bfloat"
                             : call.element.kind == 'i' ? "int"
                                                        : "uint";
    text += concat({" (", kind, 8 * call.element.bytes});
    if (call.kind == collective::all_reduce) text += concat({", ", to_string(call.operation)});
    text += ")";
  }
  if (call.caller != 0) text += concat({" for trainer ", call.caller});
  return text;
}

PLAIT_DECL std::string mismatch_text(int rank_a, collective_call const& a, int rank_b,
                                     collective_call const& b, std::vector<int> const& members) {
  auto const text = [&](int rank, collective_call const& call) {
    return concat({"rank ", rank, " called ", full_call_text(call, members),
                   (a.over == b.over ? "" : concat({" over ", to_string(call.over)}))});
  };
  return concat({text(rank_a, a), ", but ", text(rank_b, b)});
}

PLAIT_DECL void check_shape(int rank, collective_call const& call,
                            std::vector<int> const& members) {
  auto const p = members.size();
  auto const fail = [&](std::string const& reason) {
    throw size_mismatch({"rank ", rank, " called ", call_text(call, members), ": ", reason});
  };
  if (has_root(call.kind) && (call.other < 0 || call.other >= static_cast<int>(p)))
    throw input_error({"rank ", rank, " called ", call_text(call, members),
                       ": the root must be from 0 to ", p - 1});
  switch (call.kind) {
    case collective::all_gather:
    case collective::reduce_scatter:
      if (call.whole_bytes != p * call.bytes)
        fail(concat(
            {"the buffer for all ranks has ", call.whole_bytes, " bytes, not ", p * call.bytes}));
      return;
    case collective::all_to_all:
      if (call.whole_bytes != call.bytes)
        fail(concat({"receive has ", call.whole_bytes, " bytes, but send has ", call.bytes}));
      if (call.bytes % (p * call.element.bytes) != 0)
        fail(concat({"its ", call.bytes / call.element.bytes, " elements cannot be cut into ", p,
                     " equal blocks"}));
      return;
    default: return;
  }
}

}  // namespace plait::detail
