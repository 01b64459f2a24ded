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
// An operation is identified by its stream and its number there. Only the rank's own operations
// touch its memory, so one number for each stream says which accesses an operation knows to be
// over. For example, operation 7 of stream data has written some bytes: an operation of stream
// compute that knows 7 operations of stream data to have ended may read them; if it knows only 6,
// the read is a race.
// Cost:   O(log(cells)) for an access that meets one cell; equal neighbouring cells are merged.
class shadow_memory {
 public:
  using address = std::uintptr_t;
  static constexpr auto streams = static_cast<std::size_t>(stream_count);

  // The operation that makes an access, and for each stream the last operation that it knows to
  // have ended.
  struct accessor {
    std::size_t on = 0;
    std::uint32_t number = 0;
    std::array<std::uint32_t, streams> known{};
  };

  enum class state { fine, race, undefined, foreign };

  // The fault of an access, and its place. `on`, `number` and `wrote` identify the other access to
  // the bytes; number is 0 if that is known to be over.
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

  // Returns the arena that contains all these bytes; end() if there is none.
  [[nodiscard]] auto find(address begin, address end) const {
    auto const next = arenas_.upper_bound(begin);
    if (next == arenas_.begin()) return arenas_.end();
    auto const found = std::prev(next);
    return end <= found->second.end ? found : arenas_.end();
  }
  [[nodiscard]] auto not_found() const { return arenas_.end(); }

  // A race anywhere in the range is reported before undefined bytes. A race with an operation that
  // made the bytes undefined is left to the caller: perhaps the operation that should have written
  // them is late.
  finding read(address begin, address end, accessor const& by);

  // `is_defined` is false if the new values are undefined.
  finding write(address begin, address end, accessor const& by, bool is_defined);

  // Notes that every later operation knows that all operations so far have ended.
  void forget_accesses();

 private:
  struct cell {
    address end = 0;
    int arena = 0;
    std::uint8_t writer = 0;  // stream of the last write
    bool is_defined = false;
    std::uint32_t writer_number = 0;
    std::array<std::uint32_t, streams> readers{};  // last reader of each stream since the write

    [[nodiscard]] bool is_like(cell const& other) const;
  };
  using iterator = std::map<address, cell>::iterator;

  // Makes a cell begin at `at`, if `at` is inside one, and returns the first cell from there on.
  iterator split(address at);

  // Returns the cell that contains `at` after the merge.
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
