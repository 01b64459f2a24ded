// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"

namespace plait::planning {

/// Returns the operations of a program in their order: number, stream, text, microbatch, and the
/// operations of other streams that it waits for.
[[nodiscard]] [[gnu::cold]] std::string text_of_program(step_program const& program,
                                                        lean_vector<transfer> const& list,
                                                        element_sizes const& sizes);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/report/program_text.ipp"
#endif
