// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/generation.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"

namespace plait::execution {

/// Returns the first rank that an earlier generation has accepted; -1 if it has accepted all ranks,
/// or none.
[[nodiscard]] [[gnu::cold]] int reference_rank(generation const& now);

/// Refuses the newcomers of an elastic job that differ from the ranks that have trained it. A
/// process that joins with wrong options must not end the job of the ranks that have trained. So
/// the accepted ranks are the reference: if 7 ranks have trained with seed 1 and a newcomer has
/// seed 2, the newcomer ends and the 7 ranks continue. `wrong(rank, reference)` returns a sentence
/// about the difference of a rank from the reference, "" if there is none. The function refuses no
/// rank and returns if the job is not elastic (`now` is null), if all ranks or none have trained
/// the job, or if accepted ranks differ among themselves. In these cases a difference is an error
/// of all ranks, which the caller throws.
///
/// Errors: refused_newcomer on the refused ranks, and generation_ended on the others.
[[gnu::cold]] void refuse_newcomers(generation* now,
                                    function_reference<std::string(int, int)> wrong);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/newcomers.ipp"
#endif
