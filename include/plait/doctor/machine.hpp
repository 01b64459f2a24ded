// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/placement/collective.hpp"

namespace plait::ext {

/// The operand of a matrix product a b that is stored transposed. A training step has all three
/// kinds: `none` in a forward, `b` for the gradient of an input, `a` for the gradient of a weight.
enum class transposed_operand { none, a, b };

/// A product of a (rows, inner) and b (inner, columns), without regard to the way they are stored.
struct product_shape {
  std::size_t rows = 1, columns = 1, inner = 1;
  transposed_operand transposed = transposed_operand::none;

  friend bool operator==(product_shape const&, product_shape const&) = default;
};

/// The ranks that take part in a measured collective: all ranks, the ranks of each host at the same
/// time, or one rank of each host.
enum class rank_group { world, host, one_per_host };

/// A connection through which two ranks exchange data. A message of n bytes takes about
/// latency_seconds + n / bytes_per_second while no other rank uses the link.
struct machine_link {
  double latency_seconds = 1;
  double bytes_per_second = 1;
  std::size_t shared_by = 1;  ///< the number of devices that share bytes_per_second
  friend bool operator==(machine_link const&, machine_link const&) = default;
};

/// The measurements of a job's machine that a planner needs: hosts, speeds of products, links,
/// collectives.
///
/// read_machine and write_machine move it from and to a machine file, which has a field of the same
/// name for each member. Numbers are measured while all ranks work, because a rank of a job shares
/// its host with other ranks, too. An empty list, or an optional without a value, means that
/// nothing was measured.
///
/// Units:  seconds, bytes, bytes per second, floating-point operations per second.
struct machine {
  /// A name with its value, such as the version of a library.
  struct named_text {
    std::string name{}, value{};
    friend bool operator==(named_text const&, named_text const&) = default;
  };

  struct host {
    std::string name{};
    std::size_t devices = 1;                ///< the number of ranks that the host can run
    std::uint64_t memory_bytes = 1;         ///< the memory of the host
    std::uint64_t device_memory_bytes = 1;  ///< the memory of each device
    friend bool operator==(host const&, host const&) = default;
  };

  struct rank {
    std::string host{};               ///< the name of the rank's host
    std::vector<std::size_t> cpus{};  ///< the numbers of the allowed processors, in ascending order
    /// The speed of the rank at products, as a multiple of the speed of the median rank.
    std::optional<double> speed{};
    friend bool operator==(rank const&, rank const&) = default;
  };

  struct product {
    product_shape shape{};
    double flop_per_second = 1;
    friend bool operator==(product const&, product const&) = default;
  };

  struct attention {
    std::size_t head_width = 1;
    double flop_per_second = 1;
    friend bool operator==(attention const&, attention const&) = default;
  };

  /// The speeds of a rank with elements of one type.
  struct element_type {
    std::string name{};  ///< "double", "float" or "bfloat16"
    std::vector<product> products{};
    std::vector<attention> attentions{};
    std::optional<double> row_bytes_per_second{};  ///< bytes that row-wise layers read and write
    std::optional<double> optimizer_bytes_per_second{};
    std::optional<double> seconds_per_operation{};  ///< the overhead of starting an operation
    friend bool operator==(element_type const&, element_type const&) = default;
  };

  struct collective_time {
    std::uint64_t bytes = 1;
    double seconds = 1;
    friend bool operator==(collective_time const&, collective_time const&) = default;
  };

  /// The times of one collective over groups of one kind. `bytes` is the size of a rank's operand
  /// or of its result, whichever is larger: of the sum for all_reduce, and of the whole result for
  /// all_gather.
  struct collective_times {
    collective kind = collective::all_reduce;
    rank_group over = rank_group::world;
    std::size_t ranks = 2;                 ///< the number of ranks of a group
    std::vector<collective_time> times{};  ///< in ascending order of bytes; at least two
    friend bool operator==(collective_times const&, collective_times const&) = default;
  };

  /// A square matrix with a row for each sender and a column for each receiver. 0 means that the
  /// pair was not measured, as on the diagonal.
  using link_matrix = std::vector<std::vector<double>>;

  std::string name{};
  std::string date{};  ///< the time of the measurement in UTC: "2026-11-30T09:15:00Z"
  std::string backend{};
  bool quiet = false;  ///< true if other processes used at most 5 % of the ranks' processors
  std::vector<named_text> versions{}, settings{};
  std::vector<host> hosts{};
  std::vector<rank> ranks{};  ///< the entry at i is rank i
  /// The bytes that a rank reads and writes in a copy, per second.
  std::optional<double> memory_bytes_per_second{};
  std::vector<element_type> element_types{};
  std::optional<machine_link> link_within_host{}, link_between_hosts{};
  link_matrix link_latency_seconds{}, link_bytes_per_second{};
  std::vector<collective_times> collectives{};

  friend bool operator==(machine const&, machine const&) = default;
};

}  // namespace plait::ext
