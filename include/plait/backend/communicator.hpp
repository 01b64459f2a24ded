// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/placement/collective.hpp"

namespace plait {

/// The exception of a rank that has waited for other ranks longer than its backend allows. `what()`
/// lists the state of every rank, if the backend knows it.
struct communication_timeout : error {
  using error::error;
};

}  // namespace plait

namespace plait::ext {

/// The tag by which a type declares itself a communicator: `using concept_tag = communicator_tag;`.
struct communicator_tag {};

/// The optional members of a communicator, by name.
struct communicator_parts {
  /// room_bytes() -> size_t: returns the size of the memory that sums have allocated so far for the
  /// other ranks' values; see ranked_sum.
  bool sums_in_room = false;
};

/// One member of a fixed group of ranks that run the same program, like a communicator of MPI or a
/// process group of PyTorch.
///
/// Syntax:  rank(), size() -> int, both noexcept; barrier() -> void. The constant `parts` names the
///          optional members that the type has.
/// Meaning: 0 <= rank() < size(); both never change; barrier() returns on no rank before the last
///          rank has called it. All ranks call all collectives in the same order.
template <class Comm>
concept communicator = std::same_as<typename Comm::concept_tag, communicator_tag> &&
                       requires(Comm& comm, Comm const& constant) {
                         { constant.rank() } noexcept -> std::same_as<int>;
                         { constant.size() } noexcept -> std::same_as<int>;
                         { comm.barrier() } -> std::same_as<void>;
                         { Comm::parts } -> std::convertible_to<communicator_parts>;
                         requires !Comm::parts.sums_in_room || requires {
                           { constant.room_bytes() } -> std::same_as<std::size_t>;
                         };
                       };

/// Replaces element i of `inout`, on every rank, by the sum or the maximum of the elements i of all
/// ranks; the result has equal bits on every rank.
template <class Comm, class T>
concept can_all_reduce =
    communicator<Comm> && requires(Comm& comm, std::span<T> inout, reduction operation) {
      { comm.all_reduce(inout) } -> std::same_as<void>;
      { comm.all_reduce(inout, operation) } -> std::same_as<void>;
    };

/// Concatenates `send` of all ranks, in rank order, into `receive` on every rank.
template <class Comm, class T>
concept can_all_gather =
    communicator<Comm> && requires(Comm& comm, std::span<T const> send, std::span<T> receive) {
      { comm.all_gather(send, receive) } -> std::same_as<void>;
    };

/// Sums `send` over all ranks and stores block r of the sum in `receive` on rank r.
template <class Comm, class T>
concept can_reduce_scatter =
    communicator<Comm> && requires(Comm& comm, std::span<T const> send, std::span<T> receive) {
      { comm.reduce_scatter(send, receive) } -> std::same_as<void>;
    };

/// Moves block j of `send` on rank i to block i of `receive` on rank j; all blocks have equal
/// sizes.
template <class Comm, class T>
concept can_all_to_all =
    communicator<Comm> && requires(Comm& comm, std::span<T const> send, std::span<T> receive) {
      { comm.all_to_all(send, receive) } -> std::same_as<void>;
    };

/// Copies `inout` of rank `root` to every rank.
template <class Comm, class T>
concept can_broadcast = communicator<Comm> && requires(Comm& comm, std::span<T> inout, int root) {
  { comm.broadcast(inout, root) } -> std::same_as<void>;
};

/// Sends values from one rank to another. A send may return only after the receive, so a program
/// must not rely on buffering.
template <class Comm, class T>
concept can_send_receive = communicator<Comm> && requires(Comm& comm, std::span<T const> values,
                                                          std::span<T> buffer, int rank, int tag) {
  { comm.send(values, rank, tag) } -> std::same_as<void>;
  { comm.receive(buffer, rank, tag) } -> std::same_as<void>;
};

/// A communicator with all collectives, and messages between two ranks. plait's own communicators
/// satisfy it.
template <class Comm, class T>
concept can_all =
    can_all_reduce<Comm, T> && can_all_gather<Comm, T> && can_reduce_scatter<Comm, T> &&
    can_all_to_all<Comm, T> && can_broadcast<Comm, T> && can_send_receive<Comm, T>;

/// Counts the calls of one member of a group, and the bytes that these calls send. They are counted
/// without knowledge of the plan, so that a test can compare them with the plan.
///
/// Units:   bytes that the busiest rank sends if the algorithm is bandwidth-optimal, each call
///          rounded up to whole bytes. The number of bytes that a library actually sends may
///          differ.
class traffic {
 public:
  /// Returns the number of bytes of one call in a group of `ranks` ranks. `tensor_bytes` is the
  /// size of the vector for all_reduce, broadcast and send, of the larger buffer for all_gather and
  /// reduce_scatter, and of the send buffers of all ranks together for all_to_all. For example, an
  /// all_reduce of 800 bytes on 4 ranks counts 2 * 800 * 3 / 4 = 1200 bytes.
  [[nodiscard]] static constexpr std::uint64_t bytes_sent(collective kind,
                                                          std::uint64_t tensor_bytes, int ranks) {
    if (ranks <= 1) return 0;
    auto const p = static_cast<std::uint64_t>(ranks);
    auto const divide_up = [](std::uint64_t n, std::uint64_t d) { return (n + d - 1) / d; };
    switch (kind) {
      case collective::all_reduce: return divide_up(2 * tensor_bytes * (p - 1), p);
      case collective::all_gather:
      case collective::reduce_scatter: return divide_up(tensor_bytes * (p - 1), p);
      case collective::all_to_all: return divide_up(tensor_bytes * (p - 1), p * p);
      case collective::broadcast:
      case collective::send: return tensor_bytes;
      case collective::none:
      case collective::receive:  // the rank that sends counts the bytes
      case collective::barrier:
      case collective::reduce:  // no communicator has reduce, scatter and gather
      case collective::scatter:
      case collective::gather: return 0;
    }
    return 0;
  }

  constexpr void record(collective kind, std::uint64_t tensor_bytes, int ranks) {
    auto& count = entries_[static_cast<std::size_t>(kind)];
    ++count.calls;
    count.bytes += bytes_sent(kind, tensor_bytes, ranks);
  }

  [[nodiscard]] constexpr std::uint64_t calls(collective kind) const {
    return entries_[static_cast<std::size_t>(kind)].calls;
  }

  [[nodiscard]] constexpr std::uint64_t bytes(collective kind) const {
    return entries_[static_cast<std::size_t>(kind)].bytes;
  }

  [[nodiscard]] constexpr std::uint64_t total_bytes() const {
    std::uint64_t total = 0;
    for (auto const& count : entries_) total += count.bytes;
    return total;
  }

  constexpr void reset() { entries_ = {}; }

  friend constexpr bool operator==(traffic const&, traffic const&) = default;

 private:
  struct entry {
    std::uint64_t calls = 0;
    std::uint64_t bytes = 0;
    friend constexpr bool operator==(entry const&, entry const&) = default;
  };

  std::array<entry, collective_count> entries_{};
};

}  // namespace plait::ext
