// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/machine_costs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/machine_fields.hpp"

namespace plait::detail {

inline constexpr std::size_t nearest_products = 8;

// Throws an input_error about a number that was not measured.
[[noreturn]] PLAIT_DECL void refuse_cost(ext::machine const& of, std::string const& what) {
  throw input_error({"machine ", in_quotes(of.name), " has no measured ", what,
                     "; measure the machine again, with these included"});
}

PLAIT_DECL std::vector<ext::machine::product> products_of(ext::machine const& of,
                                                          std::string_view element_type,
                                                          ext::transposed_operand transposed) {
  std::vector<ext::machine::product> out;
  for (auto const& type : of.element_types)
    if (type.name == element_type)
      for (auto const& product : type.products)
        if (product.shape.transposed == transposed) out.push_back(product);
  if (out.empty())
    refuse_cost(of, concat({"products of element type ", in_quotes(element_type),
                            " with transposed operand '", word_of(transposed), "'"}));
  return out;
}

// The logarithms of a shape's lengths.
using shape_point = std::array<double, 3>;

PLAIT_DECL shape_point point_of(ext::product_shape const& shape) {
  return {std::log2(static_cast<double>(shape.rows)), std::log2(static_cast<double>(shape.columns)),
          std::log2(static_cast<double>(shape.inner))};
}

// Returns the speed of a product of any shape from the measured speeds; see seconds_of_product.
PLAIT_DECL double speed_between(std::vector<ext::machine::product> const& measured,
                                ext::product_shape const& shape) {
  shape_point at = point_of(shape);
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (auto const& product : measured) {
      least = std::min(least, point_of(product.shape)[axis]);
      most = std::max(most, point_of(product.shape)[axis]);
    }
    at[axis] = std::clamp(at[axis], least, most);
  }
  std::vector<std::pair<double, double>> points;  // squared distance, logarithm of the speed
  for (auto const& product : measured) {
    auto const other = point_of(product.shape);
    double distance = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      distance += (at[axis] - other[axis]) * (at[axis] - other[axis]);
    if (distance == 0) return product.flop_per_second;
    points.emplace_back(distance, std::log(product.flop_per_second));
  }
  std::sort(points.begin(), points.end());
  // Distances that differ only by rounding are equal.
  double const farthest = points[std::min(nearest_products, points.size()) - 1].first * (1 + 1e-9);
  double sum = 0, weights = 0;
  for (auto const& [distance, speed] : points) {
    if (distance > farthest) break;
    sum += speed / distance;
    weights += 1 / distance;
  }
  return std::exp(sum / weights);
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL double seconds_of_product(machine const& of, std::string_view element_type,
                                     product_shape const& shape) {
  auto const [rows, columns, inner, transposed] = shape;
  if (rows == 0 || columns == 0 || inner == 0)
    throw input_error({"a product of rows x columns x inner = ", rows, " x ", columns, " x ", inner,
                       " has a length of 0; each length must be at least 1"});
  auto const measured = detail::products_of(of, element_type, transposed);
  double const flop =
      2 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(inner);
  return flop / detail::speed_between(measured, shape);
}

PLAIT_DECL double seconds_of_collective(machine const& of, collective kind, rank_group over,
                                        std::uint64_t bytes) {
  auto const found =
      std::find_if(of.collectives.begin(), of.collectives.end(),
                   [&](auto const& one) { return one.kind == kind && one.over == over; });
  if (found == of.collectives.end() || found->times.empty())
    detail::refuse_cost(of, detail::concat({"times of ", to_string(kind), " over groups '",
                                            detail::word_of(over), "'"}));
  auto const& times = found->times;
  auto const next =
      std::find_if(times.begin(), times.end(), [&](auto const& one) { return one.bytes >= bytes; });
  if (next == times.begin()) return next->seconds;
  auto const& last = *(next - 1);
  auto const size = static_cast<double>(bytes), last_size = static_cast<double>(last.bytes);
  if (next == times.end()) return last.seconds * size / last_size;
  double const part = (size - last_size) / (static_cast<double>(next->bytes) - last_size);
  return last.seconds + part * (next->seconds - last.seconds);
}

PLAIT_DECL machine_link link_between(machine const& of, int sender, int receiver) {
  auto const count = of.ranks.size();
  auto const from = static_cast<std::size_t>(sender), to = static_cast<std::size_t>(receiver);
  if (sender < 0 || receiver < 0 || from >= count || to >= count || from == to)
    throw input_error({"machine ", detail::in_quotes(of.name), " has no link from rank ", sender,
                       " to rank ", receiver, "; give two different ranks from 0 to ",
                       count == 0 ? 0 : count - 1});
  bool const same_host = of.ranks[from].host == of.ranks[to].host;
  auto const& usual = same_host ? of.link_within_host : of.link_between_hosts;
  bool const is_measured =
      from < of.link_latency_seconds.size() && from < of.link_bytes_per_second.size() &&
      to < of.link_latency_seconds[from].size() && to < of.link_bytes_per_second[from].size() &&
      of.link_latency_seconds[from][to] != 0;
  if (!usual && !is_measured)
    detail::refuse_cost(of, same_host ? "link within a host" : "link between hosts");
  machine_link out = usual.value_or(machine_link{});
  if (is_measured) {
    out.latency_seconds = of.link_latency_seconds[from][to];
    out.bytes_per_second = of.link_bytes_per_second[from][to];
  }
  return out;
}

}  // namespace plait::ext
