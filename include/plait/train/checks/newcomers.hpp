// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/generation.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"

namespace plait::execution {

/// Returns the first rank that was accepted in an earlier generation; -1 if all ranks were, or
/// none.
[[nodiscard]] [[gnu::cold]] int reference_rank(generation const& now);

/// Refuses the newcomers of an elastic job that differ from the ranks that have trained it. A
/// process that joins with other options must not end the job of the others. So the accepted ranks
/// are the reference: if 7 ranks have trained with seed 1 and a newcomer has seed 2, the newcomer
/// ends and the 7 continue. `wrong(rank, reference)` returns a sentence about the difference of a
/// rank from the reference, "" if there is none. The function returns if the ranks of the job do
/// not change (`now` is null), if all ranks or none have trained the job, or if accepted ranks
/// differ among themselves; then a difference is an error of all ranks, which the caller throws.
///
/// Errors: refused_newcomer on the refused ranks, and generation_ended on the others.
[[gnu::cold]] void refuse_newcomers(generation* now,
                                    function_reference<std::string(int, int)> wrong);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/newcomers.ipp"
#endif
