// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/doctor_options.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::detail::doctor {

/// An error in the use of plait-doctor, such as a file that cannot be read. All ranks throw it.
struct usage_error : input_error {
  using input_error::input_error;
};

/// The results of plait-doctor. All ranks have equal results, except for `earlier`.
struct doctor_results {
  std::vector<ext::host_settings> settings{};  ///< one for each rank, in their order
  ext::measured_job job{};
  ext::machine of{};
  std::vector<ext::finding> findings{};
  std::optional<ext::machine> earlier{};  ///< the machine of --compare, on rank 0
  double seconds = 0;                     ///< the duration of the measurement
};

/// The files that rank 0 has read: the text of the list of products, and why there was an error.
struct doctor_files {
  std::string products{}, problem{};
};

/// Reads the files that the options name, and checks that the files to write can be written.
[[nodiscard]] [[gnu::cold]] doctor_files read_files(ext::doctor_options const& options,
                                                    doctor_results& into);

/// Fills in the parts of a machine that settings state: names, versions, hosts and ranks.
[[gnu::cold]] void describe(doctor_results& of, ext::doctor_options const& options,
                            std::string_view backend);

/// Fills in the parts of a machine that follow from other measurements: the links within and
/// between hosts, the speeds of ranks, and whether the machine was quiet.
[[gnu::cold]] void summarize(doctor_results& of, bool is_quiet);

/// Returns the number of each rank among the ranks of its host.
[[nodiscard]] std::vector<int> numbers_on_hosts(std::vector<std::string> const& hosts);

/// Returns the number of ranks on each host if all hosts have as many and the ranks of a host have
/// consecutive numbers, and there are at least two hosts with at least two ranks; else 0.
[[nodiscard]] int ranks_of_each_host(std::vector<std::string> const& hosts);

/// Returns pairs of ranks that show the links while nothing else uses them: up to three pairs
/// within a host and three between hosts.
[[nodiscard]] std::vector<std::pair<int, int>> usual_pairs(std::vector<std::string> const& hosts);

/// Returns true if a host has fewer processors than ranks, so that pairs of ranks that communicate
/// at the same time would wait for processors.
[[nodiscard]] bool has_too_few_processors(std::vector<ext::host_settings> const& all);

/// Checks that the operands of products fit into half of the memory of each host.
///
/// Errors: usage_error with both numbers.
[[gnu::cold]] void require_room(std::vector<ext::product_shape> const& of,
                                std::vector<ext::host_settings> const& all);

/// Returns the number of BLAS threads that the environment states, as OpenBLAS reads it; 1 if it
/// states none.
[[nodiscard]] std::uint64_t stated_blas_threads();

/// Returns a note that something was not measured.
[[nodiscard]] [[gnu::cold]] ext::finding not_measured(std::string what_and_why);

/// Returns the finding of a job whose ranks could not meet or that has failed. `rank`: the rank
/// that is missing or, if that is unknown, a rank that has seen the failure.
[[nodiscard]] [[gnu::cold]] ext::finding rank_missing(int rank, std::string const& problem,
                                                      std::string_view while_doing);

/// Returns the report for people.
[[nodiscard]] [[gnu::cold]] std::string report_text(doctor_results const& of,
                                                    ext::doctor_options const& options, int code);
/// Returns the report as JSON: findings, the machine, and the exit code.
[[nodiscard]] [[gnu::cold]] std::string report_json(doctor_results const& of, int code);

/// Writes the machine file and the picture that the options name.
///
/// Errors: usage_error if a file cannot be written.
[[gnu::cold]] void write_files(doctor_results const& of, ext::doctor_options const& options);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/doctor_results.ipp"
#endif
