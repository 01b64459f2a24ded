// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

// The format of a flight record, version 2, as scripts/flight reads it: one file for each rank, in
// the byte order of its machine, of three parts: flight_header; `groups` times flight_group, each
// with its members (std::int32_t) somewhere behind; for each of `threads` that make calls `entries`
// times flight_entry. Times are nanoseconds of the steady clock, the same for all processes of one
// boot. Texts end with a 0.
//
// A reader may come at any moment. `magic` is written last of what is known at the start. An entry
// is whole where `stamp` is not 0, is number % entries = its place, and `check` has its lower half:
// both are 0 while it is written. `end_ns` and `where` change later, each by one store.
namespace plait::detail {

/// What became of a process, as `flight_header::state` has it.
enum class flight_state : std::uint32_t {
  runs = 1,
  ended = 2,    ///< well, or together with all ranks
  failed = 3,   ///< by an error of its own: `text`
  cut_off = 4,  ///< since another rank failed or did not come: `text`
};

/// Which part of a call a rank is in.
enum class flight_site : std::uint8_t {
  begun,
  compares,
  moves,
  posted  ///< a message that is on its way, and for which nobody waits yet
};

/// One call of a communicator.
struct flight_entry {
  std::atomic<std::uint64_t> stamp;  ///< the number of the call in its thread, from 1 on
  std::int64_t begin_ns;
  std::atomic<std::int64_t> end_ns;  ///< 0: it has not ended
  std::uint64_t bytes;               ///< as the call has them
  std::uint64_t place;   ///< its number, from 1, among the collectives of the group, or among the
                         ///< messages to, or from, this peer
  std::uint32_t caller;  ///< the number of the trainer, 0 outside of one
  std::int32_t peer;     ///< the world rank of the root or the other end, -1 if there is none
  std::uint16_t group;   ///< which flight_group
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
  std::array<char, 72> axes;  ///< "data x tensor"; "" of a rank alone
  std::uint64_t members_at;   ///< where in the file its world ranks are, in group order
  std::uint32_t size;
  std::uint32_t unused;
  std::atomic<std::uint64_t> collectives;  ///< how many have begun
  std::array<char, 32> unused_too;
};
static_assert(sizeof(flight_group) == 128);

struct flight_header {
  std::array<char, 8> magic;
  std::uint32_t version, byte_order;  ///< 2 and 0x01020304
  std::uint32_t rank, world_size, groups, entries;
  std::uint64_t groups_at, entries_at, file_bytes, pid;
  std::atomic<std::int64_t> beat_ns;         ///< when a thread of the process last ran; see below
  std::atomic<std::int64_t> wall_offset_ns;  ///< what makes time since 1970 of the steady clock
  std::atomic<std::int64_t> gap_from_ns, gap_to_ns;  ///< the last time of no beat, if it was long
  std::array<std::atomic<std::uint64_t>, 2> begun;   ///< the number of each thread's last call
  std::atomic<std::int64_t> state_ns;                ///< since when `state` is what it is
  std::atomic<flight_state> state;                   ///< written behind `text`
  std::uint32_t threads;                             ///< the rank's own, and perhaps a second one
  std::int64_t start_ns;
  std::array<char, 32> started;  ///< field 22 of /proc/PID/stat
  std::array<char, 48> boot, pids;
  std::array<char, 256> host, job, folder;
  std::array<char, 2048> text;
  std::array<char, 1016> unused_too;
};
static_assert(sizeof(flight_header) == 4096);

}  // namespace plait::detail
