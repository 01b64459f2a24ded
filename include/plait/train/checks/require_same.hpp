// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/backend/generation.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"

namespace plait::execution {

/// Returns the first of the ranks that an earlier generation has accepted. Returns -1 if all ranks
/// have been accepted, or no rank.
[[nodiscard]] [[gnu::cold]] int reference_rank(generation const& now);

/// Refuses ranks that join an elastic job and differ from the ranks that have already trained the
/// job. A process that joins with wrong options must not end the job of the ranks that have
/// trained. So the accepted ranks are the reference: if 7 ranks have trained with seed 1 and a
/// joining rank has seed 2, the joining rank ends and the 7 ranks continue. `wrong(rank,
/// reference)` returns a sentence about the difference between a rank and the reference, or "" if
/// there is none. The function refuses no rank and returns if the job is not elastic (`now` is
/// null), if all ranks or none have trained the job, or if accepted ranks differ among themselves.
/// In these cases the caller throws the same error on all ranks.
///
/// Errors: refused_rank on the refused ranks, and generation_ended on the others.
[[gnu::cold]] void refuse_joining_ranks(generation* now,
                                        function_reference<std::string(int, int)> wrong);

/// The first of the compared values that differs between two ranks.
struct rank_difference {
  std::string name;         ///< name of the value; "" if no value differs
  std::string mine, other;  ///< the value on the first and on the second rank, as text
};

/// Checks that named values are equal on all ranks. `differ(rank, other)` compares the values of
/// two ranks. All ranks know the values of all ranks, so `differ` returns the same difference on
/// each rank. A message begins with `subject` and ends with `advice`: "trainer 1: the ranks differ
/// in seed: 0 on rank 0, 5 on rank 2; ...". All checks that values are equal on all ranks use this
/// function.
///
/// Errors: input_error with the first difference from rank 0, on all ranks. If only ranks that join
///         an elastic job differ from the ranks that have trained it, the exceptions of
///         refuse_joining_ranks.
[[gnu::cold]] void require_same(generation* now, std::size_t ranks, std::string const& subject,
                                function_reference<rank_difference(int, int)> differ,
                                std::string const& advice = {});
/// Returns the sentence for a joining rank that differs from the job; "" if no value differs.
[[nodiscard]] [[gnu::cold]] std::string joining_text(std::string const& subject,
                                                     rank_difference const& found);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/require_same.ipp"
#endif
