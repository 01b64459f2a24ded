// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/core/stable_sort.hpp"
#include "plait/plan/model/units.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// A range of bytes of the activation arena that starts at byte `offset`. The borders of all ranges
/// cut the arena into numbered pieces, and this range consists of pieces [first, end). Two ranges
/// that share bytes share a piece, so the numbers of the pieces show which operations must wait for
/// each other.
struct placed_range {
  std::size_t offset = 0;
  int first = 0, end = 0;
};

/// The kinds of buffers that a pass of a chunk on a microbatch leaves for later passes or receives
/// from earlier passes.
enum class live_buffer : int {
  stash,           ///< the values that the chunk's layers have saved
  gradient_stash,  ///< gradients that the first half of a backward leaves for the second half
  input,           ///< the chunk's input, received from the chunk before it
  gradient         ///< gradient with respect to the chunk's output, from the next chunk
};

/// The number of enumerators of `live_buffer`.
inline constexpr int live_buffers = int(live_buffer::gradient) + 1;

/// The bytes that a chunk needs in its stage's activation arena for one microbatch.
struct chunk_arena {
  unit_range units{};
  bool begins_model = false, ends_model = false;  ///< true for the model's first and last chunk
  /// True if the gradient with respect to this chunk's output is computed by another chunk.
  bool receives_gradient = false;
  /// The index of the chunk of the same stage that produces this chunk's input, and of the chunk
  /// that reads its output; -1: that chunk is on another stage.
  int handed_from = -1, handed_to = -1;
  std::size_t activation_stash_bytes = 0;  ///< saved activations of all units of the chunk
  /// Gradients that the first half of a split backward saves for the second half.
  std::size_t gradient_stash_bytes = 0;
  std::size_t input_bytes = 0;   ///< bytes of the chunk's input
  std::size_t output_bytes = 0;  ///< bytes of the chunk's output, or of its gradient

  /// Returns true if the input comes from another stage.
  [[nodiscard]] constexpr bool receives_input() const { return !begins_model && handed_from < 0; }
  /// Returns the bytes of a buffer, 0 if the chunk does not have it.
  [[nodiscard]] constexpr std::size_t bytes_of(live_buffer what) const {
    switch (what) {
      case live_buffer::stash: return activation_stash_bytes;
      case live_buffer::gradient_stash: return gradient_stash_bytes;
      case live_buffer::input: return receives_input() ? input_bytes : 0;
      case live_buffer::gradient: break;
    }
    return receives_gradient ? output_bytes : 0;
  }
};

/// The live range of a live_buffer: the buffer occupies its bytes from operation `from` of a
/// stage's list to operation `to`.
struct live_range {
  live_buffer what = live_buffer::stash;
  int chunk = 0, microbatch = 0;
  int from = 0, to = 0;  ///< first and last operation, both included
  std::size_t bytes = 0, offset = 0;
  placed_range place{};  ///< the buffer's bytes, once all live ranges have an offset

  [[nodiscard]] constexpr bool meets(live_range const& other) const {
    return from <= other.to && other.from <= to;
  }
  [[nodiscard]] constexpr bool shares_bytes_with(live_range const& other) const {
    return offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

/// Returns the live ranges of all buffers that the passes of a stage leave for each other, without
/// offsets. A buffer is live from the first to the last operation that touches it. Example: the
/// stash of microbatch 0 is live from its forward to its backward, with the operations of other
/// microbatches in between. A value that one chunk hands to another chunk of the stage is stored in
/// the stash of the first chunk, which stays live until the second chunk has read the value; the
/// value's gradient has a live range of its own.
[[nodiscard]] [[gnu::cold]] constexpr lean_vector<live_range> lives_of_passes(
    lean_vector<chunk_arena> const& chunks, std::vector<scheduled_work> const& operations,
    int microbatches) {
  auto const at = [](int i) { return static_cast<std::size_t>(i); };
  std::size_t const passes = chunks.size() * at(microbatches);
  lean_vector<live_range> all(passes * live_buffers, {.from = -1});
  auto const life = [&](live_buffer what, int chunk, int microbatch) -> live_range& {
    return all[(at(chunk) * at(microbatches) + at(microbatch)) * live_buffers + at(int(what))];
  };
  for (int c = 0; c < int(chunks.size()); ++c)
    for (int m = 0; m < microbatches; ++m)
      for (int what = 0; what < live_buffers; ++what) {
        auto& one = life(live_buffer(what), c, m);
        one.what = live_buffer(what), one.chunk = c, one.microbatch = m;
        one.bytes = chunks[at(c)].bytes_of(one.what);
      }
  for (int i = 0; i < int(operations.size()); ++i) {
    auto const& now = operations[at(i)];
    auto const& chunk = chunks[at(now.chunk)];
    auto const touch = [&](live_buffer what, int of_chunk) {
      auto& one = life(what, of_chunk, now.microbatch);
      if (one.from < 0) one.from = i;
      one.to = i;
    };
    switch (now.kind) {
      case work::receive_activation: touch(live_buffer::input, now.chunk); continue;
      case work::receive_gradient: touch(live_buffer::gradient, now.chunk); continue;
      case work::send_activation: touch(live_buffer::stash, now.chunk); continue;
      case work::send_gradient: continue;  // the gradient is in an edge buffer
      case work::forward:
      case work::backward:
      case work::backward_input:
      case work::backward_parameters: break;
    }
    touch(live_buffer::stash, now.chunk);
    if (chunk.handed_from >= 0) touch(live_buffer::stash, chunk.handed_from);
    else touch(live_buffer::input, now.chunk);
    if (now.kind == work::backward_input || now.kind == work::backward_parameters)
      touch(live_buffer::gradient_stash, now.chunk);
    if (now.kind == work::backward || now.kind == work::backward_input) {
      touch(live_buffer::gradient, now.chunk);
      if (chunk.handed_from >= 0) touch(live_buffer::gradient, chunk.handed_from);
    }
  }
  lean_vector<live_range> out;
  for (auto const& one : all)
    if (one.from >= 0 && one.bytes > 0) out.push_back(one);
  return out;
}

/// Returns the greatest number of bytes that are live at the same time.
[[nodiscard]] [[gnu::cold]] constexpr std::size_t live_bytes(lean_vector<live_range> const& lives) {
  int last = 0;
  for (auto const& one : lives) last = std::max(last, one.to);
  lean_vector<std::size_t> begins(std::size_t(last) + 2, 0), ends = begins;
  for (auto const& one : lives) {
    begins[std::size_t(one.from)] += one.bytes;
    ends[std::size_t(one.to) + 1] += one.bytes;
  }
  std::size_t now = 0, most = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) most = std::max(most, now += begins[i] - ends[i]);
  return most;
}

/// Returns true if no two buffers that are live at the same time share bytes.
[[nodiscard]] [[gnu::cold]] constexpr bool are_apart(lean_vector<live_range> const& lives) {
  for (std::size_t i = 0; i < lives.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (lives[i].meets(lives[k]) && lives[i].shares_bytes_with(lives[k])) return false;
  return true;
}

constexpr std::size_t end_of(lean_vector<live_range> const& lives) {
  std::size_t end = 0;
  for (auto const& one : lives) end = std::max(end, one.offset + one.bytes);
  return end;
}

/// The number of bytes that is reserved for each live range: the size of its buffer or, with
/// `as_longest`, the size of the largest buffer of the same kind.
struct place_lengths {
  std::array<std::size_t, std::size_t(live_buffers)> longest{};
  bool as_longest = false;

  constexpr place_lengths(lean_vector<live_range> const& lives, bool are_longest)
      : as_longest(are_longest) {
    for (auto const& one : lives) {
      auto& most = longest[std::size_t(one.what)];
      most = std::max(most, one.bytes);
    }
  }
  [[nodiscard]] constexpr std::size_t of(live_range const& one) const {
    return as_longest ? longest[std::size_t(one.what)] : one.bytes;
  }
};

/// Sorts live ranges by the size of their buffers, the largest first. Among buffers of equal size,
/// the live range that begins first comes first.
[[gnu::cold]] constexpr void sort_lives(lean_vector<live_range>& lives,
                                        place_lengths const& lengths) {
  detail::stable_sort(lives, [&](live_range const& a, live_range const& b) {
    auto const here = lengths.of(a), there = lengths.of(b);
    return here != there ? here > there : a.from < b.from;
  });
}

/// For each size of buffers, makes a pool of equal slots and places the buffers of this size in the
/// slots. A pool has as many slots as buffers of its size are live at the same time. `lives` must
/// be sorted by `lengths`.
[[gnu::cold]] constexpr void place_in_pools(lean_vector<live_range>& lives,
                                            place_lengths const& lengths) {
  std::size_t begin = 0, bytes = 0;
  lean_vector<int> busy_to;  // for each slot of a pool, the last operation of the buffer in it
  for (auto& one : lives) {
    if (lengths.of(one) != bytes) {
      begin += bytes * busy_to.size();
      bytes = lengths.of(one);
      busy_to.clear();
    }
    std::size_t place = 0;
    while (place < busy_to.size() && busy_to[place] >= one.from) ++place;
    if (place == busy_to.size()) busy_to.push_back(one.to);
    else busy_to[place] = one.to;
    one.offset = begin + bytes * place;
  }
}

/// Places the buffers in the order of `lives`, the largest first, each at the lowest offset that is
/// free while the buffer is live.
[[gnu::cold]] constexpr void place_largest_first(lean_vector<live_range>& lives) {
  lean_vector<std::size_t> placed;  // indices of placed live ranges, sorted by offset
  placed.reserve(lives.size());
  for (std::size_t i = 0; i < lives.size(); ++i) {
    auto& one = lives[i];
    std::size_t offset = 0;
    for (std::size_t const number : placed) {
      auto const& other = lives[number];
      if (other.to < one.from || one.to < other.from) continue;
      if (other.offset >= offset + one.bytes) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    one.offset = offset;
    std::size_t at = placed.size();
    placed.push_back(i);
    for (; at > 0 && lives[placed[at - 1]].offset > offset; --at) placed[at] = placed[at - 1];
    placed[at] = i;
  }
}

/// Places all buffers that the passes of a stage with several chunks leave for each other. Buffers
/// that are not live at the same time may share bytes. No method is best for all timetables, so
/// this function tries three methods and returns the places of the shortest arena. The methods are:
/// a pool of equal slots for each size of buffers; the largest buffer first, each at the lowest
/// free offset; and a pool for each kind of buffers, whose slots are as large as the largest buffer
/// of the kind. Example: buffers of 8, 8 and 4 bytes, of which only the first two are never live at
/// the same time, need 12 bytes.
///
/// Cost: the square of the number of buffers.
[[nodiscard]] [[gnu::cold]] constexpr lean_vector<live_range> placed_lives(
    lean_vector<chunk_arena> const& chunks, std::vector<scheduled_work> const& operations,
    int microbatches) {
  auto best = lives_of_passes(chunks, operations, microbatches);
  place_lengths const own(best, false), longest(best, true);
  sort_lives(best, own);
  auto other = best;
  place_in_pools(best, own);
  place_largest_first(other);
  if (end_of(other) < end_of(best)) best.swap(other);
  sort_lives(other, longest);
  place_in_pools(other, longest);
  if (end_of(other) < end_of(best)) best.swap(other);
  return best;
}

/// The places of the buffers that the passes of a stage leave for each other. With one chunk,
/// microbatches take slots in turn, and a place is computed from the microbatch. With several
/// chunks, `all` lists the place of each buffer.
struct placed_passes {
  /// The slots that the microbatches of one chunk use in turn.
  struct turn {
    placed_range first{};
    std::size_t bytes = 0;
    int count = 0;
  };
  int pieces = 0;
  std::size_t bytes = 0;  ///< length of all slots together
  std::array<turn, std::size_t(live_buffers)> turns{};
  int microbatches = 0;           ///< number of microbatches; 0 with one chunk, whose microbatches
                                  ///< take slots in turn
  lean_vector<live_range> all{};  ///< ordered by chunk, microbatch and buffer

  /// Returns the index of a buffer in `all`.
  [[nodiscard]] constexpr std::size_t number_of(live_buffer what, int chunk, int microbatch) const {
    auto const pass = std::size_t(chunk) * std::size_t(microbatches) + std::size_t(microbatch);
    return pass * std::size_t(live_buffers) + std::size_t(what);
  }
  [[nodiscard]] constexpr placed_range of(live_buffer what, int chunk, int microbatch) const {
    if (microbatches > 0) return all[number_of(what, chunk, microbatch)].place;
    auto const& in_turn = turns[std::size_t(what)];
    if (in_turn.count == 0) return {};
    int const place = microbatch % in_turn.count;
    return {in_turn.first.offset + in_turn.bytes * std::size_t(place), in_turn.first.first + place,
            in_turn.first.end + place};
  }
};

/// Places the buffers of a stage with one chunk: microbatch i has slot `i % n` of the n slots of a
/// kind. Example: a first stage of four under one_forward_one_backward has 4 stashes in flight, so
/// microbatch 5 uses slot 1.
[[nodiscard]] [[gnu::cold]] constexpr placed_passes place_in_turn(chunk_arena const& chunk,
                                                                  stage_slots const& slots) {
  placed_passes out;
  auto const add = [&](live_buffer what, int count) {
    std::size_t const bytes = chunk.bytes_of(what);
    if (bytes == 0) return;
    out.turns[std::size_t(what)] = {{out.bytes, out.pieces, out.pieces + 1}, bytes, count};
    out.bytes += bytes * std::size_t(count);
    out.pieces += count;
  };
  add(live_buffer::stash, slots.activations);
  add(live_buffer::gradient_stash, slots.activations);
  add(live_buffer::input, slots.inputs);
  add(live_buffer::gradient, slots.gradients);
  return out;
}

/// Places the buffers of a stage with several chunks by their live ranges. The borders of all
/// ranges cut the arena into pieces, and each range is a sequence of pieces. Example: the ranges 0
/// to 8 and 4 to 12 have the borders 0, 4, 8 and 12. The first has pieces 0 and 1, the second
/// pieces 1 and 2, so they share piece 1.
[[nodiscard]] [[gnu::cold]] constexpr placed_passes place_by_lives(
    lean_vector<chunk_arena> const& chunks, std::vector<scheduled_work> const& operations,
    int microbatches) {
  auto const lives = placed_lives(chunks, operations, microbatches);
  lean_vector<std::size_t> borders;  // ascending, without duplicates
  auto const add = [&](std::size_t border) {
    std::size_t at = borders.size();
    while (at > 0 && borders[at - 1] > border) --at;
    if (at > 0 && borders[at - 1] == border) return;
    borders.push_back(border);
    for (std::size_t i = borders.size() - 1; i > at; --i) borders[i] = borders[i - 1];
    borders[at] = border;
  };
  for (auto const& one : lives) add(one.offset), add(one.offset + one.bytes);
  auto const piece_at = [&](std::size_t offset) {
    int piece = 0;
    while (borders[std::size_t(piece)] < offset) ++piece;
    return piece;
  };
  placed_passes out;
  out.microbatches = microbatches;
  out.pieces = std::max(0, int(borders.size()) - 1);
  out.bytes = end_of(lives);
  out.all.resize(chunks.size() * std::size_t(microbatches) * std::size_t(live_buffers));
  auto const place = [&](live_buffer what, int chunk, int microbatch) -> placed_range& {
    return out.all[out.number_of(what, chunk, microbatch)].place;
  };
  for (auto const& one : lives)
    place(one.what, one.chunk, one.microbatch) = {one.offset, piece_at(one.offset),
                                                  piece_at(one.offset + one.bytes)};
  for (int c = 0; c < int(chunks.size()); ++c)
    for (int m = 0; m < microbatches && chunks[std::size_t(c)].handed_from >= 0; ++m)
      place(live_buffer::input, c, m) =
          place(live_buffer::stash, chunks[std::size_t(c)].handed_from, m);
  return out;
}

/// The bytes of the buffers that a stage's passes leave for each other: the length of the memory
/// for all of them, and the most bytes that are live at one time.
struct passed_bytes {
  std::size_t all = 0, live = 0;
};
/// Returns the bytes of the buffers that a stage's passes leave for each other. `HasChunks`: true
/// if a stage of the plan may have several chunks; otherwise the code for them is left out.
template <bool HasChunks>
[[nodiscard]] [[gnu::cold]] constexpr passed_bytes bytes_of_passes(
    lean_vector<chunk_arena> const& chunks, stage_program const& passes, int microbatches) {
  if constexpr (HasChunks)
    if (chunks.size() > 1) {
      auto const lives = placed_lives(chunks, passes.operations, microbatches);
      return {end_of(lives), live_bytes(lives)};
    }
  auto const bytes = place_in_turn(chunks[0], passes.slots).bytes;
  return {bytes, bytes};
}

template <bool HasChunks>
[[nodiscard]] [[gnu::cold]] constexpr placed_passes place_passes(
    lean_vector<chunk_arena> const& chunks, stage_program const& passes, int microbatches) {
  if constexpr (HasChunks)
    if (chunks.size() > 1) return place_by_lives(chunks, passes.operations, microbatches);
  return place_in_turn(chunks[0], passes.slots);
}

}  // namespace plait::planning
