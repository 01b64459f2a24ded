// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/packed_documents.hpp"

#include "plait/core/error.hpp"
#include "plait/layer/value.hpp"

namespace plait::detail {

PLAIT_DECL void check_packing(char const* data, bool pack, std::int64_t end_of_text,
                              std::size_t vocabulary) {
  if (pack && end_of_text < 0)
    throw input_error({data,
                       ": .pack is true, but .end_of_text is not given; set it to the token that "
                       "ends each document, from 0 to ",
                       vocabulary - 1});
  if (pack && static_cast<std::uint64_t>(end_of_text) >= vocabulary)
    throw input_error({data, ": .end_of_text is ", end_of_text,
                       ", which is not a token; set it to a number from 0 to ", vocabulary - 1});
  if (!pack && end_of_text >= 0)
    throw input_error({data, ": .end_of_text is ", end_of_text,
                       ", but .pack is false, so it has no effect; set .pack = true, or leave out "
                       ".end_of_text"});
}

PLAIT_DECL void number_documents(std::span<std::int32_t> tokens, std::int64_t end_of_text) {
  std::int32_t number = 0;
  for (auto& token : tokens) {
    bool const is_end = token == end_of_text;
    token = number;
    if (is_end) ++number;
  }
}

PLAIT_DECL void ignore_targets_of_ends(std::span<std::int32_t> targets, std::int32_t first_input,
                                       std::int64_t end_of_text) {
  auto input = first_input;
  for (auto& target : targets) {
    auto const next = target;
    if (input == end_of_text) target = ext::ignored_target;
    input = next;
  }
}

PLAIT_DECL void count_positions(std::span<std::int32_t> documents, std::size_t sample) {
  std::size_t first = 0;
  std::int32_t number = documents.empty() ? 0 : documents.front();
  for (std::size_t at = 0; at < documents.size(); ++at) {
    if (documents[at] < number)
      throw input_error({"loader: sample ", sample, " has document ", documents[at],
                         " at position ", at, " after document ", number,
                         "; the tokens of a document must be adjacent, and document numbers must "
                         "not decrease within a sample"});
    if (documents[at] != number) first = at;
    number = documents[at];
    documents[at] = static_cast<std::int32_t>(at - first);
  }
}

}  // namespace plait::detail
