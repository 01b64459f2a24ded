// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/number_range.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/testing/communicator_channel_laws.hpp"
#include "plait/testing/communicator_errors.hpp"
#include "plait/testing/communicator_group_laws.hpp"
#include "plait/testing/communicator_laws.hpp"
#include "plait/testing/communicator_probe.hpp"
#include "plait/testing/report.hpp"

namespace plait::testing {

/// The element types that a suite runs with.
template <class... T>
struct element_list {};

/// The element types that plait's own communicators move.
using communicator_elements =
    element_list<float, double, bfloat16, std::int32_t, std::int64_t, std::uint64_t, std::uint8_t>;

/// The options of `check_communicators`, and the promises of the backend.
struct communicator_suite_options {
  /// The number of ranks of each launch. A backend of processes has as many as its launcher has
  /// started.
  int ranks = 4;
  /// The numbers of elements of a buffer, or of a block. For sizes above 1000 only one root rank
  /// and one mesh are tried.
  std::vector<std::size_t> sizes{0, 1, 3, 64, 1000, 100003};
  /// The number of times that all groups are used in turn.
  int rounds = 1000;
  /// True if sums have the bits of additions in rank order. Otherwise sums are compared within the
  /// error bound for any order. In both cases all ranks must have equal bits.
  bool sums_in_rank_order = true;
  /// True if a maximum is NaN wherever the value of any rank is NaN. NCCL does not promise this,
  /// and MPI need not.
  bool maximum_keeps_nan = true;
  /// True if ranks whose calls contradict each other get an exception. Otherwise the suite makes
  /// only mistakes that each rank can find without the other ranks.
  bool compares_calls = true;
  /// True if ranks also get an exception when some of them call a group over certain axes, and
  /// others a group with equal members over other axes.
  bool compares_equal_groups = true;
  /// True if stages post messages on channels, and a post does not wait. Otherwise the backend
  /// sends each message at once, and the suite posts messages in an order in which each post may
  /// wait for its receiver or sender.
  bool has_channels = true;
  /// True if the suite includes launches that fail. Set it to false for processes that end after an
  /// error, and start one job for each `check_communicator_error`.
  bool errors = true;
};

/// A communicator that counts its traffic and can write a log of its calls, like a class derived
/// from `communicator_calls`.
template <class Comm>
concept keeps_records =
    communicator<Comm> && requires(Comm& comm, std::vector<plait::detail::logged_call>* log) {
      { comm.counted() } -> std::convertible_to<traffic const&>;
      { comm.reset_counted() } -> std::same_as<void>;
      { comm.log_calls(log, 0) } -> std::same_as<void>;
      { comm.call_for(std::uint64_t{1}) } -> std::same_as<void>;
    };

/// A communicator to which ranks can post messages on channels. The suite checks other
/// communicators without such messages.
template <class Comm, class T>
concept posts_messages =
    communicator<Comm> && requires(Comm& comm, std::span<T> values, int other, int tag, stream on) {
      { comm.post_send(values, other, tag, on) } -> std::same_as<void>;
      { comm.post_receive(values, other, tag, on) } -> std::same_as<void>;
    };

namespace detail {

template <class Comm, class T>
consteval void require_all_calls() {
  static_assert(
      can_all<Comm, T>,
      "check_communicators: the backend's communicator lacks a call for this element type, or one "
      "of its calls returns a value; derive the communicator from plait::ext::communicator_calls, "
      "or leave the type out: check_communicators<plait::testing::element_list<float, double>>");
}

template <class Comm>
consteval void require_records() {
  static_assert(keeps_records<Comm>,
                "check_communicators: the backend's communicator lacks counted(), reset_counted(), "
                "log_calls() or call_for(); derive it from plait::ext::communicator_calls");
}

// Returns the laws that the options leave out of the suite, one sentence for each.
std::vector<std::string> left_out(communicator_suite_options const& options);

// Returns a mesh of one axis and, if `ranks` has enough factors, a mesh of two or three axes, whose
// groups overlap.
std::vector<mesh> meshes_of(int ranks);

// Returns a mesh with one pipeline of all ranks and, if there are enough ranks, a mesh with two
// pipelines, each of every second rank.
std::vector<mesh> stage_meshes_of(int ranks);

template <class Rank, class... T>
void check_group(communicator_probe<Rank> p, element_list<T...>,
                 communicator_suite_options const& options, std::size_t most) {
  check_membership(p);
  check_barrier(p);
  check_records(p);
  check_adjoints(p);
  if (options.maximum_keeps_nan) (check_not_a_number<T>(p), ...);
  for (std::size_t const n : options.sizes)
    if (n <= most) (check_calls<T>(p, n), ...);
}

template <class Rank, class... T>
void check_channels(communicator_probe<Rank> p, element_list<T...>,
                    communicator_suite_options const& options, std::size_t most) {
  check_refused_channels(p);
  for (int const late : {0, 1}) check_posted_messages<double>(p, 64, late);
  if (options.has_channels) check_channels_apart(p);
  for (std::size_t const n : options.sizes)
    if (n <= most) (check_posted_messages<T>(p, n, -1), ...);
}

// Runs a program on a mesh; returns false if the run threw an exception.
template <class Backend, class Program>
bool check_on_mesh(Backend const& backend, mesh const& grid, std::string const& what,
                   check_report& report, Program program) {
  communicator_findings findings;
  std::string failure;
  try {
    backend.run(mesh_groups(grid), [&](auto& rank) { program(rank, findings); });
  } catch (std::exception const& e) {
    failure = ext::concat({to_string(grid), ": the run threw: ", e.what()});
  }
  findings.move_to(report);
  if (!failure.empty()) report.failures.push_back(failure);
  report.checked.push_back(ext::concat({what, " on ", to_string(grid)}));
  return failure.empty();
}

// Checks all calls on all meshes; returns false if a run threw an exception.
template <class Elements, class Backend>
bool check_all_calls(Backend const& backend, communicator_suite_options const& options,
                     check_report& report) {
  std::size_t most = static_cast<std::size_t>(-1);
  for (mesh const& grid : meshes_of(options.ranks)) {
    bool const is_good =
        check_on_mesh(backend, grid, "all calls", report, [&](auto& rank, auto& findings) {
          for (axis_set const over : rank.groups().sets())
            check_group(communicator_probe{rank, over, findings, options.sums_in_rank_order},
                        Elements{}, options, most);
          check_groups_in_turn(rank, findings, options.rounds);
        });
    if (!is_good) return false;
    most = most_for_all_roots;
  }
  return true;
}
template <class Elements, class Backend>
bool check_all_channels(Backend const& backend, communicator_suite_options const& options,
                        check_report& report) {
  if constexpr (!posts_messages<typename Backend::rank_type::communicator_type, double>) {
    report.checked.push_back("no posted messages, because the communicator has no post_send");
  } else {
    std::size_t most = static_cast<std::size_t>(-1);
    auto const what =
        options.has_channels ? "posted messages" : "posted messages, each sent at once,";
    for (mesh const& grid : stage_meshes_of(options.ranks)) {
      bool const is_good =
          check_on_mesh(backend, grid, what, report, [&](auto& rank, auto& findings) {
            check_channels(communicator_probe{rank, axis::stage, findings}, Elements{}, options,
                           most);
          });
      if (!is_good) return false;
      most = most_for_all_roots;
    }
  }
  return true;
}

}  // namespace detail

/// Makes every call of a backend's communicators, on all groups of meshes with `options.ranks`
/// ranks, and compares values, traffic and errors with the documented behaviour. The backend must
/// support `double` in addition to `Elements`.
///
/// The report's `checked` begins with the laws that the options leave out. Each process reports the
/// failures of its own ranks. The check ends after a run that threw an exception.
/// Cost:    seconds with the default options; a launch of the backend up to four times, and one
///          more for each of the mistakes.
template <class Elements = communicator_elements, class Backend>
[[nodiscard]] check_report check_communicators(Backend const& backend,
                                               communicator_suite_options const& options = {}) {
  static_assert(
      requires { typename Backend::rank_type::communicator_type; },
      "check_communicators: the backend has no rank_type, or its rank_type is not a rank_handle; "
      "declare using rank_type = plait::ext::rank_handle<device, communicator>;");
  using communicator_type = typename Backend::rank_type::communicator_type;
  detail::require_records<communicator_type>();
  detail::require_all_calls<communicator_type, double>();
  []<class... T>(element_list<T...>) {
    (detail::require_all_calls<communicator_type, T>(), ...);
  }(Elements{});
  plait::detail::require_range("communicator_suite_options::ranks", options.ranks,
                               number_ranges::at_least_1);
  plait::detail::require_range("communicator_suite_options::rounds", options.rounds,
                               number_ranges::at_least_0);
  if (options.sizes.empty())
    throw input_error(
        "communicator_suite_options::sizes is empty, so that no call would be compared; leave "
        "`sizes` out to use sizes from 0 to 100003");
  check_report report;
  report.checked = detail::left_out(options);
  if (!detail::check_all_calls<Elements>(backend, options, report) ||
      !detail::check_all_channels<Elements>(backend, options, report))
    return report;
  for (int which = 0; options.errors && options.ranks > 1 && which < communicator_error_count;
       ++which) {
    if (!options.compares_calls && communicator_error_is_compared(which)) continue;
    if (!options.compares_equal_groups && communicator_error_is_of_equal_groups(which)) continue;
    auto const found = check_communicator_error(backend, which, options.ranks);
    report.failures.insert(report.failures.end(), found.failures.begin(), found.failures.end());
    report.checked.insert(report.checked.end(), found.checked.begin(), found.checked.end());
  }
  return report;
}

}  // namespace plait::testing

#if PLAIT_HEADER_ONLY
#include "plait/testing/communicator_suite.ipp"
#endif
