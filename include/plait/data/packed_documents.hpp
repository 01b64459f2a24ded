// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/header_only.hpp"

// Functions for samples that consist of several documents, each of which ends with a token.
namespace plait::detail {

/// Checks the options of a data set that packs documents. Messages begin with `data`, the name of
/// the data set.
///
/// Errors: input_error if the data set packs documents and `end_of_text` is negative (not given) or
///         not below the vocabulary, or if `end_of_text` is given and the data set does not pack.
void check_packing(char const* data, bool pack, std::int64_t end_of_text, std::size_t vocabulary);

/// Replaces the tokens of a sample by the numbers of their documents: the number of a token is the
/// number of ends of text before it in the sample. For example, if 0 is the end of text, the tokens
/// 5 6 0 7 become 0 0 0 1.
void number_documents(std::span<std::int32_t> tokens, std::int64_t end_of_text);

/// Makes the loss ignore the targets of positions whose input is an end of text, because these
/// targets belong to the next document. `first_input` is the input of the first position; the input
/// of each other position is the target of the position before it.
void ignore_targets_of_ends(std::span<std::int32_t> targets, std::int32_t first_input,
                            std::int64_t end_of_text);

/// Replaces the document numbers of a sample by the position of each token within its document. For
/// example, 0 0 0 1 becomes 0 1 2 0.
///
/// Errors: input_error with the sample, the position and both numbers if a number is less than the
///         number before it.
void count_positions(std::span<std::int32_t> documents, std::size_t sample);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/packed_documents.ipp"
#endif
