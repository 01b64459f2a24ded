// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/process/flight_format.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Writes one flight record into memory that is mapped from a file.
///
/// Cost:    for each call two readings of the clock and stores to one cache line; no system call.
/// Threads: the `threads` threads that make calls may call begin, site and end at the same time,
///          but all calls of a group must be from the same thread. Any thread may call beat and
///          finish; only the first finish has an effect.
class flight_ring {
 public:
  static constexpr std::uint32_t entries = 256;
  /// Calls of beat() are 10 ms apart; a pause longer than this constant is recorded as a gap.
  static constexpr std::int64_t long_gap_ns = 500'000'000;

  /// A group in the record: the text of its axes and its members.
  struct group_description {
    std::string axes;
    std::vector<int> members;
  };

  static std::size_t bytes_for(std::vector<group_description> const& groups,
                               std::size_t threads = 1);

  /// `memory` is zeroed and has bytes_for(groups, threads) bytes, where `threads` is 1 or 2. The
  /// constructor calls describe(header), which sets the members that describe the process.
  template <class Describe>
  flight_ring(std::span<std::byte> memory, std::vector<group_description> const& groups,
              Describe describe, std::size_t threads = 1)
      : header_(std::construct_at(reinterpret_cast<flight_header*>(memory.data()))),
        groups_(reinterpret_cast<flight_group*>(memory.data() + sizeof(flight_header))),
        counts_(groups.size()) {
    auto& head = *header_;
    head.version = 2;
    head.byte_order = 0x01020304;
    head.groups = static_cast<std::uint32_t>(groups.size());
    head.entries = entries;
    head.threads = static_cast<std::uint32_t>(threads);
    head.groups_at = sizeof(flight_header);
    head.entries_at = head.groups_at + groups.size() * sizeof(flight_group);
    head.file_bytes = memory.size();
    entries_ = reinterpret_cast<flight_entry*>(memory.data() + head.entries_at);
    for (std::size_t i = 0; i < threads * entries; ++i) std::construct_at(entries_ + i);
    auto at = head.entries_at + threads * entries * sizeof(flight_entry);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      auto& group = *std::construct_at(groups_ + i);
      auto const& members = groups[i].members;
      put(group.axes, groups[i].axes);
      group.size = static_cast<std::uint32_t>(members.size());
      group.members_at = at;
      counts_[i].members = reinterpret_cast<std::int32_t*>(memory.data() + at);
      std::ranges::copy(members, counts_[i].members);
      counts_[i].sent.resize(members.size());
      counts_[i].received.resize(members.size());
      at += members.size() * sizeof(std::int32_t);
    }
    describe(head);
    head.start_ns = now();
    beat();
    head.state_ns = head.start_ns;
    head.state = flight_state::runs;
    std::atomic_thread_fence(std::memory_order_release);
    std::memcpy(head.magic.data(), "plaitfly", head.magic.size());
  }
  flight_ring(flight_ring const&) = delete;
  flight_ring& operator=(flight_ring const&) = delete;

  /// Copies `text` into `where`, truncated to Size - 1 characters.
  template <std::size_t Size>
  static void put(std::array<char, Size>& where, std::string_view text) {
    std::copy_n(text.begin(), std::min(text.size(), Size - 1), where.begin());
  }

  flight_entry& begin(std::size_t group, collective_call const& call, std::size_t thread = 0);
  static void site(flight_entry& entry, flight_site where) {
    entry.where.store(where, std::memory_order_relaxed);
  }
  static void end(flight_entry& entry) { entry.end_ns.store(now(), std::memory_order_release); }

  /// Records the current time as the last time at which the process ran; a stopped process
  /// (SIGSTOP) makes no beats, since all its threads are stopped. If two threads call this function
  /// at the same time, both record the same gap.
  void beat() noexcept;

  /// Records the final state of the process.
  void finish(flight_state how, std::string_view text) noexcept;

  /// Returns the pointer to the record that this process writes at the moment, or to null. A
  /// watchdog that ends the process writes the reason to this record.
  static std::atomic<flight_ring*>& of_process();

  static std::int64_t now();

 private:
  struct group_counts {
    std::int32_t* members = nullptr;
    std::uint64_t collectives = 0;
    std::vector<std::uint32_t> sent, received;
  };

  flight_header* header_;
  flight_group* groups_;
  flight_entry* entries_ = nullptr;
  std::vector<group_counts> counts_;
  std::array<std::uint64_t, 2> begun_{};  // number of calls of each thread so far
  std::atomic<bool> finished_{false};
};

/// Records the calls of one communicator in the flight record; does nothing if it was made without
/// a record.
class flight_log {
 public:
  flight_log() = default;
  flight_log(flight_ring& ring, int group, int thread = 0)
      : ring_(&ring),
        group_(static_cast<std::size_t>(group)),
        thread_(static_cast<std::size_t>(thread)) {}

  void begin(collective_call const& call) {
    if (ring_ != nullptr) entry_ = &ring_->begin(group_, call, thread_);
  }
  /// The entry of a posted message. A later call may overwrite the entry; the functions then do
  /// nothing.
  struct posted_entry {
    flight_entry* entry = nullptr;
    std::uint64_t stamp = 0;

    [[nodiscard]] bool is_there() const {
      return entry != nullptr && entry->stamp.load(std::memory_order_relaxed) == stamp;
    }
    /// Records that the rank begins to wait for the message.
    void wait() const {
      if (is_there()) flight_ring::site(*entry, flight_site::moves);
    }
    void end() const {
      if (is_there()) flight_ring::end(*entry);
    }
  };
  posted_entry post(collective_call const& call);
  void site(flight_site where) {
    if (ring_ != nullptr) flight_ring::site(*entry_, where);
  }
  /// Records that the call has ended without an error. A call that fails never ends in the record.
  void end() {
    if (ring_ != nullptr) flight_ring::end(*entry_);
  }

 private:
  flight_ring* ring_ = nullptr;
  flight_entry* entry_ = nullptr;
  std::size_t group_ = 0, thread_ = 0;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/flight_ring.ipp"
#endif
