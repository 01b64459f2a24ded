// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <thread>

#include "plait/core/lean_vector.hpp"
#include "plait/core/random_normal.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"

namespace plait::execution {

/// Writes the initial values of a rank's block of a parameter. Each value is a function of the
/// seed, the number of the parameter and the global index of the element. So every plan starts with
/// the same weights, and ranks need not send them. `rectangles`: the parts of the parameter that
/// the block contains, with their offsets in the block. Other elements of the block are padding,
/// and become zeros.
///
/// Threads: up to `threads` threads compute the values of a large block; the values do not depend
///          on the number of threads.
template <class T>
[[gnu::cold]] void initial_values(parameter_info const& info, int number, std::uint64_t seed,
                                  lean_vector<parameter_rectangle> const& rectangles,
                                  std::span<T> block, std::size_t threads = 1) {
  random_key const key{seed, static_cast<std::uint32_t>(number), 0xffffffffu};
  double const scale = info.initial.number();
  bool const is_constant = info.initial.how == initializer::kind::constant;
  auto const make = [&](element_range piece) {
    std::fill_n(block.begin() + static_cast<std::ptrdiff_t>(piece.offset), piece.count,
                static_cast<T>(0.0));
    for (auto const& each : rectangles)
      for_each_run(each, info.columns,
                   [&](std::size_t global, std::size_t local, std::size_t length) {
                     std::size_t const begin = std::max(local, piece.offset);
                     std::size_t const end = std::min(local + length, piece.end());
                     if (begin >= end) return;
                     auto const out = block.subspan(begin, end - begin);
                     if (is_constant) std::fill(out.begin(), out.end(), static_cast<T>(scale));
                     else random_normals(key, global + (begin - local), scale, out);
                   });
  };
  constexpr std::size_t worth_a_thread =
      std::size_t{1} << 15;  // the initial values of this many elements take 0.2 ms
  std::size_t const count = std::max(worth_a_thread, (block.size() + threads - 1) / threads);
  lean_vector<std::jthread> others;
  for (std::size_t begin = count; begin < block.size(); begin += count) {
    element_range const piece{begin, std::min(count, block.size() - begin)};
    try {
      others.push_back(std::jthread(make, piece));
    } catch (std::system_error const&) {  // the system cannot start another thread
      make(piece);
    }
  }
  make({0, std::min(count, block.size())});
}

/// Copies a rank's block out of a whole parameter. Elements of the block that are in no rectangle
/// become zeros. `rectangles`: the parts of the parameter that the block contains, with their
/// offsets in the block; `width`: the number of columns of the whole parameter.
template <class T>
void take_block(lean_vector<parameter_rectangle> const& rectangles, std::size_t width,
                std::span<T const> values, std::span<T> block) {
  std::fill(block.begin(), block.end(), T{0});
  for (auto const& each : rectangles)
    for_each_run(each, width, [&](std::size_t from, std::size_t to, std::size_t length) {
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), length,
                  block.begin() + static_cast<std::ptrdiff_t>(to));
    });
}

}  // namespace plait::execution
