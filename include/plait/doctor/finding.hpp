// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The consequence of a finding for a job.
enum class finding_severity : int {
  note,  ///< something to know, such as a file that could not be read
  slow,  ///< a job is slower than it could be, or its ranks compute different bits
  fails  ///< a job fails or hangs
};

/// Returns "note", "slow" or "fails".
[[nodiscard]] std::string_view to_string(finding_severity of);

/// A fact about the machines of a job that a user should know.
///
/// Example (tests/doctor/finding_test.cpp sentence):
///     plait::ext::finding found;
///     found.ranks = {5};
///     found.host = "b";
///     found.measured = "2 MiB are in swap";
///     found.expected = "0";
///     found.what_to_do = "end other programs";
///     // rank 5 (host b): 2 MiB are in swap; expected: 0; end other programs
///     std::string const sentence = found.text();
///
/// Errors:  std::bad_alloc.
/// Threads: as for a std::string.
struct finding {
  /// The name of the rule, in lower-case letters and '-'. docs/design/doctor.md lists all rules.
  std::string id{};
  finding_severity severity = finding_severity::note;
  std::vector<int> ranks{};  ///< the ranks concerned, ascending; empty: all ranks
  std::string host{};        ///< the host of these ranks; "" if they are on several hosts
  /// The measured value and the expected value, as parts of a sentence. `expected` is empty if
  /// there is nothing to compare with.
  std::string measured{}, expected{};
  std::string what_to_do{};  ///< advice, as part of a sentence; "" if there is none

  /// Returns the finding as one sentence, on one line, without a full stop.
  [[nodiscard]] [[gnu::cold]] std::string text() const;
  /// Returns the finding as a JSON object on one line; its keys are the names of the members.
  [[nodiscard]] [[gnu::cold]] std::string json() const;

  friend bool operator==(finding const&, finding const&) = default;
};

}  // namespace plait::ext

namespace plait::detail::doctor {

/// Returns a text as a JSON string, in quotes. Bytes that are not UTF-8 and characters that would
/// control a terminal are written as visible escapes.
[[nodiscard]] [[gnu::cold]] std::string json_string(std::string_view text);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/finding.ipp"
#endif
