// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/generation.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"

namespace plait::execution {

/// The first rank that has been accepted where others have not; -1 where all ranks count alike.
[[nodiscard]] [[gnu::cold]] int reference_rank(generation const& now);

/// Where ranks of an elastic job differ, those that have trained it say how it is, and newcomers
/// that differ are refused. `wrong(rank, reference)` says how a rank differs from the reference, ""
/// if it does not. It returns where ranks do not change (`now` is null), and where the difference
/// is a matter of all: nobody has trained the job yet, or those differ that have.
///
/// Errors: refused_newcomer on ranks that are refused, and then generation_ended on the others.
[[gnu::cold]] void refuse_newcomers(generation* now,
                                    function_reference<std::string(int, int)> wrong);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/newcomers.ipp"
#endif
