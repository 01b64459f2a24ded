// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/doctor_options.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::detail::doctor {

/// An error in the use of plait-doctor, such as a file that cannot be read. If rank 0 finds it
/// before the measurements, all ranks throw it.
struct usage_error : input_error {
  using input_error::input_error;
};

/// The results of plait-doctor. All ranks have equal results, except for `earlier`, `seconds`, the
/// date in `of`, and the findings about settings, which one rank of each process adds.
struct doctor_results {
  std::vector<ext::host_settings> settings{};  ///< one for each rank, in their order
  ext::measured_job job{};
  ext::machine of{};  ///< the contents of the machine file
  std::vector<ext::finding> findings{};
  std::optional<ext::machine> earlier{};  ///< the machine of --compare, on rank 0
  double seconds = 0;                     ///< the duration of all measurements
};

/// The text of the list of products, which rank 0 has read, and the error in one of the files; ""
/// if there is none.
struct doctor_files {
  std::string products{}, problem{};
};

/// Reads the list of products and the earlier machine file, if the options name them, and checks
/// that the folders of the files to write are writable. An error is in `problem` of the result.
[[nodiscard]] [[gnu::cold]] doctor_files read_files(ext::doctor_options const& options,
                                                    doctor_results& into);

/// Fills in the parts of a machine that settings state: name, date, versions, hosts and ranks; and
/// the hosts and processors of the job's ranks.
[[gnu::cold]] void describe(doctor_results& of, ext::doctor_options const& options,
                            std::string_view backend);

/// Fills in the parts of a machine that follow from the measurements of the job: the links of
/// pairs, the median links within and between hosts, the relative speeds of ranks, and `is_quiet`.
[[gnu::cold]] void summarize(doctor_results& of, bool is_quiet);

/// Returns the number of each rank among the ranks of its host, from 0. `hosts`: the host of each
/// rank.
[[nodiscard]] std::vector<int> numbers_on_hosts(std::vector<std::string> const& hosts);

/// Returns the number of ranks on each host, if all hosts have the same number of ranks, at least
/// two, the ranks of each host have consecutive numbers, and there are at least two hosts; else 0.
[[nodiscard]] int ranks_of_each_host(std::vector<std::string> const& hosts);

/// Returns the pairs of ranks that are measured while no other pair sends, also if they are not
/// slow: up to three pairs within hosts and three between hosts. They show which part of a link's
/// bandwidth a pair has while all pairs send.
[[nodiscard]] std::vector<std::pair<int, int>> usual_pairs(std::vector<std::string> const& hosts);

/// Returns true if a host has, or may have, fewer processors than ranks, so that pairs of ranks
/// that communicate at the same time would wait for processors. Returns false for ranks on GPUs.
[[nodiscard]] bool has_too_few_processors(std::vector<ext::host_settings> const& all);

/// Checks that the operands of products, which all ranks of a host allocate at the same time, fit
/// into half of the host's memory. A host whose memory is unknown is not checked.
///
/// Errors: usage_error with both numbers.
[[gnu::cold]] void require_room(std::vector<ext::product_shape> const& of,
                                std::vector<ext::host_settings> const& all);

/// Returns the number of BLAS threads that the environment states, as OpenBLAS reads it: the first
/// number above 0 in OPENBLAS_NUM_THREADS, GOTO_NUM_THREADS and OMP_NUM_THREADS; 1 if there is
/// none.
[[nodiscard]] std::uint64_t stated_blas_threads();

/// Returns a note that something was not measured. `what_and_why` is its sentence.
[[nodiscard]] [[gnu::cold]] ext::finding not_measured(std::string what_and_why);

/// Returns the finding of a job that has failed, or whose ranks could not meet. `rank`: the rank
/// that is missing if `is_missing`, else a rank that has seen the failure. `while_doing`: the part
/// of the measurement, such as "while links were measured".
[[nodiscard]] [[gnu::cold]] ext::finding rank_missing(int rank, bool is_missing,
                                                      std::string const& problem,
                                                      std::string_view while_doing);

/// Returns the rank for which a backend says that it has waited in vain, as in "waited 5000 ms for
/// rank 1" or "rank 1 has not come"; -1 if the message names none.
[[nodiscard]] [[gnu::cold]] int rank_awaited_in(std::string_view problem);

/// Returns the report as text for a terminal.
[[nodiscard]] [[gnu::cold]] std::string report_text(doctor_results const& of,
                                                    ext::doctor_options const& options, int code);
/// Returns the report as JSON: findings, the machine, and the exit code.
[[nodiscard]] [[gnu::cold]] std::string report_json(doctor_results const& of, int code);

/// Writes the machine file and the picture, if the options name them.
///
/// Errors: usage_error if a file cannot be written.
[[gnu::cold]] void write_files(doctor_results const& of, ext::doctor_options const& options);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/doctor_results.ipp"
#endif
