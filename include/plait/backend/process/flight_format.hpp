// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

// The format of a flight record, version 2, which scripts/flight reads. There is one file for each
// rank, in the byte order of its machine. It has three parts: flight_header; `groups` entries of
// flight_group, each with the offset of its members (std::int32_t) later in the file; and, for each
// of `threads` that make calls, `entries` slots of flight_entry. Times are nanoseconds of the
// steady clock, which all processes of one boot share. Texts end with a 0.
//
// A reader may open the file at any moment. `magic` is written after all that is known at the
// start. An entry is complete if `stamp` is not 0, `stamp` % `entries` is the entry's slot, and
// `check` equals the lower half of `stamp`: both are 0 while the entry is written. `end_ns` and
// `where` change later, each by one store.
namespace plait::detail {

/// The state of a process, in `flight_header::state`.
enum class flight_state : std::uint32_t {
  runs = 1,
  ended = 2,    ///< ended without an error, or together with all ranks
  failed = 3,   ///< failed by an error of this rank: `text`
  cut_off = 4,  ///< ended because another rank failed or did not arrive: `text`
};

/// The part of a call that a rank executes.
enum class flight_site : std::uint8_t {
  begun,
  compares,
  moves,
  posted  ///< a message under way that nothing waits for yet
};

/// One call of a communicator.
struct flight_entry {
  std::atomic<std::uint64_t> stamp;  ///< the number of the call in its thread, from 1 on
  std::int64_t begin_ns;
  std::atomic<std::int64_t> end_ns;  ///< 0 if the call has not ended
  std::uint64_t bytes;               ///< size that the program states
  std::uint64_t place;  ///< the call's number, from 1, among the collectives of the group, or among
                        ///< the messages to or from this peer
  std::uint32_t caller;  ///< the number of the trainer, 0 for a call outside of a trainer
  std::int32_t peer;     ///< the world rank of the root or of the other end, -1 without either
  std::uint16_t group;   ///< index of the flight_group
  std::uint8_t kind;     ///< plait::ext::collective
  std::atomic<flight_site> where;
  char element_kind;
  std::uint8_t element_bytes;
  std::uint8_t operation;  ///< plait::ext::reduction
  std::uint8_t unused;
  std::int32_t tag;
  std::atomic<std::uint32_t> check;
};
static_assert(sizeof(flight_entry) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// A group of which this rank is a member.
struct flight_group {
  std::array<char, 72> axes;  ///< "data x tensor"; "" for a group of one rank
  std::uint64_t members_at;   ///< file offset of the members' world ranks, in group order
  std::uint32_t size;
  std::uint32_t unused;
  std::atomic<std::uint64_t> collectives;  ///< number of collectives that have begun
  std::array<char, 32> unused_too;
};
static_assert(sizeof(flight_group) == 128);

struct flight_header {
  std::array<char, 8> magic;
  std::uint32_t version, byte_order;  ///< 2 and 0x01020304
  std::uint32_t rank, world_size, groups, entries;
  std::uint64_t groups_at, entries_at, file_bytes, pid;
  std::atomic<std::int64_t> beat_ns;         ///< last beat, see flight_ring::beat
  std::atomic<std::int64_t> wall_offset_ns;  ///< added to the steady clock, gives time since 1970
  std::atomic<std::int64_t> gap_from_ns, gap_to_ns;  ///< the last pause without beats that was long
  std::array<std::atomic<std::uint64_t>, 2> begun;   ///< the number of each thread's last call
  std::atomic<std::int64_t> state_ns;                ///< time of the last change of `state`
  std::atomic<flight_state> state;                   ///< written after `text`
  std::uint32_t threads;  ///< 1: only the rank's own; 2: a second one, too
  std::int64_t start_ns;
  std::array<char, 32> started;  ///< field 22 of /proc/PID/stat
  std::array<char, 48> boot, pids;
  std::array<char, 256> host, job, folder;
  std::array<char, 2048> text;
  std::array<char, 1016> unused_too;
};
static_assert(sizeof(flight_header) == 4096);

}  // namespace plait::detail
