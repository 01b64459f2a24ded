// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/link_limits.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/doctor/measured_job.hpp"
#include "plait/draw/svg.hpp"

namespace plait::detail::doctor {

/// Returns the number of characters of a text in UTF-8.
[[nodiscard]] [[gnu::cold]] std::size_t characters_in(std::string_view text);

/// The links of a machine, and its ranks in the order of a picture: the ranks of a host are next to
/// each other, and hosts are in the order of their first ranks.
///
/// Errors:  as for link_svg().
class ordered_links {
 public:
  /// `of` must live as long as the object.
  [[gnu::cold]] explicit ordered_links(ext::machine const& of);

  /// The rank at each position.
  [[nodiscard]] std::vector<std::size_t> const& order() const { return order_; }
  /// Returns the name of a rank's host. If the name of any host has more than 20 characters, "..."
  /// replaces the beginning that all names have in common: "...17" and "...21" for the hosts
  /// "cluster-rack-1-node-017" and "cluster-rack-1-node-021".
  [[nodiscard]] [[gnu::cold]] std::string name_of_host(std::size_t rank) const;
  /// Returns true if both ranks are on one host.
  [[nodiscard]] bool are_on_one_host(std::size_t a, std::size_t b) const {
    return limits_.host_of(a) == limits_.host_of(b);
  }
  [[nodiscard]] std::size_t hosts() const { return limits_.hosts().size(); }
  [[nodiscard]] ext::machine const& of() const { return of_; }

  /// Returns a number for each pair of ranks, at sender * ranks + receiver: 1 if one of the
  /// findings about links is about the pair, else 0. A finding names ranks, and so contains also
  /// directions of pairs that are fast. If some pairs of a finding are slow by the numbers of this
  /// machine, only these get a 1. `is_time`: true for the matrix of latencies, false for
  /// bandwidths.
  [[nodiscard]] [[gnu::cold]] std::vector<std::uint8_t> pairs_of(
      std::vector<ext::finding> const& findings, bool is_time) const;

 private:
  ext::machine const& of_;
  ext::measured_links links_{};
  link_limits limits_;
  std::vector<std::size_t> order_{};
  std::size_t omitted_ = 0;  ///< bytes at the beginning of each name that are not shown
};

/// A logarithmic scale of eight colours, from the best to the worst number of a matrix. The range
/// is at least a factor of 2, because noise would look like a fault on a smaller range.
///
/// The colours are shades of blue, from light to dark, which people with any kind of colour
/// blindness can tell apart (ColorBrewer, "Blues").
class colour_scale {
 public:
  static constexpr std::size_t levels = 8;

  /// `more_is_faster`: true if the best number is the greatest one.
  [[gnu::cold]] colour_scale(ext::machine::link_matrix const& of, bool more_is_faster);

  [[nodiscard]] bool is_empty() const { return best_ == 0; }
  [[nodiscard]] double best() const { return best_; }
  /// Returns the level of a number; 0 is the lightest colour.
  [[nodiscard]] [[gnu::cold]] std::size_t level(double value) const;
  /// Returns the number at a place of the scale, from 0, the best number, to 1, the worst.
  [[nodiscard]] [[gnu::cold]] double value_at(double place) const;
  [[nodiscard]] bool is_slower(double a, double b) const { return more_is_faster_ ? a < b : a > b; }

  [[nodiscard]] static constexpr char const* colour_of(std::size_t level) {
    constexpr std::array<char const*, levels> colours{"#deebf7", "#c6dbef", "#9ecae1", "#6baed6",
                                                      "#4292c6", "#2171b5", "#08519c", "#08306b"};
    return colours[level];
  }
  /// Returns true if white text is easier to read on the colour than black text.
  [[nodiscard]] static constexpr bool is_dark(std::size_t level) { return level >= 5; }

 private:
  bool more_is_faster_;
  double best_ = 0, worst_ = 0;
};

/// Returns the picture of link_svg() as a drawing, so that a test can check the positions of texts.
[[nodiscard]] [[gnu::cold]] planning::drawing drawing_of_links(
    ext::machine const& of, std::vector<ext::finding> const& findings);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/link_picture_parts.ipp"
#endif
