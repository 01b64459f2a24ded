// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plait/backend/host/maths/optimizer.hpp"
#include "plait/backend/rounded_arena.hpp"
#include "plait/core/random.hpp"
#include "plait/core/stochastic_rounding.hpp"

namespace plait::host_maths {

/// Writes a random word for each of `count` elements of a block, from offset `begin` on. Elements
/// of padding get 0. The words are functions of the seed, the step, the parameter, and the index
/// of the element in the whole parameter.
template <class Arena>
void rounding_words(Arena const& of, std::size_t begin, std::size_t count, std::uint32_t* words) {
  std::fill_n(words, count, std::uint32_t{0});
  auto const* const last = of.origins + of.origin_count;
  auto const* origin = std::partition_point(
      of.origins, last, [&](auto const& each) { return each.offset + each.count <= begin; });
  for (; origin != last && origin->offset < begin + count; ++origin) {
    auto const key = ext::rounding_key(of.seed, origin->number, *of.step);
    std::size_t at = std::max(begin, origin->offset);
    std::size_t const end = std::min(begin + count, origin->offset + origin->count);
    while (at < end) {
      std::uint64_t index = origin->index(at);
      std::size_t const stop = at + std::min(origin->run(at), end - at);
      while (at < stop) {  // a block of random bits has words for up to four elements
        auto const random = ext::random_bits(key, index / 4);
        for (auto word = index % 4; word < 4 && at < stop; ++word, ++at, ++index)
          words[at - begin] = random.word[word];
      }
    }
  }
}

/// Makes one AdamW step on a range of an arena whose states are bfloat16. The states are widened
/// to the type of the parameters, the step is the adamw_update for states of that type, and the new
/// states are rounded stochastically.
///
/// `Parameter`: float or double.
template <class Parameter, class Gradient, class Copy>
[[gnu::noinline]] void adamw_update(ext::rounded_arena<Parameter, Gradient, Copy> const& of,
                                    ext::update_range const& range, adamw_step const& step) {
  constexpr std::size_t most = 1024;  // few enough for the caches of the processor
  Parameter first[most], second[most];
  std::uint32_t words[most];
  std::size_t const end = range.offset + range.count;
  for (std::size_t begin = range.offset; begin < end; begin += most) {
    std::size_t const count = std::min(most, end - begin);
    bfloat16 *const m = of.states + begin, *const v = m + of.state_stride;
    for (std::size_t i = 0; i < count; ++i) {
      first[i] = static_cast<float>(m[i]);
      second[i] = static_cast<float>(v[i]);
    }
    adamw_update(of.parameters + begin, of.gradients + begin, first, second, count, step);
    rounding_words(of, begin, count, words);
    for (std::size_t i = 0; i < count; ++i) {
      m[i] = ext::round_stochastically(static_cast<float>(first[i]), words[i] & 0xFFFFu);
      v[i] = ext::round_stochastically(static_cast<float>(second[i]), words[i] >> 16);
    }
  }
}

}  // namespace plait::host_maths
