// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"

namespace plait::planning {

/// Returns a table of the operations of a program in their order. Each line has the number, the
/// stream, the text and the microbatch of an operation, and the operations of other streams for
/// which it waits.
[[nodiscard]] [[gnu::cold]] std::string text_of_program(step_program const& program,
                                                        lean_vector<transfer> const& list,
                                                        element_sizes const& sizes);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/report/program_text.ipp"
#endif
