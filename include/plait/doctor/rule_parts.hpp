// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"

// Parts that the rules of settings have in common.
namespace plait::detail::doctor {

using all_settings = std::vector<host_settings>;

/// The words of a finding about one rank. If `measured` is empty, there is no finding.
struct finding_words {
  std::string measured{}, expected{}, what_to_do{};
  finding_severity severity = finding_severity::slow;

  /// Returns the words for a value that could not be read.
  [[nodiscard]] [[gnu::cold]] static finding_words unread(std::string_view what,
                                                          std::string const& problem);
};

/// Calls `rule` for each rank, and makes one finding for all ranks of a host that have equal words.
/// Equal notes of several hosts become one finding, too. For example, if a file is missing on 64
/// hosts, the result is one note.
[[nodiscard]] [[gnu::cold]] std::vector<finding> of_each_rank(
    all_settings const& all, std::string_view id,
    function_reference<finding_words(host_settings const&)> rule);

/// A value that several ranks of a host have in common, such as the use of the host's swap.
struct common_value {
  double amount = 0;
  std::string group{};  ///< ranks with another group have another value; "" for a value of the host
};

/// Makes one finding for all ranks of a host that have a value in common. The ranks read it at
/// slightly different moments, so their numbers differ; `rule` gets the rank with the greatest
/// amount. Ranks for which the value is unknown get a note, in which `what` names the value.
[[nodiscard]] [[gnu::cold]] std::vector<finding> of_each_common_value(
    all_settings const& all, std::string_view id, std::string_view what,
    function_reference<reading<common_value>(host_settings const&)> value,
    function_reference<finding_words(host_settings const&)> rule);

/// Makes a finding about some ranks. Its host is empty if they are on several hosts.
[[nodiscard]] [[gnu::cold]] finding about(std::vector<host_settings const*> const& of,
                                          std::string_view id, finding_words words);

/// Compares a value, as text, between all ranks. The expected value is the value that most ranks
/// have; of two equally frequent values, it is the value of the lower rank. Ranks with another
/// value get a finding, and ranks whose value is unknown get a note. `what`: a noun such as
/// "version of MPI".
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike(
    all_settings const& all, std::string_view id, std::string_view what,
    finding_words const& advice,
    function_reference<reading<std::string>(host_settings const&)> value);

/// Returns the ranks of each host; the hosts are in the order of their first ranks.
[[nodiscard]] [[gnu::cold]] std::vector<std::vector<host_settings const*>> by_host(
    all_settings const& all);

/// Returns a number of bytes as text, such as "64 MiB" or "1.5 GiB"; "no limit" for no_limit.
[[nodiscard]] [[gnu::cold]] std::string bytes_text(std::uint64_t bytes);
/// Returns a share from 0 to 1 as text, such as "12.5 %".
[[nodiscard]] [[gnu::cold]] std::string percent_text(double share);
/// Returns processors as text: "cpu 3" or "cpus 0-3 and 8".
[[nodiscard]] [[gnu::cold]] std::string cpus_text(std::vector<int> const& cpus);

/// Adds the findings of one rule to the findings of others.
[[gnu::cold]] void append(std::vector<finding>& to, std::vector<finding> more);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/rule_parts.ipp"
#endif
