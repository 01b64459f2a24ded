// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

// The format of a flight record, version 2, which scripts/flight reads: a file for each rank with
// the last calls of its communicators, in the byte order of the rank's machine. The file has four
// parts: flight_header; header.groups entries of flight_group; for each of the header.threads
// threads that make calls, header.entries slots of flight_entry; and the members of the groups
// (std::int32_t), whose offsets flight_group has. Times are nanoseconds of the steady clock, which
// all processes of one boot share. Texts end with a null byte.
//
// A reader may open the file at any moment, while the rank writes it. The header is valid if it has
// `magic`, which is written after the other values. An entry is complete if `stamp` is not 0,
// `stamp` % `entries` is the number of the entry's slot, and `check` equals the lower 32 bits of
// `stamp`; `stamp` and `check` are 0 while the rank writes the entry. `end_ns` and `where` change
// later, each by one store.
namespace plait::detail {

/// The state of a process, in `flight_header::state`.
enum class flight_state : std::uint32_t {
  runs = 1,
  ended = 2,    ///< ended without an error, or by a job_ended that all ranks throw
  failed = 3,   ///< failed by an error of this rank; `text` has the message
  cut_off = 4,  ///< ended because another rank failed or did not arrive; `text` has the message
};

/// The part of a call that a rank executes at the moment.
enum class flight_site : std::uint8_t {
  begun,
  compares,
  moves,
  posted  ///< a posted message for which the rank does not wait yet
};

/// One call of a communicator.
struct flight_entry {
  /// Number of the call among the calls of its thread, from 1 on.
  std::atomic<std::uint64_t> stamp;
  std::int64_t begin_ns;
  std::atomic<std::int64_t> end_ns;  ///< 0 if the call has not ended
  std::uint64_t bytes;               ///< size of the vector or block that the program passed
  std::uint64_t place;  ///< the call's number, from 1, among the collectives of the group, or among
                        ///< the messages to or from this peer
  std::uint32_t caller;  ///< number of the trainer, 0 for a call outside of a trainer
  std::int32_t peer;     ///< world rank of the root or of the message's peer; -1 for other calls
  std::uint16_t group;   ///< index of the flight_group
  std::uint8_t kind;     ///< a value of plait::ext::collective
  std::atomic<flight_site> where;
  char element_kind;
  std::uint8_t element_bytes;
  std::uint8_t operation;  ///< a value of plait::ext::reduction
  std::uint8_t unused;
  std::int32_t tag;
  std::atomic<std::uint32_t> check;
};
static_assert(sizeof(flight_entry) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// A group of which this rank is a member.
struct flight_group {
  std::array<char, 72> axes;  ///< text such as "data x tensor"; "" for a group of one rank
  std::uint64_t members_at;   ///< file offset of the world ranks of the members, in group order
  std::uint32_t size;
  std::uint32_t unused;
  std::atomic<std::uint64_t> collectives;  ///< number of collectives that have begun
  std::array<char, 32> unused_too;
};
static_assert(sizeof(flight_group) == 128);

struct flight_header {
  std::array<char, 8> magic;
  std::uint32_t version, byte_order;  ///< their values are 2 and 0x01020304
  std::uint32_t rank, world_size, groups, entries;
  std::uint64_t groups_at, entries_at, file_bytes, pid;
  std::atomic<std::int64_t> beat_ns;         ///< time of the last call of flight_ring::beat
  std::atomic<std::int64_t> wall_offset_ns;  ///< time since 1970 minus time of the steady clock
  /// Begin and end of the last long pause without beats.
  std::atomic<std::int64_t> gap_from_ns, gap_to_ns;
  std::array<std::atomic<std::uint64_t>, 2> begun;  ///< the number of each thread's last call
  std::atomic<std::int64_t> state_ns;               ///< time of the last change of `state`
  std::atomic<flight_state> state;                  ///< written after `text`
  std::uint32_t threads;  ///< number of threads that make calls: 1, or 2 with a second_thread
  std::int64_t start_ns;
  std::array<char, 32> started;  ///< start time of the process: field 22 of /proc/PID/stat
  std::array<char, 48> boot, pids;
  std::array<char, 256> host, job, folder;
  std::array<char, 2048> text;
  std::array<char, 1016> unused_too;
};
static_assert(sizeof(flight_header) == 4096);

}  // namespace plait::detail
