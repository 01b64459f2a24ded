// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/report/memory_text.hpp"

#include <cstdio>
#include <new>

namespace plait::detail {

PLAIT_DECL std::string as_percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * part / whole);
  return text;
}

PLAIT_DECL std::string memory_text(memory_need const& need) {
  std::string out;
  auto const add = [&out](char const* what, std::size_t bytes) {
    if (bytes != 0) out += concat({what, with_unit(bytes), ", "});
  };
  add("parameters ", need.parameters);
  add("gradients ", need.gradients);
  add("gradients of the step before ", need.pending);
  add("optimizer ", need.optimizer);
  add("averages ", need.averages);
  add("activations ", need.activations);
  add("batches ", need.batches);
  add("outputs ", need.outputs);
  add("numbers ", need.numbers);
  add("room of sums ", need.sums);
  add("workspace of libraries ", need.workspace);
  return concat({out, with_unit(need.total()), " in all"});
}

PLAIT_DECL void rethrow_for_plan(int rank, memory_need need, std::size_t workspace) {
  auto const error_of = [&](char const* what, out_of_memory::numbers const& bytes) {
    return out_of_memory(
        concat({what, "; the plan of rank ", rank, " needs: ", memory_text(need),
                "; use a smaller batch, more microbatches, or more tensor ranks or stages"}),
        bytes);
  };
  try {
    throw;
  } catch (out_of_memory const& e) {
    need.workspace = workspace;
    throw error_of(e.what(), e.bytes);
  } catch (std::bad_alloc const&) {
    throw error_of("out of memory on the host", {});
  }
}

}  // namespace plait::detail
