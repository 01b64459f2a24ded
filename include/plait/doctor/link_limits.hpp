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

/// The limit for the speed of a link: a smaller share of the median speed is slow. The speed is the
/// bandwidth, or the reciprocal of the latency.
inline constexpr double least_link_share = 0.8;
/// The second limit for a latency, which is slow only if it also exceeds the median by at least
/// this time. A message between neighbouring cores takes a few microseconds less than a message
/// between sockets, for example 2 us instead of 6 us. A limit for the ratio alone would find
/// healthy links.
inline constexpr double least_excess_seconds = 10e-6;
/// The limit for the speed of a rank at work: a smaller share of the expected speed is slow.
inline constexpr double least_work_share = 0.9;

/// Returns the middle value of numbers or, if there are two middle values, the faster one. Of two
/// numbers it is the faster one, so that the slower one can be slow in comparison.
/// `more_is_faster`: true for speeds, false for times. The list must not be empty.
[[nodiscard]] [[gnu::cold]] double faster_median(std::vector<double> of, bool more_is_faster);

/// Returns a ratio with two digits, such as "0.62" or "12".
[[nodiscard]] [[gnu::cold]] std::string ratio_text(double ratio);
/// Returns bytes per second with three digits, such as "12.5 GB/s" (a GB has 10^9 bytes).
[[nodiscard]] [[gnu::cold]] std::string rate_text(double bytes_per_second);
/// Returns a time with three digits, such as "4.8 us" or "1.2 ms".
[[nodiscard]] [[gnu::cold]] std::string time_text(double seconds);

/// Checks that a list of a measured_job has an element for each rank. `what`: the name of the
/// elements in the error.
///
/// Errors:  input_error with both numbers.
[[gnu::cold]] void require_size(std::string const& list, std::size_t size, std::string_view what,
                                std::size_t ranks);

/// The bandwidths, or the latencies, of all pairs of ranks, and their medians. The two directions
/// of a pair are two numbers.
///
/// Pairs within a host and pairs between hosts are two kinds, and each kind has its own median.
/// This is the median over ranks of the median of each rank's pairs. For example, the interface of
/// one of three hosts is slow. Two thirds of the pairs between hosts are then slow, and so is their
/// median. But half of the pairs of each rank on the other hosts are fast, so these ranks, two
/// thirds of all ranks, have a fast median (see faster_median()), and the median over ranks is
/// fast.
///
/// Cost:    about as many steps as there are pairs.
/// Errors:  input_error if a matrix does not fit the number of ranks, or if a number is negative or
///          not finite.
/// Threads: as for a std::vector.
class link_numbers {
 public:
  /// `of`: the numbers while all pairs send; `alone`: while no other pair sends; `host_of`: the
  /// index of each rank's host. All three must live as long as the object. `more_is_faster`: true
  /// for bandwidths, false for latencies.
  [[gnu::cold]] link_numbers(ext::machine::link_matrix const& of,
                             ext::machine::link_matrix const& alone,
                             std::vector<std::size_t> const& host_of, bool more_is_faster);

  /// Returns true if the pair was measured, and its kind has a median.
  [[nodiscard]] bool is_compared(std::size_t from, std::size_t to) const {
    return value(from, to) > 0 && median(from, to) > 0;
  }
  /// Returns true if the pair was slow while all pairs sent.
  [[nodiscard]] [[gnu::cold]] bool is_slow(std::size_t from, std::size_t to) const;
  /// Returns true if the pair was measured while no other pair sent, and was not slow then.
  [[nodiscard]] [[gnu::cold]] bool is_fine_alone(std::size_t from, std::size_t to) const;

  /// Returns the number of a pair while all pairs send; 0: not measured.
  [[nodiscard]] double value(std::size_t from, std::size_t to) const {
    return of_.empty() ? 0 : of_[from][to];
  }
  /// Returns the number of a pair while no other pair sends; 0: not measured.
  [[nodiscard]] double alone(std::size_t from, std::size_t to) const {
    return alone_.empty() ? 0 : alone_[from][to];
  }
  /// Returns the median of the pair's kind; 0 if the kind has fewer than two measured pairs.
  [[nodiscard]] double median(std::size_t from, std::size_t to) const {
    return medians_[kind(from, to)];
  }
  /// Returns the speed of a pair with the number `value` as a share of the median: less than 1 if
  /// it is slower than the median.
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

/// The result of the comparison of a pair, in ascending order of severity: the state of both
/// directions together is the greater one.
enum class link_state : std::uint8_t {
  not_compared,
  fine,
  shared,  ///< slow only while other pairs send, because it shares a link with them
  slow
};

/// The links of a job, compared with the limits.
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
