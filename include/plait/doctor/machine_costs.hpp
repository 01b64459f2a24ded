// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "plait/core/header_only.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/placement/collective.hpp"

namespace plait::ext {

/// Returns the seconds that a rank needs for a matrix product, from the measured products with the
/// same element type and the same transposed operand.
///
/// If the shape was measured, the result is the measured time. Otherwise the speed in FLOP/s is a
/// weighted geometric mean of the speeds of the eight nearest measured shapes, and of all others
/// that are as near as the eighth. The distance of two shapes is the Euclidean distance of the
/// logarithms of rows, columns and inner, and the weight is 1 / distance^2. For example, if only
/// 64 x 64 x 64 was measured, with 10 GFLOP/s, and 256 x 256 x 256, with 40 GFLOP/s, then a product
/// of 128 x 128 x 128 has sqrt(10 * 40) = 20 GFLOP/s. For this mean, a length outside the measured
/// range counts as the end of the range, so a product of 512 x 512 x 512 has 40 GFLOP/s.
///
/// Cost:   proportional to the number of measured products.
/// Errors: input_error if no such product was measured, or if a length is 0.
///
/// Example (tests/doctor/machine_costs_test.cpp seconds_of_product):
///     double const seconds = plait::ext::seconds_of_product(
///         machine, "float", {.rows = 4096, .columns = 1024, .inner = 768});
[[nodiscard]] double seconds_of_product(machine const& of, std::string_view element_type,
                                        product_shape const& shape);

/// Returns the seconds of a collective, from its measured times. `bytes`: the size of a
/// rank's operand or of its result, whichever is larger.
///
/// The time is linear between two measured sizes. A smaller size takes as long as the smallest
/// measured size. A larger size has the bandwidth of the largest measured size.
///
/// Errors: input_error if the collective was not measured over such groups.
[[nodiscard]] double seconds_of_collective(machine const& of, collective kind, rank_group over,
                                           std::uint64_t bytes);

/// Returns the link from one rank to another: its measured latency and bandwidth, or, if this pair
/// was not measured, the link within a host or between hosts.
///
/// Errors: input_error if there is no such rank, if both are the same rank, or if no such link was
///         measured.
[[nodiscard]] machine_link link_between(machine const& of, int sender, int receiver);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/machine_costs.ipp"
#endif
