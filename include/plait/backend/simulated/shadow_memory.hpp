// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "plait/core/header_only.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

// The history of the bytes of one rank's device: the operation that wrote them last, the operations
// that have read them since, and whether their values are defined.
//
// An operation is identified by its stream and its number in the stream, from 1 on. Waits and
// events tell an operation how many operations of each other stream have ended before it begins; it
// "knows" this number for each stream of its rank. For example, operation 7 of stream data has
// written some bytes. An operation of stream compute that knows 7 ended operations of stream data
// may read these bytes; if it knows only 6, the read is a race.
// Cost:   O(log(cells)) for an access to one cell, which is a range of bytes with equal histories;
//         equal neighbouring cells are merged.
class shadow_memory {
 public:
  using address = std::uintptr_t;
  static constexpr auto streams = static_cast<std::size_t>(stream_count);

  // The operation that accesses memory, and for each stream the number of operations that it knows
  // to have ended.
  struct accessor {
    std::size_t on = 0;
    std::uint32_t number = 0;
    std::array<std::uint32_t, streams> known{};
  };

  enum class state { fine, race, undefined, foreign };

  // The result of a check of an access: the fault, if any, and the bytes [begin, end) that have it.
  // `on`, `number` and `wrote` identify the earlier access to these bytes; `number` is 0 if the
  // accessing operation knows that the earlier access has ended.
  struct finding {
    state what = state::fine;
    address begin = 0, end = 0;
    std::size_t on = 0;
    std::uint32_t number = 0;
    bool wrote = false;
  };

  struct arena {
    address end = 0;
    int number = 0;
  };

  void add(address begin, std::size_t bytes, int number);

  void remove(address begin);

  // Returns the arena that contains all bytes [begin, end); not_found() if there is none.
  [[nodiscard]] auto find(address begin, address end) const {
    auto const next = arenas_.upper_bound(begin);
    if (next == arenas_.begin()) return arenas_.end();
    auto const found = std::prev(next);
    return end <= found->second.end ? found : arenas_.end();
  }
  [[nodiscard]] auto not_found() const { return arenas_.end(); }

  // Checks and records a read, and returns the fault that it finds. If the range has a race and
  // also undefined bytes, the race is returned. A race with an operation that made the bytes
  // undefined is returned as state::undefined with a number: the actual fault may be that the
  // operation which should write the bytes is late.
  finding read(address begin, address end, accessor const& by);

  // Checks and records a write, and returns the race that it finds. `is_defined` is false if the
  // new values are undefined.
  finding write(address begin, address end, accessor const& by, bool is_defined);

  // Notes that all operations so far have ended and that every later operation knows this.
  void forget_accesses();

 private:
  struct cell {
    address end = 0;
    int arena = 0;
    std::uint8_t writer = 0;  // stream of the last write
    bool is_defined = false;
    std::uint32_t writer_number = 0;
    // For each stream the last reader since the write.
    std::array<std::uint32_t, streams> readers{};

    [[nodiscard]] bool is_like(cell const& other) const;
  };
  using iterator = std::map<address, cell>::iterator;

  // If address `at` is inside a cell, splits the cell there. Returns the first cell that begins at
  // `at` or later.
  iterator split(address at);

  // Merges a cell with the previous cell, if they are adjacent and equal. Returns the cell that
  // then contains the address.
  iterator merge_with_previous(iterator at);
  void merge_at(address begin) {
    if (auto const next = cells_.find(begin); next != cells_.end()) merge_with_previous(next);
  }

  std::map<address, arena> arenas_;
  std::map<address, cell> cells_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/shadow_memory.ipp"
#endif
