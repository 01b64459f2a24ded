// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::detail::doctor {

/// The smallest share of the median bandwidth, and of the reciprocal of the median latency, that
/// does not count as slow.
inline constexpr double least_link_share = 0.8;
/// The smallest excess of a latency over the median that counts as slow. A message between
/// neighbouring cores takes a few microseconds less than a message between sockets, and so a ratio
/// alone would find healthy links.
inline constexpr double least_excess_seconds = 10e-6;
/// The smallest share of a rank's speed that does not count as slow.
inline constexpr double least_work_share = 0.9;

/// Returns the middle value of numbers; of two middle values, the faster one. A slow number of two
/// is thus less than the median. `more_is_faster`: false for times. The list must not be empty.
[[nodiscard]] [[gnu::cold]] double faster_median(std::vector<double> of, bool more_is_faster);

/// Returns a ratio with two digits, such as "0.62" or "12".
[[nodiscard]] [[gnu::cold]] std::string ratio_text(double ratio);
/// Returns bytes per second with three digits, such as "12.5 GB/s" (a GB has 10^9 bytes).
[[nodiscard]] [[gnu::cold]] std::string rate_text(double bytes_per_second);
/// Returns a time with three digits, such as "4.8 us" or "1.2 ms".
[[nodiscard]] [[gnu::cold]] std::string time_text(double seconds);

/// Checks the size of a list of a measured_job.
///
/// Errors:  input_error with both numbers.
[[gnu::cold]] void require_size(std::string const& list, std::size_t size, std::string_view what,
                                std::size_t ranks);

/// The bandwidths, or the latencies, of all pairs of ranks, as shares of their median.
///
/// Pairs on one host and pairs between hosts are two kinds, and each is compared with its own
/// median. The median of a kind is the median over the ranks of the median over each rank's pairs.
/// Thus, if one of three hosts is slow, the median is a healthy link, although two thirds of the
/// pairs are slow.
///
/// Cost:    about as many steps as there are pairs.
/// Errors:  input_error if a matrix does not fit the number of ranks, or if a number is negative or
///          not finite.
/// Threads: as for a std::vector.
class link_numbers {
 public:
  /// `more_is_faster`: true for bandwidths, false for latencies.
  [[gnu::cold]] link_numbers(ext::machine::link_matrix const& of,
                             ext::machine::link_matrix const& alone,
                             std::vector<std::size_t> const& host_of, bool more_is_faster);

  /// Returns true if there is something to compare the pair with.
  [[nodiscard]] bool is_compared(std::size_t from, std::size_t to) const {
    return value(from, to) > 0 && median(from, to) > 0;
  }
  /// Returns true if the pair was slow while all pairs sent.
  [[nodiscard]] [[gnu::cold]] bool is_slow(std::size_t from, std::size_t to) const;
  /// Returns true if the pair was measured again and was not slow while no other pair sent.
  [[nodiscard]] [[gnu::cold]] bool is_fine_alone(std::size_t from, std::size_t to) const;

  /// The measured number of a pair; 0: not measured.
  [[nodiscard]] double value(std::size_t from, std::size_t to) const {
    return of_.empty() ? 0 : of_[from][to];
  }
  [[nodiscard]] double alone(std::size_t from, std::size_t to) const {
    return alone_.empty() ? 0 : alone_[from][to];
  }
  /// The median of the pair's kind; 0 if fewer than two pairs were measured.
  [[nodiscard]] double median(std::size_t from, std::size_t to) const {
    return medians_[kind(from, to)];
  }
  /// The speed of a pair as a share of the median: less than 1 if the pair is slow.
  [[nodiscard]] double share(double value, std::size_t from, std::size_t to) const {
    return more_is_faster_ ? value / median(from, to) : median(from, to) / value;
  }

 private:
  [[nodiscard]] std::size_t kind(std::size_t from, std::size_t to) const {
    return host_of_[from] == host_of_[to] ? 0 : 1;
  }
  [[nodiscard]] [[gnu::cold]] bool is_below_limit(double value, std::size_t from,
                                                  std::size_t to) const;

  ext::machine::link_matrix const& of_;
  ext::machine::link_matrix const& alone_;
  std::vector<std::size_t> const& host_of_;
  bool more_is_faster_;
  std::array<double, 2> medians_{};
};

/// The result of the comparison of a pair.
enum class link_state : std::uint8_t {
  not_compared,
  fine,
  shared,  ///< slow only while other pairs send
  slow
};

/// The links of a job with their limits.
///
/// Errors:  as for link_numbers.
class link_limits {
 public:
  /// Both arguments must live as long as the object.
  [[gnu::cold]] link_limits(measured_links const& links, std::vector<std::string> const& hosts);
  link_limits(link_limits const&) = delete;
  link_limits& operator=(link_limits const&) = delete;

  /// Returns the state of the pair in one direction.
  [[nodiscard]] [[gnu::cold]] link_state state(std::size_t from, std::size_t to) const;

  [[nodiscard]] std::size_t ranks() const { return host_of_.size(); }
  /// The names of the hosts, in the order of their first ranks.
  [[nodiscard]] std::vector<std::string> const& hosts() const { return hosts_; }
  /// The index of a rank's host in hosts().
  [[nodiscard]] std::size_t host_of(std::size_t rank) const { return host_of_[rank]; }
  [[nodiscard]] link_numbers const& bandwidths() const { return bandwidths_; }
  [[nodiscard]] link_numbers const& latencies() const { return latencies_; }

 private:
  std::vector<std::string> hosts_{};
  std::vector<std::size_t> host_of_{};
  link_numbers bandwidths_, latencies_;
};

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/link_limits.ipp"
#endif
