// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/machine.hpp"

namespace plait::ext {

/// Returns the links between ranks as text for a terminal: two matrices, with a row for each sender
/// and a column for each receiver. A digit is the speed of the pair in tenths of the best speed: 9
/// means 90 to 100 %. The speed is the bandwidth in the first matrix, and the reciprocal of the
/// latency in the second one. '.' means that the pair was not measured. The ranks of a host are
/// next to each other. If there are more than 16 ranks, the result is instead a sentence that
/// recommends the option --svg of plait-doctor.
///
/// Example (tests/doctor/link_picture_test.cpp digits):
///     plait::ext::machine of;
///     of.ranks = {{.host = "a"}, {.host = "a"}, {.host = "b"}};
///     of.link_bytes_per_second = {{0, 8e9, 1e9}, {8e9, 0, 1e9}, {1e9, 4e9, 0}};
///     // Bandwidth in tenths of the best, 8 GB/s; rows send, columns receive:
///     //          0  1   2
///     //   a   0   -  9   1
///     //       1   9  -   1
///     //   b   2   1  5   -
///     std::string const text = plait::ext::link_digits(of);
///
/// Errors:  input_error if a matrix does not fit the number of ranks, or if a number is negative or
///          not finite; std::bad_alloc.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::string link_digits(machine const& of);

/// Returns the links between ranks as an SVG document: a matrix of bandwidths and a matrix of
/// latencies, with a row for each sender and a column for each receiver. The ranks of a host are
/// next to each other. A darker square is a slower link; the scale is logarithmic, because links
/// within hosts are often ten times as fast as links between hosts. Pairs of the findings
/// `slow-pair`, `slow-host` and `shared-link` have an outline. The document refers to no other
/// file.
///
/// If there are more than 256 ranks, a square shows the slowest of several pairs.
///
/// Cost:    about as many steps as there are pairs of ranks.
/// Errors:  as for link_digits().
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::string link_svg(machine const& of,
                                                 std::vector<finding> const& findings);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/link_picture.ipp"
#endif
